//! A cancel that reaches a running task through its heartbeats.

use std::sync::Arc;

use serde_json::{Value, json};
use tenure::{Ctx, Failure, StopReason, WorkerEvent};
use tokio_util::sync::CancellationToken;

use crate::coordinator::{Coordinator, Reply, envelope, envelope_with, item_refusal};
use crate::log::Log;
use crate::worker::{Running, worker};

fn should_cancel() -> Reply {
    Reply::Each(json!({ "shouldCancel": true, "cancelReason": "user_requested" }))
}

#[tokio::test]
async fn a_task_that_is_asked_to_stop_cleans_up_and_is_reported_cancelled() {
    // S4-22, S4-23, S4-43, S4-48, S4-49: the signal reaches the task with its reason. S4-52, S4-53:
    // it finishes what is in flight and cleans up. S4-54, S4-34, S4-35: then it is reported
    // CANCELLED, with its phase and progress.
    let coordinator = Coordinator::start().await;
    coordinator.always("/heartbeats", should_cancel());
    let seen = Arc::new(Log::new());
    let polls_while_stopping = Arc::new(Log::new());
    let (log, polls, watched) =
        (Arc::clone(&seen), Arc::clone(&polls_while_stopping), Arc::clone(&coordinator));
    let running = Running::start(worker(&coordinator).concurrency(1).handle(
        "work",
        move |ctx: Ctx, _: Value| {
            let (log, polls, watched) =
                (Arc::clone(&log), Arc::clone(&polls), Arc::clone(&watched));
            async move {
                ctx.cancelled().await;
                log.push(ctx.stop_reason());
                // Cleaning up takes a while, and heartbeats continue during it.
                watched.until("/heartbeats", watched.to("/heartbeats").len() + 2).await;
                polls.push(watched.to("/leases").len());
                Err::<(), _>(
                    Failure::cancelled()
                        .during_phase("upload")
                        .with_partial_progress(&json!({ "records": 7 })),
                )
            }
        },
    ));
    coordinator.offer([envelope(1)]);
    running.until_committed(1).await;
    running.end().await.unwrap();
    let reason = Some("user_requested".to_owned());
    assert_eq!(seen.all(), [Some(StopReason::CancelRequested { reason })]);
    assert_eq!(polls_while_stopping.all(), [1]);
    let reports = coordinator.reports();
    assert_eq!(reports.len(), 1);
    assert_eq!(reports[0]["outcome"], "CANCELLED");
    assert_eq!(reports[0]["cancelledDuringPhase"], "upload");
    assert_eq!(reports[0]["partialProgress"], json!({ "records": 7 }));
    assert_eq!(reports[0].get("error"), None);
}

#[tokio::test]
async fn the_slot_of_a_task_that_was_asked_to_stop_takes_no_new_work_until_it_has() {
    // Proves: S4-51: of two places only the other one is offered, also when that one is free again.
    let coordinator = Coordinator::start().await;
    coordinator.always("/heartbeats", should_cancel());
    let (stopping, finish) = (Arc::new(Log::new()), CancellationToken::new());
    let end = CancellationToken::new();
    let (log, until, last) = (Arc::clone(&stopping), finish.clone(), end.clone());
    let task = move |ctx: Ctx, n: u32| {
        let (log, until, last) = (Arc::clone(&log), until.clone(), last.clone());
        async move {
            if n == 1 {
                ctx.cancelled().await;
                log.push(n);
                until.cancelled().await;
            }
            if n == 3 {
                last.cancelled().await;
            }
            Ok(n)
        }
    };
    let running = Running::start(worker(&coordinator).concurrency(2).handle("work", task));
    coordinator.offer([envelope(1)]);
    stopping.until("the signal", |seen| !seen.is_empty()).await;
    coordinator.offer([envelope(2)]);
    running.until_committed(1).await;
    coordinator.until("/leases", 3).await;
    finish.cancel();
    running.until_committed(2).await;
    // While the third task has the other slot, the next poll can only offer the one that was
    // released.
    coordinator.offer([envelope(3)]);
    coordinator.until("/leases", 4).await;
    end.cancel();
    running.until_committed(3).await;
    running.end().await.unwrap();
    // The last poll does not wait: it only ends the one that was open.
    let polls = coordinator.to("/leases").into_iter().map(|call| call.json());
    let polls = polls.filter(|poll| poll["waitMs"] != 0);
    let asked: Vec<Value> = polls.map(|poll| poll["max"].clone()).collect();
    assert_eq!(asked, [json!(2), json!(1), json!(1), json!(1)]);
}

