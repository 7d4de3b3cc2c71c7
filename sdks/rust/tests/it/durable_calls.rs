//! Checkpoint calls of a worker: shared by many runs, repeated while nothing is decided, and never guessed about.

use std::sync::Arc;

use serde_json::{Value, json};
use tenure::{Flow, WorkerEvent};
use tokio::sync::Notify;

use crate::coordinator::{Coordinator, Reply, item_refusal, problem};
use crate::durable::{first, three_steps};
use crate::log::Log;
use crate::worker::{Running, worker};

#[tokio::test]
async fn a_call_is_repeated_with_the_same_content_until_something_is_decided() {
    // E3: a lost answer records nothing twice, because the repetition is the same call.
    let coordinator = Coordinator::start().await;
    coordinator.once("/v1/checkpoints", Reply::Broken);
    coordinator.once("/v1/checkpoints", problem(503, "unknown_outcome"));
    coordinator.once("/v1/checkpoints", Reply::Each(item_refusal(503, "overloaded")));
    let executed = Arc::new(Log::new());
    let running = Running::start(three_steps(worker(&coordinator), &executed));
    coordinator.offer([first(1)]);
    running.until_committed(1).await;
    running.end().await.unwrap();
    let calls = coordinator.to("/v1/checkpoints");
    assert_eq!(calls.len(), 5);
    let first_call: Vec<Value> = calls[..4].iter().map(|call| call.items()[0].clone()).collect();
    assert!(first_call.windows(2).all(|pair| pair[0] == pair[1]), "{first_call:?}");
    assert_eq!(calls[4].items()[0]["steps"][0]["key"], "b#1");
    assert_eq!(executed.all().len(), 3);
}

#[tokio::test]
async fn a_step_that_cannot_be_recorded_ends_the_attempt_and_no_later_step_starts() {
    // Proves: S2-92: F81: the dedicated error, within a bound of repetitions.
    let coordinator = Coordinator::start().await;
    coordinator.always("/v1/checkpoints", problem(503, "unknown_outcome"));
    let executed = Arc::new(Log::new());
    let running = Running::start(three_steps(worker(&coordinator), &executed));
    coordinator.offer([first(1)]);
    running.until_committed(1).await;
    running.end().await.unwrap();
    assert_eq!(executed.all().len(), 1);
    assert_eq!(coordinator.to("/v1/checkpoints").len(), 5);
    let report = &coordinator.reports()[0];
    let error = &report["error"];
    assert_eq!(
        (&report["outcome"], &error["category"]),
        (&json!("FAILED"), &json!("INFRASTRUCTURE"))
    );
    assert!(error["message"].as_str().unwrap().starts_with("checkpoint_save_failed: "), "{error}");
    assert_eq!(error["retryable"], true);
}

#[tokio::test]
async fn a_refused_call_fails_the_attempt_for_good_and_is_told() {
    let coordinator = Coordinator::start().await;
    coordinator.once("/v1/checkpoints", Reply::Each(json!({
        "status": 409, "verdict": "REJECTED", "error": "conflicting_step", "message": "another result",
    })));
    let executed = Arc::new(Log::new());
    let running = Running::start(three_steps(worker(&coordinator), &executed));
    coordinator.offer([first(1)]);
    running.until_committed(1).await;
    let is_told = |event: &WorkerEvent| matches!(event, WorkerEvent::Rejected { code, .. } if code == "conflicting_step");
    running.until("the refusal", is_told).await;
    running.end().await.unwrap();
    assert_eq!((executed.all().len(), coordinator.to("/v1/checkpoints").len()), (1, 1));
    let error = coordinator.reports()[0]["error"].clone();
    assert_eq!(error["retryable"], false);
    assert!(error["message"].as_str().unwrap().contains("conflicting_step"), "{error}");
}

