//! Waits of durable runs: for time and for signals, whenever what is awaited arrives.

use serde_json::{Value, json};

use super::durable::step;
use super::test_server::{Lease, Response, TestServer, both, seconds};

impl TestServer {
    pub(super) async fn signal(&self, run: &str, key: Option<&str>, body: Value) -> Response {
        let request = self.request("POST", &format!("/v1/runs/{run}/signals"));
        let request = match key {
            Some(key) => request.header("idempotency-key", key),
            None => request,
        };
        self.send(request.bearer_auth(&self.key).json(&body)).await
    }
}

/// An instant some seconds after the run was accepted.
pub(super) fn after(lease: &Lease, seconds: i64) -> String {
    let accepted: wire::Time = lease.envelope["enqueuedAt"].as_str().unwrap().parse().unwrap();
    wire::Time::from_ms(accepted.as_ms() + seconds * 1_000).to_string()
}

fn wait(mode: &str, items: Value) -> Value {
    json!({"wait": {"key": "w#1", "mode": mode, "for": items}})
}

fn wait_record(lease: &Lease) -> Value {
    let recorded = lease.envelope["checkpoints"].as_array().unwrap();
    recorded.iter().find(|record| record["kind"] == "WAIT").expect("a wait is over").clone()
}

#[tokio::test]
async fn a_sleeping_run_has_no_worker_and_wakes_in_time() {
    for api in both().await {
        // The attempt ends as SUSPENDED, and the resume counts towards no limit.
        let lease = api.leased(json!({})).await;
        let mut call = wait("all", json!([{"key": "cool#1", "until": after(&lease, 10)}]));
        call["steps"] = json!([step("a", json!(1))]);
        let got = api.checkpoint(&lease, call.clone()).await;
        got.has("state", "waiting").has("replayed", false).has("shouldCancel", false);
        assert!(got.body.get("leaseExpiresAt").is_none() && got.body.get("results").is_none());
        // A repeated call gets its answer, although its attempt is closed.
        let again = api.checkpoint(&lease, call).await;
        again
            .has("state", "waiting")
            .has("replayed", true)
            .has("recordedAt", got.text("recordedAt"));
        api.heartbeat(&lease).await.problem(410, "task_expired");
        let run = api.run(&lease.run).await;
        assert_eq!((&run["state"], &run["durable"]["suspensions"]), (&json!("waiting"), &json!(1)));
        let open = &run["durable"]["waiting"]["wait"];
        assert_eq!((&open["key"], &open["for"][0]["key"]), (&json!("w#1"), &json!("cool#1")));
        api.pass(seconds(9)).await;
        assert!(api.poll("w1").await.is_empty(), "it sleeps");
        api.pass(seconds(2)).await;
        let next = api.lease("w1").await;
        assert_eq!(next.attempt(), 2);
        assert!(next.envelope["fence"].as_u64() > lease.envelope["fence"].as_u64());
        assert_eq!(wait_record(&next)["key"], json!("w#1"));
        let run = api.run(&lease.run).await;
        assert_eq!((&run["failures"], &run["lost"]), (&json!(0), &json!(0)));
        let history = api.get(&format!("/v1/runs/{}/history", lease.run)).await.ok();
        let kinds: Vec<&str> = history["entries"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["kind"].as_str().unwrap())
            .collect();
        assert!(kinds.contains(&"attempt_closed") && kinds.contains(&"checkpointed"), "{kinds:?}");
    }
}

#[tokio::test]
async fn a_signal_is_not_lost_whether_it_comes_before_or_after_the_wait() {
    for api in both().await {
        // F85: before the call, the same lease goes on with it.
        let lease = api.leased(json!({})).await;
        let sent =
            api.signal(&lease.run, None, json!({"name": "go", "payload": {"by": "ops"}})).await;
        assert_eq!(sent.status, 202);
        sent.has("state", "running").has("runId", lease.run.as_str());
        let call = wait("all", json!([{"key": "go#1", "signal": "go"}]));
        let got = api.checkpoint(&lease, call.clone()).await;
        got.has("state", "running");
        got.text("leaseExpiresAt");
        let over = &got.body["results"][0];
        assert_eq!((&over["kind"], &over["key"]), (&json!("WAIT"), &json!("w#1")));
        let taken = json!([{"key": "go#1", "name": "go", "payload": {"by": "ops"}}]);
        assert_eq!(over["wait"]["signals"], taken);
        // Replay reads only that: the repeated call takes no second signal.
        let again = api.checkpoint(&lease, call).await;
        again.has("replayed", true);
        assert_eq!(again.body["results"], got.body["results"]);
        // After the call, the run is leased again.
        let more = json!({"wait": {"key": "w#2", "mode": "all", "for": [{"key": "go#2", "signal": "go"}]}});
        api.checkpoint(&lease, more).await.has("state", "waiting");
        api.signal(&lease.run, None, json!({"name": "other"})).await.ok();
        assert!(api.poll("w1").await.is_empty(), "another name does not count");
        api.signal(&lease.run, None, json!({"name": "go"})).await.ok();
        let next = api.lease("w1").await;
        assert_eq!(next.envelope["checkpoints"].as_array().unwrap().len(), 2);
        assert_eq!(api.run(&lease.run).await["durable"]["pendingSignals"], json!(1));
    }
}

