//! Budgets over HTTP: what is left, how a run halts, and what is refused. Over both stores.

use serde_json::{Value, json};

use super::durable::step;
use super::test_server::{Lease, TestServer, both, merged, seconds};

fn spending(key: &str, tokens: u64) -> Value {
    merged(step(key, json!(1)), json!({"spend": {"tokens": tokens}}))
}

#[tokio::test]
async fn the_call_that_crosses_the_limit_halts_the_run_with_its_steps() {
    for api in both().await {
        let lease = api.leased(json!({"budget": {"tokens": 100, "steps": 10}})).await;
        assert_eq!(lease.envelope["budgetLeft"], json!({"tokens": 100, "steps": 10}));
        let first = api.checkpoint(&lease, json!({"steps": [spending("a", 60)]})).await;
        first.has("state", "running");
        assert_eq!(first.ok()["left"], json!({"tokens": 40, "steps": 9}));
        // S2-62, S2-64, F86: 200 COMMITTED, and the task has halted.
        let call = json!({"steps": [spending("b", 50)]});
        let crossed = api.checkpoint(&lease, call.clone()).await;
        crossed.has("verdict", "COMMITTED").has("state", "halted");
        api.checkpoint(&lease, call).await.has("state", "halted").has("replayed", true);
        let run = api.run(&lease.run).await;
        assert_eq!(run["state"], "halted");
        // S2-99.
        assert_eq!(run["error"]["reason"], "BUDGET_EXHAUSTED");
        assert_eq!(run["error"]["message"], "the budget allows 100 tokens, and 110 are used");
        assert_eq!(run["budget"]["used"]["tokens"], 110);
        // S2-39, S2-97: every completed step is there. S2-98: and a record with the status halted.
        assert_eq!(api.steps(&lease.run).await.len(), 2);
        let record = api.get(&format!("/v1/runs/{}/record", lease.run)).await.ok();
        assert_eq!(record["state"], "halted");
        let calls: Vec<(&Value, &Value)> = record["toolCalls"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| (&it["key"], &it["spend"]["tokens"]))
            .collect();
        assert_eq!(calls, [(&json!("a"), &json!(60)), (&json!("b"), &json!(50))]);
        // S2-94: a halted run is never retried.
        let retry = api.post(&format!("/v1/runs/{}/retry", lease.run), &api.key, json!({})).await;
        retry.problem(409, "run_not_retryable");
    }
}

#[tokio::test]
async fn a_child_takes_its_ceiling_and_gives_back_the_rest() {
    for api in both().await {
        let parent = api.leased(json!({"budget": {"tokens": 100}})).await;
        let child = |key: &str, tokens: u64| json!({"key": key, "kind": "k", "queue": "kids", "budget": {"tokens": tokens}});
        let spawned = api.checkpoint(&parent, json!({"children": [child("one", 70)]})).await;
        assert_eq!(spawned.ok()["left"], json!({"tokens": 30}));
        let above = api.checkpoint(&parent, json!({"children": [child("two", 31)]})).await;
        above.problem(409, "budget_insufficient").has("verdict", "REJECTED");
        assert!(above.text("message").contains("asks for 31 tokens, and 30 are left"));
        let run = api.run(&parent.run).await;
        assert_eq!(run["budget"]["held"]["tokens"], 70);
    }
}

#[tokio::test]
async fn totals_come_with_heartbeats_and_reports_and_count_once() {
    for api in both().await {
        let lease = api.leased(json!({"budget": {"tokens": 100}})).await;
        let spend = |tokens: u64| lease.said(json!({"spend": {"tokens": tokens}}));
        for _ in 0..2 {
            let beat = api.call(&lease, "heartbeat", spend(30)).await;
            assert_eq!(beat.ok()["left"], json!({"tokens": 70}));
        }
        let report =
            lease.said(json!({"outcome": "SUCCEEDED", "output": 1, "spend": {"tokens": 45}}));
        api.call(&lease, "completed", report).await.has("state", "succeeded");
        let run = api.run(&lease.run).await;
        assert_eq!(run["budget"]["used"]["tokens"], 45);
        // A heartbeat that crosses the limit tells the worker to stop.
        let lease = api.leased(json!({"budget": {"tokens": 10}})).await;
        let beat =
            api.call(&lease, "heartbeat", lease.said(json!({"spend": {"tokens": 11}}))).await;
        beat.has("shouldCancel", true).has("cancelReason", "budget_exhausted");
        assert_eq!(api.run(&lease.run).await["state"], "halted");
    }
}