#[tokio::test]
async fn calls_of_many_runs_share_requests() {
    // S3-11: each call of the batch gets its own answer.
    const RUNS: u32 = 40;
    const REQUESTS_MAX: usize = 4;
    let coordinator = Coordinator::start().await;
    let gates: Vec<Arc<Notify>> = (0..REQUESTS_MAX).map(|_| Arc::new(Notify::new())).collect();
    for gate in &gates {
        coordinator.once("/v1/checkpoints", Reply::Gate(Arc::clone(gate)));
    }
    let executed = Arc::new(Log::new());
    let worker = three_steps(worker(&coordinator), &executed);
    let running = Running::start(worker.concurrency(RUNS as usize));
    coordinator.offer((1..=RUNS).map(first));
    // A run that has executed a step has filed its call before another task of this thread goes on.
    executed.until("the first steps", |all| all.len() == RUNS as usize).await;
    gates.iter().for_each(|gate| gate.notify_one());
    running.until_committed(RUNS as usize).await;
    running.end().await.unwrap();
    let requests = coordinator.to("/v1/checkpoints");
    let calls: usize = requests.iter().map(|request| request.items().len()).sum();
    assert_eq!(calls, 2 * RUNS as usize);
    let is_first = |item: &Value| item["steps"][0]["key"] == "a#1";
    let firsts = requests.iter().filter(|request| request.items().iter().any(is_first)).count();
    assert!(firsts <= REQUESTS_MAX + 1, "all calls that waited go into one request: {firsts}");
    let outputs: Vec<Value> = coordinator.reports().iter().map(|r| r["output"].clone()).collect();
    assert!((1..=RUNS).all(|n| outputs.contains(&json!(n + 30))), "{outputs:?}");
}

#[tokio::test]
async fn branches_that_end_together_are_recorded_in_one_call() {
    let coordinator = Coordinator::start().await;
    let running =
        Running::start(worker(&coordinator).durable("work", |ctx: Flow, n: u32| async move {
            let part = |name: &'static str| {
                ctx.branch(name, async move |ctx: Flow| ctx.step("s", async |_| Ok(1)).await)
            };
            let (left, right) = tokio::join!(part("left"), part("right"));
            ctx.step("last", async |_| Ok(n)).await?;
            Ok(left? + right?)
        }));
    coordinator.offer([first(1)]);
    running.until_committed(1).await;
    running.end().await.unwrap();
    let calls = coordinator.to("/v1/checkpoints");
    let steps = calls[0].items()[0]["steps"].clone();
    let steps = steps.as_array().unwrap().iter();
    // `join!` does not promise which branch it polls first.
    let mut keys: Vec<&str> = steps.map(|step| step["key"].as_str().unwrap()).collect();
    keys.sort_unstable();
    assert_eq!((calls.len(), keys), (1, vec!["left/s#1", "right/s#1"]));
}

#[tokio::test]
async fn an_item_that_cannot_be_read_spoils_no_other() {
    // S3-11: it is answered in its place, without its task.
    let coordinator = Coordinator::start().await;
    let refusal = json!({
        "taskId": "", "status": 400, "verdict": "REJECTED", "error": "invalid_argument",
        "message": "`steps[0].result` is not valid",
    });
    coordinator.once("/v1/checkpoints", Reply::Each(refusal.clone()));
    let executed = Arc::new(Log::new());
    let running = Running::start(three_steps(worker(&coordinator), &executed));
    coordinator.offer([first(1)]);
    running.until_committed(1).await;
    // The last step of another run, which rides with its report: the run learns why it failed.
    coordinator.once("/v1/reports", Reply::Each(refusal));
    coordinator.offer([first(2)]);
    running.until_committed(2).await;
    running.end().await.unwrap();
    let reports = coordinator.reports();
    let outcomes: Vec<&Value> = reports.iter().map(|report| &report["outcome"]).collect();
    assert_eq!(outcomes, ["FAILED", "SUCCEEDED", "FAILED"]);
    for failed in [&reports[0], &reports[2]] {
        let message = failed["error"]["message"].as_str().unwrap();
        assert!(
            message.contains("(invalid_argument): `steps[0].result` is not valid"),
            "{message}"
        );
        assert_eq!((&failed["error"]["retryable"], failed.get("steps")), (&json!(false), None));
    }
}
