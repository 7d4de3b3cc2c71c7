//! A database that is deleted under a running server, and what a restart finds of it.

use std::fs;

use crate::home::{Home, wait_until};

/// Removes the database with its log, and with its lock file too, as `rm tenure.db*` does.
fn delete_database(home: &Home) {
    for suffix in ["", "-wal", "-shm", ".lock"] {
        let path = home.store().with_file_name(format!("tenure.db{suffix}"));
        let _ = fs::remove_file(path);
    }
}

fn is_ready(home: &Home) -> bool {
    let url = format!("{}/readyz", home.profile_url());
    let asked = ["-s", "-o", "/dev/null", "-w", "%{http_code}", &url];
    let output = std::process::Command::new("curl").args(asked).output().unwrap();
    output.stdout == b"200"
}

#[test]
fn a_server_without_its_database_acknowledges_nothing_and_a_restart_says_so() {
    let home = Home::new();
    let mut server = home.serve();
    home.submit(&["k", "--queue", "q"]);
    assert!(is_ready(&home));
    delete_database(&home);
    let ran = home.run(&["submit", "k", "--queue", "q"]);
    assert_eq!(ran.code, 6, "{ran:?}");
    assert!(ran.stderr.contains("its file was deleted or moved"), "{ran:?}");
    wait_until("/readyz turning red", || !is_ready(&home));
    server.signal("TERM");
    server.exit_code();

    // The key and the anchor are evidence: no empty store is created beside them.
    let ran = home.run(&["serve", "--listen", "127.0.0.1:0"]);
    ran.assert_error(4, "store_gone", "tenure.db is gone, but", "`tenure restore` a backup");
    assert!(ran.stderr.contains("tenure.key and "), "{ran:?}");
    assert!(!home.store().exists());
    let store = format!("sqlite:{}", home.store().display());
    let ran = home.run(&["audit", "verify", "--store", &store]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stdout.contains("entries 1 to 1 were written and are missing"), "{ran:?}");
    assert_eq!(home.run(&["verify"]).code, 1);

    // The way out: both files are moved away on purpose.
    fs::remove_file(home.store().with_extension("anchor")).unwrap();
    home.run(&["serve", "--listen", "127.0.0.1:0"]).assert_error(4, "store_gone", "tenure.key", "");
    fs::remove_file(home.store().with_extension("key")).unwrap();
    let _server = home.serve();
    assert!(is_ready(&home));
}
