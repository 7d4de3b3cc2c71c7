//! Two committers of one coordinator: their roles, and that neither continues without the other.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use coordinator::{RequestError, StopReason};
use store::Browse;
use storetest::{ManualClock, MemoryStore, Writers};
use verdict::request::Heartbeat;
use verdict::{Answer, Span};

use crate::faulty::FaultyStore;
use crate::harness::{PATIENCE, World, caller, start, submission};

async fn world_of_two() -> (World, FaultyStore) {
    let clock = Arc::new(ManualClock::default());
    let store = MemoryStore::with_writers(clock.clone(), Writers::Two);
    let store = FaultyStore::shared_by(2, store);
    let coordinator = start(store.clone()).await;
    (World { coordinator, clock }, store)
}

#[tokio::test]
async fn a_worker_is_heard_while_new_work_waits_for_its_commit() {
    // F44: starts, heartbeats and reports have a separate committer, whatever blocks the other one.
    let (world, store) = world_of_two().await;
    world.submit(submission("k")).await;
    let granted = world.lease_one("w").await;
    store.faults.holds_new_tasks.store(true, Ordering::SeqCst);
    let coordinator = world.coordinator.clone();
    let submitting = tokio::spawn(async move { coordinator.submit(vec![submission("k")]).await });
    store.faults.holding.notified().await;
    let heard = async {
        assert_eq!(world.started(&granted).await, Answer::Acknowledged);
        assert!(matches!(world.heartbeat(&granted).await, Answer::Alive { .. }));
        assert!(matches!(world.succeed(&granted).await, Answer::Committed { .. }));
    };
    tokio::time::timeout(PATIENCE, heard).await.expect("nobody waits for the commit that is held");
    assert!(!submitting.is_finished(), "and that one is still held");
    store.faults.released.notify_waiters();
    let replies = submitting.await.expect("nothing panics");
    assert!(
        matches!(&replies[0], Ok(answered) if matches!(answered.answer, Answer::Accepted { .. }))
    );
}

#[tokio::test]
async fn where_nobody_hears_workers_any_more_nothing_new_is_taken() {
    // The committer that handles leases has failed; accepting and granting would create leases that cannot be
    // renewed.
    let (world, store) = world_of_two().await;
    world.submit(submission("k")).await;
    let granted = world.lease_one("w").await;
    store.faults.commit_unknown.store(true, Ordering::SeqCst);
    let beat = Heartbeat { caller: caller(&granted), progress: None };
    let unheard = world.coordinator.heartbeat(granted.key(), beat).await;
    assert!(unheard.is_err(), "{unheard:?}");
    assert!(matches!(world.coordinator.stopped().await, StopReason::Fatal(_)));
    let refused = world.coordinator.submit(vec![submission("k")]).await;
    assert!(matches!(refused[0], Err(RequestError::ShuttingDown)), "{refused:?}");
    assert!(matches!(world.coordinator.stop().await, StopReason::Fatal(_)));
}

#[tokio::test]
async fn new_work_that_comes_late_is_committed_after_leases_have_their_time_back() {
    // A8, F24: if a process dies after the late commit and before leases were extended, the next process would
    // take that commit as proof that heartbeats were received.
    let (world, store) = world_of_two().await;
    world.submit(submission("k")).await;
    let granted = world.lease_one("w").await;
    store.faults.stall_next_batch(world.clock.clone(), Span::from_secs(5));
    world.submit(submission("k")).await;
    let found = world.coordinator.browse().find(&granted.key()).await.unwrap().unwrap();
    let lease = found.subject.live().and_then(|task| task.lease()).expect("it is leased");
    assert!(!lease.expires_at.has_come(world.coordinator.now()), "{lease:?}");
}
