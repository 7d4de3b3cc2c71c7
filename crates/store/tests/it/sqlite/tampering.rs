//! `verify` detects rows that were changed behind the store's back.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;
use store::codec::inline_history::InlineHistory;
use store::sqlite::SqliteStore;
use store::verify::{Report, verify};
use store::{Entry, Store};
use storetest::ManualClock;
use verdict::request::{CancelMode, Outcome, Submit};
use verdict::{Category, Digest, Event, Fault, Policy, Request, Span, TaskId, Time};

use super::test_coordinator::{TestCoordinator, options, spec};

/// A store with tasks in every state, reached in many ways.
pub(super) async fn populate(path: &Path) {
    let mut coordinator = TestCoordinator::open(path).await;
    coordinator.submit(1).await.unwrap();
    let ready = coordinator.grant().await.unwrap().unwrap();
    coordinator.started(&ready).await.unwrap();
    coordinator.clock.advance(Span::from_secs(10));
    coordinator.heartbeat(&ready).await.unwrap();
    coordinator.succeed(&ready, &format!("\"{}\"", "o".repeat(300))).await.unwrap();

    let once = Policy { failures_max: 2, ..Policy::default() };
    coordinator.submit_with(2, once, spec(Some("k"))).await.unwrap();
    let fault = Fault {
        category: Category::UserCode,
        message: "no".into(),
        stack_trace: Some("at line 1\n".repeat(30).into()),
        retryable: None,
    };
    for _ in 0..2 {
        let ready = coordinator.grant().await.unwrap().unwrap();
        coordinator.fail(&ready, fault.clone()).await.unwrap();
        coordinator.clock.advance(Span::from_secs(600));
    }

    coordinator.submit(3).await.unwrap();
    coordinator.grant().await.unwrap().unwrap();
    coordinator.cancel(3, CancelMode::Immediate).await.unwrap();

    coordinator.submit(4).await.unwrap();
    let ready = coordinator.grant().await.unwrap().unwrap();
    coordinator.started(&ready).await.unwrap();
    coordinator.cancel(4, CancelMode::Graceful).await.unwrap();
    coordinator.heartbeat(&ready).await.unwrap();
    coordinator.report(&ready, Outcome::Cancelled { output: None }).await.unwrap();

    coordinator.submit(5).await.unwrap();
    let ready = coordinator.grant().await.unwrap().unwrap();
    coordinator.heartbeat(&ready).await.unwrap();
    coordinator.clock.advance(Span::from_secs(600));
    coordinator.sweep(5).await.unwrap();
    let ready = coordinator.grant().await.unwrap().unwrap();
    coordinator.heartbeat(&ready).await.unwrap();
    coordinator.submit(6).await.unwrap();
}

pub(super) async fn verified(path: &Path) -> Report {
    let clock = Arc::new(ManualClock::default());
    let accepting = options(&clock).with_ahead(store::ClockAhead::Accept);
    let store = SqliteStore::open(path, accepting).unwrap();
    verify(store.browse()).await.unwrap()
}

#[tokio::test]
async fn an_honest_store_has_no_findings() {
    // S2-114: every ended task has a record that anyone can recompute.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.db");
    populate(&path).await;
    let report = verified(&path).await;
    assert_eq!(report.findings, []);
    assert_eq!((report.tasks, report.attempts), (6, 6));
    assert!(report.entries > 15);
}

