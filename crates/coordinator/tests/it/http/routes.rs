//! The table of routes against the OpenAPI document, and each of its columns against the server's
//! behaviour.

use std::collections::BTreeSet;

use coordinator::http::{Audience, PriorityClass, RateClass, Route, routes};
use serde_json::{Value, json};

use super::matrix::{ROWS, Wants};
use super::test_server::{Lease, Response, TestServer, both};

fn table() -> Vec<Route> {
    routes()
}

/// The document's operations: method, path and description.
fn described() -> Vec<(String, String, Value)> {
    let document: Value = serde_json::from_str(&wire::openapi_json()).unwrap();
    let paths = document["paths"].as_object().unwrap();
    let operations = paths.iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().unwrap().iter();
        methods
            .map(move |(method, said)| (method.to_uppercase(), without_names(path), said.clone()))
    });
    operations.collect()
}

/// Removes parameter names, which differ between the document and the code.
fn without_names(path: &str) -> String {
    let parts: Vec<&str> =
        path.split('/').map(|part| if part.starts_with('{') { "{}" } else { part }).collect();
    parts.join("/")
}

fn name(route: &Route) -> (String, String) {
    (route.method.to_string(), without_names(route.path))
}

#[test]
fn every_served_route_is_described_and_every_described_one_is_served() {
    // X10: no route is served that the document, and so the matrix, does not know.
    let served: Vec<_> = table().iter().map(name).collect();
    let described: BTreeSet<_> =
        described().into_iter().map(|(method, path, _)| (method, path)).collect();
    assert_eq!(served.iter().cloned().collect::<BTreeSet<_>>(), described);
    assert_eq!(served.len(), described.len(), "a route has one row");
}

#[test]
fn the_document_says_what_the_table_says_about_each_route() {
    let described = described();
    for route in table() {
        let wanted = name(&route);
        let (_, _, said) = described
            .iter()
            .find(|(method, path, _)| (method, path) == (&wanted.0, &wanted.1))
            .unwrap();
        let security = match route.audience {
            Audience::Anyone => Value::Null,
            Audience::Client
            | Audience::Reader
            | Audience::Worker
            | Audience::LeaseHolder
            | Audience::Admin
            | Audience::Approver
            | Audience::ApprovalReader
            | Audience::KeyHolder
            | Audience::Auditor => json!([{"apiKey": []}]),
            Audience::TaskToken => json!([{"taskToken": []}]),
            Audience::Scraper => json!([{"apiKey": []}, {}]),
        };
        assert_eq!(said["security"], security, "{route:?}");
        let can_answer = |status: &str| said["responses"].get(status).is_some();
        assert!(route.rate == RateClass::Exempt || can_answer("429"), "{route:?}");
        assert!(route.intake.is_none() || can_answer("503"), "{route:?}");
    }
}

#[test]
fn the_table_names_the_audience_that_the_matrix_tries() {
    // X10: the matrix proves that each route accepts exactly its principal; the table decides it.
    for row in ROWS {
        let route = route(row.method, row.path);
        let audiences: &[Audience] = match row.wants {
            Wants::Nobody => &[Audience::Anyone, Audience::Scraper],
            Wants::Key(coordinator::admit::Role::Client) => &[Audience::Client],
            Wants::Key(coordinator::admit::Role::Worker) | Wants::RoleKey => &[Audience::Worker],
            Wants::Key(coordinator::admit::Role::Admin) | Wants::RootAdmin => &[Audience::Admin],
            Wants::Key(coordinator::admit::Role::Reader | coordinator::admit::Role::Approver) => {
                &[]
            }
            Wants::Decide => &[Audience::Approver],
            Wants::Approvals => &[Audience::ApprovalReader],
            Wants::AnyKey => &[Audience::KeyHolder],
            Wants::Read | Wants::ReadAll => &[Audience::Reader],
            Wants::Audit | Wants::RootAudit => &[Audience::Auditor],
            Wants::Token => &[Audience::TaskToken],
            Wants::Holder => &[Audience::LeaseHolder],
        };
        assert!(audiences.contains(&route.audience), "{route:?}");
    }
}

fn route(method: &str, path: &str) -> Route {
    let wanted = (method.to_owned(), without_names(path));
    table()
        .into_iter()
        .find(|route| name(route) == wanted)
        .expect("every row of the matrix is served")
}

/// A call of every route that would succeed, except for the rate or a drain.
struct Calls {
    lease: Lease,
    /// A run that may be retried.
    cancelled: String,
    key: String,
}

