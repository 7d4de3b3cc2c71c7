//! Deployments over HTTP: a topology is put in force, artifacts are moved by those who may, events become work orders, workers
//! execute them, gates judge them, and people are told what to do next.

use serde_json::{Value, json};

use super::test_server::{Lease, TestServer, both};

/// How often a condition is looked at before a test gives up.
const LOOKS_MAX: usize = 3_000;

pub(super) const EXECUTION: &str = include_str!("../../../../../topologies/execution.yaml");

/// Every name is invented, and nothing in it occurs in a shipped topology.
pub(super) const BAKERY: &str = "
topology: bakery
artifacts:
  dough:
    statuses: [mixed, risen, in-oven, bread, crumbs]
    initial: mixed
    final: [bread, crumbs]
    transitions:
      - {from: mixed, to: risen, by: person}
      - {from: risen, to: in-oven, by: 'role:oven-keeper'}
      - {from: in-oven, to: bread, by: 'role:taster'}
      - {from: in-oven, to: risen, by: 'role:taster'}
      - {from: risen, to: crumbs, by: person}
  receipt: {statuses: [printed], initial: printed, final: [printed]}
events:
  dough-risen: {on: transition, artifact: dough, status: risen}
  closing-time: {on: request}
tracks:
  hot: {serial: oven}
  cold: {serial: oven, after: [hot]}
workOrders:
  bake: {kind: baker, queue: kitchen, budget: {time: 1h}, gate: crust}
  tidy: {kind: broom, queue: kitchen, budget: {time: 10m}, gate: floor}
gates:
  crust:
    checks: [{name: golden, require: {path: output.colour, op: in, value: [golden, brown]}}]
    pass: {to: bread, creates: {artifact: receipt, from: output}, actions: [Sell it.]}
    fail: {to: risen, actions: [Check the oven.]}
  floor:
    checks: [{name: clean, require: {path: output.crumbs, op: at-most, value: 0}}]
    pass: {actions: [Go home.]}
    fail: {actions: [Sweep again.]}
roles:
  nose: {uses: readiness, emits: [dough-risen]}
  oven-keeper: {uses: scheduler, event: dough-risen, workOrder: bake, to: in-oven, track: hot}
  janitor: {uses: scheduler, event: closing-time, workOrder: tidy, track: cold, lists: [{artifact: dough, atMost: 5}]}
  hands: {uses: runner, workOrders: [bake, tidy]}
  taster: {uses: gate, workOrders: [bake, tidy]}
limits: {executors: 1, cycles: 2}
";

fn declaration(yaml: &str) -> Value {
    let topology = topology::read(yaml).unwrap();
    serde_json::to_value(topology.declaration()).unwrap()
}

pub(super) async fn apply(api: &TestServer, name: &str, yaml: &str) -> Value {
    let body = json!({"topology": declaration(yaml)});
    api.post(&format!("/v1/deployments/{name}"), &api.admin_key, body).await.ok()
}

pub(super) async fn artifact(api: &TestServer, path: &str) -> Value {
    api.get(&format!("/v1/deployments/{path}")).await.ok()
}

pub(super) async fn until(api: &TestServer, path: &str, is_it: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    for _ in 0..LOOKS_MAX {
        last = artifact(api, path).await;
        if is_it(&last) {
            return last;
        }
        tokio::task::yield_now().await;
    }
    panic!("{path} never came to that: {last}");
}

pub(super) async fn orders(api: &TestServer, name: &str) -> Vec<Value> {
    let found = api.get(&format!("/v1/deployments/{name}/workorders")).await.ok();
    found["workOrders"].as_array().unwrap().clone()
}

/// The lease of the next work order that an executor of this queue gets.
pub(super) async fn executor(api: &TestServer, queue: &str) -> Lease {
    let poll = json!({"workerId": "w1", "queues": [queue], "max": 1, "waitMs": 20_000});
    let mut leases = api.post("/v1/leases", &api.key, poll).await.leases();
    assert_eq!(leases.len(), 1, "one work order is ready in {queue}");
    leases.remove(0)
}

pub(super) async fn executed(api: &TestServer, queue: &str, output: Value) -> Lease {
    let lease = executor(api, queue).await;
    api.complete(&lease, json!({"outcome": "SUCCEEDED", "output": output})).await.ok();
    lease
}

