//! Authorisation: every route × every principal × every kind of object.
//!
//! The rows are compared with the OpenAPI document, and the document with the table of routes (`routes.rs`), so
//! that a new route without a row fails here.

use std::collections::{BTreeMap, BTreeSet};

use coordinator::SeededEntropy;
use coordinator::admit::{NewKey, Role};
use serde_json::{Value, json};
use verdict::Scope;

use super::test_server::{Lease, Response, TestServer, both, run, seconds};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wants {
    Nobody,
    Key(Role),
    /// A client or a reader.
    Read,
    /// A client or a reader, without a limit to queues.
    ReadAll,
    /// An admin, or a reader without a limit to queues.
    Audit,
    /// An approver or an admin.
    Decide,
    /// Besides, a client or a reader without a limit to queues.
    Approvals,
    /// Any valid key.
    AnyKey,
    /// An admin key of default/default: its changes affect all tenants.
    RootAdmin,
    /// An admin or reader key of default/default: it reads about all tenants.
    RootAudit,
    /// The token of this task.
    Token,
    /// A worker's key, even an ended one: the items of the body carry task tokens.
    Holder,
    /// A worker's key that names the role, or is an admin's as well: none of those here.
    RoleKey,
}

const CLIENT: Wants = Wants::Key(Role::Client);
const WORKER: Wants = Wants::Key(Role::Worker);
const ADMIN: Wants = Wants::Key(Role::Admin);

#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    pub(super) wants: Wants,
    /// A body that would be accepted.
    pub(super) body: Option<&'static str>,
}

const fn row(method: &'static str, path: &'static str, wants: Wants) -> Row {
    Row { method, path, wants, body: None }
}

const fn post(path: &'static str, wants: Wants, body: &'static str) -> Row {
    Row { method: "POST", path, wants, body: Some(body) }
}

const REPORT: &str = r#"{"attempt": 1, "workerId": "w1", "outcome": "SUCCEEDED"}"#;
const CALL: &str = r#"{"attempt": 1, "workerId": "w1"}"#;

const TAKE: &str = r#"{"workerId": "w1", "max": 1}"#;
const TURN: &str = r#"{"workerId": "w1", "claim": {"taskId": "task_00000000000000000000000000", "attempt": 1,
    "leaseId": "lease_00000000000000000000000000", "fence": 1}}"#;
const RETURN: &str = r#"{"workerId": "w1", "claim": {"taskId": "task_00000000000000000000000000", "attempt": 1,
    "leaseId": "lease_00000000000000000000000000", "fence": 1}, "reason": "r"}"#;
const PROPOSAL: &str = r#"{"workerId": "w1", "decision": {"decision": "PASS"}}"#;

/// A small topology.
pub(super) const TOPOLOGY: &str = r#"{"topology": {"topology": "tried", "artifacts": {"note": {"statuses": ["open", "done"], 
    "initial": "open", "final": ["done"], 
    "transitions": [{"from": "open", "to": "done", "by": "person"}]}},
    "events": {"asked": {"on": "request"}},
    "workOrders": {"look": {"kind": "k", "queue": "elsewhere", "budget": {"time": "1m"}, "gate": "seen"}},
    "gates": {"seen": {"checks": [{"name": "any", "require": {"path": "output", "op": "exists"}}],
    "pass": {"actions": ["Go on."]}, "fail": {"actions": ["Look."]}}},
    "roles": {"scheduler": {"uses": "scheduler", "event": "asked", "workOrder": "look"},
    "runner": {"uses": "runner", "workOrders": ["look"]}, "gate": {"uses": "gate", "workOrders": ["look"]}}}}"#;

