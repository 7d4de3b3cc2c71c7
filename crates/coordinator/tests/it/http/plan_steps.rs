//! Runs whose plan has edges: steps as tasks of their own, what a failure means for the rest, and plans of thousands of steps.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::database::{Served, UNHURRIED};
use super::test_server::{Lease, TestServer, both, merged};

impl TestServer {
    async fn graph(&self, steps: Value) -> String {
        let body = json!({"plan": {"steps": steps}});
        self.post("/v1/runs", &self.key, body).await.text("runId")
    }

    /// The leases of all steps that are ready, by key.
    async fn ready(&self) -> BTreeMap<String, Lease> {
        let leases = self.poll("w1").await;
        leases.into_iter().map(|it| (it.envelope["taskKey"].as_str().unwrap().into(), it)).collect()
    }

    /// What became of the steps, by key.
    async fn plan_of(&self, run: &str) -> BTreeMap<String, Value> {
        let page = self.get(&format!("/v1/runs/{run}/plan?limit=1000")).await.ok();
        let steps = page["steps"].as_array().unwrap().clone();
        steps.into_iter().map(|it| (it["key"].as_str().unwrap().to_owned(), it)).collect()
    }
}

fn step(key: &str, upstreams: &[&str], more: Value) -> Value {
    let base =
        json!({"key": key, "kind": "k", "queue": "q", "leaseMs": 2000, "dependsOn": upstreams});
    merged(base, more)
}

fn output(value: Value) -> Value {
    json!({"outcome": "SUCCEEDED", "output": value})
}

/// a → (b, c) → d
fn diamond(b: Value) -> Value {
    let join = json!({"input": {"left": {"$from": "b", "default": null}, "right": {"$from": "c", "path": "/n"}}});
    json!([
        step("a", &[], json!({})),
        step("b", &["a"], b),
        step("c", &["a"], json!({"input": {"of": {"$from": "a"}}})),
        step("d", &["b", "c"], join),
    ])
}

#[tokio::test]
async fn a_step_starts_when_the_steps_that_it_names_have_ended() {
    for api in both().await {
        // S2-58: each step is a task, blocked until its upstreams have ended, with what they returned.
        let run = api.graph(diamond(json!({}))).await;
        let mut ready = api.ready().await;
        assert_eq!(ready.keys().collect::<Vec<_>>(), ["a"]);
        let explained = api.plan_of(&run).await;
        assert_eq!(explained["d"]["state"], json!("blocked"));
        assert_eq!(
            (&explained["d"]["waitsFor"], &explained["d"]["dependsOn"]),
            (&json!(2), &json!(["b", "c"]))
        );
        let task = explained["d"]["taskId"].as_str().unwrap().to_owned();
        let gates =
            api.get(&format!("/v1/runs/{}/explain", task.replace("task_", "run_"))).await.ok();
        let said = gates["gates"][0]["now"].as_str().unwrap();
        assert!(said.contains("`b`, `c`"), "{gates}");
        api.complete(&ready.remove("a").unwrap(), output(json!({"x": 1.50}))).await.ok();
        let mut ready = api.ready().await;
        assert_eq!(ready.keys().collect::<Vec<_>>(), ["b", "c"]);
        let c = ready.remove("c").unwrap();
        assert_eq!(c.envelope["input"], json!({"of": {"x": 1.50}}));
        api.complete(&c, output(json!({"n": [7]}))).await.ok();
        assert!(api.ready().await.is_empty(), "one of two upstreams");
        api.complete(&ready.remove("b").unwrap(), output(json!("left"))).await.ok();
        let d = api.ready().await.remove("d").unwrap();
        assert_eq!(d.envelope["input"], json!({"left": "left", "right": [7]}));
        api.complete(&d, output(json!("out"))).await.has("state", "succeeded");
        let ended = api.run(&run).await;
        assert_eq!((&ended["state"], &ended["planSteps"]), (&json!("succeeded"), &json!(4)));
        // S2-84: the output of a run is the map of step key to output.
        let all = json!({"a": {"x": 1.50}, "b": "left", "c": {"n": [7]}, "d": "out"});
        assert_eq!(ended["output"], all);
        assert_eq!(ended["plan"].as_array().unwrap().len(), 4);
    }
}