pub(super) fn ticket() -> Value {
    json!({"title": "t", "acceptance_criteria": ["c"], "objective_type": "TICKET",
        "importance": 1, "urgency": 1})
}

pub(super) fn patch() -> Value {
    json!({"title": "p", "content": "diff", "metadata": {"applies_cleanly": true,
        "branch_name": "b", "commit_sha": "s", "pr_description_draft": "d"}})
}

pub(super) async fn approved_ticket(api: &TestServer, id: &str) {
    let path = "/v1/deployments/execution/artifacts/objective";
    let made = api.post(path, &api.key, json!({"id": id, "fields": ticket()})).await;
    assert_eq!((made.status, &made.body["status"]), (201, &json!("NEW")), "{made:?}");
    let path = format!("{path}/{id}/approve");
    api.post(&path, &api.admin_key, json!({"to": "TODO"})).await.ok();
}

#[tokio::test]
async fn a_ticket_becomes_a_patch_that_a_person_confirms() {
    // S0-12, S0-13, S0-14, S0-15, S0-16, S0-18, S0-19, S0-21, S0-25, S0-26, S0-27, W-28, R-26
    for api in both().await {
        apply(&api, "execution", EXECUTION).await;
        approved_ticket(&api, "T-1").await;
        let lease = executor(&api, "patch").await;
        let at_work = artifact(&api, "execution/artifacts/objective/T-1").await;
        assert_eq!(at_work["status"], "IN_PROGRESS");
        assert_eq!(at_work["reservedBy"], "wo/TICKET_READY/objective/T-1/2");
        let snapshot = &lease.envelope["input"];
        assert_eq!(snapshot["artifacts"][0]["fields"]["title"], "t");
        // S0-30…S0-35, R-39: the claim of the runner is that of the work order, with its six fields.
        let claims = api.get("/v1/deployments/execution/claims").await.ok();
        let claim = &claims["claims"][0];
        assert_eq!(claim["resource_type"], "WORKORDER");
        assert_eq!(claim["resource_id"], "wo/TICKET_READY/objective/T-1/2");
        assert_eq!(claim["owner_id"], "w1");
        assert!(claim["claim_version"].as_u64().unwrap() >= 1, "{claim}");
        let mut members: Vec<&String> = claim.as_object().unwrap().keys().collect();
        members.sort();
        assert_eq!(
            members,
            [
                "claim_version",
                "heartbeat_at",
                "lease_expires_at",
                "owner_id",
                "resource_id",
                "resource_type"
            ]
        );
        api.complete(&lease, json!({"outcome": "SUCCEEDED", "output": patch()})).await.ok();
        let path = "execution/artifacts/objective/T-1";
        let passed = until(&api, path, |it| it["passed"].is_string()).await;
        assert_eq!(passed["status"], "IN_PROGRESS", "a pass is no confirmation");
        let made = orders(&api, "execution").await;
        assert_eq!((made.len(), &made[0]["state"]), (1, &json!("passed")));
        assert_eq!(made[0]["record"]["gateResult"], "PASS");
        let run = api.get(&format!("/v1/runs/{}", made[0]["runId"].as_str().unwrap())).await.ok();
        assert_eq!((&run["state"], &run["output"]["execute"]), (&json!("succeeded"), &patch()));
        let events = api.get("/v1/runs?kind=TICKET_READY").await.ok();
        let event = format!("/v1/runs/{}", events["runs"][0]["runId"].as_str().unwrap());
        let event = api.get(&event).await.ok();
        assert_eq!(event["output"]["terminalReason"], "SCHEDULED");
        let pauses = api.get("/v1/deployments/execution/pause-states?state=open").await.ok();
        assert_eq!(pauses["pauseStates"][0]["reason"], "RUN_COMPLETE");
        let done = format!("/v1/deployments/{path}/transition");
        let done = api.post(&done, &api.key, json!({"to": "DONE"})).await.ok();
        assert_eq!(done["status"], "DONE");
    }
}

