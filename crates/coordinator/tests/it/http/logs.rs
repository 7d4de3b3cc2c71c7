//! Lines that workers log with their calls: kept with the attempt, bounded, and only from the holder of the lease.

use serde_json::{Value, json};

use super::test_server::{Lease, Response, TestServer, both, seconds};

impl TestServer {
    async fn beat_with(&self, lease: &Lease, log: Value) -> Response {
        self.call(lease, "heartbeat", lease.said(json!({"log": log}))).await
    }

    async fn lines(&self, run: &str) -> Vec<Value> {
        let path = format!("/v1/runs/{run}/logs?limit=1000");
        self.get(&path).await.ok()["lines"].as_array().unwrap().clone()
    }

    async fn texts(&self, run: &str) -> Vec<String> {
        let lines = self.lines(run).await;
        lines.iter().map(|line| line["text"].as_str().unwrap().to_owned()).collect()
    }
}

fn line(text: &str) -> Value {
    json!({"text": text})
}

fn numbered(n: u64, text: &str) -> Value {
    json!({"n": n, "text": text})
}

#[tokio::test]
async fn lines_come_with_heartbeats_checkpoints_and_reports_and_are_kept_with_the_attempt() {
    for api in both().await {
        let lease = api.leased(json!({"maxAttempts": 2, "retry": {"baseMs": 0}})).await;
        assert_eq!(api.lines(&lease.run).await, Vec::<Value>::new());
        let at = "2026-01-02T03:04:05.678Z";
        let first = json!([{"at": at, "level": "warn", "text": "by heartbeat"}]);
        api.beat_with(&lease, first).await.ok();
        let step = json!({"key": "a#1", "outcome": "SUCCEEDED", "result": 1});
        let call = lease.said(json!({"steps": [step], "log": [line("by checkpoint")]}));
        api.call(&lease, "checkpoints", call).await.ok();
        let error = json!({"category": "USER_CODE", "message": "no"});
        let report = json!({"outcome": "FAILED", "error": error, "log": [line("by report")]});
        api.complete(&lease, report).await.ok();
        let again = api.lease("w2").await.by("w2");
        api.complete(&again, json!({"outcome": "SUCCEEDED", "log": [line("second")]})).await.ok();
        let lines = api.lines(&lease.run).await;
        let brief =
            |line: &Value| (line["attempt"].clone(), line["n"].clone(), line["text"].clone());
        assert_eq!(
            lines.iter().map(brief).collect::<Vec<_>>(),
            [
                (json!(1), json!(1), json!("by heartbeat")),
                (json!(1), json!(2), json!("by checkpoint")),
                (json!(1), json!(3), json!("by report")),
                (json!(2), json!(1), json!("second")),
            ]
        );
        assert_eq!((&lines[0]["at"], &lines[0]["level"]), (&json!(at), &json!("warn")));
        assert_eq!(lines[1]["level"], "info");
    }
}

#[tokio::test]
async fn batches_of_calls_carry_lines_too() {
    for api in both().await {
        let lease = api.leased(json!({})).await;
        let item = |more: Value| {
            let mut item = lease.said(more);
            item["taskId"] = lease.envelope["taskId"].clone();
            item["taskToken"] = lease.envelope["taskToken"].clone();
            item
        };
        let beats = json!({"heartbeats": [item(json!({"log": [line("one")]}))]});
        api.post("/v1/heartbeats", &api.worker_key, beats).await.ok();
        let calls = json!({"checkpoints": [item(json!({"log": [line("two")]}))]});
        api.post("/v1/checkpoints", &api.worker_key, calls).await.ok();
        let done = item(json!({"outcome": "SUCCEEDED", "log": [line("three")]}));
        api.post("/v1/reports", &api.worker_key, json!({"reports": [done]})).await.ok();
        assert_eq!(api.texts(&lease.run).await, ["one", "two", "three"]);
    }
}

#[tokio::test]
async fn only_the_holder_of_the_lease_adds_lines_and_a_repeated_call_adds_nothing() {
    for api in both().await {
        let lease = api.leased(json!({"leaseMs": 10_000, "retry": {"baseMs": 0}})).await;
        for _ in 0..2 {
            api.beat_with(&lease, json!([numbered(1, "one"), numbered(2, "two")])).await.ok();
        }
        api.beat_with(&lease.clone().by("thief"), json!([line("stolen")])).await;
        api.pass(seconds(11)).await;
        let late = api.beat_with(&lease, json!([line("late")])).await;
        assert!(late.status == 409 || late.status == 410, "{late:?}");
        let again = api.lease("w2").await.by("w2");
        api.beat_with(&lease, json!([line("late")])).await;
        let report = json!({"outcome": "SUCCEEDED", "log": [line("late report")]});
        assert!(api.complete(&lease, report).await.status >= 400);
        let report = json!({"outcome": "SUCCEEDED", "log": [numbered(1, "end")]});
        api.complete(&again, report.clone()).await.ok();
        // S3-51: the same report once more, and with other lines, is answered as before.
        api.complete(&again, report).await.ok();
        let other = json!({"outcome": "SUCCEEDED", "log": [line("after the end")]});
        api.complete(&again, other).await.ok();
        assert_eq!(api.texts(&lease.run).await, ["one", "two", "end"]);
    }
}

