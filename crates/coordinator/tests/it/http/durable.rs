//! Checkpoints of durable runs: what a call records, what a repeated call gets, and what is refused.

use serde_json::{Value, json};

use super::test_server::{Lease, Response, TestServer, both, merged, seconds};

impl TestServer {
    pub(super) async fn checkpoint(&self, lease: &Lease, more: Value) -> Response {
        self.call(lease, "checkpoints", lease.said(more)).await
    }

    pub(super) async fn steps(&self, run: &str) -> Vec<Value> {
        let page = self.get(&format!("/v1/runs/{run}/steps")).await.ok();
        page["steps"].as_array().unwrap().clone()
    }
}

pub(super) fn step(key: &str, result: Value) -> Value {
    json!({"key": key, "outcome": "SUCCEEDED", "result": result})
}

fn keys(records: &[Value]) -> Vec<&str> {
    records.iter().map(|record| record["key"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_step_is_recorded_once_and_comes_with_the_next_envelope() {
    for api in both().await {
        // S2-86, E3: the result of a recorded step is given back, and never recorded twice.
        let lease = api.leased(json!({})).await;
        let charge = merged(
            step("charge#1", json!({"ok": 1})),
            json!({"inputDigest": "ab".repeat(32),
            "spend": {"costMicros": 5, "tokens": 2}}),
        );
        let call = json!({"steps": [charge]});
        let first = api.checkpoint(&lease, call.clone()).await;
        first.has("verdict", "COMMITTED").has("state", "running").has("replayed", false);
        first.has("acknowledged", true).has("shouldCancel", false);
        first.text("leaseExpiresAt");
        let recorded_at = first.text("recordedAt");
        api.pass(seconds(1)).await;
        let again = api.checkpoint(&lease, call).await;
        again.has("replayed", true).has("recordedAt", recorded_at.as_str());
        // The worker dies, and the next one begins with what was recorded.
        api.pass(seconds(3)).await;
        let next = api.lease("w1").await;
        assert_eq!((next.attempt(), &next.envelope["seed"]), (2, &lease.envelope["seed"]));
        let recorded = next.envelope["checkpoints"].as_array().unwrap();
        assert_eq!(recorded.len(), 1);
        let one = &recorded[0];
        assert_eq!((&one["key"], &one["kind"]), (&json!("charge#1"), &json!("STEP")));
        assert_eq!((&one["outcome"], &one["result"]), (&json!("SUCCEEDED"), &json!({"ok": 1})));
        assert_eq!(one["inputDigest"], json!("ab".repeat(32)));
        assert_eq!(one["recordedAt"], json!(recorded_at));
        let run = api.run(&lease.run).await;
        assert_eq!(run["durable"]["spend"], json!({"costMicros": 5, "tokens": 2, "toolCalls": 0}));
    }
}

#[tokio::test]
async fn a_key_means_one_thing_and_a_refused_call_changes_nothing() {
    for api in both().await {
        let lease = api.leased(json!({})).await;
        api.checkpoint(&lease, json!({"steps": [step("a", json!(1))]})).await.ok();
        let other = json!({"steps": [step("b", json!(2)), step("a", json!(3))]});
        let got = api.checkpoint(&lease, other).await;
        got.problem(409, "conflicting_step").has("verdict", "REJECTED");
        assert!(got.text("message").contains("`a`"));
        assert_eq!(keys(&api.steps(&lease.run).await), ["a"]);
        // The same meaning in another spelling is a repetition.
        let spelled = r#"{"steps":[{"result": 1 ,"outcome":"SUCCEEDED","key":"a"}]}"#;
        let spelled: Value = serde_json::from_str(spelled).unwrap();
        api.checkpoint(&lease, spelled).await.has("replayed", true);
    }
}

#[tokio::test]
async fn a_failed_step_is_a_value_and_not_the_end() {
    for api in both().await {
        // S2-91: the run goes on, and its code decides what follows.
        let lease = api.leased(json!({})).await;
        let error = json!({"category": "TIMEOUT", "reason": "STEP_TIMEOUT", "message": "slow",
            "retryable": false});
        let failed = json!({"key": "a#1", "outcome": "FAILED", "error": error});
        api.checkpoint(&lease, json!({"steps": [failed]})).await.has("state", "running");
        let steps = api.steps(&lease.run).await;
        assert_eq!((&steps[0]["outcome"], &steps[0]["error"]), (&json!("FAILED"), &error));
    }
}

#[tokio::test]
async fn a_checkpoint_renews_the_lease_and_implies_the_start() {
    for api in both().await {
        // R-30: no start and no heartbeat is sent.
        let lease = api.leased(json!({})).await;
        for n in 0..3 {
            api.pass(seconds(1)).await;
            let got = api.checkpoint(&lease, json!({"steps": [step(&format!("s#{n}"), json!(n))]}));
            got.await.has("state", "running");
        }
        let run = api.run(&lease.run).await;
        assert_eq!((&run["state"], &run["attempt"]), (&json!("running"), &json!(1)));
        assert!(run["startedAt"].is_string());
    }
}

#[tokio::test]
async fn a_lost_lease_records_nothing() {
    for api in both().await {
        let lease = api.leased(json!({})).await;
        api.started(&lease).await.ok();
        api.pass(seconds(3)).await;
        let got = api.checkpoint(&lease, json!({"steps": [step("late", json!(1))]})).await;
        got.problem(410, "task_expired").has("verdict", "CANCELLED");
        let next = api.lease("w1").await;
        let got = api.checkpoint(&lease, json!({"steps": [step("late", json!(1))]})).await;
        got.problem(409, "attempt_mismatch").has("verdict", "CANCELLED");
        api.checkpoint(&next, json!({"steps": [step("s", json!(1))]})).await.ok();
        assert_eq!(keys(&api.steps(&lease.run).await), ["s"]);
        // A refused call is recorded beside the run.
        let run = api.get(&format!("/v1/runs/{}", lease.run)).await.ok();
        assert_eq!(run["refused"][0]["call"], json!("checkpoint"));
    }
}

#[tokio::test]
async fn progress_forgives_earlier_failures() {
    for api in both().await {
        // A failure of a later attempt counts anew after a new checkpoint.
        api.submit(json!({"maxAttempts": 2, "retry": {"baseMs": 1, "capMs": 1}})).await;
        for n in 0..3 {
            api.pass(seconds(1)).await;
            let lease = api.lease("w1").await;
            api.checkpoint(&lease, json!({"steps": [step(&format!("s#{n}"), json!(n))]}))
                .await
                .ok();
            api.fail(&lease).await.has("state", "retry");
        }
    }
}

#[tokio::test]
async fn steps_ride_with_the_report_in_one_commit() {
    for api in both().await {
        let lease = api.leased(json!({})).await;
        let last = json!({"outcome": "SUCCEEDED", "output": 7, "steps": [step("last", json!(7))]});
        let first = api.complete(&lease, last.clone()).await;
        first.has("finalState", "SUCCEEDED").has("state", "succeeded").has("replayed", false);
        api.complete(&lease, last).await.has("replayed", true);
        let other = json!({"outcome": "SUCCEEDED", "output": 7, "steps": [step("last", json!(8))]});
        api.complete(&lease, other).await.problem(409, "conflicting_report");
        assert_eq!(keys(&api.steps(&lease.run).await), ["last"]);
        assert_eq!(api.run(&lease.run).await["output"], json!(7));
    }
}

#[tokio::test]
async fn an_ended_durable_run_has_a_record() {
    for api in both().await {
        // S2-114, W-4: the digest covers the steps between the attempts, and can be recomputed.
        let lease = api.leased(json!({"goal": "ship the order"})).await;
        let paid = merged(step("a", json!(1)), json!({"spend": {"tokens": 2}}));
        api.checkpoint(&lease, json!({"steps": [paid]})).await.ok();
        api.complete(&lease, json!({"outcome": "SUCCEEDED"})).await.ok();
        let record = api.get(&format!("/v1/runs/{}/record", lease.run)).await.ok();
        assert_eq!(
            (&record["state"], &record["goal"]),
            (&json!("succeeded"), &json!("ship the order"))
        );
        assert_eq!(record["durable"]["steps"], 1);
        assert_eq!(record["durable"]["spend"]["tokens"], 2);
        assert!(record["decisions"].as_u64().unwrap() >= 3, "{record}");
        assert_eq!(record["rules"].as_array().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn a_refused_step_refuses_its_report() {
    for api in both().await {
        let lease = api.leased(json!({})).await;
        api.checkpoint(&lease, json!({"steps": [step("a", json!(1))]})).await.ok();
        let last = json!({"outcome": "SUCCEEDED", "steps": [step("a", json!(2))]});
        api.complete(&lease, last).await.problem(409, "conflicting_step");
        assert_eq!(api.state(&lease.run).await, "running");
        api.succeed(&lease).await.has("state", "succeeded");
    }
}

#[tokio::test]
async fn what_is_too_large_or_does_not_exist_is_refused_with_its_name() {
    for api in both().await {
        let lease = api.leased(json!({})).await;
        let large = step("big", json!("x".repeat(256 * 1024)));
        let got = api.checkpoint(&lease, json!({"steps": [large]})).await;
        got.problem(422, "result_too_large").has("verdict", "REJECTED");
        let many: Vec<Value> = (0..101).map(|n| step(&format!("s#{n}"), json!(n))).collect();
        let got = api.checkpoint(&lease, json!({"steps": many})).await;
        got.problem(422, "call_too_long");
        let wait = |items: Value| json!({"wait": {"key": "w", "mode": "all", "for": items}});
        api.checkpoint(&lease, wait(json!([]))).await.problem(422, "empty_wait");
        let unknown = wait(json!([{"key": "c", "child": "c"}]));
        api.checkpoint(&lease, unknown).await.problem(422, "unknown_child");
        let effect =
            json!({"key": "mail", "step": "a#1", "endpoint": "mailer", "type": "sent", "body": 1});
        let got = api.checkpoint(&lease, json!({ "effects": [effect] })).await;
        got.problem(400, "invalid_argument").has("field", "effects[0].step");
        got.has("verdict", "REJECTED");
        let step = json!({"key": "a#1", "outcome": "SUCCEEDED"});
        let got = api.checkpoint(&lease, json!({ "steps": [step], "effects": [effect] })).await;
        got.problem(400, "invalid_argument").has("field", "effects[0].endpoint");
        got.has("verdict", "REJECTED");
        let effect = wait(json!([{"key": "a", "effect": {"key": "mail"}}]));
        let got = api.checkpoint(&lease, effect).await;
        got.problem(400, "invalid_argument").has("field", "wait.for[0].effect.step");
        assert!(api.steps(&lease.run).await.is_empty());
    }
}

#[tokio::test]
async fn envelopes_begin_with_the_last_savepoint_and_continue_in_pages() {
    for api in both().await {
        let lease = api.leased(json!({})).await;
        api.checkpoint(&lease, json!({"steps": [step("before", json!(1))]})).await.ok();
        let savepoint = merged(step("savepoint#2", json!({"n": 1})), json!({"savepoint": true}));
        api.checkpoint(&lease, json!({"steps": [savepoint]})).await.ok();
        // Each result has 30 KiB: the third does not fit.
        for n in 0..3 {
            let large = step(&format!("s#{n}"), json!("x".repeat(30 * 1024)));
            api.checkpoint(&lease, json!({"steps": [large]})).await.ok();
        }
        api.pass(seconds(3)).await;
        let next = api.lease("w1").await;
        let recorded = next.envelope["checkpoints"].as_array().unwrap();
        assert_eq!(keys(recorded), ["savepoint#2", "s#0", "s#1"]);
        let after = next.envelope["checkpointsAfter"].as_u64().unwrap();
        let path = format!("/v1/tasks/{}/checkpoints?after={after}", next.task);
        let page = api.get_as(&path, &next.token).await.ok();
        assert_eq!(keys(page["checkpoints"].as_array().unwrap()), ["s#2"]);
        // The token of another task opens nothing.
        let other = api.leased(json!({})).await;
        api.get_as(&path, &other.token).await.problem(401, "invalid_token");
        // People read everything.
        assert_eq!(api.steps(&lease.run).await.len(), 5);
    }
}

#[tokio::test]
async fn calls_come_in_batches_too() {
    for api in both().await {
        let (one, two) = (api.leased(json!({})).await, api.leased(json!({})).await);
        let item = |lease: &Lease, more: Value| {
            merged(lease.said(json!({"taskId": lease.task, "taskToken": lease.token})), more)
        };
        let calls = json!({"checkpoints": [
            item(&one, json!({"steps": [step("a", json!(1))]})),
            item(&two, json!({"steps": [{"key": "a b", "outcome": "SUCCEEDED"}]})),
            item(&one, json!({"steps": [step("a", json!(2))]})),
            item(&two, json!({"steps": [step("a", json!(1))], "wait": {"key": "w", "mode": "all",
                "for": [{"key": "go", "signal": "go"}]}})),
            item(&one, json!({"steps": [step("a", json!(1))]})),
        ]});
        let got = api.post("/v1/checkpoints", &api.worker_key, calls).await.ok();
        let answers = got["answers"].as_array().unwrap();
        let rows: Vec<(u64, &str)> = answers
            .iter()
            .map(|it| (it["status"].as_u64().unwrap(), it["error"].as_str().unwrap_or_default()))
            .collect();
        let expected =
            [(200, ""), (400, "invalid_argument"), (409, "conflicting_step"), (200, ""), (200, "")];
        assert_eq!(rows, expected);
        assert_eq!(answers[1]["field"], json!("checkpoints[1].steps[0].key"));
        assert_eq!(
            (&answers[3]["state"], &answers[4]["replayed"]),
            (&json!("waiting"), &json!(true))
        );
        assert!(answers[3].get("leaseExpiresAt").is_none());
    }
}

#[tokio::test]
async fn a_diverged_run_waits_for_an_operator() {
    for api in both().await {
        // E4: nothing is guessed.
        let lease = api.leased(json!({})).await;
        let diverged = json!({"diverged": {"branch": "left", "index": 2, "recorded": "charge#1",
            "actual": "refund#1 (src/order.rs:7)"}});
        let call = api.checkpoint(&lease, diverged.clone()).await;
        call.has("state", "waiting");
        api.checkpoint(&lease, diverged).await.has("replayed", true);
        assert!(api.poll("w1").await.is_empty());
        let run = api.run(&lease.run).await;
        let told = &run["durable"]["waiting"]["diverged"];
        assert_eq!((&told["recorded"], &told["index"]), (&json!("charge#1"), &json!(2)));
        let explained = api.get(&format!("/v1/runs/{}/explain", lease.run)).await.ok();
        assert_eq!(explained["gates"][0]["gate"], json!("diverged"));
        let path = format!("/v1/runs/{}/resume", lease.run);
        let resumed = api.post(&path, &api.key, json!({})).await;
        assert_eq!(resumed.status, 202);
        resumed.has("state", "waiting").has("runId", lease.run.as_str());
        api.post(&path, &api.key, json!({})).await.problem(409, "not_diverged");
        let next = api.lease("w1").await;
        assert_eq!(next.attempt(), 2);
        // It counts towards no limit.
        let run = api.run(&lease.run).await;
        assert_eq!((&run["failures"], &run["lost"]), (&json!(0), &json!(0)));
    }
}
