//! Who changed what and who was refused, as the audit shows it to administrators.

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use super::test_server::{TestServer, both};

impl TestServer {
    async fn log(&self, bearer: &str, query: &str) -> Vec<Value> {
        let page = self.get_as(&format!("/v1/audit{query}"), bearer).await.ok();
        page["entries"].as_array().unwrap().clone()
    }

    /// Waits for an entry: refusals are written after their answer.
    async fn logged(&self, holds: impl Fn(&Value) -> bool) -> Value {
        loop {
            let log = self.log(&self.admin_key, "").await;
            if let Some(entry) = log.into_iter().find(|entry| holds(entry)) {
                return entry;
            }
        }
    }
}

fn id_of(secret: &str) -> &str {
    secret.split('_').nth(1).unwrap()
}

#[tokio::test]
async fn every_change_of_a_key_has_its_entry() {
    for api in both().await {
        let wanted = json!({"roles": ["client"], "tenantId": "acme"});
        let made = api.post("/v1/keys", &api.admin_key, wanted).await;
        let id = made.body["key"]["keyId"].as_str().unwrap();
        let path = |verb: &str| format!("/v1/keys/{id}/{verb}");
        let rotated = api.post(&path("rotate"), &api.key, json!({})).await;
        api.post(&path("revoke"), &api.key, json!({})).await.ok();
        // A repeated call changes nothing, so no entry is written.
        api.post(&path("revoke"), &api.key, json!({})).await.ok();
        let log = api.log(&api.admin_key, "?limit=3").await;
        let actions: Vec<_> = log.iter().map(|it| it["action"].as_str().unwrap()).collect();
        assert_eq!(actions, ["key.revoked", "key.rotated", "key.created"]);
        let actors: Vec<_> = log.iter().map(|it| it["actor"].as_str().unwrap()).collect();
        assert_eq!(actors, [id_of(&api.key), id_of(&api.key), id_of(&api.admin_key)]);
        for entry in &log {
            assert_eq!((&entry["object"], &entry["tenantId"]), (&json!(id), &json!("acme")));
        }
        // The chain of digests: the digest after one change is the digest before the next.
        assert!(log[2].get("beforeDigest").is_none());
        assert_eq!(log[2]["afterDigest"], log[1]["beforeDigest"]);
        assert_eq!(log[1]["afterDigest"], log[0]["beforeDigest"]);
        let quoted = rotated.headers["x-request-id"].to_str().unwrap();
        assert_eq!(log[1]["requestId"], quoted);
        let founding = api.log(&api.admin_key, "?before=6").await;
        assert!(founding.iter().all(|entry| entry["actor"] == "server"), "{founding:?}");
        assert_eq!(founding.len(), 5);
        let text = json!(log).to_string();
        assert!(!text.contains(made.text("secret").split('_').nth(2).unwrap()));
    }
}

/// How often a caller hangs up before a test gives up: one of them is fast enough.
const HANG_UPS_MAX: usize = 80;

/// How often a condition is looked at before a test gives up.
const LOOKS_MAX: usize = 3_000;

/// Sends a call and does not wait for its answer.
async fn hang_up(api: &TestServer, path: &str, body: &Value) {
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        api.admin_key,
        body.len()
    );
    api.connect().await.write_all(head.as_bytes()).await.unwrap();
}

#[tokio::test]
async fn an_act_is_written_down_although_its_caller_hangs_up() {
    // X12: what is changed and who changed it are two commits; the caller is in neither.
    for api in both().await {
        let mut made = None;
        for n in 0..HANG_UPS_MAX {
            let name = format!("hook{n}");
            let body = json!({"name": name, "url": "https://example.com/hook"});
            hang_up(&api, "/v1/endpoints", &body).await;
            // Any of those so far: the act may come after the look.
            let listed = api.get_as("/v1/endpoints", &api.admin_key).await.ok();
            made = listed["endpoints"][0]["name"].as_str().map(str::to_owned);
            if made.is_some() {
                break;
            }
        }
        let made = made.expect("no call arrived before its caller hung up");
        let is_it =
            |it: &Value| it["action"] == "endpoint.created" && it["object"] == made.as_str();
        for looks in 0.. {
            if api.log(&api.admin_key, "?limit=1000").await.iter().any(is_it) {
                break;
            }
            assert!(looks < LOOKS_MAX, "{made} was made by nobody");
        }
    }
}

#[tokio::test]
async fn a_refused_item_of_a_batch_is_written_down() {
    for api in both().await {
        let item =
            json!({"taskId": "task_x", "taskToken": "ey.not.token", "attempt": 1, "workerId": "w"});
        let batch = json!({"heartbeats": vec![item; 7]});
        api.post("/v1/heartbeats", &api.worker_key, batch).await.ok();
        let entry = api.logged(|it| it["actor"] == id_of(&api.worker_key)).await;
        assert_eq!((&entry["object"], &entry["times"]), (&json!("POST /v1/heartbeats"), &json!(7)));
        assert_eq!(entry["error"], "invalid_token");
    }
}

#[tokio::test]
async fn refusals_are_written_down_within_bounds() {
    for api in both().await {
        api.get_as("/v1/runs", &api.worker_key).await.problem(403, "forbidden");
        let entry = api.logged(|it| it["actor"] == id_of(&api.worker_key)).await;
        assert_eq!(entry["action"], "refused");
        assert_eq!(
            (&entry["object"], &entry["error"]),
            (&json!("GET /v1/runs"), &json!("forbidden"))
        );
        for n in 0..40 {
            let got = api.get_as(&format!("/v1/runs/run_{n}"), "tnr_not_a_key").await;
            got.problem(401, "unauthenticated");
        }
        api.post("/v1/tasks/task_x/started", "ey.not.token", json!({})).await;
        api.logged(|it| it["actor"] == "anonymous").await;
        // Everything still pending has been written when a later change is.
        api.post("/v1/keys", &api.admin_key, json!({"roles": ["client"]})).await.ok();
        let log = api.log(&api.admin_key, "?limit=1000").await;
        let anonymous: Vec<_> = log.iter().filter(|it| it["actor"] == "anonymous").collect();
        assert!(anonymous.len() <= 10, "{}", anonymous.len());
        // The route pattern, and no text made up by the caller.
        assert!(anonymous.iter().all(|it| it["object"] == "GET /v1/runs/{run}"), "{anonymous:?}");
    }
}

#[tokio::test]
async fn one_tenants_administrators_see_nothing_of_another() {
    for api in both().await {
        // X13
        let own = json!({"roles": ["client"]});
        api.post("/v1/keys", &api.foreign_key, own.clone()).await.ok();
        api.post("/v1/keys", &api.admin_key, own).await.ok();
        let theirs = api.log(&api.foreign_key, "").await;
        assert_eq!(theirs.len(), 2, "its own founding and what it made");
        assert!(theirs.iter().all(|entry| entry["tenantId"] == "other"));
        let page = api.get_as("/v1/audit?limit=1", &api.foreign_key).await.ok();
        let next = page["nextBefore"].as_u64().unwrap();
        let rest = api.log(&api.foreign_key, &format!("?before={next}")).await;
        assert_eq!(
            (page["entries"][0].clone(), rest),
            (theirs[0].clone(), vec![theirs[1].clone()])
        );
        api.get("/v1/audit?limit=0").await.problem(400, "invalid_argument");
    }
}