#[tokio::test]
async fn a_halt_is_a_stop_at_a_limit_and_a_failure_is_not() {
    for api in both().await {
        // S2-38: by a budget, a count of steps or time. S2-27: what is used is counted and shown while the run is running.
        let tokens = api.leased(json!({"budget": {"tokens": 10}})).await;
        api.checkpoint(&tokens, json!({"steps": [spending("a", 4)]})).await.has("state", "running");
        let shown = api.run(&tokens.run).await;
        assert_eq!(
            (&shown["budget"]["used"]["tokens"], &shown["budget"]["left"]["tokens"]),
            (&json!(4), &json!(6))
        );
        api.checkpoint(&tokens, json!({"steps": [spending("b", 7)]})).await.has("state", "halted");
        let steps = api.leased(json!({"budget": {"steps": 1}})).await;
        let two = json!({"steps": [step("a", json!(1)), step("b", json!(2))]});
        api.checkpoint(&steps, two).await.has("state", "halted");
        let time = api.leased(json!({"budget": {"activeMs": 1500}})).await;
        api.pass(seconds(2)).await;
        for (lease, reason) in [
            (&tokens, "BUDGET_EXHAUSTED"),
            (&steps, "BUDGET_EXHAUSTED"),
            (&time, "BUDGET_TIME_EXHAUSTED"),
        ] {
            let run = api.run(&lease.run).await;
            // S2-40, S2-93: no failure was counted, and no attempt failed.
            assert_eq!(
                (&run["state"], &run["error"]["reason"]),
                (&json!("halted"), &json!(reason))
            );
            assert_eq!((&run["failures"], &run["lost"]), (&json!(0), &json!(0)));
            let record = api.get(&format!("/v1/runs/{}/record", lease.run)).await.ok();
            assert_eq!(
                (&record["state"], &record["attempts"][0]["outcome"]),
                (&json!("halted"), &json!("REVOKED"))
            );
        }
        let failed = api.leased(json!({"maxAttempts": 1, "budget": {"tokens": 10}})).await;
        let error = json!({"category": "USER_CODE", "message": "no"});
        api.complete(&failed, json!({"outcome": "FAILED", "error": error}))
            .await
            .has("state", "failed");
    }
}

#[tokio::test]
async fn the_wall_clock_halts_a_run_that_nobody_leased() {
    for api in both().await {
        let run = api.submit(json!({"budget": {"wallMs": 5000}})).await;
        api.pass(seconds(6)).await;
        let run = api.run(&run).await;
        assert_eq!(
            (&run["state"], &run["error"]["reason"]),
            (&json!("halted"), &json!("BUDGET_TIME_EXHAUSTED"))
        );
    }
}

#[tokio::test]
async fn the_stages_of_a_plan_share_the_balance_of_their_run() {
    for api in both().await {
        let stage = |key: &str, more: Value| {
            merged(json!({"key": key, "kind": "k", "queue": "q", "leaseMs": 2000}), more)
        };
        let stages = json!([stage("a", json!({})), stage("b", json!({})), stage("c", json!({}))]);
        let planned = json!({"plan": {"steps": stages}, "budget": {"tokens": 100, "steps": 2}});
        let run = api.post("/v1/runs", &api.key, planned).await.text("runId");
        let first = api.lease("w1").await;
        api.checkpoint(&first, json!({"steps": [spending("s#1", 60)]}))
            .await
            .has("state", "running");
        api.succeed(&first).await.has("state", "queued");
        // The end of a stage is no step.
        let second = api.lease("w1").await;
        assert_eq!(second.envelope["budgetLeft"], json!({"tokens": 40, "steps": 1}));
        let crossed =
            second.said(json!({"outcome": "SUCCEEDED", "output": 2, "spend": {"tokens": 50}}));
        api.call(&second, "completed", crossed).await.has("state", "halted");
        let run = api.run(&run).await;
        let states: Vec<&Value> =
            run["plan"].as_array().unwrap().iter().map(|it| &it["state"]).collect();
        assert_eq!(states[0], "succeeded");
        assert!(states[1..].iter().all(|state| **state != "succeeded"), "{states:?}");
        assert_eq!(run["error"]["reason"], "BUDGET_EXHAUSTED");
        assert!(api.poll("w1").await.is_empty(), "nothing new starts");
        // A stage that always runs is funded apart.
        let stages = json!([
            stage("a", json!({})),
            stage("b", json!({})),
            stage("z", json!({"always": true}))
        ]);
        let planned = json!({"plan": {"steps": stages}, "budget": {"tokens": 10}});
        let run = api.post("/v1/runs", &api.key, planned).await.text("runId");
        let first = api.lease("w1").await;
        api.checkpoint(&first, json!({"steps": [spending("s#1", 11)]})).await;
        let last = api.lease("w1").await;
        assert_eq!(last.envelope["stage"], "z");
        api.succeed(&last).await.has("state", "halted");
        assert_eq!(api.state(&run).await, "halted");
    }
}

