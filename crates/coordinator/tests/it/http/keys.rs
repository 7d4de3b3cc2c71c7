//! API keys over HTTP: created, listed, rotated, revoked, and in force at once.

use coordinator::server::Limits;
use serde_json::{Value, json};
use store::FailureKind;
use verdict::Span;

use super::test_server::{Response, TestServer, both, faulty, seconds};

impl TestServer {
    async fn make(&self, wanted: Value) -> (String, String) {
        let made = self.post("/v1/keys", &self.admin_key, wanted).await;
        assert_eq!(made.status, 201, "{made:?}");
        let id = made.body["key"]["keyId"].as_str().unwrap().to_owned();
        (id, made.text("secret"))
    }

    async fn revoke(&self, id: &str) -> Response {
        self.post(&format!("/v1/keys/{id}/revoke"), &self.admin_key, json!({})).await
    }

    async fn rotate(&self, id: &str, how: Value) -> Response {
        self.post(&format!("/v1/keys/{id}/rotate"), &self.admin_key, how).await
    }

    async fn listed(&self, bearer: &str) -> Vec<Value> {
        self.get_as("/v1/keys", bearer).await.ok()["keys"].as_array().unwrap().clone()
    }
}

fn id_of(secret: &str) -> &str {
    secret.split('_').nth(1).unwrap()
}

#[tokio::test]
async fn a_key_is_good_from_its_making_to_its_revocation() {
    for api in both().await {
        // X12: without a restart, in both directions.
        let (id, secret) = api.make(json!({"name": "ci", "roles": ["client"]})).await;
        assert_eq!(id, id_of(&secret));
        assert_eq!(api.get_as("/v1/runs", &secret).await.status, 200);
        api.get_as("/v1/keys", &secret).await.problem(403, "forbidden");
        let revoked = api.revoke(&id).await.ok();
        assert!(revoked["revokedAt"].is_string());
        let refused = api.get_as("/v1/runs", &secret).await;
        refused.problem(401, "unauthenticated");
        assert!(refused.text("message").contains("revoked"));
        // A repeated call gets the same answer, and does not revoke again.
        api.clock.advance(seconds(1));
        assert_eq!(api.revoke(&id).await.ok(), revoked);
        api.rotate(&id, json!({})).await.problem(409, "key_not_usable");
    }
}

#[tokio::test]
async fn a_list_shows_everything_but_the_secret() {
    for api in both().await {
        let wanted = json!({"name": "night", "roles": ["worker"], "queues": ["a", "b"],
            "tenantId": "acme", "workspaceId": "main", "expiresAt": "2099-01-01T00:00:00.000Z"});
        let (id, secret) = api.make(wanted.clone()).await;
        let keys = api.listed(&api.admin_key).await;
        let key = keys.iter().find(|key| key["keyId"] == id).unwrap();
        for (member, value) in wanted.as_object().unwrap() {
            assert_eq!(key[member], *value, "{member}");
        }
        let (part, text) = (secret.split('_').nth(2).unwrap(), json!(keys).to_string());
        assert!(!text.contains(part) && !text.contains("digest"), "{text}");
        assert_eq!(keys.len(), 6);
    }
}

#[tokio::test]
async fn a_rotated_key_has_two_secrets_until_the_overlap_ends() {
    for api in both().await {
        let (id, old) = api.make(json!({"roles": ["client"]})).await;
        let rotated = api.rotate(&id, json!({"overlapMs": 5000})).await;
        let new = rotated.text("secret");
        assert_eq!(rotated.body["key"]["keyId"], id);
        assert!(rotated.body["key"]["previousSecretUntil"].is_string());
        api.clock.advance(Span::from_millis(4999));
        for secret in [&old, &new] {
            assert_eq!(api.get_as("/v1/runs", secret).await.status, 200);
        }
        api.clock.advance(Span::from_millis(1));
        api.get_as("/v1/runs", &old).await.problem(401, "unauthenticated");
        assert_eq!(api.get_as("/v1/runs", &new).await.status, 200);
        // A leaked secret is revoked at once, and so is the previous one.
        let newest = api.rotate(&id, json!({"overlapMs": 0})).await.text("secret");
        for secret in [&old, &new] {
            api.get_as("/v1/runs", secret).await.problem(401, "unauthenticated");
        }
        assert_eq!(api.get_as("/v1/runs", &newest).await.status, 200);
    }
}

