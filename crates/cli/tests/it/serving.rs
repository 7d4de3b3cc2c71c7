//! `dev` and `serve`: keys, profile, logs, restarts.

use std::os::unix::fs::PermissionsExt;

use crate::home::{Home, Process};

#[test]
fn dev_remembers_its_address_and_key_for_the_other_terminals() {
    let home = Home::new();
    let mut dev = Process::start(home.tenure(&["dev", "--json", "--port", "0"]));
    let ready = dev.line();
    let profile = std::fs::read_to_string(home.profile()).unwrap();
    let profile: serde_json::Value = serde_json::from_str(&profile).unwrap();
    assert_eq!((&profile["url"], &profile["apiKey"]), (&ready["url"], &ready["apiKey"]));
    let mode = std::fs::metadata(home.profile()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(home.json(&["queues", "--json"]), serde_json::json!([]));
    dev.signal("INT");
    assert_eq!(dev.exit_code(), 0);
}

#[test]
fn dev_prints_commands_that_can_be_pasted() {
    let home = Home::new();
    let mut dev = Process::start(home.tenure(&["dev", "--port", "0"]));
    let mut text = String::new();
    while !text.contains("Ctrl-C") {
        text.push_str(&dev.text_line());
    }
    for expected in ["http://127.0.0.1:", "tnr_", "work --queue", "submit ", "--wait", "tenure.db"]
    {
        assert!(text.contains(expected), "{expected} in {text}");
    }
}

#[test]
fn a_key_that_the_profile_keeps_is_not_said_to_be_shown_once() {
    let home = Home::new();
    let announced = |more: &[&str]| {
        let serve = [&["serve", "--listen", "127.0.0.1:0"][..], more].concat();
        let mut server = Process::start(home.tenure(&serve));
        let mut text = String::new();
        while !text.contains("It has all roles") {
            text.push_str(&server.text_line());
        }
        text
    };
    assert!(announced(&[]).contains("shown only once"));
    for _ in 0..2 {
        let text = announced(&["--write-profile"]);
        let kept = home.profile().display().to_string();
        assert!(!text.contains("only once") && text.contains(&kept), "{text}");
    }
}

#[test]
fn a_key_outlives_the_server_and_work_outlives_it_too() {
    let home = Home::new();
    let mut dev = Process::start(home.tenure(&["dev", "--json", "--port", "0"]));
    let first = dev.line();
    let id = home.submit(&["k", "--queue", "q"]);
    dev.signal("TERM");
    assert_eq!(dev.exit_code(), 0);
    let mut dev = Process::start(home.tenure(&["dev", "--json", "--port", "0"]));
    let second = dev.line();
    assert_eq!(first["apiKey"], second["apiKey"], "other terminals keep working");
    assert_eq!(home.run_view(&id)["state"], "queued");
}

#[test]
fn serve_makes_a_key_once_and_logs_json_where_nobody_watches() {
    let home = Home::new();
    let arguments = ["serve", "--json", "--listen", "127.0.0.1:0"];
    let log = std::fs::File::create(home.path().join("log")).unwrap();
    let mut command = home.tenure(&arguments);
    command.stderr(log).env("RUST_LOG", "info");
    let mut server = Process::start(command);
    let ready = server.line();
    let key = ready["apiKey"].as_str().unwrap().to_owned();
    assert!(!home.profile().exists(), "serve writes no profile unless told");
    let url = ready["url"].as_str().unwrap();
    assert_eq!(home.run(&["queues", "--url", url, "--key", &key]).code, 0);
    server.signal("TERM");
    assert_eq!(server.exit_code(), 0);
    let log = std::fs::read_to_string(home.path().join("log")).unwrap();
    assert!(!log.is_empty() && log.lines().all(|line| line.starts_with('{')), "{log}");
    assert!(!log.contains(&key), "secrets are not logged");

    let mut again = Process::start(home.tenure(&arguments));
    assert!(again.line()["apiKey"].is_null(), "the key is shown once");
}

#[test]
fn a_key_given_by_the_environment_is_used() {
    let home = Home::new();
    let _server = home.serve();
    let mut command = home.tenure(&["queues", "--json"]);
    let output = command.env("TENURE_API_KEY", "tnr_wrong").output().unwrap();
    assert_eq!(output.status.code(), Some(5));
}

#[test]
fn files_of_the_server_are_for_its_owner_only() {
    let home = Home::new();
    let _server = home.serve();
    let folder = home.store().parent().unwrap().to_owned();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", entry.path().display());
    }
}

#[test]
fn who_waits_for_a_run_waits_for_a_restarted_server_too() {
    let home = Home::new();
    let mut dev = Process::start(home.tenure(&["dev", "--json", "--port", "0"]));
    let url = dev.line()["url"].as_str().unwrap().to_owned();
    let id = home.submit(&["k", "--queue", "q"]);
    let mut watch = Process::start(home.tenure(&["runs", "watch", "--json", &id]));
    watch.line();
    dev.signal("TERM");
    assert_eq!(dev.exit_code(), 0, "a waiting client does not keep the server from ending");
    let port = url.rsplit(':').next().unwrap();
    let mut dev = Process::start(home.tenure(&["dev", "--json", "--port", port]));
    dev.line();
    assert_eq!(home.run(&["runs", "cancel", &id]).code, 0);
    assert_eq!(watch.exit_code(), 12);
}