#[tokio::test]
async fn a_soft_limit_that_asks_lets_people_decide() {
    for api in both().await {
        let (_, ann) = api.key_with(json!(["approver"])).await;
        let budget = json!({"tokens": 100, "soft": {"tokens": 50}, "onSoft": "ask"});
        for (decision, state) in [("APPROVED", "running"), ("REJECTED", "halted")] {
            let lease = api.leased(json!({"budget": budget})).await;
            // A heartbeat notes it; the worker goes on until it records something.
            let beat = lease.said(json!({"spend": {"tokens": 60}}));
            api.call(&lease, "heartbeat", beat).await.has("shouldCancel", false);
            let call = json!({"steps": [spending("a#1", 60)]});
            let asked = api.checkpoint(&lease, call.clone()).await;
            asked.has("verdict", "COMMITTED").has("state", "waiting").has("replayed", false);
            api.checkpoint(&lease, call).await.has("state", "waiting").has("replayed", true);
            assert!(api.poll("w1").await.is_empty(), "it waits for people");
            let pending = api.get("/v1/approvals?state=pending").await.ok();
            let approval = pending["approvals"].as_array().unwrap().iter();
            let approval = { approval }.find(|it| it["runId"] == json!(lease.run)).unwrap().clone();
            let subject = approval["subject"].as_str().unwrap();
            assert_eq!(subject, "the soft limit is 50 tokens, and 60 are used: may the run go on?");
            let path = format!("/v1/approvals/{}/decide", approval["approvalId"].as_str().unwrap());
            api.post(&path, &ann, json!({"decision": decision})).await.ok();
            if decision == "REJECTED" {
                let run = api.run(&lease.run).await;
                assert_eq!(
                    (&run["state"], &run["error"]["reason"]),
                    (&json!(state), &json!("BUDGET_EXHAUSTED"))
                );
                assert!(run["error"]["message"].as_str().unwrap().contains("not approved"));
                assert_eq!(api.steps(&lease.run).await[0]["key"], "a#1");
                continue;
            }
            let next = api.lease("w1").await;
            assert_eq!((&next.run, next.attempt()), (&lease.run, 2));
            // It is asked once. The hard limit is still there.
            let more = api.checkpoint(&next, json!({"steps": [spending("b#1", 30)]})).await;
            more.has("state", state);
            let over = api.checkpoint(&next, json!({"steps": [spending("c#1", 20)]})).await;
            over.has("state", "halted");
        }
        let alone = json!({"kind": "k", "queue": "q", "budget": {"tokens": 1, "onSoft": "ask"}});
        api.post("/v1/runs", &api.key, alone).await.problem(400, "invalid_argument");
    }
}

