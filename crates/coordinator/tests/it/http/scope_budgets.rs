//! Budgets of tenants and workspaces over HTTP: counted, shown, refused at submit, and set by those who may. Over both stores.

use serde_json::{Value, json};
use verdict::Span;

use super::durable::step;
use super::test_server::{Lease, Response, TestServer, both, merged, run, seconds};

const DAY: Span = seconds(24 * 60 * 60);

impl TestServer {
    async fn set_budget(&self, budget: Value) -> Response {
        self.post("/v1/budgets", &self.admin_key, budget).await
    }

    async fn submitted(&self) -> Response {
        self.post("/v1/runs", &self.key, run(json!({}))).await
    }

    /// Ends the run of a lease, which used so much in all.
    async fn spent(&self, lease: &Lease, tokens: u64) -> Response {
        let report = json!({"outcome": "SUCCEEDED", "output": 1, "spend": {"tokens": tokens}});
        self.call(lease, "completed", lease.said(report)).await
    }

    /// What is used of the first budget, and its state.
    async fn standing(&self) -> (u64, String) {
        let all = self.get_as("/v1/budgets", &self.admin_key).await.ok();
        let budget = &all["budgets"][0];
        let state = budget["state"].as_str().unwrap().to_owned();
        (budget["used"]["tokens"].as_u64().unwrap(), state)
    }
}

#[tokio::test]
async fn a_budget_that_is_used_up_accepts_no_run_until_it_begins_anew() {
    for api in both().await {
        let wanted = json!({"workspaceId": "default", "period": "day", "tokens": 100,
            "soft": {"tokens": 60}});
        api.set_budget(wanted).await.has("state", "open").has("tenantId", "default");
        let [one, two, three] = [
            api.leased(json!({})).await,
            api.leased(json!({})).await,
            api.leased(json!({"budget": {"tokens": 500}})).await,
        ];
        // A run that is only counted has no budget that its worker could look at.
        assert_eq!(one.envelope.get("budgetLeft"), None);
        api.spent(&one, 60).await.has("verdict", "COMMITTED");
        assert_eq!(api.standing().await, (60, "soft".to_owned()));
        // Steps, and what an attempt used in all, count once.
        let call = merged(step("a", json!(1)), json!({"spend": {"tokens": 10}}));
        api.checkpoint(&two, json!({"steps": [call]})).await.has("state", "running");
        for _ in 0..2 {
            let beat = two.said(json!({"spend": {"tokens": 39}}));
            api.call(&two, "heartbeat", beat).await.has("verdict", "COMMITTED");
        }
        assert_eq!(api.standing().await, (99, "soft".to_owned()));
        let keyed = || {
            let request = api.request("POST", "/v1/runs").bearer_auth(&api.key);
            request.header("idempotency-key", "k").json(&run(json!({})))
        };
        let accepted = api.send(keyed()).await;
        assert_eq!(accepted.status, 201);
        api.spent(&two, 40).await.has("verdict", "COMMITTED");
        assert_eq!(api.standing().await, (100, "spent".to_owned()));
        // S2-67: no path around it: one run, many, a retry and a fork.
        let refused = api.submitted().await;
        refused.problem(409, "budget_spent");
        let said =
            "the budget of the workspace allows 100 tokens, and 100 are used; it begins anew at ";
        assert!(refused.text("message").starts_with(said), "{refused:?}");
        let many = json!({"runs": [run(json!({})), run(json!({}))]});
        let results = api.post("/v1/runs", &api.key, many).await.ok();
        assert_eq!(results["results"][1]["error"], "budget_spent");
        let failed = api.lease("w1").await;
        api.cancel(&failed.run, json!({"force": true})).await.ok();
        for path in ["retry", "fork"] {
            let path = format!("/v1/runs/{}/{path}", failed.run);
            api.post(&path, &api.key, json!({})).await.problem(409, "budget_spent");
        }
        // What was accepted is found and goes on, and a detached child is a run like any other.
        let again = api.send(keyed()).await;
        assert_eq!((again.status, again.text("runId")), (200, accepted.text("runId")));
        let child = json!({"key": "c", "kind": "k", "queue": "q"});
        let detached = merged(child.clone(), json!({"detached": true}));
        let call = api.checkpoint(&three, json!({"children": [detached]})).await;
        call.problem(409, "budget_spent");
        let child = merged(child, json!({"budget": {"tokens": 1}}));
        api.checkpoint(&three, json!({"children": [child]})).await.has("state", "running");
        let metrics = api.get("/metrics").await.body;
        let counted = "tenure_limited_total{limit=\"budgets\"} 5";
        assert!(metrics.as_str().unwrap().contains(counted), "{metrics}");
        // Others have budgets of their own, and so has the next day.
        assert_eq!(api.post("/v1/runs", &api.foreign_key, run(json!({}))).await.status, 201);
        api.clock.advance(DAY);
        assert_eq!(api.submitted().await.status, 201);
        assert_eq!(api.standing().await, (0, "open".to_owned()));
    }
}

