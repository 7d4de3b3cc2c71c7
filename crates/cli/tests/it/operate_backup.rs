//! Backups taken while a server runs, and what a restore does to leases from before it.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;
use tenure::{Client, Error};
use wire::answers::Envelope;
use wire::requests::{Completed, LeaseRequest, Started};
use wire::{Outcome, Verdict};

use crate::home::{Home, Process};

const WORKER: &str = "old-hand";

pub(crate) fn client(home: &Home) -> Client {
    let profile = profile(home);
    Client::new(profile["url"].as_str().unwrap(), profile["apiKey"].as_str().unwrap()).unwrap()
}

pub(crate) fn url(home: &Home) -> String {
    profile(home)["url"].as_str().unwrap().to_owned()
}

fn profile(home: &Home) -> Value {
    serde_json::from_slice(&std::fs::read(home.profile()).unwrap()).unwrap()
}

pub(crate) async fn lease(client: &Client) -> Envelope {
    let request = LeaseRequest {
        worker_id: WORKER.to_owned(),
        queues: vec!["q".to_owned()],
        max: 1,
        wait_ms: Some(20_000),
        ..LeaseRequest::default()
    };
    client.lease(&request).await.unwrap().leases.into_iter().next().unwrap()
}

pub(crate) async fn start(client: &Client, envelope: &Envelope) {
    let started =
        Started { attempt: envelope.attempt, worker_id: WORKER.to_owned(), started_at: None };
    client.started(&envelope.task_id, &envelope.task_token, &started).await.unwrap();
}

pub(crate) fn success(envelope: &Envelope) -> Completed {
    Completed {
        spend: None,
        attempt: envelope.attempt,
        worker_id: WORKER.to_owned(),
        outcome: Outcome::Succeeded,
        completed_at: None,
        output: None,
        error: None,
        metrics: None,
        cancelled_during_phase: None,
        partial_progress: None,
        traceparent: None,
        steps: Vec::new(),
        children: Vec::new(),
        effects: Vec::new(),
        next: false,
        log: Vec::new(),
    }
}

