//! Shutting down: no new work, heartbeats until the end, running tasks finished or handed back.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use serde_json::{Value, json};
use tenure::{Ctx, Failure, StopReason, WorkerEvent};

use crate::coordinator::{Coordinator, envelope};
use crate::heartbeats::until_told;
use crate::log::Log;
use crate::worker::{Running, worker};

/// Longer than any test takes.
const FOR_EVER: Duration = Duration::from_secs(600);

#[tokio::test]
async fn a_shutdown_waits_for_running_tasks_and_keeps_their_leases() {
    // S2-51, S4-40: heartbeats do not stop while draining, and tasks that end in time are reported.
    let coordinator = Coordinator::start().await;
    let (worker, finish) = until_told(&coordinator);
    let running = Running::start(worker.concurrency(2).shutdown_timeout(Duration::from_secs(600)));
    coordinator.offer([envelope(1)]);
    coordinator.until_started(1).await;
    coordinator.until("/leases", 2).await;
    running.ask_to_end();
    coordinator.until("/heartbeats", coordinator.to("/heartbeats").len() + 3).await;
    finish.cancel();
    running.end().await.unwrap();
    // The open poll is ended with one that does not wait, and nothing is fetched after it.
    let polls = coordinator.to("/leases");
    let [.., open, last] = &polls[..] else { panic!("{} polls", polls.len()) };
    assert_eq!(open.json()["pollId"], last.json()["pollId"]);
    assert_eq!((&open.json()["waitMs"], &last.json()["waitMs"]), (&json!(30_000), &json!(0)));
    assert_eq!(coordinator.reports()[0]["outcome"], "SUCCEEDED");
}

#[tokio::test]
async fn a_task_that_stops_when_the_drain_is_over_is_handed_back() {
    let coordinator = Coordinator::start().await;
    let seen = Arc::new(Log::new());
    let log = Arc::clone(&seen);
    let running = Running::start(worker(&coordinator).shutdown_timeout(Duration::ZERO).handle(
        "work",
        move |ctx: Ctx, _: Value| {
            let log = Arc::clone(&log);
            async move {
                ctx.cancelled().await;
                log.push(ctx.stop_reason());
                Err::<(), _>(Failure::permanent("interrupted"))
            }
        },
    ));
    coordinator.offer([envelope(1)]);
    coordinator.until("/heartbeats", 1).await;
    running.end().await.unwrap();
    assert_eq!(seen.all(), [Some(StopReason::ShuttingDown)]);
    let reports = coordinator.reports();
    assert_eq!((reports.len(), &reports[0]["outcome"]), (1, &json!("RELEASED")));
    assert_eq!(reports[0]["error"], Value::Null);
}

#[tokio::test]
async fn a_coordinator_that_knows_no_release_is_told_of_a_failure() {
    // S4-58, S4-61: the failure has category INFRASTRUCTURE and is retryable.
    let coordinator = Coordinator::start().await;
    coordinator.refuse_releases();
    let running = Running::start(worker(&coordinator).shutdown_timeout(Duration::ZERO).handle(
        "work",
        |ctx: Ctx, _: Value| async move {
            ctx.cancelled().await;
            Err::<(), _>(Failure::cancelled())
        },
    ));
    coordinator.offer([envelope(1)]);
    coordinator.until("/heartbeats", 1).await;
    running.end().await.unwrap();
    let reports = coordinator.reports();
    let outcomes: Vec<&Value> = reports.iter().map(|report| &report["outcome"]).collect();
    assert_eq!(outcomes, ["RELEASED", "FAILED"]);
    assert_eq!(reports[1]["error"]["category"], "INFRASTRUCTURE");
    assert_eq!(reports[1]["error"]["retryable"], json!(true));
}

#[tokio::test]
async fn a_second_request_to_end_cuts_the_drain_short() {
    let coordinator = Coordinator::start().await;
    let running = Running::start(worker(&coordinator).shutdown_timeout(FOR_EVER).handle(
        "work",
        |ctx: Ctx, _: Value| async move {
            ctx.cancelled().await;
            Err::<(), _>(Failure::cancelled())
        },
    ));
    coordinator.offer([envelope(1)]);
    coordinator.until("/heartbeats", 1).await;
    running.cut().await.unwrap();
    assert_eq!(coordinator.reports()[0]["outcome"], "RELEASED");
}

#[tokio::test]
async fn a_task_may_be_handed_back_by_its_own_code() {
    let coordinator = Coordinator::start().await;
    let running =
        Running::start(worker(&coordinator).handle("work", |_: Ctx, _: Value| async move {
            Err::<(), _>(Failure::hand_back("no licence here"))
        }));
    coordinator.offer([envelope(1)]);
    coordinator.until("/reports", 1).await;
    running.end().await.unwrap();
    assert_eq!(coordinator.reports()[0]["outcome"], "RELEASED");
}

#[tokio::test]
async fn a_task_that_does_not_stop_is_dropped_and_handed_back() {
    let coordinator = Coordinator::start().await;
    let running = Running::start(worker(&coordinator).shutdown_timeout(Duration::ZERO).handle(
        "work",
        |_: Ctx, _: Value| async move {
            std::future::pending::<()>().await;
            Ok(())
        },
    ));
    coordinator.offer([envelope(1)]);
    coordinator.until("/heartbeats", 1).await;
    let events = Arc::clone(&running.events);
    running.end().await.unwrap();
    let (task_id, attempt) = ("task_1".to_owned(), 2);
    let outcome = tenure::wire::Outcome::Released;
    let released = WorkerEvent::Committed { task_id, attempt, outcome, error: None };
    assert_eq!(events.all(), [released]);
    assert_eq!(coordinator.reports()[0]["outcome"], "RELEASED");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn code_that_blocks_cannot_keep_a_worker_from_ending() {
    let coordinator = Coordinator::start().await;
    let (release, released) = sync_channel::<()>(0);
    let released = Arc::new(std::sync::Mutex::new(released));
    let running = Running::start(worker(&coordinator).shutdown_timeout(Duration::ZERO).handle(
        "work",
        move |ctx: Ctx, _: Value| {
            let released = Arc::clone(&released);
            async move {
                // The sender is dropped when the test ends.
                let _ = released.lock().unwrap().recv();
                Ok(ctx.is_cancelled())
            }
        },
    ));
    coordinator.offer([envelope(1)]);
    coordinator.until("/heartbeats", 1).await;
    let events = Arc::clone(&running.events);
    running.end().await.unwrap();
    assert!(coordinator.reports().is_empty());
    // Whether its code still runs cannot be known, so its lease must run out.
    let abandoned = WorkerEvent::Abandoned { task_id: "task_1".to_owned(), attempt: 2 };
    assert_eq!(events.all(), [abandoned]);
    drop(release);
}
