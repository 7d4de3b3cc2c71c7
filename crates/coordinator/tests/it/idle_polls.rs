//! Workers that wait for nothing keep nobody from work.

use std::future::Future;
use std::pin::Pin;

use coordinator::{Granted, Poll, Trouble};
use store::Store;
use store::memory::MemoryStore;
use verdict::Name;

use crate::harness::{World, patient, submission, world};

type Waiting = Pin<Box<dyn Future<Output = Result<Vec<Granted>, Trouble>> + Send>>;

/// Polls one after the other, so that all of them wait in this order.
async fn wait_all(world: &World<MemoryStore>, polls: impl Iterator<Item = Poll>) -> Vec<Waiting> {
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

fn idle(n: usize, max: usize) -> Poll {
    let queues = vec![Name::from(format!("idle-{n}"))];
    Poll { queues, max, ..patient(&format!("idle-{n}")) }
}

/// Submits a task of the queue `q` and returns who has it when its submission is answered.
async fn submit_to<S: Store>(world: &World<S>, taker: &mut Waiting) -> usize {
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
    // G2, F59.
    let world = world().await;
    let _idle = wait_all(&world, (0..10_000).map(|n| idle(n, 8))).await;
    let mut taker = wait_all(&world, std::iter::once(patient("ann"))).await;
    assert_eq!(submit_to(&world, &mut taker[0]).await, 1, "granted in the very same batch");
}

#[tokio::test(start_paused = true)]
async fn what_one_commit_cannot_grant_is_granted_by_the_next_without_being_asked() {
    // More tasks and workers than one commit's worth, and nobody calls again.
    let world = world().await;
    let many = vec![submission("resize"); 1_500];
    world.coordinator.submit(many).await;
    let all = (0..6).map(|n| Poll { max: 256, ..patient(&format!("worker-{n}")) });
    let asked = all.map(|poll| world.coordinator.lease(poll));
    let granted = futures_util::future::join_all(asked).await;
    let granted: usize = granted.into_iter().map(|granted| granted.unwrap().len()).sum();
    assert_eq!(granted, 1_500);
}
