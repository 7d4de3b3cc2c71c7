//! What is left after a power cut, a full disk, or a failed sync.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use store::sqlite::{Options, SqliteStore};
use store::verify::verify;
use store::{Browse, CommitFailure, FailureKind, Store, TaskWithSpec, Writer};
use storetest::ManualClock;
use verdict::State;

use super::disk::Disk;
use super::test_coordinator::{Step, StepFailure, TestCoordinator, key};
use super::vfs;

/// A separate disk for one test, registered with SQLite under the test's name.
pub(crate) fn disk(name: &str, seed: u64) -> &'static Disk {
    let disk: &'static Disk = Box::leak(Box::new(Disk::new(seed)));
    vfs::register(disk, name);
    disk
}

/// Whether the store is opened to survive a power loss.
#[derive(Clone, Copy)]
pub(crate) enum Durability {
    Full,
    Relaxed,
}

pub(crate) fn on_disk(name: &str, clock: &Arc<ManualClock>, durability: Durability) -> Options {
    let options = Options::new(clock.clone()).with_vfs(name);
    match durability {
        Durability::Full => options,
        Durability::Relaxed => options.without_sync(),
    }
}

/// Every acknowledged step: the task and the state it must at least have reached.
type Acknowledged = BTreeMap<u128, State>;

/// Works until the disk fails.
async fn work(
    coordinator: &mut TestCoordinator,
    next: &mut u128,
    acknowledged: &mut Acknowledged,
) -> Step<()> {
    loop {
        let id = *next;
        *next += 1;
        coordinator.submit(id).await?;
        acknowledged.insert(id, State::Queued);
        let ready: TaskWithSpec = coordinator.grant().await?.expect("a task was just submitted");
        let granted = ready.task.id.as_u128();
        acknowledged.insert(granted, State::Running);
        coordinator.succeed(&ready, "\"done\"").await?;
        acknowledged.insert(granted, State::Succeeded);
    }
}

/// The position of a state in the lifecycle of these tasks.
fn progress(state: Option<State>) -> u8 {
    match state {
        None => 0,
        Some(State::Queued) => 1,
        Some(State::Running) => 2,
        Some(_) => 3,
    }
}

async fn lost(store: &SqliteStore, acknowledged: &Acknowledged) -> usize {
    let mut lost = 0;
    for (id, state) in acknowledged {
        let found = store.browse().find(&key(*id)).await.unwrap();
        let found = found.and_then(|found| found.subject.state());
        lost += usize::from(progress(found) < progress(Some(*state)));
    }
    lost
}

/// The outcome of a series of power cuts.
#[derive(Debug, Default)]
struct Cuts {
    acknowledged: usize,
    lost: usize,
}

/// Cuts the power repeatedly: while a batch is written, and sometimes while the store opens.
async fn cut_power(path: &Path, name: &str, durability: Durability, cuts: u32) -> Cuts {
    let disk = disk(name, 7);
    let clock = Arc::new(ManualClock::default());
    let (mut next, mut sum) = (1, Cuts::default());
    let mut acknowledged = Acknowledged::new();
    for cut in 0..cuts {
        if cut % 4 == 0 {
            disk.cut_after(1 + disk.random(60));
            let opened = SqliteStore::open(path, on_disk(name, &clock, durability));
            drop(opened);
            disk.restart();
        }
        let options = on_disk(name, &clock, durability);
        let opened = TestCoordinator::open_with(path, options, clock.clone()).await;
        let mut coordinator = opened.expect("a store opens after a power cut");
        sum.lost += lost(&coordinator.store, &acknowledged).await;
        acknowledged.clear();
        disk.cut_after(1 + disk.random(150));
        let stopped = work(&mut coordinator, &mut next, &mut acknowledged).await;
        assert!(stopped.is_err() && disk.is_off(), "only the cut ends the work");
        sum.acknowledged += acknowledged.len();
        drop(coordinator);
        disk.restart();
    }
    let store = SqliteStore::open(path, on_disk(name, &clock, durability)).unwrap();
    sum.lost += lost(&store, &acknowledged).await;
    let report = verify(store.browse()).await.unwrap();
    assert_eq!(report.findings, [], "what is left is whole");
    sum
}

