//! Forks over HTTP: a run continues from the recorded steps of one that has ended. Over both stores.

use serde_json::{Value, json};

use super::database::{Served, UNHURRIED};
use super::durable::step;
use super::test_server::{Lease, Response, TestServer, both, merged, seconds};

async fn fork(api: &TestServer, run: &str, key: Option<&str>, body: Value) -> Response {
    let request = api.request("POST", &format!("/v1/runs/{run}/fork")).bearer_auth(&api.key);
    let request = match key {
        Some(key) => request.header("idempotency-key", key),
        None => request,
    };
    api.send(request.json(&body)).await
}

fn spending(key: &str, result: Value, tokens: u64) -> Value {
    merged(step(key, result), json!({"spend": {"tokens": tokens}}))
}

/// The keys and outcomes of what an envelope carries.
fn recorded(lease: &Lease) -> Vec<(String, String)> {
    let all = lease.envelope["checkpoints"].as_array().cloned().unwrap_or_default();
    let text = |it: &Value, member: &str| it[member].as_str().unwrap().to_owned();
    all.iter().map(|it| (text(it, "key"), text(it, "outcome"))).collect()
}

fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(key, outcome)| ((*key).to_owned(), (*outcome).to_owned())).collect()
}

/// A run whose payment people have approved; its second attempt.
async fn approved(api: &TestServer, approver: &str) -> Lease {
    let lease = api.leased(json!({})).await;
    let wait = json!({"key": "w#1", "mode": "all", "for": [{"key": "ok#1", "approval": {}}]});
    api.checkpoint(&lease, json!({"wait": wait})).await.has("state", "waiting");
    approve_all(api, approver).await;
    api.lease("w1").await
}

async fn approve_all(api: &TestServer, approver: &str) {
    let pending = api.pending(approver).await;
    assert_eq!(pending.len(), 1, "{pending:?}");
    let id = pending[0]["approvalId"].as_str().unwrap();
    api.decide(id, approver, json!({"decision": "APPROVED"})).await.ok();
}

#[tokio::test]
async fn an_approval_is_for_one_execution_of_what_follows_it() {
    for api in both().await {
        // S2-63: a client that forks may not use up twice what people allowed once.
        let (_, approver) = api.key_with(json!(["approver"])).await;
        let paid = approved(&api, &approver).await;
        api.checkpoint(&paid, json!({"steps": [step("pay#1", json!(1))]})).await.ok();
        api.checkpoint(&paid, json!({"steps": [step("tell#1", json!(1))]})).await.ok();
        let error = json!({"category": "USER_CODE", "message": "no", "retryable": false});
        api.complete(&paid, json!({"outcome": "FAILED", "error": error})).await.ok();
        let repeated = fork(&api, &paid.run, None, json!({"fromStep": "pay#1"})).await;
        repeated.problem(409, "run_not_forkable");
        assert!(repeated.text("message").contains("approved once"), "{repeated:?}");
        // What is done stays done, under the approval that it had.
        fork(&api, &paid.run, None, json!({})).await.ok();
        let on = api.lease("w1").await;
        assert!(recorded(&on).contains(&("pay#1".to_owned(), "SUCCEEDED".to_owned())));
        api.cancel(&on.run, json!({"reason": "fraud!", "force": true})).await.ok();
        fork(&api, &on.run, None, json!({})).await.problem(409, "run_not_forkable");
        // From the step that asks: people are asked again, and what they said before counts no more.
        let asks = json!({"fromStep": "w#1"});
        let new = fork(&api, &on.run, None, asks).await.text("runId");
        let lease = api.lease("w1").await;
        assert_eq!(lease.run, new);
        let wait = json!({"key": "w#1", "mode": "all", "for": [{"key": "ok#1", "approval": {}}]});
        api.checkpoint(&lease, json!({"wait": wait})).await.has("state", "waiting");
        approve_all(&api, &approver).await;
        api.lease("w1").await;
    }
}

