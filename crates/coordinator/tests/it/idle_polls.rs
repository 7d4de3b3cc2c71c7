//! Workers that wait in vain keep no other worker from work.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use coordinator::{Granted, Poll, RequestError, Submission};
use storetest::{ManualClock, MemoryStore};
use verdict::{Name, Scope, Span};

use crate::faulty::FaultyStore;
use crate::harness::{World, patient, start, submission, world};

type Waiting = Pin<Box<dyn Future<Output = Result<Vec<Granted>, RequestError>> + Send>>;

/// Sends polls one after the other, so that all of them wait in this order.
async fn wait_all(world: &World, polls: impl Iterator<Item = Poll>) -> Vec<Waiting> {
    let mut waiting = Vec::new();
    for poll in polls {
        let coordinator = world.coordinator.clone();
        let mut asked: Waiting = Box::pin(async move { coordinator.lease(poll).await });
        assert!(futures_util::poll!(&mut asked).is_pending());
        waiting.push(asked);
        if waiting.len().is_multiple_of(1_000) {
            world.round().await;
        }
    }
    world.round().await;
    waiting
}

fn of_tenant(tenant: &str) -> Submission {
    Submission { scope: Scope::new(tenant, "main"), ..submission("resize") }
}

fn idle(n: usize, max: usize) -> Poll {
    let queues = vec![Name::from(format!("idle-{n}"))];
    Poll { queues, max, ..patient(&format!("idle-{n}")) }
}

/// Submits a task to the queue `q` and returns how many tasks the taker has once that is answered.
async fn submit_to(world: &World, taker: &mut Waiting) -> usize {
    world.submit(submission("resize")).await;
    match futures_util::poll!(taker) {
        std::task::Poll::Ready(granted) => granted.expect("polls are answered").len(),
        std::task::Poll::Pending => 0,
    }
}

#[tokio::test(start_paused = true)]
async fn four_idle_polls_for_many_keep_nobody_from_work() {
    // G2: together they ask for as much as one commit grants.
    let world = world().await;
    let _idle = wait_all(&world, (0..4).map(|n| idle(n, 256))).await;
    let mut taker = wait_all(&world, std::iter::once(patient("ann"))).await;
    assert_eq!(submit_to(&world, &mut taker[0]).await, 1, "granted in the very same batch");
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_idle_polls_keep_nobody_from_work() {
    // G2: each at a different queue, which stays empty.
    let world = world().await;
    let _idle = wait_all(&world, (0..10_000).map(|n| idle(n, 8))).await;
    let mut taker = wait_all(&world, std::iter::once(patient("ann"))).await;
    assert_eq!(submit_to(&world, &mut taker[0]).await, 1, "granted in the very same batch");
}

#[tokio::test(start_paused = true)]
async fn what_one_commit_cannot_grant_is_granted_by_the_next_without_being_asked() {
    // More tasks and workers than one commit can grant, and no further calls.
    let world = world().await;
    let many = vec![submission("resize"); 1_500];
    world.coordinator.submit(many).await;
    let all = (0..6).map(|n| Poll { max: 256, ..patient(&format!("worker-{n}")) });
    let asked = all.map(|poll| world.coordinator.lease(poll));
    // Time stands still unless every task waits for a timer.
    let begun = tokio::time::Instant::now();
    let granted = futures_util::future::join_all(asked).await;
    let granted: usize = granted.into_iter().map(|granted| granted.unwrap().len()).sum();
    assert_eq!((granted, begun.elapsed().as_millis()), (1_500, 0));
}

#[tokio::test(start_paused = true)]
async fn a_tenants_flood_does_not_come_before_anothers_one_task() {
    // G2, F69: one tenant has more tasks, and more workers that came first, than a commit has grants.
    let clock = Arc::new(ManualClock::default());
    let store = FaultyStore::over(MemoryStore::new(clock.clone()));
    let faults = store.faults.clone();
    let world = World { coordinator: start(store).await, clock: clock.clone() };
    world.coordinator.submit(vec![of_tenant("flood"); 2_000]).await;
    world.coordinator.submit(vec![of_tenant("small")]).await;
    // From now on every batch has a different time.
    faults.slow_down(clock, Span::from_millis(1), Span::from_millis(0));
    let of = |tenant: &str, max| Poll { scope: Scope::new(tenant, "main"), max, ..patient("ann") };
    let polls = (0..6).map(|_| of("flood", 256)).chain(std::iter::once(of("small", 1)));
    let asked = polls.map(|poll| world.coordinator.lease(poll));
    let granted = futures_util::future::join_all(asked).await;
    let at = |n: usize| granted[n].as_ref().unwrap().iter().map(|granted| granted.at).min();
    let first = (0..6).filter_map(at).min();
    assert!(first.is_some());
    assert_eq!(at(6), first, "in the first batch, not behind the flood");
}
