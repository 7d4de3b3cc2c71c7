//! Tokens that do not fit the call they come with.

use coordinator::admit::{TokenScope, token};
use serde_json::json;
use store::Store as _;
use store::clock::Clock as _;
use verdict::{LeaseId, Scope, Span, TaskId};

use super::test_server::{Lease, TestServer, both, seconds};

/// The scope of the server's own token for a lease.
fn scope_of(lease: &Lease) -> TokenScope {
    let text = |member: &str| lease.envelope[member].as_str().unwrap();
    TokenScope {
        scope: Scope::default(),
        task: TaskId::parse(text("taskId")).unwrap(),
        attempt: lease.attempt() as u32,
        lease: LeaseId::parse(text("leaseId")).unwrap(),
        epoch: (lease.envelope["fence"].as_u64().unwrap() >> 32) as u32,
        key: None,
        until: None,
    }
}

/// A token that the coordinator itself would have signed.
fn signed(api: &TestServer, scope: &TokenScope) -> String {
    let now = storetest::MemoryStore::new(api.clock.clone()).now();
    assert_eq!(now, api.clock.wall());
    token::issue(&api.keyring, scope, token::LIFETIME_DEFAULT, now).token
}

#[tokio::test]
async fn a_token_is_good_for_its_task_and_attempt_only() {
    for api in both().await {
        // S4-6, S4-7, S4-11, X05: path, body and token must name the same task and attempt.
        let mine = api.leased(json!({})).await;
        let other = api.leased(json!({})).await;
        let before = (api.run(&mine.run).await, api.run(&other.run).await);
        for call in ["started", "heartbeat", "completed"] {
            let body = mine.said(if call == "completed" {
                json!({"outcome": "SUCCEEDED"})
            } else {
                json!({})
            });
            let path = |task: &str| format!("/v1/tasks/{task}/{call}");
            let swapped = api.post(&path(&mine.task), &other.token, body.clone()).await;
            swapped.problem(401, "invalid_token").has("verdict", "REJECTED");
            let run_spelling = api.post(&path(&mine.run), &mine.token, body.clone()).await;
            run_spelling.problem(401, "invalid_token").has("verdict", "REJECTED");
            let mut later = body.clone();
            later["attempt"] = json!(2);
            let got = api.post(&path(&mine.task), &mine.token, later).await;
            got.problem(401, "invalid_token").has("verdict", "REJECTED");
            let api_key = api.post(&path(&mine.task), &api.key, body.clone()).await;
            api_key.problem(401, "invalid_token").has("verdict", "REJECTED");
            let nobody = api.send(api.request("POST", &path(&mine.task)).json(&body)).await;
            nobody.problem(401, "invalid_token").has("verdict", "REJECTED");
        }
        assert_eq!((api.run(&mine.run).await, api.run(&other.run).await), before);
    }
}

#[tokio::test]
async fn every_flipped_bit_of_a_token_is_refused() {
    for api in both().await {
        // X06: over the wire too; one per byte here, every bit in the verifier's own test.
        let lease = api.leased(json!({})).await;
        let before = api.run(&lease.run).await;
        for at in 0..lease.token.len() {
            let mut bytes = lease.token.clone().into_bytes();
            bytes[at] ^= 1;
            let text = String::from_utf8(bytes).unwrap();
            if text.bytes().all(|byte| byte.is_ascii_graphic()) {
                let forged = Lease { token: text, ..lease.clone() };
                api.heartbeat(&forged).await.problem(401, "invalid_token");
            }
        }
        assert_eq!(api.run(&lease.run).await, before);
    }
}

#[tokio::test]
async fn unsigned_and_odd_tokens_are_refused() {
    for api in both().await {
        // X01, X02, X03: other algorithms, no token at all, a megabyte of it.
        let lease = api.leased(json!({})).await;
        let payload = lease.token.split('.').nth(1).unwrap();
        let forgeries = [
            // {"alg":"none"}, {"alg":"None","typ":"task+jwt"}, {"alg":"HS256","kid":"../x"}
            format!("eyJhbGciOiJub25lIn0.{payload}."),
            format!("eyJhbGciOiJOb25lIiwidHlwIjoidGFzaytqd3QifQ.{payload}."),
            format!("eyJhbGciOiJIUzI1NiIsImtpZCI6Ii4uL3gifQ.{payload}.AAAA"),
            "garbage".to_owned(),
            "..".to_owned(),
            "x".repeat(5000),
            format!("{}=", lease.token),
        ];
        for token in forgeries {
            let forged = Lease { token, ..lease.clone() };
            let got = api.succeed(&forged).await;
            got.problem(401, "invalid_token").has("verdict", "REJECTED");
        }
        assert_eq!(api.state(&lease.run).await, "running");
    }
}

