//! A worker whose authority is lost or whose call is invalid does nothing more.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tenure::{Ctx, StopReason, WorkerEvent};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::coordinator::{
    Coordinator, Reply, SERVER_TIME, envelope, envelope_with, item_refusal, problem,
};
use crate::log::Log;
use crate::worker::{Running, echo, worker};

/// Reports one attempt, gets this answer, continues, and returns the events and the number of
/// reports.
async fn answered(status: u16, error: &str) -> (Vec<WorkerEvent>, usize) {
    let coordinator = Coordinator::start().await;
    coordinator.once("/reports", Reply::Each(item_refusal(status, error)));
    let running = Running::start(echo(worker(&coordinator)).concurrency(1));
    coordinator.offer([envelope(1)]);
    running.events.until("the answer", |events| !events.is_empty()).await;
    coordinator.offer([envelope(2)]);
    running.until_committed(1).await;
    let events = running.events.all();
    running.end().await.unwrap();
    let of_the_first = |report: &&Value| report["taskId"] == "task_1";
    (events, coordinator.reports().iter().filter(of_the_first).count())
}

#[tokio::test]
async fn a_cancelled_report_is_the_end_of_the_attempt() {
    // S3-11, S3-12, S3-20, S3-21: CANCELLED is a final answer, and the result is discarded. S3-25,
    // S3-26, S3-30, S3-40, S3-41, S3-55: it is not reported as a failure, nothing is retried or
    // submitted again, and the worker continues with other work. S3-22, S3-23, S3-24: expired,
    // superseded or invalidated by a recovery makes no difference. S2-50: the worker still lists the attempt as its own,
    // and what the coordinator says counts.
    for (status, error) in
        [(410, "task_expired"), (409, "attempt_mismatch"), (409, "task_already_terminal")]
    {
        let (events, reports) = answered(status, error).await;
        assert_eq!(reports, 1, "{error}");
        let why = error.to_owned();
        let lost = WorkerEvent::Cancelled { task_id: "task_1".to_owned(), attempt: 2, why };
        assert_eq!(events[0], lost);
    }
}

#[tokio::test]
async fn nothing_but_committed_is_success() {
    // Proves: S3-19: whatever the status says.
    for answer in [
        json!({ "status": 200, "verdict": "CANCELLED" }),
        json!({ "status": 200, "verdict": "REJECTED" }),
        json!({ "status": 200, "verdict": null }),
        json!({ "status": 202, "verdict": null, "state": "succeeded" }),
        json!({ "status": 200, "verdict": "CANCELLED", "replayed": true, "state": "succeeded" }),
    ] {
        let coordinator = Coordinator::start().await;
        coordinator.once("/reports", Reply::Each(answer.clone()));
        let running = Running::start(echo(worker(&coordinator)).concurrency(1));
        coordinator.offer([envelope(1)]);
        running.events.until("the answer", |events| !events.is_empty()).await;
        let told = running.events.all();
        running.end().await.unwrap();
        let is_success = |event: &WorkerEvent| matches!(event, WorkerEvent::Committed { .. });
        assert!(!told.iter().any(is_success), "{answer}: {told:?}");
        assert_eq!(coordinator.reports().len(), 1, "{answer}");
    }
}

#[tokio::test]
async fn of_a_batch_only_what_was_committed_counts() {
    // Proves: S3-42: an answer that does not answer each report answers none of them.
    let coordinator = Coordinator::start().await;
    let gate = Arc::new(Notify::new());
    coordinator.once("/reports", Reply::Gate(Arc::clone(&gate)));
    let first_only = json!({ "taskId": "task_2", "status": 200, "verdict": "COMMITTED" });
    let torn = json!({ "answers": [first_only], "serverTime": SERVER_TIME });
    coordinator.once("/reports", Reply::Json(200, torn));
    let running = Running::start(echo(worker(&coordinator)).concurrency(1));
    for n in 1..=3 {
        coordinator.offer([envelope(n)]);
    }
    // There is only one slot: the fourth poll shows that the third execution has filed its report.
    coordinator.until("/leases", 4).await;
    gate.notify_one();
    running.events.until("three answers", |events| events.len() >= 3).await;
    let told = running.events.all();
    running.end().await.unwrap();
    let of = |task: &str| {
        told.iter().filter(|event| format!("{event:?}").contains(task)).collect::<Vec<_>>()
    };
    assert!(matches!(of("task_1")[..], [WorkerEvent::Committed { .. }]), "{told:?}");
    assert!(matches!(of("task_2")[..], [WorkerEvent::Unanswered { .. }]), "{told:?}");
    assert!(matches!(of("task_3")[..], [WorkerEvent::Unanswered { .. }]), "{told:?}");
}

