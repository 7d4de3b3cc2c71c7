//! `tenure prove`: the guide run as written, a bundle without its store, and what an attacker leaves behind.

use rusqlite::Connection;
use serde_json::Value;

use crate::guides::{self, Reader};
use crate::home::{Home, Process, wait_until};

const GUIDE: &str = include_str!("../../../../docs/guide/provenance.md");

/// A server that seals records.
fn serve(home: &Home) -> Process {
    let arguments = ["serve", "--json", "--listen", "127.0.0.1:0", "--write-profile"];
    let mut command = home.tenure(&arguments);
    command.env("TENURE_SEAL_RECORDS", "true");
    let mut server = Process::start(command);
    server.line();
    server
}

fn worker(home: &Home, queue: &str) -> Process {
    Process::start(home.tenure(&["work", "--json", "--queue", queue, "--exec", "cat"]))
}

#[test]
fn the_guide_to_provenance_is_true() {
    let home = Home::new();
    let _server = serve(&home);
    let _worker = worker(&home, "demo");
    let mut reader = Reader::new(&home);
    let printed: String = guides::blocks(GUIDE).iter().map(|block| reader.follow(block)).collect();
    assert_eq!(printed.matches("greet Ann").count(), 3, "{printed}");
    assert_eq!(printed.matches("proved").count(), 3, "{printed}");
    assert!(home.path().join("run.bundle").exists());
}

/// A store with two ended runs, all sealed, whose server has stopped. Returns their ids.
fn sealed_store() -> (Home, [String; 2]) {
    let home = Home::new();
    let mut server = serve(&home);
    let worker = worker(&home, "q");
    let runs = ["first", "second"].map(|goal| home.submit(&["k", "--queue", "q", "--goal", goal]));
    runs.iter().for_each(|run| drop(home.ended(run)));
    drop(worker);
    server.signal("TERM");
    assert_eq!(server.exit_code(), 0);
    (home, runs)
}

fn tamper(home: &Home, sql: &str) {
    let raw = Connection::open(home.store()).unwrap();
    let mut statement =
        raw.prepare("SELECT name FROM sqlite_master WHERE type = 'trigger'").unwrap();
    let names: Vec<String> =
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    names.iter().for_each(|name| raw.execute_batch(&format!("DROP TRIGGER {name}")).unwrap());
    raw.execute_batch(sql).unwrap();
}

fn findings(home: &Home, arguments: &[&str]) -> (i32, Vec<String>) {
    let ran = home.run(arguments);
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"));
    let found = answer["findings"].as_array().unwrap();
    let codes = found.iter().map(|it| it["code"].as_str().unwrap().to_owned());
    (ran.code, codes.collect())
}

#[test]
fn a_server_that_stops_has_sealed_every_record() {
    // S2-114, W-5: nothing that ended is left without a record, nor its record without a seal.
    let (home, [first, second]) = sealed_store();
    for run in [&first, &second] {
        let proof = home.json(&["prove", run, "--json"]);
        assert_eq!(proof["proved"], true, "{proof}");
        assert_eq!((&proof["sealedRecords"], &proof["unsealedTail"]), (&1.into(), &0.into()));
        assert_eq!(proof["seals"], proof["sealsCheckedWithKey"], "{proof}");
        assert_eq!(proof["anchored"], true);
        assert_eq!(proof["tasks"][0]["attempts"][0]["outcome"], "SUCCEEDED");
    }
}

#[test]
fn a_running_server_seals_what_has_ended() {
    let home = Home::new();
    let _server = serve(&home);
    let _worker = worker(&home, "q");
    let run = home.submit(&["k", "--queue", "q"]);
    home.ended(&run);
    wait_until("the record is sealed", || {
        home.json(&["prove", &run, "--json"])["sealedRecords"] == 1
    });
}