#[tokio::test]
async fn every_acknowledged_commit_survives_a_power_cut() {
    // S2-111, S2-114, S3-15, W-4, W-5: acknowledged means durable, at random points of 220 cuts.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.db");
    let cuts = cut_power(&path, "cut-full", Durability::Full, 220).await;
    assert_eq!(cuts.lost, 0, "{cuts:?}");
    assert!(cuts.acknowledged > 200, "there was something to lose: {cuts:?}");
}

#[tokio::test]
async fn the_power_cut_test_notices_a_store_that_does_not_sync() {
    // The same cuts on a store that does not sync must lose something, or the test above proves
    // nothing.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.db");
    let cuts = cut_power(&path, "cut-relaxed", Durability::Relaxed, 40).await;
    assert!(cuts.lost > 0, "{cuts:?}");
}

#[tokio::test]
async fn a_migration_cut_anywhere_starts_over() {
    // Cut at every single operation of the first opening: the next opening always completes it.
    let clock = Arc::new(ManualClock::default());
    let disk = disk("cut-migration", 11);
    for count in 1.. {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tenure.db");
        disk.cut_after(count);
        let options = on_disk("cut-migration", &clock, Durability::Full);
        let first = SqliteStore::open(&path, options).map(drop);
        let was_cut = disk.is_off();
        disk.restart();
        let options = on_disk("cut-migration", &clock, Durability::Full);
        let mut coordinator =
            TestCoordinator::open_with(&path, options, clock.clone()).await.unwrap();
        coordinator.submit(1).await.unwrap();
        assert!(was_cut || first.is_ok(), "without a cut the first opening succeeds");
        if !was_cut {
            assert!(count > 20, "the loop went through the whole opening");
            break;
        }
    }
}

#[tokio::test]
async fn a_full_disk_refuses_and_service_goes_on_when_there_is_room() {
    // W-4: a refused commit has no effect, and the next one can succeed without a restart.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.db");
    let disk = disk("full", 3);
    let clock = Arc::new(ManualClock::default());
    let options = on_disk("full", &clock, Durability::Full);
    let mut coordinator = TestCoordinator::open_with(&path, options, clock).await.unwrap();
    coordinator.submit(1).await.unwrap();

    disk.fill();
    for id in 2..6 {
        match coordinator.submit(id).await {
            Err(StepFailure::AtCommit(CommitFailure::RolledBack(failure)))
            | Err(StepFailure::Before(failure)) => assert_eq!(failure.kind, FailureKind::Full),
            other => panic!("a full disk takes nothing: {other:?}"),
        }
        assert_eq!(coordinator.store.browse().find(&key(id)).await.unwrap(), None);
    }
    disk.make_room();
    coordinator.submit(6).await.unwrap();
    let first = coordinator.grant().await.unwrap().expect("the first task still waits");
    assert_eq!(first.task.id, key(1).id);
    let second = coordinator.grant().await.unwrap().expect("the last one came in");
    assert_eq!(second.task.id, key(6).id);
    assert!(coordinator.grant().await.unwrap().is_none(), "refused tasks are not ordered");
}

#[tokio::test]
async fn a_failed_sync_leaves_the_outcome_open_and_the_store_closed() {
    // An error from COMMIT itself is not a definite answer: the store must be reopened.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.db");
    let disk = disk("sync", 5);
    let clock = Arc::new(ManualClock::default());
    let options = on_disk("sync", &clock, Durability::Full);
    let mut coordinator =
        TestCoordinator::open_with(&path, options.clone(), clock.clone()).await.unwrap();
    coordinator.submit(1).await.unwrap();

    disk.fail_syncs();
    let stopped = coordinator.submit(2).await.unwrap_err();
    assert!(matches!(stopped, StepFailure::AtCommit(CommitFailure::Unknown(_))), "{stopped:?}");
    disk.heal();
    let Err(StepFailure::Before(failure)) = coordinator.submit(3).await else {
        panic!("a store of unknown state takes nothing");
    };
    assert_eq!(failure.kind, FailureKind::Fatal);
    assert_eq!(coordinator.writer.next_wake().await.unwrap_err().kind, FailureKind::Fatal);

    let store = coordinator.store.clone();
    drop(coordinator);
    assert_eq!(store.writer().await.err().map(|failure| failure.kind), Some(FailureKind::Fatal));
    drop(store);
    let coordinator = TestCoordinator::open_with(&path, options, clock).await.unwrap();
    assert!(coordinator.store.browse().find(&key(1)).await.unwrap().is_some());
    assert!(coordinator.store.browse().find(&key(3)).await.unwrap().is_none());
}
