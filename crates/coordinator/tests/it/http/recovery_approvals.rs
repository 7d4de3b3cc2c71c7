//! What is escalated is an approval: in the inbox, for those whom the policy names, about a digest, with a quorum and an expiry. Their
//! word is what is done.

use serde_json::{Value, json};

use super::database::{BETWEEN_TRIES, Served, TRIES_MAX, UNHURRIED};
use super::recovery::{candidates, evaluation, failed, names, runs, set, until, until_state};
use super::test_server::{Response, TestServer, both, merged, seconds};

/// A candidate that was escalated under a policy with these terms.
async fn escalated(api: &TestServer, policy: Value, output: Value) -> Value {
    let base = json!({"actions": ["retry", "continue", "notify", "escalate"]});
    set(api, merged(base, policy)).await;
    failed(api, "INFRASTRUCTURE", "gone").await;
    let lease = evaluation(api).await;
    let output = merged(json!({"action": "escalate"}), output);
    api.complete(&lease, json!({"outcome": "SUCCEEDED", "output": output})).await.ok();
    until_state(api, "escalated").await
}

fn approval_of(candidate: &Value) -> &str {
    candidate["question"]["approvalId"].as_str().unwrap_or_else(|| panic!("{candidate}"))
}

fn says(candidate: &Value, decision: &str) -> Value {
    json!({"decision": decision, "digest": candidate["question"]["digest"], "comment": "my word"})
}

async fn name_action(api: &TestServer, key: &str, candidate: &Value, action: &str) -> Response {
    let id = candidate["candidateId"].as_str().unwrap();
    let path = format!("/v1/recovery/candidates/{id}/decide");
    api.post(&path, key, json!({"action": action})).await
}

async fn approval(api: &TestServer, id: &str) -> Value {
    api.get_as(&format!("/v1/approvals/{id}"), &api.admin_key).await.ok()
}

#[tokio::test]
async fn people_find_it_in_their_inbox_and_what_they_approve_is_done() {
    // A2-11: a human approves or rejects.
    for api in both().await {
        let (ann_id, ann) = api.key_with(json!(["approver"])).await;
        let candidate = escalated(&api, json!({"costMicros": 7}), json!({})).await;
        let inbox = api.pending(&ann).await;
        assert_eq!(inbox.len(), 1, "{inbox:?}");
        let id = approval_of(&candidate).to_owned();
        assert_eq!((&inbox[0]["approvalId"], &inbox[0]["quorum"]), (&json!(id), &json!(1)));
        assert_eq!(inbox[0]["roles"], json!(["approver", "admin"]));
        assert_eq!(inbox[0]["expiresAt"], candidate["expiresAt"]);
        let subject = inbox[0]["subject"].as_str().unwrap();
        assert!(
            subject.contains("retry for 1 failed run") && subject.contains("gone"),
            "{subject}"
        );
        // What is approved is written out, and its digest is what everybody computes.
        let asked = candidate["question"]["asked"].as_str().unwrap();
        let asked: Value = serde_json::from_str(asked).unwrap();
        assert_eq!((&asked["action"], &asked["costMicros"]), (&json!("retry"), &json!(7)));
        assert_eq!(asked["candidateId"], candidate["candidateId"]);
        let other = merged(says(&candidate, "APPROVED"), json!({"digest": "0".repeat(64)}));
        api.decide(&id, &ann, other).await.problem(409, "approval_digest_mismatch");
        api.decide(&id, &api.client_key, says(&candidate, "APPROVED"))
            .await
            .problem(403, "forbidden");
        assert_eq!(runs(&api, "label=tenure.recovered").await.len(), 0);
        api.decide(&id, &ann, says(&candidate, "APPROVED")).await.has("outcome", "APPROVED");
        let done = until_state(&api, "succeeded").await;
        assert_eq!((&done["forked"], &done["chosen"]["keyId"]), (&json!(1), &json!(ann_id)));
        assert_eq!(done["chosen"]["comment"], "my word");
        let new = runs(&api, "label=tenure.recovered").await;
        let run = api.run(new[0]["runId"].as_str().unwrap()).await;
        assert_eq!(run["budget"]["limits"]["costMicros"], 7, "{run}");
        // A word counts once.
        api.decide(&id, &ann, says(&candidate, "APPROVED")).await.problem(409, "approval_closed");
        assert_eq!(runs(&api, "label=tenure.recovered").await.len(), 1);
        assert!(api.pending(&ann).await.is_empty());
    }
}