impl Calls {
    async fn prepare(api: &TestServer) -> Self {
        let cancelled = api.submit(json!({})).await;
        api.cancel(&cancelled, json!({})).await.has("state", "cancelled");
        let lease = api.leased(json!({})).await;
        let made = api.post("/v1/keys", &api.admin_key, json!({"roles": ["client"]})).await.ok();
        api.post("/v1/queues/halted/pause", &api.admin_key, json!({})).await.ok();
        let nightly =
            json!({"name": "nightly", "cron": "@daily", "run": {"kind": "k", "queue": "q"}});
        assert_eq!(api.post("/v1/schedules", &api.key, nightly).await.status, 201);
        let spare = json!({"queue": "spare"});
        api.post("/v1/recovery/policies/spare", &api.admin_key, spare).await.ok();
        let topology: Value = serde_json::from_str(super::matrix::TOPOLOGY).unwrap();
        api.post("/v1/deployments/tried", &api.admin_key, topology).await.ok();
        Self { lease, cancelled, key: made["key"]["keyId"].as_str().unwrap().to_owned() }
    }

    fn path(&self, pattern: &str) -> String {
        let is_of_an_end = pattern.ends_with("/retry") || pattern.ends_with("/fork");
        let run = if is_of_an_end { &self.cancelled } else { &self.lease.run };
        let path = pattern.replace("{runId}", run).replace("{taskId}", &self.lease.task);
        // A call that has nothing to change is answered without the intake.
        let path = path.replace("{queue}/resume", "halted/resume").replace("{queue}", "nothing");
        let none = format!("appr_{}-1", "0".repeat(26));
        let path = path.replace("{approvalId}", &none);
        let effect = super::matrix::no_effect();
        let path = path.replace("{endpoint}", "nothing").replace("{effectId}", &effect);
        let path = path.replace("{schedule}", "nightly");
        let path = path.replace("{policy}", "spare").replace("{candidate}", "rec_0");
        let path = path.replace("{deployment}", "tried").replace("{type}", "note");
        let path = path.replace("{artifact}", "n").replace("{role}", "scheduler");
        path.replace("{keyId}", &self.key).replace("{page}", "forbidden")
    }

    /// Batches contain an item: an empty one is answered without the intake.
    fn body(&self, path: &str, body: &str) -> Value {
        let item = json!({"taskId": self.lease.task, "taskToken": self.lease.token});
        let said = |more| super::test_server::merged(item, self.lease.said(more));
        match path {
            "/v1/checkpoints" => json!({"checkpoints": [said(json!({}))]}),
            "/v1/starts" => json!({"starts": [said(json!({}))]}),
            "/v1/heartbeats" => json!({"heartbeats": [said(json!({}))]}),
            "/v1/reports" => json!({"reports": [said(json!({"outcome": "SUCCEEDED"}))]}),
            _ => serde_json::from_str(body).unwrap(),
        }
    }

    async fn make(&self, api: &TestServer, row: &super::matrix::Row) -> Response {
        let bearer = if row.wants == Wants::Token { &self.lease.token } else { &api.key };
        let request = api.request(row.method, &self.path(row.path)).bearer_auth(bearer);
        let request = match row.body {
            Some(body) => request.json(&self.body(row.path, body)),
            None => request,
        };
        api.send(request).await
    }
}

#[tokio::test]
async fn exactly_the_calls_of_the_tenants_rate_are_limited() {
    for api in both().await {
        let calls = Calls::prepare(&api).await;
        let limits = json!({"tenantId": "default", "requestsPerSecond": 1, "burst": 1});
        api.post("/v1/limits", &api.admin_key, limits).await.ok();
        api.get("/v1/runs").await.ok();
        // Keys and limits are changed last, since the other calls need them unchanged.
        for row in
            ROWS.iter().filter(|row| row.wants != Wants::Key(coordinator::admit::Role::Admin))
        {
            if row.path == "/v1/limits" && row.method == "POST" {
                continue;
            }
            let (route, got) = (route(row.method, row.path), calls.make(&api, row).await);
            let is_limited = route.rate == RateClass::Tenant;
            assert_eq!(got.status == 429, is_limited, "{route:?}: {got:?}");
        }
    }
}

#[tokio::test]
async fn a_draining_coordinator_refuses_exactly_the_calls_of_the_class_of_new_work() {
    for api in both().await {
        // Calls under a lease are accepted until the end.
        let calls = Calls::prepare(&api).await;
        api.drain();
        for row in ROWS {
            let (route, got) = (route(row.method, row.path), calls.make(&api, row).await);
            // A batch has the error in each item.
            let error = got.body["answers"][0].get("error").unwrap_or(&got.body["error"]);
            let is_refused = *error == json!("shutting_down");
            let is_new_work = route.intake == Some(PriorityClass::NewWork);
            assert_eq!(is_refused, is_new_work, "{route:?}: {got:?}");
            // The rules decide whether it is valid; the class only promises that it is decided.
            if route.intake == Some(PriorityClass::Leased) {
                assert!(got.status < 500, "{route:?}: {got:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_wrong_method_at_a_task_is_refused_with_a_verdict() {
    for api in both().await {
        let path = "/v1/tasks/task_00000000000000000000000000/started";
        let got = api.get(path).await;
        got.problem(405, "method_not_allowed").has("verdict", "REJECTED");
        let got = api.send(api.request("DELETE", "/v1/runs")).await;
        got.problem(405, "method_not_allowed").has("verdict", Value::Null);
    }
}