#[tokio::test]
async fn the_first_of_two_wins_and_is_named() {
    for api in both().await {
        let lease = api.leased(json!({})).await;
        let items =
            json!([{"key": "go#1", "signal": "go"}, {"key": "t#1", "until": after(&lease, 5)}]);
        api.checkpoint(&lease, wait("any", items)).await.has("state", "waiting");
        api.pass(seconds(6)).await;
        let next = api.lease("w1").await;
        assert_eq!(wait_record(&next)["wait"], json!({"winner": "t#1"}));
        // The signal that comes later is kept for a later wait.
        api.signal(&lease.run, None, json!({"name": "go", "payload": 2})).await.ok();
        let later = json!({"wait": {"key": "w#2", "mode": "all", "for": [{"key": "go#2", "signal": "go"}]}});
        let got = api.checkpoint(&next, later).await;
        assert_eq!(got.body["results"][0]["wait"]["signals"][0]["payload"], json!(2));
    }
}

#[tokio::test]
async fn a_signal_with_a_key_is_recorded_once() {
    for api in both().await {
        let lease = api.leased(json!({})).await;
        let go = json!({"name": "go", "payload": 1});
        let first = api.signal(&lease.run, Some("k"), go.clone()).await;
        assert!(first.body.get("replayed").is_none());
        api.signal(&lease.run, Some("k"), go).await.has("replayed", true);
        let other = api.signal(&lease.run, Some("k"), json!({"name": "go", "payload": 2})).await;
        other.problem(422, "idempotency_key_reused");
        assert_eq!(api.run(&lease.run).await["durable"]["pendingSignals"], json!(1));
    }
}

#[tokio::test]
async fn signals_are_bounded_and_an_ended_run_takes_none() {
    for api in both().await {
        let lease = api.leased(json!({})).await;
        let large = json!({"name": "go", "payload": "x".repeat(256 * 1024)});
        api.signal(&lease.run, None, large).await.problem(422, "result_too_large");
        let filling = json!({"name": "go", "payload": "x".repeat(250 * 1024)});
        for _ in 0..4 {
            api.signal(&lease.run, None, filling.clone()).await.ok();
        }
        api.signal(&lease.run, None, filling).await.problem(409, "signals_full");
        api.succeed(&lease).await.ok();
        let got = api.signal(&lease.run, None, json!({"name": "go"})).await;
        got.problem(409, "run_already_terminal").has("state", "SUCCEEDED");
        api.signal("run_00000000000000000000000000", None, json!({"name": "go"}))
            .await
            .problem(404, "run_not_found");
    }
}

#[tokio::test]
async fn a_wait_does_not_suspend_while_a_cancel_is_pending() {
    for api in both().await {
        // DESIGN 14: no worker would be left to honour the cancel.
        let lease = api.leased(json!({})).await;
        api.started(&lease).await.ok();
        api.cancel(&lease.run, json!({"reason": "enough"})).await.ok();
        let got =
            api.checkpoint(&lease, wait("all", json!([{"key": "go#1", "signal": "go"}]))).await;
        got.has("state", "running").has("shouldCancel", true).has("cancelReason", "enough");
        api.complete(&lease, json!({"outcome": "CANCELLED"})).await.has("state", "cancelled");
    }
}

#[tokio::test]
async fn a_wait_that_lasts_too_long_fails_the_run() {
    for api in both().await {
        let lease = api.leased(json!({})).await;
        let mut call = wait("all", json!([{"key": "go#1", "signal": "go"}]));
        call["wait"]["maxMs"] = json!(3000);
        api.checkpoint(&lease, call).await.has("state", "waiting");
        api.pass(seconds(4)).await;
        let run = api.run(&lease.run).await;
        assert_eq!(
            (&run["state"], &run["error"]["reason"]),
            (&json!("failed"), &json!("WAIT_TIMEOUT"))
        );
    }
}

#[tokio::test]
async fn a_waiting_run_is_cancelled_at_once() {
    for api in both().await {
        let lease = api.leased(json!({})).await;
        api.checkpoint(&lease, wait("all", json!([{"key": "go#1", "signal": "go"}]))).await.ok();
        api.cancel(&lease.run, json!({})).await.has("state", "cancelled");
    }
}
