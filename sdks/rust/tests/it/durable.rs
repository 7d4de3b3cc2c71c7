//! Durable functions under a worker: what is executed, what is recorded, and what ends an attempt.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tenure::wire::Outcome;
use tenure::{Failure, Flow, Kind, Retry, Worker, WorkerEvent};

use crate::coordinator::{Coordinator, Reply, SERVER_TIME, envelope_with, item_refusal};
use crate::log::Log;
use crate::worker::{Running, worker};

/// A first attempt, with heartbeats that do not matter to the test.
pub(crate) fn first(n: u32) -> Value {
    envelope_with(n, json!({ "attempt": 1, "heartbeatIntervalMs": 60_000, "seed": 7 }))
}

/// A later attempt that finds these checkpoints.
fn resumed(n: u32, checkpoints: Value) -> Value {
    let members = json!({
        "attempt": 2, "heartbeatIntervalMs": 60_000, "seed": 7, "checkpoints": checkpoints,
    });
    envelope_with(n, members)
}

fn recorded(number: u32, kind: &str, key: &str, members: Value) -> Value {
    let mut checkpoint = json!({
        "number": number, "key": key, "kind": kind, "outcome": "SUCCEEDED",
        "recordedAt": SERVER_TIME,
    });
    for (name, value) in members.as_object().unwrap() {
        checkpoint[name] = value.clone();
    }
    checkpoint
}

/// Three steps that note that they were executed.
pub(crate) fn three_steps(worker: Worker, executed: &Arc<Log<String>>) -> Worker {
    let executed = Arc::clone(executed);
    worker.durable("work", move |ctx: Flow, n: u32| {
        let executed = Arc::clone(&executed);
        async move {
            let mut total = n;
            for name in ["a", "b", "c"] {
                total += ctx
                    .step(name, async |step| {
                        executed.push(format!(
                            "{name} {} {}",
                            step.idempotency_key(),
                            step.fence()
                        ));
                        Ok(10)
                    })
                    .await?;
            }
            Ok(total)
        }
    })
}

/// The keys of the steps in each call.
fn recorded_keys(coordinator: &Coordinator) -> Vec<Vec<String>> {
    let items = coordinator.to("/v1/checkpoints");
    let items = items.iter().flat_map(|call| call.items());
    items.map(|item| keys(&item["steps"])).collect()
}

