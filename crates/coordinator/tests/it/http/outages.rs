//! The store or the coordinator is unavailable: 503 without a verdict, the only answer that may be
//! repeated.

use std::sync::atomic::Ordering;
use std::time::Duration;

use coordinator::http::Timeouts;
use coordinator::server::Limits;
use serde_json::json;
use store::FailureKind;

use super::test_server::{Response, faulty, run};

/// Nothing was decided: no verdict, and a retry time.
#[track_caller]
fn undecided(got: &Response, code: &str) {
    got.problem(503, code);
    assert!(got.body.get("verdict").is_none(), "{got:?}");
    let after_ms = got.body["retryAfterMs"].as_u64().unwrap();
    match code {
        // S2-57: when the store is tried again.
        "unavailable" => assert!((1..=9_000).contains(&after_ms), "{got:?}"),
        // Up to a second more than the pause.
        _ => assert!((1_000..2_000).contains(&after_ms), "{got:?}"),
    }
    assert_eq!(got.headers["retry-after"], after_ms.div_ceil(1000).to_string().as_str());
}

#[tokio::test]
async fn a_store_that_refuses_is_unavailable_and_nothing_happened() {
    // the row "control plane unavailable" for all three calls, then normal service.
    let (api, faults) = faulty(Limits::default()).await;
    let lease = api.leased(json!({})).await;
    let before = api.run(&lease.run).await;
    for call in ["started", "heartbeat", "completed"] {
        let body = match call {
            "completed" => lease.said(json!({"outcome": "SUCCEEDED"})),
            _ => lease.said(json!({})),
        };
        faults.fail_every_write(FailureKind::Full);
        let got = api.call(&lease, call, body.clone()).await;
        undecided(&got, "unavailable");
        assert!(
            !got.body.to_string().contains("today"),
            "the store's own words stay inside: {got:?}"
        );
        faults.heal();
        assert_eq!(api.run(&lease.run).await, before);
    }
    api.succeed(&lease).await.has("verdict", "COMMITTED");
}

#[tokio::test]
async fn a_commit_nobody_knows_about_is_unknown() {
    // The answer says that repeating is safe; the coordinator accepts nothing more.
    let (api, faults) = faulty(Limits::default()).await;
    let lease = api.leased(json!({})).await;
    faults.commit_unknown.store(true, Ordering::SeqCst);
    undecided(&api.succeed(&lease).await, "unknown_outcome");
    undecided(&api.heartbeat(&lease).await, "shutting_down");
    assert_eq!(api.get("/readyz").await.status, 503);
    assert_eq!(api.get("/livez").await.status, 200);
}

#[tokio::test]
async fn a_request_that_cannot_be_stored_fails_alone() {
    let (api, faults) = faulty(Limits::default()).await;
    faults.refuses_poison.store(true, Ordering::SeqCst);
    let runs = json!({"runs": [run(json!({})), run(json!({"kind": "poison"})), run(json!({}))]});
    let results = api.post("/v1/runs", &api.key, runs).await.ok();
    assert_eq!(results["results"][0]["state"], "queued");
    assert_eq!(results["results"][1]["error"], "internal");
    assert_eq!(results["results"][2]["state"], "queued");
    let got = api.post("/v1/runs", &api.key, run(json!({"kind": "poison"}))).await;
    got.problem(500, "internal");
}

#[tokio::test]
async fn a_task_that_is_set_aside_is_told_so_and_operators_are_told_why() {
    // G2: all calls about it, and about no other run.
    let (api, faults) = faulty(Limits::default()).await;
    let lease = api.leased(json!({"kind": "spoilt"})).await;
    let other = api.leased(json!({})).await;
    faults.hides_spoilt.store(true, Ordering::SeqCst);
    let cancel = format!("/v1/runs/{}/cancel", lease.run);
    for got in [
        api.heartbeat(&lease).await,
        api.succeed(&lease).await,
        api.post(&cancel, &api.key, json!({})).await,
    ] {
        got.problem(503, "task_set_aside");
        assert!(got.body.get("verdict").is_none(), "nothing was decided: {got:?}");
        // Its pause, and up to a second more: callers do not all return at the same time.
        assert!((1..=6_000).contains(&got.body["retryAfterMs"].as_u64().unwrap()), "{got:?}");
    }
    api.succeed(&other).await.has("verdict", "COMMITTED");
    let listed = api.get_as("/v1/set-aside", &api.admin_key).await.ok();
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed["tasks"][0]["taskId"], lease.task, "{listed}");
    assert_eq!(listed["tasks"][0]["why"], "a row cannot be read");
    let metrics = api.get("/metrics").await;
    assert!(metrics.body.as_str().unwrap().contains("tenure_tasks_set_aside 1"), "{metrics:?}");
}

#[tokio::test]
async fn a_store_that_hangs_is_told_within_the_deadline() {
    let timeouts = Timeouts {
        answer: Duration::from_millis(100),
        progress: Duration::from_millis(100),
        ..Timeouts::default()
    };
    let (api, faults) = faulty(Limits { timeouts, ..Limits::default() }).await;
    faults.is_held.store(true, Ordering::SeqCst);
    undecided(&api.post("/v1/runs", &api.key, run(json!({}))).await, "unknown_outcome");
    let ready = api.get("/readyz").await;
    assert_eq!((ready.status, &ready.body["ready"]), (503, &json!(false)));
    faults.is_held.store(false, Ordering::SeqCst);
    faults.released.notify_waiters();
    assert_eq!(api.get("/readyz").await.status, 200);
    // It did happen, as the answer said it might.
    assert_eq!(api.get("/v1/runs").await.ok()["runs"].as_array().unwrap().len(), 1);
}
