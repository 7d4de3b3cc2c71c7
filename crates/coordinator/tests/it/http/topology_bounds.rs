//! What bounds a deployment: executors at the same time, the budget of one that never returns, and the time of questions that nobody
//! answers. Every work order ends at its gate.

use serde_json::{Value, json};

use super::test_server::{TestServer, both, seconds};
use super::topologies::{
    EXECUTION, apply, approved_ticket, executed, executor, orders, patch, pauses, until,
};

const AGENT_REVIEW: &str = include_str!("../../../../../topologies/agent-review.yaml");
const TASK_MANAGEMENT: &str = include_str!("../../../../../topologies/task-management.yaml");

/// The seconds of a budget or a question in these tests.
const SHORT: u64 = 20;

async fn active(api: &TestServer) -> usize {
    let made = orders(api, "execution").await;
    made.iter().filter(|it| it["state"] == "active").count()
}

#[tokio::test]
async fn no_more_work_orders_are_active_than_there_are_executors() {
    // A0-4
    for api in both().await {
        apply(&api, "execution", &EXECUTION.replace("executors: 3", "executors: 2")).await;
        for n in 0..5 {
            approved_ticket(&api, &format!("T-{n}")).await;
        }
        for n in 0..5 {
            let lease = executor(&api, "patch").await;
            assert!(active(&api).await <= 2, "after {n}");
            let done = json!({"outcome": "SUCCEEDED", "output": patch()});
            api.complete(&lease, done).await.ok();
        }
        for n in 0..5 {
            let path = format!("execution/artifacts/objective/T-{n}");
            until(&api, &path, |it| it["passed"].is_string()).await;
        }
        assert_eq!((orders(&api, "execution").await.len(), active(&api).await), (5, 0));
    }
}

#[tokio::test]
async fn an_executor_that_never_returns_ends_with_its_budget() {
    // A0-25, R-38, S0-52: its heartbeats do not help it.
    for api in both().await {
        let short = EXECUTION.replace("{time: 15m}", &format!("{{time: {SHORT}s}}"));
        let short = short.replace("gate: patch\n", "gate: patch\n    attempts: 1\n");
        apply(&api, "execution", &short).await;
        approved_ticket(&api, "T").await;
        let lease = executor(&api, "patch").await;
        for _ in 0..=SHORT {
            api.pass(seconds(1)).await;
            api.heartbeat(&lease).await;
        }
        until(&api, "execution/workorders", |it| it["workOrders"][0]["record"].is_object()).await;
        let record = &orders(&api, "execution").await[0]["record"];
        assert_eq!(record["executionStatus"], "BUDGET_EXHAUSTED", "{record}");
        assert_eq!(record["gateResult"], "FAIL");
        let reasons: Vec<Value> =
            pauses(&api, "execution").await.iter().map(|it| it["reason"].clone()).collect();
        assert!(reasons.contains(&json!("BUDGET_EXHAUSTED")), "{reasons:?}");
        let late = api.complete(&lease, json!({"outcome": "SUCCEEDED", "output": patch()})).await;
        assert!(late.status >= 400, "{late:?}");
        // The ticket was let go and is tried again.
        executed(&api, "patch", patch()).await;
        let path = "execution/artifacts/objective/T";
        until(&api, path, |it| it["passed"].is_string()).await;
    }
}

#[tokio::test]
async fn a_question_that_nobody_answers_fails_its_check() {
    // Every gate ends: a judge who is silent and a person who is silent fail the work order in their time.
    for api in both().await {
        let short = AGENT_REVIEW.replace("within: 15m", &format!("within: {SHORT}s"));
        let short = short.replace("within: 7d", &format!("within: {SHORT}s"));
        apply(&api, "agent-review", &short).await;
        let path = "/v1/deployments/agent-review/artifacts/assignment";
        api.post(path, &api.key, json!({"id": "a", "fields": {"goal": "g"}})).await;
        executed(&api, "agents", json!({"steps": ["one"]})).await;
        let built = json!({"summary": "s", "files": ["f"]});
        executed(&api, "agents", built.clone()).await;
        let silent = refused(&api, 1).await;
        assert_eq!(silent["check"], "judged-good", "{silent}");
        executed(&api, "agents", built).await;
        executed(&api, "judges", json!({"score": 0.9})).await;
        let silent = refused(&api, 2).await;
        assert_eq!(silent["check"], "approved-by-a-person", "{silent}");
    }
}

/// The first reason of the newest refusal, once there are so many.
async fn refused(api: &TestServer, count: usize) -> Value {
    for _ in 0..4 * SHORT {
        let made = orders(api, "agent-review").await;
        let mut failed: Vec<&Value> = made.iter().filter(|it| it["state"] == "failed").collect();
        if failed.len() == count {
            failed.sort_by_key(|it| it["record"]["createdAt"].as_str().unwrap().to_owned());
            return failed[count - 1]["record"]["gateReasons"][0].clone();
        }
        api.pass(seconds(1)).await;
    }
    panic!("{count} work orders were not refused: {:?}", orders(api, "agent-review").await);
}

#[tokio::test]
async fn a_triage_that_always_fails_waits_for_a_person_after_the_declared_cycles() {
    // W-23, A0-7, A0-29: captures that are taken together are counted each.
    for api in both().await {
        apply(&api, "task-management", TASK_MANAGEMENT).await;
        let deployment = "/v1/deployments/task-management";
        api.post(&format!("{deployment}/pause"), &api.admin_key, json!({})).await.ok();
        for id in ["a", "b"] {
            let fields = json!({"raw_content": "r", "source_label": "s"});
            let path = format!("{deployment}/artifacts/capture_buffer");
            api.post(&path, &api.key, json!({"id": id, "fields": fields})).await;
        }
        api.post(&format!("{deployment}/resume"), &api.admin_key, json!({})).await.ok();
        for _ in 0..3 {
            executed(&api, "triage", json!({"metadata": {}})).await;
        }
        for id in ["a", "b"] {
            let path = format!("task-management/artifacts/capture_buffer/{id}");
            let is_given_up = |it: &Value| it["cycles"] == 3 && it["reservedBy"].is_null();
            let halted = until(&api, &path, is_given_up).await;
            assert_eq!(halted["status"], "PENDING");
        }
        assert_eq!(orders(&api, "task-management").await.len(), 3);
        let pauses = pauses(&api, "task-management").await;
        let halted = pauses.iter().filter(|it| it["reason"] == "HALTED").count();
        assert_eq!(halted, 2, "{pauses:?}");
    }
}