#[tokio::test]
async fn two_authorization_headers_are_none() {
    for api in both().await {
        // X01: two readers might pick different ones.
        let lease = api.leased(json!({})).await;
        let path = format!("/v1/tasks/{}/heartbeat", lease.task);
        let twice = api.request("POST", &path).bearer_auth(&lease.token).bearer_auth(&lease.token);
        api.send(twice.json(&lease.said(json!({})))).await.problem(401, "invalid_token");
        let twice = api.request("GET", "/v1/runs").bearer_auth(&api.key).bearer_auth(&api.key);
        api.send(twice).await.problem(401, "unauthenticated");
    }
}

#[tokio::test]
async fn an_expired_token_says_so() {
    for api in both().await {
        // S4-8: authentic, but expired. The store's clock decides, not the machine's.
        let lease =
            api.leased(json!({"leaseMs": 86_400_000, "heartbeatIntervalMs": 600_000})).await;
        api.clock.advance(seconds(3600));
        let got = api.heartbeat(&lease).await;
        got.problem(401, "token_expired").has("verdict", "REJECTED");
    }
}

#[tokio::test]
async fn a_token_does_not_run_out_while_nobody_could_hear_its_worker() {
    for api in both().await {
        // A8, S4-12: two hours in one jump are a stall. The lease is extended by them, and so is the
        // token, as often as the answer with a fresh one is lost.
        let lease = api.leased(json!({"leaseMs": 60_000})).await;
        api.clock.advance(seconds(7200));
        for _ in 0..2 {
            let ack = api.heartbeat(&lease).await;
            ack.has("verdict", "COMMITTED").text("taskToken");
        }
        let beats = json!({"heartbeats": [{
            "taskId": lease.task, "taskToken": lease.token, "attempt": lease.attempt(),
            "workerId": lease.worker,
        }]});
        let got = api.post("/v1/heartbeats", &api.worker_key, beats).await.ok();
        assert_eq!(got["answers"][0]["verdict"], "COMMITTED", "{got}");
        api.succeed(&lease).await.has("verdict", "COMMITTED").has("replayed", false);
        api.succeed(&lease).await.has("verdict", "COMMITTED").has("replayed", true);
    }
}

#[tokio::test]
async fn a_token_is_given_back_no_more_than_the_outage() {
    for api in both().await {
        // S4-8: for ten minutes no call could be received, so its hour ends ten minutes later. The lease
        // outlives it.
        let lease = api.leased(json!({"leaseMs": 2_000, "heartbeatIntervalMs": 600})).await;
        let long = api.leased(json!({"leaseMs": 86_400_000})).await;
        api.clock.advance(seconds(600));
        api.heartbeat(&lease).await.has("verdict", "COMMITTED");
        api.succeed(&lease).await.has("verdict", "COMMITTED");
        api.clock.advance(seconds(3599));
        api.heartbeat(&long).await.has("verdict", "COMMITTED");
        api.clock.advance(seconds(2));
        api.heartbeat(&long).await.problem(401, "token_expired");
    }
}

#[tokio::test]
async fn heartbeats_bring_a_fresh_token_before_the_old_one_ends() {
    for api in both().await {
        // R-29, S4-12: same scope, later expiry; not before half of its lifetime is over.
        let lease =
            api.leased(json!({"leaseMs": 86_400_000, "heartbeatIntervalMs": 600_000})).await;
        assert!(api.heartbeat(&lease).await.ok().get("taskToken").is_none());
        api.clock.advance(seconds(1801));
        let ack = api.heartbeat(&lease).await;
        let fresh = Lease { token: ack.text("taskToken"), ..lease.clone() };
        ack.text("tokenExpiresAt");
        api.clock.advance(seconds(1800));
        api.heartbeat(&lease).await.problem(401, "token_expired");
        api.succeed(&fresh).await.has("verdict", "COMMITTED");
    }
}

#[tokio::test]
async fn a_deadline_lengthens_the_token_up_to_the_maximum() {
    for api in both().await {
        // S4-9, S4-12, R-29
        let now = api.clock.wall();
        let deadline = wire::Time::from_ms(now.plus(Span::from_secs(100_000)).millis());
        let lease = api.leased(json!({"deadline": deadline})).await;
        let expires: wire::Time =
            lease.envelope["tokenExpiresAt"].as_str().unwrap().parse().unwrap();
        assert_eq!(expires.as_ms(), now.plus(token::LIFETIME_MAX).millis());
        assert_eq!(lease.envelope["deadline"], deadline.to_string());
    }
}

#[tokio::test]
async fn an_unknown_task_is_not_found() {
    for api in both().await {
        // S3-33: an authentic token for a task that the store does not have.
        let lease = api.leased(json!({})).await;
        let absent = TokenScope { task: TaskId::from_u128(7), ..scope_of(&lease) };
        let ghost = Lease { token: signed(&api, &absent), task: absent.task.to_string(), ..lease };
        for got in
            [api.started(&ghost).await, api.heartbeat(&ghost).await, api.succeed(&ghost).await]
        {
            got.problem(404, "task_not_found").has("verdict", "REJECTED");
        }
    }
}