#[tokio::test]
async fn one_who_is_named_rejects_it_and_nothing_is_done() {
    for api in both().await {
        let (ann_id, ann) = api.key_with(json!(["approver"])).await;
        let (_, bob) = api.key_with(json!(["approver"])).await;
        let policy = json!({"approval": {"keys": [ann_id], "quorum": 2}});
        let candidate = escalated(&api, policy, json!({"propose": "continue"})).await;
        assert_eq!(candidate["question"]["action"], "continue", "as the evaluation proposed");
        let id = approval_of(&candidate);
        let refused = api.decide(id, &bob, says(&candidate, "REJECTED")).await;
        refused.problem(403, "approval_forbidden");
        // Naming an action is no way around it.
        for action in ["continue", "skip", "retry"] {
            let refused = name_action(&api, &bob, &candidate, action).await;
            refused.problem(403, "approval_forbidden");
        }
        assert_eq!(candidates(&api).await[0]["state"], "escalated");
        let skipped = name_action(&api, &ann, &candidate, "skip").await.ok();
        assert_eq!(
            (&skipped["state"], &skipped["chosen"]["keyId"]),
            (&json!("skipped"), &json!(ann_id))
        );
        assert_eq!(approval(&api, id).await["outcome"], "REJECTED");
        assert_eq!(runs(&api, "label=tenure.recovered").await.len(), 0);
    }
}

#[tokio::test]
async fn as_many_must_agree_as_the_policy_says_by_either_way() {
    for api in both().await {
        let (_, ann) = api.key_with(json!(["approver"])).await;
        let (_, bob) = api.key_with(json!(["approver"])).await;
        let candidate = escalated(&api, json!({"approval": {"quorum": 2}}), json!({})).await;
        let id = approval_of(&candidate);
        let first = name_action(&api, &ann, &candidate, "retry").await.ok();
        assert_eq!(first["state"], "escalated", "one is not enough");
        name_action(&api, &ann, &candidate, "retry").await.problem(409, "already_voted");
        assert_eq!(approval(&api, id).await["votes"].as_array().unwrap().len(), 1);
        api.decide(id, &bob, says(&candidate, "APPROVED")).await.has("outcome", "APPROVED");
        until(&api, |it| it["state"] == "succeeded" && it["forked"] == 1).await;
    }
}

#[tokio::test]
async fn another_action_is_another_question() {
    for quorum in [1, 2] {
        for api in both().await {
            let (_, ann) = api.key_with(json!(["approver"])).await;
            let (_, bob) = api.key_with(json!(["approver"])).await;
            let policy = json!({"approval": {"quorum": quorum}});
            let candidate = escalated(&api, policy, json!({})).await;
            let first = approval_of(&candidate).to_owned();
            let said = name_action(&api, &ann, &candidate, "continue").await.ok();
            assert_eq!(approval(&api, &first).await["outcome"], "WITHDRAWN");
            if quorum == 1 {
                assert_eq!(said["state"], "executing");
            } else {
                assert_eq!(said["state"], "escalated");
                let second = approval_of(&said);
                assert_ne!(second, first);
                assert_ne!(said["question"]["digest"], candidate["question"]["digest"]);
                let votes = approval(&api, second).await["votes"].clone();
                assert_eq!(votes.as_array().unwrap().len(), 1, "who names it has voted: {votes}");
                // What was approved of the first question is not what is asked now.
                api.decide(second, &bob, says(&candidate, "APPROVED"))
                    .await
                    .problem(409, "approval_digest_mismatch");
                name_action(&api, &bob, &said, "continue").await.has("state", "executing");
            }
            until_state(&api, "succeeded").await;
            let new = runs(&api, "label=tenure.recovered").await;
            assert!(new.len() == 1 && new[0]["forkOf"].is_string(), "{new:?}");
        }
    }
}

