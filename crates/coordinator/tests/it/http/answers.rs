//! Every row of the answer table, over HTTP.

use serde_json::json;

use super::test_server::{both, seconds};

#[tokio::test]
async fn an_attempt_goes_from_lease_to_committed() {
    for api in both().await {
        // S4-1, S4-2, S4-3, S4-4, S4-5: three calls per task, at the base URL of the envelope.
        let resources = json!({"memoryBytes": 1 << 20, "cpuMillicores": 500, "timeoutMs": 60_000});
        let more = json!({
            "input": {"w": 80}, "assetId": "a1", "taskKey": "k1", "resources": resources,
            "deadline": "2099-01-01T00:00:00.000Z",
        });
        let run = api.submit(more).await;
        let lease = api.lease("w1").await;
        assert_eq!(lease.envelope["callbackBaseUrl"], format!("http://{}", api.address));
        // S4-69: identity.
        let identity = ["taskId", "runId", "assetId", "taskKey", "tenantId", "workspaceId"];
        for member in identity.iter().chain(&["leaseId", "enqueuedAt", "leaseExpiresAt"]) {
            assert!(lease.envelope[*member].is_string(), "{member}");
        }
        assert_eq!((lease.attempt(), lease.run.as_str()), (1, run.as_str()));
        // S4-70: work.
        assert_eq!(lease.envelope["resources"], resources);
        assert_eq!(lease.envelope["deadline"], "2099-01-01T00:00:00.000Z");
        // S4-71, S4-13, S4-14, S4-72: callback and timing, in camelCase.
        assert!(
            lease.envelope["taskToken"].is_string() && lease.envelope["tokenExpiresAt"].is_string()
        );
        assert_eq!(lease.envelope["heartbeatTimeoutMs"], 2000);
        // S4-38, S4-39, R-3: a third of the timeout by default.
        assert_eq!(lease.envelope["heartbeatIntervalMs"], 666);
        assert_eq!(lease.envelope["cancelGracePeriodMs"], 30_000);
        assert_eq!(lease.envelope["input"], json!({"w": 80}));

        // S4-15, S4-16
        let started = lease.said(json!({"startedAt": "2026-03-01T12:00:00.000Z"}));
        let ack = api.call(&lease, "started", started).await;
        ack.has("acknowledged", true).has("verdict", "COMMITTED");
        ack.text("serverTime");
        // S4-19, S4-20, S4-21
        let beat = lease.said(json!({"progressPct": 40.4, "message": "half"}));
        let ack = api.call(&lease, "heartbeat", beat.clone()).await;
        // S3-61: a repeated one changes nothing but the time.
        api.call(&lease, "heartbeat", beat).await.has("acknowledged", true);
        ack.has("acknowledged", true).has("shouldCancel", false).has("verdict", "COMMITTED");
        assert_eq!(api.run(&run).await["lease"]["progressPct"], 40.0);

        // S4-26, S4-27, S4-28, S4-29, S4-31, S3-11, S3-13, S3-14, S3-19
        let output =
            json!({"materializationId": "m", "rowCount": 1, "byteSize": 2, "outputPath": "p"});
        let report = json!({
            "outcome": "SUCCEEDED", "output": output, "completedAt": "2026-03-01T12:00:01Z",
            "metrics": {"cpuTimeMs": 1, "peakMemoryBytes": 2, "ioReadBytes": 3, "ioWriteBytes": 4},
        });
        let ack = api.complete(&lease, report).await;
        ack.has("acknowledged", true).has("verdict", "COMMITTED").has("finalState", "SUCCEEDED");
        ack.has("state", "succeeded").has("replayed", false);
        ack.text("serverTime");
        let ended = api.run(&run).await;
        assert_eq!((&ended["state"], &ended["output"]), (&json!("succeeded"), &output));
    }
}

#[tokio::test]
async fn defaults_are_those_of_the_contract() {
    for api in both().await {
        // S4-36, S4-37, S4-55, S4-8
        let body = json!({"kind": "k", "queue": "q"});
        api.post("/v1/runs", &api.key, body).await.ok();
        let lease = api.lease("w1").await;
        assert_eq!(lease.envelope["heartbeatIntervalMs"], 30_000);
        assert_eq!(lease.envelope["heartbeatTimeoutMs"], 90_000);
        assert_eq!(lease.envelope["cancelGracePeriodMs"], 30_000);
        let life = |member: &str| lease.envelope[member].as_str().unwrap().parse::<wire::Time>();
        let expires = life("tokenExpiresAt").unwrap().as_ms();
        let granted = life("leaseExpiresAt").unwrap().as_ms() - 90_000;
        assert_eq!(expires - granted, 3_600_000);
    }
}

