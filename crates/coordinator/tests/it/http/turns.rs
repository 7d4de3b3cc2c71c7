//! Roles outside of the server: processes take turns over HTTP, decide them with a lease or at a revision, and can do nothing that
//! the topology does not let the role do.

use serde_json::{Value, json};
use topology::Topology;
use topology::outside::{EventTurn, OrderTurn};
use topology::roles::scheduler;

use super::test_server::{Lease, Response, TestServer, both, seconds};

/// How often a condition is looked at before a test gives up.
const LOOKS_MAX: usize = 3_000;

/// Longer than the lease of a role that declares none.
const ROLE_LEASE_SECONDS: u64 = 31;

/// So many calls that the server's own roles had their chance meanwhile.
const ROUNDS: usize = 100;

/// Every name is invented, and nothing in it occurs in a shipped topology.
const BAKERY: &str = "
topology: bakery
artifacts:
  dough:
    statuses: [mixed, risen, in-oven, bread]
    initial: mixed
    final: [bread]
    transitions:
      - {from: mixed, to: risen, by: 'role:eye'}
      - {from: risen, to: in-oven, by: 'role:oven-keeper'}
      - {from: risen, to: mixed, by: person}
      - {from: in-oven, to: bread, by: 'role:taster'}
      - {from: in-oven, to: risen, by: 'role:taster'}
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
    checks: [{name: golden, require: {path: output.colour, op: equals, value: golden}}]
    pass: {to: bread, actions: [Sell it.]}
    fail: {to: risen, actions: [Check the oven.]}
  floor:
    checks: [{name: clean, require: {path: output.crumbs, op: at-most, value: 0}}]
    pass: {actions: [Go home.]}
    fail: {actions: [Sweep again.]}
roles:
  eye: {uses: review, artifact: dough, when: {path: artifact.yeast, op: equals, value: true}, outside: true}
  nose: {uses: readiness, emits: [dough-risen], outside: true}
  oven-keeper: {uses: scheduler, event: dough-risen, workOrder: bake, to: in-oven, track: hot, outside: true}
  janitor: {uses: scheduler, event: closing-time, workOrder: tidy, track: cold}
  hands: {uses: runner, workOrders: [bake, tidy]}
  taster: {uses: gate, workOrders: [bake, tidy], outside: true}
limits: {executors: 3, cycles: 5}
";

fn bakery() -> Topology {
    topology::read(BAKERY).unwrap()
}

async fn apply(api: &TestServer, yaml: &str) {
    let topology = topology::read(yaml).unwrap();
    let body = json!({"topology": topology.declaration()});
    api.post("/v1/deployments/bakery", &api.admin_key, body).await.ok();
}

/// The answer to a call about a role.
async fn role(api: &TestServer, role: &str, call: &str, body: Value) -> Response {
    api.post(&format!("/v1/deployments/bakery/roles/{role}/{call}"), &api.key, body).await
}

async fn turns(api: &TestServer, name: &str, worker: &str) -> Vec<Value> {
    let take = json!({"workerId": worker, "max": 10});
    let taken = role(api, name, "turns", take).await.ok();
    taken["turns"].as_array().unwrap().clone()
}

/// The one turn that a role has, once it has one.
async fn turn(api: &TestServer, name: &str, worker: &str) -> Value {
    let take = json!({"workerId": worker, "max": 1, "waitMs": 20_000});
    let taken = role(api, name, "turns", take).await.ok();
    let turns = taken["turns"].as_array().unwrap();
    assert_eq!(turns.len(), 1, "{name} has a turn");
    turns[0].clone()
}

async fn propose(
    api: &TestServer,
    name: &str,
    worker: &str,
    claim: &Value,
    decision: Value,
) -> Response {
    let mut body = json!({"workerId": worker, "decision": decision});
    if !claim.is_null() {
        body["claim"] = claim.clone();
    }
    role(api, name, "proposals", body).await
}

/// What the server's own scheduler would decide.
fn ordered(turn: &Value) -> Value {
    let told: EventTurn = serde_json::from_value(turn["told"].clone()).unwrap();
    let decision = scheduler::decide(&bakery(), "oven-keeper", &told.read()).unwrap();
    serde_json::to_value(decision).unwrap()
}

async fn go(api: &TestServer, name: &str) {
    let turn = turn(api, name, "w").await;
    let artifact = &turn["told"]["artifact"];
    let named = json!({"type": artifact["type"], "id": artifact["id"]});
    let decision = json!({"decision": "GO", "artifact": named, "revision": artifact["revision"]});
    propose(api, name, "w", &Value::Null, decision).await.ok();
}

