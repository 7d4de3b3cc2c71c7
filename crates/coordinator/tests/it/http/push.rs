//! Work that is pushed to an endpoint, over real sockets, on both engines: the same leases, the same envelope.

mod database;

use std::time::Duration;

use serde_json::{Value, json};
use webhook::{PushVerifier, RecentIds, Secret, Seen, VerifyError};

use super::test_server::{TestServer, both, merged, seconds};
use super::webhooks::receiver::{Answer, Delivery, GONE, HANGS, OK, Receiver};

/// Between two looks at something that another task does.
const LOOK: Duration = Duration::from_millis(20);

/// More looks than a slow machine needs.
const LOOKS_MAX: usize = 3_000;

/// A function that answers while the request lives.
const DONE: Answer = Answer::Text(
    "HTTP/1.1 200 OK\r\ncontent-length: 45\r\n\r\n{\"outcome\":\"SUCCEEDED\",\"output\":{\"rows\":7.0}}",
);
const BUSY: Answer =
    Answer::Text("HTTP/1.1 503 Busy\r\nretry-after: 30\r\ncontent-length: 0\r\n\r\n");
const BROKEN: Answer = Answer::Text("HTTP/1.1 500 Broken\r\ncontent-length: 4\r\n\r\noops");
const NONSENSE: Answer =
    Answer::Text("HTTP/1.1 200 OK\r\ncontent-length: 18\r\n\r\n{\"outcome\":\"FINE\"}");

impl TestServer {
    async fn push_endpoint(&self, url: &str, more: Value) -> String {
        let body = merged(json!({"name": "fn", "url": url, "queues": ["q"]}), more);
        let made = self.post("/v1/endpoints", &self.admin_key, body).await.ok();
        assert_eq!(made["endpoint"]["queues"], json!(["q"]));
        made["secret"].as_str().unwrap().to_owned()
    }

    async fn ends(&self, run: &str, state: &str) -> Value {
        for _ in 0..LOOKS_MAX {
            let shown = self.run(run).await;
            if shown["state"] == state {
                return shown;
            }
            tokio::time::sleep(LOOK).await;
        }
        panic!("{run} is not {state}: {}", self.run(run).await);
    }
}

fn envelope(push: &Delivery) -> Value {
    serde_json::from_str(&push.body).unwrap()
}

fn judged(push: &Delivery, secret: &str, url: &str) -> Result<(), VerifyError> {
    let header = |name: &str| push.header(name).to_owned();
    let (id, time) = (header("webhook-id"), header("webhook-timestamp"));
    let (signature, token) = (header("webhook-signature"), header("tenure-push-token"));
    let verifier = PushVerifier::new(Secret::parse(secret).unwrap(), url);
    let headers = (id.as_str(), time.as_str(), signature.as_str(), token.as_str());
    verifier.verify(headers, push.body.as_bytes(), time.parse().unwrap())
}