#[tokio::test]
async fn a_failure_skips_what_depends_on_it_with_the_reason_on_each() {
    for api in both().await {
        // S2-59: a failed step fails the run, and everything after it is skipped, through any number of steps.
        let mut steps = diamond(json!({"onError": "abort"}));
        steps.as_array_mut().unwrap().push(step("e", &["d"], json!({})));
        steps.as_array_mut().unwrap().push(step("clean", &["e"], json!({"always": true})));
        let run = api.graph(steps).await;
        let a = api.ready().await.remove("a").unwrap();
        api.complete(&a, output(json!(1))).await.ok();
        let mut ready = api.ready().await;
        api.fail(&ready.remove("b").unwrap()).await.ok();
        api.complete(&ready.remove("c").unwrap(), output(json!({"n": 1}))).await.ok();
        let clean = api.ready().await.remove("clean").expect("it runs whatever happened");
        let seen = api.plan_of(&run).await;
        let state = |key: &str| seen[key]["state"].as_str().unwrap().to_owned();
        assert_eq!([state("b"), state("d"), state("e")], ["failed", "skipped", "skipped"]);
        assert_eq!(seen["e"]["reason"], json!("UPSTREAM_FAILED"));
        assert!(seen["d"]["message"].as_str().unwrap().contains("`b` failed"), "{}", seen["d"]);
        assert!(seen["e"]["message"].as_str().unwrap().contains("`d` skipped"), "{}", seen["e"]);
        let listed = api.get("/v1/runs?state=skipped&children=true").await.ok();
        assert_eq!(listed["runs"].as_array().unwrap().len(), 2);
        api.complete(&clean, output(json!(null))).await.ok();
        let ended = api.run(&run).await;
        assert_eq!(
            (&ended["state"], &ended["error"]["reason"]),
            (&json!("failed"), &json!("STEP_FAILED"))
        );
        assert_eq!(ended["output"]["c"], json!({"n": 1}));

        // A retry repeats the plan with all its steps, if that is said; a step alone is not repeated.
        let path = format!("/v1/runs/{run}/retry");
        let refused = api.post(&path, &api.key, json!({})).await;
        refused.problem(409, "run_has_records").has("state", "FAILED");
        assert!(refused.text("message").contains("--from-scratch"), "{refused:?}");
        let again = api.post(&path, &api.key, json!({"fromScratch": true})).await;
        assert_eq!(api.plan_of(&again.text("runId")).await.len(), 6);
        let step = seen["b"]["taskId"].as_str().unwrap().replace("task_", "run_");
        let alone = api.post(&format!("/v1/runs/{step}/retry"), &api.key, json!({})).await;
        alone.problem(409, "run_not_retryable");
        api.cancel(&again.text("runId"), json!({"force": true})).await.ok();

        // A failure that is tolerated skips nothing, and a reference to it has its default.
        let run = api.graph(diamond(json!({"onError": "continue", "maxAttempts": 1}))).await;
        let a = api.ready().await.remove("a").unwrap();
        api.complete(&a, output(json!(1))).await.ok();
        let mut ready = api.ready().await;
        api.fail(&ready.remove("b").unwrap()).await.ok();
        api.complete(&ready.remove("c").unwrap(), output(json!({"n": 1}))).await.ok();
        let d = api.ready().await.remove("d").unwrap();
        assert_eq!(d.envelope["input"], json!({"left": null, "right": 1}));
        api.complete(&d, output(json!(2))).await.ok();
        assert_eq!(api.state(&run).await, "succeeded");
    }
}