async fn create(api: &TestServer, id: &str) {
    let path = "/v1/deployments/bakery/artifacts/dough";
    let made = api.post(path, &api.key, json!({"id": id, "fields": {"yeast": true}})).await;
    assert_eq!(made.status, 201, "{made:?}");
}

/// A dough whose event waits for its scheduler.
async fn risen(api: &TestServer, id: &str) {
    create(api, id).await;
    go(api, "eye").await;
    go(api, "nose").await;
}

async fn dough(api: &TestServer, id: &str) -> Value {
    api.get(&format!("/v1/deployments/bakery/artifacts/dough/{id}")).await.ok()
}

async fn orders(api: &TestServer) -> Vec<Value> {
    let found = api.get("/v1/deployments/bakery/workorders").await.ok();
    found["workOrders"].as_array().unwrap().clone()
}

async fn executor(api: &TestServer) -> Lease {
    let poll = json!({"workerId": "w1", "queues": ["kitchen"], "max": 1, "waitMs": 20_000});
    let mut leases = api.post("/v1/leases", &api.key, poll).await.leases();
    assert_eq!(leases.len(), 1, "one work order is ready");
    leases.remove(0)
}

async fn executed(api: &TestServer, output: Value) -> Lease {
    let lease = executor(api).await;
    api.complete(&lease, json!({"outcome": "SUCCEEDED", "output": output})).await.ok();
    lease
}

