//! Children of durable runs: started once, awaited, cancelled with their parent, and shown with their run.

use serde_json::{Value, json};

use super::test_server::{Lease, TestServer, both, merged, seconds};

fn child(key: &str) -> Value {
    json!({"key": key, "kind": "resize", "queue": "q", "leaseMs": 2000, "input": {"child": key}})
}

fn await_all(keys: &[&str]) -> Value {
    let items: Vec<Value> = keys.iter().map(|key| json!({"key": key, "child": key})).collect();
    json!({"key": "join#1", "mode": "all", "for": items})
}

/// Starts children and waits for all of them.
async fn fork(api: &TestServer, parent: &Lease, keys: &[&str]) -> Value {
    let children: Vec<Value> = keys.iter().map(|key| child(key)).collect();
    let call = json!({"children": children, "wait": await_all(keys)});
    api.checkpoint(parent, call).await.ok()
}

fn by_input<'a>(leases: &'a [Lease], key: &str) -> &'a Lease {
    leases.iter().find(|lease| lease.envelope["input"]["child"] == key).expect("it is leased")
}

#[tokio::test]
async fn children_start_in_the_commit_that_asks_and_their_ends_join() {
    for api in both().await {
        // A child is ready with its parent's commit, and its end is a checkpoint of its parent.
        let parent = api.leased(json!({})).await;
        let forked = fork(&api, &parent, &["c#1", "c#2"]).await;
        assert_eq!(forked["state"], "waiting");
        let started = forked["children"].as_array().unwrap();
        let children = api.poll("w1").await;
        assert_eq!(children.len(), 2);
        let (one, two) = (by_input(&children, "c#1"), by_input(&children, "c#2"));
        assert_eq!((&started[0]["key"], &started[0]["taskId"]), (&json!("c#1"), &json!(one.task)));
        // They belong to the run of their parent.
        assert_eq!(
            (one.run.as_str(), &one.envelope["parentTaskId"]),
            (&*parent.run, &json!(parent.task))
        );
        assert_ne!(one.task, parent.task);
        api.succeed(two).await.ok();
        assert!(api.poll("w1").await.is_empty(), "one of two is not all");
        let error = json!({"category": "DATA_QUALITY", "message": "bad"});
        api.complete(one, json!({"outcome": "FAILED", "error": error})).await.ok();
        let joined = api.lease("w1").await;
        assert_eq!((joined.task.as_str(), joined.attempt()), (&*parent.task, 2));
        let rows: Vec<(&str, &str)> = joined.envelope["checkpoints"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| (it["key"].as_str().unwrap(), it["outcome"].as_str().unwrap()))
            .collect();
        // STARTED in the order of the call, ends in the order of the commits.
        let expected = [
            ("c#1", "STARTED"),
            ("c#2", "STARTED"),
            ("c#2", "SUCCEEDED"),
            ("c#1", "FAILED"),
            ("join#1", "SUCCEEDED"),
        ];
        assert_eq!(rows, expected);
        let ends = &joined.envelope["checkpoints"];
        assert_eq!(ends[2]["result"], json!({"rowCount": 1}));
        assert_eq!(
            (&ends[3]["error"]["category"], &ends[3]["error"]["message"]),
            (&json!("DATA_QUALITY"), &json!("bad"))
        );
        api.succeed(&joined).await.has("state", "succeeded");
    }
}

#[tokio::test]
async fn a_child_is_started_once_across_attempts() {
    for api in both().await {
        // E5, F81: the worker dies after the call, and the next one asks again.
        let parent = api.leased(json!({})).await;
        let call =
            json!({"children": [merged(child("c"), json!({"inputDigest": "cd".repeat(32)}))]});
        let first = api.checkpoint(&parent, call.clone()).await.ok();
        let worker = api.lease("w1").await;
        api.succeed(&worker).await.ok();
        api.pass(seconds(3)).await;
        let next = api.lease("w1").await;
        assert_eq!(next.task, parent.task);
        assert_eq!(next.envelope["checkpoints"][0]["inputDigest"], json!("cd".repeat(32)));
        let again = api.checkpoint(&next, call).await;
        again.has("replayed", true);
        assert_eq!(again.body["children"], first["children"]);
        assert!(api.poll("w1").await.is_empty(), "no second child");
        // The same key for another child.
        let other =
            json!({"children": [merged(child("c"), json!({"inputDigest": "ef".repeat(32)}))]});
        api.checkpoint(&next, other).await.problem(409, "conflicting_step");
        // What has ended is there at once.
        let got = api.checkpoint(&next, json!({"wait": await_all(&["c"])})).await;
        got.has("state", "running");
        let results = got.body["results"].as_array().unwrap();
        let kinds: Vec<(&str, &str)> = results
            .iter()
            .map(|it| (it["kind"].as_str().unwrap(), it["outcome"].as_str().unwrap()))
            .collect();
        assert_eq!(kinds, [("CHILD", "SUCCEEDED"), ("WAIT", "SUCCEEDED")]);
    }
}

