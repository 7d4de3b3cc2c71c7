//! `verify` on intact and on tampered stores.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;

use crate::home::{CommandOutput, Home, Process};

/// The user `nobody`: permissions of files mean nothing to root.
const NOBODY: u32 = 65534;

fn worked_store() -> Home {
    let home = Home::new();
    let mut server = home.serve();
    let worker = Process::start(home.tenure(&["work", "--json", "--queue", "q", "--exec", "cat"]));
    let id = home.submit(&["k", "--queue", "q"]);
    home.ended(&id);
    home.submit(&["k", "--queue", "other"]);
    drop(worker);
    server.signal("TERM");
    assert_eq!(server.exit_code(), 0);
    home
}

#[test]
fn a_sound_store_has_no_findings() {
    let home = worked_store();
    let answer = home.json(&["verify", "--json"]);
    assert_eq!(answer["findings"], serde_json::json!([]));
    assert_eq!(answer["tasks"], 2);
    let ran = home.run(&["verify"]);
    assert!(ran.stdout.contains("no findings"), "{ran:?}");
}

#[test]
fn what_was_changed_behind_the_rules_is_found() {
    let home = worked_store();
    let connection = rusqlite::Connection::open(home.store()).unwrap();
    let change = "UPDATE live SET priority = priority + 1";
    assert!(connection.execute(change, []).is_err(), "the database itself refuses this");
    let guards = "SELECT name FROM sqlite_master WHERE type = 'trigger'";
    let names: Vec<String> = connection
        .prepare(guards)
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    for name in names {
        connection.execute(&format!("DROP TRIGGER \"{name}\""), []).unwrap();
    }
    assert_eq!(connection.execute(change, []).unwrap(), 1);
    drop(connection);
    let ran = home.run(&["verify", "--json"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let answer: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert!(!answer["findings"].as_array().unwrap().is_empty(), "{answer}");
    assert_eq!(home.run(&["verify"]).code, 1);
}

#[test]
fn a_store_that_is_not_there_is_not_made() {
    let home = Home::new();
    let ran = home.run(&["verify", "--store", "nothing.db"]);
    ran.assert_error(3, "store_missing", "nothing.db", "--store");
    assert!(!home.path().join("nothing.db").exists());
}

#[test]
fn a_backup_in_a_read_only_folder_is_checked() {
    let home = worked_store();
    let folder = home.path().join("backups");
    fs::create_dir(&folder).unwrap();
    assert_eq!(home.run(&["backup", "backups/night.db"]).code, 0);
    let mode = |path: &std::path::Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(home.path(), 0o755);
    mode(&folder.join("night.db"), 0o444);
    mode(&folder, 0o555);
    let mut command = home.tenure(&["verify", "--store", "backups/night.db"]);
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY);
    }
    let ran = CommandOutput::of(command.output().unwrap());
    mode(&folder, 0o755);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("no findings in 2 tasks"), "{ran:?}");
    assert!(ran.stderr.contains("is read-only; checking a copy"), "{ran:?}");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing is left beside it");
}
