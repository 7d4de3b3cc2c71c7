//! Deletes tasks that ended long ago, and nothing else.

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use store::sqlite::retention::{AGE_MIN, Mode, Pruned, Rule, prune};
use store::{Browse, Clock, FailureKind, Store};
use storetest::ManualClock;
use verdict::request::CancelMode;
use verdict::{Policy, Span};

use super::test_coordinator::{TestCoordinator, key, options, spec};

const DAY: Span = Span::from_secs(24 * 3600);
const TABLES: [&str; 6] = ["done", "attempts", "history", "refused", "inputs", "keys"];

/// Tasks 1 to 3 ended on three days, one day apart; 4 failed on the first day, waited, and ended on the
/// last; 5 was submitted last.
async fn three_days(path: &Path) -> Arc<ManualClock> {
    let mut coordinator = TestCoordinator::open(path).await;
    coordinator.submit_with(4, Policy::default(), spec(None)).await.unwrap();
    let ready = coordinator.grant().await.unwrap().unwrap();
    coordinator.fail_at_length(&ready).await.unwrap();
    for id in 1..=3 {
        let named = spec(Some(&format!("key {id}")));
        coordinator.submit_with(id, Policy::default(), named).await.unwrap();
        coordinator.cancel(id, CancelMode::Graceful).await.unwrap();
        coordinator.clock.advance(DAY);
    }
    let ready = coordinator.grant().await.unwrap().unwrap();
    coordinator.succeed(&ready, "1").await.unwrap();
    coordinator.submit(5).await.unwrap();
    coordinator.clock.clone()
}

fn forget(path: &Path, clock: &Arc<ManualClock>, days: u64, keep: u64, mode: Mode) -> Pruned {
    prune(path, Rule::of_millis(days * DAY.millis(), keep), mode, &options(clock)).unwrap()
}

async fn there(path: &Path, clock: &Arc<ManualClock>) -> Vec<u128> {
    let coordinator =
        TestCoordinator::open_with(path, options(clock), clock.clone()).await.unwrap();
    let report = store::verify::verify(coordinator.store.browse()).await.unwrap();
    assert_eq!(report.findings, [], "the store is sound");
    let mut ids = Vec::new();
    for id in 1..=5 {
        if coordinator.store.browse().find(&key(id)).await.unwrap().is_some() {
            ids.push(id);
        }
    }
    ids
}

#[tokio::test]
async fn only_ends_older_than_the_rule_go_and_they_go_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.db");
    let clock = three_days(&path).await;
    let counted = forget(&path, &clock, 2, 0, Mode::Count);
    assert_eq!((counted.tasks, counted.left), (1, 3));
    assert_eq!(there(&path, &clock).await, [1, 2, 3, 4, 5], "counting changes nothing");

    // Task 1 ended three days ago, task 2 two days ago: not *longer* ago than that.
    assert_eq!(forget(&path, &clock, 2, 0, Mode::Remove), counted);
    assert_eq!(there(&path, &clock).await, [2, 3, 4, 5]);
    let raw = Connection::open(&path).unwrap();
    for table in TABLES {
        let column = if matches!(table, "done" | "inputs") { "row" } else { "task" };
        // Task 1 was the second submission.
        let sql = format!("SELECT count(*) FROM {table} WHERE {column} = 2");
        let left: i64 = raw.query_row(&sql, [], |row| row.get(0)).unwrap();
        assert_eq!(left, 0, "{table} forgot it too");
    }
}

#[tokio::test]
async fn the_latest_ends_stay_if_they_are_to_be_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.db");
    let clock = three_days(&path).await;
    clock.advance(Span::from_secs(100 * 24 * 3600));
    assert_eq!(forget(&path, &clock, 1, 3, Mode::Remove).tasks, 1);
    assert_eq!(there(&path, &clock).await, [2, 3, 4, 5]);
    assert_eq!(forget(&path, &clock, 1, 3, Mode::Remove).tasks, 0);
    assert_eq!(forget(&path, &clock, 1, 0, Mode::Remove).tasks, 3);
    // What has not ended is never old enough.
    assert_eq!(there(&path, &clock).await, [5]);
}

#[tokio::test]
async fn the_guards_stand_as_before_and_refuse_as_before() {
    // No caller can change or delete an end, not even after pruning.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.db");
    let clock = three_days(&path).await;
    let schema = || -> Vec<String> {
        let raw = Connection::open(&path).unwrap();
        let mut found = raw.prepare("SELECT sql FROM sqlite_master ORDER BY name").unwrap();
        let texts = found.query_map([], |row| row.get::<_, Option<String>>(0)).unwrap();
        texts.map(|text| text.unwrap().unwrap_or_default()).collect()
    };
    let before = schema();
    assert_eq!(forget(&path, &clock, 1, 0, Mode::Remove).tasks, 2);
    let mut after = schema();
    let mut before = before;
    before.sort();
    after.sort();
    assert_eq!(after, before);
    let raw = Connection::open(&path).unwrap();
    for table in ["done", "attempts", "history", "inputs"] {
        let refusal = raw.execute(&format!("DELETE FROM {table}"), []).unwrap_err();
        assert!(refusal.to_string().contains("written once") || table == "done", "{refusal}");
    }
}

#[tokio::test]
async fn only_what_ended_a_day_ago_can_be_named_as_leaving_by_anybody() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.db");
    let clock = three_days(&path).await;
    let now = clock.wall().millis();
    let raw = Connection::open(&path).unwrap();
    let leave = |row: i64| raw.execute("INSERT INTO leaving VALUES (?1, ?2)", [row, now]);
    // The first submission lives until the last day; the fifth waits; the ninth does not exist.
    for row in [1, 5, 9] {
        let refusal = leave(row).unwrap_err();
        assert!(
            refusal.to_string().contains("only tasks that ended at least a day ago"),
            "{refusal}"
        );
    }
    // An old end may be deleted, and only its own rows with it.
    leave(2).unwrap();
    raw.execute("DELETE FROM done WHERE row = 2", []).unwrap();
    raw.execute("DELETE FROM done WHERE row = 3", []).unwrap_err();
    raw.execute("DELETE FROM history", []).unwrap_err();
    raw.execute("UPDATE leaving SET row = 3", []).unwrap_err();
    drop(raw);
    forget(&path, &clock, 1, 0, Mode::Remove);
    let raw = Connection::open(&path).unwrap();
    let named: i64 = raw.query_row("SELECT count(*) FROM leaving", [], |row| row.get(0)).unwrap();
    assert_eq!(named, 0, "nobody is left on the way out");
}

#[tokio::test]
async fn what_may_still_be_asked_about_and_a_store_in_use_are_left_alone() {
    // No token is valid for longer than two hours, and an idempotency key holds for a day.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.db");
    let clock = three_days(&path).await;
    assert_eq!(AGE_MIN, DAY);
    let young = Rule { older_than: Span::from_millis(DAY.millis() - 1), keep: 0 };
    let refused = prune(&path, young, Mode::Remove, &options(&clock)).unwrap_err();
    assert_eq!(refused.kind, FailureKind::Invalid);
    let open = TestCoordinator::open_with(&path, options(&clock), clock.clone()).await.unwrap();
    let old = Rule { older_than: DAY, keep: 0 };
    let refused = prune(&path, old, Mode::Remove, &options(&clock)).unwrap_err();
    assert!(refused.to_string().contains("already open"), "{refused}");
    drop(open);
    assert_eq!(there(&path, &clock).await, [1, 2, 3, 4, 5]);
}
