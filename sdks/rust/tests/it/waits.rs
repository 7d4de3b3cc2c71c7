//! Many callers wait with few calls, and a submission that waits is one call.

use std::sync::Arc;

use serde_json::{Value, json};
use tenure::{Client, Error, Kind};
use tokio::task::JoinHandle;

use crate::client::accepted;
use crate::coordinator::{Coordinator, Reply, SERVER_TIME, problem, problem_json};

const GREET: Kind<String, String> = Kind::new("greet").queue("mail");

fn run(id: &str) -> Value {
    let mut run = crate::client::run("succeeded");
    (run["runId"], run["output"]) = (json!(id), json!(id));
    run
}

fn answer(ended: &[&str], pending: &[&str], not_found: &[&str]) -> Reply {
    let ended: Vec<Value> = ended.iter().map(|id| run(id)).collect();
    let members = json!({
        "ended": ended, "pending": pending, "notFound": not_found, "serverTime": SERVER_TIME,
    });
    Reply::Json(200, members)
}

fn wait(client: &Client, id: &str) -> JoinHandle<Result<String, Error>> {
    let handle = client.run(id).of(GREET);
    tokio::spawn(async move { handle.result().await })
}

/// A client with as many waits as have a call each; those are not answered.
async fn busy() -> (Arc<Coordinator>, Client, Vec<JoinHandle<Result<String, Error>>>) {
    let coordinator = Coordinator::start().await;
    for path in ["/busy_1", "/busy_2", "/busy_3", "/busy_4"] {
        coordinator.always(path, Reply::Silence);
    }
    let client = coordinator.client();
    let waits: Vec<_> = ["busy_1", "busy_2", "busy_3", "busy_4"].map(|id| wait(&client, id)).into();
    for path in ["/busy_1", "/busy_2", "/busy_3", "/busy_4"] {
        coordinator.until(path, 1).await;
    }
    (coordinator, client, waits)
}

#[tokio::test]
async fn waits_beyond_the_first_few_share_calls() {
    let (coordinator, client, _busy) = busy().await;
    coordinator.once("/waits", answer(&["run_1", "run_2"], &["run_3"], &[]));
    coordinator.once("/waits", answer(&["run_3"], &[], &[]));
    let waits = ["run_1", "run_2", "run_3", "run_1"].map(|id| wait(&client, id));
    for (wait, output) in waits.into_iter().zip(["run_1", "run_2", "run_3", "run_1"]) {
        assert_eq!(wait.await.unwrap().unwrap(), output);
    }
    let calls = coordinator.to("/v1/waits");
    assert_eq!(calls[0].json(), json!({ "runIds": ["run_1", "run_2", "run_3"], "waitMs": 30_000 }));
    assert_eq!(calls[1].json()["runIds"], json!(["run_3"]));
    assert_eq!(calls.len(), 2);
    assert!(coordinator.to("/run_1").is_empty());
}

#[tokio::test]
async fn a_run_that_is_waited_for_is_shown_with_its_input() {
    let (coordinator, client, _busy) = busy().await;
    coordinator.once("/waits", answer(&["run_1"], &[], &[]));
    let mut whole = run("run_1");
    whole["input"] = json!("Ada");
    coordinator.once("/run_1", Reply::Json(200, whole));
    let run = client.run("run_1").wait().await.unwrap();
    assert_eq!(run.input.unwrap().text(), r#""Ada""#);
}

#[tokio::test]
async fn what_a_shared_call_does_not_know_is_asked_for_alone() {
    let (coordinator, client, _busy) = busy().await;
    coordinator.once("/waits", answer(&[], &[], &["run_1"]));
    let error = wait(&client, "run_1").await.unwrap().unwrap_err();
    assert_eq!(error.status(), Some(404));
    assert_eq!(coordinator.to("/run_1").len(), 1);
}

#[tokio::test]
async fn every_caller_learns_that_a_shared_call_was_refused() {
    let (coordinator, client, _busy) = busy().await;
    coordinator.once("/waits", problem(403, "forbidden"));
    for wait in ["run_1", "run_2"].map(|id| wait(&client, id)) {
        assert_eq!(wait.await.unwrap().unwrap_err().status(), Some(403));
    }
}

#[tokio::test]
async fn an_older_coordinator_gets_a_call_for_each_run() {
    let (coordinator, client, _busy) = busy().await;
    coordinator.once("/waits", problem(404, "not_found"));
    for id in ["run_1", "run_2"] {
        coordinator.once(id, Reply::Json(200, run(id)));
        assert_eq!(wait(&client, id).await.unwrap().unwrap(), id);
    }
    assert_eq!(coordinator.to("/v1/waits").len(), 1, "it is not asked again");
    assert_eq!(coordinator.to("/run_2")[0].query, "waitMs=30000");
}

#[tokio::test]
async fn a_caller_outlives_the_runtime_that_made_its_call() {
    let (coordinator, client, _busy) = busy().await;
    coordinator.once("/waits", Reply::Silence);
    let other = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let first = client.run("run_1").of(GREET);
    other.spawn(async move { first.result().await });
    coordinator.until("/v1/waits", 1).await;
    // This one joins the call that is open.
    let second = wait(&client, "run_1");
    for _ in 0..3 {
        tokio::task::yield_now().await;
    }
    coordinator.once("/run_1", Reply::Json(200, run("run_1")));
    other.shutdown_background();
    assert_eq!(second.await.unwrap().unwrap(), "run_1");
    assert_eq!(coordinator.to("/v1/waits").len(), 1);
}

#[tokio::test]
async fn a_submission_brings_the_end_of_its_run_along() {
    let coordinator = Coordinator::start().await;
    let mut ended = accepted(1);
    ended["run"] = run("run_1");
    coordinator.once("/runs", Reply::Json(201, ended));
    let output = coordinator.client().submit(GREET, "Ada").result().await.unwrap();
    assert_eq!(output, "run_1");
    let calls = coordinator.calls.all();
    assert_eq!((calls.len(), calls[0].query.as_str()), (1, "waitMs=30000"));
}

#[tokio::test]
async fn a_submission_whose_run_goes_on_is_waited_for() {
    let coordinator = Coordinator::start().await;
    coordinator.once("/runs", Reply::Json(201, accepted(1)));
    coordinator.once("/run_1", Reply::Json(200, run("run_1")));
    let output = coordinator.client().submit(GREET, "Ada").result().await.unwrap();
    assert_eq!(output, "run_1");
}

#[tokio::test]
async fn an_older_coordinator_gets_the_same_submission_without_a_wait() {
    let coordinator = Coordinator::start().await;
    let client = coordinator.client();
    let mut refusal = problem_json(400, "invalid_argument");
    refusal["field"] = json!("waitMs");
    coordinator.once("/runs", Reply::Json(400, refusal));
    for _ in 0..2 {
        coordinator.once("/runs", Reply::Json(201, accepted(1)));
        coordinator.once("/run_1", Reply::Json(200, run("run_1")));
        client.submit(GREET, "Ada").result().await.unwrap();
    }
    let calls = coordinator.to("/v1/runs");
    let queries: Vec<&str> = calls.iter().map(|call| call.query.as_str()).collect();
    assert_eq!(queries, ["waitMs=30000", "", ""], "it is not tried again");
    assert_eq!(calls[0].idempotency_key, calls[1].idempotency_key);
    assert!(calls[0].idempotency_key.is_some());
}