#[tokio::test]
async fn the_same_report_again_gets_the_stored_answer() {
    for api in both().await {
        // R-5, S3-12, S3-62, X08: times and metrics do not make another report, nor does spelling.
        let lease = api.leased(json!({})).await;
        let report = json!({"outcome": "SUCCEEDED", "output": {"a": 1, "b": 2}});
        api.complete(&lease, report).await.has("replayed", false);
        let body = r#"{"workerId":"w1","attempt":1,"metrics":{"cpuTimeMs":9},
            "completedAt":"2026-03-01T12:00:00Z","output":{"b":2.0, "a":1},"outcome":"SUCCEEDED"}"#;
        let path = format!("/v1/tasks/{}/completed", lease.task);
        let before = api.run(&lease.run).await;
        let again = api.post_bytes(&path, &lease.token, body).await;
        assert_eq!(again.status, 200);
        again.has("verdict", "COMMITTED").has("replayed", true).has("finalState", "SUCCEEDED");
        assert_eq!(api.run(&lease.run).await, before);
    }
}

#[tokio::test]
async fn the_same_failure_again_counts_once() {
    for api in both().await {
        // S3-63, S3-60, R-5: also after the next attempt has begun.
        let lease = api.leased(json!({"retry": {"baseMs": 0, "capMs": 0}})).await;
        api.fail(&lease).await.has("replayed", false).has("state", "retry");
        api.fail(&lease).await.has("replayed", true).has("finalState", "FAILED");
        let second = api.lease("w2").await;
        let late = api.fail(&lease).await;
        late.has("replayed", true).has("finalState", "FAILED").has("state", "running");
        assert_eq!((second.attempt(), &api.run(&lease.run).await["failures"]), (2, &json!(1)));
    }
}

#[tokio::test]
async fn another_report_for_a_reported_lease_is_rejected() {
    for api in both().await {
        // S3-36, S3-32, R-5: conflicting_report, and nothing changes.
        let lease = api.leased(json!({})).await;
        api.succeed(&lease).await.ok();
        let before = api.run(&lease.run).await;
        let other = api.fail(&lease).await;
        other.problem(409, "conflicting_report").has("verdict", "REJECTED");
        assert_eq!(api.run(&lease.run).await, before);
    }
}

#[tokio::test]
async fn a_superseded_attempt_learns_409_and_never_401() {
    for api in both().await {
        // W-14: as it should be. R-28, S4-32, S4-65, S4-66, S4-67, S4-68, S3-20, S3-21, S3-23, S4-33, R-9, S3-64: the token
        // of attempt 1 after attempt 2; its late results change nothing.
        let first = api.leased(json!({})).await;
        api.started(&first).await.ok();
        api.pass(seconds(3)).await;
        let second = api.lease("w2").await.by("w2");
        assert_eq!(second.attempt(), 2);
        let before = api.run(&first.run).await;
        for got in
            [api.succeed(&first).await, api.started(&first).await, api.heartbeat(&first).await]
        {
            got.problem(409, "attempt_mismatch").has("verdict", "CANCELLED");
            got.has("expectedAttempt", 2).has("receivedAttempt", 1);
        }
        assert_eq!(api.run(&first.run).await, before);
        api.succeed(&second).await.has("verdict", "COMMITTED");
        let shown = api.get(&format!("/v1/runs/{}", first.run)).await.ok();
        let refused = shown["refused"].as_array().unwrap();
        let calls: Vec<_> = refused.iter().map(|call| call["call"].as_str().unwrap()).collect();
        assert_eq!(calls.len(), 3, "{calls:?}");
        for call in refused {
            assert_eq!(
                (&call["error"], &call["verdict"]),
                (&json!("attempt_mismatch"), &json!("CANCELLED"))
            );
        }
    }
}

#[tokio::test]
async fn a_task_that_ended_otherwise_is_already_terminal() {
    for api in both().await {
        // S4-17, S4-18: started and completed get 409 with the state in upper case.
        let lease = api.leased(json!({})).await;
        api.started(&lease).await.ok();
        api.cancel(&lease.run, json!({"force": true})).await.ok();
        let before = api.run(&lease.run).await;
        for got in [api.started(&lease).await, api.succeed(&lease).await] {
            got.problem(409, "task_already_terminal").has("verdict", "CANCELLED");
            got.has("state", "CANCELLED");
            got.text("message");
        }
        // S4-24, S4-25: a heartbeat on an ended task is 410.
        let beat = api.heartbeat(&lease).await;
        beat.problem(410, "task_expired").has("verdict", "CANCELLED").has("state", "CANCELLED");
        assert_eq!(api.run(&lease.run).await, before);
    }
}