#[test]
fn records_that_a_killed_server_left_are_sealed_by_the_next() {
    // W-5: the search finds what the list in memory lost.
    let home = Home::new();
    let mut server = serve(&home);
    let worker = worker(&home, "q");
    let run = home.submit(&["k", "--queue", "q"]);
    home.ended(&run);
    drop(worker);
    server.signal("KILL");
    server.exit_code();
    let _server = serve(&home);
    wait_until("the record is sealed", || {
        home.json(&["prove", &run, "--json"])["sealedRecords"] == 1
    });
}

#[test]
fn what_was_changed_is_named_with_its_code() {
    // S2-114: the finding names the task, and the exit code says that there is one.
    let (home, [first, second]) = sealed_store();
    tamper(&home, "UPDATE inputs SET goal = 'other' WHERE goal = 'first'");
    let (code, found) = findings(&home, &["prove", &first, "--json"]);
    assert_eq!((code, found), (1, vec!["sealed_record_differs".to_owned()]));
    let (code, found) = findings(&home, &["prove", &second, "--json"]);
    assert_eq!((code, found), (0, vec![]));
    tamper(&home, "UPDATE record_seals SET seal = randomblob(40)");
    let (_, found) = findings(&home, &["prove", &second, "--json"]);
    assert_eq!(found, ["seal_key_unknown"]);
    tamper(&home, "DELETE FROM record_seals");
    let (_, found) = findings(&home, &["prove", &second, "--json"]);
    assert_eq!(found, ["seals_truncated"]);
}

#[test]
fn a_deleted_run_is_named_by_its_seal() {
    let (home, [first, _]) = sealed_store();
    let goal = "(SELECT row FROM inputs WHERE goal = 'first')";
    tamper(&home, &format!("DELETE FROM done WHERE row = {goal}"));
    let ran = home.run(&["prove", &first]);
    ran.assert_error(1, "record_missing", "seal 1", "retention");
    let unknown = "run_01K9Z3D5A6B7C8D9E0F1G2H3J4";
    home.run(&["prove", unknown]).assert_error(3, "run_missing", unknown, "--store");
}

#[test]
fn a_bundle_is_checked_without_its_store() {
    let (home, [first, _]) = sealed_store();
    let exported = home.json(&["prove", &first, "--export", "run.bundle", "--json"]);
    assert_eq!(exported["bundle"], "run.bundle");
    let elsewhere = Home::new();
    let bundle = home.path().join("run.bundle");
    let (bundle, key) = (bundle.to_str().unwrap(), home.store().with_extension("key"));
    let anchor = home.store().with_extension("seals");
    let alone = elsewhere.json(&["prove", "--bundle", bundle, "--json"]);
    assert_eq!((&alone["proved"], &alone["sealsCheckedWithKey"]), (&true.into(), &0.into()));
    assert_eq!(alone["tasks"].as_array().unwrap().len(), 1);
    let (key, anchor) = (key.to_str().unwrap(), anchor.to_str().unwrap());
    let keyed = ["prove", "--bundle", bundle, "--key-file", key, "--anchor", anchor, "--json"];
    let keyed = elsewhere.json(&keyed);
    assert_eq!(keyed["proved"], true);
    assert_eq!(keyed["seals"], keyed["sealsCheckedWithKey"]);
    assert_eq!(keyed["anchored"], true);
    // Another key did not seal it.
    let _server = serve(&elsewhere);
    let other = elsewhere.store().with_extension("key");
    let other = ["prove", "--bundle", bundle, "--key-file", other.to_str().unwrap(), "--json"];
    assert_eq!(findings(&elsewhere, &other), (1, vec!["seal_key_unknown".to_owned()]));
    let again = home.run(&["prove", &first, "--export", "run.bundle"]);
    again.assert_error(4, "store_not_empty", "run.bundle", "empty");
}

#[test]
fn a_file_that_is_no_bundle_is_refused() {
    let home = Home::new();
    let missing = home.run(&["prove", "--bundle", "nothing"]);
    missing.assert_error(3, "bundle_missing", "nothing", "--export");
    std::fs::write(home.path().join("text"), "not a database, but long enough to be read").unwrap();
    home.run(&["prove", "--bundle", "text"]).assert_error(1, "bundle_invalid", "text", "again");
}