async fn until(api: &TestServer, id: &str, is_it: impl Fn(&Value) -> bool) {
    let mut last = Value::Null;
    for _ in 0..LOOKS_MAX {
        last = dough(api, id).await;
        if is_it(&last) {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("{id} never came to that: {last}");
}

#[tokio::test]
async fn processes_outside_carry_a_dough_to_bread() {
    // S0-3, S0-5, S0-6, S0-11, S0-12, S0-23, S0-58: every role but the runner is a process that calls over HTTP.
    for api in both().await {
        apply(&api, BAKERY).await;
        create(&api, "a").await;
        assert_eq!(dough(&api, "a").await["status"], "mixed", "the server leaves it to the role");
        go(&api, "eye").await;
        assert_eq!(dough(&api, "a").await["status"], "risen");
        let events = api.get("/v1/runs?kind=dough-risen").await.ok();
        assert!(events["runs"].as_array().unwrap().is_empty(), "{events}");
        go(&api, "nose").await;
        assert!(turns(&api, "nose", "w").await.is_empty(), "S0-10: once for each entry");
        let turn = turn(&api, "oven-keeper", "w").await;
        assert_eq!(turn["told"]["event"]["type"], "dough-risen");
        let claims = api.get("/v1/deployments/bakery/claims").await.ok();
        assert_eq!(claims["claims"][0]["resource_type"], "EVENT");
        assert_eq!(claims["claims"][0]["owner_id"], "w");
        propose(&api, "oven-keeper", "w", &turn["claim"], ordered(&turn)).await.ok();
        let made = orders(&api).await;
        assert_eq!((made.len(), &made[0]["state"]), (1, &json!("active")));
        executed(&api, json!({"colour": "golden"})).await;
        let turn = self::turn(&api, "taster", "w").await;
        let told: OrderTurn = serde_json::from_value(turn["told"].clone()).unwrap();
        assert_eq!(told.work_order.output.unwrap().output["colour"], "golden");
        propose(&api, "taster", "w", &turn["claim"], json!({"decision": "PASS"})).await.ok();
        assert_eq!(dough(&api, "a").await["status"], "bread");
        assert_eq!(orders(&api).await[0]["record"]["gateResult"], "PASS");
        let claims = api.get("/v1/deployments/bakery/claims").await.ok();
        assert!(claims["claims"].as_array().unwrap().is_empty(), "{claims}");
    }
}

#[tokio::test]
async fn the_same_decision_again_gets_the_same_answer_and_another_one_is_refused() {
    // S0-49, S0-50, S0-53, S3-62: an answer may be lost.
    for api in both().await {
        apply(&api, BAKERY).await;
        risen(&api, "a").await;
        let turn = turn(&api, "oven-keeper", "w").await;
        let mut decision = ordered(&turn);
        for _ in 0..3 {
            propose(&api, "oven-keeper", "w", &turn["claim"], decision.clone()).await.ok();
        }
        assert_eq!(orders(&api).await.len(), 1);
        decision["snapshot"] = json!({"other": 1});
        let other = propose(&api, "oven-keeper", "w", &turn["claim"], decision).await;
        assert!(other.status == 409, "{other:?}");
        executed(&api, json!({"colour": "pale"})).await;
        let turn = self::turn(&api, "taster", "w").await;
        let reasons = json!([{"check": "taste", "message": "too salty"}]);
        let fail = json!({"decision": "FAIL", "reasons": reasons});
        for _ in 0..3 {
            propose(&api, "taster", "w", &turn["claim"], fail.clone()).await.ok();
        }
        let made = orders(&api).await;
        assert_eq!((made.len(), &made[0]["record"]["gateReasons"]), (1, &reasons));
        assert_eq!(dough(&api, "a").await["status"], "risen");
    }
}

#[tokio::test]
async fn an_outside_role_cannot_decide_what_is_not_its_own() {
    // A0-8, S0-8, R-26: an outside gate may refuse more than the declared checks and never less.
    for api in both().await {
        apply(&api, BAKERY).await;
        risen(&api, "a").await;
        let turn = turn(&api, "oven-keeper", "w").await;
        let claim = &turn["claim"];
        let say = async |decision: Value| propose(&api, "oven-keeper", "w", claim, decision).await;
        let end = json!({"decision": "END", "reason": "NON_EXECUTABLE_STATUS"});
        say(end).await.problem(409, "transition_not_allowed");
        say(json!({"decision": "PASS"})).await.problem(409, "transition_not_allowed");
        let mut order = ordered(&turn);
        order["take"][0]["artifact"]["id"] = json!("b");
        say(order).await.problem(409, "transition_not_allowed");
        let mut order = ordered(&turn);
        order["take"][0]["revision"] = json!(1);
        say(order).await.problem(409, "artifact_changed");
        let mut order = ordered(&turn);
        let twice = order["take"][0].clone();
        order["take"].as_array_mut().unwrap().push(twice);
        say(order).await.problem(409, "transition_not_allowed");
        let mut order = ordered(&turn);
        order["snapshot"] = json!("all");
        say(order).await.problem(400, "invalid_argument");
        say(json!({"decision": "DANCE"})).await.problem(400, "invalid_argument");
        let mut order = ordered(&turn);
        order["queue"] = json!("elsewhere");
        say(order).await.problem(400, "invalid_argument");
        let mut order = ordered(&turn);
        order["snapshot"] = json!({"a": "x".repeat(300_000)});
        say(order).await.problem(422, "result_too_large");
        assert!(orders(&api).await.is_empty());
        let other = propose(&api, "oven-keeper", "w2", claim, ordered(&turn)).await;
        other.problem(409, "worker_mismatch");
        let gate = propose(&api, "taster", "w", claim, json!({"decision": "PASS"})).await;
        gate.problem(404, "task_not_found");
        say(ordered(&turn)).await.ok();
        let lease = executor(&api).await;
        // An executor's lease is on the same task, and no turn of the gate.
        let stolen = json!({"taskId": lease.task, "attempt": 1, "leaseId": lease.envelope["leaseId"],
            "fence": lease.envelope["fence"]});
        let stolen = propose(&api, "taster", "w1", &stolen, json!({"decision": "PASS"})).await;
        stolen.problem(409, "artifact_changed");
        let pale = json!({"outcome": "SUCCEEDED", "output": {"colour": "pale"}});
        api.complete(&lease, pale).await.ok();
        let turn = self::turn(&api, "taster", "w").await;
        let claim = &turn["claim"];
        let pass = propose(&api, "taster", "w", claim, json!({"decision": "PASS"})).await;
        pass.problem(409, "transition_not_allowed");
        assert!(pass.body["message"].as_str().unwrap().contains("golden"), "{pass:?}");
        let nothing = json!({"decision": "FAIL", "reasons": []});
        propose(&api, "taster", "w", claim, nothing).await.problem(400, "invalid_argument");
        let none = propose(&api, "taster", "w", &Value::Null, json!({"decision": "PASS"})).await;
        none.problem(400, "invalid_argument");
    }
}

#[tokio::test]
async fn a_claim_holds_only_as_it_was_given() {
    // S0-44, S0-47, S0-48: lease, attempt, fence and owner all count.
    for api in both().await {
        apply(&api, BAKERY).await;
        risen(&api, "a").await;
        let turn = turn(&api, "oven-keeper", "w").await;
        let claim = &turn["claim"];
        let other = |member: &str, value: Value| {
            let mut other = claim.clone();
            other[member] = value;
            other
        };
        let fence = claim["fence"].as_u64().unwrap();
        let lease = claim["leaseId"].as_str().unwrap();
        let last = if lease.ends_with('0') { '1' } else { '0' };
        let wrong = [
            // The claim of another epoch: the store was restored from a backup meanwhile.
            other("fence", json!(fence + (1 << 32))),
            other("attempt", json!(claim["attempt"].as_u64().unwrap() + 1)),
            other("leaseId", json!(format!("{}{last}", &lease[..lease.len() - 1]))),
        ];
        for claim in &wrong {
            let refused = propose(&api, "oven-keeper", "w", claim, ordered(&turn)).await;
            assert!([404, 409, 410, 422].contains(&refused.status), "{claim}: {refused:?}");
            let renew = json!({"workerId": "w", "claim": claim});
            let refused = role(&api, "oven-keeper", "turns/renew", renew).await;
            assert!([404, 409, 410, 422].contains(&refused.status), "{claim}: {refused:?}");
        }
        assert!(orders(&api).await.is_empty());
        assert_eq!(dough(&api, "a").await["status"], "risen");
        propose(&api, "oven-keeper", "w", claim, ordered(&turn)).await.ok();
    }
}

#[tokio::test]
async fn a_tenant_takes_no_turn_of_another() {
    // S2, S0-8: also where both have a deployment and a role of the same name.
    for api in both().await {
        apply(&api, BAKERY).await;
        risen(&api, "a").await;
        let path = |call: &str| format!("/v1/deployments/bakery/roles/oven-keeper/{call}");
        let take = json!({"workerId": "w", "max": 1});
        let none = api.post(&path("turns"), &api.foreign_key, take.clone()).await;
        none.problem(404, "deployment_not_found");
        let body = json!({"topology": bakery().declaration()});
        api.post("/v1/deployments/bakery", &api.foreign_key, body).await.ok();
        let none = api.post(&path("turns"), &api.foreign_key, take).await.ok();
        assert!(none["turns"].as_array().unwrap().is_empty(), "{none}");
        let turn = turn(&api, "oven-keeper", "w").await;
        let mut said = json!({"workerId": "w", "claim": turn["claim"], "decision": ordered(&turn)});
        let foreign = api.post(&path("proposals"), &api.foreign_key, said.clone()).await;
        foreign.problem(404, "task_not_found");
        said.as_object_mut().unwrap().remove("decision");
        let foreign = api.post(&path("turns/renew"), &api.foreign_key, said.clone()).await;
        foreign.problem(404, "task_not_found");
        said["reason"] = json!("no");
        let foreign = api.post(&path("turns/return"), &api.foreign_key, said).await;
        foreign.problem(404, "task_not_found");
        assert!(orders(&api).await.is_empty());
        propose(&api, "oven-keeper", "w", &turn["claim"], ordered(&turn)).await.ok();
        assert_eq!(orders(&api).await.len(), 1, "the claim was left alone");
    }
}

#[tokio::test]
async fn a_key_must_name_the_role() {
    // A0-2: executors are workers too, and their keys open no role.
    for api in both().await {
        apply(&api, BAKERY).await;
        let path = |role: &str| format!("/v1/deployments/bakery/roles/{role}/turns");
        let take = json!({"workerId": "w", "max": 1});
        let refused = api.post(&path("taster"), &api.worker_key, take.clone()).await;
        refused.problem(403, "forbidden");
        assert!(refused.body["message"].as_str().unwrap().contains("role:bakery/taster"));
        let wanted = json!({"roles": ["worker"], "queues": ["role:bakery/taster"]});
        let made = api.post("/v1/keys", &api.admin_key, wanted).await;
        let key = made.text("secret");
        api.post(&path("taster"), &key, take.clone()).await.ok();
        api.post(&path("oven-keeper"), &key, take.clone()).await.problem(403, "forbidden");
        let inside = api.post(&path("janitor"), &api.key, take.clone()).await;
        inside.problem(409, "role_not_outside");
        api.post(&path("nobody"), &api.key, take.clone()).await.problem(404, "role_not_found");
        let elsewhere = "/v1/deployments/none/roles/taster/turns";
        api.post(elsewhere, &api.key, take).await.problem(404, "deployment_not_found");
    }
}

#[tokio::test]
async fn a_turn_whose_process_is_silent_goes_to_the_next_one() {
    // S0-38, S0-39, S0-44, S0-47, S0-48: fenced by the lease.
    for api in both().await {
        apply(&api, BAKERY).await;
        risen(&api, "a").await;
        let first = turn(&api, "oven-keeper", "w1").await;
        assert!(turns(&api, "oven-keeper", "w2").await.is_empty(), "a live claim is skipped");
        let renew = json!({"workerId": "w1", "claim": first["claim"]});
        api.pass(seconds(20)).await;
        let renewed = role(&api, "oven-keeper", "turns/renew", renew.clone()).await.ok();
        assert_eq!(renewed["told"]["event"], first["told"]["event"]);
        api.pass(seconds(20)).await;
        assert!(turns(&api, "oven-keeper", "w2").await.is_empty(), "it was renewed");
        api.pass(seconds(ROLE_LEASE_SECONDS)).await;
        let second = turn(&api, "oven-keeper", "w2").await;
        let late = propose(&api, "oven-keeper", "w1", &first["claim"], ordered(&first)).await;
        assert!([409, 410].contains(&late.status), "{late:?}");
        let late = role(&api, "oven-keeper", "turns/renew", renew).await;
        assert!([409, 410].contains(&late.status), "{late:?}");
        assert!(orders(&api).await.is_empty());
        propose(&api, "oven-keeper", "w2", &second["claim"], ordered(&second)).await.ok();
        assert_eq!(orders(&api).await.len(), 1);
    }
}

#[tokio::test]
async fn a_role_does_not_end_what_an_executor_holds() {
    // S0-38, A0-2: the lease of an executor can be read in the history of its run.
    for api in both().await {
        apply(&api, BAKERY).await;
        risen(&api, "a").await;
        let turn = turn(&api, "oven-keeper", "w").await;
        propose(&api, "oven-keeper", "w", &turn["claim"], ordered(&turn)).await.ok();
        let lease = executor(&api).await;
        let mut claim = turn["claim"].clone();
        claim["taskId"] = json!(lease.task);
        claim["attempt"] = json!(lease.attempt());
        for member in ["leaseId", "fence"] {
            claim[member] = lease.envelope[member].clone();
        }
        let stolen = json!({"workerId": "w1", "claim": claim, "reason": "mine"});
        role(&api, "taster", "turns/return", stolen.clone()).await.problem(404, "task_not_found");
        assert_ne!(role(&api, "taster", "turns/renew", stolen).await.status, 200);
        let golden = json!({"outcome": "SUCCEEDED", "output": {"colour": "golden"}});
        api.complete(&lease, golden).await.has("verdict", "COMMITTED");
        // At its gate the order is a turn of the role, which may give it back, also twice.
        let turn = self::turn(&api, "taster", "w").await;
        let back = json!({"workerId": "w", "claim": turn["claim"], "reason": "later"});
        role(&api, "taster", "turns/return", back.clone()).await.ok();
        role(&api, "taster", "turns/return", back).await.ok();
    }
}

#[tokio::test]
async fn a_key_that_was_revoked_while_it_waited_gets_no_turn() {
    for api in both().await {
        apply(&api, BAKERY).await;
        let wanted = json!({"roles": ["worker"], "queues": ["role:bakery/oven-keeper"]});
        let made = api.post("/v1/keys", &api.admin_key, wanted).await;
        let (id, secret) = (made.body["key"]["keyId"].as_str().unwrap(), made.text("secret"));
        let take = json!({"workerId": "w", "max": 1, "waitMs": 20_000});
        let path = "/v1/deployments/bakery/roles/oven-keeper/turns";
        let waiting = async {
            api.post(path, &secret, take).await.problem(401, "unauthenticated");
        };
        let revoked = async {
            until_waiting(&api).await;
            api.post(&format!("/v1/keys/{id}/revoke"), &api.admin_key, json!({})).await.ok();
            risen(&api, "a").await;
        };
        tokio::join!(waiting, revoked);
        // What was granted to it went back at once.
        turn(&api, "oven-keeper", "w2").await;
    }
}

/// Waits until a process waits for a turn.
async fn until_waiting(api: &TestServer) {
    let line = "tenure_polls_waiting 0\n";
    for _ in 0..LOOKS_MAX {
        if !api.get("/metrics").await.body.as_str().unwrap().contains(line) {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("nobody waits");
}

#[tokio::test]
async fn a_turn_is_read_again_when_its_artifact_has_changed_and_may_be_given_back() {
    // S0-45, A0-14: what a person does meanwhile counts.
    for api in both().await {
        apply(&api, BAKERY).await;
        risen(&api, "a").await;
        let turn = turn(&api, "oven-keeper", "w").await;
        let back = json!({"workerId": "w", "claim": turn["claim"], "reason": "later"});
        role(&api, "oven-keeper", "turns/return", back.clone()).await.ok();
        role(&api, "oven-keeper", "turns/return", back).await.ok();
        api.pass(seconds(60)).await;
        let turn = self::turn(&api, "oven-keeper", "w").await;
        let path = "/v1/deployments/bakery/artifacts/dough/a/transition";
        api.post(path, &api.key, json!({"to": "mixed"})).await.ok();
        let stale = propose(&api, "oven-keeper", "w", &turn["claim"], ordered(&turn)).await;
        stale.problem(409, "artifact_changed");
        let renew = json!({"workerId": "w", "claim": turn["claim"]});
        let turn = role(&api, "oven-keeper", "turns/renew", renew).await.ok();
        let decision = ordered(&turn);
        assert_eq!(decision, json!({"decision": "END", "reason": "NON_EXECUTABLE_STATUS"}));
        propose(&api, "oven-keeper", "w", &turn["claim"], decision).await.ok();
        let events = api.get("/v1/runs?kind=dough-risen").await.ok();
        let event = format!("/v1/runs/{}", events["runs"][0]["runId"].as_str().unwrap());
        let event = api.get(&event).await.ok();
        assert_eq!(event["output"]["terminalReason"], "NON_EXECUTABLE_STATUS");
        assert!(orders(&api).await.is_empty());
    }
}

#[tokio::test]
async fn tracks_take_turns_whoever_takes_their_events() {
    // S1-31, S1-32, R-33: the event of the server's own role waits for the one that an outside process has.
    for api in both().await {
        apply(&api, BAKERY).await;
        risen(&api, "a").await;
        let turn = turn(&api, "oven-keeper", "w").await;
        let request = json!({"type": "closing-time", "key": "today"});
        let asked = api.post("/v1/deployments/bakery/events", &api.key, request).await;
        assert_eq!(asked.status, 201, "{asked:?}");
        for _ in 0..ROUNDS {
            assert!(orders(&api).await.is_empty(), "the janitor waits for the oven-keeper");
        }
        propose(&api, "oven-keeper", "w", &turn["claim"], ordered(&turn)).await.ok();
        let first = executor(&api).await;
        assert_eq!(first.envelope["kind"], "baker", "the track that goes first goes first");
        let golden = json!({"outcome": "SUCCEEDED", "output": {"colour": "golden"}});
        api.complete(&first, golden).await.ok();
        assert_eq!(orders(&api).await.len(), 1);
        let turn = self::turn(&api, "taster", "w").await;
        propose(&api, "taster", "w", &turn["claim"], json!({"decision": "PASS"})).await.ok();
        assert_eq!(executor(&api).await.envelope["kind"], "broom");
    }
}

#[tokio::test]
async fn a_role_that_comes_back_inside_takes_over_what_is_in_flight() {
    // Work orders end under the version that made them, whoever judges them.
    for api in both().await {
        apply(&api, BAKERY).await;
        risen(&api, "a").await;
        let turn = turn(&api, "oven-keeper", "w").await;
        propose(&api, "oven-keeper", "w", &turn["claim"], ordered(&turn)).await.ok();
        let lease = executor(&api).await;
        let inside =
            BAKERY.replace("workOrders: [bake, tidy], outside: true}", "workOrders: [bake, tidy]}");
        apply(&api, &inside).await;
        let golden = json!({"outcome": "SUCCEEDED", "output": {"colour": "golden"}});
        api.complete(&lease, golden).await.ok();
        until(&api, "a", |it| it["status"] == "bread").await;
        let made = orders(&api).await;
        assert_eq!(made[0]["version"], bakery().digest());
    }
}

#[tokio::test]
async fn a_paused_deployment_gives_no_turns() {
    for api in both().await {
        apply(&api, BAKERY).await;
        risen(&api, "a").await;
        create(&api, "b").await;
        api.post("/v1/deployments/bakery/pause", &api.admin_key, json!({})).await.ok();
        for name in ["eye", "oven-keeper"] {
            assert!(turns(&api, name, "w").await.is_empty(), "{name}");
        }
        api.post("/v1/deployments/bakery/resume", &api.admin_key, json!({})).await.ok();
        turn(&api, "eye", "w").await;
        turn(&api, "oven-keeper", "w").await;
    }
}
