//! New runs, and the idempotency keys that prevent duplicates.

use serde_json::{Value, json};
use store::clock::Clock as _;
use verdict::Span;

use super::test_server::{TestServer, both, run, seconds};

async fn keyed(api: &TestServer, key: &str, body: Value) -> super::test_server::Response {
    let request = api.request("POST", "/v1/runs").bearer_auth(&api.key);
    api.send(request.header("idempotency-key", key).json(&body)).await
}

#[tokio::test]
async fn a_run_is_created_with_201() {
    for api in both().await {
        let got = api.post("/v1/runs", &api.key, run(json!({}))).await;
        assert_eq!(got.status, 201);
        got.has("state", "queued");
        let (run_id, task_id) = (got.text("runId"), got.text("taskId"));
        assert_eq!(run_id.strip_prefix("run_"), task_id.strip_prefix("task_"));
        got.text("createdAt");
    }
}

#[tokio::test]
async fn the_same_key_finds_the_same_run() {
    for api in both().await {
        // R-32, S2-115: once, however often it is sent and in whatever spelling.
        let first = keyed(&api, "order 7", run(json!({"input": {"a": 1, "b": 2}}))).await;
        assert_eq!(first.status, 201);
        let again = keyed(&api, "order 7", run(json!({"input": {"b": 2, "a": 1}}))).await;
        assert_eq!(again.status, 200);
        again.has("runId", first.text("runId")).has("replayed", true);
        assert_eq!(api.get("/v1/runs").await.ok()["runs"].as_array().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn the_same_key_for_something_else_is_refused() {
    for api in both().await {
        // R-32: a conflict for different content.
        keyed(&api, "k", run(json!({"input": 1}))).await.ok();
        let got = keyed(&api, "k", run(json!({"input": 2}))).await;
        got.problem(422, "idempotency_key_reused");
        assert!(got.body.get("verdict").is_none());
        // The same key in another tenant is another key.
        let request = api.request("POST", "/v1/runs").bearer_auth(&api.foreign_key);
        let foreign = request.header("idempotency-key", "k").json(&run(json!({"input": 2})));
        assert_eq!(api.send(foreign).await.status, 201);
    }
}

#[tokio::test]
async fn odd_keys_are_refused() {
    for api in both().await {
        for key in ["", &"k".repeat(256)] {
            let got = keyed(&api, key, run(json!({}))).await;
            got.problem(400, "invalid_argument").has("field", "Idempotency-Key");
        }
        let request = api.request("POST", "/v1/runs").bearer_auth(&api.key).json(&run(json!({})));
        let twice = request.header("idempotency-key", "a").header("idempotency-key", "b");
        api.send(twice).await.problem(400, "invalid_argument").has("field", "Idempotency-Key");
        let inside = run(json!({"idempotencyKey": "k"}));
        let got = api.post("/v1/runs", &api.key, inside).await;
        got.problem(400, "invalid_argument").has("field", "idempotencyKey");
    }
}

#[tokio::test]
async fn a_batch_of_runs_is_judged_item_by_item() {
    for api in both().await {
        let items = json!({"runs": [
            run(json!({"idempotencyKey": "a"})),
            run(json!({"priority": 5000})),
            run(json!({"idempotencyKey": "a"})),
            run(json!({"idempotencyKey": "a", "input": 3})),
        ]});
        let got = api.post("/v1/runs", &api.key, items.clone()).await;
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
        assert_eq!(api.get("/v1/runs").await.ok()["runs"].as_array().unwrap().len(), 1);
        let got = keyed(&api, "header", items).await;
        got.problem(400, "invalid_argument").has("field", "Idempotency-Key");
    }
}

#[tokio::test]
async fn a_delayed_run_starts_at_its_time() {
    for api in both().await {
        let run_at = api.clock.wall().plus(Span::from_secs(5));
        let run = api.submit(json!({"runAt": wire::Time::from_ms(run_at.millis())})).await;
        assert!(api.poll("w1").await.is_empty());
        api.pass(seconds(5)).await;
        assert_eq!(api.lease("w1").await.run, run);
    }
}

#[tokio::test]
async fn a_span_begins_with_the_submission_and_is_the_same_in_a_repeated_one() {
    for api in both().await {
        // R-32: the digest covers the span as sent, so a later repetition finds the run with its first instants.
        let body = || run(json!({"delayMs": 5_000, "deadlineMs": 20_000}));
        let accepted = keyed(&api, "span", body()).await;
        let (id, created) = (accepted.text("runId"), accepted.text("createdAt"));
        let created: wire::Time = serde_json::from_value(json!(created)).unwrap();
        let after = |ms| json!(wire::Time::from_ms(created.as_ms() + ms));
        api.pass(seconds(2)).await;
        let again = keyed(&api, "span", body()).await;
        assert_eq!(again.status, 200);
        again.has("runId", id.as_str()).has("replayed", true);
        let seen = api.run(&id).await;
        assert_eq!((&seen["runAt"], &seen["deadline"]), (&after(5_000), &after(20_000)));
        let other = keyed(&api, "span", run(json!({"delayMs": 5_001, "deadlineMs": 20_000}))).await;
        other.problem(422, "idempotency_key_reused");
        assert!(api.poll("w1").await.is_empty());
        api.pass(seconds(3)).await;
        assert_eq!(api.lease("w1").await.run, id);
        let both = json!({"delayMs": 1, "runAt": after(1)});
        let got = api.post("/v1/runs", &api.key, run(both)).await;
        got.problem(400, "invalid_argument").has("field", "delayMs");
    }
}

#[tokio::test]
async fn a_deadline_ends_a_run_that_waits() {
    for api in both().await {
        // R-12, W-31
        let deadline = api.clock.wall().plus(Span::from_secs(5));
        let run = api.submit(json!({"deadline": wire::Time::from_ms(deadline.millis())})).await;
        api.pass(seconds(6)).await;
        let run = api.run(&run).await;
        assert_eq!(run["state"], "failed");
        assert_eq!(run["error"]["reason"], "DEADLINE_EXCEEDED");
        assert_eq!(run["error"]["category"], "TIMEOUT");
    }
}

#[tokio::test]
async fn a_run_that_no_worker_takes_in_time_is_dropped_and_one_that_was_taken_is_not() {
    for api in both().await {
        let body = json!({"ttlMs": 5_000, "leaseMs": 60_000});
        let taken = api.leased(body.clone()).await.run;
        let late = api.submit(body).await;
        let delayed = api.submit(json!({"ttlMs": 5_000, "delayMs": 60_000})).await;
        let held = api.get(&format!("/v1/runs/{late}/explain")).await;
        assert!(held.body.to_string().contains("TTL_EXPIRED"), "{:?}", held.body);
        api.pass(seconds(6)).await;
        let run = api.run(&late).await;
        assert_eq!((&run["state"], &run["ttlMs"]), (&json!("failed"), &json!(5_000)));
        assert_eq!(run["error"]["reason"], "TTL_EXPIRED");
        assert_eq!(api.run(&taken).await["state"], "running");
        assert_eq!(api.run(&delayed).await["state"], "queued");
        let plan = json!({"steps": [{"key": "a", "kind": "k", "queue": "q"}]});
        let got = api.post("/v1/runs", &api.key, json!({"plan": plan, "ttlMs": 1})).await;
        got.problem(400, "invalid_argument").has("field", "ttlMs");
    }
}

#[tokio::test]
async fn urgent_runs_go_first_then_older_ones() {
    for api in both().await {
        // R-19, S2-24
        let late = api.submit(json!({"priority": -1})).await;
        let first = api.submit(json!({})).await;
        let second = api.submit(json!({})).await;
        let urgent = api.submit(json!({"priority": 9})).await;
        let order: Vec<String> = api.poll("w1").await.into_iter().map(|lease| lease.run).collect();
        assert_eq!(order, [urgent, first, second, late]);
    }
}

#[tokio::test]
async fn integers_beyond_every_register_are_kept_as_written() {
    for api in both().await {
        // R-32, R-5: they come back with all their digits, and they count by all their digits.
        let payload = |last: char| {
            format!(
                r#"{{"id":1234567890123456789{last},"big": [ -98765432109876543210987654321 ]}}"#
            )
        };
        let submit = async |key: &str, input: String| {
            let body = format!(r#"{{"kind":"k","queue":"q","input":{input}}}"#);
            let request = api.request("POST", "/v1/runs").bearer_auth(&api.key);
            let request = request.header("content-type", "application/json");
            api.send(request.header("idempotency-key", key).body(body)).await
        };
        let run = submit("big", payload('0')).await.text("runId");
        let again = submit("big", payload('0').replace(": [ ", ":[").replace(" ]", "]")).await;
        again.has("replayed", true).has("runId", run.as_str());
        submit("big", payload('1')).await.problem(422, "idempotency_key_reused");
        let lease = api.lease("w1").await;
        let call = format!("/v1/tasks/{}/completed", lease.task);
        let report = |output: String| {
            format!(r#"{{"attempt":1,"workerId":"w1","outcome":"SUCCEEDED","output":{output}}}"#)
        };
        api.post_bytes(&call, &lease.token, report(payload('2'))).await.has("verdict", "COMMITTED");
        let other = api.post_bytes(&call, &lease.token, report(payload('3'))).await;
        other.problem(409, "conflicting_report");
        let text = |path: String| {
            let request = api.request("GET", &path).bearer_auth(&api.key);
            async move { request.send().await.unwrap().text().await.unwrap() }
        };
        let seen = text(format!("/v1/runs/{run}")).await;
        assert!(seen.contains(&payload('0')) && seen.contains(&payload('2')), "{seen}");
    }
}

#[tokio::test]
async fn progress_beside_a_failure_is_kept_as_written() {
    for api in both().await {
        let lease = api.leased(json!({"maxAttempts": 1})).await;
        let progress = r#"{"rows": 123456789012345678901234567890,"at":1.0}"#;
        let report = format!(
            r#"{{"attempt":1,"workerId":"w1","outcome":"FAILED","partialProgress":{progress},
                "error":{{"category":"USER_CODE","message":"no"}}}}"#
        );
        let call = format!("/v1/tasks/{}/completed", lease.task);
        api.post_bytes(&call, &lease.token, report).await.has("verdict", "COMMITTED");
        let path = format!("/v1/runs/{}/record", lease.run);
        let request = api.request("GET", &path).bearer_auth(&api.key);
        let record = request.send().await.unwrap().text().await.unwrap();
        assert!(record.contains(progress), "{record}");
    }
}
