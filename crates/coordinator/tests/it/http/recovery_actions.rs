//! The five actions of recovery, end to end: what each of them does, to what, and that it touches nothing else; and every limit of
//! a policy where it is reached.

use serde_json::{Value, json};

use super::durable::step;
use super::recovery::{candidates, evaluation, failed, names, runs, set, until, until_state};
use super::test_server::{Lease, TestServer, both, merged, seconds};
use super::webhooks::receiver::Receiver;

/// What must be the same afterwards: the history of every run that there is, and of one that waits in another queue.
struct Witness {
    histories: Vec<(String, Value)>,
}

impl Witness {
    async fn of(api: &TestServer) -> Self {
        let bystander = json!({"queue": "elsewhere", "labels": {"bystander": "1"}});
        api.submit(bystander).await;
        let mut histories = Vec::new();
        for run in runs(api, "limit=1000").await {
            let run = run["runId"].as_str().unwrap().to_owned();
            // Evaluations are recovery's own.
            if api.run(&run).await["queue"] != "tenure.recovery" {
                let history = api.get(&format!("/v1/runs/{run}/history")).await.ok();
                histories.push((run, history["entries"].clone()));
            }
        }
        Self { histories }
    }

    /// S2-18: recovery changes no run that existed before it acted.
    async fn saw_nothing(&self, api: &TestServer) {
        for (run, before) in &self.histories {
            let after = api.get(&format!("/v1/runs/{run}/history")).await.ok();
            assert_eq!(after["entries"], *before, "{run} was touched");
        }
    }

    /// Nothing was submitted, either.
    async fn saw_no_new_run(&self, api: &TestServer) {
        self.saw_nothing(api).await;
        assert_eq!(runs(api, "label=tenure.recovered").await, Vec::<Value>::new());
    }
}

async fn decide(api: &TestServer, candidate: &Value, body: Value) -> super::test_server::Response {
    let id = candidate["candidateId"].as_str().unwrap();
    api.post(&format!("/v1/recovery/candidates/{id}/decide"), &api.admin_key, body).await
}

/// A run that spent its only attempt after one recorded step.
async fn failed_after_a_step(api: &TestServer) -> String {
    let old = api.leased(json!({"maxAttempts": 1, "leaseMs": 60_000})).await;
    api.checkpoint(&old, json!({"steps": [step("a#1", json!("kept"))]})).await.ok();
    let error = json!({"category": "INFRASTRUCTURE", "message": "gone"});
    api.complete(&old, json!({"outcome": "FAILED", "error": error})).await.has("state", "failed");
    old.run
}

fn recorded(lease: &Lease) -> Value {
    lease.envelope["checkpoints"].clone()
}

#[tokio::test]
async fn a_retry_begins_from_nothing_and_continue_from_what_was_recorded() {
    // A2-10, A2-17: a new run linked to the one that failed, which stays as it is.
    for (action, label) in [("retry", "retryOf"), ("continue", "forkOf")] {
        for api in both().await {
            set(&api, json!({"actions": [action]})).await;
            let old = match action {
                "retry" => failed(&api, "INFRASTRUCTURE", "gone").await,
                _ => failed_after_a_step(&api).await,
            };
            let lease = evaluation(&api).await;
            let witness = Witness::of(&api).await;
            api.complete(&lease, names(action)).await.ok();
            let done = until_state(&api, "succeeded").await;
            assert_eq!(
                (&done["forked"], &done["chosen"]["action"]),
                (&json!(1), &json!(action)),
                "{done}"
            );
            witness.saw_nothing(&api).await;
            let new = runs(&api, "label=tenure.recovered").await;
            assert_eq!((new.len(), &new[0][label]), (1, &json!(old)), "{new:?}");
            let lease = api.lease("w2").await;
            assert_eq!(json!(lease.run), new[0]["runId"]);
            if action == "continue" {
                assert_eq!(recorded(&lease)[0]["result"], "kept");
                assert_eq!(api.run(&old).await["forks"], json!([lease.run]));
            } else {
                assert!(recorded(&lease).as_array().is_none_or(Vec::is_empty));
                assert_eq!(api.run(&old).await["retries"], json!([lease.run]), "linked both ways");
            }
        }
    }
}

#[tokio::test]
async fn a_retry_does_nothing_again_that_is_recorded() {
    for api in both().await {
        set(&api, json!({"actions": ["retry"]})).await;
        failed_after_a_step(&api).await;
        let lease = evaluation(&api).await;
        let witness = Witness::of(&api).await;
        api.complete(&lease, names("retry")).await.ok();
        let done = until(&api, |it| it["refused"] == 1).await;
        assert_eq!((&done["forked"], &done["lastRefusal"]), (&json!(0), &json!("run_has_records")));
        witness.saw_no_new_run(&api).await;
    }
}