#[tokio::test]
async fn with_a_quorum_nobody_decides_alone_before_the_evaluation_either() {
    for api in both().await {
        let (_, ann) = api.key_with(json!(["approver"])).await;
        let (_, bob) = api.key_with(json!(["approver"])).await;
        set(&api, json!({"approval": {"quorum": 2}})).await;
        failed(&api, "INFRASTRUCTURE", "gone").await;
        let lease = evaluation(&api).await;
        let pending = until_state(&api, "pending").await;
        let said = name_action(&api, &ann, &pending, "retry").await.ok();
        assert_eq!(said["state"], "escalated");
        // Nobody waits for the evaluation any more: nothing comes of what it says.
        api.complete(&lease, names("skip")).await;
        assert_eq!(candidates(&api).await[0]["state"], "escalated");
        name_action(&api, &bob, &said, "retry").await.has("state", "executing");
        until(&api, |it| it["state"] == "succeeded" && it["forked"] == 1).await;
    }
}

#[tokio::test]
async fn silence_means_what_the_policy_says() {
    let cases = [
        (json!("APPROVED"), "succeeded", 1),
        (json!("REJECTED"), "skipped", 0),
        (Value::Null, "expired", 0),
    ];
    for (default, state, new) in cases {
        for api in both().await {
            let mut terms = json!({"expiresMs": 5_000});
            if !default.is_null() {
                terms["default"] = default.clone();
            }
            let candidate = escalated(&api, json!({"approval": terms}), json!({})).await;
            api.pass(seconds(6)).await;
            let done = until_state(&api, state).await;
            assert!(done["chosen"]["keyId"].is_null(), "nobody did: {done}");
            let outcome = approval(&api, approval_of(&candidate)).await["outcome"].clone();
            let expected = if default.is_null() { json!("EXPIRED") } else { default.clone() };
            assert_eq!(outcome, expected);
            assert_eq!(runs(&api, "label=tenure.recovered").await.len(), new);
        }
    }
}

#[tokio::test]
async fn what_is_approved_is_bound_by_the_policy_of_the_moment() {
    // A2-13: nothing outside the scope is done, whoever approved it.
    for api in both().await {
        let candidate = escalated(&api, json!({}), json!({})).await;
        set(&api, json!({"actions": ["notify", "escalate"]})).await;
        let id = approval_of(&candidate);
        api.decide(id, &api.admin_key, says(&candidate, "APPROVED")).await.ok();
        let failed = until_state(&api, "failed").await;
        assert_eq!(failed["lastRefusal"], "recovery_out_of_scope");
        assert_eq!(runs(&api, "label=tenure.recovered").await.len(), 0);
    }
    // Nor is more done than they saw, when the policy becomes wider meanwhile.
    for api in both().await {
        let candidate = escalated(&api, json!({"runsMax": 1}), json!({})).await;
        failed(&api, "INFRASTRUCTURE", "gone").await;
        until(&api, |it| it["runs"] == 2).await;
        set(&api, json!({"runsMax": 100})).await;
        let id = approval_of(&candidate);
        api.decide(id, &api.admin_key, says(&candidate, "APPROVED")).await.ok();
        let done = until_state(&api, "succeeded").await;
        assert_eq!((&done["forked"], &done["refused"]), (&json!(1), &json!(1)), "{done}");
    }
}

#[tokio::test]
async fn a_question_that_is_cancelled_or_out_of_time_leaves_no_candidate_behind() {
    for api in both().await {
        let candidate =
            escalated(&api, json!({"attempts": 2, "expiresMs": 20_000}), json!({})).await;
        let asking = approval(&api, approval_of(&candidate)).await["runId"].clone();
        api.cancel(asking.as_str().unwrap(), json!({})).await.ok();
        until_state(&api, "failed").await;
        // The next failure opens it again; and a question ends with its candidate.
        failed(&api, "INFRASTRUCTURE", "gone").await;
        let lease = evaluation(&api).await;
        api.complete(&lease, names("escalate")).await.ok();
        let candidate = until_state(&api, "escalated").await;
        api.pass(seconds(21)).await;
        until_state(&api, "expired").await;
        let closed = approval(&api, approval_of(&candidate)).await;
        assert_eq!(closed["state"], "closed", "{closed}");
        assert_eq!(runs(&api, "label=tenure.recovered").await.len(), 0);
    }
}

