//! What the database itself refuses, from any caller.

use rusqlite::Connection;
use store::{
    Batch, Browse, Change, Decided, FailureKind, Lookup, Refused, RowsAfter, Store, TaskRows,
    Writer,
};
use verdict::request::Grant;
use verdict::{Digest, LeaseId, Moment, Request, Subject, WorkerVerdict};

use super::test_coordinator::{TestCoordinator, key};

/// A store with one ended and one waiting task, and a second connection to its file.
async fn ended_and_waiting(path: &std::path::Path) -> (TestCoordinator, Connection) {
    let mut coordinator = TestCoordinator::open(path).await;
    coordinator.submit(1).await.unwrap();
    let ready = coordinator.grant().await.unwrap().unwrap();
    coordinator.fail_at_length(&ready).await.unwrap();
    coordinator.clock.advance(verdict::Span::from_secs(600));
    let ready = coordinator.grant().await.unwrap().unwrap();
    coordinator.succeed(&ready, "1").await.unwrap();
    coordinator.submit(2).await.unwrap();
    refuse(&mut coordinator, &ready).await;
    let raw = Connection::open(path).unwrap();
    (coordinator, raw)
}

async fn refuse(coordinator: &mut TestCoordinator, ready: &store::TaskWithSpec) {
    let lease = ready.task.lease().unwrap();
    let refused = Refused {
        task: key(1),
        lease: lease.id,
        attempt: 1,
        worker: lease.owner.clone(),
        call: "report".into(),
        code: "conflicting_report".into(),
        worker_verdict: WorkerVerdict::Rejected,
        digest: Some(Digest::of(&[b"other"])),
        at: coordinator.store.now(),
    };
    let mut batch = coordinator.writer.begin().await.unwrap();
    batch.save(Decided { refused: vec![refused.clone()], ..Decided::default() }).await.unwrap();
    batch.save(Decided { refused: vec![refused], ..Decided::default() }).await.unwrap();
    batch.commit().await.unwrap();
}

#[tokio::test]
async fn what_has_ended_cannot_be_changed_or_deleted() {
    // Proves: S2-111: ended tasks are immutable because the table enforces it. S2-41.
    let folder = tempfile::tempdir().unwrap();
    let (_play, raw) = ended_and_waiting(&folder.path().join("tenure.db")).await;
    for table in ["done", "attempts", "history", "refused", "inputs"] {
        let rows: i64 =
            raw.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap();
        assert!(rows > 0, "{table} has rows to protect");
        let column = if matches!(table, "done" | "inputs") { "row" } else { "task" };
        for sql in
            [format!("UPDATE {table} SET {column} = {column}"), format!("DELETE FROM {table}")]
        {
            let error = raw.execute(&sql, []).unwrap_err();
            let said = error.to_string();
            assert!(said.contains("once") || said.contains("never"), "{sql}: {said}");
        }
    }
}

#[tokio::test]
async fn an_ended_task_never_lives_again() {
    // S2-41: an ended task cannot become live again, under its old row or a new one.
    let folder = tempfile::tempdir().unwrap();
    let (_play, raw) = ended_and_waiting(&folder.path().join("tenure.db")).await;
    let columns = "lane, priority, state, revision, claimable_at, lease_ms, attempt, failures, lost, \
        undelivered, claim_version, decided_at, entries, chain";
    for (row, id) in [("1", "i.id"), ("7", "i.id"), ("1", "randomblob(16)")] {
        let sql = format!(
            "INSERT INTO live (row, id, {columns}) SELECT {row}, {id}, i.lane, 0, 'queued', 1, 0, 0,
             0, 0, 0, 0, 0, 0, 0, zeroblob(32) FROM inputs i WHERE i.row = 1"
        );
        assert!(raw.execute(&sql, []).is_err(), "row {row}, id {id}");
    }
    let sql = "UPDATE live SET state = 'succeeded'";
    assert!(raw.execute(sql, []).is_err(), "a live row has no end");
    assert!(
        raw.execute("UPDATE live SET state = 'running'", []).is_err(),
        "nor a lease from nowhere"
    );
    assert!(raw.execute("UPDATE live SET row = row + 1", []).is_err(), "nor another name");
}

#[tokio::test]
async fn what_was_told_of_a_live_task_is_only_added_to() {
    // S2-111: the first entries of a history are in a row that changes; they themselves do not change.
    let folder = tempfile::tempdir().unwrap();
    let (mut coordinator, raw) = ended_and_waiting(&folder.path().join("tenure.db")).await;
    let ready = coordinator.grant().await.unwrap().unwrap();
    let inline_history: Vec<u8> =
        raw.query_row("SELECT tale FROM live", [], |row| row.get(0)).unwrap();
    for other in
        [None, Some(&inline_history[..inline_history.len() - 1]), Some(b"another".as_slice())]
    {
        let refusal = raw.execute("UPDATE live SET tale = ?1", [other]).unwrap_err();
        assert!(refusal.to_string().contains("append-only"), "{refusal}");
    }
    coordinator.started(&ready).await.unwrap();
    let longer: Vec<u8> = raw.query_row("SELECT tale FROM live", [], |row| row.get(0)).unwrap();
    assert!(longer.len() > inline_history.len() && longer.starts_with(&inline_history));
    let mut told = Vec::new();
    for entry in
        coordinator.store.browse().rows(&key(2), RowsAfter::Entry(0), 10).await.unwrap().history
    {
        told.push(entry.n);
    }
    assert_eq!(told, [1, 2, 3]);
}

