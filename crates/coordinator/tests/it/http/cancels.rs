//! Stopping a run: before it is leased, before it starts, while it works, and by force.

use serde_json::json;

use super::site::{both, seconds};

#[tokio::test]
async fn a_waiting_run_is_cancelled_at_once() {
    for site in both().await {
        // not leased, so nobody has to be asked.
        let run = site.submit(json!({})).await;
        let got = site.cancel(&run, json!({"reason": "user_requested"})).await;
        assert_eq!(got.status, 202);
        got.has("state", "cancelled").has("runId", run.as_str());
        let at = got.text("cancelRequestedAt");
        // Twice is the same as once.
        let again = site.cancel(&run, json!({})).await;
        assert_eq!(again.status, 202);
        again.has("state", "cancelled").has("cancelRequestedAt", at);
        assert!(site.poll("w1").await.is_empty());
    }
}

#[tokio::test]
async fn a_cancel_needs_no_body() {
    for site in both().await {
        let run = site.submit(json!({})).await;
        let request =
            site.request("POST", &format!("/v1/runs/{run}/cancel")).bearer_auth(&site.key);
        assert_eq!(site.send(request).await.status, 202);
        assert_eq!(site.state(&run).await, "cancelled");
    }
}

#[tokio::test]
async fn an_ended_run_cannot_be_cancelled() {
    for site in both().await {
        let lease = site.leased(json!({})).await;
        site.succeed(&lease).await.ok();
        let before = site.run(&lease.run).await;
        let got = site.cancel(&lease.run, json!({})).await;
        got.problem(409, "run_already_terminal").has("state", "SUCCEEDED");
        assert!(got.body.get("verdict").is_none());
        assert_eq!(site.run(&lease.run).await, before);
    }
}

#[tokio::test]
async fn a_start_after_the_cancel_never_begins() {
    for site in both().await {
        // S4-50, S4-17: the signal as 409 on started, with state CANCELLED.
        let lease = site.leased(json!({})).await;
        site.cancel(&lease.run, json!({"reason": "user_requested"})).await.has("state", "running");
        let got = site.started(&lease).await;
        got.problem(409, "task_already_terminal")
            .has("verdict", "CANCELLED")
            .has("state", "CANCELLED");
        assert_eq!(site.state(&lease.run).await, "cancelled");
        // The worker's later calls change nothing.
        site.heartbeat(&lease).await.problem(410, "task_expired");
        assert_eq!(site.state(&lease.run).await, "cancelled");
    }
}

#[tokio::test]
async fn a_working_worker_is_asked_and_answers() {
    for site in both().await {
        // S4-22, S4-23, S4-43, S4-48, S4-49, S4-54, S4-34, S4-35
        let lease = site.leased(json!({})).await;
        site.started(&lease).await.ok();
        site.heartbeat(&lease).await.has("shouldCancel", false);
        site.cancel(&lease.run, json!({"reason": "user_requested"})).await.has("state", "running");
        let beat = site.heartbeat(&lease).await;
        beat.has("shouldCancel", true)
            .has("cancelReason", "user_requested")
            .has("verdict", "COMMITTED");
        let progress = json!({"recordsProcessed": 50, "lastCheckpoint": "c"});
        let report = json!({
            "outcome": "CANCELLED", "cancelledDuringPhase": "load", "partialProgress": progress,
            "error": {"category": "CANCELLED", "message": "stopped"},
        });
        let ack = site.complete(&lease, report.clone()).await;
        ack.has("finalState", "CANCELLED").has("state", "cancelled").has("verdict", "COMMITTED");
        site.complete(&lease, report).await.has("replayed", true);
        // S4-64: never retried; partial progress is kept.
        let run = site.run(&lease.run).await;
        assert_eq!((&run["state"], &run["output"]), (&json!("cancelled"), &progress));
        assert_eq!(run["cancelReason"], "user_requested");
    }
}

#[tokio::test]
async fn success_while_a_cancel_is_pending_is_recorded_truthfully() {
    for site in both().await {
        let lease = site.leased(json!({})).await;
        site.started(&lease).await.ok();
        site.cancel(&lease.run, json!({})).await.ok();
        site.succeed(&lease).await.has("state", "succeeded").has("verdict", "COMMITTED");
        assert_eq!(site.state(&lease.run).await, "succeeded");
    }
}

#[tokio::test]
async fn a_worker_that_ignores_the_cancel_times_out() {
    for site in both().await {
        // S4-56, W-13, R-13: failed with CANCEL_TIMEOUT, never retried, lease revoked.
        let lease = site.leased(json!({"cancelGraceMs": 3000})).await;
        site.started(&lease).await.ok();
        site.cancel(&lease.run, json!({})).await.ok();
        for _ in 0..4 {
            site.heartbeat(&lease).await;
            site.pass(seconds(1)).await;
        }
        let run = site.run(&lease.run).await;
        assert_eq!(
            (&run["state"], &run["error"]["reason"]),
            (&json!("failed"), &json!("CANCEL_TIMEOUT"))
        );
        site.heartbeat(&lease).await.problem(410, "task_expired").has("verdict", "CANCELLED");
        let got = site.succeed(&lease).await;
        got.problem(409, "task_already_terminal")
            .has("state", "FAILED")
            .has("verdict", "CANCELLED");
        assert!(site.poll("w2").await.is_empty());
    }
}

#[tokio::test]
async fn a_forced_cancel_does_not_ask() {
    for site in both().await {
        // S4-57
        let lease = site.leased(json!({})).await;
        site.started(&lease).await.ok();
        let got = site.cancel(&lease.run, json!({"force": true})).await;
        assert_eq!(got.status, 202);
        got.has("state", "cancelled");
        site.heartbeat(&lease).await.problem(410, "task_expired");
        assert_eq!(site.run(&lease.run).await["error"]["reason"], "CANCEL_FORCED");
    }
}
