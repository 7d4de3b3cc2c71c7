//! Budgets over HTTP: what is left, how a run halts, and what is refused. Over both stores.

use serde_json::{Value, json};

use super::durable::step;
use super::test_server::{both, merged, seconds};

fn spending(key: &str, tokens: u64) -> Value {
    merged(step(key, json!(1)), json!({"spend": {"tokens": tokens}}))
}

#[tokio::test]
async fn the_call_that_crosses_the_limit_halts_the_run_with_its_steps() {
    for api in both().await {
        let lease = api.leased(json!({"budget": {"tokens": 100, "steps": 10}})).await;
        assert_eq!(lease.envelope["budgetLeft"], json!({"tokens": 100, "steps": 10}));
        let first = api.checkpoint(&lease, json!({"steps": [spending("a", 60)]})).await;
        first.has("state", "running");
        assert_eq!(first.ok()["left"], json!({"tokens": 40, "steps": 9}));
        // S2-62, S2-64, F86: 200 COMMITTED, and the task has halted.
        let call = json!({"steps": [spending("b", 50)]});
        let crossed = api.checkpoint(&lease, call.clone()).await;
        crossed.has("verdict", "COMMITTED").has("state", "halted");
        api.checkpoint(&lease, call).await.has("state", "halted").has("replayed", true);
        let run = api.run(&lease.run).await;
        assert_eq!(run["state"], "halted");
        // S2-99.
        assert_eq!(run["error"]["reason"], "BUDGET_EXHAUSTED");
        assert_eq!(run["error"]["message"], "the budget allows 100 tokens, and 110 are used");
        assert_eq!(run["budget"]["used"]["tokens"], 110);
        // S2-39, S2-97: every completed step is there.
        assert_eq!(api.steps(&lease.run).await.len(), 2);
        // S2-94: a halted run is never retried.
        let retry = api.post(&format!("/v1/runs/{}/retry", lease.run), &api.key, json!({})).await;
        retry.problem(409, "run_not_retryable");
    }
}

#[tokio::test]
async fn a_child_takes_its_ceiling_and_gives_back_the_rest() {
    for api in both().await {
        let parent = api.leased(json!({"budget": {"tokens": 100}})).await;
        let child = |key: &str, tokens: u64| json!({"key": key, "kind": "k", "queue": "kids", "budget": {"tokens": tokens}});
        let spawned = api.checkpoint(&parent, json!({"children": [child("one", 70)]})).await;
        assert_eq!(spawned.ok()["left"], json!({"tokens": 30}));
        let above = api.checkpoint(&parent, json!({"children": [child("two", 31)]})).await;
        above.problem(409, "budget_insufficient").has("verdict", "REJECTED");
        assert!(above.text("message").contains("asks for 31 tokens, and 30 are left"));
        let run = api.run(&parent.run).await;
        assert_eq!(run["budget"]["held"]["tokens"], 70);
    }
}

#[tokio::test]
async fn totals_come_with_heartbeats_and_reports_and_count_once() {
    for api in both().await {
        let lease = api.leased(json!({"budget": {"tokens": 100}})).await;
        let spend = |tokens: u64| lease.said(json!({"spend": {"tokens": tokens}}));
        for _ in 0..2 {
            let beat = api.call(&lease, "heartbeat", spend(30)).await;
            assert_eq!(beat.ok()["left"], json!({"tokens": 70}));
        }
        let report =
            lease.said(json!({"outcome": "SUCCEEDED", "output": 1, "spend": {"tokens": 45}}));
        api.call(&lease, "completed", report).await.has("state", "succeeded");
        let run = api.run(&lease.run).await;
        assert_eq!(run["budget"]["used"]["tokens"], 45);
        // A heartbeat that crosses the limit tells the worker to stop.
        let lease = api.leased(json!({"budget": {"tokens": 10}})).await;
        let beat =
            api.call(&lease, "heartbeat", lease.said(json!({"spend": {"tokens": 11}}))).await;
        beat.has("shouldCancel", true).has("cancelReason", "budget_exhausted");
        assert_eq!(api.run(&lease.run).await["state"], "halted");
    }
}

#[tokio::test]
async fn the_wall_clock_halts_a_run_that_nobody_leased() {
    for api in both().await {
        let run = api.submit(json!({"budget": {"wallMs": 5000}})).await;
        api.pass(seconds(6)).await;
        let run = api.run(&run).await;
        assert_eq!(
            (&run["state"], &run["error"]["reason"]),
            (&json!("halted"), &json!("BUDGET_TIME_EXHAUSTED"))
        );
    }
}

#[tokio::test]
async fn the_stages_of_a_plan_share_the_balance_of_their_run() {
    for api in both().await {
        let stage = |key: &str, more: Value| {
            merged(json!({"key": key, "kind": "k", "queue": "q", "leaseMs": 2000}), more)
        };
        let stages = json!([stage("a", json!({})), stage("b", json!({})), stage("c", json!({}))]);
        let planned = json!({"plan": {"steps": stages}, "budget": {"tokens": 100, "steps": 2}});
        let run = api.post("/v1/runs", &api.key, planned).await.text("runId");
        let first = api.lease("w1").await;
        api.checkpoint(&first, json!({"steps": [spending("s#1", 60)]}))
            .await
            .has("state", "running");
        api.succeed(&first).await.has("state", "queued");
        // The end of a stage is no step.
        let second = api.lease("w1").await;
        assert_eq!(second.envelope["budgetLeft"], json!({"tokens": 40, "steps": 1}));
        let crossed =
            second.said(json!({"outcome": "SUCCEEDED", "output": 2, "spend": {"tokens": 50}}));
        api.call(&second, "completed", crossed).await.has("state", "halted");
        let run = api.run(&run).await;
        let states: Vec<&Value> =
            run["plan"].as_array().unwrap().iter().map(|it| &it["state"]).collect();
        assert_eq!(states[0], "succeeded");
        assert!(states[1..].iter().all(|state| **state != "succeeded"), "{states:?}");
        assert_eq!(run["error"]["reason"], "BUDGET_EXHAUSTED");
        assert!(api.poll("w1").await.is_empty(), "nothing new starts");
        // A stage that always runs is funded apart.
        let stages = json!([
            stage("a", json!({})),
            stage("b", json!({})),
            stage("z", json!({"always": true}))
        ]);
        let planned = json!({"plan": {"steps": stages}, "budget": {"tokens": 10}});
        let run = api.post("/v1/runs", &api.key, planned).await.text("runId");
        let first = api.lease("w1").await;
        api.checkpoint(&first, json!({"steps": [spending("s#1", 11)]})).await;
        let last = api.lease("w1").await;
        assert_eq!(last.envelope["stage"], "z");
        api.succeed(&last).await.has("state", "halted");
        assert_eq!(api.state(&run).await, "halted");
    }
}

#[tokio::test]
async fn a_budget_without_limits_is_refused() {
    for api in both().await {
        let got =
            api.post("/v1/runs", &api.key, json!({"kind": "k", "queue": "q", "budget": {}})).await;
        got.problem(400, "invalid_argument");
    }
}
