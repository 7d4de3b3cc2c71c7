//! A task that cannot be processed affects no other: it is set aside, reported, and tried again.
//!
//! Tokio's time is paused, so pauses take no time and are exact.

use std::sync::atomic::Ordering;
use std::time::Duration;

use coordinator::RequestError;
use verdict::request::{Cancel, CancelMode, Heartbeat};
use verdict::{Span, State, Subject, TaskId};

use crate::faults::faulty_world;
use crate::faulty::FaultyStore;
use crate::harness::{World, accepted, caller, submission};

/// More than one batch sweeps would hide the culprit; a few dozen are halved several times.
const GOOD: usize = 40;

async fn state(world: &World, task: TaskId) -> State {
    let key = store::TaskKey { scope: verdict::Scope::default(), id: task };
    let found = store::Browse::find(world.coordinator.browse(), &key).await.expect("memory reads");
    found.expect("it is there").subject.state().expect("it is there")
}

fn doomed(kind: &str, now: verdict::Time) -> coordinator::Submission {
    let mut doomed = submission(kind);
    doomed.policy.deadline = Some(now.plus(Span::from_secs(5)));
    doomed
}

#[tokio::test(start_paused = true)]
async fn sweeps_go_on_in_the_same_round_without_a_task_that_cannot_be_stored() {
    // G2, S2-103: forty tasks that are due, and one that the store refuses.
    let (world, store) = faulty_world().await;
    let now = world.coordinator.now();
    let mut batch: Vec<_> = (0..GOOD).map(|_| doomed("good", now)).collect();
    batch.insert(17, doomed("spoilt", now));
    let replies = world.coordinator.submit(batch).await;
    let tasks: Vec<TaskId> = replies.iter().map(|reply| accepted(reply).0).collect();
    store.faults.refuses_spoilt.store(true, Ordering::SeqCst);
    world.clock.advance(Span::from_secs(5));
    world.round().await;
    for (place, task) in tasks.iter().enumerate() {
        let expected = if place == 17 { State::Queued } else { State::Failed };
        assert_eq!(state(&world, *task).await, expected, "{place}");
    }
    let set_aside = world.coordinator.set_aside();
    assert_eq!(set_aside.iter().map(|task| task.task).collect::<Vec<_>>(), [tasks[17]]);
    assert!(set_aside[0].why.contains("cannot be stored"), "{:?}", set_aside[0]);
}

#[tokio::test(start_paused = true)]
async fn grants_go_on_in_the_same_round_without_a_task_that_cannot_be_stored() {
    let (world, store) = faulty_world().await;
    let bad = world.submit(submission("spoilt")).await;
    for _ in 0..3 {
        world.submit(submission("good")).await;
    }
    store.faults.refuses_spoilt.store(true, Ordering::SeqCst);
    // The bad one is the oldest, so every poll would get it first.
    for _ in 0..3 {
        let granted = world.lease_one("w").await;
        assert_ne!(granted.task.id, bad);
    }
    assert_eq!(world.coordinator.set_aside().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_cannot_be_decided_is_named_by_its_assertion() {
    let (world, store) = faulty_world().await;
    store.faults.breaks_spoilt.store(true, Ordering::SeqCst);
    let bad = world.submit(submission("spoilt")).await;
    let good = world.submit(submission("good")).await;
    assert_eq!(world.lease_one("w").await.task.id, good);
    let set_aside = world.coordinator.set_aside();
    assert_eq!((set_aside.len(), set_aside[0].task), (1, bad));
    assert!(set_aside[0].why.contains("a task ends before its counters do"), "{:?}", set_aside[0]);
}

#[tokio::test(start_paused = true)]
async fn a_row_that_cannot_be_read_is_left_out_and_calls_about_it_are_told() {
    let (world, store) = faulty_world().await;
    let bad = world.submit(submission("spoilt")).await;
    let lease = world.lease_one("w").await;
    world.submit(submission("good")).await;
    let other = world.lease_one("w").await;
    store.faults.hides_spoilt.store(true, Ordering::SeqCst);
    let beat = |granted: &coordinator::Granted| {
        (granted.key(), Heartbeat { caller: caller(granted), progress: None })
    };
    for _ in 0..3 {
        let replies = world.coordinator.heartbeats(vec![beat(&lease), beat(&other)]).await;
        assert!(matches!(replies[0], Err(RequestError::SetAside(_))), "{replies:?}");
        assert!(replies[1].is_ok(), "{replies:?}");
    }
    assert_eq!(world.coordinator.set_aside()[0].task, bad);
    // Sweeps and grants of all others too, without a request about the bad one.
    world.clock.advance(Span::from_secs(1));
    world.submit(submission("good")).await;
    world.lease_one("w").await;
    let calls_before = store.faults.calls().0;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let calls = store.faults.calls().0 - calls_before;
    assert!(calls < 3_000, "it is not tried in a hot loop: {calls} calls in a minute");
}

#[tokio::test(start_paused = true)]
async fn it_is_tried_again_after_a_pause_and_leaves_the_list_when_it_works() {
    let (world, store) = faulty_world().await;
    let bad = world.submit(submission("spoilt")).await;
    store.faults.refuses_spoilt.store(true, Ordering::SeqCst);
    assert!(world.lease("w").await.is_empty());
    assert_eq!(world.coordinator.set_aside().len(), 1);
    store.faults.refuses_spoilt.store(false, Ordering::SeqCst);
    assert!(world.lease("w").await.is_empty(), "not within its pause");
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(world.lease_one("w").await.task.id, bad);
    assert!(world.coordinator.set_aside().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_cannot_be_stored_is_not_blamed_on_its_task() {
    // The request itself may be what the store refuses.
    let (world, store) = faulty_world().await;
    let task = world.submit(submission("poison")).await;
    let granted = world.lease_one("w").await;
    store.faults.refuses_poison.store(true, Ordering::SeqCst);
    let cancel = Cancel { reason: None, mode: CancelMode::Graceful };
    let reply = world.coordinator.cancel(granted.key(), cancel).await;
    assert_eq!(reply, Err(RequestError::Defect));
    store.faults.refuses_poison.store(false, Ordering::SeqCst);
    assert_eq!(world.coordinator.set_aside(), []);
    world.heartbeat(&granted).await;
    assert_eq!(state(&world, task).await, State::Running);
}

#[tokio::test(start_paused = true)]
async fn a_start_gives_time_back_to_all_but_what_cannot_be_read() {
    // F19, W-18: one bad row must not keep a coordinator from starting.
    let (world, store) = faulty_world().await;
    world.submit(submission("spoilt")).await;
    world.submit(submission("good")).await;
    let (_, good) = (world.lease_one("w").await, world.lease_one("w").await);
    store.faults.hides_spoilt.store(true, Ordering::SeqCst);
    world.coordinator.stop().await;
    world.clock.advance(Span::from_secs(60));
    let reopened = FaultyStore { inner: store.inner.reopen(), ..store.clone() };
    let again = World { coordinator: crate::harness::start(reopened).await, clock: world.clock };
    assert_eq!(again.coordinator.set_aside().len(), 1);
    again.heartbeat(&good).await;
    let key = good.key();
    let found = store::Browse::find(again.coordinator.browse(), &key).await.expect("memory reads");
    let Subject::Live(task) = found.expect("it is there").subject else { panic!("it runs") };
    assert!(task.lease().is_some());
}