#[tokio::test]
async fn a_halted_run_continues_with_its_steps_and_another_budget() {
    for api in both().await {
        // S2-40, S2-93: halted is a clean stop. S2-94: it is never retried; more work needs another budget.
        let long = "x".repeat(500);
        let old = api
            .leased(
                json!({"budget": {"tokens": 100, "steps": 10}, "seed": 7, "labels": {"team": "a"}}),
            )
            .await;
        let steps =
            json!({"steps": [spending("a#1", json!(long), 60), spending("b#1", json!(2), 50)]});
        api.checkpoint(&old, steps).await.has("state", "halted");
        let accepted = fork(&api, &old.run, Some("k1"), json!({"budget": {"tokens": 50}})).await;
        assert_eq!(accepted.status, 201);
        let new = accepted.text("runId");
        // The same call finds the same run; the same key with another budget is another call.
        let again = fork(&api, &old.run, Some("k1"), json!({"budget": {"tokens": 50}})).await;
        assert_eq!((again.status, again.text("runId")), (200, new.clone()));
        let other = fork(&api, &old.run, Some("k1"), json!({"budget": {"tokens": 51}})).await;
        other.problem(422, "idempotency_key_reused");
        // Linked both ways.
        let run = api.run(&new).await;
        assert_eq!((&run["forkOf"], &run["seed"]), (&json!(old.run), &json!(7)));
        assert_eq!(
            run["labels"],
            json!({"team": "a", "tenure.fork-of": old.run, "tenure.origin": old.task})
        );
        assert_eq!(api.run(&old.run).await["forks"], json!([new]));
        // What was recorded is there and is not paid for again.
        let lease = api.lease("w1").await;
        assert_eq!(lease.run, new);
        assert_eq!(lease.envelope["budgetLeft"], json!({"tokens": 50}));
        assert_eq!(recorded(&lease), pairs(&[("a#1", "SUCCEEDED"), ("b#1", "SUCCEEDED")]));
        assert_eq!(lease.envelope["checkpoints"][0]["result"], json!(long));
        // A step that is sent again is recognised; a new one uses the new budget.
        let call = json!({"steps": [step("a#1", json!(long)), spending("c#1", json!(3), 30)]});
        let went_on = api.checkpoint(&lease, call).await;
        assert_eq!(went_on.has("state", "running").body["left"], json!({"tokens": 20}));
        api.succeed(&lease).await.has("state", "succeeded");
        let run = api.run(&new).await;
        assert_eq!(
            (&run["durable"]["steps"], &run["budget"]["used"]["tokens"]),
            (&json!(3), &json!(30))
        );
        // The old run is what it was.
        assert_eq!(api.run(&old.run).await["state"], "halted");
        assert_eq!(api.steps(&old.run).await.len(), 2);
    }
}

#[tokio::test]
async fn only_a_run_that_ended_without_success_is_continued() {
    for api in both().await {
        let lease = api.leased(json!({})).await;
        let got = fork(&api, &lease.run, None, json!({})).await;
        got.problem(409, "run_not_forkable").has("state", "RUNNING");
        api.succeed(&lease).await.ok();
        let got = fork(&api, &lease.run, None, json!({})).await;
        got.problem(409, "run_not_forkable").has("state", "SUCCEEDED");
        let none = format!("run_{}", "0".repeat(26));
        fork(&api, &none, None, json!({})).await.problem(404, "run_not_found");
        let halted = api.leased(json!({"budget": {"steps": 0}})).await;
        api.checkpoint(&halted, json!({"steps": [step("a#1", json!(1))]}))
            .await
            .has("state", "halted");
        fork(&api, &halted.run, None, json!({"fromStep": "b#1"}))
            .await
            .problem(409, "run_not_forkable");
        fork(&api, &halted.run, None, json!({"fromStep": "b 1"}))
            .await
            .problem(400, "invalid_argument");
        fork(&api, &halted.run, None, json!({"budget": {}})).await.problem(400, "invalid_argument");
        // Without a budget it may use as much again, and takes over what is recorded.
        let new = fork(&api, &halted.run, None, json!({})).await.text("runId");
        assert_eq!(api.run(&new).await["budget"]["left"]["steps"], 0);
    }
}

#[tokio::test]
async fn a_failed_run_repeats_the_step_that_failed() {
    for api in both().await {
        let old = api.leased(json!({"maxAttempts": 1})).await;
        let error = json!({"category": "USER_CODE", "message": "no"});
        let failed = json!({"key": "b#1", "outcome": "FAILED", "error": error});
        api.checkpoint(&old, json!({"steps": [step("a#1", json!(1)), failed]})).await.ok();
        api.complete(&old, json!({"outcome": "FAILED", "error": error}))
            .await
            .has("state", "failed");
        fork(&api, &old.run, None, json!({})).await.ok();
        let lease = api.lease("w1").await;
        assert_eq!(recorded(&lease), pairs(&[("a#1", "SUCCEEDED")]));
        // From a step of the caller's choice.
        fork(&api, &old.run, None, json!({"fromStep": "a#1"})).await.ok();
        let lease = api.lease("w1").await;
        assert_eq!(recorded(&lease), []);
        assert_eq!(api.run(&old.run).await["forks"].as_array().unwrap().len(), 2);
        // A retry of a fork begins from nothing, and is no fork.
        api.complete(&lease, json!({"outcome": "FAILED", "error": error}))
            .await
            .has("state", "failed");
        let path = format!("/v1/runs/{}/retry", lease.run);
        let again = api.post(&path, &api.key, json!({})).await.text("runId");
        let again = api.run(&again).await;
        assert_eq!((again.get("forkOf"), &again["retryOf"]), (None, &json!(lease.run)));
    }
}