#[tokio::test]
async fn notify_tells_subscribers_once_and_does_nothing_else() {
    for api in both().await {
        let (mut told, mut others) = (Receiver::start().await, Receiver::start().await);
        let types = json!({"types": ["recovery.notified"]});
        let made = api.endpoint("told", &told.url, types).await;
        api.endpoint("others", &others.url, json!({"types": ["recovery.escalated"]})).await;
        set(&api, json!({"actions": ["notify"]})).await;
        failed(&api, "USER_CODE", "no").await;
        let lease = evaluation(&api).await;
        let witness = Witness::of(&api).await;
        api.complete(&lease, names("notify")).await.ok();
        // The same report once more tells nobody again.
        api.complete(&lease, names("notify")).await.has("replayed", true);
        let done = until_state(&api, "succeeded").await;
        let delivery = told.next().await;
        assert_eq!(delivery.verify(made["secret"].as_str().unwrap()), Ok(()));
        let body: Value = serde_json::from_str(&delivery.body).unwrap();
        assert_eq!(body["type"], "recovery.notified");
        assert_eq!(body["data"]["candidateId"], done["candidateId"]);
        assert_eq!(body["data"]["chosen"]["action"], "notify");
        assert_eq!(api.effects("").await.len(), 1, "it is in the outbox like every effect");
        witness.saw_no_new_run(&api).await;
        told.assert_quiet();
        others.assert_quiet();
    }
}

#[tokio::test]
async fn what_is_escalated_waits_for_people_who_are_told() {
    for api in both().await {
        let mut told = Receiver::start().await;
        api.endpoint("told", &told.url, json!({"types": ["recovery.escalated"]})).await;
        set(&api, json!({"actions": ["escalate", "retry"]})).await;
        failed(&api, "USER_CODE", "no").await;
        let lease = evaluation(&api).await;
        let witness = Witness::of(&api).await;
        api.complete(&lease, names("escalate")).await.ok();
        let escalated = until_state(&api, "escalated").await;
        let body: Value = serde_json::from_str(&told.next().await.body).unwrap();
        assert_eq!(body["type"], "recovery.escalated");
        assert_eq!(body["data"]["candidateId"], escalated["candidateId"]);
        told.assert_quiet();
        witness.saw_no_new_run(&api).await;
        // What fails alike meanwhile is part of the same question.
        failed(&api, "USER_CODE", "no").await;
        until(&api, |it| it["runs"] == 2 && it["state"] == "escalated").await;
        let skipped = decide(&api, &escalated, json!({"action": "skip"})).await.ok();
        assert_eq!(skipped["state"], "skipped");
        assert!(skipped["chosen"]["keyId"].is_string(), "{skipped}");
        witness.saw_no_new_run(&api).await;
    }
}

#[tokio::test]
async fn skip_does_nothing_and_needs_no_permission() {
    for api in both().await {
        set(&api, json!({"actions": []})).await;
        failed(&api, "INFRASTRUCTURE", "gone").await;
        let lease = evaluation(&api).await;
        let witness = Witness::of(&api).await;
        for action in ["retry", "continue", "notify", "escalate"] {
            let refused = api.complete(&lease, names(action)).await;
            refused.problem(409, "recovery_out_of_scope");
        }
        api.complete(&lease, names("skip")).await.ok();
        until_state(&api, "skipped").await;
        witness.saw_no_new_run(&api).await;
    }
}

#[tokio::test]
async fn people_are_bound_by_the_policy_as_evaluations_are() {
    // A2-13: the allowed actions.
    for api in both().await {
        set(&api, json!({"actions": ["notify"]})).await;
        failed(&api, "INFRASTRUCTURE", "gone").await;
        let pending = until_state(&api, "pending").await;
        let witness = Witness::of(&api).await;
        for action in ["retry", "continue", "escalate"] {
            let refused = decide(&api, &pending, json!({"action": action})).await;
            refused.problem(409, "recovery_out_of_scope");
        }
        assert_eq!(candidates(&api).await[0]["state"], "pending", "a refusal changes nothing");
        let done = decide(&api, &pending, json!({"action": "notify"})).await.ok();
        assert_eq!(done["state"], "succeeded");
        witness.saw_no_new_run(&api).await;
        // The evaluation that nobody waits for any more is over.
        let evaluation = pending["taskId"].as_str().unwrap().replace("task_", "run_");
        assert_eq!(api.state(&evaluation).await, "cancelled");
    }
}

