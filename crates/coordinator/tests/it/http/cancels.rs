//! Cancelling a run: before it is leased, before it starts, while it runs, and by force.

use serde_json::json;

use super::test_server::{both, seconds};

#[tokio::test]
async fn a_waiting_run_is_cancelled_at_once() {
    for api in both().await {
        // not leased, so no worker has to be asked.
        let run = api.submit(json!({})).await;
        let got = api.cancel(&run, json!({"reason": "user_requested"})).await;
        assert_eq!(got.status, 202);
        got.has("state", "cancelled").has("runId", run.as_str());
        let at = got.text("cancelRequestedAt");
        // A repeated cancel changes nothing.
        let again = api.cancel(&run, json!({})).await;
        assert_eq!(again.status, 202);
        again.has("state", "cancelled").has("cancelRequestedAt", at);
        assert!(api.poll("w1").await.is_empty());
    }
}

#[tokio::test]
async fn a_cancel_needs_no_body() {
    for api in both().await {
        let run = api.submit(json!({})).await;
        let request = api.request("POST", &format!("/v1/runs/{run}/cancel")).bearer_auth(&api.key);
        assert_eq!(api.send(request).await.status, 202);
        assert_eq!(api.state(&run).await, "cancelled");
    }
}

#[tokio::test]
async fn an_ended_run_cannot_be_cancelled() {
    for api in both().await {
        let lease = api.leased(json!({})).await;
        api.succeed(&lease).await.ok();
        let before = api.run(&lease.run).await;
        let got = api.cancel(&lease.run, json!({})).await;
        got.problem(409, "run_already_terminal").has("state", "SUCCEEDED");
        assert!(got.body.get("verdict").is_none());
        assert_eq!(api.run(&lease.run).await, before);
    }
}

#[tokio::test]
async fn a_start_after_the_cancel_never_begins() {
    for api in both().await {
        // S4-50, S4-17: the signal as 409 on started, with state CANCELLED.
        let lease = api.leased(json!({})).await;
        api.cancel(&lease.run, json!({"reason": "user_requested"})).await.has("state", "running");
        let got = api.started(&lease).await;
        got.problem(409, "task_already_terminal")
            .has("verdict", "CANCELLED")
            .has("state", "CANCELLED");
        assert_eq!(api.state(&lease.run).await, "cancelled");
        // The worker's later calls change nothing.
        api.heartbeat(&lease).await.problem(410, "task_expired");
        assert_eq!(api.state(&lease.run).await, "cancelled");
    }
}

#[tokio::test]
async fn a_working_worker_is_asked_and_answers() {
    for api in both().await {
        // S4-22, S4-23, S4-43, S4-48, S4-49, S4-54, S4-34, S4-35
        let lease = api.leased(json!({})).await;
        api.started(&lease).await.ok();
        api.heartbeat(&lease).await.has("shouldCancel", false);
        api.cancel(&lease.run, json!({"reason": "user_requested"})).await.has("state", "running");
        let beat = api.heartbeat(&lease).await;
        beat.has("shouldCancel", true)
            .has("cancelReason", "user_requested")
            .has("verdict", "COMMITTED");
        let progress = json!({"recordsProcessed": 50, "lastCheckpoint": "c"});
        let report = json!({
            "outcome": "CANCELLED", "cancelledDuringPhase": "load", "partialProgress": progress,
            "error": {"category": "CANCELLED", "message": "stopped"},
        });
        let ack = api.complete(&lease, report.clone()).await;
        ack.has("finalState", "CANCELLED").has("state", "cancelled").has("verdict", "COMMITTED");
        api.complete(&lease, report).await.has("replayed", true);
        // S4-64: never retried; partial progress is kept.
        let run = api.run(&lease.run).await;
        assert_eq!((&run["state"], &run["output"]), (&json!("cancelled"), &progress));
        assert_eq!(run["cancelReason"], "user_requested");
    }
}

#[tokio::test]
async fn success_while_a_cancel_is_pending_is_recorded_truthfully() {
    for api in both().await {
        let lease = api.leased(json!({})).await;
        api.started(&lease).await.ok();
        api.cancel(&lease.run, json!({})).await.ok();
        api.succeed(&lease).await.has("state", "succeeded").has("verdict", "COMMITTED");
        assert_eq!(api.state(&lease.run).await, "succeeded");
    }
}

