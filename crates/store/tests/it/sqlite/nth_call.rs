//! SQLite's own method: the n-th call to the disk fails, for every n, until a run has no failure.
//!
//! After each run the store is opened again on a working disk: every acknowledged step is there, and the store is
//! intact.

use std::path::Path;
use std::sync::Arc;

use store::sqlite::SqliteStore;
use store::verify::verify;
use store::{Browse, Store};
use storetest::ManualClock;
use verdict::State;

use super::disk::{Call, Disk};
use super::power::{Durability, disk, on_disk};
use super::test_coordinator::{Step, TestCoordinator, key};

/// What was acknowledged in a run: how far each task had come.
#[derive(Default)]
struct Acknowledged {
    submitted: Vec<u128>,
    succeeded: Vec<u128>,
}

/// Runs a few tasks from beginning to end, until a disk call fails.
async fn life(
    path: &Path,
    name: &str,
    clock: &Arc<ManualClock>,
    told: &mut Acknowledged,
) -> Step<()> {
    let options = on_disk(name, clock, Durability::Full);
    let Ok(mut coordinator) = TestCoordinator::open_with(path, options, clock.clone()).await else {
        return Ok(());
    };
    for id in 1..=3 {
        coordinator.submit(id).await?;
        told.submitted.push(id);
        let ready = coordinator.grant().await?.expect("a task was just submitted");
        coordinator.succeed(&ready, "\"done\"").await?;
        told.succeeded.push(ready.task.id.as_u128());
    }
    Ok(())
}

async fn check(path: &Path, name: &str, clock: &Arc<ManualClock>, told: &Acknowledged, n: u64) {
    let options = on_disk(name, clock, Durability::Full);
    let store = SqliteStore::open(path, options).unwrap_or_else(|e| panic!("call {n}: {e}"));
    for id in &told.submitted {
        let found = store.browse().find(&key(*id)).await.unwrap();
        let state = found.and_then(|found| found.subject.state());
        assert!(state.is_some(), "call {n}: task {id} was acknowledged and is gone");
        if told.succeeded.contains(id) {
            assert_eq!(state, Some(State::Succeeded), "call {n}: the end of {id} was acknowledged");
        }
    }
    let report = verify(store.browse()).await.unwrap();
    assert_eq!(report.findings, [], "call {n}: what is left is whole");
}

/// Fails the first call of a kind, then the second, and so on; returns how many there were.
async fn every_call(name: &str, call: Call) -> u64 {
    let disk: &Disk = disk(name, 13);
    let clock = Arc::new(ManualClock::default());
    for n in 1.. {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tenure.db");
        let mut told = Acknowledged::default();
        disk.fail_call(call, n);
        let ended = life(&path, name, &clock, &mut told).await;
        let has_failed = disk.has_failed();
        disk.heal();
        // The process died but the machine did not: written data is there, synced or not.
        check(&path, name, &clock, &told, n).await;
        if !has_failed {
            ended.expect("nothing failed");
            assert_eq!(told.succeeded.len(), 3, "nothing failed, so everything was done");
            return n - 1;
        }
    }
    unreachable!("the loop ends when nothing fails")
}

#[tokio::test]
async fn f33_whichever_write_fails_nothing_acknowledged_is_lost() {
    // W-4, S2-104: a disk error leads to a refusal or an unknown outcome, never to a false acknowledgement.
    let calls = every_call("nth-write", Call::Write).await;
    assert!(calls > 20, "the loop went through all of a run: {calls}");
}

#[tokio::test]
async fn f20_f33_whichever_sync_fails_nothing_acknowledged_is_lost() {
    // W-4, S2-104: a failed sync may or may not have happened, and the waiting caller gets that answer.
    let calls = every_call("nth-sync", Call::Sync).await;
    assert!(calls > 8, "the loop went through all of a run: {calls}");
}
