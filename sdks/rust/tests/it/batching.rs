//! Natural batching: all reports that wait when a call returns go into the next one.

use std::sync::Arc;

use serde_json::json;
use tokio::sync::Notify;

use crate::coordinator::{Coordinator, Reply, envelope};
use crate::heartbeats::until_told;
use crate::worker::{Running, echo, worker};

#[tokio::test]
async fn a_poll_asks_for_as_many_tasks_as_there_are_free_slots() {
    let coordinator = Coordinator::start().await;
    let (worker, finish) = until_told(&coordinator);
    let running = Running::start(worker.concurrency(3));
    coordinator.offer([envelope(1)]);
    coordinator.until("/leases", 2).await;
    coordinator.offer([envelope(2), envelope(3)]);
    coordinator.until_started(3).await;
    let asked: Vec<_> = coordinator.to("/leases").iter().map(|c| c.json()["max"].clone()).collect();
    assert_eq!(asked, [json!(3), json!(2)]);
    finish.cancel();
    running.until_committed(3).await;
    running.end().await.unwrap();
}

#[tokio::test]
async fn reports_that_wait_for_a_call_to_return_share_the_next_one() {
    // S3-11: each report of the batch gets its own answer.
    let coordinator = Coordinator::start().await;
    let gate = Arc::new(Notify::new());
    coordinator.once("/reports", Reply::Gate(Arc::clone(&gate)));
    let running = Running::start(echo(worker(&coordinator)).concurrency(1));
    coordinator.offer([envelope(1)]);
    coordinator.until("/reports", 1).await;
    // There is only one slot: each poll shows that the execution before it has ended and filed its
    // report.
    for n in 2..=4 {
        coordinator.offer([envelope(n)]);
    }
    coordinator.until("/leases", 5).await;
    assert_eq!(coordinator.to("/reports").len(), 1);
    gate.notify_one();
    running.until_committed(4).await;
    running.end().await.unwrap();
    let batches: Vec<usize> =
        coordinator.to("/reports").iter().map(|call| call.items().len()).collect();
    assert_eq!(batches, [1, 3]);
}

#[tokio::test]
async fn heartbeats_that_wait_for_a_call_to_return_share_the_next_one() {
    let coordinator = Coordinator::start().await;
    let gate = Arc::new(Notify::new());
    coordinator.once("/heartbeats", Reply::Gate(Arc::clone(&gate)));
    let (worker, finish) = until_told(&coordinator);
    let running = Running::start(worker.concurrency(3));
    coordinator.offer([envelope(1)]);
    coordinator.until("/heartbeats", 1).await;
    coordinator.offer([envelope(2), envelope(3)]);
    coordinator.until_started(3).await;
    gate.notify_one();
    let shares = |calls: &[crate::coordinator::Call]| {
        calls.iter().any(|call| call.path.ends_with("/heartbeats") && call.items().len() == 3)
    };
    coordinator.calls.until("a shared call", shares).await;
    finish.cancel();
    running.until_committed(3).await;
    running.end().await.unwrap();
    assert_eq!(coordinator.to("/heartbeats")[0].items().len(), 1);
}