/// Ways to tamper, each with a word that the finding must contain.
const TAMPERINGS: [(&str, &str); 32] = [
    ("UPDATE done SET state = 'failed' WHERE row = 1", "history"),
    ("UPDATE done SET output = '2' WHERE row = 1", "record"),
    ("UPDATE done SET reason = 'CANCEL_TIMEOUT' WHERE row = 3", "history"),
    ("UPDATE done SET completed_at = completed_at + 1 WHERE row = 1", "completed_at"),
    ("UPDATE done SET started_at = NULL WHERE row = 1", "started_at"),
    ("UPDATE done SET record = zeroblob(32) WHERE row = 2", "record"),
    ("UPDATE done SET attempt = 5 WHERE row = 1", "attempts"),
    ("UPDATE done SET entries = 9 WHERE row = 1", "entries"),
    ("UPDATE done SET fault = NULL WHERE row = 2", ", fault"),
    ("UPDATE done SET cancel = NULL WHERE row = 3", "cancel"),
    ("DELETE FROM done WHERE row = 1", "neither live nor done"),
    ("DELETE FROM live WHERE row = 6", "neither live nor done"),
    ("UPDATE live SET revision = 1 WHERE row = 5", "revision"),
    ("UPDATE live SET attempt = 1 WHERE row = 5", "attempt"),
    ("UPDATE live SET owner = 'mallory' WHERE row = 5", "history in owner"),
    ("UPDATE live SET fence = 1 WHERE row = 5", "fence"),
    ("UPDATE live SET claimable_at = claimable_at + 1 WHERE row = 6", "history in claimable_at"),
    ("UPDATE live SET chain = zeroblob(32) WHERE row = 6", "record"),
    ("UPDATE live SET lost = 0 WHERE row = 5", "lost"),
    ("UPDATE attempts SET outcome = 'SUCCEEDED' WHERE task = 3", "attempts"),
    ("UPDATE attempts SET claims = '{}' WHERE task = 1", "attempt 1 differs"),
    ("UPDATE attempts SET owner = 'mallory' WHERE task = 2 AND attempt = 1", "record"),
    (
        "DELETE FROM attempts WHERE task = 2 AND attempt = 1",
        "attempt 2 is in the place of attempt 1",
    ),
    ("DELETE FROM history WHERE task = 2 AND n = 4", "entry 5 is in the place of entry 4"),
    ("UPDATE inputs SET tale = NULL WHERE row = 1", "entry 2 is in the place of entry 1"),
    ("UPDATE done SET tale = NULL WHERE row = 1", "history says queued"),
    ("UPDATE live SET tale = x'0102' WHERE row = 5", "cannot be read"),
    ("UPDATE history SET at = at - 5000 WHERE task = 2 AND n = 3", "older"),
    (
        "UPDATE history SET request = '{\"cancel\":{\"manner\":\"force\"}}' WHERE task = 2 AND n = 3",
        "decide",
    ),
    ("UPDATE history SET events = '[\"started\"]' WHERE task = 2 AND n = 4", "fit"),
    ("UPDATE history SET events = 'gibberish' WHERE task = 2 AND n = 4", "cannot be read"),
    ("UPDATE inputs SET input = '{\"width\":1}' WHERE row = 1", "input"),
];

#[tokio::test]
async fn every_tampering_is_found() {
    // S2-111, S2-114: a row changed by anything but a decision contradicts another row.
    let folder = tempfile::tempdir().unwrap();
    let original = folder.path().join("tenure.db");
    populate(&original).await;
    for (n, (sql, word)) in TAMPERINGS.into_iter().enumerate() {
        let path = copy(&original, &format!("copy{n}.db"));
        tamper(&path, sql);
        let report = verified(&path).await;
        let said: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        assert!(said.iter().any(|line| line.contains(word)), "{sql}: {said:?}");
    }
}

/// The same for a task with so many attempts that it is read in parts.
const LONG_TAMPERINGS: [(&str, &str); 7] = [
    ("UPDATE attempts SET owner = 'mallory' WHERE attempt = 150", "record"),
    ("UPDATE attempts SET reason = 'HEARTBEAT_TIMEOUT' WHERE attempt = 150", "attempts"),
    ("DELETE FROM attempts WHERE attempt = 150", "attempt 151 is in the place of attempt 150"),
    ("DELETE FROM attempts WHERE attempt = 200", "attempts"),
    ("DELETE FROM history WHERE n = 300", "entry 301 is in the place of entry 300"),
    ("UPDATE history SET at = at - 5000000 WHERE n = 300", "older"),
    (
        "INSERT INTO history SELECT task, n + 1, at, epoch, rules, request, loaded, events
         FROM history ORDER BY n DESC LIMIT 1",
        "fit",
    ),
];

