//! Who may do what to whose work: reserved queues, queues of limited keys, and the key that did the work.

use serde_json::{Value, json};

use super::durable::step;
use super::recovery::{failed, names, set, until, until_state};
use super::test_server::{Lease, TestServer, both, merged, run, seconds};
use super::topologies::{self, AGENT_REVIEW, BAKERY, apply, asked_about, executed, executor};

/// Queues in which the server's own work waits.
const RESERVED: [&str; 4] = [
    "tenure.recovery.builtin",
    "tenure.topology.review/gates",
    "tenure.topology.review/events",
    "tenure.anything",
];

impl TestServer {
    async fn limited(&self, roles: &[&str], queues: &[&str]) -> String {
        let wanted = json!({"roles": roles, "queues": queues});
        self.post("/v1/keys", &self.admin_key, wanted).await.text("secret")
    }

    async fn key_of(&self, roles: &[&str]) -> String {
        self.post("/v1/keys", &self.admin_key, json!({"roles": roles})).await.text("secret")
    }

    /// The lease that a poll with this key gets.
    async fn leased_by(&self, key: &str, queue: &str) -> Lease {
        let poll = json!({"workerId": "w1", "queues": [queue], "max": 1, "waitMs": 20_000});
        let mut leases = self.post("/v1/leases", key, poll).await.leases();
        assert_eq!(leases.len(), 1, "one task is ready in {queue}");
        leases.remove(0)
    }

    async fn ended(&self, run: &str, state: &str) -> Value {
        let ended = self.run(run).await;
        assert_eq!(ended["state"], state, "{ended}");
        ended
    }
}

#[tokio::test]
async fn no_worker_endpoint_or_administrator_serves_a_reserved_queue() {
    for api in both().await {
        for queue in RESERVED {
            let poll = json!({"workerId": "w", "queues": ["q", queue], "max": 1});
            let refused = api.post("/v1/leases", &api.worker_key, poll).await;
            refused.problem(400, "invalid_argument").has("field", "queues");
            let wanted = json!({"name": "taker", "url": "http://127.0.0.1:9/", "queues": [queue]});
            let refused = api.post("/v1/endpoints", &api.admin_key, wanted).await;
            refused.problem(400, "invalid_argument").has("field", "queues");
            let path = format!("/v1/queues/{}/pause", queue.replace('/', "~"));
            let refused = api.post(&path, &api.admin_key, json!({})).await;
            refused.problem(400, "invalid_argument").has("field", "queue");
            let refused = api.post("/v1/runs", &api.key, run(json!({"queue": queue}))).await;
            refused.problem(400, "invalid_argument").has("field", "queue");
        }
        // A change is checked as the registration is.
        api.endpoint("taker", "http://127.0.0.1:9/", json!({"queues": ["q"]})).await;
        let change = json!({"queues": [RESERVED[1]]});
        let refused = api.post("/v1/endpoints/taker", &api.admin_key, change).await;
        refused.problem(400, "invalid_argument").has("field", "queues");
        // Evaluations for workers are leased, and neither pushed nor paused.
        let wanted =
            json!({"name": "judge", "url": "http://127.0.0.1:9/", "queues": ["tenure.recovery"]});
        let refused = api.post("/v1/endpoints", &api.admin_key, wanted).await;
        refused.problem(400, "invalid_argument").has("field", "queues");
        let pause = "/v1/queues/tenure.recovery/pause";
        let refused = api.post(pause, &api.admin_key, json!({})).await;
        refused.problem(400, "invalid_argument").has("field", "queue");
        assert!(refused.text("message").contains("reserved for recovery"), "{refused:?}");
        // Workers that evaluate for a policy that wants it are workers like any other.
        let poll = json!({"workerId": "w", "queues": ["tenure.recovery"], "max": 1});
        api.post("/v1/leases", &api.worker_key, poll).await.ok();
    }
}