#[tokio::test]
async fn terms_that_cannot_be_kept_are_refused() {
    for api in both().await {
        for approval in [
            json!({"quorum": 0}),
            json!({"roles": ["chief"]}),
            json!({"default": "REJECTED"}),
            json!({"expiresMs": 1}),
            json!({"digest": "x"}),
        ] {
            let refused = api
                .post("/v1/recovery/policies/p", &api.admin_key, json!({"approval": approval}))
                .await;
            refused.problem(400, "invalid_argument");
        }
        let policy = set(&api, json!({"approval": {"roles": ["admin"], "quorum": 2}})).await;
        assert_eq!(policy["approval"], json!({"roles": ["admin"], "quorum": 2}));
    }
}

async fn find(served: &Served, is_it: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..TRIES_MAX {
        let found = served.get("/v1/recovery/candidates").await.body["candidates"].clone();
        if let Some(one) = found.as_array().and_then(|all| all.iter().find(|it| is_it(it))) {
            return one.clone();
        }
        tokio::time::sleep(BETWEEN_TRIES).await;
    }
    panic!("it never came to that: {:?}", served.get("/v1/recovery/candidates").await.body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_action_on_postgresql_with_two_coordinators() {
    // S2-17, S2-18, A2-10: decided at one coordinator, carried out by either, once.
    let database = pgserver::Server::builder().start().unwrap();
    let one = Served::at(&database.conninfo("postgres"), UNHURRIED).await;
    let two = one.beside(&database.conninfo("postgres")).await;
    let policy = json!({"evaluator": "workers", "approval": {"quorum": 1},
        "actions": ["retry", "continue", "notify", "escalate"]});
    assert_eq!(one.post("/v1/recovery/policies/p", policy).await.status, 200);
    let actions = ["retry", "continue", "notify", "escalate", "skip"];
    for action in actions {
        // A queue for each, because what was recovered waits in its own.
        let run = json!({"kind": action, "queue": action, "maxAttempts": 1, "leaseMs": 600_000});
        one.post("/v1/runs", run).await;
        let poll = json!({"workerId": "w", "queues": [action], "max": 1, "waitMs": 20_000});
        let lease = one.post("/v1/leases", poll).await.body["leases"][0].clone();
        let said = |lease: &Value, more: Value| {
            merged(json!({"attempt": lease["attempt"], "workerId": "w"}), more)
        };
        let report = async |served: &Served, lease: &Value, more: Value| {
            let path = format!("/v1/tasks/{}/completed", lease["taskId"].as_str().unwrap());
            let token = lease["taskToken"].as_str().unwrap();
            let got = served.ask("POST", &path, token, Some(said(lease, more))).await;
            assert_eq!(got.status, 200, "{:?}", got.body);
        };
        let error = json!({"category": "INFRASTRUCTURE", "message": "gone"});
        report(&one, &lease, json!({"outcome": "FAILED", "error": error})).await;
        find(&two, |it| it["kind"] == action && it["state"] == "pending").await;
        let poll =
            json!({"workerId": "w", "queues": ["tenure.recovery"], "max": 1, "waitMs": 20_000});
        let evaluation = two.post("/v1/leases", poll).await.body["leases"][0].clone();
        let output = json!({"action": action, "confidence": 1.0});
        report(&two, &evaluation, json!({"outcome": "SUCCEEDED", "output": output})).await;
        let state = match action {
            "skip" => "skipped",
            "escalate" => "escalated",
            _ => "succeeded",
        };
        let candidate = find(&one, |it| it["kind"] == action && it["state"] == state).await;
        if action == "escalate" {
            let path = format!("/v1/approvals/{}/decide", approval_of(&candidate));
            // The key that evaluated it does not decide what it proposed.
            let got = one.post(&path, says(&candidate, "APPROVED")).await;
            assert_eq!(got.status, 403, "{:?}", got.body);
            let made = one.post("/v1/keys", json!({"roles": ["approver"]})).await;
            let person = made.body["secret"].as_str().unwrap().to_owned();
            let says = says(&candidate, "APPROVED");
            let got = one.ask("POST", &path, &person, Some(says)).await;
            assert_eq!(got.status, 200, "{:?}", got.body);
            find(&two, |it| it["kind"] == action && it["state"] == "succeeded").await;
        }
    }
    let new = one.get("/v1/runs?label=tenure.recovered").await.body["runs"].clone();
    let mut kinds: Vec<&str> =
        new.as_array().unwrap().iter().map(|run| run["kind"].as_str().unwrap()).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["continue", "escalate", "retry"]);
    one.verify().await;
}
