//! Progress apart from liveness: an attempt whose worker sends heartbeats and gets nowhere. Over both stores.

use serde_json::{Value, json};

use super::test_server::{Lease, TestServer, both, seconds};

/// An attempt with a lease of ten seconds that stalls after six seconds without progress.
async fn watched(api: &TestServer, action: &str) -> Lease {
    let stall = json!({"afterMs": 6000, "action": action});
    let terms = json!({"leaseMs": 10_000, "heartbeatIntervalMs": 2_000, "stall": stall});
    let lease = api.leased(terms).await;
    api.started(&lease).await.ok();
    lease
}

/// Heartbeats for eight seconds, each with this progress.
async fn beats(api: &TestServer, lease: &Lease, progress: impl Fn(u64) -> f64) {
    for beat in 1..=4 {
        api.pass(seconds(2)).await;
        let said = lease.said(json!({"progressPct": progress(beat)}));
        api.call(lease, "heartbeat", said).await;
    }
}

fn lease_of(run: &Value) -> &Value {
    &run["lease"]
}

#[tokio::test]
async fn a_wedged_worker_that_sends_heartbeats_is_caught_and_a_busy_one_is_spared() {
    for api in both().await {
        let busy = watched(&api, "requeue").await;
        beats(&api, &busy, |beat| beat as f64).await;
        assert_eq!(api.state(&busy.run).await, "running");
        api.succeed(&busy).await.has("state", "succeeded");
        let wedged = watched(&api, "requeue").await;
        beats(&api, &wedged, |_| 5.0).await;
        // The lease was renewed all the time, and is gone.
        let late = api.heartbeat(&wedged).await;
        assert!(late.status == 409 || late.status == 410, "{late:?}");
        let again = api.lease("w2").await;
        assert_eq!((&again.run, again.attempt()), (&wedged.run, 2));
        assert_eq!(api.run(&wedged.run).await["lost"], 1);
    }
}

#[tokio::test]
async fn a_warning_is_recorded_and_changes_nothing_else() {
    for api in both().await {
        let lease = watched(&api, "warn").await;
        beats(&api, &lease, |_| 5.0).await;
        let run = api.run(&lease.run).await;
        assert!(lease_of(&run)["stalledAt"].is_string(), "{run}");
        let history = api.get(&format!("/v1/runs/{}/history", lease.run)).await.ok();
        let entries = history["entries"].as_array().unwrap();
        let stalls = entries.iter().filter(|entry| entry["kind"] == "stalled").count();
        assert_eq!(stalls, 1, "{history}");
        api.succeed(&lease).await.has("state", "succeeded");
    }
}

#[tokio::test]
async fn a_cancel_is_told_with_its_reason_and_has_its_grace() {
    for api in both().await {
        let lease = watched(&api, "cancel").await;
        beats(&api, &lease, |_| 5.0).await;
        let told = api.heartbeat(&lease).await.ok();
        assert_eq!(told["shouldCancel"], true, "{told}");
        api.complete(&lease, json!({"outcome": "CANCELLED"})).await.has("state", "cancelled");
    }
}

#[tokio::test]
async fn a_clock_that_heartbeats_could_not_keep_is_refused() {
    for api in both().await {
        let body = json!({"kind": "k", "queue": "q", "heartbeatIntervalMs": 5_000,
            "stall": {"afterMs": 9_999, "action": "warn"}});
        let refused = api.post("/v1/runs", &api.key, body).await;
        refused.problem(400, "invalid_argument").has("field", "stall.afterMs");
    }
}