#[tokio::test]
async fn a_cancel_reaches_every_step_but_those_that_must_run() {
    for api in both().await {
        let mut steps = diamond(json!({}));
        steps.as_array_mut().unwrap().push(step("clean", &["a"], json!({"always": true})));
        let run = api.graph(steps).await;
        api.cancel(&run, json!({"reason": "enough"})).await.ok();
        api.pass(super::test_server::seconds(1)).await;
        let clean = api.ready().await.remove("clean").expect("it runs after a cancel");
        api.heartbeat(&clean).await.has("shouldCancel", false);
        assert_eq!(api.plan_of(&run).await["d"]["state"], json!("cancelled"));
        api.complete(&clean, output(json!(1))).await.ok();
        assert_eq!(api.state(&run).await, "cancelled");
    }
}

#[tokio::test]
async fn an_input_that_cannot_be_made_ends_its_step() {
    for api in both().await {
        let b = json!({"input": {"$from": "a", "path": "/missing"}});
        let run = api.graph(json!([step("a", &[], json!({})), step("b", &["a"], b)])).await;
        let a = api.ready().await.remove("a").unwrap();
        api.complete(&a, output(json!({"there": 1}))).await.ok();
        assert!(api.ready().await.is_empty(), "no worker gets an input that cannot be made");
        assert_eq!(api.plan_of(&run).await["b"]["reason"], json!("INPUT_UNRESOLVED"));
        assert_eq!(api.state(&run).await, "failed");
    }
}

#[tokio::test]
async fn a_plan_is_submitted_once_alone_and_in_batches() {
    for api in both().await {
        let body = json!({"plan": {"steps": diamond(json!({}))}});
        let submit = || {
            api.request("POST", "/v1/runs")
                .bearer_auth(&api.key)
                .header("idempotency-key", "k")
                .json(&body)
        };
        let first = api.send(submit()).await.text("runId");
        let again = api.send(submit()).await;
        again.has("runId", first.as_str()).has("replayed", true);
        let runs = json!([body, {"plan": {"steps": [step("a", &["b"], json!({}))]}}]);
        let answers = api.post("/v1/runs", &api.key, json!({"runs": runs})).await.ok();
        assert!(answers["results"][0]["runId"].is_string(), "{answers}");
        assert_eq!(answers["results"][1]["field"], json!("runs[1].plan.steps[0].dependsOn[0]"));
        // A run without a plan has no steps of one, and a missing run has nothing.
        let plain = api.submit(json!({})).await;
        assert_eq!(api.plan_of(&plain).await.len(), 0);
        api.get("/v1/runs/run_00000000000000000000000000/plan").await.problem(404, "run_not_found");
    }
}

/// So many steps that run side by side, and one that joins them.
fn parallel(count: usize) -> Value {
    let keys: Vec<String> = (0..count).map(|n| format!("s{n:05}")).collect();
    let side = |key: &String| json!({"key": key, "kind": "k", "queue": "q"});
    let mut steps: Vec<Value> = keys.iter().map(side).collect();
    steps.push(json!({"key": "join", "kind": "k", "queue": "q", "dependsOn": keys}));
    json!({"plan": {"steps": steps}})
}

