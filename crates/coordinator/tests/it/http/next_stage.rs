//! Reports that ask for the next stage of their task: who gets it, and what a repetition gets.

use serde_json::{Value, json};

use super::database::{Served, UNHURRIED};
use super::test_server::{Lease, TestServer, both, browser, merged};

impl TestServer {
    /// The first stage of a run with these stages, leased by a poll with these members.
    async fn first_stage(&self, steps: &[Value], poll: Value) -> Lease {
        let body = json!({"plan": {"steps": steps}});
        self.post("/v1/runs", &self.key, body).await.text("runId");
        let poll = merged(json!({"workerId": "w1", "queues": ["q"], "max": 1}), poll);
        self.post("/v1/leases", &self.key, poll).await.leases().remove(0)
    }
}

fn stage(key: &str, more: Value) -> Value {
    merged(json!({"key": key, "kind": key, "queue": "q", "leaseMs": 60_000}), more)
}

fn going_on(output: &Value) -> Value {
    json!({"outcome": "SUCCEEDED", "output": output, "next": true})
}

#[tokio::test]
async fn a_report_leases_the_next_stage_and_its_repetition_gets_the_same_lease() {
    for api in both().await {
        let steps = [
            stage("a", json!({})),
            stage("b", json!({"input": {"got": {"$from": "a"}}})),
            stage("c", json!({})),
        ];
        let first = api.first_stage(&steps, json!({})).await;
        let said = api.complete(&first, going_on(&json!("one"))).await;
        said.has("verdict", "COMMITTED").has("state", "running").has("finalState", "SUCCEEDED");
        let second = Lease::from(&said.body["next"]);
        assert_eq!((second.attempt(), &second.task), (2, &first.task));
        assert_eq!(second.envelope["stage"], json!("b"));
        assert_eq!(second.envelope["input"], json!({"got": "one"}));
        assert!(api.poll("w2").await.is_empty(), "it is leased");
        // A worker whose answer was lost repeats its report, whether or not it asks again.
        let again = api.complete(&first, going_on(&json!("one"))).await;
        again.has("replayed", true).has("state", "running");
        let same = Lease::from(&again.body["next"]);
        assert_eq!(same.envelope["leaseId"], second.envelope["leaseId"]);
        api.heartbeat(&same).await.ok();
        let plain = api.complete(&first, json!({"outcome": "SUCCEEDED", "output": "one"})).await;
        assert!(plain.has("replayed", true).body["next"].is_null());
        // The token of the first stage has no authority in the second.
        assert_eq!(api.heartbeat(&first).await.status, 409);
        // What the poll allowed is passed on, as far as there are stages.
        let said = api.complete(&same, going_on(&json!("two"))).await;
        let third = Lease::from(&said.body["next"]);
        assert_eq!(third.envelope["stage"], json!("c"));
        let last = api.complete(&third, going_on(&json!("three"))).await;
        assert!(last.has("state", "succeeded").body["next"].is_null());
        let late = api.complete(&first, going_on(&json!("one"))).await;
        assert!(late.has("replayed", true).body["next"].is_null());
        let run = api.run(&first.run).await;
        assert_eq!(run["output"], json!({"a": "one", "b": "two", "c": "three"}));
    }
}

#[tokio::test]
async fn what_rides_along_with_a_report_does_not_keep_the_next_stage() {
    for api in both().await {
        let steps = [stage("a", json!({})), stage("b", json!({})), stage("c", json!({}))];
        let first = api.first_stage(&steps, json!({})).await;
        let long = "x".repeat(1_000);
        let kid = json!({"key": "kid", "kind": "k", "queue": "kids", "input": {"of": "a"}});
        let step = |key: &str| json!({"key": key, "outcome": "SUCCEEDED", "result": long});
        let wish = |riders: Value| merged(going_on(&json!(long)), riders);
        let riders = json!({"steps": [step("one")], "children": [kid], "spend": {"tokens": 3}});
        let said = api.complete(&first, wish(riders.clone())).await;
        let second = Lease::from(&said.has("state", "running").body["next"]);
        assert_eq!(second.envelope["stage"], json!("b"));
        let again = api.complete(&first, wish(riders)).await;
        let same = Lease::from(&again.has("replayed", true).body["next"]);
        assert_eq!(same.envelope["leaseId"], second.envelope["leaseId"]);
        // The child is there, once, with its input.
        let poll = json!({"workerId": "w1", "queues": ["kids"], "max": 9});
        let kids = api.post("/v1/leases", &api.key, poll).await.leases();
        assert_eq!(kids.len(), 1);
        assert_eq!(kids[0].envelope["input"], json!({"of": "a"}));
        let said = api.complete(&second, wish(json!({"steps": [step("two")]}))).await;
        let third = Lease::from(&said.body["next"]);
        api.complete(&kids[0], json!({"outcome": "SUCCEEDED"})).await.ok();
        api.complete(&third, json!({"outcome": "SUCCEEDED"})).await.has("state", "succeeded");
    }
}