#[tokio::test]
async fn a_key_that_works_and_approves_may_not_let_its_own_run_go_on() {
    for api in both().await {
        let (_, ann) = api.key_with(json!(["approver"])).await;
        let (_, own) = api.key_with(json!(["worker", "approver"])).await;
        let budget = json!({"tokens": 100, "soft": {"tokens": 50}, "onSoft": "ask"});
        // Alone, with a child, and among many calls: S2-67 holds however the call is sent.
        for place in 0..3 {
            let run = api.submit(json!({"budget": budget})).await;
            let poll = json!({"workerId": "w1", "queues": ["q"], "max": 1});
            let lease = api.post("/v1/leases", &own, poll).await.leases().remove(0);
            let child = json!({"key": "kid", "kind": "k", "queue": "kids"});
            let call = merged(
                lease.said(json!({"steps": [spending("a#1", 60)]})),
                if place == 1 { json!({"children": [child]}) } else { json!({}) },
            );
            if place == 2 {
                let named = json!({"taskId": lease.task, "taskToken": lease.token});
                let calls = json!({"checkpoints": [merged(call, named)]});
                api.post("/v1/checkpoints", &own, calls).await.ok();
            } else {
                api.call(&lease, "checkpoints", call).await.has("state", "waiting");
            }
            assert_eq!(api.state(&run).await, "waiting");
            let pending = api.pending(&ann).await;
            let asked = pending.iter().find(|it| it["runId"] == json!(run)).unwrap();
            let path = format!("/v1/approvals/{}/decide", asked["approvalId"].as_str().unwrap());
            let approve = json!({"decision": "APPROVED"});
            api.post(&path, &own, approve.clone()).await.problem(403, "approval_forbidden");
            assert_eq!(api.state(&run).await, "waiting");
            api.post(&path, &ann, approve).await.ok();
            let next = api.lease("w1").await;
            api.succeed(&next).await.ok();
        }
    }
}

#[tokio::test]
async fn a_budget_without_limits_is_refused() {
    for api in both().await {
        let got =
            api.post("/v1/runs", &api.key, json!({"kind": "k", "queue": "q", "budget": {}})).await;
        got.problem(400, "invalid_argument");
    }
}

/// Completes everything that waits in the queue of the children, a hundred at a time. Each says that it used `tokens`.
async fn work_off(api: &TestServer, tokens: u64) -> usize {
    let mut done = 0;
    loop {
        let poll = json!({"workerId": "w1", "queues": ["kids"], "max": 100});
        let leases = api.post("/v1/leases", &api.key, poll).await.leases();
        if leases.is_empty() {
            return done;
        }
        done += leases.len();
        let report = |lease: &Lease| {
            merged(
                lease.said(json!({"outcome": "SUCCEEDED", "spend": {"tokens": tokens}})),
                json!({"taskId": lease.task, "taskToken": lease.token}),
            )
        };
        let reports: Vec<Value> = leases.iter().map(report).collect();
        let answers = api.post("/v1/reports", &api.key, json!({"reports": reports})).await.ok();
        for answer in answers["answers"].as_array().unwrap() {
            assert_eq!(answer["verdict"], "COMMITTED", "{answer}");
        }
    }
}

#[tokio::test]
async fn thousands_of_children_never_use_more_than_their_run_was_given() {
    for api in both().await {
        // F73, B9: 2,000 at once under one budget. Each may use three, and uses two.
        let parent = api.leased(json!({"leaseMs": 600_000, "budget": {"tokens": 6_000}})).await;
        let child = |key: usize| {
            json!({"key": format!("c#{key}"), "kind": "k", "queue": "kids", "leaseMs": 600_000,
                "budget": {"tokens": 3}})
        };
        for call in 0..4 {
            let children: Vec<Value> = (call * 500..(call + 1) * 500).map(child).collect();
            api.checkpoint(&parent, json!({"children": children})).await.ok();
        }
        let run = api.run(&parent.run).await;
        assert_eq!(
            (&run["budget"]["held"]["tokens"], &run["budget"]["left"]["tokens"]),
            (&json!(6000), &json!(0))
        );
        let one_more = api.checkpoint(&parent, json!({"children": [child(2000)]})).await;
        one_more.problem(409, "budget_insufficient");
        assert_eq!(work_off(&api, 2).await, 2_000);
        let run = api.run(&parent.run).await;
        assert_eq!(run["budget"]["used"]["tokens"], 4_000);
        assert_eq!(
            (&run["budget"]["held"]["tokens"], &run["durable"]["liveChildren"]),
            (&json!(0), &json!(0))
        );
        // Each child counts once, and its parent does not count it again.
        let metrics = api.get("/metrics").await.body;
        let metrics = metrics.as_str().unwrap();
        assert!(metrics.contains(r#"tenure_spend_total{unit="tokens"} 4000"#), "{metrics}");
        assert!(!metrics.contains("tenant="), "no name unless the operator asks: {metrics}");
        // What came back can be promised again.
        let call = api.checkpoint(&parent, json!({"children": [child(2000)]})).await;
        assert_eq!(call.ok()["left"], json!({"tokens": 1997}));
    }
}
