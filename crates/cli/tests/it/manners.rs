//! Small things that a new user meets: empty variables, two servers in one profile, `localhost`, TLS and plain HTTP.

use crate::home::{Home, Process};

#[test]
fn an_empty_variable_counts_as_unset() {
    let home = Home::new();
    let _server = home.serve();
    let mut command = home.tenure(&["queues", "--json"]);
    command.env("TENURE_API_KEY", "").env("TENURE_URL", "");
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn each_server_of_a_profile_keeps_its_key() {
    let home = Home::new();
    let _first = home.serve();
    let first = home.profile_url();
    let arguments = ["serve", "--json", "--listen", "localhost:0", "--write-profile", "--store"];
    let mut second = Process::start(home.tenure(&[&arguments[..], &["sqlite:other.db"]].concat()));
    second.line();
    assert_ne!(home.profile_url(), first);
    home.submit(&["k", "--queue", "of-the-second"]);
    home.submit(&["k", "--queue", "of-the-first", "--url", &first]);
    let queues = home.json(&["queues", "list", "--json", "--url", &first]);
    assert_eq!(queues[0]["queue"], "of-the-first", "{queues}");
    assert_eq!(queues.as_array().unwrap().len(), 1);
    let by_name = first.replace("127.0.0.1", "localhost");
    assert_eq!(home.json(&["queues", "--json", "--url", &by_name]), queues);
}

#[test]
fn tls_that_meets_plain_http_is_explained() {
    let home = Home::new();
    let _server = home.serve();
    let url = home.profile_url().replace("http:", "https:");
    let ran = home.run(&["queues", "--url", &url, "--key", "tnr_x"]);
    ran.assert_error(6, "speaks_plain_http", "This port speaks plain HTTP", "http://127.0.0.1");
}

#[test]
fn a_store_in_use_is_verified_through_a_backup() {
    let home = Home::new();
    let _server = home.serve();
    home.submit(&["k", "--queue", "q"]);
    let config = home.path().join("tenure.toml");
    std::fs::write(&config, format!("store = \"sqlite:{}\"\n", home.store().display())).unwrap();
    let config = config.to_str().unwrap();
    let ran = home.run(&["verify", "--config", config]);
    ran.assert_error(4, "store_closed", "already open", "tenure backup copy.db");
    let copied = home.run(&["backup", "copy.db", "--config", config]);
    assert_eq!(copied.code, 0, "{copied:?}");
    let verified = home.json(&["verify", "--json", "--store", "sqlite:copy.db"]);
    assert_eq!(verified["tasks"], 1, "{verified}");
}

#[test]
fn maintenance_finds_the_store_in_the_config_file() {
    let home = Home::new();
    std::fs::write(home.path().join("tenure.toml"), "store = \"sqlite:elsewhere.db\"\n").unwrap();
    for command in [&["verify"][..], &["backup", "copy.db"], &["prune", "--older-than", "24h"]] {
        let ran = home.run(&[command, &["--config", "tenure.toml"]].concat());
        ran.assert_error(3, "store_missing", "elsewhere.db", "--store");
    }
    let doctor = home.run(&["doctor", "--config", "tenure.toml"]);
    assert!(doctor.stdout.contains("elsewhere.db"), "{doctor:?}");
    let missing = home.run(&["doctor", "--config", "nothing.toml"]);
    missing.assert_error(3, "config_unreadable", "nothing.toml", "--config");
}
