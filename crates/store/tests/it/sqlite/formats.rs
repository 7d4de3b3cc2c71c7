//! Files of every earlier format open, are migrated, and verify.

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use store::Store;
use store::verify::verify;
use storetest::ManualClock;
use verdict::{Span, State};

use super::opening::of_format_2;
use super::tampering::populate;
use super::test_coordinator::{TestCoordinator, key, options};

/// The steps after format 1, in order.
const STEPS: [&str; 11] = [
    include_str!("../../../migrations/V1__tasks.sql"),
    include_str!("../../../migrations/V2__administration.sql"),
    include_str!("../../../migrations/V3__retention.sql"),
    include_str!("../../../migrations/V4__limits_and_seals.sql"),
    include_str!("../../../migrations/V5__tales.sql"),
    include_str!("../../../migrations/V6__rules.sql"),
    include_str!("../../../migrations/V7__lists.sql"),
    include_str!("../../../migrations/V8__lanes.sql"),
    include_str!("../../../migrations/V9__lane_blocks.sql"),
    include_str!("../../../migrations/V10__states.sql"),
    include_str!("../../../migrations/V11__pauses.sql"),
];

/// Runs the steps after `from` up to `to`, and records them as the library does that ran them then. `current` is a
/// file of the current format, whose records of these steps are the same.
fn migrate(raw: &Connection, from: usize, to: usize, current: &Path) {
    for step in &STEPS[from..to] {
        raw.execute_batch(step).unwrap();
    }
    raw.execute("ATTACH ?1 AS current", [current.to_str().unwrap()]).unwrap();
    let create = "SELECT sql FROM current.sqlite_master WHERE name = 'refinery_schema_history'";
    let create: String = raw.query_row(create, [], |row| row.get(0)).unwrap();
    let exists = "SELECT count(*) FROM main.sqlite_master WHERE name = 'refinery_schema_history'";
    if raw.query_row(exists, [], |row| row.get::<_, i64>(0)).unwrap() == 0 {
        raw.execute_batch(&create).unwrap();
    }
    let record = "INSERT INTO main.refinery_schema_history
        SELECT * FROM current.refinery_schema_history WHERE version > ?1 AND version <= ?2";
    raw.execute(record, [from as i64, to as i64]).unwrap();
}

/// Tables in the order in which their rows may be inserted.
const TABLES: [&str; 9] =
    ["lanes", "lane_blocks", "inputs", "live", "done", "attempts", "history", "refused", "keys"];

/// Copies all tasks from the attached file of the current format.
fn copy_tasks(raw: &Connection) {
    for table in TABLES {
        let mut columns = raw.prepare("SELECT name FROM pragma_table_info(?1, 'main')").unwrap();
        let columns = columns.query_map([table], |row| row.get::<_, String>(0)).unwrap();
        let columns: Vec<String> = columns.map(Result::unwrap).collect();
        let renamed = |name: &String| match (table, name.as_str()) {
            ("live", "due") => "claimable_at".to_owned(),
            _ => name.clone(),
        };
        let current: Vec<String> = columns.iter().map(renamed).collect();
        let (columns, current) = (columns.join(", "), current.join(", "));
        let sql =
            format!("INSERT INTO main.{table} ({columns}) SELECT {current} FROM current.{table}");
        raw.execute(&sql, []).unwrap();
    }
    raw.execute("UPDATE main.meta SET clock = (SELECT clock FROM current.meta)", []).unwrap();
}

/// A file of format 9 with rows as format 9 wrote them: tasks in every state.
fn of_format_9(path: &Path, current: &Path) {
    let raw = Connection::open(path).unwrap();
    raw.pragma_update(None, "application_id", 0x544e_5245).unwrap();
    migrate(&raw, 0, 9, current);
    copy_tasks(&raw);
}

async fn open_later(path: &Path) -> TestCoordinator {
    let clock = Arc::new(ManualClock::default());
    clock.advance(Span::from_secs(24 * 3600));
    TestCoordinator::open_with(path, options(&clock), clock.clone()).await.unwrap()
}

#[tokio::test]
async fn a_store_of_any_earlier_format_opens_and_verifies() {
    // S2-114: whatever the format, all records are intact, and the waiting task is still granted.
    let folder = tempfile::tempdir().unwrap();
    let current = folder.path().join("current.db");
    drop(TestCoordinator::open(&current).await);
    for format in 2..=STEPS.len() {
        let path = folder.path().join(format!("{format}.db"));
        of_format_2(&path);
        migrate(&Connection::open(&path).unwrap(), 2, format, &current);
        let mut coordinator = open_later(&path).await;
        let report = verify(coordinator.store.browse()).await.unwrap();
        assert_eq!(report.findings, [], "format {format}");
        assert_eq!((report.tasks, report.attempts, report.entries), (6, 6, 23), "format {format}");
        let ready = coordinator.grant().await.unwrap().expect("the last task still waits");
        assert_eq!(ready.task.id, key(6).id, "format {format}");
    }
}

#[tokio::test]
async fn live_tasks_of_format_9_keep_their_state_and_their_inline_history() {
    let folder = tempfile::tempdir().unwrap();
    let (current, path) = (folder.path().join("current.db"), folder.path().join("9.db"));
    populate(&current).await;
    of_format_9(&path, &current);
    let expected = open_later(&current).await;
    let coordinator = open_later(&path).await;
    assert_eq!(verify(coordinator.store.browse()).await.unwrap().findings, []);
    let mut states = Vec::new();
    for id in 1..=6 {
        let task = find(&coordinator, id).await;
        assert_eq!(task, find(&expected, id).await, "task {id}");
        states.extend(task.subject.state());
    }
    assert!(states.contains(&State::Running) && states.contains(&State::Queued), "{states:?}");
}

async fn find(coordinator: &TestCoordinator, id: u128) -> store::StoredTask {
    use store::Browse;
    coordinator.store.browse().find(&key(id)).await.unwrap().expect("it was copied")
}