#[tokio::test]
async fn a_gate_that_fails_names_its_reasons_and_stops_after_the_declared_cycles() {
    // W-23, W-26, S0-10, S0-52
    for api in both().await {
        apply(&api, "execution", EXECUTION).await;
        approved_ticket(&api, "T").await;
        for _ in 0..3 {
            executed(&api, "patch", json!({"title": "p", "content": "", "metadata": {}})).await;
        }
        let path = "execution/artifacts/objective/T";
        let halted = until(&api, path, |it| it["cycles"] == 3 && it["status"] == "TODO").await;
        assert_eq!(halted["reservedBy"], Value::Null);
        let made = orders(&api, "execution").await;
        assert_eq!(made.len(), 3);
        let reasons = made[0]["record"]["gateReasons"].as_array().unwrap();
        assert!(reasons.iter().any(|it| it["check"] == "applies-cleanly"), "{reasons:?}");
        let run = api.get(&format!("/v1/runs/{}", made[0]["runId"].as_str().unwrap())).await.ok();
        assert_eq!(run["state"], "failed");
        let pauses = api.get("/v1/deployments/execution/pause-states").await.ok();
        let pauses = pauses["pauseStates"].as_array().unwrap();
        let reasons: Vec<&str> = pauses.iter().map(|it| it["reason"].as_str().unwrap()).collect();
        assert_eq!(reasons, ["GATE_FAILED", "GATE_FAILED", "GATE_FAILED", "HALTED"]);
        assert!(pauses.iter().all(|it| (1..=3).contains(&it["actions"].as_array().unwrap().len())));
        let id = pauses[3]["id"].clone();
        let close = "/v1/deployments/execution/pause-states/close";
        api.post(close, &api.key, json!({"id": id})).await.ok();
        let open = api.get("/v1/deployments/execution/pause-states?state=open").await.ok();
        assert_eq!(open["pauseStates"].as_array().unwrap().len(), 3);
    }
}

#[tokio::test]
async fn an_executor_that_raises_ends_at_the_gate() {
    // W-26, S0-51
    for api in both().await {
        apply(
            &api,
            "execution",
            &EXECUTION.replace("gate: patch\n", "gate: patch\n    attempts: 1\n"),
        )
        .await;
        approved_ticket(&api, "T").await;
        let lease = executor(&api, "patch").await;
        let error = json!({"category": "USER_CODE", "message": "boom"});
        api.complete(&lease, json!({"outcome": "FAILED", "error": error})).await.ok();
        let path = "execution/artifacts/objective/T";
        until(&api, path, |it| it["cycles"] == 2).await;
        let made = orders(&api, "execution").await;
        let record = &made[0]["record"];
        assert_eq!(record["executionStatus"], "FAILED", "{made:?}");
        assert!(record["gateReasons"][0]["message"].as_str().unwrap().contains("boom"));
    }
}

#[tokio::test]
async fn a_blocked_ticket_makes_no_work_order_and_says_what_to_do() {
    for api in both().await {
        apply(&api, "execution", EXECUTION).await;
        let blocker = json!({"blocker_id": "b", "kind": "USER_INPUT", "description": "d",
            "resolved": false});
        let mut fields = ticket();
        fields["blocked_on"] = json!([blocker]);
        let path = "/v1/deployments/execution/artifacts/objective";
        api.post(path, &api.key, json!({"id": "T", "fields": fields})).await;
        api.post(&format!("{path}/T/approve"), &api.admin_key, json!({"to": "TODO"})).await.ok();
        until(&api, "execution/artifacts/objective/T", |it| it["status"] == "BLOCKED").await;
        assert!(orders(&api, "execution").await.is_empty());
        let pauses = api.get("/v1/deployments/execution/pause-states").await.ok();
        assert_eq!(pauses["pauseStates"][0]["reason"], "BLOCKED");
        // A person resolves it and moves the ticket on.
        fields["blocked_on"][0]["resolved"] = json!(true);
        let to = json!({"to": "TODO", "fields": fields});
        api.post(&format!("{path}/T/transition"), &api.key, to).await.ok();
        executed(&api, "patch", patch()).await;
    }
}

