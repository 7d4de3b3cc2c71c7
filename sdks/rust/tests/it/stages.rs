//! A worker whose task goes on to its next stage: leased with the answer to the report, in the same slot, without a poll.

use std::sync::Arc;

use serde_json::{Value, json};
use tenure::Ctx;
use tokio_util::sync::CancellationToken;

use crate::coordinator::{Coordinator, Reply, envelope_with};
use crate::durable::three_steps;
use crate::log::Log;
use crate::worker::{Running, echo, worker};

fn stage(n: u32, name: &str) -> Value {
    envelope_with(n, json!({ "stage": name, "attempt": n, "leaseId": format!("lease-{n}") }))
}

#[tokio::test]
async fn a_worker_goes_on_with_the_next_stage_of_its_task() {
    let coordinator = Coordinator::start().await;
    let ran = Arc::new(Log::new());
    let log = Arc::clone(&ran);
    let running = Running::start(worker(&coordinator).concurrency(1).handle(
        "work",
        move |ctx: Ctx, _: Value| {
            log.push(ctx.attempt());
            async move { Ok(1) }
        },
    ));
    for n in [2, 3] {
        coordinator.once("/reports", Reply::Each(json!({ "next": stage(n, "later") })));
    }
    coordinator.offer([stage(1, "first")]);
    running.until_committed(3).await;
    assert_eq!(ran.all(), [1, 2, 3]);
    let asked: Vec<Value> = coordinator.reports().iter().map(|it| it["next"].clone()).collect();
    assert_eq!(asked, [json!(true), json!(true), json!(true)]);
    // The slot was never free between the stages: the next poll came after the last of them.
    coordinator.until("/leases", 2).await;
    assert_eq!(coordinator.to("/leases").len(), 2);
    running.end().await.unwrap();
}

#[tokio::test]
async fn a_worker_that_ends_takes_no_further_stage() {
    let coordinator = Coordinator::start().await;
    let (begun, finish) = (CancellationToken::new(), CancellationToken::new());
    let (begins, until) = (begun.clone(), finish.clone());
    let running = Running::start(worker(&coordinator).handle("work", move |_: Ctx, _: Value| {
        begins.cancel();
        let until = until.clone();
        async move {
            until.cancelled().await;
            Ok(1)
        }
    }));
    coordinator.offer([stage(1, "first")]);
    begun.cancelled().await;
    running.ask_to_end();
    finish.cancel();
    running.end().await.unwrap();
    let reports = coordinator.reports();
    assert_eq!(reports.len(), 1);
    assert!(reports[0]["next"].is_null(), "{reports:?}");
}

#[tokio::test]
async fn a_task_without_stages_asks_for_nothing() {
    // A coordinator that knows no stages knows no wish for the next one either.
    let coordinator = Coordinator::start().await;
    let running = Running::start(echo(worker(&coordinator)));
    coordinator.offer([envelope_with(1, json!({}))]);
    running.until_committed(1).await;
    assert!(coordinator.reports()[0].get("next").is_none());
    running.end().await.unwrap();
}

#[tokio::test]
async fn the_last_steps_of_a_durable_function_ride_along_with_the_wish_for_the_next_stage() {
    let coordinator = Coordinator::start().await;
    let executed = Arc::new(Log::new());
    let running = Running::start(three_steps(worker(&coordinator).concurrency(1), &executed));
    let durable = |n: u32| {
        let members = json!({ "stage": "s", "attempt": n, "leaseId": format!("lease-{n}"),
            "heartbeatIntervalMs": 60_000, "seed": 7 });
        envelope_with(n, members)
    };
    coordinator.once("/reports", Reply::Each(json!({ "next": durable(2) })));
    coordinator.offer([durable(1)]);
    running.until_committed(2).await;
    running.end().await.unwrap();
    assert_eq!(executed.all().len(), 6);
    let reports = coordinator.reports();
    assert_eq!(
        (&reports[0]["next"], &reports[0]["steps"][0]["key"]),
        (&json!(true), &json!("c#1"))
    );
}