#[tokio::test]
async fn many_reports_in_one_call_lease_their_next_stages() {
    for api in both().await {
        let steps = [stage("a", json!({})), stage("b", json!({}))];
        let mut reports = Vec::new();
        for n in 0..20 {
            let lease = api.first_stage(&steps, json!({})).await;
            let more = json!({"taskId": lease.task, "taskToken": lease.token});
            let wish =
                if n % 2 == 0 { going_on(&json!(n)) } else { json!({"outcome": "SUCCEEDED"}) };
            reports.push(lease.said(merged(more, wish)));
        }
        let body = json!({"reports": reports});
        let answers = api.post("/v1/reports", &api.key, body).await.ok();
        for (n, answer) in answers["answers"].as_array().unwrap().iter().enumerate() {
            assert_eq!(answer["verdict"], json!("COMMITTED"), "{answer}");
            let state = if n % 2 == 0 { "running" } else { "queued" };
            assert_eq!(answer["state"], json!(state), "{answer}");
            assert_eq!(answer["next"].is_object(), n % 2 == 0, "{answer}");
        }
        assert_eq!(api.poll("w2").await.len(), 10);
    }
}

#[tokio::test]
async fn the_next_stage_goes_through_its_queue_where_the_poll_does_not_take_it() {
    for api in both().await {
        let a = || stage("a", json!({}));
        let cases = [
            (stage("b", json!({"queue": "other"})), json!({})),
            (stage("b", json!({})), json!({"kinds": ["a", "c"]})),
            // Nobody judges their own work.
            (stage("b", json!({"gate": true})), json!({})),
        ];
        for (second, poll) in cases {
            let first = api.first_stage(&[a(), second.clone()], poll).await;
            let said = api.complete(&first, going_on(&json!(1))).await;
            assert!(said.has("state", "queued").body["next"].is_null(), "{second}");
            let queues = json!({"workerId": "w2", "queues": ["q", "other"], "max": 1});
            let lease = api.post("/v1/leases", &api.key, queues).await.leases().remove(0);
            let lease = lease.by("w2");
            api.complete(&lease, going_on(&json!(2))).await.has("state", "succeeded");
        }
        // Kinds and queues that the poll does take.
        let poll = json!({"kinds": ["a", "b"], "queues": ["q", "other"]});
        let steps = [a(), stage("b", json!({"queue": "other"}))];
        let first = api.first_stage(&steps, poll).await;
        let said = api.complete(&first, going_on(&json!(1))).await;
        assert_eq!(said.body["next"]["queue"], json!("other"));
    }
}

#[tokio::test]
async fn the_next_stage_gives_way_to_a_more_urgent_task_and_to_a_pause() {
    for api in both().await {
        let steps = [stage("a", json!({})), stage("b", json!({}))];
        let first = api.first_stage(&steps, json!({})).await;
        let equal = api.submit(json!({"priority": 0})).await;
        let said = api.complete(&first, going_on(&json!(1))).await;
        assert!(said.body["next"].is_object(), "equals do not overtake: {:?}", said.body);
        api.cancel(&equal, json!({})).await;
        let first = api.first_stage(&steps, json!({})).await;
        let urgent = api.submit(json!({"priority": 5})).await;
        let said = api.complete(&first, going_on(&json!(1))).await;
        assert!(said.has("state", "queued").body["next"].is_null());
        let mut order = Vec::new();
        for _ in 0..2 {
            let poll = json!({"workerId": "w1", "queues": ["q"], "max": 1});
            order.push(api.post("/v1/leases", &api.key, poll).await.leases().remove(0).run);
        }
        assert_eq!(order, [urgent, first.run]);
        let first = api.first_stage(&steps, json!({})).await;
        api.post("/v1/queues/q/pause", &api.admin_key, json!({})).await.ok();
        let said = api.complete(&first, going_on(&json!(1))).await;
        assert!(said.has("state", "queued").body["next"].is_null());
    }
}

