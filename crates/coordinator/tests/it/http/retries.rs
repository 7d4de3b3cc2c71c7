//! Submitting an ended run once more: what is kept, what may be retried, and how often.

use serde_json::{Value, json};

use super::test_server::{Response, TestServer, both, seconds};

async fn retry(api: &TestServer, run: &str, key: Option<&str>) -> Response {
    let request = api.request("POST", &format!("/v1/runs/{run}/retry")).bearer_auth(&api.key);
    let request = match key {
        Some(key) => request.header("Idempotency-Key", key),
        None => request,
    };
    api.send(request).await
}

/// A run that failed, submitted with every setting, under an idempotency key.
async fn failed(api: &TestServer) -> String {
    let body = json!({
        "kind": "resize", "queue": "q", "input": {"width": 640}, "goal": "thumbnails",
        "taskKey": "step", "assetId": "asset", "priority": 7, "maxAttempts": 1, "lostMax": 5,
        "leaseMs": 30_000, "heartbeatIntervalMs": 2_000, "cancelGraceMs": 4_000, "seed": 9,
        "labels": {"team": "a"}, "retry": {"baseMs": 10, "capMs": 20},
        "resources": {"memoryBytes": 1024, "timeoutMs": 60_000},
    });
    let request = api.request("POST", "/v1/runs").bearer_auth(&api.key);
    let submitted = api.send(request.header("Idempotency-Key", "once").json(&body)).await;
    let lease = api.lease("w1").await;
    assert_eq!(lease.run, submitted.text("runId"));
    api.fail(&lease).await.ok();
    lease.run
}

/// The members that say what a run was submitted with.
const SETTINGS: [&str; 18] = [
    "kind",
    "queue",
    "input",
    "goal",
    "taskKey",
    "assetId",
    "priority",
    "maxAttempts",
    "lostMax",
    "leaseMs",
    "heartbeatIntervalMs",
    "cancelGraceMs",
    "seed",
    "retry",
    "resources",
    "tenantId",
    "workspaceId",
    "deadline",
];

#[tokio::test]
async fn labels_of_the_server_are_reserved() {
    for api in both().await {
        let forged = json!({"kind": "k", "queue": "q", "labels": {"tenure.retry-of": "run_x"}});
        let refused = api.post("/v1/runs", &api.key, forged).await;
        refused.problem(400, "invalid_argument").has("field", "labels.tenure.retry-of");
    }
}

#[tokio::test]
async fn a_run_shows_every_setting_while_it_waits_and_after_it_ended() {
    for api in both().await {
        let run = failed(&api).await;
        let ended = api.run(&run).await;
        for (member, value) in [
            ("lostMax", json!(5)),
            ("leaseMs", json!(30_000)),
            ("heartbeatIntervalMs", json!(2_000)),
            ("cancelGraceMs", json!(4_000)),
            ("retry", json!({"baseMs": 10, "capMs": 20})),
            ("resources", json!({"memoryBytes": 1024, "timeoutMs": 60_000})),
            ("priority", json!(7)),
            ("seed", json!(9)),
            ("idempotencyKey", json!("once")),
            ("workerId", json!("w1")),
        ] {
            assert_eq!(ended[member], value, "{member} in {ended}");
        }
        let waiting = api.run(&api.submit(json!({"lostMax": 2})).await).await;
        assert_eq!((waiting["lostMax"].as_u64(), waiting.get("workerId")), (Some(2), None));
        assert_eq!(waiting["retry"], json!({"baseMs": 5_000, "capMs": 300_000}), "the defaults");
    }
}