#[tokio::test]
async fn other_tenants_and_workers_cannot_read_them() {
    for api in both().await {
        let lease = api.leased(json!({})).await;
        api.beat_with(&lease, json!([line("secret")])).await.ok();
        let path = format!("/v1/runs/{}/logs", lease.run);
        api.get_as(&path, &api.foreign_key).await.problem(404, "run_not_found");
        assert_eq!(api.get_as(&path, &api.worker_key).await.status, 403);
        api.get("/v1/runs/run_00000000000000000000000000/logs").await.problem(404, "run_not_found");
    }
}

#[tokio::test]
async fn what_a_worker_sends_is_bounded_and_repaired_and_never_costs_the_work() {
    for api in both().await {
        let lease = api.leased(json!({})).await;
        let nul = json!([line("a\0b"), line(&"é".repeat(20_000)), line("\u{1b}[31mred")]);
        api.beat_with(&lease, nul).await.ok();
        let texts = api.texts(&lease.run).await;
        assert_eq!(texts, ["a\u{fffd}b".to_owned(), "é".repeat(2_048), "\u{1b}[31mred".to_owned()]);
        // Ten thousand lines, and a line of a megabyte.
        let many: Vec<Value> = (0..10_000).map(|_| line("x")).collect();
        let call = lease.said(json!({"log": many}));
        api.call(&lease, "checkpoints", call).await.ok();
        let big = lease.said(json!({"log": [line(&"y".repeat(1_000_000))]}));
        api.call(&lease, "checkpoints", big).await.ok();
        let mut lines = api.lines(&lease.run).await;
        assert_eq!(lines.len(), 1_000, "a page");
        let last = format!("1.{}", lines.last().unwrap()["n"]);
        let path = format!("/v1/runs/{}/logs?limit=1000&after={last}", lease.run);
        let rest = api.get(&path).await.ok();
        assert_eq!(rest.get("nextAfter"), None, "{rest}");
        lines.extend(rest["lines"].as_array().unwrap().iter().cloned());
        assert_eq!(lines.len(), 3 + 1_000 + 1);
        let dropped: u64 = lines.iter().filter_map(|line| line["dropped"].as_u64()).sum();
        assert_eq!(dropped, 9_000);
        assert_eq!(lines.last().unwrap()["n"], 3 + 10_000 + 1);
        for (log, field) in [
            (json!([{"text": "x", "level": "loud"}]), "log[0].level"),
            (json!([numbered(2, "x"), numbered(1, "y")]), "log[1].n"),
            (json!([{"text": "x", "n": 0}]), "log[0].n"),
        ] {
            let refused = api.beat_with(&lease, log).await;
            refused.problem(400, "invalid_argument").has("field", field);
        }
        for after in ["x", "1", "1.x", "-1.2"] {
            let path = format!("/v1/runs/{}/logs?after={after}", lease.run);
            api.get(&path).await.problem(400, "invalid_argument").has("field", "after");
        }
        api.succeed(&lease).await.has("state", "succeeded");
    }
}

#[tokio::test]
async fn an_attempt_keeps_its_newest_64_kibibytes_and_pages_have_a_bound() {
    for api in both().await {
        let lease = api.leased(json!({})).await;
        for n in 1..=40 {
            let text = format!("{n:04}{}", "x".repeat(3_996));
            api.beat_with(&lease, json!([numbered(n, &text)])).await.ok();
        }
        let (mut seen, mut after, mut dropped) = (Vec::new(), String::new(), 0);
        loop {
            let path = format!("/v1/runs/{}/logs?limit=5{after}", lease.run);
            let page = api.get(&path).await.ok();
            let lines = page["lines"].as_array().unwrap().clone();
            assert!(lines.len() <= 5);
            seen.extend(lines.iter().map(|line| line["n"].as_u64().unwrap()));
            dropped += lines.iter().filter_map(|line| line["dropped"].as_u64()).sum::<u64>();
            let Some(next) = page["nextAfter"].as_str() else { break };
            after = format!("&after={next}");
        }
        assert_eq!(seen.last(), Some(&40));
        assert!(seen.is_sorted() && (13..=16).contains(&seen.len()), "{seen:?}");
        assert_eq!(dropped + seen.len() as u64, 40);
    }
}

#[tokio::test]
async fn no_digest_covers_them() {
    for api in both().await {
        let record = async |log: Value| {
            let lease = api.leased(json!({})).await;
            api.complete(&lease, json!({"outcome": "SUCCEEDED", "log": log})).await.ok();
            let record = api.get(&format!("/v1/runs/{}/record", lease.run)).await.ok();
            record["attempts"][0]["reportDigest"].clone()
        };
        let (with, without) = (record(json!([line("x")])).await, record(json!([])).await);
        assert_eq!(with, without);
    }
}