#[tokio::test]
async fn waits_and_signals_are_taken_over() {
    for api in both().await {
        let old = api.leased(json!({"budget": {"steps": 1}})).await;
        for (name, payload) in [("go", 1), ("later", 2)] {
            api.signal(&old.run, Some(name), json!({"name": name, "payload": payload})).await.ok();
        }
        let wait = json!({"wait": {"key": "wait:go#1", "mode": "all", "for": [{"key": "go#1", "signal": "go"}]}});
        api.checkpoint(&old, wait).await.has("state", "running");
        let steps = json!({"steps": [step("a#1", json!(1)), step("b#1", json!(2))]});
        api.checkpoint(&old, steps).await.has("state", "halted");
        let new = fork(&api, &old.run, None, json!({"budget": {"steps": 5}})).await.text("runId");
        let lease = api.lease("w1").await;
        let taken = &lease.envelope["checkpoints"][0];
        assert_eq!(
            (&taken["key"], &taken["wait"]["signals"][0]["payload"]),
            (&json!("wait:go#1"), &json!(1))
        );
        // The signal that was not taken is there for the new run, and so is its key.
        assert_eq!(api.run(&new).await["durable"]["pendingSignals"], 1);
        let again = api.signal(&new, Some("later"), json!({"name": "later", "payload": 2})).await;
        again.has("replayed", true);
        let wait = json!({"wait": {"key": "wait:later#1", "mode": "all", "for": [{"key": "later#1", "signal": "later"}]}});
        api.checkpoint(&lease, wait).await.has("state", "running");
    }
}

#[tokio::test]
async fn children_that_ended_are_kept_and_those_that_were_cut_short_start_again() {
    for api in both().await {
        let child = |key: &str, tokens: u64| {
            json!({"key": key, "kind": "k", "queue": "q", "leaseMs": 2000, "input": {"child": key},
                "budget": {"tokens": tokens}})
        };
        let old = api.leased(json!({"budget": {"tokens": 100}})).await;
        let children = json!([child("child:one#1", 20), child("child:two#1", 30)]);
        api.checkpoint(&old, json!({"steps": [step("a#1", json!(1))], "children": children}))
            .await
            .ok();
        let leases = api.poll("w1").await;
        let of = |key: &str| leases.iter().find(|it| it.envelope["input"]["child"] == key).unwrap();
        api.succeed(of("child:one#1")).await.ok();
        api.checkpoint(&old, json!({"steps": [spending("b#1", json!(2), 90)]}))
            .await
            .has("state", "halted");
        // It has not ended before its children.
        fork(&api, &old.run, None, json!({})).await.problem(409, "run_not_forkable");
        // The other worker is told with the next batch, and stops.
        api.get("/readyz").await.ok();
        let beat = api.heartbeat(of("child:two#1")).await;
        beat.has("shouldCancel", true).has("cancelReason", "budget_exhausted");
        api.complete(of("child:two#1"), json!({"outcome": "CANCELLED"})).await.ok();
        assert_eq!(api.state(&old.run).await, "halted");
        // A budget that cannot promise the child its ceiling is refused as a whole.
        let short = fork(&api, &old.run, None, json!({"budget": {"tokens": 29}})).await;
        short.problem(409, "budget_insufficient");
        assert_eq!(api.run(&old.run).await.get("forks"), None);
        let new = fork(&api, &old.run, None, json!({"budget": {"tokens": 40}})).await.text("runId");
        let leases = api.poll("w1").await;
        let parent = leases
            .iter()
            .find(|it| it.run == new && it.envelope.get("parentTaskId").is_none())
            .unwrap();
        assert_eq!(
            recorded(parent),
            pairs(&[
                ("a#1", "SUCCEEDED"),
                ("child:one#1", "STARTED"),
                ("child:two#1", "STARTED"),
                ("child:one#1", "SUCCEEDED"),
                ("b#1", "SUCCEEDED"),
            ])
        );
        assert_eq!(parent.envelope["budgetLeft"], json!({"tokens": 10}));
        let again: Vec<&Lease> =
            leases.iter().filter(|it| it.envelope.get("parentTaskId").is_some()).collect();
        assert_eq!(again.len(), 1, "the other one has succeeded");
        assert_eq!(again[0].envelope["input"]["child"], "child:two#1");
        assert_eq!(again[0].envelope["budgetLeft"], json!({"tokens": 30}));
        let wait = json!({"wait": {"key": "w#1", "mode": "all", "for": [{"key": "child:two#1", "child": "child:two#1"}]}});
        api.checkpoint(parent, wait).await.has("state", "waiting");
        api.succeed(again[0]).await.ok();
        let joined = api.lease("w1").await;
        api.succeed(&joined).await.has("state", "succeeded");
    }
}

