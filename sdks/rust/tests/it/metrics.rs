//! What a worker counts.

use serde_json::json;
use tenure::{Ctx, Failure, WorkerEvent};
use tokio_util::sync::CancellationToken;

use crate::coordinator::{Coordinator, Reply, envelope_with, item_refusal};
use crate::worker::{Running, worker};

#[tokio::test]
async fn a_worker_counts_what_it_polls_runs_and_reports() {
    let coordinator = Coordinator::start().await;
    let finish = CancellationToken::new();
    let may_finish = finish.clone();
    let worker = worker(&coordinator).handle("work", move |_: Ctx, n: u32| {
        let may_finish = may_finish.clone();
        async move {
            may_finish.cancelled().await;
            if n == 2 { Err(Failure::permanent("two")) } else { Ok(n) }
        }
    });
    let metrics = worker.metrics();
    assert_eq!(metrics.now(), tenure::WorkerMetrics::default());
    let running = Running::start(worker);
    let first = |n| envelope_with(n, json!({ "attempt": 1, "heartbeatIntervalMs": 60_000 }));
    coordinator.offer([first(1), first(2), first(3)]);
    coordinator.until_started(3).await;
    let now = metrics.now();
    assert_eq!((now.leased, now.running, now.succeeded), (3, 3, 0));
    finish.cancel();
    running.until_committed(3).await;
    let now = metrics.now();
    assert_eq!((now.running, now.succeeded, now.failed), (0, 2, 1));
    assert!(now.polls >= 1);

    coordinator.once("/reports", Reply::Each(item_refusal(410, "task_expired")));
    coordinator.offer([first(4)]);
    running.until("a lost lease", |event| matches!(event, WorkerEvent::Cancelled { .. })).await;
    assert_eq!((metrics.now().lost, metrics.now().succeeded), (1, 2));
    running.end().await.unwrap();
}
