//! Invalid bodies, names and numbers: always one clear answer, and nothing changes.

use serde_json::{Value, json};

use super::test_server::{both, merged, run};

#[tokio::test]
async fn malformed_reports_are_rejected_and_change_nothing() {
    // S3-35, R-35, X15, X23, X26: status 400, the member named, REJECTED, the task untouched.
    let rows: [(&str, &str); 26] = [
        ("", ""),
        ("   ", ""),
        ("null", ""),
        ("[]", ""),
        ("\"x\"", ""),
        ("{", ""),
        ("{\"attempt\":1", ""),
        ("[1,\"w1\",\"SUCCEEDED\"]", ""),
        ("\u{feff}{}", ""),
        (r#"{"workerId":"w1","outcome":"SUCCEEDED"}"#, "attempt"),
        (r#"{"attempt":0,"workerId":"w1","outcome":"SUCCEEDED"}"#, "attempt"),
        (r#"{"attempt":-1,"workerId":"w1","outcome":"SUCCEEDED"}"#, "attempt"),
        (r#"{"attempt":1.5,"workerId":"w1","outcome":"SUCCEEDED"}"#, "attempt"),
        (r#"{"attempt":"1","workerId":"w1","outcome":"SUCCEEDED"}"#, "attempt"),
        (r#"{"attempt":4294967296,"workerId":"w1","outcome":"SUCCEEDED"}"#, "attempt"),
        (r#"{"attempt":1e400,"workerId":"w1","outcome":"SUCCEEDED"}"#, "attempt"),
        (r#"{"attempt":1,"attempt":1,"workerId":"w1","outcome":"SUCCEEDED"}"#, "attempt"),
        (r#"{"attempt":1,"workerId":"","outcome":"SUCCEEDED"}"#, "workerId"),
        (r#"{"attempt":1,"workerId":"a b","outcome":"SUCCEEDED"}"#, "workerId"),
        (r#"{"attempt":1,"workerId":"w1"}"#, "outcome"),
        (r#"{"attempt":1,"workerId":"w1","outcome":"succeeded"}"#, "outcome"),
        (r#"{"attempt":1,"workerId":"w1","outcome":"SUCCEEDED","state":"succeeded"}"#, "state"),
        (r#"{"attempt":1,"workerId":"w1","outcome":"SUCCEEDED","tenantId":"x"}"#, "tenantId"),
        (r#"{"attempt":1,"workerId":"w1","outcome":"FAILED"}"#, "error"),
        (
            r#"{"attempt":1,"workerId":"w1","outcome":"FAILED","error":{"category":"UNKNOWN"}}"#,
            "error.category",
        ),
        (
            r#"{"attempt":1,"workerId":"w1","outcome":"FAILED","error":{"category":"CANCELLED"}}"#,
            "error.category",
        ),
    ];
    for api in both().await {
        let lease = api.leased(json!({})).await;
        let before = api.run(&lease.run).await;
        let path = format!("/v1/tasks/{}/completed", lease.task);
        for (body, field) in rows {
            let got = api.post_bytes(&path, &lease.token, body).await;
            got.problem(400, "invalid_argument").has("verdict", "REJECTED");
            let named = got.body.get("field").and_then(Value::as_str).unwrap_or("");
            assert!(field.is_empty() || named == field, "{body}: {named} instead of {field}");
        }
        assert_eq!(api.run(&lease.run).await, before);
    }
}

#[tokio::test]
async fn malformed_heartbeats_and_starts_are_rejected() {
    for api in both().await {
        // S4-19: progress from 0 to 100.
        let lease = api.leased(json!({})).await;
        let before = api.run(&lease.run).await;
        for (member, value) in [
            ("progressPct", json!(-1)),
            ("progressPct", json!(100.5)),
            ("progressPct", json!("50")),
            ("heartbeatAt", json!("yesterday")),
            ("heartbeatAt", json!(17)),
            ("leaseMs", json!(1)),
        ] {
            let got = api.call(&lease, "heartbeat", lease.said(json!({member: value}))).await;
            got.problem(400, "invalid_argument").has("verdict", "REJECTED").has("field", member);
        }
        let got = api.call(&lease, "started", lease.said(json!({"startedAt": "x"}))).await;
        got.problem(400, "invalid_argument").has("verdict", "REJECTED").has("field", "startedAt");
        assert_eq!(api.run(&lease.run).await, before);
    }
}

#[tokio::test]
async fn runs_outside_their_limits_are_refused_with_the_range() {
    // X26, X27, X15, R-3, S4-38
    let rows = [
        (json!({"kind": ""}), "kind"),
        (json!({"queue": "a b"}), "queue"),
        (json!({"queue": "q\u{202e}"}), "queue"),
        (json!({"kind": "k".repeat(129)}), "kind"),
        (json!({"leaseMs": 0}), "leaseMs"),
        (json!({"leaseMs": 1999}), "leaseMs"),
        (json!({"leaseMs": 86_400_001}), "leaseMs"),
        (json!({"heartbeatIntervalMs": 0}), "heartbeatIntervalMs"),
        (json!({"heartbeatIntervalMs": 1500}), "heartbeatIntervalMs"),
        (json!({"maxAttempts": 0}), "maxAttempts"),
        (json!({"maxAttempts": 1_000_000_000}), "maxAttempts"),
        (json!({"lostMax": 101}), "lostMax"),
        (json!({"priority": 1001}), "priority"),
        (json!({"seed": 9_007_199_254_740_993_u64}), "seed"),
        (json!({"retry": {"baseMs": 10, "capMs": 5}}), "retry.capMs"),
        (json!({"cancelGraceMs": 3_600_001}), "cancelGraceMs"),
        (json!({"labels": {"a b": "x"}}), "labels"),
        (json!({"labels": []}), "labels"),
        (json!({"resources": []}), "resources"),
        (json!({"traceparent": 7}), "traceparent"),
        (json!({"runAt": "2026-03-01"}), "runAt"),
        (json!({"state": "succeeded"}), "state"),
        (json!({"tenantId": "other"}), "tenantId"),
        (json!({"attempt": 7}), "attempt"),
    ];
    for api in both().await {
        for (more, field) in &rows {
            let got = api.post("/v1/runs", &api.key, run(more.clone())).await;
            got.problem(400, "invalid_argument");
            let named = got.text("field");
            assert!(named.starts_with(field), "{more}: {named} instead of {field}");
        }
        assert_eq!(api.get("/v1/runs").await.ok()["runs"], json!([]));
    }
}

#[tokio::test]
async fn polls_outside_their_limits_are_refused() {
    for api in both().await {
        let poll = |more| merged(json!({"workerId": "w1", "queues": ["q"], "max": 1}), more);
        for (more, field) in [
            (json!({"max": 257}), "max"),
            (json!({"queues": []}), "queues"),
            (json!({"queues": "q"}), "queues"),
            (json!({"waitMs": 30_001}), "waitMs"),
            (json!({"pollId": ""}), "pollId"),
            (json!({"workerId": "\u{0}"}), "workerId"),
        ] {
            let got = api.post("/v1/leases", &api.key, poll(more)).await;
            got.problem(400, "invalid_argument").has("field", field);
        }
    }
}

#[tokio::test]
async fn deep_and_wide_json_is_refused_without_harm() {
    for api in both().await {
        // X23: depth, number of members, meaningless numbers.
        let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        let wide: Vec<String> = (0..20_000).map(|n| format!("\"m{n}\":1")).collect();
        let inputs =
            [deep, "1e400".into(), "NaN".into(), "9".repeat(400), "{\"a\":1,\"a\":2}".into()];
        for input in inputs {
            let body = format!(r#"{{"kind":"k","queue":"q","input":{input}}}"#);
            api.post_bytes("/v1/runs", &api.key, body).await.problem(400, "invalid_argument");
        }
        let body = format!(r#"{{"kind":"k","queue":"q",{}}}"#, wide.join(","));
        let got = api.post_bytes("/v1/runs", &api.key, body).await;
        got.problem(400, "invalid_argument").has("field", "m0");
        assert_eq!(api.get("/v1/runs").await.ok()["runs"], json!([]));
    }
}

#[tokio::test]
async fn a_failure_report_never_fails_on_its_text() {
    for api in both().await {
        // X24, X29: NUL, lone surrogates, far too long: repaired and committed.
        for message in ["a\\u0000b", "lone \\ud800 surrogate", "\\u202ertl", &"x".repeat(100_000)] {
            let lease = api.leased(json!({"maxAttempts": 1})).await;
            let body = format!(
                r#"{{"attempt":1,"workerId":"w1","outcome":"FAILED","error":{{"category":"USER_CODE",
                    "message":"{message}","stackTrace":"{message}"}}}}"#
            );
            let path = format!("/v1/tasks/{}/completed", lease.task);
            let got = api.post_bytes(&path, &lease.token, body).await;
            assert_eq!(got.status, 200, "{got:?}");
            got.has("finalState", "FAILED").has("state", "failed");
            let kept = api.run(&lease.run).await["error"]["message"].as_str().unwrap().to_owned();
            assert!(!kept.contains('\0') && kept.len() <= 4096, "{} bytes", kept.len());
        }
    }
}

#[tokio::test]
async fn payloads_come_back_byte_for_byte() {
    for api in both().await {
        // X24: all legal JSON text is kept, in the client's spelling.
        let input = r#"{"b":1.00,"a":[ 1e2 , "\u00e9 \ud83d\ude00 \u202e" ],"":""}"#;
        let body = format!(r#"{{"kind":"k","queue":"q","input":{input}}}"#);
        api.post_bytes("/v1/runs", &api.key, body).await.ok();
        let poll = r#"{"workerId":"w1","queues":["q"],"max":1}"#;
        let request = api.request("POST", "/v1/leases").bearer_auth(&api.key);
        let request = request.header("content-type", "application/json").body(poll);
        let text = request.send().await.unwrap().text().await.unwrap();
        assert!(text.contains(input), "{text}");
    }
}

#[tokio::test]
async fn filters_are_values_and_never_code() {
    for api in both().await {
        // X28: quotes, wildcards and injected clauses match nothing and break nothing.
        api.submit(json!({"labels": {"team": "a"}})).await;
        for label in ["team=%25", "team=a'%20OR%20'1'='1", "team=_", "team=a%22--"] {
            let list = api.get(&format!("/v1/runs?label={label}")).await.ok();
            assert_eq!(list["runs"], json!([]), "{label}");
        }
        for query in [
            "queue=q'--",
            "kind=%00",
            "state=everything",
            "limit=0",
            "limit=x",
            "sort=id",
            "cursor=x",
        ] {
            api.get(&format!("/v1/runs?{query}")).await.problem(400, "invalid_argument");
        }
        assert_eq!(
            api.get("/v1/runs?label=team=a").await.ok()["runs"].as_array().unwrap().len(),
            1
        );
    }
}