#[tokio::test]
async fn thousands_of_steps_are_taken_over_in_one_commit() {
    for api in both().await {
        let old = api.leased(json!({"leaseMs": 60000, "budget": {"steps": 2000}})).await;
        for call in 0..21 {
            let steps: Vec<Value> =
                (0..100).map(|it| step(&format!("s#{}", call * 100 + it), json!(it))).collect();
            api.checkpoint(&old, json!({"steps": steps})).await.ok();
        }
        assert_eq!(api.state(&old.run).await, "halted");
        let new =
            fork(&api, &old.run, None, json!({"budget": {"steps": 3000}})).await.text("runId");
        let run = api.run(&new).await;
        assert_eq!(
            (&run["durable"]["steps"], &run["budget"]["used"]["steps"]),
            (&json!(2100), &json!(0))
        );
        let lease = api.lease("w1").await;
        api.succeed(&lease).await.has("state", "succeeded");
        api.pass(seconds(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_continues_on_a_database_through_another_coordinator_and_verifies() {
    let database = pgserver::Server::builder().start().unwrap();
    let served = Served::at(&database.conninfo("postgres"), UNHURRIED).await;
    let peer = served.beside(&database.conninfo("postgres")).await;
    let budget = json!({"steps": 700, "tokens": 100});
    let submit = json!({"kind": "k", "queue": "q", "leaseMs": 60_000, "budget": budget});
    let old = served.post("/v1/runs", submit).await.body["runId"].as_str().unwrap().to_owned();
    let poll =
        |queue: &str| json!({"workerId": "w", "queues": [queue], "max": 1, "waitMs": 20_000});
    let lease = served.post("/v1/leases", poll("q")).await.body["leases"][0].clone();
    let call = async |lease: &Value, path: &str, more: Value| {
        let path = format!("/v1/tasks/{}/{path}", lease["taskId"].as_str().unwrap());
        let said = merged(json!({"attempt": lease["attempt"], "workerId": "w"}), more);
        let got = served.ask("POST", &path, lease["taskToken"].as_str().unwrap(), Some(said)).await;
        assert_eq!(got.status, 200, "{:?}", got.body);
        got.body
    };
    let child = json!({"key": "child:c#1", "kind": "k", "queue": "kids", "leaseMs": 60_000, "budget": {"tokens": 40, "steps": 0}});
    call(&lease, "checkpoints", json!({"children": [child]})).await;
    let kid = served.post("/v1/leases", poll("kids")).await.body["leases"][0].clone();
    for call_number in 0..7 {
        let key = |it: usize| format!("s#{}", call_number * 100 + it);
        let steps: Vec<Value> = (0..100).map(|it| step(&key(it), json!("x".repeat(200)))).collect();
        call(&lease, "checkpoints", json!({"steps": steps})).await;
    }
    let halted = call(&lease, "checkpoints", json!({"steps": [step("last#1", json!(1))]})).await;
    assert_eq!(halted["state"], "halted");
    // Its worker is told by a heartbeat that the run has halted.
    while call(&kid, "heartbeat", json!({})).await["shouldCancel"] != json!(true) {}
    call(&kid, "completed", json!({"outcome": "CANCELLED"})).await;
    // The other coordinator continues what this one has recorded.
    let path = format!("/v1/runs/{old}/fork");
    let accepted = peer.post(&path, json!({"budget": {"steps": 10, "tokens": 50}})).await;
    assert_eq!(accepted.status, 201, "{:?}", accepted.body);
    let new = accepted.body["runId"].as_str().unwrap().to_owned();
    served.verify().await;
    let lease = served.post("/v1/leases", poll("q")).await.body["leases"][0].clone();
    assert_eq!((&lease["runId"], &lease["budgetLeft"]["tokens"]), (&json!(new), &json!(10)));
    let kid = served.post("/v1/leases", poll("kids")).await.body["leases"][0].clone();
    call(&kid, "completed", json!({"outcome": "SUCCEEDED", "output": 7})).await;
    call(&lease, "completed", json!({"outcome": "SUCCEEDED", "output": 8})).await;
    let ended = served.get(&format!("/v1/runs/{new}")).await.body;
    assert_eq!((&ended["state"], &ended["durable"]["steps"]), (&json!("succeeded"), &json!(701)));
    let old = served.get(&format!("/v1/runs/{old}")).await.body;
    assert_eq!(old["forks"], json!([new]));
    served.verify().await;
}
