//! Kind queues are created with the first task submitted to them, and deleted with the last stored one.

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use store::sqlite::retention::{Mode, Rule, prune};
use store::{Batch, Decided, Store, Want, Writer};
use storetest::ManualClock;
use storetest::conformance::runs::stages;
use storetest::conformance::{Between, Driver};
use verdict::request::{CancelMode, Submit};
use verdict::{Name, Policy, Request, Scope, Span};

use crate::conformance::Sqlite;

use super::test_coordinator::{TestCoordinator, options, spec, submission};

const DAY: Span = Span::from_secs(24 * 3600);

impl TestCoordinator {
    async fn submit_kind(&mut self, id: u128, kind: &str) {
        let spec = spec(None);
        let submit = Submit { kind: kind.into(), ..submission(id, Policy::default(), &spec) };
        self.carry(id, Request::Submit(submit), Some(spec)).await.unwrap();
    }

    /// Submits a task and ends it.
    async fn end_kind(&mut self, id: u128, kind: &str) {
        self.submit_kind(id, kind).await;
        self.cancel(id, CancelMode::Graceful).await.unwrap();
    }

    /// What a poll for this kind would be given.
    async fn ready(&mut self, kind: &str) -> Vec<u128> {
        let (queues, kinds) = (vec![Name::from("images")], Some(vec![Name::from(kind)]));
        let want = Want { scope: Scope::default(), queues, kinds, max: 9 };
        let mut batch = self.writer.begin().await.unwrap();
        let now = batch.moment().await.unwrap().now;
        let ready = batch.ready(&[want], now).await.unwrap().remove(0);
        ready.iter().map(|ready| ready.task.id.as_u128()).collect()
    }

    /// Deletes all ended tasks, in a batch that commits or does not.
    async fn forget_ended(&mut self, commits: bool) {
        let mut batch = self.writer.begin().await.unwrap();
        let ended = batch.ended(None, 1_000).await.unwrap();
        let places: Vec<_> = ended.iter().map(|ended| ended.position).collect();
        batch.save(Decided { forgotten: places, ..Decided::default() }).await.unwrap();
        if commits {
            batch.commit().await.unwrap();
        }
    }
}

fn kind_queues(path: &Path) -> Vec<String> {
    let raw = Connection::open(path).unwrap();
    let mut statement = raw.prepare("SELECT kind FROM lanes ORDER BY kind").unwrap();
    let kinds = statement.query_map([], |row| row.get(0)).unwrap();
    kinds.collect::<Result<_, _>>().unwrap()
}

async fn check(coordinator: &TestCoordinator) {
    let report = store::verify::verify(coordinator.store.browse()).await.unwrap();
    assert_eq!(report.findings, [], "the store is sound");
}

async fn reopened(coordinator: TestCoordinator, path: &Path) -> TestCoordinator {
    let clock: Arc<ManualClock> = coordinator.clock.clone();
    drop(coordinator);
    TestCoordinator::open_with(path, options(&clock), clock).await.unwrap()
}

#[tokio::test]
async fn a_kind_queue_goes_with_the_last_task_that_is_remembered_and_comes_back() {
    // F77, G4: kinds that were used once are removed eventually, also on disk.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.db");
    let mut coordinator = TestCoordinator::open(&path).await;
    for id in 1..=3 {
        coordinator.end_kind(id, &format!("once-{id}")).await;
    }
    coordinator.submit_kind(4, "waits").await;
    coordinator.end_kind(5, "waits").await;
    coordinator.clock.advance(DAY);
    coordinator.clock.advance(DAY);
    coordinator.submit_kind(6, "last").await;
    assert_eq!(kind_queues(&path), ["last", "once-1", "once-2", "once-3", "waits"]);
    coordinator.forget_ended(true).await;
    assert_eq!(kind_queues(&path), ["last", "waits"], "a task that waits keeps its lane");
    check(&coordinator).await;

    coordinator.submit_kind(7, "once-2").await;
    coordinator.submit_kind(8, "waits").await;
    assert_eq!(coordinator.ready("once-2").await, [7]);
    assert_eq!(coordinator.ready("waits").await, [4, 8]);
    assert_eq!(kind_queues(&path), ["last", "once-2", "waits"], "each once");
    let mut coordinator = reopened(coordinator, &path).await;
    assert_eq!(coordinator.ready("once-2").await, [7]);
    assert_eq!(coordinator.ready("waits").await, [4, 8]);
    check(&coordinator).await;
}