#[tokio::test]
async fn an_expired_key_is_none() {
    for api in both().await {
        let soon = api.get("/v1/runs/run_x").await.text("serverTime");
        let past = json!({"roles": ["client"], "expiresAt": soon});
        let refused = api.post("/v1/keys", &api.admin_key, past).await;
        refused.problem(400, "invalid_argument").has("field", "expiresAt");
        let at = wire_time(&soon, 10_000);
        let (_, secret) = api.make(json!({"roles": ["client"], "expiresAt": at})).await;
        api.clock.advance(Span::from_millis(9_999));
        assert_eq!(api.get_as("/v1/runs", &secret).await.status, 200);
        api.clock.advance(Span::from_millis(1));
        let refused = api.get_as("/v1/runs", &secret).await;
        refused.problem(401, "unauthenticated");
        assert!(refused.text("message").contains("expired"));
    }
}

fn wire_time(text: &str, later_ms: i64) -> Value {
    let time: wire::Time = serde_json::from_value(json!(text)).unwrap();
    serde_json::to_value(wire::Time::from_ms(time.as_ms() + later_ms)).unwrap()
}

#[tokio::test]
async fn administrators_stay_within_their_tenant() {
    for api in both().await {
        // X13: api.foreign_key is an administrator of the tenant `other`.
        let foreign = &api.foreign_key;
        for scope in [json!({"tenantId": "default"}), json!({"tenantId": "third"})] {
            let wanted = super::test_server::merged(json!({"roles": ["client"]}), scope);
            api.post("/v1/keys", foreign, wanted).await.problem(403, "forbidden");
        }
        let own = json!({"roles": ["client"], "workspaceId": "side"});
        let made = api.post("/v1/keys", foreign, own).await;
        assert_eq!(made.status, 201);
        made_in(&made, "other", "side");
        let seen = api.listed(foreign).await;
        assert!(seen.iter().all(|key| key["tenantId"] == "other"));
        assert_eq!(seen.len(), 2);
        // Another tenant's key and a missing one get the same answer.
        let mut words = Vec::new();
        for id in [id_of(&api.client_key), "0000000000000000"] {
            for verb in ["revoke", "rotate"] {
                let path = format!("/v1/keys/{id}/{verb}");
                let got = api.post(&path, foreign, json!({})).await;
                got.problem(404, "key_not_found");
                words.push(got.text("message"));
            }
        }
        words.dedup();
        assert_eq!(words.len(), 1);
        assert_eq!(api.get_as("/v1/runs", &api.client_key).await.status, 200);
        // The detour: a workspace beside default/default.
        let side = json!({"roles": ["admin"], "workspaceId": "side"});
        let (_, side) = api.make(side).await;
        let escalate = json!({"roles": ["admin"], "workspaceId": "default"});
        api.post("/v1/keys", &side, escalate).await.problem(403, "forbidden");
        let path = format!("/v1/keys/{}/rotate", id_of(&api.admin_key));
        api.post(&path, &side, json!({})).await.problem(404, "key_not_found");
        assert_eq!(api.listed(&side).await.len(), 1);
    }
}

fn made_in(made: &Response, tenant: &str, workspace: &str) {
    assert_eq!(made.body["key"]["tenantId"], tenant);
    assert_eq!(made.body["key"]["workspaceId"], workspace);
}

#[tokio::test]
async fn the_last_administrator_cannot_be_revoked() {
    for api in both().await {
        // Two of them at first; after one is revoked, only the other is left, whichever is used.
        let (one, other) = (id_of(&api.key), id_of(&api.admin_key));
        assert_eq!(api.revoke(one).await.status, 200);
        api.revoke(other).await.problem(409, "last_admin_key");
        let (first, _) = api.make(json!({"roles": ["admin"]})).await;
        let (second, third) = tokio::join!(api.revoke(&first), api.revoke(other));
        // Whichever came first, the other finds one administrator left, or its own key revoked.
        let done = [&second, &third].iter().filter(|got| got.status == 200).count();
        assert_eq!(done, 1, "{second:?} {third:?}");
    }
}

#[tokio::test]
async fn a_worker_key_leases_from_its_queues_only() {
    for api in both().await {
        let run = api.submit(json!({})).await;
        let (_, secret) = api.make(json!({"roles": ["worker"], "queues": ["other"]})).await;
        let poll = |queues: Value| json!({"workerId": "w1", "queues": queues, "max": 1});
        for queues in [json!(["q"]), json!(["other", "q"])] {
            let refused = api.post("/v1/leases", &secret, poll(queues)).await;
            refused.problem(403, "forbidden");
            assert!(refused.text("message").contains("queue q"));
        }
        assert_eq!(api.post("/v1/leases", &secret, poll(json!(["other"]))).await.status, 200);
        assert_eq!(api.state(&run).await, "queued");
    }
}

