//! Starts: of a first attempt beside its code, and of every later one before it.

use std::sync::Arc;

use serde_json::{Value, json};
use tenure::{Ctx, StopReason, WorkerEvent};
use tokio::sync::Notify;

use crate::coordinator::{Coordinator, Reply, envelope, envelope_with, item_refusal, problem};
use crate::heartbeats::until_told;
use crate::log::Log;
use crate::worker::{Running, echo, worker};

fn first(n: u32) -> Value {
    envelope_with(n, json!({ "attempt": 1, "heartbeatIntervalMs": 60_000 }))
}

fn later(n: u32) -> Value {
    envelope_with(n, json!({ "attempt": 2, "heartbeatIntervalMs": 60_000 }))
}

#[tokio::test]
async fn a_first_attempt_that_goes_on_reports_its_start() {
    // the coordinator learns of the start while the code runs.
    let coordinator = Coordinator::start().await;
    let (worker, finish) = until_told(&coordinator);
    let running = Running::start(worker);
    coordinator.offer([first(1)]);
    coordinator.until_started(1).await;
    let start = &coordinator.to("/v1/starts")[0].items()[0];
    assert_eq!((&start["taskId"], &start["taskToken"]), (&json!("task_1"), &json!("token_1")));
    assert_eq!(start["attempt"], 1);
    assert!(start["startedAt"].is_string());
    finish.cancel();
    running.until_committed(1).await;
    running.end().await.unwrap();
    assert_eq!(coordinator.starts("task_1"), 1);
}

#[test]
fn code_that_blocks_its_runtime_does_not_keep_its_start_back() {
    // A task that will kill its process blocks it first, as far as the worker can tell.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let coordinator = Coordinator::start().await;
        let watched = Arc::clone(&coordinator);
        let running = Running::start(worker(&coordinator).handle("work", move |_: Ctx, n: u32| {
            while watched.starts("task_1") == 0 {
                std::thread::yield_now();
            }
            async move { Ok(n) }
        }));
        coordinator.offer([first(1)]);
        running.until_committed(1).await;
        running.end().await.unwrap();
    });
}

#[tokio::test]
async fn a_later_attempt_runs_only_after_its_start_is_acknowledged() {
    // W-19: an attempt that may have killed its process before is lost, not undelivered, if it does
    // so again.
    let coordinator = Coordinator::start().await;
    let gate = Arc::new(Notify::new());
    coordinator.once("/starts", Reply::Gate(Arc::clone(&gate)));
    let executed = Arc::new(Log::new());
    let log = Arc::clone(&executed);
    let running = Running::start(worker(&coordinator).handle("work", move |_: Ctx, n: u32| {
        log.push(n);
        async move { Ok(n) }
    }));
    coordinator.offer([later(1)]);
    coordinator.until_started(1).await;
    coordinator.offer([first(2)]);
    running.until_committed(1).await;
    assert_eq!(executed.all(), [2], "a first attempt waits for nothing");
    gate.notify_one();
    running.until_committed(2).await;
    running.end().await.unwrap();
    assert_eq!(executed.all(), [2, 1]);
}

#[tokio::test]
async fn a_worker_that_awaits_starts_runs_no_first_attempt_before() {
    let coordinator = Coordinator::start().await;
    coordinator.once("/starts", Reply::Each(item_refusal(409, "task_already_terminal")));
    let executed = Arc::new(Log::new());
    let log = Arc::clone(&executed);
    let work = move |_: Ctx, n: u32| {
        log.push(n);
        async move { Ok(n) }
    };
    let running = Running::start(worker(&coordinator).await_starts().handle("work", work));
    coordinator.offer([first(1)]);
    let lost = |event: &WorkerEvent| matches!(event, WorkerEvent::Cancelled { .. });
    running.until("authority lost", lost).await;
    coordinator.offer([first(2)]);
    running.until_committed(1).await;
    running.end().await.unwrap();
    assert_eq!(executed.all(), [2]);
}

