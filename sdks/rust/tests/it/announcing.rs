//! What a worker tells of its kinds with its polls, and what it does where that is not understood.

use std::future::pending;
use std::sync::Arc;

use serde_json::{Value, json};
use tenure::{Ctx, Error, Failure, Kind, Worker};

use crate::coordinator::{Coordinator, Reply, SERVER_TIME, envelope, problem_json, quick};

const WORK: Kind<u32, u32> =
    Kind::new("work").queue("q").version("3").input_schema(r#"{"type": "integer"}"#);

async fn work(_: Ctx, n: u32) -> Result<u32, Failure> {
    Ok(n)
}

fn worker(coordinator: &Arc<Coordinator>) -> Worker {
    Worker::new(coordinator.client()).retries(quick(10)).build_id("b7").handle(WORK, work)
}

fn nothing_but(members: Value) -> Reply {
    let mut answer = json!({ "leases": [], "signals": [], "serverTime": SERVER_TIME });
    answer.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    Reply::Json(200, answer)
}

/// The polls of a worker until there are this many.
async fn polls(coordinator: &Arc<Coordinator>, count: usize) -> Vec<Value> {
    let worker = worker(coordinator).run_until(pending());
    tokio::select! {
        ended = worker => panic!("the worker ended: {ended:?}"),
        polls = coordinator.until("/leases", count) => polls.iter().map(|poll| poll.json()).collect(),
    }
}

#[tokio::test]
async fn the_first_poll_announces_and_later_ones_name_what_was_announced() {
    // S2-7, V-14.
    let coordinator = Coordinator::start().await;
    coordinator.once("/leases", nothing_but(json!({})));
    let polls = polls(&coordinator, 2).await;
    let announced = &polls[0]["announce"];
    assert_eq!(announced["buildId"], "b7");
    assert_eq!(
        announced["kinds"],
        json!([{ "kind": "work", "version": "3", "inputSchema": { "type": "integer" } }])
    );
    assert_eq!((&polls[1]["announce"], &polls[1]["announced"]), (&Value::Null, &announced["id"]));
    assert_ne!(polls[0]["pollId"], polls[1]["pollId"]);
}

#[tokio::test]
async fn a_coordinator_that_forgot_the_announcement_gets_it_with_the_same_poll() {
    // The poll was not decided: under a new id, what another coordinator granted to it would expire.
    let coordinator = Coordinator::start().await;
    coordinator.once("/leases", nothing_but(json!({})));
    coordinator.once("/leases", nothing_but(json!({ "announceAgain": true })));
    coordinator.once("/leases", nothing_but(json!({})));
    let polls = polls(&coordinator, 4).await;
    assert!(polls[1]["announced"].is_string() && polls[1]["announce"].is_null());
    assert_eq!(polls[2]["announce"], polls[0]["announce"]);
    assert_eq!(polls[2]["pollId"], polls[1]["pollId"]);
    assert_eq!(polls[3]["announced"], polls[0]["announce"]["id"]);
}

#[tokio::test]
async fn an_older_coordinator_is_polled_without_the_announcement() {
    for field in [Some("announce"), None] {
        let coordinator = Coordinator::start().await;
        let mut refusal = problem_json(400, "invalid_argument");
        refusal["field"] = json!(field);
        coordinator.once("/leases", Reply::Json(400, refusal));
        coordinator.offer([envelope(1)]);
        let polls = polls(&coordinator, 3).await;
        assert!(polls[0]["announce"].is_object());
        assert_eq!(polls[1]["pollId"], polls[0]["pollId"]);
        for poll in &polls[1..] {
            assert!(poll["announce"].is_null() && poll["announced"].is_null(), "{poll}");
        }
    }
}

#[tokio::test]
async fn a_poll_that_is_refused_for_another_reason_ends_the_worker() {
    let coordinator = Coordinator::start().await;
    let refusal = Reply::Json(400, problem_json(400, "invalid_argument"));
    coordinator.always("/leases", refusal);
    let error = worker(&coordinator).run_until(pending()).await.unwrap_err();
    assert_eq!(error.status(), Some(400));
    assert_eq!(coordinator.to("/leases").len(), 2, "once with and once without the announcement");
}

#[tokio::test]
async fn a_schema_that_is_none_is_told_before_the_first_poll() {
    let coordinator = Coordinator::start().await;
    let worker = Worker::new(coordinator.client()).handle(WORK.output_schema("null"), work);
    let error = worker.run_until(pending()).await.unwrap_err();
    assert!(matches!(&error, Error::Setup(why) if why.contains("output of `work`")), "{error}");
    assert!(coordinator.to("/leases").is_empty());
}
