//! Recovery over HTTP: what becomes of runs that spent their attempts, who says so, and what is never touched.

use serde_json::{Value, json};

use super::test_server::{Lease, TestServer, both, merged, seconds};

const QUEUE: &str = "tenure.recovery";

/// How often a condition is looked at before a test gives up.
const LOOKS_MAX: usize = 3_000;

pub(super) async fn set(api: &TestServer, more: Value) -> Value {
    let policy = merged(json!({"evaluator": "workers"}), more);
    api.post("/v1/recovery/policies/p", &api.admin_key, policy).await.ok()
}

/// A run that spent its only attempt.
pub(super) async fn failed(api: &TestServer, category: &str, message: &str) -> String {
    let lease = api.leased(json!({"maxAttempts": 1, "leaseMs": 60_000})).await;
    let error = json!({"category": category, "message": message});
    api.complete(&lease, json!({"outcome": "FAILED", "error": error})).await.ok();
    lease.run
}

pub(super) async fn candidates(api: &TestServer) -> Vec<Value> {
    let found = api.get("/v1/recovery/candidates").await.ok();
    found["candidates"].as_array().unwrap().clone()
}

/// Waits until there is one candidate of which this is true.
pub(super) async fn until(api: &TestServer, is_it: impl Fn(&Value) -> bool) -> Value {
    let mut last = Vec::new();
    for _ in 0..LOOKS_MAX {
        last = candidates(api).await;
        if let [one] = &last[..]
            && is_it(one)
        {
            return one.clone();
        }
        tokio::task::yield_now().await;
    }
    panic!("it never came to that: {last:?}");
}

pub(super) async fn until_state(api: &TestServer, state: &str) -> Value {
    until(api, |it| it["state"] == state).await
}

async fn evaluations(api: &TestServer, worker: &str) -> Vec<Lease> {
    let body = json!({"workerId": worker, "queues": [QUEUE], "max": 10});
    let leases = api.post("/v1/leases", &api.key, body).await.leases();
    leases.into_iter().map(|lease| lease.by(worker)).collect()
}

pub(super) async fn evaluation(api: &TestServer) -> Lease {
    until_state(api, "pending").await;
    let mut leases = evaluations(api, "e1").await;
    assert_eq!(leases.len(), 1, "a candidate has one evaluation");
    leases.remove(0)
}

pub(super) fn names(action: &str) -> Value {
    json!({"outcome": "SUCCEEDED", "output": {"action": action, "confidence": 0.9}})
}

pub(super) async fn runs(api: &TestServer, filter: &str) -> Vec<Value> {
    let found = api.get(&format!("/v1/runs?{filter}")).await.ok();
    found["runs"].as_array().unwrap().clone()
}

#[tokio::test]
async fn runs_that_fail_alike_are_one_candidate_and_come_back_as_new_runs() {
    // Proves: S2-17: a candidate changes by its evaluation alone.
    // Proves: S2-18: no run that exists is changed by recovery.
    for api in both().await {
        set(&api, json!({"queue": "q"})).await;
        let mut old = Vec::new();
        for n in 0..3 {
            old.push(failed(&api, "INFRASTRUCTURE", &format!("db-{n} gone after {n}ms")).await);
        }
        let bystander = api.submit(json!({"priority": -9})).await;
        let mut before = Vec::new();
        for run in old.iter().chain([&bystander]) {
            before.push(api.get(&format!("/v1/runs/{run}/history")).await.ok());
        }
        let candidate = until(&api, |it| it["runs"] == 3).await;
        assert_eq!(
            (&candidate["count"], &candidate["pattern"]),
            (&json!(3), &json!("# gone after #"))
        );
        assert_eq!(candidate["suggestion"]["action"], "retry");
        let lease = evaluation(&api).await;
        let input = &lease.envelope["input"];
        assert_eq!(input["candidate"]["candidateId"], candidate["candidateId"]);
        assert_eq!(input["actions"], json!(["retry", "notify", "escalate", "skip"]));
        api.complete(&lease, names("retry")).await.ok();
        // The same report once more is the same report, and submits nothing more.
        let again = api.complete(&lease, names("retry")).await.ok();
        assert_eq!(again["replayed"], true);
        let done = until_state(&api, "succeeded").await;
        assert_eq!((&done["forked"], &done["refused"]), (&json!(3), &json!(0)));
        for (run, before) in old.iter().chain([&bystander]).zip(before) {
            let after = api.get(&format!("/v1/runs/{run}/history")).await.ok();
            assert_eq!(after["entries"], before["entries"], "{run} was touched");
        }
        let new = runs(&api, "label=tenure.recovered%3D1").await;
        let mut of: Vec<&str> = new.iter().map(|it| it["retryOf"].as_str().unwrap()).collect();
        of.sort_unstable();
        assert_eq!(of, old, "each is linked to the one that failed");
        assert!(new.iter().all(|it| it["state"] == "queued"));
        // A2-15: every change stays.
        let id = done["candidateId"].as_str().unwrap();
        let history = api.get(&format!("/v1/recovery/candidates/{id}/history")).await.ok();
        let states: Vec<&Value> = history["entries"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| &entry["candidate"]["state"])
            .collect();
        assert_eq!(states[..2], [&json!("succeeded"), &json!("executing")]);
        assert_eq!(states.last(), Some(&&json!("pending")));
    }
}

