//! Two versions of the rules on one database, as operators see them: which coordinators wait, and
//! which must stop.

use pgserver::Server;
use serde_json::Value;

use crate::home::{Home, Process};

const DATABASE: &str = "postgres";

/// Registers a coordinator with the versions it supports. It counts as live for half an hour,
/// however slow the machine is; more than an hour would look like a database whose clock is wrong.
fn joins(server: &Server, name: &str, oldest: u32, newest: u32) {
    let sql = format!(
        "INSERT INTO tenure.committers (committer, name, version, rules, oldest_rules, started_at, \
         seen_at) VALUES (decode(md5('{name}'), 'hex'), '{name}', '9.9.9', {newest}, {oldest}, 1, \
         (extract(epoch FROM clock_timestamp()) * 1000)::bigint + 1800000)"
    );
    server.sql(DATABASE, &sql).unwrap();
}

fn serve(home: &Home, store: &str) -> std::process::Command {
    let mut command =
        home.tenure(&["serve", "--json", "--listen", "127.0.0.1:0", "--store", store]);
    command.env("RUST_LOG", "off");
    command
}

fn named<'a>(list: &'a Value, member: &str, name: &str) -> &'a Value {
    let found = list.as_array().unwrap().iter().find(|entry| entry[member] == name);
    found.unwrap_or_else(|| panic!("{name} in {list}"))
}

#[test]
fn newer_rules_name_whom_they_wait_for_and_stop_whoever_lacks_them() {
    let (home, server) = (Home::new(), Server::builder().without_fsync().start().unwrap());
    let store = server.url(DATABASE);
    let mut command = serve(&home, &store);
    command.stderr(std::process::Stdio::piped());
    let mut serving = Process::start(command);
    serving.line();
    joins(&server, "older", 1, 1);
    joins(&server, "newer", 1, 2);
    let list = home.json(&["coordinators", "--json", "--store", &store]);
    let (older, newer) = (named(&list, "name", "older"), named(&list, "name", "newer"));
    assert_eq!((&older["rules"], &older["rulesOldest"]), (&1.into(), &1.into()), "{list}");
    assert_eq!((&older["rulesInForce"], &older["holdsBackRules"]), (&1.into(), &2.into()));
    assert_eq!(newer["holdsBackRules"], Value::Null, "{list}");
    let ran = home.run(&["coordinators", "--store", &store]);
    assert!(ran.stdout.contains("version 1 of the rules is in force; version 2 waits"), "{ran:?}");
    assert!(ran.stdout.lines().any(|line| line.starts_with("it waits for: ")), "{ran:?}");
    let examined = home.run(&["doctor", "--json", "--store", &store]);
    let checks: Value = serde_json::from_str(&examined.stdout).unwrap();
    let rules = named(&checks, "check", "rules");
    assert_eq!(rules["grade"], "warn", "{checks}");
    assert!(rules["remedy"].as_str().unwrap().contains("older"), "{checks}");

    // As the newer ones do once every coordinator without it has stopped or is no longer live.
    server.sql(DATABASE, "UPDATE tenure.meta SET rules = 2").unwrap();
    assert_eq!(serving.exit_code(), 4, "it stops by itself");
    let mut said = String::new();
    let mut stderr = serving.child.stderr.take().unwrap();
    std::io::Read::read_to_string(&mut stderr, &mut said).unwrap();
    let refused = crashlab::waits::run(&mut serve(&home, &store)).unwrap();
    assert_eq!(refused.status.code(), Some(4), "it does not start");
    for said in [said.as_bytes(), &refused.stderr] {
        let said: Value = serde_json::from_slice(said).unwrap();
        assert_eq!(said["error"], "rules_unknown", "{said}");
        let sentence = "version 2 of the rules is in force and this Tenure knows 1";
        assert!(said["message"].as_str().unwrap().contains(sentence), "{said}");
        assert!(said["hint"].as_str().unwrap().contains("newer Tenure"), "{said}");
    }
    // Reading is not deciding.
    let ran = home.run(&["verify", "--store", &store]);
    assert_eq!(ran.code, 0, "{ran:?}");
}