#[tokio::test]
async fn a_report_is_recorded_whatever_becomes_of_the_next_stage() {
    for api in both().await {
        let lost = stage("b", json!({"input": {"$from": "a", "path": "/missing"}}));
        let first = api.first_stage(&[stage("a", json!({})), lost], json!({})).await;
        let said = api.complete(&first, going_on(&json!({"there": 1}))).await;
        assert!(said.has("verdict", "COMMITTED").has("state", "failed").body["next"].is_null());
        let run = api.run(&first.run).await;
        assert_eq!(run["error"]["reason"], json!("INPUT_UNRESOLVED"));
        // A failure that the run tolerates goes on as well; one that is tried again does not.
        let soft = stage("a", json!({"onError": "continue", "maxAttempts": 1}));
        let first = api.first_stage(&[soft, stage("b", json!({}))], json!({})).await;
        let error = json!({"category": "USER_CODE", "message": "no"});
        let failed = json!({"outcome": "FAILED", "error": error, "next": true});
        let said = api.complete(&first, failed.clone()).await;
        assert_eq!(said.body["next"]["stage"], json!("b"));
        let second = Lease::from(&said.body["next"]);
        let said = api.complete(&second, failed).await;
        assert!(said.has("state", "retry").body["next"].is_null());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stages_go_on_in_a_database_too_and_the_history_verifies() {
    let database = pgserver::Server::builder().start().unwrap();
    let served = Served::at(&database.conninfo("postgres"), UNHURRIED).await;
    let steps: Vec<Value> = ["a", "b", "c"].map(|key| stage(key, json!({}))).to_vec();
    let run =
        served.post("/v1/runs", json!({"plan": {"steps": steps}})).await.body["runId"].clone();
    let poll = json!({"workerId": "w", "queues": ["q"], "max": 1, "waitMs": 20_000});
    let mut lease = served.post("/v1/leases", poll).await.body["leases"][0].clone();
    let long = json!({"text": "x".repeat(3_000)});
    for key in ["a", "b", "c"] {
        assert_eq!(lease["stage"], json!(key), "{lease}");
        let path = format!("/v1/tasks/{}/completed", lease["taskId"].as_str().unwrap());
        let said = merged(json!({"attempt": lease["attempt"], "workerId": "w"}), going_on(&long));
        let token = lease["taskToken"].as_str().unwrap().to_owned();
        let got = served.ask("POST", &path, &token, Some(said.clone())).await;
        assert_eq!(got.status, 200, "{:?}", got.body);
        let again = served.ask("POST", &path, &token, Some(said)).await;
        assert_eq!(again.body["next"]["leaseId"], got.body["next"]["leaseId"]);
        served.verify().await;
        lease = got.body["next"].clone();
    }
    assert!(lease.is_null());
    let ended = served.get(&format!("/v1/runs/{}", run.as_str().unwrap())).await.body;
    assert_eq!((&ended["state"], &ended["output"]["c"]), (&json!("succeeded"), &long));
}

#[tokio::test]
async fn a_worker_is_a_boundary_of_one_kind_of_work_and_not_a_process() {
    for api in both().await {
        // S2-1: both workers live in this process. Each gets the stages of its own kind only, and neither can report, beat or
        // go on for the other, whatever it knows of it.
        let steps = [stage("draft", json!({})), stage("judge", json!({}))];
        let draft =
            api.first_stage(&steps, json!({"workerId": "drafts", "kinds": ["draft"]})).await;
        let judging = json!({"workerId": "judges", "queues": ["q"], "kinds": ["judge"], "max": 1});
        assert!(api.post("/v1/leases", &api.key, judging.clone()).await.leases().is_empty());
        let stranger = draft.clone().by("judges");
        api.heartbeat(&stranger).await.problem(409, "worker_mismatch");
        api.complete(&stranger, going_on(&json!(1))).await.problem(409, "worker_mismatch");
        let draft = draft.by("drafts");
        let said = api.complete(&draft, going_on(&json!("text"))).await;
        assert!(said.has("state", "queued").body["next"].is_null(), "it is no work of this kind");
        let judge = api.post("/v1/leases", &api.key, judging).await.leases().remove(0).by("judges");
        assert_eq!(judge.envelope["stage"], json!("judge"));
        // The process of a worker may be replaced: another one, over a connection of its own, goes on under the same lease.
        let other = browser().build().unwrap();
        let url = format!("{}/v1/tasks/{}/completed", api.url(""), judge.task);
        let report = judge.said(json!({"outcome": "SUCCEEDED"}));
        let sent = other.post(url).bearer_auth(&judge.token).json(&report);
        api.send(sent).await.has("verdict", "COMMITTED").has("state", "succeeded");
    }
}