fn keys(steps: &Value) -> Vec<String> {
    let steps = steps.as_array().into_iter().flatten();
    steps.map(|step| step["key"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn each_step_is_recorded_before_the_next_and_the_last_rides_with_the_report() {
    // S2-82, S2-83: in order, each under the lease.
    let coordinator = Coordinator::start().await;
    let executed = Arc::new(Log::new());
    let running = Running::start(three_steps(worker(&coordinator), &executed));
    coordinator.offer([first(1)]);
    running.until_committed(1).await;
    running.end().await.unwrap();

    assert_eq!(recorded_keys(&coordinator), [["a#1"], ["b#1"]]);
    let call = &coordinator.to("/v1/checkpoints")[0].items()[0];
    assert_eq!((&call["taskId"], &call["taskToken"]), (&json!("task_1"), &json!("token_1")));
    assert_eq!((&call["attempt"], &call["steps"][0]["result"]), (&json!(1), &json!(10)));
    let report = &coordinator.reports()[0];
    assert_eq!((&report["outcome"], &report["output"]), (&json!("SUCCEEDED"), &json!(31)));
    assert_eq!(keys(&report["steps"]), ["c#1"]);
    let fence = 4_294_967_297_u64;
    let expected = ["a", "b", "c"].map(|name| format!("{name} task_1/{name}#1 {fence}"));
    assert_eq!(executed.all(), expected);
}

#[tokio::test]
async fn recorded_steps_return_their_results_and_are_not_executed_again() {
    // S2-86, E2: a run continues where its record ends.
    let coordinator = Coordinator::start().await;
    let executed = Arc::new(Log::new());
    let running = Running::start(three_steps(worker(&coordinator), &executed));
    let record = json!([
        recorded(1, "STEP", "a#1", json!({ "result": 100 })),
        recorded(2, "STEP", "b#1", json!({ "result": 200 })),
    ]);
    coordinator.offer([resumed(1, record)]);
    running.until_committed(1).await;
    running.end().await.unwrap();
    assert_eq!(executed.all().len(), 1);
    assert_eq!(coordinator.reports()[0]["output"], 311);
}

#[tokio::test]
async fn what_the_envelope_has_no_room_for_is_read_in_pages() {
    let coordinator = Coordinator::start().await;
    let executed = Arc::new(Log::new());
    let running = Running::start(three_steps(worker(&coordinator), &executed));
    let page = |checkpoint: Value, next: Option<u32>| {
        let mut page = json!({ "checkpoints": [checkpoint], "serverTime": SERVER_TIME });
        if let Some(next) = next {
            page["nextAfter"] = json!(next);
        }
        Reply::Json(200, page)
    };
    let b = recorded(2, "STEP", "b#1", json!({ "result": 2 }));
    let c = recorded(3, "STEP", "c#1", json!({ "result": 3 }));
    coordinator.once("task_1/checkpoints", page(b, Some(2)));
    coordinator.once("task_1/checkpoints", page(c, None));
    let mut envelope = resumed(1, json!([recorded(1, "STEP", "a#1", json!({ "result": 1 }))]));
    envelope["checkpointsAfter"] = json!(1);
    coordinator.offer([envelope]);
    running.until_committed(1).await;
    running.end().await.unwrap();
    assert_eq!((executed.all().len(), &coordinator.reports()[0]["output"]), (0, &json!(7)));
    let pages = coordinator.to("task_1/checkpoints");
    assert_eq!(pages.iter().map(|call| &*call.query).collect::<Vec<_>>(), ["after=1", "after=2"]);
    assert!(pages.iter().all(|call| call.bearer == "Bearer token_1"));
}

#[tokio::test]
async fn a_wait_frees_the_slot_and_reports_nothing() {
    // S2-28: while the function waits, no worker does.
    let coordinator = Coordinator::start().await;
    let running = Running::start(worker(&coordinator).concurrency(1).durable(
        "work",
        |ctx: Flow, n: u32| async move {
            if n == 1 {
                ctx.sleep(Duration::from_secs(3600)).await;
            }
            Ok(n)
        },
    ));
    coordinator.offer([first(1), first(2)]);
    running.until_committed(1).await;
    let suspended = WorkerEvent::Suspended { task_id: "task_1".to_owned(), attempt: 1 };
    assert!(running.events.all().contains(&suspended));
    running.end().await.unwrap();
    let wait = &coordinator.to("/v1/checkpoints")[0].items()[0]["wait"];
    assert_eq!((&wait["key"], &wait["mode"]), (&json!("wait:sleep#1"), &json!("all")));
    // An hour after the run was accepted.
    let until = json!([{ "key": "sleep#1", "until": "2026-03-01T13:00:00.000Z" }]);
    assert_eq!(wait["for"], until);
    let reports = coordinator.reports();
    assert_eq!((reports.len(), &reports[0]["taskId"]), (1, &json!("task_2")));
}

const PART: Kind<u32, u32> = Kind::new("part").queue("q");

/// Waits for a signal with a limit, a child, and an hour.
async fn waiting(ctx: Flow, _: u32) -> Result<Value, Failure> {
    let go: Option<String> = ctx.signal("go").within(Duration::from_secs(60)).await?;
    let child = ctx.call(PART, &5).await;
    ctx.sleep(Duration::from_secs(3600)).await;
    let child = child.map_err(|failure| failure.to_string());
    Ok(
        json!({ "go": go, "child": child.clone().ok(), "failure": child.err(), "now": ctx.now().await }),
    )
}

#[tokio::test]
async fn what_was_awaited_is_found_in_the_record_of_the_wait() {
    // A wait is one checkpoint that names what satisfied it; the ends of children are checkpoints of their own.
    let at = "2026-03-01T12:34:56.789Z";
    let digest = child_digest().await;
    let record = |go: Value, end: Value| {
        json!([
            recorded(1, "WAIT", "wait:0123456789abcdef0123456789abcdef", json!({ "wait": go })),
            recorded(
                2,
                "CHILD",
                "child:part#1",
                json!({ "outcome": "STARTED", "inputDigest": digest })
            ),
            recorded(3, "CHILD", "child:part#1", end),
            recorded(4, "WAIT", "wait:child:part#1", json!({ "wait": {} })),
            recorded(5, "WAIT", "wait:sleep#1", json!({ "wait": {}, "recordedAt": at })),
        ])
    };
    let came = json!({
        "winner": "signal:go#1",
        "signals": [{ "key": "signal:go#1", "name": "go", "payload": "now" }],
    });
    let cases = [
        (
            record(came, json!({ "result": 25 })),
            json!({ "go": "now", "child": 25, "failure": null }),
        ),
        (
            record(
                json!({ "winner": "signal:go#1.timeout" }),
                json!({ "outcome": "FAILED", "error": { "reason": "LOST_MAX", "message": "gone" } }),
            ),
            json!({ "go": null, "child": null, "failure": "gone" }),
        ),
    ];
    for (record, mut expected) in cases {
        let coordinator = Coordinator::start().await;
        let running = Running::start(worker(&coordinator).durable("work", waiting));
        coordinator.offer([resumed(1, record)]);
        running.until_committed(1).await;
        running.end().await.unwrap();
        expected["now"] = json!(at);
        assert_eq!(coordinator.reports()[0]["output"], expected);
        assert!(coordinator.to("/v1/checkpoints").is_empty());
    }
}

/// What the SDK says makes the child of `waiting` what it is.
async fn child_digest() -> Value {
    let coordinator = Coordinator::start().await;
    let running = Running::start(worker(&coordinator).durable("work", waiting));
    let came = json!({ "winner": "signal:go#1.timeout" });
    let wait =
        recorded(1, "WAIT", "wait:0123456789abcdef0123456789abcdef", json!({ "wait": came }));
    coordinator.offer([resumed(1, json!([wait]))]);
    let calls = coordinator.until("/v1/checkpoints", 1).await;
    running.end().await.unwrap();
    let call = &calls[0].items()[0];
    let child = &call["children"][0];
    assert_eq!((&child["key"], &child["kind"]), (&json!("child:part#1"), &json!("part")));
    assert_eq!((&child["queue"], &child["input"]), (&json!("q"), &json!(5)));
    let awaited = json!([{ "key": "child:part#1", "child": "child:part#1" }]);
    assert_eq!(call["wait"]["for"], awaited);
    child["inputDigest"].clone()
}

#[tokio::test]
async fn what_is_there_already_comes_with_the_answer_and_the_lease_goes_on() {
    // F85: the signal was sent before the function awaited it.
    let coordinator = Coordinator::start().await;
    let came = json!({
        "winner": "signal:go#1",
        "signals": [{ "key": "signal:go#1", "name": "go", "payload": "early" }],
    });
    let result = recorded(1, "WAIT", "wait:signal:go#1", json!({ "wait": came }));
    coordinator.once(
        "/v1/checkpoints",
        Reply::Each(json!({
            "state": "running", "results": [result],
            "leaseExpiresAt": "2026-03-01T12:10:00.000Z",
        })),
    );
    let running = Running::start(
        worker(&coordinator)
            .durable("work", |ctx: Flow, _: u32| async move { ctx.signal::<String>("go").await }),
    );
    coordinator.offer([first(1)]);
    running.until_committed(1).await;
    running.end().await.unwrap();
    assert_eq!(coordinator.reports()[0]["output"], "early");
}

#[tokio::test]
async fn a_call_that_ended_its_attempt_ends_it_although_the_next_one_runs() {
    // The answer was lost, the wait was over, another worker has the next attempt, and the call is repeated.
    let coordinator = Coordinator::start().await;
    let answer = json!({ "state": "running", "replayed": true });
    coordinator.once("/v1/checkpoints", Reply::Each(answer));
    let running = Running::start(worker(&coordinator).durable("work", waiting));
    coordinator.offer([first(1)]);
    running.until("the end", |event| matches!(event, WorkerEvent::Suspended { .. })).await;
    running.end().await.unwrap();
    assert!(coordinator.reports().is_empty());
    assert_eq!(coordinator.to("/v1/checkpoints").len(), 1);
}

#[tokio::test]
async fn code_that_is_not_the_recorded_code_is_stopped_before_it_does_anything() {
    // F82, E4: parked with branch, index, recorded, actual and the line of the source.
    let coordinator = Coordinator::start().await;
    let executed = Arc::new(Log::new());
    let running = Running::start(three_steps(worker(&coordinator), &executed));
    let record = json!([
        recorded(1, "STEP", "a#1", json!({ "result": 1 })),
        recorded(2, "STEP", "renamed#1", json!({ "result": 2 })),
    ]);
    coordinator.offer([resumed(1, record)]);
    let is_stopped = |event: &WorkerEvent| matches!(event, WorkerEvent::Diverged { why, .. } if why.contains("renamed#1"));
    running.until("the divergence", is_stopped).await;
    running.end().await.unwrap();
    let diverged = &coordinator.to("/v1/checkpoints")[0].items()[0]["diverged"];
    assert_eq!((&diverged["branch"], &diverged["index"]), (&json!(""), &json!(1)));
    assert_eq!(diverged["recorded"], "renamed#1");
    let actual = diverged["actual"].as_str().unwrap();
    assert!(actual.starts_with("b#1 (") && actual.contains("durable.rs:"), "{actual}");
    assert!(executed.all().is_empty() && coordinator.reports().is_empty());
}

#[tokio::test]
async fn awaiting_something_else_outside_of_a_step_is_named() {
    let coordinator = Coordinator::start().await;
    let running =
        Running::start(worker(&coordinator).durable("work", |ctx: Flow, n: u32| async move {
            ctx.step("first", async |_| Ok(n)).await?;
            tokio::task::yield_now().await;
            Ok(n)
        }));
    coordinator.offer([first(1)]);
    running.until("the stop", |event| matches!(event, WorkerEvent::Diverged { .. })).await;
    running.end().await.unwrap();
    let calls = coordinator.to("/v1/checkpoints");
    let actual = calls.last().unwrap().items()[0]["diverged"]["actual"].clone();
    let actual = actual.as_str().unwrap();
    assert!(actual.contains("not `flow`") && actual.contains("first#1"), "{actual}");
    assert!(coordinator.reports().is_empty());
}

#[tokio::test]
async fn a_failure_of_the_function_is_final_and_a_panic_is_not() {
    // S2-91: steps have their own retries; a replay of the function would fail in the same way.
    let coordinator = Coordinator::start().await;
    let running =
        Running::start(worker(&coordinator).durable("work", |ctx: Flow, n: u32| async move {
            assert!(n == 1, "fell at {n}");
            ctx.step("charge", async |_| Err::<u32, _>(Failure::permanent("no credit"))).await
        }));
    coordinator.offer([first(1)]);
    running.until_committed(1).await;
    coordinator.offer([first(2)]);
    running.until_committed(2).await;
    running.end().await.unwrap();
    let reports = coordinator.reports();
    let error = |n: usize| &reports[n]["error"];
    assert_eq!(
        (&reports[0]["outcome"], keys(&reports[0]["steps"])),
        (&json!("FAILED"), vec!["charge#1".to_owned()])
    );
    assert_eq!(
        (&error(0)["message"], &error(0)["retryable"]),
        (&json!("no credit"), &json!(false))
    );
    assert!(error(1)["message"].as_str().unwrap().contains("fell at 2"), "{}", error(1));
    assert!(error(1)["retryable"].is_null());
}

#[tokio::test]
async fn a_step_that_takes_too_long_is_dropped_and_tried_again() {
    // S2-91: each failed try is recorded, and the pause before the next is a durable timer.
    let coordinator = Coordinator::start().await;
    let running =
        Running::start(worker(&coordinator).durable("work", |ctx: Flow, _: u32| async move {
            ctx.step("hang", async |_| std::future::pending::<Result<u32, Failure>>().await)
                .timeout(Duration::from_millis(1))
                .retry(Retry::tries(2))
                .await
        }));
    coordinator.offer([first(1)]);
    running.until("the pause", |event| matches!(event, WorkerEvent::Suspended { .. })).await;
    running.end().await.unwrap();
    let calls = coordinator.to("/v1/checkpoints");
    let failed = &calls[0].items()[0]["steps"][0];
    assert_eq!((&failed["key"], &failed["outcome"]), (&json!("hang#1.1"), &json!("FAILED")));
    assert_eq!(failed["error"]["reason"], "STEP_TIMEOUT");
    assert_eq!(calls[1].items()[0]["wait"]["for"][0]["key"], "hang#1.1.wait");
}

#[tokio::test]
async fn a_cancelled_run_starts_no_further_step_and_is_reported_as_cancelled() {
    let coordinator = Coordinator::start().await;
    coordinator.once("/v1/checkpoints", Reply::Each(json!({ "shouldCancel": true })));
    let executed = Arc::new(Log::new());
    let running = Running::start(three_steps(worker(&coordinator), &executed));
    coordinator.offer([first(1)]);
    running.until_committed(1).await;
    running.end().await.unwrap();
    assert_eq!((executed.all().len(), coordinator.to("/v1/checkpoints").len()), (1, 1));
    assert_eq!(coordinator.reports()[0]["outcome"], "CANCELLED");
}

#[tokio::test]
async fn a_step_that_ignores_a_cancel_is_dropped_within_the_grace_period() {
    // S4-49: the report arrives while the coordinator waits for it.
    let coordinator = Coordinator::start().await;
    coordinator.always("/heartbeats", Reply::Each(json!({ "shouldCancel": true })));
    let running =
        Running::start(worker(&coordinator).durable("work", |ctx: Flow, _: u32| async move {
            ctx.step("hang", async |_| std::future::pending::<Result<u32, Failure>>().await).await
        }));
    let members = json!({ "attempt": 1, "heartbeatIntervalMs": 20, "cancelGracePeriodMs": 40 });
    coordinator.offer([envelope_with(1, members)]);
    let is_cancelled = |event: &WorkerEvent| {
        matches!(event, WorkerEvent::Committed { outcome: Outcome::Cancelled, .. })
    };
    running.until("the report", is_cancelled).await;
    running.end().await.unwrap();
}

#[tokio::test]
async fn a_call_that_lost_its_authority_drops_the_function_and_reports_nothing() {
    // S3-49: what a superseded attempt did is not reported.
    let coordinator = Coordinator::start().await;
    coordinator.once("/v1/checkpoints", Reply::Each(item_refusal(410, "task_expired")));
    let executed = Arc::new(Log::new());
    let running = Running::start(three_steps(worker(&coordinator), &executed));
    coordinator.offer([first(1)]);
    let is_lost = |event: &WorkerEvent| matches!(event, WorkerEvent::Cancelled { why, .. } if why == "task_expired");
    running.until("the loss", is_lost).await;
    running.end().await.unwrap();
    assert_eq!(executed.all().len(), 1);
    assert!(coordinator.reports().is_empty());
}