#[tokio::test]
async fn an_invented_topology_runs_and_its_serial_tracks_take_turns() {
    // S0-1, S0-4, S0-6, S1-7, S1-12, S1-17, S1-18, S1-31, S1-32, R-33: no name of it is known to the code.
    for api in both().await {
        apply(&api, "bakery", BAKERY).await;
        let dough = "/v1/deployments/bakery/artifacts/dough";
        for id in ["a", "b"] {
            api.post(dough, &api.key, json!({"id": id})).await;
        }
        let request = json!({"type": "closing-time", "key": "today"});
        let path = format!("{dough}/a/transition");
        api.post(&path, &api.key, json!({"to": "risen"})).await.ok();
        let first = executor(&api, "kitchen").await;
        let path = "/v1/deployments/bakery/events";
        let asked = api.post(path, &api.key, request.clone()).await;
        let again = api.post(path, &api.key, request).await;
        assert_eq!(asked.body, again.body, "the same key is the same event");
        let path = format!("{dough}/b/transition");
        api.post(&path, &api.key, json!({"to": "risen"})).await.ok();
        assert_eq!(orders(&api, "bakery").await.len(), 1, "one work order of the oven is active");
        api.complete(&first, json!({"outcome": "SUCCEEDED", "output": {"colour": "golden"}})).await;
        let second = executor(&api, "kitchen").await;
        assert_eq!(second.envelope["kind"], "baker", "the track that goes first goes first");
        api.complete(&second, json!({"outcome": "SUCCEEDED", "output": {"colour": "pale"}})).await;
        let third = executor(&api, "kitchen").await;
        assert_eq!(third.envelope["kind"], "baker", "a failed gate enters the status again");
        api.complete(&third, json!({"outcome": "SUCCEEDED", "output": {"colour": "brown"}})).await;
        let last = executor(&api, "kitchen").await;
        assert_eq!(last.envelope["kind"], "broom");
        let listed = &last.envelope["input"]["lists"][0]["found"];
        assert_eq!(listed.as_array().unwrap().len(), 2, "{listed}");
        api.complete(&last, json!({"outcome": "SUCCEEDED", "output": {"crumbs": 0}})).await;
        for id in ["a", "b"] {
            let path = format!("bakery/artifacts/dough/{id}");
            until(&api, &path, |it| it["status"] == "bread").await;
        }
        let receipts = api.get("/v1/deployments/bakery/artifacts/receipt").await.ok();
        assert_eq!(receipts["artifacts"].as_array().unwrap().len(), 2);
    }
}

#[tokio::test]
async fn an_artifact_moves_only_as_declared_and_only_by_those_who_may() {
    // S0-8, S0-57
    for api in both().await {
        apply(&api, "execution", EXECUTION).await;
        let path = "/v1/deployments/execution/artifacts/objective";
        let refused = api.post(path, &api.key, json!({"id": "T", "fields": {"title": 1}})).await;
        refused.problem(400, "invalid_argument");
        api.post(path, &api.key, json!({"id": "T", "fields": ticket()})).await;
        let again = api.post(path, &api.key, json!({"id": "T", "fields": ticket()})).await;
        again.problem(409, "artifact_exists");
        let unknown = "/v1/deployments/execution/artifacts/nonsense";
        api.post(unknown, &api.key, json!({"id": "T"})).await.problem(400, "invalid_argument");
        let moved = format!("{path}/T/transition");
        let by_client = api.post(&moved, &api.client_key, json!({"to": "TODO"})).await;
        by_client.problem(409, "transition_not_allowed");
        assert!(by_client.body["message"].as_str().unwrap().contains("is an approval"));
        let jump = api.post(&moved, &api.key, json!({"to": "DONE"})).await;
        jump.problem(409, "transition_not_allowed");
        let stale = json!({"to": "TODO", "revision": 7});
        let stale = api.post(&format!("{path}/T/approve"), &api.admin_key, stale).await;
        stale.problem(409, "artifact_changed");
        let nobody = format!("{path}/U/approve");
        let nobody = api.post(&nobody, &api.admin_key, json!({"to": "TODO"})).await;
        nobody.problem(404, "artifact_not_found");
        let elsewhere = "/v1/deployments/none/artifacts/objective";
        api.post(elsewhere, &api.key, json!({"id": "T"}))
            .await
            .problem(404, "deployment_not_found");
        // What the scheduler owns is not moved by people, and not while it is worked on.
        api.post(&format!("{path}/T/approve"), &api.admin_key, json!({"to": "TODO"})).await.ok();
        executor(&api, "patch").await;
        let held = api.post(&moved, &api.key, json!({"to": "DONE"})).await;
        held.problem(409, "transition_not_allowed");
        assert!(held.body["message"].as_str().unwrap().contains("is being worked on"));
    }
}

