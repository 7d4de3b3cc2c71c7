//! `tenure doctor` on a healthy installation, and on each possible problem.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;

use crate::home::{Home, Process};

fn examine(home: &Home) -> (i32, Value) {
    let ran = home.run(&["doctor", "--json"]);
    (ran.code, serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{e}: {ran:?}")))
}

fn grade(checks: &Value, name: &str) -> String {
    let found = checks.as_array().unwrap().iter().find(|check| check["check"] == name);
    found.unwrap_or_else(|| panic!("{name} in {checks}"))["grade"].as_str().unwrap().to_owned()
}

fn open_to_all(path: &Path) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).unwrap();
}

#[test]
fn a_sound_installation_passes_every_check() {
    let home = Home::new();
    let _server = home.serve();
    let (code, checks) = examine(&home);
    assert_eq!(code, 0, "{checks}");
    for name in [
        "profile",
        "server",
        "ready",
        "version",
        "key",
        "clock",
        "tasks",
        "deliveries",
        "store",
        "signing key",
    ] {
        assert_eq!(grade(&checks, name), "ok", "{checks}");
    }
    for name in ["folder", "disk", "open files"] {
        assert_ne!(grade(&checks, name), "fail", "{checks}");
    }
    let ran = home.run(&["doctor"]);
    assert!(ran.stdout.lines().any(|line| line.starts_with("ok    server")), "{ran:?}");
}

#[test]
fn files_that_others_may_read_fail_with_the_command_that_helps() {
    let home = Home::new();
    let _server = home.serve();
    open_to_all(&home.store());
    open_to_all(&home.store().with_extension("key"));
    open_to_all(&home.profile());
    let (code, checks) = examine(&home);
    assert_eq!(code, 1, "{checks}");
    for name in ["store", "signing key", "profile"] {
        assert_eq!(grade(&checks, name), "fail", "{checks}");
    }
    assert!(home.run(&["doctor"]).stdout.contains("-> chmod 600"));
}

#[test]
fn a_server_that_does_not_answer_and_a_key_it_does_not_know_fail() {
    let home = Home::new();
    let server = home.serve();
    let mut command = home.tenure(&["doctor", "--json"]);
    let output = command.env("TENURE_API_KEY", "tnr_wrong").output().unwrap();
    let checks: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), grade(&checks, "key").as_str()), (Some(1), "fail"));
    drop(server);
    let (code, checks) = examine(&home);
    assert_eq!((code, grade(&checks, "server").as_str()), (1, "fail"));
    assert_eq!(grade(&checks, "store"), "ok", "what can be looked at is looked at");
}

#[test]
fn without_a_store_here_the_server_may_be_elsewhere() {
    let home = Home::new();
    let _server = home.serve();
    let ran = home.run(&["doctor", "--store", "elsewhere/tenure.db"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("warn  store"), "{ran:?}");
    assert!(!home.path().join("elsewhere").exists(), "nothing is made");
}

#[test]
fn a_tenant_at_its_limits_is_told() {
    let home = Home::new();
    let _server = home.serve();
    let limits = |checks: &Value| -> Vec<String> {
        let all = checks.as_array().unwrap().iter().filter(|check| check["check"] == "limits");
        all.map(|check| check["found"].as_str().unwrap().to_owned()).collect()
    };
    let (_, checks) = examine(&home);
    assert_eq!((grade(&checks, "limits").as_str(), limits(&checks).len()), ("ok", 1), "{checks}");
    home.json(&["limits", "set", "default", "--unfinished-runs", "1", "--json"]);
    home.submit(&["k", "--queue", "q"]);
    let (code, checks) = examine(&home);
    assert_eq!((code, grade(&checks, "limits").as_str()), (0, "warn"), "{checks}");
    assert_eq!(limits(&checks), ["default has 1 of 1 unfinished runs: new runs are refused"]);
    // With a key that is not an administrator's, the check says that it lacks permission.
    let key = home.json(&["keys", "create", "--name", "w", "--role", "worker", "--json"]);
    let mut command = home.tenure(&["doctor", "--json"]);
    let output = command.env("TENURE_API_KEY", key["secret"].as_str().unwrap()).output().unwrap();
    let checks: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(grade(&checks, "limits"), "ok", "{checks}");
}

#[test]
fn a_task_that_cannot_be_read_is_named_with_what_is_wrong_and_others_go_on() {
    // G2: one damaged row in the file, as a broken disk or a manual edit leaves it.
    let home = Home::new();
    let server = home.serve();
    let bad = home.submit(&["k", "--queue", "q"]);
    drop(server);
    let file = rusqlite::Connection::open(home.store()).unwrap();
    file.pragma_update(None, "ignore_check_constraints", true).unwrap();
    assert_eq!(file.execute("UPDATE live SET chain = x'00'", []).unwrap(), 1);
    drop(file);
    let _server = home.serve();
    let good = home.submit(&["k", "--queue", "q"]);
    let bad_task = bad.replace("run_", "task_");
    let _worker = Process::start(home.tenure(&["work", "--json", "--queue", "q", "--exec", "cat"]));
    home.until(&good, "it succeeds", |run| run["state"] == "succeeded");
    let (code, checks) = examine(&home);
    assert_eq!((code, grade(&checks, "tasks").as_str()), (1, "fail"), "{checks}");
    let ran = home.run(&["doctor"]);
    assert!(ran.stdout.contains(&bad_task) && ran.stdout.contains("set aside"), "{ran:?}");
}
