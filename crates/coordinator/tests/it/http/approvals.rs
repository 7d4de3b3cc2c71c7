//! Approvals over HTTP: who may decide, what is refused and audited, and what the run learns.

use serde_json::{Value, json};

use super::test_server::{Lease, Response, TestServer, both, seconds};

const DIGEST: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

impl TestServer {
    /// The id and the text of a new key with these roles.
    pub(super) async fn key_with(&self, roles: Value) -> (String, String) {
        let made = self.post("/v1/keys", &self.admin_key, json!({ "roles": roles })).await.ok();
        let text = made["secret"].as_str().unwrap().to_owned();
        (made["key"]["keyId"].as_str().unwrap().to_owned(), text)
    }

    async fn ask_for_approval(&self, lease: &Lease, terms: Value) -> Response {
        let wait =
            json!({"key": "w#1", "mode": "all", "for": [{"key": "ship#1", "approval": terms}]});
        self.checkpoint(lease, json!({ "wait": wait })).await
    }

    pub(super) async fn pending(&self, bearer: &str) -> Vec<Value> {
        let page = self.get_as("/v1/approvals?state=pending", bearer).await.ok();
        page["approvals"].as_array().unwrap().clone()
    }

    pub(super) async fn decide(&self, id: &str, bearer: &str, body: Value) -> Response {
        self.post(&format!("/v1/approvals/{id}/decide"), bearer, body).await
    }
}

fn approve() -> Value {
    json!({"decision": "APPROVED", "digest": DIGEST, "comment": "looks \"fine\""})
}