#[tokio::test]
async fn a_round_submits_as_many_runs_as_the_policy_says_and_the_rest_stays() {
    // A2-13: the ceiling, of runs and of what each of them may cost.
    for api in both().await {
        set(&api, json!({"runsMax": 2, "costMicros": 700})).await;
        for cost in [100, 5_000, 5_000] {
            let lease = api
                .leased(
                    json!({"maxAttempts": 1, "leaseMs": 60_000, "budget": {"costMicros": cost}}),
                )
                .await;
            let error = json!({"category": "INFRASTRUCTURE", "message": "gone"});
            api.complete(&lease, json!({"outcome": "FAILED", "error": error})).await.ok();
        }
        until(&api, |it| it["runs"] == 3).await;
        let lease = evaluation(&api).await;
        let witness = Witness::of(&api).await;
        api.complete(&lease, names("retry")).await.ok();
        let done = until_state(&api, "succeeded").await;
        assert_eq!((&done["forked"], &done["refused"]), (&json!(2), &json!(1)), "{done}");
        assert_eq!(done["lastRefusal"], "recovery_out_of_scope");
        witness.saw_nothing(&api).await;
        for new in runs(&api, "label=tenure.recovered").await {
            let run = api.run(new["runId"].as_str().unwrap()).await;
            let most = run["budget"]["limits"]["costMicros"].as_u64().unwrap();
            assert!(most <= 700, "{run}");
        }
    }
}

#[tokio::test]
async fn a_signature_whose_attempts_are_spent_is_only_counted() {
    // A2-13, A2-18: attempts only grow, and end.
    for api in both().await {
        set(&api, json!({"attempts": 2})).await;
        for attempt in 1..=2 {
            failed(&api, "INFRASTRUCTURE", "gone").await;
            until(&api, |it| it["attempts"] == attempt && it["state"] == "pending").await;
            let lease = evaluation(&api).await;
            api.complete(&lease, names("skip")).await.ok();
            until_state(&api, "skipped").await;
        }
        failed(&api, "INFRASTRUCTURE", "gone").await;
        let spent = until_state(&api, "exhausted").await;
        assert_eq!((&spent["count"], &spent["attempts"]), (&json!(3), &json!(2)));
        let witness = Witness::of(&api).await;
        for action in ["retry", "notify", "skip"] {
            let refused = decide(&api, &spent, json!({"action": action})).await;
            refused.problem(409, "recovery_closed");
        }
        witness.saw_no_new_run(&api).await;
    }
}

#[tokio::test]
async fn after_its_time_nobody_acts_on_a_candidate() {
    // A2-13: the expiry, of what is pending, of what waits for people, and of what is being carried out.
    for escalates in [false, true] {
        for api in both().await {
            set(&api, json!({"expiresMs": 10_000, "actions": ["retry", "escalate"]})).await;
            failed(&api, "INFRASTRUCTURE", "gone").await;
            let lease = evaluation(&api).await;
            if escalates {
                api.complete(&lease, names("escalate")).await.ok();
                until_state(&api, "escalated").await;
            }
            let witness = Witness::of(&api).await;
            api.pass(seconds(11)).await;
            let expired = until_state(&api, "expired").await;
            if !escalates {
                // Its worker may still end the evaluation, and nothing comes of it.
                api.complete(&lease, names("retry")).await;
            }
            for action in ["retry", "skip"] {
                let refused = decide(&api, &expired, json!({"action": action})).await;
                refused.problem(409, "recovery_closed");
            }
            witness.saw_no_new_run(&api).await;
        }
    }
}

/// A policy that is narrowed while a candidate waits binds what is done afterwards.
#[tokio::test]
async fn the_policy_of_the_moment_counts() {
    for api in both().await {
        set(&api, json!({"actions": ["retry", "escalate"]})).await;
        failed(&api, "USER_CODE", "no").await;
        let lease = evaluation(&api).await;
        api.complete(&lease, names("escalate")).await.ok();
        let escalated = until_state(&api, "escalated").await;
        let witness = Witness::of(&api).await;
        set(&api, merged(json!({"actions": ["notify"]}), json!({}))).await;
        decide(&api, &escalated, json!({"action": "retry"}))
            .await
            .problem(409, "recovery_out_of_scope");
        witness.saw_no_new_run(&api).await;
        decide(&api, &escalated, json!({"action": "notify"})).await.has("state", "succeeded");
    }
}

/// Who evaluates is a matter of the policy of the moment too: a worker with an evaluation from before decides nothing.
#[tokio::test]
async fn a_worker_decides_nothing_once_the_server_evaluates() {
    for api in both().await {
        let actions = json!({"actions": ["retry", "notify", "escalate"]});
        set(&api, actions.clone()).await;
        failed(&api, "INFRASTRUCTURE", "gone").await;
        let lease = evaluation(&api).await;
        let witness = Witness::of(&api).await;
        set(&api, merged(actions, json!({"evaluator": "builtIn"}))).await;
        for action in ["retry", "notify"] {
            let refused = api.complete(&lease, names(action)).await;
            refused.problem(409, "recovery_out_of_scope");
        }
        witness.saw_no_new_run(&api).await;
        api.complete(&lease, names("escalate")).await.ok();
        until_state(&api, "escalated").await;
    }
}