#[tokio::test]
async fn a_worker_that_ignores_the_cancel_times_out() {
    for api in both().await {
        // S4-56, W-13, R-13: failed with CANCEL_TIMEOUT, never retried, lease revoked.
        let lease = api.leased(json!({"cancelGraceMs": 3000})).await;
        api.started(&lease).await.ok();
        api.cancel(&lease.run, json!({})).await.ok();
        for _ in 0..4 {
            api.heartbeat(&lease).await;
            api.pass(seconds(1)).await;
        }
        let run = api.run(&lease.run).await;
        assert_eq!(
            (&run["state"], &run["error"]["reason"]),
            (&json!("failed"), &json!("CANCEL_TIMEOUT"))
        );
        api.heartbeat(&lease).await.problem(410, "task_expired").has("verdict", "CANCELLED");
        let got = api.succeed(&lease).await;
        got.problem(409, "task_already_terminal")
            .has("state", "FAILED")
            .has("verdict", "CANCELLED");
        assert!(api.poll("w2").await.is_empty());
    }
}

#[tokio::test]
async fn a_forced_cancel_does_not_ask() {
    for api in both().await {
        // S4-57
        let lease = api.leased(json!({})).await;
        api.started(&lease).await.ok();
        let got = api.cancel(&lease.run, json!({"force": true})).await;
        assert_eq!(got.status, 202);
        got.has("state", "cancelled");
        api.heartbeat(&lease).await.problem(410, "task_expired");
        assert_eq!(api.run(&lease.run).await["error"]["reason"], "CANCEL_FORCED");
    }
}

#[tokio::test]
async fn a_waiting_poll_tells_its_worker_to_send_the_heartbeat_now() {
    for api in both().await {
        // S4-49: the heartbeat alone carries the signal; the poll says that there is one.
        for max in [0, 1] {
            let lease = api.leased(json!({})).await;
            api.started(&lease).await.ok();
            let poll = json!({"workerId": "w1", "queues": ["q"], "max": max, "waitMs": 30_000});
            let waiting = api.post("/v1/leases", &api.key, poll);
            let cancelling = api.cancel(&lease.run, json!({}));
            let (polled, cancelled) = tokio::join!(waiting, cancelling);
            assert_eq!(cancelled.status, 202);
            let polled = polled.ok();
            assert_eq!(polled["leases"], json!([]));
            assert_eq!(polled["signals"], json!([{"taskId": lease.envelope["taskId"]}]));
            api.heartbeat(&lease).await.has("shouldCancel", true);
            // Told once: the next poll waits as usual.
            let next = json!({"workerId": "w1", "queues": ["q"], "max": max});
            let next = api.post("/v1/leases", &api.key, next).await.ok();
            assert_eq!(next.get("signals"), None, "{next}");
            api.complete(&lease, json!({"outcome": "CANCELLED"})).await.ok();
        }
    }
}

#[tokio::test]
async fn a_signal_waits_for_the_next_poll_of_its_worker_and_is_nobody_elses() {
    for api in both().await {
        let lease = api.leased(json!({})).await;
        api.cancel(&lease.run, json!({"force": true})).await.has("state", "cancelled");
        let poll = |worker: &str| json!({"workerId": worker, "queues": ["q"], "max": 1});
        let other = api.post("/v1/leases", &api.key, poll("w2")).await.ok();
        assert_eq!(other.get("signals"), None, "{other}");
        let foreign = api.post("/v1/leases", &api.foreign_key, poll("w1")).await.ok();
        assert_eq!(foreign.get("signals"), None, "{foreign}");
        let own = api.post("/v1/leases", &api.key, poll("w1")).await.ok();
        assert_eq!(own["signals"], json!([{"taskId": lease.envelope["taskId"]}]));
    }
}

#[tokio::test]
async fn a_task_that_ended_before_its_worker_polled_again_leaves_no_signal() {
    for api in both().await {
        // The heartbeat told the worker of the cancel, so the next poll has nothing to add and waits as usual.
        let lease = api.leased(json!({})).await;
        api.started(&lease).await.ok();
        api.cancel(&lease.run, json!({})).await.ok();
        api.heartbeat(&lease).await.has("shouldCancel", true);
        api.complete(&lease, json!({"outcome": "CANCELLED"})).await.ok();
        let poll = json!({"workerId": "w1", "queues": ["q"], "max": 1});
        let next = api.post("/v1/leases", &api.key, poll).await.ok();
        assert_eq!(next.get("signals"), None, "{next}");
    }
}