fn id_of(approval: &Value) -> String {
    approval["approvalId"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_person_decides_and_the_run_goes_on_with_the_word() {
    for api in both().await {
        let (ann_id, ann) = api.key_with(json!(["approver"])).await;
        let lease = api.leased(json!({})).await;
        let terms = json!({"subject": "ship 7", "digest": DIGEST});
        api.ask_for_approval(&lease, terms).await.has("state", "waiting");
        let pending = api.pending(&ann).await;
        assert_eq!(pending.len(), 1);
        assert_eq!(pending[0]["runId"], json!(lease.run));
        assert_eq!(
            (&pending[0]["subject"], &pending[0]["digest"]),
            (&json!("ship 7"), &json!(DIGEST))
        );
        let id = id_of(&pending[0]);
        let explained = api.get(&format!("/v1/runs/{}/explain", lease.run)).await.ok().to_string();
        assert!(explained.contains(&id) && explained.contains("role approver"), "{explained}");
        let decided = api.decide(&id, &ann, approve()).await;
        decided.has("state", "closed").has("outcome", "APPROVED");
        assert!(api.pending(&ann).await.is_empty());
        let shown = api.get_as(&format!("/v1/approvals/{id}"), &ann).await.ok();
        assert_eq!(shown["outcome"], json!("APPROVED"));
        assert_eq!(shown["votes"][0]["keyId"], json!(ann_id));
        assert_eq!(shown["votes"][0]["comment"], json!("looks \"fine\""));
        // The next attempt has the outcome among its checkpoints.
        let next = api.lease("w1").await;
        let recorded = next.envelope["checkpoints"].to_string();
        assert!(recorded.contains("APPROVED") && recorded.contains(&ann_id), "{recorded}");
        let history = api.get(&format!("/v1/runs/{}/history", lease.run)).await.ok().to_string();
        assert!(history.contains(&format!(r#""by":"{ann_id}""#)), "{history}");
        api.succeed(&next).await.has("state", "succeeded");
        api.decide(&id, &ann, approve()).await.problem(409, "approval_closed");
    }
}

#[tokio::test]
async fn what_may_not_decide_is_refused_and_audited() {
    for api in both().await {
        let (_, ann) = api.key_with(json!(["approver"])).await;
        let (worker_id, both_roles) = api.key_with(json!(["worker", "approver"])).await;
        let (_, client) = api.key_with(json!(["client"])).await;
        api.submit(json!({})).await;
        // Leased under the key that would like to decide.
        let polled = json!({"workerId": "w1", "queues": ["q"], "max": 1, "waitMs": 0});
        let leased = api.post("/v1/leases", &both_roles, polled).await.ok();
        let envelope = leased["leases"][0].clone();
        let (task, token) =
            (envelope["taskId"].as_str().unwrap(), envelope["taskToken"].as_str().unwrap());
        let wait = json!({"key": "w#1", "mode": "all",
            "for": [{"key": "ship#1", "approval": {"digest": DIGEST, "quorum": 2}}]});
        let call = json!({"attempt": 1, "workerId": "w1", "wait": wait});
        api.post(&format!("/v1/tasks/{task}/checkpoints"), token, call)
            .await
            .has("state", "waiting");
        let id = id_of(&api.pending(&ann).await[0]);
        api.decide(&id, &both_roles, approve()).await.problem(403, "approval_forbidden");
        api.decide(&id, &client, approve()).await.problem(403, "forbidden");
        let other = json!({"decision": "APPROVED", "digest": "0".repeat(64)});
        api.decide(&id, &ann, other).await.problem(409, "approval_digest_mismatch");
        api.decide(&id, &ann, json!({"decision": "APPROVED"}))
            .await
            .problem(409, "approval_digest_mismatch");
        api.decide(&id, &ann, approve()).await.has("state", "pending");
        api.decide(&id, &ann, approve()).await.problem(409, "already_voted");
        api.decide("appr_nothing-1", &ann, approve()).await.problem(404, "approval_not_found");
        // Another tenant sees and decides nothing (X13).
        let foreign = &api.foreign_key;
        let seen = api.get_as(&format!("/v1/approvals/{id}"), foreign).await;
        seen.problem(404, "approval_not_found");
        api.decide(&id, foreign, approve()).await.problem(404, "approval_not_found");
        assert!(api.pending(foreign).await.is_empty());
        let audited = api.audit_until("approval_digest_mismatch").await;
        assert!(
            audited.contains("approval_forbidden") && audited.contains(&worker_id),
            "{audited}"
        );
    }
}

impl TestServer {
    /// The audit, once it has this word: refusals are written behind their answers.
    async fn audit_until(&self, word: &str) -> String {
        for _ in 0..200 {
            let audit = self.get_as("/v1/audit", &self.admin_key).await.ok().to_string();
            if audit.contains(word) && audit.contains("already_voted") {
                return audit;
            }
            tokio::task::yield_now().await;
        }
        panic!("the audit has no `{word}`");
    }
}

#[tokio::test]
async fn time_decides_by_the_default_and_a_cancel_withdraws() {
    for api in both().await {
        let (_, ann) = api.key_with(json!(["approver"])).await;
        let lease = api.leased(json!({})).await;
        let terms = json!({"expiresInMs": 5000, "default": "REJECTED"});
        api.ask_for_approval(&lease, terms).await.has("state", "waiting");
        let id = id_of(&api.pending(&ann).await[0]);
        api.pass(seconds(6)).await;
        let late = api.decide(&id, &ann, json!({"decision": "APPROVED"})).await;
        late.problem(409, "approval_closed");
        let next = api.lease("w1").await;
        assert!(next.envelope["checkpoints"].to_string().contains("REJECTED"));
        api.succeed(&next).await.ok();
        let lease = api.leased(json!({})).await;
        api.ask_for_approval(&lease, json!({})).await.has("state", "waiting");
        let id = id_of(&api.pending(&ann).await[0]);
        api.cancel(&lease.run, json!({})).await.ok();
        let shown = api.get_as(&format!("/v1/approvals/{id}"), &ann).await.ok();
        assert_eq!((&shown["state"], &shown["outcome"]), (&json!("closed"), &json!("WITHDRAWN")));
        api.decide(&id, &ann, json!({"decision": "APPROVED"}))
            .await
            .problem(409, "approval_closed");
    }
}

#[tokio::test]
async fn pending_approvals_are_listed_in_pages() {
    for api in both().await {
        let (_, ann) = api.key_with(json!(["approver"])).await;
        for _ in 0..5 {
            let lease = api.leased(json!({})).await;
            api.ask_for_approval(&lease, json!({})).await.has("state", "waiting");
        }
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let path = format!("/v1/approvals?state=pending&limit=2{cursor}");
            let page = api.get_as(&path, &ann).await.ok();
            seen.extend(page["approvals"].as_array().unwrap().iter().map(id_of));
            let Some(next) = page["cursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        let mut sorted = seen.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!((seen.len(), &seen), (5, &sorted));
        let bad = api.get_as("/v1/approvals?cursor=x", &ann).await;
        bad.problem(400, "invalid_argument").has("field", "cursor");
    }
}

/// What people approve, in an unusual spelling; and the text whose digest they quote.
const INVOICE: &str = r#"{"to": "Ada", "cents": 5.0e2}"#;
const INVOICE_TEXT: &str = r#"{"cents":500,"to":"Ada"}"#;

fn digest_of(text: &str) -> String {
    verdict::Digest::of_bytes(text.as_bytes()).to_string()
}

#[tokio::test]
async fn people_see_what_they_approve_and_quote_its_digest() {
    for api in both().await {
        let (_, ann) = api.key_with(json!(["approver"])).await;
        let lease = api.leased(json!({})).await;
        let content: Value = serde_json::from_str(INVOICE).unwrap();
        api.ask_for_approval(&lease, json!({"content": content})).await.has("state", "waiting");
        let pending = api.pending(&ann).await;
        assert_eq!(pending[0]["content"], json!(INVOICE_TEXT), "a short one is in the list");
        let id = id_of(&pending[0]);
        let shown = api.get_as(&format!("/v1/approvals/{id}"), &ann).await.ok();
        assert_eq!(shown["content"], json!(INVOICE_TEXT));
        assert_eq!(shown["digest"], json!(digest_of(INVOICE_TEXT)));
        // Who was shown something else quotes another digest.
        let forged = digest_of(&INVOICE_TEXT.replace("500", "5"));
        let word = |digest: &str| json!({"decision": "APPROVED", "digest": digest});
        api.decide(&id, &ann, word(&forged)).await.problem(409, "approval_digest_mismatch");
        api.decide(&id, &ann, json!({"decision": "APPROVED"}))
            .await
            .problem(409, "approval_digest_mismatch");
        api.decide(&id, &ann, word(&digest_of(INVOICE_TEXT))).await.has("outcome", "APPROVED");
        let next = api.lease("w1").await;
        let told = next.envelope["checkpoints"].to_string();
        assert!(told.contains(&digest_of(INVOICE_TEXT)), "{told}");
    }
}

#[tokio::test]
async fn content_is_bounded_and_has_one_digest() {
    for api in both().await {
        let (_, ann) = api.key_with(json!(["approver"])).await;
        let lease = api.leased(json!({})).await;
        let other = json!({"content": 1, "digest": DIGEST});
        let refused = api.ask_for_approval(&lease, other).await;
        refused.problem(400, "invalid_argument");
        let field = refused.body["detail"].as_str().unwrap();
        assert!(field.contains("wait.for[0].approval.digest"), "{field}");
        let large = json!({"content": "x".repeat(64 * 1024)});
        api.ask_for_approval(&lease, large).await.problem(400, "invalid_argument");
        // Each may be large, and all of one task together may not.
        let item =
            |n: u32| json!({"key": format!("a#{n}"), "approval": {"content": "x".repeat(60_000)}});
        let wait = |count| {
            json!({"wait": {"key": "w#1", "mode": "all",
            "for": (0..count).map(item).collect::<Vec<_>>()}})
        };
        api.checkpoint(&lease, wait(3)).await.problem(422, "call_too_long");
        api.checkpoint(&lease, wait(2)).await.has("state", "waiting");
        let pending = api.pending(&ann).await;
        assert_eq!(pending.len(), 2);
        assert!(pending.iter().all(|it| it["content"].is_null() && it["hasContent"] == true));
        let shown = api.get_as(&format!("/v1/approvals/{}", id_of(&pending[0])), &ann).await.ok();
        assert_eq!(shown["content"].as_str().unwrap().len(), 60_002);
        // What is approved is nobody's business in another tenant.
        let path = format!("/v1/approvals/{}", id_of(&pending[0]));
        api.get_as(&path, &api.foreign_key).await.problem(404, "approval_not_found");
    }
}
