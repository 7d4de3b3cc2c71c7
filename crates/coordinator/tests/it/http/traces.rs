//! The trace of a submission is passed with the task to its worker, and never causes a refusal.

use serde_json::{Value, json};

use super::test_server::{Response, TestServer, both, run};

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const OTHER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

async fn submit(api: &TestServer, headers: &[(&str, &str)], body: Value) -> Response {
    let request = api.request("POST", "/v1/runs").bearer_auth(&api.key).json(&body);
    let request =
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    api.send(request).await
}

/// The envelope that the worker of the next task gets.
async fn handed(api: &TestServer) -> Value {
    let lease = api.lease("w").await;
    lease.envelope.get("traceparent").cloned().unwrap_or(Value::Null)
}

#[tokio::test]
async fn a_trace_reaches_the_worker_from_the_body_or_the_header() {
    // The envelope that a worker gets carries the trace header.
    for api in both().await {
        submit(&api, &[("traceparent", TRACE)], run(json!({}))).await.ok();
        assert_eq!(handed(&api).await, TRACE);
        submit(&api, &[("traceparent", TRACE)], run(json!({"traceparent": OTHER}))).await.ok();
        assert_eq!(handed(&api).await, OTHER, "a run's own word is the nearer one");
        let batch = json!({"runs": [run(json!({})), run(json!({"traceparent": OTHER}))]});
        submit(&api, &[("traceparent", TRACE)], batch).await.ok();
        let leases = api.poll("w").await;
        let handed = leases.iter().map(|lease| lease.envelope["traceparent"].as_str());
        assert_eq!(handed.collect::<Vec<_>>(), [Some(TRACE), Some(OTHER)]);
    }
}

#[tokio::test]
async fn a_trace_that_is_not_valid_is_ignored() {
    let zeros = TRACE.replace("b7ad6b7169203331", "0000000000000000");
    for api in both().await {
        for invalid in ["nonsense", "", &zeros, &TRACE.to_uppercase(), &format!("{TRACE}-x")] {
            let headers = [("traceparent", invalid)];
            let got = submit(&api, &headers, run(json!({"traceparent": invalid}))).await;
            assert_eq!(got.status, 201, "{invalid}: {}", got.body);
            assert_eq!(handed(&api).await, Value::Null, "{invalid}");
        }
        let twice = [("traceparent", TRACE), ("traceparent", OTHER)];
        assert_eq!(submit(&api, &twice, run(json!({}))).await.status, 201);
        assert_eq!(handed(&api).await, Value::Null, "which of the two is meant cannot be known");
        submit(&api, &[("traceparent", TRACE)], run(json!({"traceparent": "x"}))).await.ok();
        assert_eq!(handed(&api).await, TRACE);
    }
}

#[tokio::test]
async fn a_retry_from_another_span_finds_its_run() {
    // the same submission under the same key; its trace is no part of it.
    for api in both().await {
        let keyed = |trace| [("idempotency-key", "k"), ("traceparent", trace)];
        let first = submit(&api, &keyed(TRACE), run(json!({"input": 1}))).await;
        assert_eq!(first.status, 201);
        for (trace, body) in [
            (OTHER, json!({"input": 1})),
            ("nonsense", json!({"input": 1})),
            (TRACE, json!({"input": 1, "traceparent": OTHER})),
        ] {
            let again = submit(&api, &keyed(trace), run(body)).await;
            assert_eq!(again.status, 200, "{}", again.body);
            again.has("runId", first.text("runId")).has("replayed", true);
        }
        let other = submit(&api, &keyed(TRACE), run(json!({"input": 2}))).await;
        other.problem(422, "idempotency_key_reused");
        assert_eq!(handed(&api).await, TRACE, "the first submission's trace stays");
    }
}

#[tokio::test]
async fn the_trace_of_the_work_comes_back_with_the_report_and_counts_for_nothing() {
    // the trace is no part of what a report is compared by.
    for api in both().await {
        let lease = api.leased(json!({"traceparent": TRACE})).await;
        let said = |trace: &str| json!({"outcome": "SUCCEEDED", "output": 1, "traceparent": trace});
        api.complete(&lease, said(OTHER)).await.ok();
        let again = api.complete(&lease, said(TRACE)).await;
        again.has("verdict", "COMMITTED").has("replayed", true);
        let record = api.get(&format!("/v1/runs/{}/record", lease.run)).await.ok();
        assert_eq!(record["attempts"][0]["claims"]["traceparent"], OTHER, "{record}");

        // In a batch, too; and an invalid one is ignored.
        let lease = api.leased(json!({})).await;
        let mut report = lease.said(said("nonsense"));
        report["taskId"] = json!(lease.task);
        report["taskToken"] = json!(lease.token);
        let answers = api.post("/v1/reports", &api.key, json!({"reports": [report]})).await.ok();
        assert_eq!(answers["answers"][0]["verdict"], "COMMITTED", "{answers}");
        let record = api.get(&format!("/v1/runs/{}/record", lease.run)).await.ok();
        assert_eq!(record["attempts"][0]["claims"], json!({}), "{record}");
    }
}
