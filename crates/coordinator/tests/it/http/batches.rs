//! Many reports or heartbeats in one call: each is decided as if it had come alone.

use serde_json::{Value, json};

use super::test_server::{Lease, both, merged};

fn item(lease: &Lease, more: Value) -> Value {
    merged(lease.said(json!({"taskId": lease.task, "taskToken": lease.token})), more)
}

#[tokio::test]
async fn one_bad_report_does_not_spoil_the_rest() {
    for api in both().await {
        // S3-11: every item has exactly one answer, in order.
        let good = api.leased(json!({})).await;
        let other = api.leased(json!({})).await;
        let ok = json!({"outcome": "SUCCEEDED", "output": 1});
        let foreign = Lease { token: good.token.clone(), ..other.clone() };
        let reports = json!({"reports": [
            item(&good, ok.clone()),
            item(&other, json!({"outcome": "FAILED", "error": {"category": "WRONG", "message": ""}})),
            item(&other.clone().by("w9"), ok.clone()),
            item(&foreign, ok.clone()),
            item(&good, ok.clone()),
            item(&good, json!({"outcome": "SUCCEEDED", "output": 2})),
            7,
            item(&other, ok.clone()),
        ]});
        let got = api.post("/v1/reports", &api.worker_key, reports).await;
        assert_eq!(got.status, 200);
        got.text("serverTime");
        let answers = got.body["answers"].as_array().unwrap();
        let rows: Vec<_> = answers
            .iter()
            .map(|answer| {
                let text = |member: &str| answer[member].as_str().unwrap_or("").to_owned();
                (answer["status"].as_u64().unwrap(), text("error"), text("verdict"))
            })
            .collect();
        let row =
            |status, error: &str, verdict: &str| (status, error.to_owned(), verdict.to_owned());
        let expected = [
            row(200, "", "COMMITTED"),
            row(400, "invalid_argument", "REJECTED"),
            row(409, "worker_mismatch", "REJECTED"),
            row(401, "invalid_token", "REJECTED"),
            row(200, "", "COMMITTED"),
            row(409, "conflicting_report", "REJECTED"),
            row(400, "invalid_argument", "REJECTED"),
            row(200, "", "COMMITTED"),
        ];
        assert_eq!(rows, expected);
        // the repeated one gets the stored answer.
        assert_eq!(
            (&answers[0]["replayed"], &answers[4]["replayed"]),
            (&json!(false), &json!(true))
        );
        assert_eq!(answers[1]["field"], "reports[1].error.category");
        assert_eq!(answers[0]["taskId"], good.task.as_str());
        assert_eq!(api.run(&good.run).await["output"], json!(1));
        assert_eq!(api.state(&other.run).await, "succeeded");
    }
}

#[tokio::test]
async fn heartbeats_come_in_batches_too() {
    for api in both().await {
        let alive = api.leased(json!({})).await;
        let asked = api.leased(json!({})).await;
        let ended = api.leased(json!({})).await;
        api.cancel(&asked.run, json!({"reason": "enough"})).await.ok();
        api.succeed(&ended).await.ok();
        let forged = Lease { token: "x".into(), ..alive.clone() };
        let beats = json!({"heartbeats": [
            item(&alive, json!({"progressPct": 10})),
            item(&asked, json!({})),
            item(&ended, json!({})),
            item(&forged, json!({})),
            item(&alive, json!({"progressPct": 101})),
        ]});
        let got = api.post("/v1/heartbeats", &api.worker_key, beats).await;
        assert_eq!(got.status, 200);
        let answers = got.body["answers"].as_array().unwrap();
        assert_eq!(
            (&answers[0]["status"], &answers[0]["shouldCancel"]),
            (&json!(200), &json!(false))
        );
        assert!(answers[0]["leaseExpiresAt"].is_string());
        assert_eq!(
            (&answers[1]["shouldCancel"], &answers[1]["cancelReason"]),
            (&json!(true), &json!("enough"))
        );
        assert_eq!(
            (&answers[2]["status"], &answers[2]["error"]),
            (&json!(410), &json!("task_expired"))
        );
        assert_eq!(answers[2]["verdict"], "CANCELLED");
        assert_eq!(
            (&answers[3]["status"], &answers[3]["error"]),
            (&json!(401), &json!("invalid_token"))
        );
        assert_eq!(
            (&answers[4]["status"], &answers[4]["verdict"]),
            (&json!(400), &json!("REJECTED"))
        );
    }
}

#[tokio::test]
async fn starts_come_in_batches_too() {
    for api in both().await {
        // a repeated start is acknowledged, one of another worker is refused. S4-50: a cancel that
        // came before the start ends the task.
        let begun = api.leased(json!({})).await;
        let cancelled = api.leased(json!({})).await;
        let ended = api.leased(json!({})).await;
        api.cancel(&cancelled.run, json!({"reason": "enough"})).await.ok();
        api.succeed(&ended).await.ok();
        let forged = Lease { token: "x".into(), ..begun.clone() };
        let starts = json!({"starts": [
            item(&begun, json!({})),
            item(&begun, json!({})),
            item(&begun, json!({"workerId": "another"})),
            item(&cancelled, json!({})),
            item(&ended, json!({})),
            item(&forged, json!({})),
            item(&begun, json!({"attempt": 0})),
        ]});
        let got = api.post("/v1/starts", &api.worker_key, starts).await.ok();
        let answers = got["answers"].as_array().unwrap();
        let said: Vec<_> = answers
            .iter()
            .map(|answer| (answer["status"].as_u64().unwrap(), answer["verdict"].as_str().unwrap()))
            .collect();
        let expected = [
            (200, "COMMITTED"),
            (200, "COMMITTED"),
            (409, "REJECTED"),
            (409, "CANCELLED"),
            (409, "CANCELLED"),
            (401, "REJECTED"),
            (400, "REJECTED"),
        ];
        assert_eq!(said, expected);
        assert_eq!(answers[6]["field"], "starts[6].attempt");
        let run = api.run(&begun.run).await;
        assert!(run["startedAt"].is_string(), "{run}");
        assert_eq!(api.state(&cancelled.run).await, "cancelled");
        assert_eq!(api.state(&ended.run).await, "succeeded");
    }
}

#[tokio::test]
async fn a_batch_that_cannot_be_taken_apart_is_refused_as_a_whole() {
    for api in both().await {
        for body in
            ["{}", "[]", "{\"reports\":[]}", "{\"reports\":7}", "{\"reports\":[{}", "{\"x\":[]}"]
        {
            api.post_bytes("/v1/reports", &api.key, body).await.problem(400, "invalid_argument");
        }
        let many = format!("{{\"reports\":[{}1]}}", "1,".repeat(1000));
        let got = api.post_bytes("/v1/reports", &api.key, many).await;
        got.problem(400, "invalid_argument").has("field", "reports");
    }
}

#[tokio::test]
async fn a_key_of_another_tenant_cannot_carry_a_stolen_token() {
    for api in both().await {
        // X05: key and token must agree on the scope.
        let lease = api.leased(json!({})).await;
        let reports = json!({"reports": [item(&lease, json!({"outcome": "SUCCEEDED"}))]});
        let got = api.post("/v1/reports", &api.foreign_key, reports).await;
        assert_eq!(got.body["answers"][0]["error"], "invalid_token");
        assert_eq!(api.state(&lease.run).await, "running");
    }
}