#[tokio::test]
async fn a_kind_queue_that_a_dropped_batch_closed_is_as_it_was() {
    // C2: memory follows the disk, also when a batch is rolled back.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.db");
    let mut coordinator = TestCoordinator::open(&path).await;
    coordinator.end_kind(1, "once").await;
    coordinator.clock.advance(DAY);
    coordinator.clock.advance(DAY);
    coordinator.submit_kind(2, "last").await;
    coordinator.forget_ended(false).await;
    assert_eq!(kind_queues(&path), ["last", "once"]);
    coordinator.submit_kind(3, "once").await;
    assert_eq!(coordinator.ready("once").await, [3]);
    assert_eq!(kind_queues(&path), ["last", "once"], "it has kept its number");
    check(&coordinator).await;
    let mut coordinator = reopened(coordinator, &path).await;
    assert_eq!(coordinator.ready("once").await, [3]);
}

#[tokio::test]
async fn a_kind_queue_that_a_dropped_batch_opened_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.db");
    let mut coordinator = TestCoordinator::open(&path).await;
    coordinator.submit_kind(1, "first").await;
    for _ in 0..2 {
        // The id exists, so the batch is undone after its kind queue was created.
        let spec = spec(None);
        let submit = Submit { kind: "second".into(), ..submission(1, Policy::default(), &spec) };
        assert!(coordinator.submit_blindly(submit, spec).await.is_err());
        assert_eq!(kind_queues(&path), ["first"]);
    }
    coordinator.submit_kind(2, "second").await;
    assert_eq!(coordinator.ready("second").await, [2]);
    assert_eq!(kind_queues(&path), ["first", "second"]);
    check(&coordinator).await;
}

#[tokio::test]
async fn a_store_with_more_ended_kinds_than_memory_keeps_finds_each_of_them_again() {
    // F77: more kinds without a task than are kept in memory.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.db");
    let mut coordinator = TestCoordinator::open(&path).await;
    for id in 1..=1_200 {
        coordinator.end_kind(id, &format!("kind-{id}")).await;
    }
    for kind in ["kind-1", "kind-1200"] {
        coordinator.submit_kind(2_000 + kind.len() as u128, kind).await;
        assert_eq!(coordinator.ready(kind).await, [2_000 + kind.len() as u128]);
    }
    assert_eq!(kind_queues(&path).len(), 1_200, "each has one lane");
    check(&coordinator).await;
    let mut coordinator = reopened(coordinator, &path).await;
    coordinator.submit_kind(3_000, "kind-7").await;
    assert_eq!(coordinator.ready("kind-7").await, [3_000]);
    assert_eq!(kind_queues(&path).len(), 1_200);
}

#[tokio::test]
async fn pruning_closes_kind_queues_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.db");
    let mut coordinator = TestCoordinator::open(&path).await;
    coordinator.end_kind(1, "once").await;
    coordinator.submit_kind(2, "waits").await;
    let clock = coordinator.clock.clone();
    drop(coordinator);
    clock.advance(DAY);
    clock.advance(DAY);
    let rule = Rule::of_millis(DAY.millis(), 0);
    assert_eq!(prune(&path, rule, Mode::Remove, &options(&clock)).unwrap().tasks, 1);
    assert_eq!(kind_queues(&path), ["waits"]);
    let mut coordinator = TestCoordinator::open_with(&path, options(&clock), clock).await.unwrap();
    coordinator.submit_kind(3, "once").await;
    assert_eq!(coordinator.ready("once").await, [3]);
    check(&coordinator).await;
}

#[tokio::test]
async fn a_stage_in_the_same_kind_queue_is_written_once() {
    let fixture = Sqlite::new();
    let path = fixture.path();
    let mut driver = Driver::start(fixture, Between::Nothing).await;
    let raw = Connection::open(path).unwrap();
    let counted = "CREATE TABLE writes (n INTEGER); \
        CREATE TRIGGER counted AFTER UPDATE ON live BEGIN INSERT INTO writes VALUES (1); END";
    raw.execute_batch(counted).unwrap();
    stages::stay_at_their_place(&mut driver).await;
    let writes: i64 = raw.query_row("SELECT count(*) FROM writes", [], |row| row.get(0)).unwrap();
    assert_eq!(writes, stages::WRITES);
}