#[tokio::test]
async fn a_version_that_has_no_place_for_what_is_there_is_refused() {
    for api in both().await {
        let first = apply(&api, "execution", EXECUTION).await;
        let same = apply(&api, "execution", EXECUTION).await;
        assert_eq!(first, same, "the same version changes nothing");
        approved_ticket(&api, "T").await;
        let lease = executor(&api, "patch").await;
        let without = EXECUTION.replace("IN_PROGRESS", "AT_WORK");
        let body = json!({"topology": declaration(&without)});
        let path = "/v1/deployments/execution";
        let plan = api.post(&format!("{path}/plan"), &api.key, body.clone()).await.ok();
        assert_eq!(plan["inFlight"], 1);
        assert_eq!(plan["obstacles"].as_array().unwrap().len(), 1, "{plan}");
        let refused = api.post(path, &api.admin_key, body).await;
        refused.problem(409, "deployment_conflict");
        assert!(refused.body["message"].as_str().unwrap().contains("IN_PROGRESS"));
        // A version that has everything is put in force, and the work order ends under its own.
        let stricter = EXECUTION.replace("name: has-a-patch", "name: has-any-patch");
        let second = apply(&api, "execution", &stricter).await;
        assert_ne!(first["version"], second["version"]);
        let output = json!({"title": "p", "content": "", "metadata": {}});
        api.complete(&lease, json!({"outcome": "SUCCEEDED", "output": output})).await.ok();
        until(&api, "execution/workorders", |it| it["workOrders"][0]["state"] == "failed").await;
        let made = orders(&api, "execution").await;
        assert_eq!(made[0]["version"], first["version"]);
        let reasons = made[0]["record"]["gateReasons"].to_string();
        assert!(reasons.contains("has-a-patch"), "{reasons}");
    }
}

#[tokio::test]
async fn a_paused_deployment_does_nothing_until_it_is_resumed_and_a_deleted_one_begins_anew() {
    for api in both().await {
        apply(&api, "execution", EXECUTION).await;
        let path = "/v1/deployments/execution";
        let paused = api.post(&format!("{path}/pause"), &api.admin_key, json!({})).await.ok();
        assert_eq!(paused["state"], "paused");
        approved_ticket(&api, "T").await;
        let events = api.get("/v1/runs?kind=TICKET_READY").await.ok();
        assert!(events["runs"].as_array().unwrap().is_empty(), "{events}");
        api.post(&format!("{path}/resume"), &api.admin_key, json!({})).await.ok();
        let lease = executor(&api, "patch").await;
        let deleted = api.post(&format!("{path}/delete"), &api.admin_key, json!({})).await;
        deleted.problem(409, "deployment_conflict");
        api.complete(&lease, json!({"outcome": "SUCCEEDED", "output": patch()})).await.ok();
        let artifact = "execution/artifacts/objective/T";
        until(&api, artifact, |it| it["passed"].is_string()).await;
        api.post(&format!("{path}/delete"), &api.admin_key, json!({})).await.ok();
        api.get(&format!("/v1/deployments/{artifact}")).await.problem(404, "deployment_not_found");
        let anew = apply(&api, "execution", EXECUTION).await;
        assert_eq!(anew["generation"], 2);
        api.get(&format!("/v1/deployments/{artifact}")).await.problem(404, "artifact_not_found");
        approved_ticket(&api, "T").await;
        executed(&api, "patch", patch()).await;
    }
}

#[tokio::test]
async fn a_wrong_topology_is_refused_and_the_names_of_deployments_are_reserved() {
    for api in both().await {
        let mut broken = declaration(EXECUTION);
        broken["roles"]["readiness"]["emits"] = json!(["NOTHING"]);
        let body = json!({"topology": broken});
        let refused = api.post("/v1/deployments/execution", &api.admin_key, body).await;
        refused.problem(400, "invalid_argument");
        assert!(refused.body["message"].as_str().unwrap().contains("NOTHING"), "{refused:?}");
        // No worker takes an event, and no client makes one.
        let poll =
            json!({"workerId": "w", "queues": ["tenure.topology.execution/events"], "max": 1});
        api.post("/v1/leases", &api.key, poll).await.problem(400, "invalid_argument");
        let run = json!({"kind": "k", "queue": "tenure.topology.execution"});
        api.post("/v1/runs", &api.key, run).await.problem(400, "invalid_argument");
    }
}

