//! Steps of a plan that ask people: as stages and with edges, approved, rejected and expired.

use serde_json::{Value, json};

use super::database::{Served, UNHURRIED};
use super::test_server::{TestServer, both, merged, seconds};

impl TestServer {
    async fn submitted_plan(&self, steps: Value) -> String {
        let body = json!({"plan": {"steps": steps}});
        self.post("/v1/runs", &self.key, body).await.text("runId")
    }

    /// Succeeds the one task that is ready, and says which step it was.
    async fn work(&self) -> String {
        let lease = self.lease("w1").await;
        self.complete(&lease, json!({"outcome": "SUCCEEDED", "output": 1, "next": true}))
            .await
            .ok();
        lease.envelope["taskKey"].as_str().unwrap().to_owned()
    }

    async fn approval_of(&self, run: &str, place: usize) -> String {
        let run = self.run(run).await;
        run["plan"][place]["approvalId"].as_str().unwrap_or_else(|| panic!("{run}")).to_owned()
    }
}

fn step(key: &str, more: Value) -> Value {
    merged(json!({"key": key, "kind": key, "queue": "q", "leaseMs": 60_000}), more)
}

fn states(run: &Value) -> Vec<&str> {
    run["plan"].as_array().unwrap().iter().map(|it| it["state"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_stage_asks_people_and_the_next_one_gets_what_they_said() {
    for api in both().await {
        let (ann_id, ann) = api.key_with(json!(["approver"])).await;
        let ask = json!({"key": "ask", "approval": {"subject": "ship 7"}});
        let input = json!({"said": {"$from": "ask", "path": "/outcome"},
            "by": {"$from": "ask", "path": "/votes/0/key"}});
        let run = api
            .submitted_plan(json!([step("a", json!({})), ask, step("b", json!({"input": input}))]))
            .await;
        assert_eq!(api.work().await, "a");
        assert_eq!(states(&api.run(&run).await), ["succeeded", "waiting", "blocked"]);
        assert!(api.poll("w1").await.is_empty(), "no worker gets a question");
        let id = api.approval_of(&run, 1).await;
        let pending = api.pending(&ann).await;
        assert_eq!(
            (&pending[0]["approvalId"], &pending[0]["subject"]),
            (&json!(id), &json!("ship 7"))
        );
        let explained = api.get(&format!("/v1/runs/{run}/explain")).await.ok().to_string();
        assert!(explained.contains(&id), "{explained}");
        api.decide(&id, &ann, json!({"decision": "APPROVED"})).await.has("outcome", "APPROVED");
        api.decide(&id, &ann, json!({"decision": "REJECTED"}))
            .await
            .problem(409, "approval_closed");
        let lease = api.lease("w1").await;
        assert_eq!(lease.envelope["input"], json!({"said": "APPROVED", "by": ann_id}));
        api.complete(&lease, json!({"outcome": "SUCCEEDED"})).await.has("state", "succeeded");
        let ended = api.run(&run).await;
        assert_eq!(states(&ended), ["succeeded"; 3]);
        assert_eq!(ended["output"]["ask"]["outcome"], json!("APPROVED"));
        assert!(ended["plan"][1]["approvalId"].is_null());
    }
}

#[tokio::test]
async fn what_people_do_not_approve_fails_and_skips_the_rest() {
    for api in both().await {
        let (_, ann) = api.key_with(json!(["approver"])).await;
        let ask = json!({"key": "ask", "approval": {}});
        let run = api.submitted_plan(json!([ask, step("b", json!({}))])).await;
        let id = api.approval_of(&run, 0).await;
        api.decide(&id, &ann, json!({"decision": "REJECTED"})).await.ok();
        let ended = api.run(&run).await;
        assert_eq!(states(&ended), ["failed", "skipped"]);
        assert_eq!(ended["error"]["reason"], json!("NOT_APPROVED"));
        // Nobody decides: the default counts, or the plan tolerates it.
        let quick = json!({"expiresInMs": 1_000, "default": "APPROVED"});
        let silent = json!([
            {"key": "one", "approval": quick},
            {"key": "two", "approval": {"expiresInMs": 1_000}, "onError": "continue"},
            step("c", json!({})),
        ]);
        let run = api.submitted_plan(silent).await;
        api.pass(seconds(2)).await;
        api.approval_of(&run, 1).await;
        api.pass(seconds(2)).await;
        assert_eq!(api.work().await, "c");
        assert_eq!(states(&api.run(&run).await), ["succeeded", "failed", "succeeded"]);
    }
}

#[tokio::test]
async fn a_step_with_edges_asks_when_its_upstreams_have_ended() {
    for api in both().await {
        let (_, ann) = api.key_with(json!(["approver"])).await;
        let (_, bob) = api.key_with(json!(["approver"])).await;
        let steps = || {
            json!([
                step("a", json!({"dependsOn": []})),
                {"key": "ask", "approval": {"quorum": 2}, "dependsOn": ["a"]},
                step("b", json!({"dependsOn": ["ask"]})),
            ])
        };
        let run = api.submitted_plan(steps()).await;
        assert!(api.pending(&ann).await.is_empty());
        assert_eq!(api.work().await, "a");
        assert_eq!(states(&api.run(&run).await), ["succeeded", "waiting", "blocked"]);
        let id = api.approval_of(&run, 1).await;
        api.decide(&id, &ann, json!({"decision": "APPROVED"})).await.has("state", "pending");
        api.decide(&id, &bob, json!({"decision": "APPROVED"})).await.has("state", "closed");
        assert_eq!(api.work().await, "b");
        let ended = api.run(&run).await;
        assert_eq!(ended["state"], json!("succeeded"));
        assert_eq!(ended["output"]["ask"]["votes"].as_array().unwrap().len(), 2);
        // A cancel withdraws what is asked.
        let run = api.submitted_plan(steps()).await;
        api.work().await;
        let id = api.approval_of(&run, 1).await;
        api.cancel(&run, json!({})).await;
        // The steps are told by the root, which is due at once.
        api.pass(seconds(1)).await;
        api.decide(&id, &ann, json!({"decision": "APPROVED"}))
            .await
            .problem(409, "approval_closed");
        assert_eq!(states(&api.run(&run).await), ["succeeded", "cancelled", "cancelled"]);
        assert!(api.pending(&ann).await.is_empty());
    }
}

#[tokio::test]
async fn whoever_did_a_step_does_not_answer_what_the_plan_asks_about_it() {
    for api in both().await {
        let (_, maker) = api.key_with(json!(["worker", "approver"])).await;
        let (_, other) = api.key_with(json!(["approver"])).await;
        let ask = |more: Value| merged(json!({"key": "ask", "approval": {}}), more);
        let stages = json!([step("a", json!({})), ask(json!({}))]);
        let graph = json!([step("a", json!({"dependsOn": []})), ask(json!({"dependsOn": ["a"]}))]);
        for steps in [stages, graph] {
            let run = api.submitted_plan(steps).await;
            let poll = json!({"workerId": "w1", "queues": ["q"], "max": 1});
            let lease = api.post("/v1/leases", &maker, poll).await.leases().remove(0);
            api.complete(&lease, json!({"outcome": "SUCCEEDED", "output": 1})).await.ok();
            let id = api.approval_of(&run, 1).await;
            let own = api.decide(&id, &maker, json!({"decision": "APPROVED"})).await;
            own.problem(403, "approval_forbidden");
            let said = api.decide(&id, &other, json!({"decision": "APPROVED"})).await;
            said.has("outcome", "APPROVED");
            assert_eq!(api.state(&run).await, "succeeded");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_of_a_plan_are_asked_in_a_database_too_and_its_history_verifies() {
    let database = pgserver::Server::builder().start().unwrap();
    let served = Served::at(&database.conninfo("postgres"), UNHURRIED).await;
    let ask =
        |key: &str| json!({"key": key, "approval": {"keys": ["nobody"], "expiresInMs": 600_000}});
    let stages = json!([ask("first"), step("b", json!({}))]);
    let edges = json!([
        merged(ask("first"), json!({"dependsOn": []})),
        step("b", json!({"dependsOn": ["first"]}))
    ]);
    for steps in [stages, edges] {
        let run =
            served.post("/v1/runs", json!({"plan": {"steps": steps}})).await.body["runId"].clone();
        let path = format!("/v1/runs/{}", run.as_str().unwrap());
        let shown = served.get(&path).await.body;
        assert_eq!(states(&shown), ["waiting", "blocked"]);
        assert!(shown["plan"][0]["approvalId"].is_string(), "{shown}");
        served.verify().await;
        served.post(&format!("{path}/cancel"), json!({})).await;
        served.verify().await;
    }
}