#[tokio::test(flavor = "multi_thread")]
async fn the_largest_plan_runs_side_by_side_and_joins() {
    let [_, api] = both().await;
    // The root spawns and counts them in slices; no decision and no read is about all of them.
    let run = api.post("/v1/runs", &api.key, parallel(1_999)).await.text("runId");
    let mut done = 0;
    while done < 1_999 {
        let body = json!({"workerId": "w1", "queues": ["q"], "max": 100, "waitMs": 10_000});
        let leases = api.post("/v1/leases", &api.key, body).await.leases();
        assert!(!leases.is_empty(), "{done} of them ended");
        done += leases.len();
        let items: Vec<Value> = leases
            .iter()
            .map(|it| {
                let identity = json!({"taskId": it.task, "taskToken": it.token});
                merged(it.said(output(json!(1))), identity)
            })
            .collect();
        let got = api.post("/v1/reports", &api.worker_key, json!({"reports": items})).await.ok();
        let answers = got["answers"].as_array().unwrap();
        assert!(answers.iter().all(|it| it["status"] == 200), "{got}");
    }
    let seen = api.run(&run).await;
    assert_eq!((seen["plan"].as_array().unwrap().len(), &seen["planSteps"]), (100, &json!(2_000)));
    let body = json!({"workerId": "w1", "queues": ["q"], "max": 1, "waitMs": 10_000});
    let join = api.post("/v1/leases", &api.key, body).await.leases().remove(0);
    assert_eq!(join.envelope["taskKey"], json!("join"));
    api.complete(&join, output(json!("all"))).await.ok();
    assert_eq!(api.state(&run).await, "succeeded");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_goes_on_with_another_coordinator_of_a_database_and_verifies() {
    let database = pgserver::Server::builder().start().unwrap();
    let address = database.conninfo("postgres");
    let first = Served::at(&address, UNHURRIED).await;
    let mut plan = parallel(1_200);
    for step in plan["plan"]["steps"].as_array_mut().unwrap() {
        step["leaseMs"] = json!(600_000);
    }
    let run = first.post("/v1/runs", plan).await.body["runId"].as_str().unwrap().to_owned();
    work(&first, 300).await;
    first.verify().await;
    let second = first.beside(&address).await;
    assert_eq!(first.server.shutdown().await, coordinator::StopReason::Drained);
    work(&second, 901).await;
    let ended = second.get(&format!("/v1/runs/{run}?waitMs=20000")).await.body;
    assert_eq!(ended["state"], json!("succeeded"), "{ended}");
    second.verify().await;
}

/// Lets so many steps succeed.
async fn work(served: &Served, count: usize) {
    let mut done = 0;
    while done < count {
        let max = 100.min(count - done);
        let poll = json!({"workerId": "w", "queues": ["q"], "max": max, "waitMs": 20_000});
        let leases =
            served.post("/v1/leases", poll).await.body["leases"].as_array().unwrap().clone();
        assert!(!leases.is_empty(), "{done} of {count}");
        done += leases.len();
        let items: Vec<Value> = leases
            .iter()
            .map(|lease| {
                json!({"taskId": lease["taskId"], "taskToken": lease["taskToken"], "attempt": lease["attempt"],
                    "workerId": "w", "outcome": "SUCCEEDED", "output": 1})
            })
            .collect();
        let got = served.post("/v1/reports", json!({"reports": items})).await;
        assert_eq!(got.status, 200, "{:?}", got.body);
    }
}

fn with_tokens(key: &str, upstreams: &[&str], tokens: u64) -> Value {
    step(key, upstreams, json!({"ceiling": {"tokens": tokens}}))
}

#[tokio::test]
async fn steps_take_their_ceilings_from_the_budget_of_the_run_and_give_back_the_rest() {
    for api in both().await {
        let steps = json!([with_tokens("a", &[], 60), with_tokens("b", &["a"], 40)]);
        let submit = async |tokens: u64| {
            let body = json!({"plan": {"steps": steps}, "budget": {"tokens": tokens}});
            api.post("/v1/runs", &api.key, body).await
        };
        // S2-62: promised to all of them at submit, or to none.
        let refused = submit(99).await;
        refused.problem(409, "budget_insufficient");
        assert!(refused.text("message").contains("`b`"), "{refused:?}");
        let run = submit(100).await.text("runId");
        let budget = async || api.run(&run).await["budget"].take();
        let shown = budget().await;
        assert_eq!((&shown["held"]["tokens"], &shown["left"]["tokens"]), (&json!(100), &json!(0)));
        let first = api.ready().await.remove("a").unwrap();
        assert_eq!(first.envelope["budgetLeft"], json!({"tokens": 60}));
        let report = json!({"outcome": "SUCCEEDED", "output": 1, "spend": {"tokens": 10}});
        api.call(&first, "completed", first.said(report)).await.has("verdict", "COMMITTED");
        let shown = budget().await;
        assert_eq!((&shown["used"]["tokens"], &shown["held"]["tokens"]), (&json!(10), &json!(40)));
        assert_eq!(shown["left"]["tokens"], 50);
        // S2-70: a step that crosses its ceiling halts, and so does the run, although the run had more.
        let second = api.ready().await.remove("b").unwrap();
        let report = json!({"outcome": "SUCCEEDED", "output": 2, "spend": {"tokens": 41}});
        api.call(&second, "completed", second.said(report)).await.has("state", "halted");
        assert_eq!(api.plan_of(&run).await["b"]["state"], "halted");
        assert_eq!(api.state(&run).await, "halted");
        let shown = budget().await;
        assert_eq!((&shown["used"]["tokens"], &shown["held"]["tokens"]), (&json!(51), &json!(0)));
    }
}

#[tokio::test]
async fn a_step_that_is_skipped_gives_its_ceiling_back_and_one_without_may_use_nothing() {
    for api in both().await {
        let steps = json!([
            step("a", &[], json!({"onError": "abort"})),
            with_tokens("b", &["a"], 70),
            step("c", &[], json!({"always": true, "ceiling": {"tokens": 5}})),
        ]);
        let body = json!({"plan": {"steps": steps}, "budget": {"tokens": 80, "wallMs": 600_000}});
        let run = api.post("/v1/runs", &api.key, body).await.text("runId");
        let mut ready = api.ready().await;
        let (a, c) = (ready.remove("a").unwrap(), ready.remove("c").unwrap());
        // W-10: what was promised to nobody is used by nobody.
        assert_eq!(a.envelope["budgetLeft"]["tokens"], 0);
        assert!(a.envelope["budgetLeft"]["wallEndsAt"].is_string(), "{}", a.envelope);
        let beat = a.said(json!({"spend": {"tokens": 1}}));
        api.call(&a, "heartbeat", beat).await.has("shouldCancel", true);
        assert_eq!(api.plan_of(&run).await["b"]["state"], "skipped");
        let report = json!({"outcome": "SUCCEEDED", "spend": {"tokens": 5}});
        api.call(&c, "completed", c.said(report)).await.has("state", "succeeded");
        let shown = api.run(&run).await;
        assert_eq!(shown["state"], "halted");
        assert_eq!(shown["budget"]["used"]["tokens"], 6);
        assert_eq!(shown["budget"]["held"]["tokens"], 0);
        // A limit that no step names would stop them all.
        let steps = json!([step("a", &[], json!({})), with_tokens("b", &["a"], 7)]);
        let body = json!({"plan": {"steps": steps}, "budget": {"tokens": 7, "toolCalls": 1}});
        let refused = api.post("/v1/runs", &api.key, body).await;
        refused.problem(400, "invalid_argument").has("field", "budget.toolCalls");
    }
}

#[tokio::test]
async fn a_budget_of_thousands_of_parallel_steps_is_held_to_the_last_token() {
    for api in both().await {
        let count = 1_999;
        let steps: Vec<Value> = (0..count)
            .map(|n| with_tokens(&format!("s{n}"), &[], 2))
            .chain([with_tokens("end", &["s0"], 2)])
            .collect();
        let body = json!({"plan": {"steps": steps}, "budget": {"tokens": 2 * (count + 1)}});
        let run = api.post("/v1/runs", &api.key, body).await.text("runId");
        let mut done = 0;
        while done <= count {
            let poll = json!({"workerId": "w1", "queues": ["q"], "max": 100});
            let leases = api.post("/v1/leases", &api.worker_key, poll).await.leases();
            let report = |lease: &Lease| {
                lease.said(json!({"taskId": lease.task, "taskToken": lease.token,
                    "outcome": "SUCCEEDED", "spend": {"tokens": 1}}))
            };
            let reports: Vec<Value> = leases.iter().map(report).collect();
            done += reports.len() as u64;
            if !reports.is_empty() {
                api.post("/v1/reports", &api.worker_key, json!({"reports": reports})).await.ok();
            }
            let budget = api.run(&run).await["budget"].take();
            let committed = budget["used"]["tokens"].as_u64().unwrap()
                + budget["held"]["tokens"].as_u64().unwrap();
            assert!(committed <= 2 * (count + 1), "{budget}");
        }
        let shown = api.run(&run).await;
        assert_eq!(shown["state"], "succeeded");
        assert_eq!(shown["budget"]["used"]["tokens"], count + 1);
        assert_eq!(shown["budget"]["held"]["tokens"], 0);
    }
}
