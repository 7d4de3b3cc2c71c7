//! Flow keys over HTTP where tasks end, fail or are held back while others wait for their slot. Over both stores.

use serde_json::{Value, json};

use super::test_server::{TestServer, both, merged, run, seconds};

fn acme(more: Value) -> Value {
    merged(json!({"flow": {"key": "acme", "limit": 1}}), more)
}

async fn standing(api: &TestServer) -> (Value, Value) {
    let listed = api.get("/v1/flow-keys").await.ok();
    let key = listed["flowKeys"][0].clone();
    (key["held"].clone(), key["parked"].clone())
}

#[tokio::test]
async fn what_ends_while_it_is_parked_leaves_its_line() {
    for api in both().await {
        let holder = api.leased(acme(json!({"leaseMs": 60_000}))).await;
        let cancelled = api.submit(acme(json!({}))).await;
        let stale = api.submit(acme(json!({"ttlMs": 1_000}))).await;
        let late = api.submit(acme(json!({"deadlineMs": 1_000}))).await;
        let last = api.submit(acme(json!({}))).await;
        assert_eq!(standing(&api).await, (json!(1), json!(4)));
        api.cancel(&cancelled, json!({})).await.has("state", "cancelled");
        // A time to live and a deadline run while their task is parked.
        api.pass(seconds(2)).await;
        assert_eq!(api.state(&stale).await, "failed");
        assert_eq!(api.run(&stale).await["error"]["reason"], "TTL_EXPIRED");
        assert_eq!(api.state(&late).await, "failed");
        assert_eq!(standing(&api).await, (json!(1), json!(1)));
        api.succeed(&holder).await.ok();
        assert_eq!(api.lease("w2").await.run, last);
    }
}

#[tokio::test]
async fn a_failed_attempt_gives_its_slot_to_others_until_it_is_tried_again() {
    for api in both().await {
        let retry = json!({"retry": {"baseMs": 5_000, "capMs": 5_000}, "maxAttempts": 3});
        let first = api.leased(acme(retry)).await;
        let second = api.submit(acme(json!({"leaseMs": 60_000}))).await;
        api.fail(&first).await.ok();
        let other = api.lease("w2").await.by("w2");
        assert_eq!(other.run, second);
        // Its backoff is over, and the slot is taken.
        api.pass(seconds(8)).await;
        assert_eq!(api.poll("w1").await.len(), 0);
        assert_eq!(standing(&api).await, (json!(1), json!(1)));
        api.succeed(&other).await.ok();
        let again = api.lease("w1").await;
        assert_eq!((again.run.clone(), again.attempt()), (first.run.clone(), 2));
    }
}

#[tokio::test]
async fn a_paused_queue_keeps_no_slot_from_others() {
    for api in both().await {
        api.post("/v1/queues/halted/pause", &api.admin_key, json!({})).await.ok();
        let halted = api.submit(acme(json!({"queue": "halted", "priority": 9}))).await;
        let other = api.submit(acme(json!({}))).await;
        assert_eq!(api.lease("w1").await.run, other, "the first of its key is in a paused queue");
        assert_eq!(api.state(&halted).await, "queued");
    }
}

#[tokio::test]
async fn runs_of_a_schedule_share_a_key() {
    for api in both().await {
        let template = run(acme(json!({"leaseMs": 60_000})));
        let schedule =
            json!({"name": "hourly", "everyMs": 3_600_000, "overlap": "allow", "run": template});
        assert_eq!(api.post("/v1/schedules", &api.key, schedule).await.status, 201);
        for _ in 0..3 {
            api.pass(seconds(1)).await;
            api.post("/v1/schedules/hourly/trigger", &api.key, json!({})).await.ok();
        }
        assert_eq!(api.poll("w1").await.len(), 1, "one of three");
        assert_eq!(standing(&api).await, (json!(1), json!(2)));
    }
}

#[tokio::test]
async fn a_retry_of_an_ended_run_wants_a_slot_of_the_same_key() {
    for api in both().await {
        let cancelled = api.submit(acme(json!({}))).await;
        api.cancel(&cancelled, json!({})).await.has("state", "cancelled");
        let holder = api.leased(acme(json!({"leaseMs": 60_000}))).await;
        let again =
            api.post(&format!("/v1/runs/{cancelled}/retry"), &api.key, json!({})).await.ok();
        let again = again["runId"].as_str().unwrap().to_owned();
        assert_eq!(api.poll("w2").await.len(), 0, "the key is full");
        api.succeed(&holder).await.ok();
        assert_eq!(api.lease("w2").await.run, again);
    }
}