#[tokio::test]
async fn a_history_longer_than_its_row_goes_on_in_its_table() {
    // S2-114: a history is read as one, whichever rows hold it.
    let folder = tempfile::tempdir().unwrap();
    let (coordinator, raw) = ended_and_waiting(&folder.path().join("tenure.db")).await;
    let table: i64 = raw.query_row("SELECT count(*) FROM history", [], |row| row.get(0)).unwrap();
    assert_eq!(table, 3, "the failure and all that came after it");
    let first = key(1);
    let browse = coordinator.store.browse();
    let history = |after, limit| browse.rows(&first, RowsAfter::Entry(after), limit);
    let numbers = |rows: TaskRows| rows.history.iter().map(|entry| entry.n).collect();
    let all: Vec<u32> = numbers(history(0, 10).await.unwrap());
    assert_eq!(all, [1, 2, 3, 4, 5]);
    let page: Vec<u32> = numbers(history(1, 2).await.unwrap());
    assert_eq!(page, [2, 3], "across the border");
    let report = store::verify::verify(coordinator.store.browse()).await.unwrap();
    assert_eq!(report.findings, []);
}

#[tokio::test]
async fn refusals_of_one_kind_are_kept_once() {
    // stored outside the state machine, and bounded however often a worker repeats the call.
    let folder = tempfile::tempdir().unwrap();
    let (coordinator, _raw) = ended_and_waiting(&folder.path().join("tenure.db")).await;
    let refused = coordinator
        .store
        .browse()
        .rows(&key(1), RowsAfter::Refusal(None), 99)
        .await
        .unwrap()
        .refused;
    assert_eq!(refused.len(), 1);
    assert_eq!(refused[0].code.as_str(), "conflicting_report");
}

#[tokio::test]
async fn a_failed_save_takes_the_whole_batch_back() {
    // W-4: nothing of a failed batch remains, in the tables or in the in-memory order.
    let folder = tempfile::tempdir().unwrap();
    let (mut coordinator, _raw) = ended_and_waiting(&folder.path().join("tenure.db")).await;
    let mut batch = coordinator.writer.begin().await.unwrap();
    let now = batch.moment().await.unwrap().now;
    let ready =
        batch.ready(&[super::test_coordinator::want(1)], now).await.unwrap().remove(0).remove(0);
    let grant = Grant { lease: LeaseId::from_u128(99), owner: "w".into(), poll: None, build: None };
    let (before, at) = (
        Subject::Live(ready.task.clone()),
        Moment { now, epoch: 1, rules: verdict::Rules::NEWEST },
    );
    let (_, granted) =
        super::test_coordinator::decide(before.clone(), None, &Request::Grant(grant), at, None);
    let stale = Change {
        before: Some(ready.task.revision + 7),
        after: before,
        spec: None,
        closed: vec![],
        entries: vec![],
        steps: vec![],
    };
    let changes = vec![granted.expect("a ready task is granted"), stale];
    let failure =
        batch.save(Decided::changes(changes)).await.expect_err("a stale revision is refused");
    assert_eq!(failure.kind, FailureKind::Conflict(ready.task.id));
    assert!(batch.commit().await.is_err(), "the batch is over");

    let again = coordinator.grant().await.unwrap().expect("the task is where it was");
    assert_eq!(again.task.id, ready.task.id);
    assert_eq!(again.task.revision, ready.task.revision + 1);
}

#[tokio::test]
async fn a_batch_without_changes_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.db");
    let (mut coordinator, _raw) = ended_and_waiting(&path).await;
    let log = path.with_file_name("tenure.db-wal");
    let written = || std::fs::read(&log).unwrap();
    let before = written();
    let mut batch = coordinator.writer.begin().await.unwrap();
    batch.look_up(Lookup::tasks(&[key(1), key(2)])).await.unwrap();
    batch.commit().await.unwrap();
    assert!(written() == before, "the log is as it was");
    coordinator.clock.advance(verdict::Span::from_secs(1));
    let mut batch = coordinator.writer.begin().await.unwrap();
    batch.save(Decided::keep_alive()).await.expect("the store takes it");
    batch.commit().await.unwrap();
    assert!(written() != before, "a pulse moves the clock");
}