#[tokio::test]
async fn a_poll_of_a_revoked_key_gets_nothing() {
    for api in both().await {
        // X12: the poll was accepted before the revocation, and must not be granted work after it.
        let (id, secret) = api.make(json!({"roles": ["worker"]})).await;
        let body = json!({"workerId": "w9", "queues": ["q"], "max": 1, "waitMs": 30_000});
        let poll = api.send(api.request("POST", "/v1/leases").bearer_auth(&secret).json(&body));
        let submit = async {
            loop {
                let metrics = api.get("/metrics").await.body;
                if metrics.as_str().unwrap().contains("tenure_polls_waiting 1\n") {
                    break;
                }
            }
            api.revoke(&id).await.ok();
            api.submit(json!({})).await
        };
        let (polled, run) = tokio::join!(poll, submit);
        polled.problem(401, "unauthenticated");
        // Handed back at once: the next worker gets it, and nothing counts as lost.
        let lease = loop {
            if let Some(lease) = api.poll("w1").await.pop() {
                break lease;
            }
        };
        assert_eq!(lease.run, run);
        assert_eq!(api.run(&run).await["lost"], 0);
    }
}

#[tokio::test]
async fn an_ended_key_keeps_the_work_in_hand_and_gets_no_more() {
    for api in both().await {
        // X12: the key opens nothing any more; the task tokens it was given last until their leases end.
        for how in ["revoked", "rotated", "expired"] {
            let now = api.get("/v1/runs/run_x").await.text("serverTime");
            let end = wire_time(&now, 1_000);
            let expiry = if how == "expired" { json!({"expiresAt": end}) } else { json!({}) };
            let roles = json!({"roles": ["worker", "client"]});
            let (id, secret) = api.make(super::test_server::merged(roles, expiry)).await;
            let work = super::test_server::run(json!({"queue": how, "leaseMs": 60_000}));
            api.post("/v1/runs", &secret, work.clone()).await.ok();
            let poll = json!({"workerId": "w1", "queues": [how], "max": 1});
            let lease = api.post("/v1/leases", &secret, poll.clone()).await.leases().remove(0);
            match how {
                "revoked" => drop(api.revoke(&id).await.ok()),
                "rotated" => drop(api.rotate(&id, json!({"overlapMs": 0})).await.ok()),
                _ => api.clock.advance(seconds(1)),
            }
            api.post("/v1/leases", &secret, poll).await.problem(401, "unauthenticated");
            api.post("/v1/runs", &secret, work).await.problem(401, "unauthenticated");
            let item = |more| {
                let named = json!({"taskId": lease.task, "taskToken": lease.token});
                lease.said(super::test_server::merged(named, more))
            };
            let beats = json!({"heartbeats": [item(json!({}))]});
            let beat = api.post("/v1/heartbeats", &secret, beats).await.ok();
            assert_eq!(beat["answers"][0]["status"], 200, "{how}: {beat}");
            let forged = json!({"taskToken": "x", "outcome": "SUCCEEDED"});
            let reports = json!({"reports": [item(forged), item(json!({"outcome": "SUCCEEDED"}))]});
            let told = api.post("/v1/reports", &secret, reports).await.ok();
            assert_eq!(told["answers"][0]["error"], "invalid_token", "{how}: {told}");
            assert_eq!(told["answers"][1]["verdict"], "COMMITTED", "{how}: {told}");
        }
    }
}

#[tokio::test]
async fn what_cannot_be_written_does_not_count() {
    let (api, faults) = faulty(Limits::default()).await;
    let (id, secret) = api.make(json!({"roles": ["client"]})).await;
    faults.fail_every_write(FailureKind::Full);
    api.revoke(&id).await.problem(503, "unavailable");
    assert_eq!(api.get_as("/v1/runs", &secret).await.status, 200);
    let wanted = json!({"roles": ["client"]});
    api.post("/v1/keys", &api.admin_key, wanted).await.problem(503, "unavailable");
    assert_eq!(api.listed(&api.admin_key).await.len(), 6);
    faults.heal();
    api.revoke(&id).await.ok();
    api.get_as("/v1/runs", &secret).await.problem(401, "unauthenticated");
}

#[tokio::test]
async fn odd_wishes_are_named() {
    for api in both().await {
        let odd = [
            (json!({"roles": []}), "roles"),
            (json!({"roles": ["client", "client"]}), "roles"),
            (json!({"roles": ["admin"], "queues": ["q"]}), "queues"),
            (json!({"roles": ["worker"], "queues": []}), "queues"),
            (json!({"roles": ["client"], "tenantId": "a b"}), "tenantId"),
            (json!({"roles": ["client"], "secret": "mine"}), "secret"),
        ];
        for (wanted, field) in odd {
            let got = api.post("/v1/keys", &api.admin_key, wanted).await;
            got.problem(400, "invalid_argument").has("field", field);
        }
        let id = id_of(&api.client_key);
        let got = api.rotate(id, json!({"overlapMs": 2_592_000_001u64})).await;
        got.problem(400, "invalid_argument").has("field", "overlapMs");
    }
}
