//! Run handles: typed outputs, ends without success, and answers with unknown members.

use serde::Deserialize;
use serde_json::{Value, json};
use tenure::testing::{context, with_client};
use tenure::{Code, Ctx, Error, ErrorCategory, Failure, State};

use crate::client::{accepted, run};
use crate::coordinator::{Coordinator, Reply, envelope, problem};
use crate::worker::{Running, worker};

#[derive(Debug, Deserialize, PartialEq)]
struct Thumbnail {
    url: String,
    width: u32,
}

/// A run that ended, with these members.
fn ended(state: &str, members: &Value) -> Reply {
    let mut run = run(state);
    for (name, value) in members.as_object().unwrap() {
        run[name] = value.clone();
    }
    Reply::Json(200, run)
}

#[tokio::test]
async fn an_output_is_waited_for_and_read_as_the_type_that_is_asked_for() {
    let coordinator = Coordinator::start().await;
    coordinator.once("/runs", Reply::Json(201, accepted(1)));
    coordinator.once("/run_1", Reply::Json(200, run("running")));
    let output = json!({ "output": { "url": "u", "width": 80, "memberOfTheFuture": 1 } });
    coordinator.always("/run_1", ended("succeeded", &output));
    let submission =
        coordinator.client().submit("resize", "cat.png").queue("images").idempotency_key("k");
    let thumbnail: Thumbnail = submission.await.unwrap().output().await.unwrap();
    assert_eq!(thumbnail, Thumbnail { url: "u".to_owned(), width: 80 });
    let sent = &coordinator.to("/v1/runs")[0];
    assert_eq!(sent.json(), json!({ "kind": "resize", "queue": "images", "input": "cat.png" }));
    assert_eq!(coordinator.to("/run_1").len(), 2);
}

#[tokio::test]
async fn a_run_without_output_is_read_as_nothing() {
    let coordinator = Coordinator::start().await;
    coordinator.always("/run_1", ended("succeeded", &json!({})));
    let handle = coordinator.client().run("run_1");
    handle.output::<()>().await.unwrap();
    assert_eq!(handle.output::<Option<u32>>().await.unwrap(), None);
}

#[tokio::test]
async fn an_output_of_another_type_is_an_error_that_names_the_run() {
    let coordinator = Coordinator::start().await;
    coordinator.always("/run_1", ended("succeeded", &json!({ "output": "text" })));
    let error = coordinator.client().run("run_1").output::<u32>().await.unwrap_err();
    assert!(
        matches!(&error, Error::OutputUnreadable { run_id, .. } if run_id == "run_1"),
        "{error:?}"
    );
    assert!(!error.is_retryable() && error.to_string().contains("run_1"), "{error}");
    assert!(std::error::Error::source(&error).unwrap().to_string().contains("invalid type"));
}

#[tokio::test]
async fn an_end_without_success_is_an_error_with_the_runs_failure() {
    let coordinator = Coordinator::start().await;
    let error = json!({
        "category": "DATA_QUALITY", "reason": "NOT_RETRYABLE", "message": "no image",
        "stackTrace": "at 1", "memberOfTheFuture": [],
    });
    coordinator.once("/run_1", ended("failed", &json!({ "attempt": 2, "error": error })));
    coordinator.once("/run_1", ended("cancelled", &json!({ "cancelReason": "enough" })));
    // The partial output of a halted run is not its output.
    coordinator.once("/run_1", ended("halted", &json!({ "output": 1 })));
    let handle = coordinator.client().run("run_1");

    let error = handle.output::<u32>().await.unwrap_err();
    assert_eq!(error.to_string(), "run_1 ended failed: NOT_RETRYABLE: no image");
    assert_eq!((error.code(), error.status(), error.is_retryable()), (None, None, false));
    let failure = error.run_failure().unwrap();
    assert_eq!((failure.state, failure.attempt), (State::Failed, 2));
    assert_eq!(failure.category, Some(ErrorCategory::DataQuality));
    assert_eq!((failure.reason.as_str(), failure.message.as_str()), ("NOT_RETRYABLE", "no image"));
    assert_eq!(failure.stack_trace.as_deref(), Some("at 1"));

    let cancelled = handle.output::<u32>().await.unwrap_err();
    assert_eq!(cancelled.to_string(), "run_1 ended cancelled: enough");
    let halted = handle.output::<u32>().await.unwrap_err();
    assert_eq!(halted.run_failure().unwrap().state, State::Halted);
}