#[tokio::test]
async fn no_verdict_makes_a_worker_say_it_again() {
    // Proves: S3-54: started, heartbeat and report, for each of the three verdicts.
    for (status, error) in [(200, ""), (410, "task_expired"), (401, "invalid_token")] {
        for call in ["/starts", "/heartbeats", "/reports"] {
            let coordinator = Coordinator::start().await;
            if status != 200 {
                coordinator.once(call, Reply::Each(item_refusal(status, error)));
            }
            let beats = if call == "/heartbeats" { 20 } else { 200_000 };
            let waits = call == "/heartbeats" && status != 200;
            let running = Running::start(worker(&coordinator).concurrency(1).handle(
                "work",
                move |ctx: Ctx, n: u32| async move {
                    if waits && n == 1 {
                        ctx.cancelled().await;
                    }
                    Ok(n)
                },
            ));
            coordinator.offer([envelope_with(1, json!({ "heartbeatIntervalMs": beats }))]);
            running.events.until("an end", |events| !events.is_empty()).await;
            // Another task shows that the worker continues, and that there was time to repeat the
            // call.
            coordinator.offer([envelope_with(2, json!({ "heartbeatIntervalMs": 200_000 }))]);
            running.until("the next task", |event| {
                matches!(event, WorkerEvent::Committed { task_id, .. } if task_id == "task_2")
            }).await;
            running.end().await.unwrap();
            let started = coordinator.starts("task_1");
            let reports =
                coordinator.reports().iter().filter(|it| it["taskId"] == "task_1").count();
            let (once, never) = (1, 0);
            assert_eq!(started, once, "{call} {status}");
            let reported = if status == 200 || call == "/reports" { once } else { never };
            assert_eq!(reports, reported, "{call} {status}");
            if waits {
                assert_eq!(coordinator.to("/heartbeats").len(), once, "{call} {status}");
            }
        }
    }
}

#[tokio::test]
async fn a_rejected_report_is_surfaced_and_never_repeated() {
    // S3-32, S3-37, S3-38, S3-39, S3-55: a protocol error is surfaced and not retried.
    // S3-33, S3-34, S3-35, S3-36: whatever was invalid about the report.
    for (status, error) in [
        (404, "task_not_found"),
        (422, "unknown_lease"),
        (400, "invalid_argument"),
        (409, "conflicting_report"),
    ] {
        let (events, reports) = answered(status, error).await;
        assert_eq!(reports, 1, "{error}");
        let rejected = WorkerEvent::Rejected {
            task_id: Some("task_1".to_owned()),
            code: error.to_owned(),
            message: "no".to_owned(),
        };
        assert_eq!(events[0], rejected);
    }
}

#[tokio::test]
async fn a_refused_batch_rejects_what_it_held_and_is_never_repeated() {
    // S3-37, S3-38, S3-39: the same when the whole call is invalid.
    let coordinator = Coordinator::start().await;
    coordinator.once("/reports", problem(403, "forbidden"));
    let running = Running::start(echo(worker(&coordinator)));
    coordinator.offer([envelope(1)]);
    running.until("rejected", |event| matches!(event, WorkerEvent::Rejected { .. })).await;
    running.end().await.unwrap();
    assert_eq!(coordinator.to("/reports").len(), 1);
}

#[tokio::test]
async fn a_start_that_is_refused_executes_nothing() {
    // S4-18, S4-50: on 409 the worker aborts before execution. S3-31, S3-43, S3-44: no code runs,
    // so that no effect is emitted and no state updated.
    for (status, error) in [(409, "task_already_terminal"), (410, "task_expired")] {
        let coordinator = Coordinator::start().await;
        coordinator.once("/starts", Reply::Each(item_refusal(status, error)));
        let executed = Arc::new(Log::new());
        let ran = Arc::clone(&executed);
        let running = Running::start(worker(&coordinator).concurrency(1).handle(
            "work",
            move |_: Ctx, n: u32| {
                ran.push(n);
                async move { Ok(n) }
            },
        ));
        coordinator.offer([envelope(1), envelope(2)]);
        running.until_committed(1).await;
        let events = running.events.all();
        running.end().await.unwrap();
        assert_eq!(executed.all(), [2]);
        let why = error.to_owned();
        let lost = WorkerEvent::Cancelled { task_id: "task_1".to_owned(), attempt: 2, why };
        assert_eq!(events[0], lost);
        assert_eq!(coordinator.reports().len(), 1);
        assert_eq!(coordinator.starts("task_1"), 1);
    }
}

#[tokio::test]
async fn a_start_that_is_rejected_is_surfaced() {
    // S3-37, S3-38, S3-39.
    let coordinator = Coordinator::start().await;
    coordinator.once("/starts", Reply::Each(item_refusal(401, "invalid_token")));
    let running = Running::start(echo(worker(&coordinator)));
    coordinator.offer([envelope(1)]);
    running.until("rejected", |event| matches!(event, WorkerEvent::Rejected { .. })).await;
    running.end().await.unwrap();
    assert_eq!(coordinator.starts("task_1"), 1);
    assert!(coordinator.reports().is_empty());
}

/// A task that records why it was stopped, and then returns a result that must be discarded.
fn stubborn(seen: Arc<Log<Option<StopReason>>>) -> impl Fn(Ctx, Value) -> Stubborn + Send + Sync {
    move |ctx, _| {
        let seen = Arc::clone(&seen);
        Box::pin(async move {
            ctx.cancelled().await;
            seen.push(ctx.stop_reason());
            Ok(json!("a result without authority"))
        })
    }
}