#[tokio::test]
async fn a_retry_is_a_new_run_with_the_same_settings() {
    for api in both().await {
        let old = failed(&api).await;
        let before = api.run(&old).await;
        let accepted = retry(&api, &old, None).await;
        assert_eq!(accepted.status, 201, "{accepted:?}");
        accepted.has("state", "queued");
        let new = api.run(&accepted.text("runId")).await;
        assert_ne!(new["runId"], before["runId"]);
        for member in SETTINGS {
            assert_eq!(new.get(member), before.get(member), "{member}");
        }
        assert_eq!(new["retryOf"], old.as_str());
        assert_eq!(new["labels"], json!({"team": "a", "tenure.retry-of": old}));
        assert_eq!(new.get("idempotencyKey"), None, "the key belongs to the first run");
        assert_eq!((new["attempt"].as_u64(), new["failures"].as_u64()), (Some(0), Some(0)));
        // An ended run never changes; it is shown with what came of it.
        let mut after = api.run(&old).await;
        let retries = after.as_object_mut().unwrap().remove("retries");
        assert_eq!((after, retries), (before, Some(json!([new["runId"]]))));
        // The retry is a run like any other: it is leased, fails, and can be retried.
        let lease = api.lease("w1").await;
        assert_eq!(lease.run, new["runId"].as_str().unwrap());
        api.fail(&lease).await.ok();
        let third = retry(&api, &lease.run, None).await.text("runId");
        assert_eq!(api.run(&third).await["retryOf"], lease.run.as_str());
        let path = format!("/v1/runs?label=tenure.retry-of={old}");
        let retries = api.get(&path).await.ok();
        assert_eq!(retries["runs"][0]["runId"], lease.run.as_str());
        assert_eq!(retries["runs"].as_array().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn a_repeated_retry_under_one_key_is_one_run() {
    for api in both().await {
        let old = failed(&api).await;
        let first = retry(&api, &old, Some("again")).await;
        assert_eq!(first.status, 201);
        api.pass(seconds(2)).await;
        let second = retry(&api, &old, Some("again")).await;
        assert_eq!(second.status, 200, "{second:?}");
        second.has("runId", first.text("runId")).has("replayed", true);
        // Without a key each call is another retry.
        let third = retry(&api, &old, None).await;
        assert_ne!(third.text("runId"), first.text("runId"));
        // The key belongs to the retry of this run.
        let other = api.submit(json!({})).await;
        api.cancel(&other, json!({})).await.has("state", "cancelled");
        retry(&api, &other, Some("again")).await.problem(422, "idempotency_key_reused");
        retry(&api, &old, Some("once")).await.problem(422, "idempotency_key_reused");
    }
}

#[tokio::test]
async fn a_deadline_counts_from_the_retry() {
    for api in both().await {
        let now = api.get("/v1/runs/run_x").await.text("serverTime");
        let now: wire::Time = now.parse().unwrap();
        let deadline = wire::Time::from_ms(now.as_ms() + 60_000).to_string();
        let run = api.submit(json!({"deadline": deadline})).await;
        let created = api.run(&run).await["createdAt"].clone();
        api.cancel(&run, json!({})).await.has("state", "cancelled");
        api.clock.advance(seconds(3_600));
        let new = api.run(&retry(&api, &run, None).await.text("runId")).await;
        let ms = |value: &Value| value.as_str().unwrap().parse::<wire::Time>().unwrap().as_ms();
        let old_span = ms(&json!(deadline)) - ms(&created);
        assert_eq!(ms(&new["deadline"]) - ms(&new["createdAt"]), old_span);
    }
}

#[tokio::test]
async fn a_run_whose_deadline_left_it_no_time_is_not_retried() {
    for api in both().await {
        // A retry has as much time as its run had: none. It would fail before any worker could lease it.
        let now: wire::Time = api.get("/v1/runs/run_x").await.text("serverTime").parse().unwrap();
        let in_ms = |millis| wire::Time::from_ms(now.as_ms() + millis).to_string();
        let run = api.submit(json!({"delayMs": 60_000, "deadline": in_ms(60_000)})).await;
        api.cancel(&run, json!({})).await.has("state", "cancelled");
        let got = retry(&api, &run, None).await;
        got.problem(409, "run_not_retryable").has("state", "CANCELLED");
        assert!(got.text("message").contains("later deadline"), "{got:?}");
        let short = api.submit(json!({"delayMs": 60_000, "deadline": in_ms(61_000)})).await;
        api.cancel(&short, json!({})).await.has("state", "cancelled");
        assert_eq!(retry(&api, &short, None).await.status, 201);
    }
}

#[tokio::test]
async fn only_a_run_that_ended_without_success_is_retried() {
    for api in both().await {
        let waiting = api.submit(json!({"queue": "elsewhere"})).await;
        let got = retry(&api, &waiting, None).await;
        got.problem(409, "run_not_retryable").has("state", "QUEUED");
        assert!(got.body.get("verdict").is_none());
        let lease = api.leased(json!({})).await;
        retry(&api, &lease.run, None).await.problem(409, "run_not_retryable");
        api.succeed(&lease).await.ok();
        let got = retry(&api, &lease.run, None).await;
        got.problem(409, "run_not_retryable").has("state", "SUCCEEDED");
        retry(&api, "run_00000000000000000000000000", None).await.problem(404, "run_not_found");
        let odd = json!({"priority": 1});
        let path = format!("/v1/runs/{waiting}/retry");
        api.post(&path, &api.key, odd).await.problem(400, "invalid_argument");
        let list = api.get("/v1/runs").await.ok();
        assert_eq!(list["runs"].as_array().unwrap().len(), 2, "nothing was submitted");
    }
}

#[tokio::test]
async fn a_retry_needs_room_in_the_quota() {
    for api in both().await {
        let run = failed(&api).await;
        let limits = json!({"tenantId": "default", "unfinishedRuns": 0});
        api.post("/v1/limits", &api.admin_key, limits).await.ok();
        retry(&api, &run, None).await.problem(429, "quota_reached");
    }
}