#[tokio::test]
async fn waiting_for_an_end_takes_a_failure_as_an_answer() {
    let coordinator = Coordinator::start().await;
    coordinator.always("/run_1", ended("failed", &json!({})));
    assert_eq!(coordinator.client().run("run_1").wait().await.unwrap().state, State::Failed);
}

#[tokio::test]
async fn members_of_answers_that_are_not_known_are_ignored() {
    // Answers may grow: the present client reads those of a newer server.
    let coordinator = Coordinator::start().await;
    coordinator.always("/runs", Reply::Json(201, accepted(1)));
    coordinator.always("/run_1", Reply::Json(200, run("queued")));
    let cancelled = json!({
        "runId": "run_1", "state": "cancelled", "cancelRequestedAt": "2026-03-01T12:00:00.000Z",
        "memberOfTheFuture": { "deep": [1] },
    });
    coordinator.always("/cancel", Reply::Json(202, cancelled));
    let run = coordinator.client().submit("k", &1).queue("q").await.unwrap();
    assert_eq!(run.status().await.unwrap().state, State::Queued);
    assert_eq!(run.cancel().await.unwrap().state, State::Cancelled);
    let Reply::Json(status, mut refused) = problem(404, "run_not_found") else { unreachable!() };
    refused["memberOfTheFuture"] = json!(true);
    coordinator.always("/explain", Reply::Json(status, refused));
    assert_eq!(run.explain().await.unwrap_err().code(), Some(Code::RunNotFound));
}

async fn publish(ctx: Ctx, page: u32) -> Result<String, Failure> {
    let key = format!("{}-notify", ctx.run_id());
    let next = ctx.client().submit("notify", &page).queue("mail").idempotency_key(key).await?;
    Ok(next.id().to_owned())
}

#[tokio::test]
async fn a_handler_submits_further_work_through_its_context() {
    let coordinator = Coordinator::start().await;
    coordinator.always("/runs", Reply::Json(201, accepted(7)));
    let running = Running::start(worker(&coordinator).handle("work", publish));
    coordinator.offer([envelope(1)]);
    running.until_committed(1).await;
    running.end().await.unwrap();
    let sent = &coordinator.to("/v1/runs")[0];
    assert_eq!(sent.idempotency_key.as_deref(), Some("run_1-notify"));
    assert_eq!(sent.json()["input"], 1);
    assert_eq!(coordinator.reports()[0]["output"], "run_7");
}

#[tokio::test]
async fn a_context_of_a_unit_test_submits_only_to_a_client_it_is_given() {
    let alone = publish(context(&1).unwrap(), 1).await.unwrap_err();
    assert!(alone.message.contains("no server answers"), "{alone}");
    let coordinator = Coordinator::start().await;
    coordinator.always("/runs", Reply::Json(201, accepted(7)));
    let ctx = with_client(context(&1).unwrap(), coordinator.client());
    assert_eq!(publish(ctx, 1).await.unwrap(), "run_7");
}

#[tokio::test]
async fn a_handler_returns_errors_of_any_type_with_a_question_mark() {
    // A permanent failure says that it is not retryable; any other error leaves the decision to the
    // coordinator.
    let coordinator = Coordinator::start().await;
    let running = Running::start(worker(&coordinator).handle("work", |_, n: u32| async move {
        if n == 1 {
            return Err(tenure::Failure::permanent("cannot be done"));
        }
        let number: u32 = "none".parse()?;
        Ok(number)
    }));
    coordinator.offer([envelope(1), envelope(2)]);
    running.until_committed(2).await;
    running.end().await.unwrap();
    let mut opinions: Vec<Value> =
        coordinator.reports().iter().map(|report| report["error"]["retryable"].clone()).collect();
    opinions.sort_by_key(Value::is_null);
    assert_eq!(opinions, [json!(false), Value::Null]);
}