#[tokio::test]
async fn the_end_of_a_parent_cancels_its_children_first() {
    for api in both().await {
        // DESIGN 14: a task with live children never becomes done.
        let parent = api.leased(json!({})).await;
        let call = json!({"children": [child("waits"), child("runs")]});
        api.checkpoint(&parent, call).await.ok();
        let leases = api.poll("w1").await;
        let runs = by_input(&leases, "runs").clone();
        // One is handed back, so that it waits.
        let waits = by_input(&leases, "waits").clone();
        api.complete(&waits, json!({"outcome": "RELEASED"})).await.ok();
        api.started(&runs).await.ok();
        api.succeed(&parent).await.has("state", "waiting").has("finalState", "SUCCEEDED");
        api.get("/readyz").await.ok();
        let run = api.run(&parent.run).await;
        assert_eq!(run["durable"]["waiting"]["ending"], json!({"state": "succeeded"}));
        api.heartbeat(&runs).await.has("shouldCancel", true).has("cancelReason", "parent_ended");
        api.complete(&runs, json!({"outcome": "CANCELLED"})).await.ok();
        api.get("/readyz").await.ok();
        assert_eq!(api.state(&parent.run).await, "succeeded");
        let children = api.get(&format!("/v1/runs/{}/children", parent.run)).await.ok();
        let states: Vec<&str> = children["children"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["state"].as_str().unwrap())
            .collect();
        assert_eq!(states, ["cancelled", "cancelled"]);
    }
}

#[tokio::test]
async fn a_cancel_follows_the_run() {
    for api in both().await {
        // Cancelling a parent that waits reaches the children that run.
        let parent = api.leased(json!({})).await;
        fork(&api, &parent, &["c"]).await;
        let worker = api.lease("w1").await;
        api.started(&worker).await.ok();
        api.cancel(&parent.run, json!({})).await.has("state", "waiting");
        api.get("/readyz").await.ok();
        api.heartbeat(&worker).await.has("shouldCancel", true);
        api.complete(&worker, json!({"outcome": "CANCELLED"})).await.ok();
        api.get("/readyz").await.ok();
        assert_eq!(api.state(&parent.run).await, "cancelled");
    }
}

#[tokio::test]
async fn a_detached_child_outlives_its_parent() {
    for api in both().await {
        let parent = api.leased(json!({})).await;
        let detached = merged(child("d"), json!({"detached": true}));
        let last = json!({"outcome": "SUCCEEDED", "children": [detached]});
        api.complete(&parent, last).await.has("state", "succeeded");
        let worker = api.lease("w1").await;
        assert_ne!(worker.run, parent.run);
        let run = api.run(&worker.run).await;
        assert_eq!(run["parent"], json!({"taskId": parent.task, "key": "d", "detached": true}));
        api.succeed(&worker).await.ok();
        // It is a run like any other.
        let runs = api.get("/v1/runs").await.ok();
        assert_eq!(runs["runs"].as_array().unwrap().len(), 2);
    }
}

#[tokio::test]
async fn a_run_is_shown_with_its_tree() {
    for api in both().await {
        let parent = api.leased(json!({})).await;
        fork(&api, &parent, &["c"]).await;
        let middle = api.lease("w1").await;
        fork(&api, &middle, &["g"]).await;
        let run = api.get(&format!("/v1/runs/{}?tree=10", parent.run)).await.ok();
        let top = &run["children"][0];
        assert_eq!((&top["key"], &top["state"]), (&json!("c"), &json!("waiting")));
        let leaf = &top["children"][0];
        assert_eq!(
            (&leaf["key"], &leaf["state"], &leaf["kind"]),
            (&json!("g"), &json!("queued"), &json!("resize"))
        );
        // A tree of one task shows the first level alone.
        let run = api.get(&format!("/v1/runs/{}?tree=1", parent.run)).await.ok();
        assert!(run["children"][0].get("children").is_none());
        // Lists show runs, and tasks of runs only to those who ask.
        let count = |page: Value| page["runs"].as_array().unwrap().len();
        assert_eq!(count(api.get("/v1/runs").await.ok()), 1);
        assert_eq!(count(api.get("/v1/runs?children=true").await.ok()), 3);
    }
}

#[tokio::test]
async fn more_children_than_one_batch_decides_all_start_and_join() {
    for api in both().await {
        // DESIGN 14: at most 1,000 messages are decided in a batch. Calls weigh what they write, so they are spread over commits.
        let parents =
            [api.leased(json!({})).await, api.leased(json!({})).await, api.leased(json!({})).await];
        let children: Vec<Value> = (0..500).map(|n| child(&format!("c#{n}"))).collect();
        let keys: Vec<String> = (0..500).map(|n| format!("c#{n}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let calls: Vec<Value> = parents
            .iter()
            .map(|lease| {
                let identity = json!({"taskId": lease.task, "taskToken": lease.token,
                    "children": children, "wait": await_all(&keys)});
                merged(lease.said(json!({})), identity)
            })
            .collect();
        let got =
            api.post("/v1/checkpoints", &api.worker_key, json!({"checkpoints": calls})).await.ok();
        assert!(
            got["answers"].as_array().unwrap().iter().all(|it| it["state"] == "waiting"),
            "{got}"
        );
        let (mut children, mut joined) = (0, 0);
        while joined < parents.len() {
            let body = json!({"workerId": "w1", "queues": ["q"], "max": 256, "waitMs": 10000});
            let leases = api.post("/v1/leases", &api.key, body).await.leases();
            assert!(!leases.is_empty(), "{children} children were leased, {joined} parents joined");
            let is_child = |lease: &&Lease| lease.envelope.get("parentTaskId").is_some();
            children += leases.iter().filter(is_child).count();
            joined += leases.iter().filter(|lease| !is_child(lease)).count();
            let report = |lease: &Lease| {
                let identity = json!({"taskId": lease.task, "taskToken": lease.token});
                merged(lease.said(identity), json!({"outcome": "SUCCEEDED"}))
            };
            let reports: Vec<Value> = leases.iter().map(report).collect();
            let body = json!({"reports": reports});
            let got = api.post("/v1/reports", &api.worker_key, body).await.ok();
            assert!(
                got["answers"].as_array().unwrap().iter().all(|it| it["status"] == 200),
                "{got}"
            );
        }
        assert_eq!(children, 1_500, "every child was leased once");
    }
}