#[tokio::test]
async fn what_the_policy_does_not_allow_is_refused_and_the_lease_goes_on() {
    // A2-13, A2-16: an evaluation acts within the policy, and people decide where it is unsure.
    for api in both().await {
        set(&api, json!({"actions": ["notify", "retry"]})).await;
        failed(&api, "USER_CODE", "no").await;
        let lease = evaluation(&api).await;
        let refused = api.complete(&lease, names("escalate")).await;
        refused.problem(409, "recovery_out_of_scope").has("verdict", "REJECTED");
        let unsure = json!({"outcome": "SUCCEEDED", "output": {"action": "retry"}});
        api.complete(&lease, unsure).await.problem(409, "recovery_out_of_scope");
        let nothing = json!({"outcome": "SUCCEEDED", "output": {"act": "retry"}});
        api.complete(&lease, nothing).await.problem(400, "invalid_argument");
        api.heartbeat(&lease).await.ok();
        assert_eq!(candidates(&api).await[0]["state"], "pending");
        // A policy that is deleted allows nothing any more.
        api.post("/v1/recovery/policies/p/delete", &api.admin_key, json!({})).await.ok();
        api.complete(&lease, names("notify")).await.problem(409, "recovery_out_of_scope");
        api.complete(&lease, names("skip")).await.ok();
        assert_eq!(candidates(&api).await[0]["state"], "skipped");
        assert_eq!(runs(&api, "label=tenure.recovered").await.len(), 0);
    }
}

#[tokio::test]
async fn the_coordinator_evaluates_where_the_policy_says_so_and_cannot_loop() {
    // Proves: S2-103: what ended without its work done is claimed by itself, without a person.
    // A2-10, A2-18: what was recovered and fails again uses up the attempts of its signature.
    for api in both().await {
        set(&api, json!({"evaluator": "builtIn", "attempts": 1})).await;
        let old = failed(&api, "INFRASTRUCTURE", "gone").await;
        until(&api, |it| it["state"] == "succeeded" && it["forked"] == 1).await;
        let new = runs(&api, &format!("label=tenure.retry-of%3D{old}")).await;
        assert_eq!(new.len(), 1);
        let lease = api.lease("w1").await;
        assert_eq!(json!(lease.run), new[0]["runId"]);
        let error = json!({"category": "INFRASTRUCTURE", "message": "gone"});
        api.complete(&lease, json!({"outcome": "FAILED", "error": error})).await.ok();
        let exhausted = until_state(&api, "exhausted").await;
        assert_eq!((&exhausted["count"], &exhausted["forked"]), (&json!(2), &json!(1)));
        assert_eq!(runs(&api, "label=tenure.recovered").await.len(), 1);
    }
}

#[tokio::test]
async fn a_line_whose_words_change_each_time_ends_as_well() {
    for api in both().await {
        set(&api, json!({"evaluator": "builtIn", "attempts": 1})).await;
        failed(&api, "INFRASTRUCTURE", "the first word").await;
        until(&api, |it| it["forked"] == 1 && it["state"] == "succeeded").await;
        let lease = api.lease("w1").await;
        let error = json!({"category": "INFRASTRUCTURE", "message": "another word"});
        api.complete(&lease, json!({"outcome": "FAILED", "error": error})).await.ok();
        let mut found = Vec::new();
        for _ in 0..LOOKS_MAX {
            found = candidates(&api).await;
            if found.iter().any(|it| it["state"] == "failed") {
                break;
            }
        }
        let second = found.iter().find(|it| it["state"] == "failed").expect("it was judged");
        assert_eq!(second["lastRefusal"], "recovery_out_of_scope");
        assert_eq!(runs(&api, "label=tenure.recovered").await.len(), 1);
    }
}