#[tokio::test]
async fn a_function_that_lives_for_one_request_gets_the_envelope_and_answers_with_its_report() {
    // S4-73, R-23: one lease mechanism, two deliveries of the same envelope; signed, and bound to its URL.
    for api in both().await {
        let mut receiver = Receiver::start().await;
        receiver.answers(&[DONE]);
        let secret = api.push_endpoint(&receiver.url, json!({})).await;
        let run = api.submit(json!({"input": {"n": 1}})).await;
        let push = receiver.next().await;
        assert_eq!(judged(&push, &secret, &receiver.url), Ok(()));
        let elsewhere = judged(&push, &secret, "https://example.com/other");
        assert_eq!(elsewhere, Err(VerifyError::Audience));
        let sent = envelope(&push);
        assert_eq!((&sent["runId"], &sent["attempt"]), (&json!(run), &json!(1)));
        assert_eq!((&sent["input"], &sent["queue"]), (&json!({"n": 1}), &json!("q")));
        for member in ["taskToken", "callbackBaseUrl", "leaseExpiresAt", "fence", "leaseId"] {
            assert!(!sent[member].is_null(), "{member}");
        }
        let ended = api.ends(&run, "succeeded").await;
        assert_eq!(ended["output"], json!({"rows": 7.0}));
        let record = api.get(&format!("/v1/runs/{run}/record")).await.ok().to_string();
        assert!(record.contains(r#""owner":"push:fn""#), "{record}");
        receiver.assert_quiet();
        // Two copies of one attempt have one id, and the receiver drops the second.
        let mut recent = RecentIds::default();
        assert_eq!(recent.note(push.id(), 0), Seen::First);
        assert_eq!(recent.note(push.id(), 1), Seen::Repeated);
        assert!(push.id().contains(sent["taskId"].as_str().unwrap()) && push.id().ends_with("_1"));
    }
}

#[tokio::test]
async fn a_worker_that_acknowledges_calls_back_with_its_token() {
    // R-23: the first lease period is for the acknowledgement, and the start begins the normal lease.
    for api in both().await {
        let mut receiver = Receiver::start().await;
        receiver.answers(&[OK]);
        api.push_endpoint(&receiver.url, json!({})).await;
        let run = api.submit(json!({"leaseMs": 4000, "heartbeatIntervalMs": 1000})).await;
        let sent = envelope(&receiver.next().await);
        let (task, token) = (sent["taskId"].as_str().unwrap(), sent["taskToken"].as_str().unwrap());
        for _ in 0..LOOKS_MAX {
            let history = api.get(&format!("/v1/runs/{run}/history")).await.ok().to_string();
            if history.contains("started") {
                break;
            }
            tokio::time::sleep(LOOK).await;
        }
        let said = json!({"attempt": 1, "workerId": "push:fn"});
        api.pass(seconds(3)).await;
        api.post(&format!("/v1/tasks/{task}/heartbeat"), token, said.clone()).await.ok();
        api.pass(seconds(3)).await;
        let report = merged(said, json!({"outcome": "SUCCEEDED", "output": 1}));
        let done = api.post(&format!("/v1/tasks/{task}/completed"), token, report).await;
        done.has("state", "succeeded");
        assert_eq!(api.ends(&run, "succeeded").await["output"], 1);
        receiver.assert_quiet();
    }
}

#[tokio::test]
async fn a_push_without_an_answer_runs_out_with_its_lease_and_the_old_token_is_refused() {
    // R-23: the first lease period is the acknowledgement timeout, and then it is another attempt.
    for api in both().await {
        let mut receiver = Receiver::start().await;
        receiver.answers(&[HANGS, DONE]);
        api.push_endpoint(&receiver.url, json!({})).await;
        let run = api.submit(json!({"leaseMs": 2000, "heartbeatIntervalMs": 500})).await;
        let first = envelope(&receiver.next().await);
        for _ in 0..40 {
            api.pass(seconds(3)).await;
            tokio::time::sleep(LOOK).await;
        }
        let second = envelope(&receiver.next().await);
        assert_eq!(second["attempt"], 2);
        api.ends(&run, "succeeded").await;
        let late = json!({"attempt": 1, "workerId": "push:fn", "outcome": "SUCCEEDED"});
        let path = format!("/v1/tasks/{}/completed", first["taskId"].as_str().unwrap());
        let late = api.post(&path, first["taskToken"].as_str().unwrap(), late).await;
        assert!(late.status == 409 || late.status == 410, "{:?}", late.body);
    }
}

#[tokio::test]
async fn a_busy_endpoint_is_left_alone_for_as_long_as_it_asks() {
    // 429 and 503 cost the task nothing but time.
    for api in both().await {
        let mut receiver = Receiver::start().await;
        receiver.answers(&[BUSY, DONE]);
        api.push_endpoint(&receiver.url, json!({})).await;
        let run = api.submit(json!({"maxAttempts": 1})).await;
        receiver.next().await;
        api.ends(&run, "retry").await;
        api.pass(seconds(20)).await;
        receiver.assert_quiet();
        api.pass(seconds(15)).await;
        receiver.next().await;
        let ended = api.ends(&run, "succeeded").await;
        assert_eq!(ended["failures"].as_u64().unwrap_or(0), 0, "{ended}");
    }
}

#[tokio::test]
async fn other_answers_are_failures_of_the_attempt_and_gone_disables_the_endpoint() {
    for api in both().await {
        let mut receiver = Receiver::start().await;
        receiver.answers(&[BROKEN, NONSENSE, GONE]);
        api.push_endpoint(&receiver.url, json!({})).await;
        let run = api.submit(json!({"maxAttempts": 1})).await;
        receiver.next().await;
        let failed = api.ends(&run, "failed").await;
        assert!(failed["error"]["message"].as_str().unwrap().contains("500: oops"), "{failed}");
        api.pass(seconds(5)).await;
        let run = api.submit(json!({"maxAttempts": 1})).await;
        receiver.next().await;
        let failed = api.ends(&run, "failed").await;
        assert!(failed["error"]["message"].as_str().unwrap().contains("no report"), "{failed}");
        api.pass(seconds(5)).await;
        let run = api.submit(json!({})).await;
        receiver.next().await;
        api.ends(&run, "retry").await;
        for _ in 0..LOOKS_MAX {
            let shown = api.get_as("/v1/endpoints/fn", &api.admin_key).await.ok();
            if shown["state"] == "disabled" {
                assert!(shown["disabledBecause"].as_str().unwrap().contains("410"));
                break;
            }
            tokio::time::sleep(LOOK).await;
        }
        api.pass(seconds(300)).await;
        receiver.assert_quiet();
        // A worker that polls gets what was handed back.
        assert_eq!(api.poll("w1").await.len(), 1);
    }
}

#[tokio::test]
async fn an_endpoint_holds_no_more_work_than_its_concurrency_and_a_disabled_one_none() {
    for api in both().await {
        let mut receiver = Receiver::start().await;
        receiver.answers(&[OK, OK, OK]);
        api.push_endpoint(&receiver.url, json!({"concurrency": 2})).await;
        for _ in 0..3 {
            api.submit(json!({"leaseMs": 600_000})).await;
        }
        let first = envelope(&receiver.next().await);
        receiver.next().await;
        receiver.assert_quiet();
        let (task, token) =
            (first["taskId"].as_str().unwrap(), first["taskToken"].as_str().unwrap());
        let report = json!({"attempt": 1, "workerId": "push:fn", "outcome": "SUCCEEDED"});
        api.post(&format!("/v1/tasks/{task}/completed"), token, report).await.ok();
        receiver.next().await;
        api.post("/v1/endpoints/fn", &api.admin_key, json!({"enabled": false})).await.ok();
        // A poll that has begun ends first, and hands back what it gets.
        let run = api.submit(json!({})).await;
        for _ in 0..20 {
            tokio::time::sleep(LOOK).await;
        }
        receiver.assert_quiet();
        assert_ne!(api.state(&run).await, "succeeded");
    }
}