#[tokio::test]
async fn a_cancel_before_the_start_stops_code_that_already_runs() {
    // S4-18, S4-50: the answer to the start says that the task was cancelled before it.
    let coordinator = Coordinator::start().await;
    coordinator.once("/starts", Reply::Each(item_refusal(409, "task_already_terminal")));
    let seen = Arc::new(Log::new());
    let log = Arc::clone(&seen);
    let running = Running::start(worker(&coordinator).handle("work", move |ctx: Ctx, _: Value| {
        let log = Arc::clone(&log);
        async move {
            ctx.cancelled().await;
            log.push(ctx.stop_reason());
            Ok(json!("a result without authority"))
        }
    }));
    coordinator.offer([first(1)]);
    let lost = |event: &WorkerEvent| matches!(event, WorkerEvent::Cancelled { .. });
    running.until("authority lost", lost).await;
    running.end().await.unwrap();
    let why = "task_already_terminal".to_owned();
    assert_eq!(seen.all(), [Some(StopReason::LeaseLost { why })]);
    assert!(coordinator.reports().is_empty());
    assert_eq!(coordinator.starts("task_1"), 1);
}

#[tokio::test]
async fn a_cancel_before_the_start_of_a_later_attempt_keeps_its_code_from_running() {
    // S4-18, S4-50.
    let coordinator = Coordinator::start().await;
    coordinator.once("/starts", Reply::Each(item_refusal(409, "task_already_terminal")));
    let executed = Arc::new(Log::new());
    let log = Arc::clone(&executed);
    let running = Running::start(worker(&coordinator).handle("work", move |_: Ctx, n: u32| {
        log.push(n);
        async move { Ok(n) }
    }));
    coordinator.offer([later(1)]);
    let lost = |event: &WorkerEvent| matches!(event, WorkerEvent::Cancelled { .. });
    running.until("authority lost", lost).await;
    running.end().await.unwrap();
    assert!(executed.all().is_empty());
    assert!(coordinator.reports().is_empty());
}

#[tokio::test]
async fn starts_that_are_due_together_share_a_call() {
    let coordinator = Coordinator::start().await;
    let (worker, finish) = until_told(&coordinator);
    let running = Running::start(worker.concurrency(3));
    coordinator.offer([later(1), later(2), later(3)]);
    coordinator.until_started(3).await;
    finish.cancel();
    running.until_committed(3).await;
    running.end().await.unwrap();
    let calls = coordinator.to("/v1/starts");
    assert!(calls.len() < 3, "{} calls", calls.len());
}

#[tokio::test]
async fn a_start_that_was_not_decided_is_sent_again_while_the_code_runs() {
    let coordinator = Coordinator::start().await;
    coordinator.once("/starts", Reply::Each(json!({ "status": 503, "verdict": null })));
    coordinator.once("/starts", Reply::Broken);
    let (worker, finish) = until_told(&coordinator);
    let running = Running::start(worker);
    coordinator.offer([envelope_with(1, json!({ "attempt": 1 }))]);
    coordinator.until_started(3).await;
    finish.cancel();
    running.until_committed(1).await;
    running.end().await.unwrap();
    let starts = coordinator.to("/v1/starts");
    assert!(starts.windows(2).all(|pair| pair[0].bytes == pair[1].bytes));
}

#[tokio::test]
async fn an_older_coordinator_gets_its_starts_one_by_one() {
    let coordinator = Coordinator::start().await;
    coordinator.always("/starts", problem(404, "not_found"));
    let running = Running::start(echo(worker(&coordinator)));
    coordinator.offer([envelope(1), envelope(2)]);
    running.until_committed(2).await;
    running.end().await.unwrap();
    let started = coordinator.to("task_1/started");
    assert_eq!(started.len(), 1);
    assert_eq!(started[0].bearer, "Bearer token_1");
}