#[tokio::test]
async fn started_after_its_own_report_is_already_completed() {
    for api in both().await {
        // The task waits for its next attempt; this one is over.
        let lease = api.leased(json!({})).await;
        let ack = api.fail(&lease).await;
        // R-6: the attempt FAILED, the task is in retry.
        ack.has("finalState", "FAILED").has("state", "retry").has("verdict", "COMMITTED");
        let got = api.started(&lease).await;
        got.problem(409, "attempt_already_completed")
            .has("verdict", "CANCELLED")
            .has("state", "RETRY");
    }
}

#[tokio::test]
async fn an_expired_lease_is_gone() {
    for api in both().await {
        // S3-22, S3-48, S3-49, S3-66, S4-24, S4-25, R-2, R-8: known but no longer current.
        let lease = api.leased(json!({})).await;
        api.started(&lease).await.ok();
        api.pass(seconds(3)).await;
        let before = api.run(&lease.run).await;
        assert_eq!(before["state"], "retry");
        for got in [api.heartbeat(&lease).await, api.succeed(&lease).await] {
            got.problem(410, "task_expired").has("verdict", "CANCELLED").has("state", "RETRY");
        }
        assert_eq!(api.run(&lease.run).await, before);
    }
}

#[tokio::test]
async fn another_worker_does_not_own_the_lease() {
    for api in both().await {
        // R-30, X09: a repeated start by the same worker is acknowledged, by another it is REJECTED.
        let lease = api.leased(json!({})).await;
        api.started(&lease).await.ok();
        api.started(&lease).await.has("acknowledged", true);
        let before = api.run(&lease.run).await;
        let thief = lease.clone().by("w2");
        for got in
            [api.started(&thief).await, api.heartbeat(&thief).await, api.succeed(&thief).await]
        {
            got.problem(409, "worker_mismatch").has("verdict", "REJECTED");
        }
        assert_eq!(api.run(&lease.run).await, before);
    }
}

#[tokio::test]
async fn retries_follow_category_and_advice() {
    // S4-30, S4-58, S4-59, S4-60, S4-61, S4-62, S4-63, R-14, R-34
    let rows = [
        ("USER_CODE", json!(null), "retry"),
        ("DATA_QUALITY", json!(null), "failed"),
        ("INFRASTRUCTURE", json!(null), "retry"),
        ("CONFIGURATION", json!(null), "failed"),
        ("TIMEOUT", json!(null), "retry"),
        ("USER_CODE", json!(false), "failed"),
        ("DATA_QUALITY", json!(true), "retry"),
    ];
    for api in both().await {
        for (category, retryable, state) in &rows {
            let lease = api.leased(json!({"queue": "q"})).await;
            let error = json!({
                "category": category, "message": "m", "stackTrace": "at x", "retryable": retryable,
            });
            let ack = api.complete(&lease, json!({"outcome": "FAILED", "error": error})).await;
            ack.has("finalState", "FAILED").has("state", *state);
            api.cancel(&lease.run, json!({})).await;
        }
    }
}

#[tokio::test]
async fn a_failed_run_says_why() {
    for api in both().await {
        let lease = api.leased(json!({"maxAttempts": 1})).await;
        api.fail(&lease).await.has("state", "failed");
        let run = api.run(&lease.run).await;
        assert_eq!(run["error"]["category"], "USER_CODE");
        assert_eq!(run["error"]["reason"], "ATTEMPTS_EXHAUSTED");
        assert_eq!(run["error"]["message"], "no");
        assert_eq!((&run["failures"], &run["maxAttempts"]), (&json!(1), &json!(1)));
    }
}

#[tokio::test]
async fn a_lost_worker_ends_the_attempt_and_a_poison_task_ends() {
    for api in both().await {
        // R-11, W-19, S4-45, S4-46, S3-48: three lost attempts, then failed with HEARTBEAT_TIMEOUT.
        let run = api.submit(json!({})).await;
        for attempt in 1..=3 {
            let lease = api.lease("w1").await;
            assert_eq!(lease.attempt(), attempt);
            api.started(&lease).await.ok();
            api.pass(seconds(3)).await;
        }
        let run = api.run(&run).await;
        assert_eq!((&run["state"], &run["lost"]), (&json!("failed"), &json!(3)));
        assert_eq!(run["error"]["reason"], "HEARTBEAT_TIMEOUT");
    }
}