#[tokio::test]
async fn no_worker_starts_a_child_in_a_reserved_queue() {
    for api in both().await {
        let parent = api.leased(json!({"leaseMs": 60_000})).await;
        for queue in RESERVED.into_iter().chain(["tenure.recovery"]) {
            for detached in [false, true] {
                let child =
                    json!({"key": "c#1", "kind": "k", "queue": queue, "detached": detached});
                let call = json!({"children": [child]});
                let refused = api.checkpoint(&parent, call.clone()).await;
                refused.problem(400, "invalid_argument").has("field", "children[0].queue");
                let report = merged(json!({"outcome": "SUCCEEDED"}), call);
                let refused = api.complete(&parent, report).await;
                refused.problem(400, "invalid_argument").has("field", "children[0].queue");
            }
        }
        assert_eq!(api.state(&parent.run).await, "running", "nothing of the calls took effect");
    }
}

#[tokio::test]
async fn the_built_in_evaluation_is_the_servers_although_a_worker_waits_for_it() {
    for api in both().await {
        let policy = json!({"evaluator": "builtIn", "actions": ["retry", "escalate"]});
        api.post("/v1/recovery/policies/p", &api.admin_key, policy).await.ok();
        let waiting = json!({"workerId": "thief", "queues": ["tenure.recovery"], "max": 1,
            "waitMs": 2_000});
        let (stolen, _) = tokio::join!(
            api.post("/v1/leases", &api.worker_key, waiting),
            failed(&api, "USER_CODE", "no")
        );
        assert_eq!(stolen.leases().len(), 0, "the evaluation is not a worker's");
        until_state(&api, "escalated").await;
    }
}

#[tokio::test]
async fn runs_of_deployments_and_of_recovery_are_not_submitted_again_by_clients() {
    for api in both().await {
        set(&api, json!({})).await;
        failed(&api, "INFRASTRUCTURE", "gone").await;
        until_state(&api, "pending").await;
        let lease = api.leased_by(&api.key, "tenure.recovery").await;
        let cancelled = api.cancel(&lease.run, json!({"force": true})).await;
        cancelled.has("state", "cancelled");
        for path in ["retry", "fork"] {
            let body = if path == "retry" { json!({"fromScratch": true}) } else { json!({}) };
            let refused = api.post(&format!("/v1/runs/{}/{path}", lease.run), &api.key, body).await;
            assert_eq!(refused.status, 409, "{refused:?}");
            assert!(refused.text("message").contains("server's own work"), "{refused:?}");
        }
        apply(&api, "review", AGENT_REVIEW).await;
        let path = "/v1/deployments/review/artifacts/assignment";
        api.post(path, &api.key, json!({"id": "a", "fields": {"goal": "g"}})).await;
        let order = executor(&api, "agents").await;
        api.cancel(&order.run, json!({"force": true})).await.ok();
        let refused = api.post(&format!("/v1/runs/{}/retry", order.run), &api.key, json!({})).await;
        refused.problem(409, "run_not_retryable");
    }
}

#[tokio::test]
async fn a_limited_client_debounces_no_run_of_another_queue() {
    for api in both().await {
        let waits = |queue: &str| {
            run(json!({"queue": queue, "flow": {"key": "acme", "debounceMs": 5_000}}))
        };
        let victim = api.post("/v1/runs", &api.client_key, waits("b")).await.text("runId");
        let key = api.limited(&["client"], &["a"]).await;
        let refused = api.post("/v1/runs", &key, waits("a")).await;
        refused.problem(403, "debounce_forbidden");
        assert!(!refused.text("message").contains(&victim), "{refused:?}");
        assert_eq!(api.state(&victim).await, "queued");
        let batch = json!({"runs": [waits("a"), run(json!({"queue": "a"}))]});
        let results = api.post("/v1/runs", &key, batch).await.ok()["results"].clone();
        assert_eq!(results[0]["error"], "debounce_forbidden", "{results}");
        assert!(results[1]["runId"].is_string(), "{results}");
        // A key that may use both queues replaces, and one whose own run waits replaces that.
        let wide = api.limited(&["client"], &["a", "b"]).await;
        let second = api.post("/v1/runs", &wide, waits("a")).await.text("runId");
        assert_eq!(api.state(&victim).await, "cancelled");
        let third = api.post("/v1/runs", &key, waits("a")).await.text("runId");
        assert_eq!((api.state(&second).await, api.state(&third).await).0, "cancelled");
    }
}

