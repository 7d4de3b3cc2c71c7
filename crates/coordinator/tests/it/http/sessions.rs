//! `GET /v1/session`: what it says a key may do is what the routes take.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::matrix::{ROWS, Row, Wants};
use super::test_server::{TestServer, both};

/// The keys of a test: their scope, roles and queues.
const KEYS: [(&str, &[&str], Option<&str>); 9] = [
    ("default", &["client"], None),
    ("default", &["worker"], None),
    ("default", &["reader"], None),
    ("default", &["approver"], None),
    ("default", &["admin"], None),
    ("acme", &["admin"], None),
    ("acme", &["reader"], None),
    ("default", &["reader"], Some("nothing")),
    ("default", &["client"], Some("nothing")),
];

async fn make(api: &TestServer, tenant: &str, roles: &[&str], queue: Option<&str>) -> String {
    let mut wanted = json!({"roles": roles, "tenantId": tenant, "workspaceId": "default"});
    if let Some(queue) = queue {
        wanted["queues"] = json!([queue]);
    }
    api.post("/v1/keys", &api.admin_key, wanted).await.text("secret")
}

/// The name that `may` has for a row, as the page says.
fn name(row: &Row) -> Option<String> {
    let path = row.path.strip_prefix("/v1/")?;
    let words: Vec<&str> = path.split('/').filter(|word| !word.starts_with('{')).collect();
    let words = (words.join("."), words.len());
    Some(match (row.method, words) {
        ("GET", (words, _)) => format!("{words}.read"),
        (_, (words, 1)) => format!("{words}.write"),
        (_, (words, _)) if path.ends_with('}') => format!("{words}.write"),
        (_, (words, _)) => words,
    })
}

/// Whether a key is refused, with a path on which nothing exists.
async fn is_refused(api: &TestServer, row: &Row, key: &str, body: Option<&'static str>) -> bool {
    let path: Vec<&str> = row
        .path
        .split('/')
        .map(|part| match part {
            "{runId}" => "run_00000000000000000000000000",
            "{effectId}" => "eff_0000000000000000000000000000000000000000000000000000000000000000",
            "{approvalId}" => "appr_00000000000000000000000000-1",
            "{candidate}" => "rec_0",
            part if part.starts_with('{') => "nothing",
            part => part,
        })
        .collect();
    let request = api.request(row.method, &path.join("/")).bearer_auth(key);
    let request = request.header("content-type", "application/json");
    let request = body.map_or(request.try_clone().unwrap(), |body| request.body(body));
    api.send(request).await.status == 403
}

#[tokio::test]
async fn what_a_key_may_is_what_the_routes_take() {
    for api in both().await {
        for (tenant, roles, queue) in KEYS {
            let key = make(&api, tenant, roles, queue).await;
            let session = api.get_as("/v1/session", &key).await.ok();
            let may: Vec<String> = serde_json::from_value(session["may"].clone()).unwrap();
            let may: BTreeSet<String> = may.into_iter().collect();
            let mut tried = BTreeSet::new();
            for row in ROWS.iter().filter(|row| row.wants != Wants::Token) {
                let Some(name) = name(row) else { continue };
                // These would take effect with any body, or say what a role of a deployment needs.
                if row.method == "POST" && row.body.is_none() || row.wants == Wants::RoleKey {
                    tried.insert(name);
                    continue;
                }
                // The list is not by queue, and the schedule does not exist.
                if queue.is_some() && row.path == "/v1/schedules/{schedule}" {
                    continue;
                }
                // A queue that the body names is another matter.
                let is_allowed = may.contains(&name);
                let body = row
                    .body
                    .map(|body| if is_allowed && queue.is_some() { "not json" } else { body });
                let refused = is_refused(&api, row, &key, body).await;
                let cell = format!("{tenant} {roles:?} {queue:?}: {} {}", row.method, row.path);
                assert_eq!(refused, !is_allowed, "{cell}");
                tried.insert(name);
            }
            assert!(may.is_subset(&tried), "{:?}", may.difference(&tried));
        }
    }
}

#[tokio::test]
async fn a_session_says_whose_key_it_is() {
    for api in both().await {
        let wanted = json!({"roles": ["client", "reader"], "name": "ann", "tenantId": "acme",
            "workspaceId": "main", "queues": ["mail"], "expiresAt": "2090-01-01T00:00:00.000Z"});
        let made = api.post("/v1/keys", &api.admin_key, wanted).await;
        let session = api.get_as("/v1/session", &made.text("secret")).await.ok();
        for member in ["keyId", "name", "roles", "tenantId", "workspaceId", "queues", "expiresAt"] {
            assert_eq!(session[member], made.body["key"][member], "{member}");
        }
        assert_eq!(session["name"], "ann");
        let plain = api.get_as("/v1/session", &api.client_key).await.ok();
        for absent in ["name", "queues", "expiresAt"] {
            assert_eq!(plain[absent], Value::Null, "{absent}");
        }
        api.get_as("/v1/session", "tnr_x").await.problem(401, "unauthenticated");
    }
}

#[tokio::test]
async fn asking_refuses_nothing() {
    for api in both().await {
        // It replaces votes on nothing, which left refusals in the audit.
        for key in [&api.worker_key, &api.client_key, &api.admin_key] {
            api.get_as("/v1/session", key).await.ok();
        }
        let log = api.get_as("/v1/audit", &api.admin_key).await.ok();
        let entries = log["entries"].as_array().unwrap();
        assert!(entries.iter().all(|entry| entry["action"] != "refused"), "{entries:?}");
    }
}