pub(super) const ROWS: &[Row] = &[
    row("GET", "/livez", Wants::Nobody),
    row("GET", "/readyz", Wants::Nobody),
    row("GET", "/version", Wants::Nobody),
    row("GET", "/metrics", Wants::Nobody),
    row("GET", "/openapi.json", Wants::Nobody),
    row("GET", "/errors/{page}", Wants::Nobody),
    post("/v1/runs", CLIENT, r#"{"kind": "k", "queue": "elsewhere"}"#),
    row("GET", "/v1/runs", Wants::Read),
    post("/v1/waits", Wants::Read, r#"{"runIds": ["run_00000000000000000000000000"]}"#),
    row("GET", "/v1/runs/{runId}", Wants::Read),
    post("/v1/runs/{runId}/cancel", CLIENT, "{}"),
    post("/v1/runs/{runId}/retry", CLIENT, "{}"),
    post("/v1/runs/{runId}/fork", CLIENT, "{}"),
    row("GET", "/v1/runs/{runId}/history", Wants::Read),
    row("GET", "/v1/runs/{runId}/logs", Wants::Read),
    row("GET", "/v1/runs/{runId}/record", Wants::Read),
    row("GET", "/v1/runs/{runId}/explain", Wants::Read),
    row("GET", "/v1/runs/{runId}/steps", Wants::Read),
    row("GET", "/v1/runs/{runId}/children", Wants::Read),
    row("GET", "/v1/runs/{runId}/plan", Wants::Read),
    post("/v1/runs/{runId}/signals", CLIENT, r#"{"name": "go"}"#),
    post("/v1/runs/{runId}/resume", CLIENT, "{}"),
    post("/v1/runs/{runId}/unpin", CLIENT, "{}"),
    row("GET", "/v1/queues", Wants::Read),
    post("/v1/queues/{queue}/pause", ADMIN, "{}"),
    post("/v1/queues/{queue}/resume", ADMIN, "{}"),
    row("GET", "/v1/workers", Wants::Read),
    row("GET", "/v1/kinds", Wants::Read),
    row("GET", "/v1/flow-keys", Wants::ReadAll),
    row("GET", "/v1/approvals", Wants::Approvals),
    row("GET", "/v1/approvals/{approvalId}", Wants::Approvals),
    post("/v1/approvals/{approvalId}/decide", Wants::Decide, r#"{"decision": "APPROVED"}"#),
    post("/v1/endpoints", ADMIN, r#"{"name": "n", "url": "https://example.com/"}"#),
    row("GET", "/v1/endpoints", Wants::Audit),
    row("GET", "/v1/endpoints/{endpoint}", Wants::Audit),
    post("/v1/endpoints/{endpoint}", ADMIN, r#"{"enabled": true}"#),
    post("/v1/endpoints/{endpoint}/rotate", ADMIN, "{}"),
    row("POST", "/v1/endpoints/{endpoint}/delete", ADMIN),
    row("GET", "/v1/effects", Wants::Audit),
    post("/v1/effects/redrive", ADMIN, "{}"),
    row("GET", "/v1/effects/{effectId}", Wants::Audit),
    row("POST", "/v1/effects/{effectId}/redrive", ADMIN),
    row("POST", "/v1/effects/{effectId}/release", ADMIN),
    post("/v1/effects/{effectId}/reconcile", ADMIN, r#"{"arrived": true}"#),
    post(
        "/v1/schedules",
        CLIENT,
        r#"{"name": "n", "cron": "@yearly", "run": {"kind": "k", "queue": "elsewhere"}}"#,
    ),
    row("GET", "/v1/schedules", Wants::Read),
    row("GET", "/v1/schedules/{schedule}", Wants::Read),
    row("GET", "/v1/schedules/{schedule}/history", Wants::Read),
    row("GET", "/v1/schedules/{schedule}/preview", Wants::Read),
    post("/v1/schedules/{schedule}/update", CLIENT, r#"{"cron": "@daily"}"#),
    post("/v1/schedules/{schedule}/pause", CLIENT, "{}"),
    post("/v1/schedules/{schedule}/resume", CLIENT, "{}"),
    post("/v1/schedules/{schedule}/trigger", CLIENT, "{}"),
    post(
        "/v1/schedules/{schedule}/backfill",
        CLIENT,
        r#"{"from": "2026-01-01T00:00:00.000Z", "to": "2026-01-01T00:00:00.000Z"}"#,
    ),
    post("/v1/schedules/{schedule}/delete", CLIENT, "{}"),
    row("GET", "/v1/recovery/policies", Wants::Read),
    post("/v1/recovery/policies/{policy}", ADMIN, "{}"),
    post("/v1/recovery/policies/{policy}/delete", ADMIN, "{}"),
    row("GET", "/v1/recovery/candidates", Wants::Read),
    row("GET", "/v1/recovery/candidates/{candidate}", Wants::Read),
    row("GET", "/v1/recovery/candidates/{candidate}/history", Wants::Read),
    post("/v1/recovery/candidates/{candidate}/decide", Wants::Decide, r#"{"action": "skip"}"#),
    row("GET", "/v1/deployments", Wants::ReadAll),
    row("GET", "/v1/deployments/{deployment}", Wants::ReadAll),
    post("/v1/deployments/{deployment}", ADMIN, TOPOLOGY),
    post("/v1/deployments/{deployment}/plan", Wants::ReadAll, TOPOLOGY),
    post("/v1/deployments/{deployment}/pause", ADMIN, "{}"),
    post("/v1/deployments/{deployment}/resume", ADMIN, "{}"),
    post("/v1/deployments/{deployment}/delete", ADMIN, "{}"),
    row("GET", "/v1/deployments/{deployment}/artifacts/{type}", Wants::ReadAll),
    post("/v1/deployments/{deployment}/artifacts/{type}", CLIENT, r#"{"id": "i"}"#),
    row("GET", "/v1/deployments/{deployment}/artifacts/{type}/{artifact}", Wants::ReadAll),
    post(
        "/v1/deployments/{deployment}/artifacts/{type}/{artifact}/transition",
        CLIENT,
        r#"{"to": "s"}"#,
    ),
    post(
        "/v1/deployments/{deployment}/artifacts/{type}/{artifact}/approve",
        Wants::Decide,
        r#"{"to": "s"}"#,
    ),
    post("/v1/deployments/{deployment}/events", CLIENT, r#"{"type": "asked", "key": "k"}"#),
    row("GET", "/v1/deployments/{deployment}/workorders", Wants::ReadAll),
    row("GET", "/v1/deployments/{deployment}/claims", Wants::ReadAll),
    row("GET", "/v1/deployments/{deployment}/pause-states", Wants::ReadAll),
    post("/v1/deployments/{deployment}/pause-states/close", CLIENT, r#"{"id": "p"}"#),
    post("/v1/deployments/{deployment}/roles/{role}/turns", Wants::RoleKey, TAKE),
    post("/v1/deployments/{deployment}/roles/{role}/turns/renew", Wants::RoleKey, TURN),
    post("/v1/deployments/{deployment}/roles/{role}/turns/return", Wants::RoleKey, RETURN),
    post("/v1/deployments/{deployment}/roles/{role}/proposals", Wants::RoleKey, PROPOSAL),
    post("/v1/leases", WORKER, r#"{"workerId": "w9", "queues": ["nothing"], "max": 1}"#),
    post("/v1/reports", Wants::Holder, r#"{"reports": []}"#),
    post("/v1/checkpoints", Wants::Holder, r#"{"checkpoints": []}"#),
    post("/v1/starts", Wants::Holder, r#"{"starts": []}"#),
    post("/v1/heartbeats", Wants::Holder, r#"{"heartbeats": []}"#),
    post("/v1/tasks/{taskId}/started", Wants::Token, CALL),
    post("/v1/tasks/{taskId}/heartbeat", Wants::Token, CALL),
    post("/v1/tasks/{taskId}/checkpoints", Wants::Token, CALL),
    row("GET", "/v1/tasks/{taskId}/checkpoints", Wants::Token),
    post("/v1/tasks/{taskId}/completed", Wants::Token, REPORT),
    post("/v1/keys", ADMIN, r#"{"roles": ["client"]}"#),
    row("GET", "/v1/keys", ADMIN),
    post("/v1/keys/{keyId}/rotate", ADMIN, r#"{"overlapMs": 0}"#),
    row("POST", "/v1/keys/{keyId}/revoke", ADMIN),
    post("/v1/signing-keys/rotate", Wants::RootAdmin, "{}"),
    row("GET", "/v1/session", Wants::AnyKey),
    row("POST", "/v1/console-codes", Wants::AnyKey),
    row("GET", "/v1/audit", Wants::Audit),
    row("GET", "/v1/audit/verify", Wants::RootAudit),
    row("GET", "/v1/limits", Wants::Audit),
    row("GET", "/v1/set-aside", Wants::RootAudit),
    post("/v1/limits", Wants::RootAdmin, r#"{"tenantId": "acme", "unfinishedRuns": 0}"#),
    row("GET", "/v1/budgets", Wants::Audit),
    post("/v1/budgets", Wants::RootAdmin, r#"{"tenantId": "acme", "tokens": 5}"#),
];

impl Row {
    /// The kind of object that the path names.
    fn object(&self) -> Option<&'static str> {
        ["{runId}", "{taskId}", "{keyId}"].into_iter().find(|name| self.path.contains(name))
    }
}

/// Whose object a call names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Own,
    OtherWorkspace,
    OtherTenant,
    Nobodys,
}

const WHOSE: [Whose; 4] = [Whose::Own, Whose::OtherWorkspace, Whose::OtherTenant, Whose::Nobodys];

/// One object of each kind in one scope, each with a text that no other scope may see.
struct Objects {
    key: String,
    run: String,
    lease: Lease,
    /// Of a task that no cell is about.
    other: Lease,
    victim: String,
    canary: String,
}

struct Principal {
    name: &'static str,
    credential: Option<String>,
    is: Is,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Is {
    /// Without a valid key: none, a made-up one, or one of another class.
    Nobody,
    /// A key that was revoked, rotated or has expired.
    EndedKey,
    Key(Role),
    /// A key that is limited to a queue without tasks.
    Limited(Role),
    /// The token of a task in the own scope.
    Token,
}

struct Scene {
    objects: BTreeMap<&'static str, Objects>,
    principals: Vec<Principal>,
}

const OWN: &str = "acme/main";
const LAB: &str = "acme/lab";
const RIVAL: &str = "rival/main";

impl Scene {
    async fn set(api: &TestServer) -> Self {
        let mut objects = BTreeMap::new();
        for scope in [OWN, LAB, RIVAL] {
            objects.insert(scope, Objects::make(api, scope).await);
        }
        let mut principals = Vec::new();
        let mut add = |name, is, credential: Option<String>| {
            principals.push(Principal { name, credential, is });
        };
        add("nobody", Is::Nobody, None);
        let unknown = NewKey::generate(&mut SeededEntropy::new(99), Scope::default(), &Role::ALL);
        add("a key that we never made", Is::Nobody, Some(unknown.text().to_owned()));
        add("a typing mistake", Is::Nobody, Some(format!("{}0", objects[OWN].key)));
        for (name, role) in [
            ("a client", Role::Client),
            ("a worker", Role::Worker),
            ("an admin", Role::Admin),
            ("a reader", Role::Reader),
            ("an approver", Role::Approver),
        ] {
            let key = make_key(api, OWN, json!([role.name()])).await.1;
            add(name, Is::Key(role), Some(key));
        }
        for (name, role) in [
            ("a client of another queue", Role::Client),
            ("a reader of another queue", Role::Reader),
        ] {
            let key = make_limited_key(api, OWN, json!([role.name()]), json!(["nothing"])).await.1;
            add(name, Is::Limited(role), Some(key));
        }
        for name in ["revoked", "rotated away", "expired"] {
            add(name, Is::EndedKey, Some(ended_key(api, name).await));
        }
        add("the task's token", Is::Token, Some(objects[OWN].lease.token.clone()));
        let token = |scope| Some(objects[scope].other.token.clone());
        add("another task's token", Is::Nobody, token(OWN));
        add("another workspace's token", Is::Nobody, token(LAB));
        add("another tenant's token", Is::Nobody, token(RIVAL));
        Self { objects, principals }
    }
}

async fn make_key(api: &TestServer, scope: &str, roles: Value) -> (String, String) {
    make_limited_key(api, scope, roles, Value::Null).await
}

async fn make_limited_key(
    api: &TestServer,
    scope: &str,
    roles: Value,
    queues: Value,
) -> (String, String) {
    let (tenant, workspace) = scope.split_once('/').unwrap();
    let wanted = json!({"roles": roles, "tenantId": tenant, "workspaceId": workspace,
        "queues": queues});
    let made = api.post("/v1/keys", &api.admin_key, wanted).await;
    let id = made.body["key"]["keyId"].as_str().unwrap_or_else(|| panic!("{made:?}"));
    (id.to_owned(), made.text("secret"))
}

/// A key with every role of the own scope, which is no longer valid.
async fn ended_key(api: &TestServer, how: &str) -> String {
    let (id, secret) = make_key(api, OWN, json!(["client", "worker", "admin"])).await;
    let path = |verb: &str| format!("/v1/keys/{id}/{verb}");
    match how {
        "revoked" => api.post(&path("revoke"), &api.admin_key, json!({})).await.ok(),
        "rotated away" => {
            api.post(&path("rotate"), &api.admin_key, json!({"overlapMs": 0})).await.ok()
        }
        _ => {
            let now = api.get("/v1/runs/run_x").await.text("serverTime");
            let now: wire::Time = serde_json::from_value(json!(now)).unwrap();
            let end = wire::Time::from_ms(now.as_ms() + 1000);
            let wanted = json!({"roles": ["client", "worker", "admin"], "tenantId": "acme",
                "workspaceId": "main", "expiresAt": end});
            let made = api.post("/v1/keys", &api.admin_key, wanted).await;
            api.clock.advance(seconds(1));
            return made.text("secret");
        }
    };
    secret
}

impl Objects {
    async fn make(api: &TestServer, scope: &str) -> Self {
        let (_, key) = make_key(api, scope, json!(["client", "worker", "admin"])).await;
        let canary = format!("canary-{}", scope.replace('/', "-"));
        let wanted = json!({"goal": canary, "input": {"word": canary}, "leaseMs": 86_400_000,
            "labels": {"word": canary}});
        let mut leases = Vec::new();
        for _ in 0..2 {
            api.post("/v1/runs", &key, run(wanted.clone())).await.ok();
            let poll = json!({"workerId": "w1", "queues": ["q"], "max": 1});
            leases.extend(api.post("/v1/leases", &key, poll).await.leases());
        }
        let (other, lease) = (leases.pop().unwrap(), leases.pop().unwrap());
        let run = lease.run.clone();
        let (victim, _) = make_key(api, scope, json!(["client"])).await;
        Self { key, run, lease, other, victim, canary }
    }

    /// The object as its owner sees it, without the time of the request.
    async fn seen(&self, api: &TestServer) -> Value {
        let mut seen = api.get_as(&format!("/v1/runs/{}", self.run), &self.key).await.ok();
        for beside in ["serverTime", "refused"] {
            seen.as_object_mut().unwrap().remove(beside);
        }
        seen
    }
}

/// The expected answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Admitted,
    Problem(u16, &'static str),
}

fn expected(row: &Row, is: Is, whose: Whose) -> Expected {
    match (row.wants, is) {
        (Wants::Nobody, _) => Expected::Admitted,
        (Wants::Token, Is::Token) if whose == Whose::Own => Expected::Admitted,
        (Wants::Token, _) => Expected::Problem(401, "invalid_token"),
        (Wants::Holder, Is::EndedKey | Is::Key(Role::Worker)) => Expected::Admitted,
        (_, Is::Nobody | Is::Token | Is::EndedKey) => Expected::Problem(401, "unauthenticated"),
        (Wants::RootAdmin | Wants::RootAudit, _) => Expected::Problem(403, "forbidden"),
        (wants, Is::Key(role) | Is::Limited(role)) if !wants.admits(role) => {
            Expected::Problem(403, "forbidden")
        }
        (Wants::Audit | Wants::Approvals | Wants::ReadAll, Is::Limited(_)) => {
            Expected::Problem(403, "forbidden")
        }
        (_, Is::Limited(_)) if row.object().is_some() => Expected::Problem(404, "run_not_found"),
        // No candidate is looked up by queue.
        (Wants::Read, Is::Limited(_)) if row.path.starts_with("/v1/recovery/candidates") => {
            Expected::Problem(403, "forbidden")
        }
        // No list of schedules is by queue; the schedule that the path names does not exist.
        (_, Is::Limited(_)) if row.path == "/v1/schedules" => Expected::Problem(403, "forbidden"),
        (_, Is::Limited(_)) if row.path.contains("{schedule}") => Expected::Admitted,
        // The queue that the body names.
        (Wants::Key(_), Is::Limited(_)) => Expected::Problem(403, "forbidden"),
        (_, Is::Limited(_)) => Expected::Admitted,
        (_, Is::Key(_)) => reached(row, whose),
    }
}

impl Wants {
    fn admits(self, role: Role) -> bool {
        match self {
            Wants::Key(wanted) => wanted == role,
            Wants::Holder => role == Role::Worker,
            Wants::Read | Wants::ReadAll => matches!(role, Role::Client | Role::Reader),
            Wants::Audit => matches!(role, Role::Admin | Role::Reader),
            Wants::Decide => matches!(role, Role::Approver | Role::Admin),
            Wants::Approvals => role != Role::Worker,
            Wants::AnyKey => true,
            Wants::Nobody | Wants::RootAdmin | Wants::RootAudit | Wants::Token | Wants::RoleKey => {
                false
            }
        }
    }
}

/// Administrators reach their tenant, all others their workspace.
fn reached(row: &Row, whose: Whose) -> Expected {
    match (row.object(), whose) {
        (None, _) | (Some(_), Whose::Own) => Expected::Admitted,
        (Some("{keyId}"), Whose::OtherWorkspace) => Expected::Admitted,
        (Some("{keyId}"), _) => Expected::Problem(404, "key_not_found"),
        (Some(_), _) => Expected::Problem(404, "run_not_found"),
    }
}

/// The id of an effect that does not exist.
pub(super) fn no_effect() -> String {
    format!("eff_{}", "0".repeat(64))
}

impl Scene {
    fn path(&self, row: &Row, whose: Whose) -> String {
        let objects = match whose {
            Whose::Own => Some(&self.objects[OWN]),
            Whose::OtherWorkspace => Some(&self.objects[LAB]),
            Whose::OtherTenant => Some(&self.objects[RIVAL]),
            Whose::Nobodys => None,
        };
        let none = "00000000000000000000000000";
        let (run, task, key) = match objects {
            Some(it) => (it.run.clone(), it.lease.task.clone(), it.victim.clone()),
            None => (format!("run_{none}"), format!("task_{none}"), none[..16].to_owned()),
        };
        let path = row.path.replace("{runId}", &run).replace("{taskId}", &task);
        let path = path.replace("{queue}", "nothing").replace("{schedule}", "nothing");
        let path = path.replace("{policy}", "nothing").replace("{candidate}", "rec_0");
        let path = path.replace("{deployment}", "nothing").replace("{type}", "nothing");
        let path = path.replace("{artifact}", "nothing").replace("{role}", "nothing");
        let path = path.replace("{approvalId}", &format!("appr_{none}-1"));
        let path = path.replace("{endpoint}", "nothing").replace("{effectId}", &no_effect());
        path.replace("{keyId}", &key).replace("{page}", "task-expired")
    }

    async fn ask(
        &self,
        api: &TestServer,
        row: &Row,
        principal: &Principal,
        whose: Whose,
    ) -> Response {
        let mut request = api.request(row.method, &self.path(row, whose));
        if let Some(credential) = &principal.credential {
            request = request.bearer_auth(credential);
        }
        // An admitted call must not change what the next cells read: its body is then no JSON, which only an
        // admitted caller learns.
        let is_admitted = expected(row, principal.is, whose) == Expected::Admitted;
        if let Some(body) = row.body {
            let body = if is_admitted { "not json" } else { body };
            request = request.header("content-type", "application/json").body(body);
        }
        api.send(request).await
    }
}

/// Neither refused nor reported as missing. A running run has no record yet, which is no secret to its owner.
fn is_admitted(got: &Response) -> bool {
    let missing = ["run_not_found", "task_not_found", "key_not_found"];
    ![401, 403].contains(&got.status) && !missing.iter().any(|code| got.body["error"] == *code)
}

/// The answer without the parts that always differ, and without the caller's own input.
fn comparable(got: &Response) -> (u16, String, Value, BTreeSet<String>) {
    let mut body = got.body.clone();
    for member in ["requestId", "serverTime"] {
        body.as_object_mut().unwrap().remove(member);
    }
    let headers = got.headers.keys().map(|name| name.to_string()).collect();
    (got.status, got.kind.clone(), body, headers)
}

#[tokio::test]
async fn every_route_answers_every_principal_about_every_object_as_it_must() {
    for api in both().await {
        // X05, X10, X12, X13: off the diagonal everything is refused, and other tenants' objects appear missing.
        let scene = Scene::set(&api).await;
        let (lab, rival) = (&scene.objects[LAB], &scene.objects[RIVAL]);
        let before = (lab.seen(&api).await, rival.seen(&api).await);
        for row in ROWS {
            for principal in &scene.principals {
                let mut refused = Vec::new();
                let whose = if row.object().is_some() { &WHOSE[..] } else { &WHOSE[..1] };
                for whose in whose {
                    let cell =
                        format!("{} {}, {}, {whose:?}", row.method, row.path, principal.name);
                    let got = scene.ask(&api, row, principal, *whose).await;
                    match expected(row, principal.is, *whose) {
                        Expected::Admitted => {
                            assert!(is_admitted(&got), "{cell}: {got:?}");
                        }
                        Expected::Problem(status, code) => {
                            let (found, error) = (got.status, &got.body["error"]);
                            assert_eq!((found, error), (status, &json!(code)), "{cell}: {got:?}");
                            refused.push((cell.clone(), comparable(&got)));
                        }
                    }
                    let text = got.body.to_string();
                    for foreign in [lab, rival] {
                        assert!(!text.contains(&foreign.canary), "{cell}: {text}");
                    }
                }
                for (cell, answer) in refused.get(1..).unwrap_or_default() {
                    assert_eq!(*answer, refused[0].1, "{cell} must look like {}", refused[0].0);
                }
            }
        }
        assert_eq!((lab.seen(&api).await, rival.seen(&api).await), before);
        assert_eq!(scene.objects[OWN].seen(&api).await["state"], "running");
    }
}

#[tokio::test]
async fn every_described_route_has_a_row() {
    for api in both().await {
        // X10, X13: a new route cannot be forgotten.
        let document = api.get("/openapi.json").await.ok();
        let mut described = BTreeSet::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for method in methods.as_object().unwrap().keys() {
                described.insert((method.to_uppercase(), path.clone()));
            }
        }
        let rows: BTreeSet<_> =
            ROWS.iter().map(|row| (row.method.to_owned(), row.path.to_owned())).collect();
        assert_eq!(described, rows);
    }
}

#[tokio::test]
async fn an_item_of_a_batch_opens_no_more_than_a_single_call() {
    for api in both().await {
        // X05, X13: other tenants' tasks, their tokens and mixes of them, in batches.
        let scene = Scene::set(&api).await;
        let [own, lab, rival] = [OWN, LAB, RIVAL].map(|scope| &scene.objects[scope]);
        let item = |task: &str, token: &str| json!({"taskId": task, "taskToken": token, "attempt": 1, "workerId": "w1"});
        let missing = "task_00000000000000000000000000";
        let mixes: Vec<(&str, &str)> = [own, lab, rival]
            .into_iter()
            .flat_map(|token| {
                let tasks = [own, lab, rival].map(|it| it.lease.task.as_str());
                tasks.into_iter().chain([missing]).map(|task| (task, token.lease.token.as_str()))
            })
            .filter(|(task, token)| (*task, *token) != (&own.lease.task, &own.lease.token))
            .collect();
        let before = (own.seen(&api).await, lab.seen(&api).await, rival.seen(&api).await);
        for (route, member) in [
            ("/v1/reports", "reports"),
            ("/v1/starts", "starts"),
            ("/v1/heartbeats", "heartbeats"),
            ("/v1/checkpoints", "checkpoints"),
        ] {
            let items = mixes.iter().map(|(task, token)| {
                let mut item = item(task, token);
                if member == "reports" {
                    item["outcome"] = json!("SUCCEEDED");
                }
                item
            });
            let body = json!({member: items.collect::<Vec<_>>()});
            let answers = api.post(route, &own.key, body).await.ok();
            let answers = answers["answers"].as_array().unwrap();
            assert_eq!(answers.len(), 11);
            for answer in answers {
                assert_eq!(
                    (&answer["status"], &answer["error"]),
                    (&json!(401), &json!("invalid_token"))
                );
                assert_eq!(answer["verdict"], "REJECTED");
            }
        }
        let after = (own.seen(&api).await, lab.seen(&api).await, rival.seen(&api).await);
        assert_eq!(after, before);
    }
}

#[tokio::test]
async fn names_that_others_chose_mean_nothing_here() {
    for api in both().await {
        // X13: idempotency keys, polls, filters and cursors are looked up in the caller's scope only.
        let scene = Scene::set(&api).await;
        let [own, rival] = [OWN, RIVAL].map(|scope| &scene.objects[scope]);
        let submit = async |key: &str| {
            let request = api.request("POST", "/v1/runs").bearer_auth(key);
            let body = json!({"kind": "k", "queue": "other"});
            api.send(request.header("idempotency-key", "the-same").json(&body)).await
        };
        let (theirs, mine) = (submit(&rival.key).await, submit(&own.key).await);
        assert_eq!((theirs.status, mine.status), (201, 201));
        assert_ne!(theirs.text("runId"), mine.text("runId"));
        let poll = json!({"workerId": "w1", "queues": ["other"], "max": 1, "pollId": "p1"});
        let leased = api.post("/v1/leases", &rival.key, poll.clone()).await.leases();
        let other = api.post("/v1/leases", &own.key, poll).await.leases();
        assert_eq!(
            (leased[0].run.clone(), other[0].run.clone()),
            (theirs.text("runId"), mine.text("runId"))
        );
        let page = api.get_as("/v1/runs?limit=1", &rival.key).await.ok();
        let cursor = page["nextCursor"].as_str().unwrap();
        let got = api.get_as(&format!("/v1/runs?limit=1&cursor={cursor}"), &own.key).await;
        got.problem(400, "invalid_argument");
        for filter in ["", "?queue=q", "?label=word=canary-rival-main", "?state=running"] {
            let got = api.get_as(&format!("/v1/runs{filter}"), &own.key).await;
            assert!(!got.body.to_string().contains(&rival.canary), "{filter}: {got:?}");
        }
        let wanted = json!({"roles": ["client"], "tenantId": "rival", "workspaceId": "main"});
        api.post("/v1/keys", &own.key, wanted).await.problem(403, "forbidden");
    }
}
