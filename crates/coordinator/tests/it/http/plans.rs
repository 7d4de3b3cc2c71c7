//! Runs with a plan: steps one after the other, what a failure means for the rest, and what is refused.

use serde_json::{Value, json};

use super::database::{Served, UNHURRIED};
use super::test_server::{Lease, TestServer, both, merged, seconds};

impl TestServer {
    async fn planned(&self, steps: Value) -> String {
        let body = json!({"plan": {"steps": steps}});
        self.post("/v1/runs", &self.key, body).await.text("runId")
    }

    async fn of_queue(&self, queue: &str) -> Vec<Lease> {
        let body = json!({"workerId": "w1", "queues": [queue], "max": 10});
        self.post("/v1/leases", &self.key, body).await.leases()
    }

    /// The server's time.
    async fn now_ms(&self) -> i64 {
        let problem = self.get("/v1/runs/run_00000000000000000000000000").await;
        problem.text("serverTime").parse::<wire::Time>().unwrap().as_ms()
    }

    async fn refused_plan(&self, steps: Value) -> (String, String) {
        let body = json!({"plan": {"steps": steps}});
        let refused = self.post("/v1/runs", &self.key, body).await;
        refused.problem(400, "invalid_argument");
        (refused.text("field"), refused.text("message"))
    }
}

fn step(key: &str, more: Value) -> Value {
    merged(json!({"key": key, "kind": key, "queue": "q", "leaseMs": 2000}), more)
}

fn output(value: Value) -> Value {
    json!({"outcome": "SUCCEEDED", "output": value})
}