#[tokio::test]
async fn a_foreign_tenants_token_finds_nothing() {
    for api in both().await {
        // X05, X13: the right task id in the wrong tenant is an unknown task.
        let lease = api.leased(json!({})).await;
        let foreign = TokenScope { scope: Scope::new("other", "default"), ..scope_of(&lease) };
        let before = api.run(&lease.run).await;
        let thief = Lease { token: signed(&api, &foreign), ..lease.clone() };
        api.succeed(&thief).await.problem(404, "task_not_found").has("verdict", "REJECTED");
        assert_eq!(api.run(&lease.run).await, before);
    }
}

#[tokio::test]
async fn a_lease_that_was_never_granted_is_unknown() {
    for api in both().await {
        // S3-34, R-8: REJECTED, because it was never true.
        let lease = api.leased(json!({})).await;
        let made_up = TokenScope { lease: LeaseId::from_u128(9), ..scope_of(&lease) };
        let forged = Lease { token: signed(&api, &made_up), ..lease.clone() };
        let before = api.run(&lease.run).await;
        for got in
            [api.started(&forged).await, api.heartbeat(&forged).await, api.succeed(&forged).await]
        {
            got.problem(422, "unknown_lease").has("verdict", "REJECTED");
        }
        // An attempt that was never granted was never true either, although its code is attempt_mismatch.
        let ahead = TokenScope { attempt: 5, ..scope_of(&lease) };
        let mut forged = Lease { token: signed(&api, &ahead), ..lease.clone() };
        forged.envelope["attempt"] = json!(5);
        let got = api.succeed(&forged).await;
        got.problem(409, "attempt_mismatch").has("verdict", "REJECTED").has("expectedAttempt", 1);
        assert_eq!(api.run(&lease.run).await, before);
    }
}

#[tokio::test]
async fn a_lease_of_an_earlier_life_of_the_store_has_no_authority() {
    for api in both().await {
        // S3-24: a lease that this store does not know, from an earlier epoch, is lost rather than false.
        let lease = api.leased(json!({})).await;
        let old = TokenScope { lease: LeaseId::from_u128(9), epoch: 0, ..scope_of(&lease) };
        let forged = Lease { token: signed(&api, &old), ..lease.clone() };
        api.succeed(&forged).await.problem(410, "task_expired").has("verdict", "CANCELLED");
    }
}

/// The largest batch, and how many lookups one tenant may cause at once.
const BATCH: usize = 100;
const LOOKUP_BURST: usize = 2_000;

#[tokio::test]
async fn expired_tokens_are_looked_up_no_more_often_than_a_tenant_may() {
    for api in both().await {
        // Each lookup reads a history, and calls under a lease have no rate: an old token is no lease.
        let lease = api.leased(json!({"leaseMs": 86_400_000})).await;
        let fresh = api.leased(json!({"leaseMs": 86_400_000})).await;
        api.clock.advance(seconds(3601));
        let token = signed(&api, &scope_of(&fresh));
        let fresh = Lease { token, ..fresh };
        let beat = json!({
            "taskId": lease.task, "taskToken": lease.token, "attempt": 1, "workerId": "w1",
        });
        let mut counts = std::collections::BTreeMap::<String, usize>::new();
        for _ in 0..LOOKUP_BURST / BATCH + 1 {
            let beats = json!({"heartbeats": vec![beat.clone(); BATCH]});
            let got = api.post("/v1/heartbeats", &api.worker_key, beats).await.ok();
            for answer in got["answers"].as_array().unwrap() {
                *counts.entry(answer["error"].as_str().unwrap().to_owned()).or_default() += 1;
            }
        }
        let expected = [("token_expired", LOOKUP_BURST), ("too_many_requests", BATCH)];
        let expected = expected.map(|(error, count)| (error.to_owned(), count));
        assert_eq!(counts, expected.into());
        // A single call too, with a retry time.
        let refused = api.heartbeat(&lease).await;
        refused.problem(429, "too_many_requests");
        assert!(refused.headers.contains_key("retry-after"));
        // Callers with a valid token, and other tenants, are not affected.
        api.heartbeat(&fresh).await.has("verdict", "COMMITTED");
        let page = api.get("/metrics").await.body;
        let counted = format!("tenure_limited_total{{limit=\"expired_tokens\"}} {}", BATCH + 1);
        assert!(page.as_str().unwrap().contains(&counted), "{page}");
        api.clock.advance(seconds(1));
        api.heartbeat(&lease).await.problem(401, "token_expired");
    }
}