pub(crate) fn stop(mut server: Process) {
    server.signal("TERM");
    assert_eq!(server.exit_code(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_from_before_a_restore_is_cancelled() {
    // S3-24, S3-20: a restore raises the epoch, so a worker with a lease from before has lost its
    // authority: 410 with the verdict CANCELLED. The next fence is larger than every one before.
    let home = Home::new();
    let server = home.serve();
    let id = home.submit(&["k", "--queue", "q", "--lease-ms", "8000", "--heartbeat-ms", "500"]);
    let before = lease(&client(&home)).await;
    start(&client(&home), &before).await;
    let backup = home.json(&["backup", "copy.db", "--json"]);
    assert_eq!((backup["live"].as_u64(), backup["ended"].as_u64()), (Some(1), Some(0)));
    stop(server);
    let restored = home.json(&["restore", "copy.db", "--force", "--json"]);
    assert!(restored["epoch"].as_u64() > backup["epoch"].as_u64(), "{restored}");

    let server = home.serve();
    let late = client(&home)
        .completed(&before.task_id, &before.task_token, &success(&before))
        .await
        .unwrap_err();
    let Error::Refused(problem) = late else { panic!("{late:?}") };
    assert_eq!((problem.status, problem.error.as_str()), (410, "task_expired"));
    assert_eq!(problem.verdict, Some(Verdict::Cancelled));

    let after = lease(&client(&home)).await;
    assert_eq!((after.task_id.as_str(), after.attempt), (before.task_id.as_str(), 2));
    assert!(after.fence > before.fence, "{} after {}", after.fence, before.fence);
    start(&client(&home), &after).await;
    client(&home).completed(&after.task_id, &after.task_token, &success(&after)).await.unwrap();
    assert_eq!(home.run_view(&id)["state"], "succeeded");
    stop(server);
    assert_eq!(home.json(&["verify", "--json"])["findings"], serde_json::json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_the_restored_store_never_heard_of_is_cancelled_too() {
    // S3-24: granted after the backup, so the restored store does not know the lease.
    let home = Home::new();
    let server = home.serve();
    home.submit(&["k", "--queue", "q"]);
    home.json(&["backup", "copy.db", "--json"]);
    let before = lease(&client(&home)).await;
    start(&client(&home), &before).await;
    stop(server);
    home.json(&["restore", "copy.db", "--force", "--json"]);
    let _server = home.serve();
    let after = lease(&client(&home)).await;
    assert!(after.fence > before.fence, "the same attempt number, a larger fence");
    let late = client(&home)
        .completed(&before.task_id, &before.task_token, &success(&before))
        .await
        .unwrap_err();
    let Error::Refused(problem) = late else { panic!("{late:?}") };
    assert_eq!((problem.status, problem.verdict), (410, Some(Verdict::Cancelled)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_lease_is_from_before_a_restore_says_so() {
    // S3-24: the gate `restored` of an explanation.
    let home = Home::new();
    let server = home.serve();
    let id = home.submit(&["k", "--queue", "q", "--lease-ms", "3600000"]);
    let before = lease(&client(&home)).await;
    start(&client(&home), &before).await;
    home.json(&["backup", "copy.db", "--json"]);
    stop(server);
    home.json(&["restore", "copy.db", "--force", "--json"]);
    let _server = home.serve();
    let explained = home.json(&["explain", &id, "--json"]);
    assert_eq!(explained["gates"][0]["gate"], "restored", "{explained}");
    assert!(explained["gates"][0]["at"].is_string(), "{explained}");
}

#[test]
fn every_restore_of_the_same_backup_begins_another_life() {
    // S3-24: fences of the first restore may still be in use when the second happens.
    let home = Home::new();
    stop(home.serve());
    home.json(&["backup", "copy.db", "--json"]);
    let epoch =
        || home.json(&["restore", "copy.db", "--force", "--json"])["epoch"].as_u64().unwrap();
    let (first, second) = (epoch(), epoch());
    assert!(first < second, "{first} and {second}");
}

#[test]
fn a_backup_is_private_whole_and_never_overwrites_by_accident() {
    let home = Home::new();
    let _server = home.serve();
    for n in 0..20 {
        home.submit(&["k", "--queue", "q", "--input", &n.to_string()]);
    }
    let ran = home.run(&["backup", "copy.db"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("20 live tasks") && ran.stdout.contains("signing key"), "{ran:?}");
    let mode = std::fs::metadata(home.path().join("copy.db")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let again = home.run(&["backup", "copy.db"]);
    again.assert_error(4, "file_exists", "already exists", "--force");
    assert_eq!(home.run(&["backup", "copy.db", "--force"]).code, 0);
    let verified = home.json(&["verify", "--json", "--store", "copy.db"]);
    assert_eq!(
        (verified["tasks"].as_u64(), &verified["findings"]),
        (Some(20), &Value::Array(vec![]))
    );
    let drafts = std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!drafts.into_iter().any(|name| name.to_string_lossy().contains("partial")));
}

#[test]
fn a_restore_refuses_a_store_in_use_one_that_is_there_and_a_file_that_is_no_backup() {
    let home = Home::new();
    let server = home.serve();
    let id = home.submit(&["k", "--queue", "q"]);
    home.json(&["backup", "copy.db", "--json"]);
    let used = home.run(&["restore", "copy.db", "--force"]);
    used.assert_error(4, "store_closed", "already open in process", "stop that process");
    stop(server);
    let there = home.run(&["restore", "copy.db"]);
    there.assert_error(4, "file_exists", "already exists", "--force");

    std::fs::write(home.path().join("text"), "not a database at all, but long enough").unwrap();
    let text = home.run(&["restore", "text", "--store", "new.db"]);
    assert_eq!(text.code, 4, "{text:?}");
    rusqlite::Connection::open(home.path().join("other.db"))
        .unwrap()
        .execute_batch("CREATE TABLE t (a)")
        .unwrap();
    let other = home.run(&["restore", "other.db", "--store", "new.db"]);
    other.assert_error(4, "store_closed", "another program", "a separate file");
    home.run(&["restore", "none", "--store", "new.db"]).assert_error(
        3,
        "backup_missing",
        "none",
        "tenure backup",
    );
    assert!(!home.path().join("new.db").exists());
    let _server = home.serve();
    assert_eq!(home.run_view(&id)["state"], "queued", "nothing was touched");
}

#[test]
fn a_damaged_backup_is_refused_and_the_store_stays() {
    let home = Home::new();
    let server = home.serve();
    for _ in 0..50 {
        home.submit(&["k", "--queue", "q", "--input", "\"some input that fills pages\""]);
    }
    home.json(&["backup", "copy.db", "--json"]);
    stop(server);
    let path = home.path().join("copy.db");
    let mut bytes = std::fs::read(&path).unwrap();
    // The pages after the schema: enough of them to hit some index or table.
    let from = bytes.len() / 2;
    bytes[from..].fill(0xaa);
    std::fs::write(&path, bytes).unwrap();
    let ran = home.run(&["restore", "copy.db", "--force"]);
    assert_ne!(ran.code, 0, "{ran:?}");
    assert_eq!(home.json(&["verify", "--json"])["tasks"], 50, "the old store is still there");
}