#[tokio::test]
async fn people_decide_what_was_escalated_to_them() {
    // A2-11: a human approves or rejects.
    for api in both().await {
        set(&api, json!({"evaluator": "builtIn"})).await;
        let old = failed(&api, "USER_CODE", "no").await;
        let candidate = until_state(&api, "escalated").await;
        let path = format!(
            "/v1/recovery/candidates/{}/decide",
            candidate["candidateId"].as_str().unwrap()
        );
        let retry = json!({"action": "retry", "comment": "the code is mended"});
        api.post(&path, &api.client_key, retry.clone()).await.problem(403, "forbidden");
        api.post(&path, &api.foreign_key, retry.clone()).await.problem(404, "recovery_not_found");
        let not_allowed = json!({"action": "continue"});
        api.post(&path, &api.admin_key, not_allowed).await.problem(409, "recovery_out_of_scope");
        let decided = api.post(&path, &api.admin_key, retry.clone()).await.ok();
        assert_eq!(
            (&decided["state"], &decided["chosen"]["comment"]),
            (&json!("executing"), &json!("the code is mended"))
        );
        api.post(&path, &api.admin_key, retry).await.problem(409, "recovery_closed");
        until_state(&api, "succeeded").await;
        assert_eq!(runs(&api, &format!("label=tenure.retry-of%3D{old}")).await.len(), 1);
    }
}

#[tokio::test]
async fn an_evaluation_whose_worker_is_lost_is_leased_again() {
    // Proves: S2-47: every candidate is evaluated at least once.
    for api in both().await {
        set(&api, json!({})).await;
        failed(&api, "INFRASTRUCTURE", "gone").await;
        let lost = evaluation(&api).await;
        api.started(&lost).await.ok();
        api.pass(seconds(110)).await;
        let lease = evaluation(&api).await;
        assert_eq!((&lease.task, lease.attempt()), (&lost.task, 2));
        api.complete(&lost, names("retry")).await.problem(409, "attempt_mismatch");
        api.complete(&lease, names("skip")).await.ok();
        assert_eq!(candidates(&api).await[0]["state"], "skipped");
    }
}

#[tokio::test]
async fn a_candidate_ends_with_its_time_or_its_evaluation() {
    // A2-13: a scope expires. Nothing is done about what was not decided by then.
    for api in both().await {
        set(&api, json!({"expiresMs": 10_000, "attempts": 3})).await;
        failed(&api, "INFRASTRUCTURE", "gone").await;
        let pending = until_state(&api, "pending").await;
        api.pass(seconds(11)).await;
        until_state(&api, "expired").await;
        let run = pending["taskId"].as_str().unwrap().replace("task_", "run_");
        assert_eq!(api.state(&run).await, "cancelled");
        // The next failure opens it again, and somebody stops that evaluation.
        failed(&api, "INFRASTRUCTURE", "gone").await;
        let pending = until_state(&api, "pending").await;
        assert_eq!(pending["attempts"], 2);
        let run = pending["taskId"].as_str().unwrap().replace("task_", "run_");
        api.cancel(&run, json!({})).await;
        until_state(&api, "failed").await;
        assert_eq!(runs(&api, "label=tenure.recovered").await.len(), 0);
    }
}

#[tokio::test]
async fn without_a_policy_nothing_is_noted() {
    for api in both().await {
        failed(&api, "INFRASTRUCTURE", "gone").await;
        set(&api, json!({"queue": "elsewhere"})).await;
        failed(&api, "INFRASTRUCTURE", "gone").await;
        // What was judged, or stopped, is no matter of recovery either.
        set(&api, json!({})).await;
        failed(&api, "DATA_QUALITY", "wrong").await;
        let run = api.submit(json!({})).await;
        api.cancel(&run, json!({})).await;
        api.pass(seconds(2)).await;
        assert_eq!(candidates(&api).await, Vec::<Value>::new());
        let reserved = json!({"kind": "k", "queue": QUEUE});
        api.post("/v1/runs", &api.key, reserved).await.problem(400, "invalid_argument");
    }
}

#[tokio::test]
async fn a_new_run_costs_at_most_what_the_policy_says() {
    for api in both().await {
        set(&api, json!({"costMicros": 500_000, "runsMax": 1})).await;
        for _ in 0..2 {
            failed(&api, "INFRASTRUCTURE", "gone").await;
        }
        until(&api, |it| it["runs"] == 2).await;
        let lease = evaluation(&api).await;
        api.complete(&lease, names("retry")).await.ok();
        let done = until_state(&api, "succeeded").await;
        assert_eq!((&done["forked"], &done["refused"]), (&json!(1), &json!(1)));
        let new = runs(&api, "label=tenure.recovered").await;
        let run = api.run(new[0]["runId"].as_str().unwrap()).await;
        assert_eq!(run["budget"]["limits"]["costMicros"], 500_000, "{run}");
    }
}
