//! A permanently slow store: every batch takes longer than the gap that counts as a stall.

use std::sync::Arc;

use storetest::{ManualClock, MemoryStore, Writers};
use verdict::request::{Cancel, CancelMode};
use verdict::{Answer, Span};

use crate::faulty::FaultyStore;
use crate::harness::{World, poll, start, submission};

/// Longer than the whole lease of these tasks.
const SLOW: Span = Span::from_secs(5);
const QUICK: Span = Span::from_millis(0);

/// Where each batch spends its time, and how many concurrent batches the coordinator has.
const WORLDS: [(Span, Span, usize); 6] = [
    (SLOW, QUICK, 1),
    (QUICK, SLOW, 1),
    (SLOW, SLOW, 1),
    (SLOW, QUICK, 2),
    (QUICK, SLOW, 2),
    (SLOW, SLOW, 2),
];

async fn slow_world((loading, committing, committers): (Span, Span, usize)) -> World {
    let clock = Arc::new(ManualClock::default());
    let writers = Writers::Several(committers);
    let store =
        FaultyStore::shared_by(committers, MemoryStore::with_writers(clock.clone(), writers));
    let coordinator = start(store.clone()).await;
    store.faults.slow_down(clock.clone(), loading, committing);
    World { coordinator, clock }
}

#[tokio::test]
async fn however_slow_every_batch_is_work_gets_done() {
    // A8, F24, G1: slowness of the store refuses no call, and a worker that calls in time keeps its lease.
    for slowness in WORLDS {
        let world = slow_world(slowness).await;
        world.submit(submission("k")).await;
        let granted = world.lease_one("w").await;
        assert_eq!(world.started(&granted).await, Answer::Acknowledged, "{slowness:?}");
        for _ in 0..8 {
            assert!(
                matches!(world.heartbeat(&granted).await, Answer::Alive { .. }),
                "{slowness:?}"
            );
            world.submit(submission("other")).await;
        }
        assert!(matches!(world.succeed(&granted).await, Answer::Committed { .. }), "{slowness:?}");
    }
}

#[tokio::test]
async fn however_slow_every_batch_is_a_cancel_takes_no_time_from_a_lease() {
    // A8, F24: a cancel that is decided while heartbeats cannot be received extends the lease of its task first.
    for slowness in WORLDS {
        let world = slow_world(slowness).await;
        world.submit(submission("k")).await;
        let granted = world.lease_one("w").await;
        world.started(&granted).await;
        let cancel = Cancel { reason: None, mode: CancelMode::Graceful };
        let cancelled = world.coordinator.cancel(granted.key(), cancel).await;
        assert!(cancelled.is_ok(), "{slowness:?}");
        let heard = world.heartbeat(&granted).await;
        assert!(matches!(heard, Answer::Alive { cancel: Some(_), .. }), "{heard:?} {slowness:?}");
    }
}

/// Rounds after which a lease of two seconds has certainly expired, with one check period counted in each.
const ROUNDS_MAX: usize = 16;

#[tokio::test]
async fn however_slow_every_batch_is_a_dead_worker_is_replaced() {
    // S0-48, B6: late rounds count as some lease time; otherwise leases of dead workers would live for ever.
    for slowness in WORLDS {
        let world = slow_world(slowness).await;
        world.submit(submission("k")).await;
        let granted = world.lease_one("dead").await;
        world.started(&granted).await;
        let mut rounds = 0;
        let again = loop {
            rounds += 1;
            assert!(rounds <= ROUNDS_MAX, "its lease does not end: {slowness:?}");
            let mut leased = world.coordinator.lease(poll("rival")).await.expect("it is answered");
            if let Some(again) = leased.pop() {
                break again;
            }
        };
        assert_eq!(again.task.attempt, 2);
    }
}