#[tokio::test]
async fn a_work_order_that_is_cancelled_lets_its_artifact_go() {
    // A0-11: every terminal path writes explicit state.
    for api in both().await {
        apply(&api, "execution", EXECUTION).await;
        approved_ticket(&api, "T").await;
        let lease = executor(&api, "patch").await;
        api.cancel(&lease.run, json!({})).await.ok();
        api.complete(&lease, json!({"outcome": "CANCELLED"})).await.ok();
        let path = "execution/artifacts/objective/T";
        until(&api, "execution/workorders", |it| it["workOrders"][0]["state"] == "failed").await;
        let made = orders(&api, "execution").await;
        assert_eq!(made[0]["record"]["gateResult"], "FAIL");
        let moved = artifact(&api, path).await["transitionNo"].as_u64().unwrap();
        assert!(moved >= 4, "it was let go, and may have been taken again");
    }
}

#[tokio::test]
async fn thousands_of_artifacts_are_listed_page_by_page_and_by_status() {
    let [_, api] = both().await;
    apply(&api, "bakery", BAKERY).await;
    let dough = "/v1/deployments/bakery/artifacts/dough";
    for n in 0..1_200 {
        let id = format!("d{n:04}");
        assert_eq!(api.post(dough, &api.key, json!({"id": id})).await.status, 201);
    }
    let mut cursor = String::new();
    let mut ids = Vec::new();
    loop {
        let page = api.get(&format!("{dough}?limit=500&status=mixed{cursor}")).await.ok();
        let artifacts = page["artifacts"].as_array().unwrap();
        ids.extend(artifacts.iter().map(|it| it["id"].as_str().unwrap().to_owned()));
        match page["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!((ids.len(), ids[0].as_str(), ids[1_199].as_str()), (1_200, "d0000", "d1199"));
    let risen = api.get(&format!("{dough}?status=risen")).await.ok();
    assert!(risen["artifacts"].as_array().unwrap().is_empty());
}

const TASK_MANAGEMENT: &str = include_str!("../../../../../topologies/task-management.yaml");

pub(super) async fn pauses(api: &TestServer, name: &str) -> Vec<Value> {
    let found = api.get(&format!("/v1/deployments/{name}/pause-states")).await.ok();
    found["pauseStates"].as_array().unwrap().clone()
}

#[tokio::test]
async fn captures_are_triaged_together_and_a_manifest_asks_other_deployments() {
    // S1-1, S1-8, S1-9, S1-13, S1-14, S1-15, S1-19, S1-21, S1-22, S1-23, S1-30, W-25, W-29
    for api in both().await {
        apply(&api, "execution", EXECUTION).await;
        let mut blocked = ticket();
        blocked["blocked_on"] = json!([{"blocker_id": "b", "kind": "USER_INPUT",
            "description": "d", "resolved": false}]);
        let path = "/v1/deployments/execution/artifacts/objective";
        api.post(path, &api.key, json!({"id": "T", "fields": blocked})).await;
        api.post(&format!("{path}/T/approve"), &api.admin_key, json!({"to": "TODO"})).await.ok();
        until(&api, "execution/pause-states", |it| it["pauseStates"][0].is_object()).await;

        apply(&api, "tasks", TASK_MANAGEMENT).await;
        // Captures that arrive while nobody looks are taken together.
        api.post("/v1/deployments/tasks/pause", &api.admin_key, json!({})).await.ok();
        let captures = "/v1/deployments/tasks/artifacts/capture_buffer";
        for id in ["a", "b", "c"] {
            let fields = json!({"raw_content": "x", "source_label": "y"});
            api.post(captures, &api.key, json!({"id": id, "fields": fields})).await;
        }
        api.post("/v1/deployments/tasks/resume", &api.admin_key, json!({})).await.ok();
        let event = json!({"type": "MANIFEST_REQUESTED", "key": "k"});
        let lease = executor(&api, "triage").await;
        api.post("/v1/deployments/tasks/events", &api.key, event).await;
        let ids = |lease: &Lease| {
            let taken = lease.envelope["input"]["artifacts"].as_array().unwrap().clone();
            taken.iter().map(|it| it["id"].clone()).collect::<Vec<_>>()
        };
        let taken = ids(&lease);
        assert_eq!(taken.len(), 3, "{taken:?}");
        let output = json!({"content": {"title": "t", "acceptance_criteria": ["c"]},
            "metadata": {"capture_ids": taken}});
        api.complete(&lease, json!({"outcome": "SUCCEEDED", "output": output})).await.ok();
        let lease = executor(&api, "manifest").await;
        let answers = lease.envelope["input"]["answers"].as_array().unwrap();
        assert_eq!(answers.len(), 1, "every other deployment is asked: {answers:?}");
        assert_eq!(
            (&answers[0]["target"], &answers[0]["status"]),
            (&json!("execution"), &json!("OK"))
        );
        assert_eq!(answers[0]["results"][0]["reason"], "BLOCKED");
        for id in ["a", "b", "c"] {
            let path = format!("tasks/artifacts/capture_buffer/{id}");
            assert_eq!(artifact(&api, &path).await["status"], "PROCESSED");
        }
        let manifest = json!({"queried_azolla_ids": ["execution"], "pause_state_summary": [],
            "prioritized_orientation": ["Unblock the ticket."]});
        let output = json!({"manifest": manifest});
        api.complete(&lease, json!({"outcome": "SUCCEEDED", "output": output})).await.ok();
        let path = "tasks/artifacts/session_manifest";
        let written = until(&api, path, |it| it["artifacts"][0].is_object()).await;
        assert_eq!(written["artifacts"][0]["fields"], manifest);
        let actions: Vec<Value> =
            pauses(&api, "tasks").await.iter().map(|it| it["actions"][0].clone()).collect();
        assert!(actions.contains(&json!("Unblock the ticket.")), "{actions:?}");
        assert_eq!(orders(&api, "tasks").await.len(), 2, "no capture was triaged twice");
    }
}

#[tokio::test]
async fn an_overdue_objective_makes_one_pause_state_however_often_it_is_looked_at() {
    // S1-24, S1-25, S1-26, S1-27, S1-33, W-24
    for api in both().await {
        apply(&api, "tasks", TASK_MANAGEMENT).await;
        let path = "/v1/deployments/tasks/artifacts/objective";
        let objective =
            |urgency: u32| json!({"title": "t", "objective_type": "STANDING", "urgency": urgency});
        api.post(path, &api.key, json!({"id": "now", "fields": objective(0)})).await;
        api.post(path, &api.key, json!({"id": "never", "fields": objective(4)})).await;
        until(&api, "tasks/pause-states", |it| it["pauseStates"][0].is_object()).await;
        for id in ["more", "work"] {
            api.post(path, &api.key, json!({"id": id, "fields": objective(3)})).await;
        }
        let found = pauses(&api, "tasks").await;
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0]["reason"], "DEADLINE_OVERDUE");
        assert_eq!(found[0]["subject"], "objective/now");
        assert_eq!(found[0]["actions"].as_array().unwrap().len(), 2);
    }
}

