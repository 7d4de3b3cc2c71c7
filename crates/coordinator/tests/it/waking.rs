//! Time alone: no calls and no pings, and due tasks are handled when they are due.

use std::sync::Arc;

use store::{Browse, Clock};
use storetest::MemoryStore;
use tokio::time::Instant;
use verdict::{Span, State, Subject, Time};

use crate::harness::{World, patient, start, submission};

/// The clock of a runtime whose time is paused: it jumps to the next timer when nothing else is left to do.
pub(crate) struct Virtual {
    pub(crate) start: Instant,
}

impl Clock for Virtual {
    fn wall(&self) -> Time {
        Time::from_millis(1_800_000_000_000).plus(self.monotonic())
    }

    fn monotonic(&self) -> Span {
        Span::from_millis(self.start.elapsed().as_millis() as u64)
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_worker_is_found_within_half_a_heartbeat_interval_and_nobody_asks_for_it() {
    // Proves: S4-47. S0-48: the only call there is waits; no other request brings the carrier round.
    let start_of_time = Instant::now();
    let store = MemoryStore::new(Arc::new(Virtual { start: start_of_time }));
    let coordinator = start(store).await;
    let world = World { coordinator, clock: Arc::default() };
    let policy = submission("k").policy;
    world.submit(submission("k")).await;
    let dead = world.lease_one("dead").await;
    world.started(&dead).await;
    let lease_ends = dead.task.lease().unwrap().expires_at;
    let heir = world.coordinator.lease(patient("heir")).await.unwrap().remove(0);
    assert_eq!((heir.task.attempt, heir.task.lost), (2, 1));
    let found = heir.task.decided_at;
    assert!(found >= lease_ends, "R-2: not before its end");
    let half = Span::from_millis(policy.heartbeat_every.millis() / 2);
    assert!(found.since(lease_ends) <= half, "{found:?} is long after {lease_ends:?}");
}

#[tokio::test(start_paused = true)]
async fn an_idle_coordinator_ends_the_lease_of_a_dead_worker() {
    // Proves: W-17: no poll waits and no call comes; only the store is read, never the coordinator.
    let store = MemoryStore::new(Arc::new(Virtual { start: Instant::now() }));
    let world = World { coordinator: start(store).await, clock: Arc::default() };
    world.submit(submission("k")).await;
    let dead = world.lease_one("dead").await;
    world.started(&dead).await;
    let lease = dead.task.lease().unwrap();
    let half = submission("k").policy.heartbeat_every.millis() / 2;
    let span = lease.expires_at.since(lease.acquired_at).millis() + half;
    // Virtual time: it passes when nothing is left to do.
    tokio::time::sleep(std::time::Duration::from_millis(span)).await;
    let found = Browse::find(world.coordinator.browse(), &dead.key()).await.unwrap();
    let Subject::Live(task) = found.expect("it is there").subject else { panic!("it is retried") };
    assert_eq!((task.state(), task.lost, task.lease().is_none()), (State::Retry, 1, true));
}

#[tokio::test(start_paused = true)]
async fn a_start_takes_no_waiting_task_for_a_lost_one() {
    // Proves: W-7: neither the age of a task nor a restart makes a task that never ran a lost one.
    let clock = Arc::new(Virtual { start: Instant::now() });
    let store = MemoryStore::new(clock);
    let world = World { coordinator: start(store.clone()).await, clock: Arc::default() };
    world.submit(submission("k")).await;
    tokio::time::sleep(std::time::Duration::from_secs(86_400)).await;
    world.coordinator.stop().await;
    tokio::time::sleep(std::time::Duration::from_secs(86_400)).await;
    let again = World { coordinator: start(store.reopen()).await, clock: Arc::default() };
    again.round().await;
    let granted = again.lease_one("w").await;
    assert_eq!((granted.task.attempt, granted.task.lost), (1, 0));
    assert_eq!(granted.task.entries, 2, "submitted and leased, and nothing in between");
}