#[tokio::test]
async fn any_error_of_a_task_that_was_asked_to_stop_is_the_cancel() {
    // S4-54, S3-67: cancellation is not failure.
    let coordinator = Coordinator::start().await;
    coordinator.always("/heartbeats", should_cancel());
    let running =
        Running::start(worker(&coordinator).handle("work", |ctx: Ctx, _: Value| async move {
            ctx.or_cancelled(std::future::pending::<()>()).await?;
            Ok(())
        }));
    coordinator.offer([envelope(1)]);
    running.until_committed(1).await;
    running.end().await.unwrap();
    assert_eq!(coordinator.reports()[0]["outcome"], "CANCELLED");
}

#[tokio::test]
async fn success_in_spite_of_a_cancel_is_reported_truthfully() {
    // S4-52: an operation in flight may be finished where that is safe.
    let coordinator = Coordinator::start().await;
    coordinator.always("/heartbeats", should_cancel());
    let running =
        Running::start(worker(&coordinator).handle("work", |ctx: Ctx, n: u32| async move {
            ctx.cancelled().await;
            Ok(n)
        }));
    coordinator.offer([envelope(1)]);
    running.until_committed(1).await;
    running.end().await.unwrap();
    let report = &coordinator.reports()[0];
    assert_eq!((&report["outcome"], &report["output"]), (&json!("SUCCEEDED"), &json!(1)));
}

#[tokio::test]
async fn a_task_that_ignores_its_cancel_is_stopped_when_the_coordinator_gives_up() {
    // S4-42, S3-28: the grace period is over, the heartbeat gets 410, and nothing is reported.
    let coordinator = Coordinator::start().await;
    coordinator.once("/heartbeats", should_cancel());
    coordinator.once("/heartbeats", Reply::Each(item_refusal(410, "task_expired")));
    let running =
        Running::start(worker(&coordinator).handle("work", |_: Ctx, _: Value| async move {
            std::future::pending::<()>().await;
            Ok(())
        }));
    coordinator.offer([envelope(1)]);
    let lost = |event: &WorkerEvent| matches!(event, WorkerEvent::Cancelled { .. });
    running.until("authority lost", lost).await;
    running.end().await.unwrap();
    assert!(coordinator.reports().is_empty());
}

/// An attempt whose next heartbeat is due after the test has given up.
fn patient_envelope(n: u32) -> Value {
    envelope_with(n, json!({ "heartbeatIntervalMs": 200_000 }))
}

#[tokio::test]
async fn a_signal_from_a_poll_sends_the_heartbeat_of_its_task_now() {
    // S4-49: the heartbeat brings the cancel, and the poll tells when to send it.
    for concurrency in [2, 1] {
        let coordinator = Coordinator::start().await;
        let worker = worker(&coordinator).concurrency(concurrency);
        let begun = Arc::new(Log::new());
        let log = Arc::clone(&begun);
        let running = Running::start(worker.handle("work", move |ctx: Ctx, n: u32| {
            log.push(n);
            async move {
                ctx.cancelled().await;
                Err::<(), _>(Failure::cancelled())
            }
        }));
        coordinator.offer([patient_envelope(1)]);
        begun.until("execution", |seen| !seen.is_empty()).await;
        // The second poll waits while the task runs. A worker without a free slot sends it for
        // signals alone.
        let polls = coordinator.until("/leases", 2).await;
        let room = u32::from(concurrency > 1);
        assert_eq!(polls[1].json()["max"], json!(room));
        coordinator.always("/heartbeats", Reply::Each(json!({ "shouldCancel": true })));
        coordinator.signal("task_1");
        running.until_committed(1).await;
        running.end().await.unwrap();
        assert_eq!(coordinator.reports()[0]["outcome"], "CANCELLED");
    }
}