fn states(run: &Value) -> Vec<&str> {
    run["plan"].as_array().unwrap().iter().map(|it| it["state"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_worker_reads_what_its_own_stage_recorded_and_only_while_it_has_the_task() {
    // S2-58, S3-15: the stages of a plan may be of queues that are none of each other's business.
    for api in both().await {
        api.planned(json!([step("a", json!({})), step("b", json!({"queue": "other"}))])).await;
        let secret = |key: &str| json!({"steps": [{"key": key, "outcome": "SUCCEEDED", "result": "SECRET"}]});
        let read = async |lease: &Lease| {
            let path = format!("/v1/tasks/{}/checkpoints", lease.task);
            api.get_as(&path, &lease.token).await
        };
        let keys = |page: Value| -> Vec<String> {
            let recorded = page["checkpoints"].as_array().unwrap().iter();
            recorded.map(|it| it["key"].as_str().unwrap().to_owned()).collect()
        };
        let first = api.lease("w1").await;
        api.call(&first, "checkpoints", first.said(secret("in-a"))).await.ok();
        assert_eq!(keys(read(&first).await.ok()), ["in-a"]);
        api.complete(&first, output(json!("OUT"))).await.ok();
        read(&first).await.problem(410, "task_expired").has("verdict", "CANCELLED");
        let second = api.of_queue("other").await.remove(0);
        assert!(keys(read(&second).await.ok()).is_empty());
        api.call(&second, "checkpoints", second.said(secret("in-b"))).await.ok();
        assert_eq!(keys(read(&second).await.ok()), ["in-b"]);
        read(&first).await.problem(410, "task_expired");
        api.complete(&second, output(json!("END"))).await.ok();
        read(&second).await.problem(409, "task_already_terminal");
    }
}

#[tokio::test]
async fn steps_run_one_after_the_other_each_in_its_own_queue() {
    for api in both().await {
        // S2-58: a step starts when the one before it has ended, with what that one returned.
        let input = json!({"body": {"$from": "fetch", "path": "/body"}, "fixed": 1.50});
        let publish = step("publish", json!({"queue": "other", "input": input}));
        let run =
            api.planned(json!([step("fetch", json!({"input": {"url": "u"}})), publish])).await;
        assert!(api.of_queue("other").await.is_empty());
        let first = api.lease("w1").await;
        let envelope = &first.envelope;
        assert_eq!((&envelope["stage"], &envelope["kind"]), (&json!("fetch"), &json!("fetch")));
        assert_eq!(
            (&envelope["input"], &envelope["taskKey"]),
            (&json!({"url": "u"}), &json!("fetch"))
        );
        assert_eq!(states(&api.run(&run).await), ["running", "blocked"]);
        let done = api.complete(&first, output(json!({"body": [7, 8]}))).await;
        done.has("verdict", "COMMITTED").has("state", "queued");
        assert!(api.poll("w1").await.is_empty(), "the task waits in another queue now");
        let second = api.of_queue("other").await.remove(0);
        assert_eq!((second.attempt(), &second.task), (2, &first.task));
        assert_eq!(second.envelope["input"], json!({"body": [7, 8], "fixed": 1.50}));
        assert_eq!(second.envelope["stage"], json!("publish"));
        // A token of the first step has no authority in the second.
        assert_eq!(api.heartbeat(&first).await.status, 409);
        api.complete(&second, output(json!("out"))).await.has("state", "succeeded");
        let ended = api.run(&run).await;
        assert_eq!(states(&ended), ["succeeded", "succeeded"]);
        // S2-84: the output of a run is the map of step key to output.
        assert_eq!(ended["output"], json!({"fetch": {"body": [7, 8]}, "publish": "out"}));
        assert_eq!((&ended["kind"], &ended["queue"]), (&json!("fetch"), &json!("q")));
        assert!(ended["input"].is_null());
    }
}

#[tokio::test]
async fn a_run_has_a_goal_a_plan_and_a_state_and_equal_runs_live_equally() {
    // Proves: S2-2, S2-6: goal, plan and state are the run's own, from its submission to its record, and the same
    // things happening to the same run lead to the same life.
    for api in both().await {
        let mut lives = Vec::new();
        for _ in 0..2 {
            let steps =
                json!([step("fetch", json!({"maxAttempts": 2})), step("publish", json!({}))]);
            let body = json!({"goal": "publish the page", "seed": 7, "plan": {"steps": steps}});
            let run = api.post("/v1/runs", &api.key, body).await.text("runId");
            let look = async |life: &mut Vec<Value>| {
                let shown = api.run(&run).await;
                assert_eq!(shown["goal"], "publish the page");
                life.push(json!([shown["state"], states(&shown), shown["attempt"]]));
            };
            let mut life = Vec::new();
            look(&mut life).await;
            let fetch = api.lease("w1").await;
            look(&mut life).await;
            let failed = api.now_ms().await;
            api.fail(&fetch).await.has("state", "retry");
            let due: wire::Time =
                api.run(&run).await["nextAttemptAt"].as_str().unwrap().parse().unwrap();
            life.push(json!(due.as_ms() - failed));
            look(&mut life).await;
            api.pass(seconds(10)).await;
            let fetch = api.lease("w1").await;
            api.complete(&fetch, output(json!(1))).await.has("state", "queued");
            look(&mut life).await;
            let publish = api.lease("w1").await;
            api.complete(&publish, output(json!(2))).await.has("state", "succeeded");
            look(&mut life).await;
            let record = api.get(&format!("/v1/runs/{run}/record")).await.ok();
            assert_eq!(record["goal"], "publish the page", "{record}");
            life.push(record["state"].clone());
            lives.push(life);
        }
        assert_eq!(lives[0], lives[1]);
    }
}

#[tokio::test]
async fn a_failure_ends_the_run_unless_the_step_says_otherwise() {
    for api in both().await {
        // S2-59: `abort` ends at the first failure, `continue` goes on, and what never ran is skipped.
        let steps = json!([
            step("soft", json!({"onError": "continue", "maxAttempts": 1})),
            step("hard", json!({"onError": "abort"})),
            step("never", json!({})),
        ]);
        let run = api.planned(steps).await;
        let soft = api.lease("w1").await;
        api.fail(&soft).await.has("state", "queued");
        let hard = api.lease("w1").await;
        assert_eq!(hard.envelope["stage"], json!("hard"));
        api.fail(&hard).await.has("state", "failed");
        let ended = api.run(&run).await;
        assert_eq!(states(&ended), ["failed", "failed", "skipped"]);
        assert_eq!((&ended["state"], &ended["output"]), (&json!("failed"), &json!({})));
        assert_eq!(ended["plan"][1]["reason"], json!("ATTEMPTS_EXHAUSTED"));
    }
}

#[tokio::test]
async fn a_step_is_retried_without_repeating_those_before_it() {
    for api in both().await {
        // A lost worker repeats its own step only.
        let run = api.planned(json!([step("a", json!({})), step("b", json!({}))])).await;
        let a = api.lease("w1").await;
        api.complete(&a, output(json!(1))).await.ok();
        let lost = api.lease("w1").await;
        api.started(&lost).await.ok();
        api.pass(seconds(3)).await;
        let again = api.lease("w1").await;
        assert_eq!((&again.envelope["stage"], again.attempt()), (&json!("b"), 3));
        api.complete(&again, output(json!(2))).await.has("state", "succeeded");
        assert_eq!(api.run(&run).await["output"], json!({"a": 1, "b": 2}));
    }
}

#[tokio::test]
async fn a_step_that_must_run_runs_after_a_failure_and_after_a_cancel() {
    for api in both().await {
        let steps = json!([
            step("work", json!({"onError": "abort"})),
            step("rest", json!({})),
            step("clean", json!({"always": true})),
        ]);
        let run = api.planned(steps.clone()).await;
        let work = api.lease("w1").await;
        api.fail(&work).await.has("state", "queued");
        let clean = api.lease("w1").await;
        assert_eq!(clean.envelope["stage"], json!("clean"));
        api.succeed(&clean).await.has("state", "failed");
        assert_eq!(states(&api.run(&run).await), ["failed", "skipped", "succeeded"]);

        let run = api.planned(steps).await;
        api.cancel(&run, json!({"reason": "enough"})).await.ok();
        let clean = api.lease("w1").await;
        assert_eq!(clean.envelope["stage"], json!("clean"));
        api.heartbeat(&clean).await.has("shouldCancel", false);
        api.succeed(&clean).await.has("state", "cancelled");
    }
}

#[tokio::test]
async fn a_reference_that_leads_nowhere_ends_the_run() {
    for api in both().await {
        let input = json!({"x": {"$from": "a", "path": "/missing"}});
        let run =
            api.planned(json!([step("a", json!({})), step("b", json!({"input": input}))])).await;
        let a = api.lease("w1").await;
        api.complete(&a, output(json!({"there": 1}))).await.ok();
        assert!(api.poll("w1").await.is_empty(), "no worker gets an input that cannot be made");
        let ended = api.run(&run).await;
        assert_eq!(
            (&ended["state"], &ended["error"]["reason"]),
            (&json!("failed"), &json!("INPUT_UNRESOLVED"))
        );
        assert!(ended["error"]["message"].as_str().unwrap().contains("/missing"), "{ended}");
    }
}

#[tokio::test]
async fn a_long_result_of_a_step_survives_and_the_history_can_be_read() {
    for api in both().await {
        let long = json!({"text": "x".repeat(20_000)});
        let input = json!({"$from": "a"});
        let run =
            api.planned(json!([step("a", json!({})), step("b", json!({"input": input}))])).await;
        let a = api.lease("w1").await;
        api.complete(&a, output(long.clone())).await.ok();
        let b = api.lease("w1").await;
        assert_eq!(b.envelope["input"], long);
        api.complete(&b, output(json!(null))).await.ok();
        let history = api.get(&format!("/v1/runs/{run}/history")).await.ok();
        assert!(history["entries"].as_array().unwrap().len() >= 5, "{history}");
    }
}

#[tokio::test]
async fn a_plan_that_cannot_run_is_refused_with_the_place_of_what_is_wrong() {
    for api in both().await {
        let (field, message) = api.refused_plan(json!([])).await;
        assert_eq!((field.as_str(), message.contains("empty")), ("plan.steps", true));
        let (field, _) =
            api.refused_plan(json!([step("a", json!({})), step("a", json!({}))])).await;
        assert_eq!(field, "plan.steps[1].key");
        let edges =
            json!([step("a", json!({"dependsOn": ["b"]})), step("b", json!({"dependsOn": ["a"]}))]);
        let (field, message) = api.refused_plan(edges).await;
        assert_eq!(
            (field.as_str(), message.contains("leads back")),
            ("plan.steps[0].dependsOn", true)
        );
        let ceiling = json!([step("a", json!({"ceiling": {"tokens": 9_007_199_254_740_992u64}}))]);
        assert_eq!(api.refused_plan(ceiling).await.0, "plan.steps[0].ceiling.tokens");
        let later = json!([step("a", json!({"input": {"$from": "b"}})), step("b", json!({}))]);
        assert_eq!(api.refused_plan(later).await.0, "plan.steps[0].input");
        let both_forms =
            json!({"kind": "k", "queue": "q", "plan": {"steps": [step("a", json!({}))]}});
        api.post("/v1/runs", &api.key, both_forms)
            .await
            .problem(400, "invalid_argument")
            .has("field", "kind");
        // In a batch each run has its own answer.
        let runs = json!([{"plan": {"steps": []}}, {"plan": {"steps": [step("a", json!({}))]}}]);
        let answers = api.post("/v1/runs", &api.key, json!({"runs": runs})).await.ok();
        assert_eq!(answers["results"][0]["field"], json!("runs[0].plan.steps"));
        assert!(answers["results"][1]["runId"].is_string(), "{answers}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_runs_on_a_database_too_and_its_history_verifies() {
    let database = pgserver::Server::builder().start().unwrap();
    let served = Served::at(&database.conninfo("postgres"), UNHURRIED).await;
    let long = json!({"text": "x".repeat(3_000)});
    let second = step(
        "b",
        json!({"queue": "p", "leaseMs": 60_000, "deadlineMs": 600_000,
        "input": {"$from": "a", "path": "/text"}}),
    );
    let first = step("a", json!({"leaseMs": 60_000}));
    let plan = json!({"plan": {"steps": [first, second, step("c", json!({"always": true}))]}});
    let run = served.post("/v1/runs", plan).await.body["runId"].as_str().unwrap().to_owned();
    for (queue, key) in [("q", "a"), ("p", "b"), ("q", "c")] {
        let poll = json!({"workerId": "w", "queues": [queue], "max": 1, "waitMs": 20_000});
        let lease = served.post("/v1/leases", poll).await.body["leases"][0].clone();
        assert_eq!(lease["stage"], json!(key), "{lease}");
        if key == "b" {
            assert_eq!(lease["input"], long["text"]);
        }
        served.verify().await;
        let path = format!("/v1/tasks/{}/completed", lease["taskId"].as_str().unwrap());
        let said = json!({"attempt": lease["attempt"], "workerId": "w", "outcome": "SUCCEEDED", "output": long});
        let token = lease["taskToken"].as_str().unwrap();
        let got = served.ask("POST", &path, token, Some(said)).await;
        assert_eq!(got.status, 200, "{:?}", got.body);
    }
    let ended = served.get(&format!("/v1/runs/{run}")).await.body;
    assert_eq!((&ended["state"], &ended["output"]["c"]), (&json!("succeeded"), &long));
    served.verify().await;
}

#[tokio::test]
async fn the_ceiling_of_a_step_bounds_what_it_uses_of_the_budget() {
    for api in both().await {
        let limited = |key: &str, tokens: u64, more: Value| {
            step(key, merged(json!({"ceiling": {"tokens": tokens}}), more))
        };
        let steps = json!([
            limited("draft", 60, json!({"onError": "continue"})),
            limited("review", 80, json!({})),
            limited("clean", 5, json!({"always": true})),
        ]);
        let body = json!({"plan": {"steps": steps}, "budget": {"tokens": 100}});
        let run = api.post("/v1/runs", &api.key, body).await.text("runId");
        let budget = async || api.run(&run).await["budget"].take();
        // The smaller of both is what is left.
        let draft = api.lease("w1").await;
        assert_eq!(draft.envelope["budgetLeft"], json!({"tokens": 60}));
        assert_eq!(budget().await["left"], json!({"tokens": 100}));
        let beat = draft.said(json!({"spend": {"tokens": 40}}));
        assert_eq!(api.call(&draft, "heartbeat", beat).await.ok()["left"], json!({"tokens": 20}));
        // S2-70: the step halts at its ceiling, and the plan goes on as the step says.
        let spent = json!({"outcome": "SUCCEEDED", "spend": {"tokens": 61}});
        api.call(&draft, "completed", draft.said(spent)).await.has("state", "queued");
        let review = api.lease("w1").await;
        assert_eq!(review.envelope["budgetLeft"], json!({"tokens": 39}));
        let spent = json!({"outcome": "SUCCEEDED", "spend": {"tokens": 40}});
        api.call(&review, "completed", review.said(spent)).await.has("state", "queued");
        // The budget of the run is used up: a step that always runs has its ceiling alone.
        let clean = api.lease("w1").await;
        assert_eq!(clean.envelope["budgetLeft"], json!({"tokens": 5}));
        let spent = json!({"outcome": "SUCCEEDED", "spend": {"tokens": 5}});
        api.call(&clean, "completed", clean.said(spent)).await.has("state", "halted");
        let ended = api.run(&run).await;
        assert_eq!(states(&ended), ["halted", "halted", "succeeded"]);
        assert_eq!(ended["error"]["message"], "the budget allows 100 tokens, and 101 are used");
        assert_eq!(ended["budget"]["used"]["tokens"], 106);
    }
}

#[tokio::test]
async fn ceilings_of_steps_need_no_budget_of_the_run() {
    for api in both().await {
        let steps = json!([step("a", json!({"ceiling": {"toolCalls": 2}})), step("b", json!({}))]);
        let run = api.planned(steps).await;
        let lease = api.lease("w1").await;
        assert_eq!(lease.envelope["budgetLeft"], json!({"toolCalls": 2}));
        let beat = lease.said(json!({"spend": {"toolCalls": 3}}));
        api.call(&lease, "heartbeat", beat).await.has("shouldCancel", true);
        let ended = api.run(&run).await;
        assert_eq!(
            (&ended["state"], states(&ended)),
            (&json!("halted"), vec!["halted", "skipped"])
        );
        let message = "the ceiling of the step `a` allows 2 toolCalls, and 3 are used";
        assert_eq!(ended["error"]["message"], message);
    }
}