#[tokio::test]
async fn a_limited_worker_starts_children_in_its_queues_only() {
    for api in both().await {
        let key = api.limited(&["worker"], &["a"]).await;
        api.submit(json!({"queue": "a"})).await;
        let lease = api.leased_by(&key, "a").await;
        let child = |queue: &str, key: &str, detached: bool| json!({"children": [{"key": key, "kind": "k", "queue": queue, "detached": detached}]});
        for detached in [false, true] {
            let refused = api.checkpoint(&lease, child("b", "kid", detached)).await;
            refused.problem(403, "forbidden");
            assert!(refused.text("message").contains("start children in the queue b"));
            let report = merged(json!({"outcome": "SUCCEEDED"}), child("b", "kid", detached));
            api.complete(&lease, report).await.problem(403, "forbidden");
        }
        let item = merged(
            json!({"taskId": lease.task, "taskToken": lease.token, "attempt": 1,
            "workerId": "w1"}),
            child("b", "kid", false),
        );
        let answers = api.post("/v1/checkpoints", &key, json!({"checkpoints": [item]})).await.ok()
            ["answers"]
            .clone();
        assert_eq!(answers[0]["error"], "forbidden", "{answers}");
        api.checkpoint(&lease, child("a", "kid", false)).await.ok();
        assert_eq!(api.get("/v1/runs?queue=b&children=true").await.ok()["runs"], json!([]));
        // A key without a limit starts them anywhere.
        let free = api.leased(json!({})).await;
        api.checkpoint(&free, child("b", "kid", false)).await.ok();
    }
}

