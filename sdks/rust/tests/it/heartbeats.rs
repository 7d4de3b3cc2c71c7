//! Heartbeats: how often they are sent, when they start and end, and what happens when they fail.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use serde_json::{Value, json};
use tenure::Ctx;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::coordinator::{Call, Coordinator, Reply, envelope, envelope_with, problem};
use crate::worker::{Running, worker};

/// A worker whose tasks run until the token is cancelled.
pub(crate) fn until_told(coordinator: &Coordinator) -> (tenure::Worker, CancellationToken) {
    let finish = CancellationToken::new();
    let until = finish.clone();
    let worker = worker(coordinator).handle("work", move |_: Ctx, input: Value| {
        let until = until.clone();
        async move {
            until.cancelled().await;
            Ok(input)
        }
    });
    (worker, finish)
}

#[tokio::test]
async fn heartbeats_are_sent_every_interval_while_executing_and_at_no_other_time() {
    // S3-46, S4-40: they start after `started` and end with the execution.
    let coordinator = Coordinator::start().await;
    let finish = Arc::new(Notify::new());
    let until = Arc::clone(&finish);
    let running = Running::start(worker(&coordinator).concurrency(1).handle(
        "work",
        move |_: Ctx, input: Value| {
            let until = Arc::clone(&until);
            async move {
                until.notified().await;
                Ok(input)
            }
        },
    ));
    for n in [1_u32, 2] {
        coordinator.offer([envelope(n)]);
        // The heartbeats of the second task show that there was time for more of the first.
        coordinator.until("/heartbeats", coordinator.to("/heartbeats").len() + 4).await;
        finish.notify_one();
        running.until_committed(n as usize).await;
    }
    running.end().await.unwrap();

    let calls = coordinator.calls.all();
    let place = |path: &str| calls.iter().position(|call| call.path.ends_with(path)).unwrap();
    let (started, reported) = (place("/starts"), place("/reports"));
    let beats = |calls: &[Call]| {
        let items = calls.iter().filter(|c| c.path.ends_with("/heartbeats")).flat_map(Call::items);
        items.filter(|item| item["taskId"] == "task_1").count()
    };
    assert_eq!(beats(&calls[..started]), 0);
    assert!(beats(&calls[started..reported]) >= 4);
    // One may have been in flight when the task ended; if they did not end there would be four.
    assert!(beats(&calls[reported..]) <= 1);
}

#[tokio::test]
async fn a_heartbeat_names_its_attempt_and_tells_the_latest_progress() {
    // S4-19, S4-65: attempt, worker, progress and message.
    let coordinator = Coordinator::start().await;
    let finish = CancellationToken::new();
    let until = finish.clone();
    let running = Running::start(worker(&coordinator).handle("work", move |ctx: Ctx, _: Value| {
        let until = until.clone();
        async move {
            ctx.progress(10.0, "first");
            ctx.progress(250.0, "latest");
            until.cancelled().await;
            Ok(())
        }
    }));
    coordinator.offer([envelope(1)]);
    // On a busy machine the lease is renewed before its code has begun.
    let telling = |calls: &[Call]| {
        let mut items =
            calls.iter().filter(|it| it.path.ends_with("/heartbeats")).flat_map(Call::items);
        items.find(|item| item["message"].is_string())
    };
    coordinator.calls.until("progress", |calls| telling(calls).is_some()).await;
    let item = telling(&coordinator.calls.all()).unwrap();
    finish.cancel();
    running.until_committed(1).await;
    running.end().await.unwrap();
    assert_eq!((&item["taskId"], &item["attempt"]), (&json!("task_1"), &json!(2)));
    assert_eq!((&item["progressPct"], &item["message"]), (&json!(100.0), &json!("latest")));
    assert_eq!(item["workerId"], coordinator.to("/leases")[0].json()["workerId"]);
}

#[tokio::test]
async fn a_heartbeat_that_got_no_decision_is_sent_again_and_costs_the_task_nothing() {
    // S4-41, S3-51: a broken connection, an unavailable or a busy coordinator. S3-47: heartbeats
    // are advisory; their failure decides nothing.
    let coordinator = Coordinator::start().await;
    coordinator.once("/heartbeats", Reply::Broken);
    coordinator.once("/heartbeats", problem(503, "unavailable"));
    coordinator.once("/heartbeats", problem(429, "too_many_requests"));
    coordinator.once("/heartbeats", Reply::Each(json!({ "status": 503, "verdict": null })));
    coordinator.once(
        "/heartbeats",
        Reply::Json(200, json!({ "answers": [], "serverTime": crate::coordinator::SERVER_TIME })),
    );
    coordinator.once("/heartbeats", Reply::Json(502, json!("a proxy")));
    let (worker, finish) = until_told(&coordinator);
    let running = Running::start(worker);
    coordinator.offer([envelope(1)]);
    coordinator.until("/heartbeats", 8).await;
    finish.cancel();
    running.until_committed(1).await;
    running.end().await.unwrap();
    assert_eq!(coordinator.reports()[0]["outcome"], "SUCCEEDED");
}

#[test]
fn code_that_blocks_its_runtime_cannot_stop_heartbeats() {
    // S4-40, W-15: heartbeats do not depend on the task's code.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let coordinator = Coordinator::start().await;
        let watched = Arc::clone(&coordinator);
        let (beaten, enough) = sync_channel(1);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(watched.until("/heartbeats", 3));
            beaten.send(()).unwrap();
        });
        let enough = Arc::new(std::sync::Mutex::new(enough));
        let running = Running::start(worker(&coordinator).handle("work", move |_: Ctx, n: u32| {
            let enough = Arc::clone(&enough);
            async move {
                enough.lock().unwrap().recv().unwrap();
                Ok(n)
            }
        }));
        coordinator.offer([envelope(1)]);
        running.until_committed(1).await;
        running.end().await.unwrap();
        assert!(coordinator.to("/heartbeats").len() >= 3);
    });
}

#[test]
fn code_that_blocks_its_runtime_keeps_no_report_back() {
    // The task that reports has given up its lease, which nothing renews any more.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let coordinator = Coordinator::start().await;
        let watched = Arc::clone(&coordinator);
        let running = Running::start(worker(&coordinator).handle("work", move |_: Ctx, n: u32| {
            while n == 2 && watched.reports().is_empty() {
                std::thread::yield_now();
            }
            async move { Ok(n) }
        }));
        let first = |n| envelope_with(n, json!({ "attempt": 1, "heartbeatIntervalMs": 60_000 }));
        coordinator.offer([first(1), first(2)]);
        running.until_committed(2).await;
        running.end().await.unwrap();
        let reports = coordinator.reports();
        let of_first: Vec<_> = reports.iter().filter(|it| it["taskId"] == "task_1").collect();
        assert!(of_first.windows(2).all(|pair| pair[0] == pair[1]), "{of_first:?}");
    });
}

#[tokio::test]
async fn a_fresh_token_is_used_from_then_on() {
    // S4-12: the token is extended while the task runs.
    let coordinator = Coordinator::start().await;
    coordinator.once("/heartbeats", Reply::Each(json!({ "taskToken": "fresh" })));
    let (worker, finish) = until_told(&coordinator);
    let running = Running::start(worker);
    coordinator.offer([envelope(1)]);
    let beats = coordinator.until("/heartbeats", 2).await;
    finish.cancel();
    running.until_committed(1).await;
    running.end().await.unwrap();
    assert_eq!(beats[0].items()[0]["taskToken"], "token_1");
    assert_eq!(beats[1].items()[0]["taskToken"], "fresh");
    assert_eq!(coordinator.reports()[0]["taskToken"], "fresh");
}
