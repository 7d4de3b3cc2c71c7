//! Submissions of many tasks that share a client go together, and each gets its own answer.

use std::sync::Arc;

use serde_json::{Value, json};
use tenure::{Client, Code, Error, RunHandle};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::client::accepted;
use crate::coordinator::{Coordinator, Reply, problem};

/// As many calls as a client makes at the same time.
const CALLS: usize = 2;

/// Submits a run under this key on a separate task.
fn submit(client: &Client, key: &str) -> JoinHandle<Result<RunHandle, Error>> {
    tokio::spawn(client.submit("k", &1).queue("q").idempotency_key(key).into_future())
}

/// A client whose calls are all in flight, what they wait for, and their submissions.
struct Busy {
    coordinator: Arc<Coordinator>,
    client: Client,
    gate: Arc<Notify>,
    first: Vec<JoinHandle<Result<RunHandle, Error>>>,
}

impl Busy {
    async fn start() -> Busy {
        let coordinator = Coordinator::start().await;
        let gate = Arc::new(Notify::new());
        for _ in 0..CALLS {
            coordinator.once("/runs", Reply::Gate(Arc::clone(&gate)));
        }
        let client = coordinator.client();
        let first = ["a", "b"].map(|key| submit(&client, key)).into();
        coordinator.until("/v1/runs", CALLS).await;
        Busy { coordinator, client, gate, first }
    }

    /// Submits under these keys and returns once all of them wait.
    async fn wait_with(&self, keys: &[&str]) -> Vec<JoinHandle<Result<RunHandle, Error>>> {
        let waiting: Vec<_> = keys.iter().map(|key| submit(&self.client, key)).collect();
        // Each task runs until it waits before this one runs again: the runtime has one thread.
        for _ in 0..=keys.len() {
            tokio::task::yield_now().await;
        }
        waiting
    }
}

fn keys(call: &crate::coordinator::Call) -> Vec<Value> {
    call.items().iter().map(|run| run["idempotencyKey"].clone()).collect()
}

#[tokio::test]
async fn submissions_that_wait_for_a_call_share_the_next_one() {
    let busy = Busy::start().await;
    let waiting = busy.wait_with(&["c", "d", "e"]).await;
    let results = json!({ "results": [accepted(3), accepted(4), accepted(5)] });
    busy.coordinator.once("/runs", Reply::Json(200, results));
    busy.gate.notify_one();
    let mut ids = Vec::new();
    for submitted in waiting {
        ids.push(submitted.await.unwrap().unwrap().id().to_owned());
    }
    assert_eq!(ids, ["run_3", "run_4", "run_5"]);
    let calls = busy.coordinator.to("/v1/runs");
    assert_eq!(calls.len(), CALLS + 1);
    assert_eq!(calls[0].idempotency_key.as_deref(), Some("a"));
    assert_eq!(keys(&calls[CALLS]), [json!("c"), json!("d"), json!("e")]);
    busy.gate.notify_one();
    drop(busy.first);
}

#[tokio::test]
async fn a_run_that_is_refused_in_company_gets_the_answer_of_a_single_call() {
    let busy = Busy::start().await;
    let mut waiting = busy.wait_with(&["c", "d"]).await;
    let refusal = json!({ "error": "idempotency_key_reused", "message": "m" });
    let results = json!({ "results": [accepted(3), refusal] });
    busy.coordinator.once("/runs", Reply::Json(200, results));
    busy.coordinator.once("/runs", problem(409, "idempotency_key_reused"));
    busy.gate.notify_one();
    let error = waiting.pop().unwrap().await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Refused(_)), "{error:?}");
    assert_eq!(error.code(), Some(Code::IdempotencyKeyReused));
    assert_eq!(waiting.pop().unwrap().await.unwrap().unwrap().id(), "run_3");
    let calls = busy.coordinator.to("/v1/runs");
    assert_eq!(calls.last().unwrap().idempotency_key.as_deref(), Some("d"));
}

#[tokio::test]
async fn every_caller_learns_that_a_shared_call_failed() {
    let busy = Busy::start().await;
    let waiting = busy.wait_with(&["c", "d"]).await;
    busy.coordinator.once("/runs", problem(403, "forbidden"));
    busy.gate.notify_one();
    for submitted in waiting {
        let error = submitted.await.unwrap().unwrap_err();
        assert_eq!(error.code(), Some(Code::Forbidden));
    }
    assert_eq!(busy.coordinator.to("/v1/runs").len(), CALLS + 1);
}

#[tokio::test]
async fn a_caller_that_is_gone_takes_no_other_with_it() {
    // The callers that make the calls are dropped while others wait for their return.
    let busy = Busy::start().await;
    let waiting = busy.wait_with(&["c", "d"]).await;
    busy.coordinator.always("/runs", Reply::Json(201, accepted(7)));
    for caller in &busy.first {
        caller.abort();
    }
    for submitted in waiting {
        assert_eq!(submitted.await.unwrap().unwrap().id(), "run_7");
    }
}