#[tokio::test]
async fn a_limited_key_sees_the_policies_of_its_queues_only() {
    for api in both().await {
        for (name, queue) in [("own", json!("a")), ("other", json!("b")), ("all", json!(null))] {
            let policy = match queue {
                Value::Null => json!({}),
                queue => json!({"queue": queue}),
            };
            let path = format!("/v1/recovery/policies/{name}");
            api.post(&path, &api.admin_key, policy).await.ok();
        }
        let seen = async |key: &str| {
            let found = api.get_as("/v1/recovery/policies", key).await.ok()["policies"].clone();
            let found = found.as_array().unwrap().clone();
            found.iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        for roles in [["client"], ["reader"]] {
            let key = api.limited(&roles, &["a"]).await;
            assert_eq!(seen(&key).await, ["own"]);
        }
        assert_eq!(seen(&api.client_key).await.len(), 3);
    }
}

#[tokio::test]
async fn whoever_made_it_does_not_approve_it_at_the_gate_and_others_see_what_it_is() {
    for api in both().await {
        let maker = api.key_of(&["worker", "approver"]).await;
        apply(&api, "review", AGENT_REVIEW).await;
        let path = "/v1/deployments/review/artifacts/assignment";
        api.post(path, &api.key, json!({"id": "a", "fields": {"goal": "g"}})).await;
        executed(&api, "agents", json!({"steps": ["one"]})).await;
        let built = api.leased_by(&maker, "agents").await;
        let change = json!({"summary": "s", "files": ["f"]});
        api.complete(&built, json!({"outcome": "SUCCEEDED", "output": change})).await.ok();
        executed(&api, "judges", json!({"score": 0.9})).await;
        let approval = asked_about(&api).await;
        let path = format!("/v1/approvals/{approval}");
        let shown = api.get_as(&path, &api.admin_key).await.ok();
        let content = shown["content"].as_str().expect("people see what they decide about");
        assert_eq!(serde_json::from_str::<Value>(content).unwrap(), change);
        let digest = verdict::Digest::of_bytes(content.as_bytes()).to_string();
        assert_eq!(shown["digest"], json!(digest), "and its digest is that of the text");
        let says = json!({"decision": "APPROVED", "digest": digest});
        let path = format!("{path}/decide");
        let own = api.post(&path, &maker, says.clone()).await;
        own.problem(403, "approval_forbidden");
        assert!(own.text("message").contains("did the work"), "{own:?}");
        let blind = api.post(&path, &api.admin_key, json!({"decision": "APPROVED"})).await;
        blind.problem(409, "approval_digest_mismatch");
        api.post(&path, &api.admin_key, says).await.has("outcome", "APPROVED");
    }
}

#[tokio::test]
async fn whoever_evaluated_a_candidate_does_not_decide_what_it_proposed() {
    for api in both().await {
        let evaluator = api.key_of(&["worker", "approver"]).await;
        set(&api, json!({"actions": ["retry", "notify", "escalate"]})).await;
        failed(&api, "INFRASTRUCTURE", "gone").await;
        until_state(&api, "pending").await;
        let lease = api.leased_by(&evaluator, "tenure.recovery").await;
        let output = json!({"action": "escalate", "propose": "retry"});
        api.complete(&lease, json!({"outcome": "SUCCEEDED", "output": output})).await.ok();
        let candidate = until_state(&api, "escalated").await;
        let id = candidate["candidateId"].as_str().unwrap();
        let approval = candidate["question"]["approvalId"].as_str().unwrap();
        let says = json!({"decision": "APPROVED", "digest": candidate["question"]["digest"]});
        let path = format!("/v1/approvals/{approval}/decide");
        api.post(&path, &evaluator, says.clone()).await.problem(403, "approval_forbidden");
        // By no other way either: its proposal, another action, or none.
        for action in ["retry", "notify", "skip"] {
            let path = format!("/v1/recovery/candidates/{id}/decide");
            let own = api.post(&path, &evaluator, json!({"action": action})).await;
            own.problem(403, "approval_forbidden");
        }
        let shown = api.get_as(&format!("/v1/approvals/{approval}"), &api.admin_key).await.ok();
        assert_eq!(shown["content"], candidate["question"]["asked"]);
        api.post(&path, &api.admin_key, says).await.ok();
        until_state(&api, "succeeded").await;
    }
}

#[tokio::test]
async fn the_last_call_of_an_evaluation_names_its_action_whatever_rides_along() {
    for api in both().await {
        api.endpoint("told", "http://127.0.0.1:9/", json!({"types": ["audit.noted"]})).await;
        set(&api, json!({"attempts": 10})).await;
        let effect = json!({"key": "e", "step": "s#1", "endpoint": "told", "type": "audit.noted",
            "body": {}});
        let child = json!({"key": "kid", "kind": "k", "queue": "kids"});
        for (n, riding) in [
            json!({"steps": [step("s#1", json!(1))]}),
            json!({"steps": [step("s#1", json!(1))], "effects": [effect]}),
            json!({"children": [child]}),
        ]
        .into_iter()
        .enumerate()
        {
            failed(&api, "INFRASTRUCTURE", ["one", "two", "three"][n]).await;
            until_last(&api, "pending").await;
            let lease = api.leased_by(&api.key, "tenure.recovery").await;
            api.complete(&lease, merged(names("skip"), riding)).await.ok();
            let done = until_last(&api, "skipped").await;
            assert_eq!(done["chosen"]["action"], "skip", "{done}");
        }
    }
}

/// Waits until no candidate is in another state than this one or the one before it.
async fn until_last(api: &TestServer, state: &str) -> Value {
    for _ in 0..3_000 {
        let found = super::recovery::candidates(api).await;
        let is_there = |it: &&Value| it["state"] == state;
        if let Some(one) = found.iter().find(is_there)
            && (state == "pending" || found.iter().all(|it| it["state"] == state))
        {
            return one.clone();
        }
        tokio::task::yield_now().await;
    }
    panic!("no candidate is {state}: {:?}", super::recovery::candidates(api).await);
}

#[tokio::test]
async fn a_report_without_authority_is_answered_as_every_worker_is() {
    for api in both().await {
        set(&api, json!({})).await;
        failed(&api, "INFRASTRUCTURE", "gone").await;
        until_state(&api, "pending").await;
        let lease = api.leased_by(&api.key, "tenure.recovery").await;
        let other = lease.clone().by("somebody-else");
        let nothing = json!({"outcome": "SUCCEEDED", "output": {"no": "action"}});
        api.complete(&other, nothing.clone()).await.problem(409, "worker_mismatch");
        // Who has the lease learns what is wrong with the report, and keeps the lease.
        api.complete(&lease, nothing).await.problem(400, "invalid_argument");
        api.complete(&lease, names("skip")).await.ok();
        until(&api, |it| it["state"] == "skipped").await;
    }
}

#[tokio::test]
async fn a_retry_does_not_repeat_what_is_recorded_unless_that_is_said() {
    for api in both().await {
        let lease = api.leased(json!({"maxAttempts": 1})).await;
        api.checkpoint(&lease, json!({"steps": [step("pay#1", json!("paid"))]})).await.ok();
        api.fail(&lease).await.has("state", "failed");
        let path = format!("/v1/runs/{}/retry", lease.run);
        let refused = api.post(&path, &api.key, json!({})).await;
        refused.problem(409, "run_has_records").has("state", "FAILED");
        let message = refused.text("message");
        for way in ["runs continue", "--from-scratch", "fromScratch"] {
            assert!(message.contains(way), "{message}");
        }
        let again = api.post(&path, &api.key, json!({"fromScratch": true})).await.text("runId");
        let lease = api.lease("w2").await;
        assert_eq!((lease.run.as_str(), &lease.envelope["checkpoints"]), (&*again, &Value::Null));
        assert_eq!(lease.envelope["origin"], Value::Null, "it begins anew under its own id");
    }
}

#[tokio::test]
async fn a_retry_does_not_repeat_stages_that_succeeded_unless_that_is_said() {
    for api in both().await {
        let stage = |key: &str| json!({"key": key, "kind": "k", "queue": "q", "maxAttempts": 1});
        let plan = json!({"plan": {"steps": [stage("pay"), stage("send")]}});
        let first = api.post("/v1/runs", &api.key, plan.clone()).await.text("runId");
        // The first stage fails: there is nothing that a retry could repeat.
        api.fail(&api.leased_by(&api.key, "q").await).await.has("state", "failed");
        let path = format!("/v1/runs/{first}/retry");
        let again = api.post(&path, &api.key, json!({})).await.text("runId");
        api.cancel(&again, json!({"force": true})).await.ok();
        // The second one fails after the first has paid.
        let run = api.post("/v1/runs", &api.key, plan).await.text("runId");
        let paid = json!({"outcome": "SUCCEEDED", "output": "paid"});
        api.complete(&api.leased_by(&api.key, "q").await, paid).await.ok();
        api.fail(&api.leased_by(&api.key, "q").await).await.has("state", "failed");
        let path = format!("/v1/runs/{run}/retry");
        let refused = api.post(&path, &api.key, json!({})).await;
        refused.problem(409, "run_has_records").has("state", "FAILED");
        assert!(refused.text("message").contains("--from-scratch"), "{refused:?}");
        api.post(&path, &api.key, json!({"fromScratch": true})).await.ok();
    }
}

#[tokio::test]
async fn a_run_whose_children_are_elsewhere_is_none_that_a_limited_client_continues() {
    for api in both().await {
        let limited = api.limited(&["client"], &["q"]).await;
        let first = api.leased(json!({"maxAttempts": 1})).await;
        let child = json!({"children": [{"key": "kid", "kind": "k", "queue": "secret"}]});
        api.checkpoint(&first, child).await.ok();
        api.cancel(&first.run, json!({"force": true})).await.ok();
        api.get(&format!("/v1/runs/{}?waitMs=20000", first.run)).await.ok();
        let path = format!("/v1/runs/{}/fork", first.run);
        let refused = api.post(&path, &limited, json!({})).await;
        refused.problem(404, "run_not_found");
        assert!(!refused.text("message").contains("secret"), "{refused:?}");
        let both = api.limited(&["client"], &["q", "secret"]).await;
        assert_eq!(api.post(&path, &both, json!({})).await.status, 201);
    }
}

#[tokio::test]
async fn idempotency_keys_of_steps_survive_every_continuation() {
    for api in both().await {
        let first = api.leased(json!({"maxAttempts": 1})).await;
        let child = json!({"children": [{"key": "kid", "kind": "k", "queue": "kids"}]});
        api.checkpoint(&first, child).await.ok();
        let kid = api.leased_by(&api.key, "kids").await;
        api.cancel(&first.run, json!({"force": true})).await.ok();
        api.get(&format!("/v1/runs/{}?waitMs=20000", first.run)).await.ok();
        let mut of = first.run.clone();
        for _ in 0..2 {
            let path = format!("/v1/runs/{of}/fork");
            of = api.post(&path, &api.key, json!({})).await.text("runId");
            let lease = api.lease("w1").await;
            assert_eq!(lease.run, of);
            assert_eq!(lease.envelope["origin"], json!(first.task), "the first task of the line");
            let again = api.leased_by(&api.key, "kids").await;
            assert_eq!(again.envelope["origin"], json!(kid.task), "so for children");
            api.cancel(&of, json!({"force": true})).await.ok();
            api.get(&format!("/v1/runs/{of}?waitMs=20000")).await.ok();
        }
    }
}

fn spending(key: &str, tokens: u64) -> Value {
    merged(step(key, json!(1)), json!({"spend": {"tokens": tokens}}))
}

#[tokio::test]
async fn a_halted_plan_names_the_step_and_the_limit_with_true_numbers() {
    // S2-97, S2-98, S2-99: in the run, in its record and in what subscribers are told.
    for api in both().await {
        let mut told = super::webhooks::receiver::Receiver::start().await;
        api.endpoint("told", &told.url, json!({"types": ["run.halted"]})).await;
        let plan = json!({"budget": {"tokens": 30}, "plan": {"steps": [
            {"key": "a", "kind": "k", "queue": "q", "ceiling": {"tokens": 10}},
            {"key": "b", "kind": "k", "queue": "q", "ceiling": {"tokens": 5}, "dependsOn": ["a"]},
            {"key": "c", "kind": "k", "queue": "q", "ceiling": {"tokens": 5}, "dependsOn": ["b"]}]}});
        let run = api.post("/v1/runs", &api.key, plan).await.text("runId");
        let a = api.lease("w1").await;
        api.succeed(&a).await.ok();
        let b = api.lease("w1").await;
        api.checkpoint(&b, json!({"steps": [spending("s#1", 7)]})).await.has("state", "halted");
        let ended = api.ended(&run, "halted").await;
        assert_eq!(ended["error"]["reason"], "BUDGET_EXHAUSTED", "{ended}");
        let said =
            "step `b` was halted: the ceiling of the step `b` allows 5 tokens, and 7 are used";
        assert_eq!(ended["error"]["message"], said, "{ended}");
        let record = api.get(&format!("/v1/runs/{run}/record")).await.ok();
        assert_eq!(record["error"]["message"], said);
        let calls: Vec<(&Value, &Value)> = record["toolCalls"]
            .as_array()
            .unwrap()
            .iter()
            .map(|call| (&call["key"], &call["outcome"]))
            .collect();
        let (a, b) = (json!("a"), json!("b"));
        assert_eq!(calls, [(&a, &json!("SUCCEEDED")), (&b, &json!("FAILED"))], "{record}");
        assert_eq!(record["toolCallsLeftOut"], Value::Null);
        let body: Value = serde_json::from_str(&told.next().await.body).unwrap();
        assert_eq!(body["data"]["error"]["message"], said, "{body}");
        // Both refusals say what works, and it is the same.
        for path in ["retry", "fork"] {
            let refused = api.post(&format!("/v1/runs/{run}/{path}"), &api.key, json!({})).await;
            assert_eq!(refused.status, 409);
            let message = refused.text("message");
            assert!(message.contains("new run with a larger budget"), "{path}: {message}");
        }
    }
}

#[tokio::test]
async fn what_is_held_for_others_is_not_said_to_be_used() {
    for api in both().await {
        let plan = json!({"budget": {"tokens": 15}, "plan": {"steps": [
            {"key": "a", "kind": "k", "queue": "q", "ceiling": {"tokens": 10}, "onError": "continue"},
            {"key": "b", "kind": "k", "queue": "q", "ceiling": {"tokens": 5}, "dependsOn": ["a"]}]}});
        let run = api.post("/v1/runs", &api.key, plan).await.text("runId");
        let a = api.lease("w1").await;
        api.checkpoint(&a, json!({"steps": [spending("s#1", 20)]})).await.has("state", "halted");
        for _ in 0..3_000 {
            if api.state(&run).await == "halted" {
                break;
            }
            tokio::task::yield_now().await;
        }
        let ended = api.ended(&run, "halted").await;
        let message = ended["error"]["message"].as_str().unwrap();
        assert!(message.contains("allows 15 tokens, and 20 are used"), "{message}");
        assert_eq!(ended["budget"]["used"]["tokens"], 20);
    }
}

#[tokio::test]
async fn a_record_says_how_many_calls_it_leaves_out() {
    for api in both().await {
        let lease = api.leased(json!({})).await;
        for slice in 0..11 {
            let steps: Vec<Value> =
                (0..100).map(|n| step(&format!("s{slice}-{n}#1"), json!(1))).collect();
            api.checkpoint(&lease, json!({"steps": steps})).await.ok();
        }
        api.succeed(&lease).await.ok();
        let record = api.get(&format!("/v1/runs/{}/record", lease.run)).await.ok();
        assert_eq!(record["toolCalls"].as_array().unwrap().len(), 1_000);
        assert_eq!(record["toolCallsLeftOut"], 100);
    }
}

#[tokio::test]
async fn explain_names_the_bound_on_an_attempt_that_only_sends_heartbeats() {
    // S2-100, S2-101: without anybody asking for it.
    for api in both().await {
        let lease = api.leased(json!({"leaseMs": 90_000})).await;
        api.started(&lease).await.ok();
        let explained = api.get(&format!("/v1/runs/{}/explain", lease.run)).await.ok();
        let text = explained.to_string();
        assert!(text.contains("progress"), "{text}");
        for _ in 0..4 {
            api.pass(seconds(60)).await;
            api.heartbeat(&lease).await.ok();
        }
        assert_eq!(api.state(&lease.run).await, "running");
    }
}

/// Statuses that the second version does not have.
fn shelf(statuses: &str, more: &str) -> String {
    format!(
        "
topology: shelf
artifacts:
  book:
    statuses: [{statuses}]
    initial: read
    final: [sold]
    transitions:
      - {{from: read, to: sold, by: person}}
{more}
events:
  closing: {{on: request}}
workOrders:
  tidy: {{kind: broom, queue: shelf, budget: {{time: 10m}}, gate: floor}}
gates:
  floor:
    checks: [{{name: clean, require: {{path: output.crumbs, op: at-most, value: 0}}}}]
    pass: {{actions: [Go home.]}}
    fail: {{actions: [Sweep again.]}}
roles:
  janitor: {{uses: scheduler, event: closing, workOrder: tidy, lists: [{{artifact: book, atMost: 5}}]}}
  hands: {{uses: runner, workOrders: [tidy]}}
  taster: {{uses: gate, workOrders: [tidy]}}
"
    )
}

#[tokio::test]
async fn no_version_comes_into_force_under_an_artifact_that_it_has_no_place_for() {
    // Whatever happens between the look and the commit: a move and the new version are decided one after the other.
    let wide = shelf(
        "read, lent, sold",
        "      - {from: read, to: lent, by: person}\n      - {from: lent, to: sold, by: person}",
    );
    let narrow = shelf("read, sold", "");
    for api in both().await {
        for round in 0..8 {
            apply(&api, "shelf", &wide).await;
            let path = "/v1/deployments/shelf/artifacts/book";
            let ids: Vec<String> = (0..6).map(|n| format!("b{round}-{n}")).collect();
            for id in &ids {
                assert_eq!(
                    api.post(path, &api.key, json!({"id": id, "fields": {}})).await.status,
                    201
                );
            }
            let declared = topology::read(&narrow).unwrap();
            let body = json!({"topology": serde_json::to_value(declared.declaration()).unwrap()});
            let moves = ids.iter().map(|id| {
                let path = format!("{path}/{id}/transition");
                let api = &api;
                async move { api.post(&path, &api.key, json!({"to": "lent"})).await.status }
            });
            let (applied, _) = tokio::join!(
                api.post("/v1/deployments/shelf", &api.admin_key, body),
                futures_util::future::join_all(moves)
            );
            let mut lent = Vec::new();
            for id in &ids {
                let now = api.get(&format!("{path}/{id}")).await.ok();
                if now["status"] == "lent" {
                    lent.push(id.clone());
                }
            }
            match applied.status {
                200 => assert_eq!(lent, Vec::<String>::new(), "round {round}"),
                _ => {
                    applied.problem(409, "deployment_conflict");
                }
            }
            for id in lent {
                let sold = format!("{path}/{id}/transition");
                api.post(&sold, &api.key, json!({"to": "sold"})).await.ok();
            }
        }
    }
}

#[tokio::test]
async fn the_events_of_a_deleted_deployment_end() {
    for api in both().await {
        apply(&api, "bakery", super::topologies::BAKERY).await;
        api.post("/v1/deployments/bakery/pause", &api.admin_key, json!({})).await.ok();
        let event = json!({"type": "closing-time", "key": "monday"});
        let made = api.post("/v1/deployments/bakery/events", &api.key, event).await;
        let run = made.text("runId");
        api.post("/v1/deployments/bakery/delete", &api.admin_key, json!({})).await.ok();
        for _ in 0..3_000 {
            if api.state(&run).await == "cancelled" {
                break;
            }
            tokio::task::yield_now().await;
        }
        let ended = api.ended(&run, "cancelled").await;
        assert!(ended["cancelReason"].as_str().unwrap().contains("deleted"), "{ended}");
        let found = api.get("/v1/deployments").await.ok();
        assert_eq!(found["deployments"], json!([]), "it is listed no more");
    }
}

#[tokio::test]
async fn nothing_is_left_to_do_of_what_was_created_while_its_deployment_was_deleted() {
    for api in both().await {
        for round in 0..5 {
            apply(&api, "bakery", super::topologies::BAKERY).await;
            // No role takes an event before the deletion does.
            api.post("/v1/deployments/bakery/pause", &api.admin_key, json!({})).await.ok();
            let making = (0..12).map(|n| {
                let api = &api;
                async move {
                    let event = json!({"type": "closing-time", "key": format!("day-{n}")});
                    api.post("/v1/deployments/bakery/events", &api.key, event).await
                }
            });
            let deleting = api.post("/v1/deployments/bakery/delete", &api.admin_key, json!({}));
            let (made, deleted) = tokio::join!(futures_util::future::join_all(making), deleting);
            deleted.ok();
            for got in made {
                if got.status == 409 || got.status == 404 {
                    continue;
                }
                assert!(got.status < 300, "{got:?}");
                let run = got.text("runId");
                let ended = api.get(&format!("/v1/runs/{run}?waitMs=20000")).await.ok();
                assert_eq!(ended["state"], "cancelled", "round {round}: {ended}");
            }
        }
    }
}

/// Bread is sold only after an approval.
const BAKERY_WITH_APPROVAL: (&str, &str) = (
    "    transitions:\n      - {from: mixed",
    "    transitions:\n      - {from: bread, to: crumbs, by: approval}\n      - {from: mixed",
);

#[tokio::test]
async fn the_executor_does_not_approve_the_artifact_that_it_worked_on() {
    for api in both().await {
        let (from, to) = BAKERY_WITH_APPROVAL;
        let yaml = BAKERY.replace(from, to).replace("final: [bread, crumbs]", "final: [crumbs]");
        apply(&api, "bakery", &yaml).await;
        let dough = "/v1/deployments/bakery/artifacts/dough";
        api.post(dough, &api.key, json!({"id": "a"})).await;
        api.post(&format!("{dough}/a/transition"), &api.key, json!({"to": "risen"})).await.ok();
        let baker = api.key_of(&["worker", "approver"]).await;
        let other = api.key_of(&["approver"]).await;
        let lease = api.leased_by(&baker, "kitchen").await;
        let golden = json!({"outcome": "SUCCEEDED", "output": {"colour": "golden"}});
        api.complete(&lease, golden).await.ok();
        let is_bread = |it: &Value| it["status"] == "bread";
        topologies::until(&api, "bakery/artifacts/dough/a", is_bread).await;
        let approve = format!("{dough}/a/approve");
        let own = api.post(&approve, &baker, json!({"to": "crumbs"})).await;
        own.problem(403, "approval_forbidden");
        api.post(&approve, &other, json!({"to": "crumbs"})).await.ok();
    }
}
