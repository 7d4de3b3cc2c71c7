//! The lines that code logs: when they travel, and what a worker does where they are not understood.

use serde_json::{Value, json};
use tenure::{Ctx, LogLevel, Worker, WorkerEvent};
use tokio_util::sync::CancellationToken;

use crate::coordinator::{Call, Coordinator, envelope, envelope_with};
use crate::worker::{Running, worker};

/// A worker whose task logs a line and runs until the token is cancelled.
fn noisy(coordinator: &Coordinator) -> (Worker, CancellationToken) {
    let finish = CancellationToken::new();
    let until = finish.clone();
    let worker = worker(coordinator).handle("work", move |ctx: Ctx, input: Value| {
        let until = until.clone();
        async move {
            ctx.log(LogLevel::Info, "begun");
            until.cancelled().await;
            Ok(input)
        }
    });
    (worker, finish)
}

fn has_lines(call: &Call) -> bool {
    call.items().iter().any(|item| item.get("log").is_some())
}

/// Waits for heartbeats after the one that brought lines; whether each had any.
async fn heartbeats_after_lines(coordinator: &Coordinator, count: usize) -> Vec<bool> {
    let beats = |calls: &[Call]| -> Vec<bool> {
        let beats = calls.iter().filter(|call| call.path.ends_with("/heartbeats"));
        beats.map(has_lines).skip_while(|has_lines| !has_lines).collect()
    };
    let calls = coordinator.calls.until("heartbeats", |calls| beats(calls).len() > count).await;
    beats(&calls)
}

#[tokio::test]
async fn lines_go_once_with_a_heartbeat_or_with_the_report() {
    let coordinator = Coordinator::start().await;
    let (worker, finish) = noisy(&coordinator);
    let running = Running::start(worker);
    coordinator.offer([envelope(1)]);
    let beats = heartbeats_after_lines(&coordinator, 3).await;
    assert_eq!(beats.iter().filter(|has_lines| **has_lines).count(), 1, "{beats:?}");
    finish.cancel();
    running.until_committed(1).await;
    assert!(coordinator.reports()[0].get("log").is_none());
    // A task without heartbeats brings its lines with the report.
    coordinator.offer([envelope_with(2, json!({ "heartbeatIntervalMs": 60_000 }))]);
    running.until_committed(2).await;
    running.end().await.unwrap();
    let log = &coordinator.reports()[1]["log"];
    assert_eq!((&log[0]["n"], &log[0]["text"]), (&json!(1), &json!("begun")));
}

#[tokio::test]
async fn a_heartbeat_that_is_refused_for_its_lines_is_sent_without() {
    let coordinator = Coordinator::start().await;
    coordinator.refuse_logs();
    let (worker, finish) = noisy(&coordinator);
    let running = Running::start(worker);
    coordinator.offer([envelope(1)]);
    let beats = heartbeats_after_lines(&coordinator, 3).await;
    assert_eq!(beats.iter().filter(|has_lines| **has_lines).count(), 1, "{beats:?}");
    finish.cancel();
    running.until_committed(1).await;
    assert_quiet(&running);
    running.end().await.unwrap();
    assert!(coordinator.reports().iter().all(|report| report.get("log").is_none()));
}

#[tokio::test]
async fn a_report_that_is_refused_for_its_lines_is_sent_without() {
    let coordinator = Coordinator::start().await;
    coordinator.refuse_logs();
    let (worker, finish) = noisy(&coordinator);
    finish.cancel();
    let running = Running::start(worker.concurrency(1));
    for n in [1, 2] {
        coordinator.offer([envelope_with(n, json!({ "heartbeatIntervalMs": 60_000 }))]);
        running.until_committed(n as usize).await;
    }
    assert_quiet(&running);
    running.end().await.unwrap();
    let sent: Vec<(Value, bool)> = coordinator
        .reports()
        .iter()
        .map(|report| (report["taskId"].clone(), report.get("log").is_some()))
        .collect();
    let (first, second) = (json!("task_1"), json!("task_2"));
    assert_eq!(sent, [(first.clone(), true), (first, false), (second, false)]);
}

/// An older coordinator is no reason to tell the operator anything, and costs no lease.
fn assert_quiet(running: &Running) {
    let told = running.events.all();
    assert!(told.iter().all(|event| matches!(event, WorkerEvent::Committed { .. })), "{told:?}");
}