type Stubborn = std::pin::Pin<Box<dyn Future<Output = Result<Value, tenure::Failure>> + Send>>;

#[tokio::test]
async fn a_heartbeat_that_finds_the_lease_gone_stops_the_task_and_discards_its_result() {
    // S0-44, S0-45: a failed renewal ends all changes and the work. S4-25, S4-42: 410 aborts at
    // once. W-15: the answer to a heartbeat is not swallowed. S3-28, S3-29, S3-31, S3-43, S3-44,
    // S3-45: the task is notified, its result is discarded.
    for (status, error) in [(410, "task_expired"), (409, "attempt_mismatch")] {
        let coordinator = Coordinator::start().await;
        coordinator.once("/heartbeats", Reply::Each(item_refusal(status, error)));
        let seen = Arc::new(Log::new());
        let task = stubborn(Arc::clone(&seen));
        let running = Running::start(worker(&coordinator).handle("work", task));
        coordinator.offer([envelope(1)]);
        let lost = |event: &WorkerEvent| matches!(event, WorkerEvent::Cancelled { .. });
        running.until("authority lost", lost).await;
        running.end().await.unwrap();
        assert_eq!(seen.all(), [Some(StopReason::LeaseLost { why: error.to_owned() })]);
        assert!(coordinator.reports().is_empty());
        assert_eq!(coordinator.to("/heartbeats").len(), 1);
    }
}

#[tokio::test]
async fn a_heartbeat_that_is_rejected_stops_the_task_and_is_surfaced() {
    // S3-37, S3-38, S3-39.
    for reply in [Reply::Each(item_refusal(401, "invalid_token")), problem(403, "forbidden")] {
        let coordinator = Coordinator::start().await;
        coordinator.once("/heartbeats", reply);
        let task = stubborn(Arc::new(Log::new()));
        let running = Running::start(worker(&coordinator).handle("work", task));
        coordinator.offer([envelope(1)]);
        running.until("rejected", |event| matches!(event, WorkerEvent::Rejected { .. })).await;
        let lost = |event: &WorkerEvent| matches!(event, WorkerEvent::Cancelled { .. });
        running.until("authority lost", lost).await;
        running.end().await.unwrap();
        assert!(coordinator.reports().is_empty());
    }
}

/// Cancels its token when the future that holds it is dropped.
struct Dropped(CancellationToken);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

#[tokio::test]
async fn a_task_that_ignores_the_loss_of_its_lease_is_dropped() {
    // S3-28: the worker stops all work on the task, whatever its code does.
    let coordinator = Coordinator::start().await;
    coordinator.once("/heartbeats", Reply::Each(item_refusal(410, "task_expired")));
    let dropped = CancellationToken::new();
    let guard = dropped.clone();
    let running = Running::start(worker(&coordinator).handle("work", move |_: Ctx, _: Value| {
        let guard = Dropped(guard.clone());
        async move {
            std::future::pending::<()>().await;
            drop(guard);
            Ok(())
        }
    }));
    coordinator.offer([envelope(1)]);
    dropped.cancelled().await;
    running.end().await.unwrap();
    assert!(coordinator.reports().is_empty());
}

#[tokio::test]
async fn without_any_answer_a_task_stops_at_its_own_deadline() {
    // S3-10, S3-48, S3-50, S3-66: ownership is lost without a message; the worker's own clock
    // detects it, and the coordinator does the rest. S3-29, S3-31, S3-45: what the code returns
    // after that is discarded.
    let coordinator = Coordinator::start().await;
    coordinator.always("/heartbeats", Reply::Silence);
    let seen = Arc::new(Log::new());
    let task = stubborn(Arc::clone(&seen));
    let running = Running::start(worker(&coordinator).handle("work", task));
    coordinator.offer([envelope_with(1, json!({ "heartbeatTimeoutMs": 1_500 }))]);
    let lost = |event: &WorkerEvent| matches!(event, WorkerEvent::Cancelled { .. });
    running.until("authority lost", lost).await;
    running.end().await.unwrap();
    assert!(
        matches!(&seen.all()[..], [Some(StopReason::LeaseLost { why })] if why.contains("deadline"))
    );
    assert!(coordinator.reports().is_empty());
}

#[test]
fn blocking_code_sees_the_loss_on_a_runtime_it_blocks() {
    // S3-10, S3-31: code that never yields detects the loss by checking, and its result is
    // discarded.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let coordinator = Coordinator::start().await;
        coordinator.once("/heartbeats", Reply::Each(item_refusal(410, "task_expired")));
        let running =
            Running::start(worker(&coordinator).handle("work", |ctx: Ctx, _: Value| async move {
                let polls = std::iter::repeat_with(|| {
                    std::thread::park_timeout(Duration::from_millis(1));
                    ctx.is_cancelled()
                });
                Ok(polls.take_while(|is_cancelled| !is_cancelled).count())
            }));
        coordinator.offer([envelope(1)]);
        let lost = |event: &WorkerEvent| matches!(event, WorkerEvent::Cancelled { .. });
        running.until("authority lost", lost).await;
        running.end().await.unwrap();
        assert!(coordinator.reports().is_empty());
    });
}
