//! New runs, and the keys that keep them from being made twice.

use serde_json::{Value, json};
use store::clock::Clock as _;
use verdict::Span;

use super::site::{Site, both, run, seconds};

async fn keyed(site: &Site, key: &str, body: Value) -> super::site::Got {
    let request = site.request("POST", "/v1/runs").bearer_auth(&site.key);
    site.send(request.header("idempotency-key", key).json(&body)).await
}

#[tokio::test]
async fn a_run_is_created_with_201() {
    for site in both().await {
        let got = site.post("/v1/runs", &site.key, run(json!({}))).await;
        assert_eq!(got.status, 201);
        got.has("state", "queued");
        let (run_id, task_id) = (got.text("runId"), got.text("taskId"));
        assert_eq!(run_id.strip_prefix("run_"), task_id.strip_prefix("task_"));
        got.text("createdAt");
    }
}

#[tokio::test]
async fn the_same_key_finds_the_same_run() {
    for site in both().await {
        // R-32, S2-115: once, however often it is sent and in whatever spelling.
        let first = keyed(&site, "order 7", run(json!({"input": {"a": 1, "b": 2}}))).await;
        assert_eq!(first.status, 201);
        let again = keyed(&site, "order 7", run(json!({"input": {"b": 2, "a": 1}}))).await;
        assert_eq!(again.status, 200);
        again.has("runId", first.text("runId")).has("replayed", true);
        assert_eq!(site.get("/v1/runs").await.ok()["runs"].as_array().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn the_same_key_for_something_else_is_refused() {
    for site in both().await {
        // conflict on another content.
        keyed(&site, "k", run(json!({"input": 1}))).await.ok();
        let got = keyed(&site, "k", run(json!({"input": 2}))).await;
        got.problem(422, "idempotency_key_reused");
        assert!(got.body.get("verdict").is_none());
        // Another tenant's key of the same name is another key.
        let request = site.request("POST", "/v1/runs").bearer_auth(&site.foreign_key);
        let foreign = request.header("idempotency-key", "k").json(&run(json!({"input": 2})));
        assert_eq!(site.send(foreign).await.status, 201);
    }
}

#[tokio::test]
async fn odd_keys_are_refused() {
    for site in both().await {
        for key in ["", &"k".repeat(256)] {
            let got = keyed(&site, key, run(json!({}))).await;
            got.problem(400, "invalid_argument").has("field", "Idempotency-Key");
        }
        let request = site.request("POST", "/v1/runs").bearer_auth(&site.key).json(&run(json!({})));
        let twice = request.header("idempotency-key", "a").header("idempotency-key", "b");
        site.send(twice).await.problem(400, "invalid_argument").has("field", "Idempotency-Key");
        let inside = run(json!({"idempotencyKey": "k"}));
        let got = site.post("/v1/runs", &site.key, inside).await;
        got.problem(400, "invalid_argument").has("field", "idempotencyKey");
    }
}

#[tokio::test]
async fn a_batch_of_runs_is_judged_item_by_item() {
    for site in both().await {
        let items = json!({"runs": [
            run(json!({"idempotencyKey": "a"})),
            run(json!({"priority": 5000})),
            run(json!({"idempotencyKey": "a"})),
            run(json!({"idempotencyKey": "a", "input": 3})),
        ]});
        let got = site.post("/v1/runs", &site.key, items.clone()).await;
        assert_eq!(got.status, 200);
        let results = got.body["results"].as_array().unwrap();
        assert_eq!(results[0]["state"], "queued");
        assert_eq!(results[1]["error"], "invalid_argument");
        assert_eq!(results[1]["field"], "runs[1].priority");
        assert_eq!(
            (&results[2]["runId"], &results[2]["replayed"]),
            (&results[0]["runId"], &json!(true))
        );
        assert_eq!(results[3]["error"], "idempotency_key_reused");
        assert_eq!(site.get("/v1/runs").await.ok()["runs"].as_array().unwrap().len(), 1);
        let got = keyed(&site, "header", items).await;
        got.problem(400, "invalid_argument").has("field", "Idempotency-Key");
    }
}

#[tokio::test]
async fn a_delayed_run_starts_at_its_time() {
    for site in both().await {
        let run_at = site.clock.wall().plus(Span::from_secs(5));
        let run = site.submit(json!({"runAt": wire::Time::from_ms(run_at.millis())})).await;
        assert!(site.poll("w1").await.is_empty());
        site.pass(seconds(5)).await;
        assert_eq!(site.lease("w1").await.run, run);
    }
}

#[tokio::test]
async fn a_deadline_ends_a_run_that_waits() {
    for site in both().await {
        // R-12, W-31
        let deadline = site.clock.wall().plus(Span::from_secs(5));
        let run = site.submit(json!({"deadline": wire::Time::from_ms(deadline.millis())})).await;
        site.pass(seconds(6)).await;
        let run = site.run(&run).await;
        assert_eq!(run["state"], "failed");
        assert_eq!(run["error"]["reason"], "DEADLINE_EXCEEDED");
        assert_eq!(run["error"]["category"], "TIMEOUT");
    }
}

#[tokio::test]
async fn urgent_runs_go_first_then_older_ones() {
    for site in both().await {
        // R-19, S2-24
        let late = site.submit(json!({"priority": -1})).await;
        let first = site.submit(json!({})).await;
        let second = site.submit(json!({})).await;
        let urgent = site.submit(json!({"priority": 9})).await;
        let order: Vec<String> = site.poll("w1").await.into_iter().map(|lease| lease.run).collect();
        assert_eq!(order, [urgent, first, second, late]);
    }
}