#[tokio::test]
async fn a_raised_budget_counts_what_was_used_before_and_a_removed_one_refuses_nothing() {
    for api in both().await {
        let lease = api.leased(json!({"budget": {"tokens": 1_000}})).await;
        // Nobody had set a budget when this was used.
        api.spent(&lease, 70).await.has("verdict", "COMMITTED");
        api.set_budget(json!({"period": "month", "tokens": 70})).await.has("state", "spent");
        let refused = api.submitted().await;
        refused.problem(409, "budget_spent");
        assert!(refused.text("message").starts_with("the budget of the tenant "), "{refused:?}");
        let raised = api.set_budget(json!({"period": "month", "tokens": 71})).await;
        raised.has("state", "open");
        assert_eq!(raised.ok()["left"], json!({"tokens": 1}));
        assert_eq!(api.submitted().await.status, 201);
        // W-10: zero is a limit like any other.
        api.set_budget(json!({"workspaceId": "default", "costMicros": 0}))
            .await
            .has("state", "spent");
        api.submitted().await.problem(409, "budget_spent");
        api.set_budget(json!({"workspaceId": "default"})).await.has("state", "open");
        assert_eq!(api.submitted().await.status, 201);
    }
}

#[tokio::test]
async fn nobody_sets_the_budget_that_holds_for_themselves() {
    for api in both().await {
        for (budget, status) in [
            (json!({"tenantId": "other", "tokens": 5}), 403),
            (json!({"tokens": 5}), 403),
            (json!({"tenantId": "default", "workspaceId": "default", "tokens": 5}), 403),
            (json!({"tenantId": "other", "workspaceId": "w", "tokens": 5}), 200),
        ] {
            let got = api.post("/v1/budgets", &api.foreign_key, budget.clone()).await;
            assert_eq!(got.status, status, "{budget}: {got:?}");
        }
        api.set_budget(json!({"tenantId": "other", "tokens": 9})).await.ok();
        api.set_budget(json!({"tokens": 9})).await.ok();
        let seen = async |key: &str| {
            let all = api.get_as("/v1/budgets", key).await.ok()["budgets"].take();
            let name = |it: &Value| format!("{}/{}", it["tenantId"], it["workspaceId"]);
            all.as_array().unwrap().iter().map(name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(seen(&api.foreign_key).await, r#""other"/null "other"/"w""#);
        assert_eq!(seen(&api.admin_key).await, r#""default"/null "other"/null "other"/"w""#);
        let log = api.get_as("/v1/audit?limit=1", &api.admin_key).await.ok();
        assert_eq!(log["entries"][0]["action"], "budget.set");
        for wrong in [json!({"tokens": -1}), json!({"period": "year"}), json!({"soft": {}})] {
            assert_eq!(api.set_budget(wrong.clone()).await.status, 400, "{wrong}");
        }
    }
}

#[tokio::test]
async fn thousands_of_runs_are_added_up_without_a_gap() {
    for api in both().await {
        // S2-27
        api.set_budget(json!({"workspaceId": "default", "tokens": 1_000_000})).await.ok();
        for _ in 0..20 {
            let runs: Vec<Value> = (0..100).map(|_| run(json!({}))).collect();
            api.post("/v1/runs", &api.key, json!({"runs": runs})).await.ok();
            let poll = json!({"workerId": "w1", "queues": ["q"], "max": 100});
            let leases = api.post("/v1/leases", &api.worker_key, poll).await.leases();
            assert_eq!(leases.len(), 100);
            let report = |lease: &Lease| {
                lease.said(json!({"taskId": lease.task, "taskToken": lease.token,
                    "outcome": "SUCCEEDED", "spend": {"tokens": 3, "toolCalls": 1}}))
            };
            let reports: Vec<Value> = leases.iter().map(report).collect();
            let got = api.post("/v1/reports", &api.worker_key, json!({"reports": reports})).await;
            assert_eq!(got.ok()["answers"][99]["verdict"], "COMMITTED");
        }
        assert_eq!(api.standing().await, (6_000, "open".to_owned()));
    }
}