/// What must be the same wherever a script is played: work orders with their judgements, pause states, and where artifacts end.
type End = std::collections::BTreeMap<String, String>;

fn simulated(script: &str) -> End {
    let topology = topology::read(EXECUTION).unwrap();
    let script = topology::simulate::Script::read(script, &topology).unwrap();
    let ended = topology::simulate::run(&topology, &script).deployment;
    let mut end = End::new();
    for record in ended.run_records.values() {
        let reasons: Vec<&str> = record.gate_reasons.iter().map(|it| it.check.as_str()).collect();
        let result = serde_json::to_value(record.gate_result).unwrap();
        end.insert(record.work_order.clone(), format!("{result} {reasons:?}"));
    }
    for pause in ended.pauses.values() {
        end.insert(pause.id.clone(), format!("{:?}", pause.actions));
    }
    for artifact in ended.artifacts.values() {
        let passed = artifact.passed.is_some();
        end.insert(
            artifact.name.to_string(),
            format!("{} {} {passed}", artifact.status, artifact.cycles),
        );
    }
    end
}

async fn served(api: &TestServer) -> End {
    let mut end = End::new();
    for order in orders(api, "execution").await {
        let record = &order["record"];
        let reasons: Vec<&str> = record["gateReasons"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|it| it["check"].as_str().unwrap())
            .collect();
        let id = order["id"].as_str().unwrap().to_owned();
        end.insert(id, format!("{} {reasons:?}", record["gateResult"]));
    }
    for pause in pauses(api, "execution").await {
        let actions: Vec<&str> =
            pause["actions"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
        end.insert(pause["id"].as_str().unwrap().to_owned(), format!("{actions:?}"));
    }
    let found = artifact(api, "execution/artifacts/objective").await;
    for it in found["artifacts"].as_array().unwrap() {
        let passed = it["passed"].is_string();
        let status = it["status"].as_str().unwrap();
        let name = format!("objective/{}", it["id"].as_str().unwrap());
        end.insert(name, format!("{status} {} {passed}", it["cycles"]));
    }
    end
}

#[tokio::test]
async fn a_simulation_and_a_server_come_to_the_same_end() {
    // S0-2, S0-55, S0-56: the same roles decide, whoever calls them and when.
    let script = format!(
        "
do:
  - create: {{artifact: objective, id: bad, fields: {0}}}
  - {{at: 1s, move: {{artifact: objective, id: bad, to: TODO}}}}
  - {{at: 2h, create: {{artifact: objective, id: good, fields: {0}}}}}
  - {{at: 3h, move: {{artifact: objective, id: good, to: TODO}}}}
  - {{at: 3h, create: {{artifact: objective, id: idle, fields: {0}}}}}
executors:
  PATCH_DIAZOTROPH: [{{output: {{}}}}, {{output: {{}}}}, {{output: {{}}}}, {{output: {1}}}]
",
        ticket(),
        patch()
    );
    let expected = simulated(&script);
    assert_eq!(expected.len(), 12, "{expected:#?}");
    for api in both().await {
        apply(&api, "execution", EXECUTION).await;
        approved_ticket(&api, "bad").await;
        for _ in 0..3 {
            executed(&api, "patch", json!({})).await;
        }
        until(&api, "execution/artifacts/objective/bad", |it| {
            it["cycles"] == 3 && it["status"] == "TODO"
        })
        .await;
        approved_ticket(&api, "good").await;
        executed(&api, "patch", patch()).await;
        let path = "/v1/deployments/execution/artifacts/objective";
        api.post(path, &api.key, json!({"id": "idle", "fields": ticket()})).await;
        let path = "execution/artifacts/objective/good";
        until(&api, path, |it| it["passed"].is_string()).await;
        assert_eq!(served(&api).await, expected);
    }
}

pub(super) const AGENT_REVIEW: &str = include_str!("../../../../../topologies/agent-review.yaml");

pub(super) async fn asked_about(api: &TestServer) -> String {
    for _ in 0..LOOKS_MAX {
        let found = api.get("/v1/approvals?state=pending").await.ok();
        if let Some(id) = found["approvals"][0]["approvalId"].as_str() {
            return id.to_owned();
        }
        tokio::task::yield_now().await;
    }
    panic!("nobody is asked");
}

#[tokio::test]
async fn a_judge_and_then_a_person_decide_about_what_an_agent_made() {
    for api in both().await {
        apply(&api, "review", AGENT_REVIEW).await;
        let path = "/v1/deployments/review/artifacts/assignment";
        api.post(path, &api.key, json!({"id": "a", "fields": {"goal": "g"}})).await;
        let planned = executed(&api, "agents", json!({"steps": ["one"]})).await;
        assert_eq!(planned.envelope["kind"], "plan-assignment");
        let change = json!({"summary": "s", "files": ["f"]});
        // A judge that is not content, a person who is not, and then both are.
        for (score, decision) in [(0.2, None), (0.9, Some("REJECTED")), (0.9, Some("APPROVED"))] {
            let built = executed(&api, "agents", change.clone()).await;
            assert_eq!(built.envelope["kind"], "build-assignment");
            let judge = executor(&api, "judges").await;
            assert_eq!(judge.envelope["input"]["output"], change);
            let answer = json!({"outcome": "SUCCEEDED", "output": {"score": score}});
            api.complete(&judge, answer).await.ok();
            // What a judge refused is shown to nobody.
            let Some(decision) = decision else { continue };
            let approval = asked_about(&api).await;
            let path = format!("/v1/approvals/{approval}");
            let digest = api.get_as(&path, &api.admin_key).await.ok()["digest"].clone();
            let says = json!({"decision": decision, "digest": digest});
            api.post(&format!("{path}/decide"), &api.admin_key, says).await.ok();
        }
        let path = "review/artifacts/assignment/a";
        until(&api, path, |it| it["status"] == "accepted").await;
        let made = orders(&api, "review").await;
        let reasons: Vec<String> =
            made.iter().map(|it| it["record"]["gateReasons"].to_string()).collect();
        assert_eq!(made.len(), 4, "{reasons:?}");
        assert!(reasons.iter().any(|it| it.contains("judged-good")), "{reasons:?}");
        assert!(reasons.iter().any(|it| it.contains("approved-by-a-person")), "{reasons:?}");
    }
}