#[tokio::test]
async fn every_tampering_with_a_long_history_is_found() {
    // S2-111, S2-114: rows that are read page by page are bound together like those read at once.
    let folder = tempfile::tempdir().unwrap();
    let original = folder.path().join("tenure.db");
    let mut coordinator = TestCoordinator::open(&original).await;
    let patient = Policy {
        failures_max: 300,
        retry_base: Span::ZERO,
        retry_cap: Span::ZERO,
        ..Policy::default()
    };
    coordinator.submit_with(1, patient, spec(None)).await.unwrap();
    let fault = Fault {
        category: Category::UserCode,
        message: "no".into(),
        stack_trace: None,
        retryable: None,
    };
    for _ in 0..200 {
        let ready = coordinator.grant().await.unwrap().unwrap();
        coordinator.fail(&ready, fault.clone()).await.unwrap();
    }
    drop(coordinator);
    let report = verified(&original).await;
    assert_eq!((report.findings.as_slice(), report.entries, report.attempts), (&[][..], 401, 200));
    for (n, (sql, word)) in LONG_TAMPERINGS.into_iter().enumerate() {
        let path = copy(&original, &format!("long{n}.db"));
        tamper(&path, sql);
        let report = verified(&path).await;
        let said: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        assert!(said.iter().any(|line| line.contains(word)), "{sql}: {said:?}");
    }
}

/// A change of a task's inline history: table, row, the change, and a word of the finding.
type Retold = (&'static str, u128, fn(&mut Vec<Entry>), &'static str);

const RETOLD: [Retold; 8] = [
    ("inputs", 1, |told| told[0].at = Time::from_millis(0), "created_at"),
    ("inputs", 6, |told| submission(told).priority = 7, "decide"),
    ("inputs", 6, |told| submission(told).input = Digest::of(&[b"other"]), "decide"),
    ("done", 1, |told| drop(told.remove(1)), "entry 4 is in the place of entry 3"),
    ("done", 1, |told| drop(told.pop()), "history says running"),
    ("done", 1, |told| told[2].epoch = 0, "older"),
    ("live", 5, |told| told[0].events = vec![Event::Started], "fit"),
    ("live", 5, |told| told[0].loaded.as_mut().unwrap().claim_version += 5, "decide"),
];

fn submission(told: &mut [Entry]) -> &mut Submit {
    match &mut told[0].request {
        Request::Submit(submit) => submit,
        other => panic!("not a submission: {other:?}"),
    }
}

#[tokio::test]
async fn every_retold_history_is_found() {
    // S2-111, S2-114: entries packed in a task's row are bound as strongly as separate rows.
    let folder = tempfile::tempdir().unwrap();
    let original = folder.path().join("tenure.db");
    populate(&original).await;
    for (n, (table, row, retell, word)) in RETOLD.into_iter().enumerate() {
        let path = copy(&original, &format!("retold{n}.db"));
        let raw = Connection::open(&path).unwrap();
        let sql = format!("SELECT tale FROM {table} WHERE row = {row}");
        let told: Vec<u8> = raw.query_row(&sql, [], |row| row.get(0)).unwrap();
        // Rows have the same numbers as the tasks.
        let task = TaskId::from_u128(row);
        let mut entries = InlineHistory::from_bytes(told).entries(task).unwrap();
        retell(&mut entries);
        let inline_histories = entries.iter().map(|entry| InlineHistory::of(task, entry));
        let bytes: Vec<u8> = inline_histories
            .flat_map(|inline_history| inline_history.bytes().unwrap().to_vec())
            .collect();
        let literal: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        tamper(&path, &format!("UPDATE {table} SET tale = x'{literal}' WHERE row = {row}"));
        let said: Vec<String> =
            verified(&path).await.findings.iter().map(ToString::to_string).collect();
        assert!(said.iter().any(|line| line.contains(word)), "{n}: {said:?}");
    }
}

pub(super) fn copy(original: &Path, name: &str) -> PathBuf {
    let path = original.with_file_name(name);
    std::fs::copy(original, &path).unwrap();
    path
}

/// Changes a row as an attacker with access to the file would, bypassing triggers.
pub(super) fn tamper(path: &Path, sql: &str) {
    let raw = Connection::open(path).unwrap();
    let mut statement =
        raw.prepare("SELECT name FROM sqlite_master WHERE type = 'trigger'").unwrap();
    let triggers: Vec<String> =
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    for trigger in triggers {
        raw.execute_batch(&format!("DROP TRIGGER {trigger}")).unwrap();
    }
    let changed = raw.execute(sql, []).unwrap();
    assert!(changed > 0, "{sql} changes something");
}
