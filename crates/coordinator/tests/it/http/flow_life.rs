//! Slots of flow keys that runs hold for life, over HTTP and over both stores: waits keep them, and children share them.

use serde_json::{Value, json};

use super::test_server::{Lease, TestServer, both, merged, run, seconds};

fn track(limit: u64) -> Value {
    json!({"flow": {"key": "track", "limit": limit, "hold": "life"}})
}

async fn key(api: &TestServer) -> Value {
    let listed = api.get("/v1/flow-keys").await.ok();
    listed["flowKeys"].as_array().unwrap().first().cloned().unwrap_or(Value::Null)
}

fn child(name: &str, more: Value) -> Value {
    let mut child = run(more);
    child["key"] = json!(name);
    child
}

fn wait_for(children: &[&str]) -> Value {
    let items = children.iter().map(|name| json!({"key": name, "child": name}));
    json!({"key": format!("w-{}", children.join("-")), "mode": "all", "for": items.collect::<Vec<_>>()})
}

#[tokio::test]
async fn a_run_that_waits_keeps_its_slot_until_its_end() {
    for api in both().await {
        let first = api.leased(track(1)).await;
        let second = api.submit(track(1)).await;
        let wait =
            json!({"wait": {"key": "w", "mode": "all", "for": [{"key": "go", "signal": "go"}]}});
        api.checkpoint(&first, wait).await.has("state", "waiting");
        assert_eq!(api.poll("w2").await.len(), 0, "it waits with its slot");
        let shown = key(&api).await;
        assert_eq!((&shown["held"], &shown["holders"]), (&json!(1), &json!([first.task])));
        let explained = api.get(&format!("/v1/runs/{second}/explain")).await.ok();
        let now = explained["gates"][0]["now"].as_str().unwrap();
        assert!(now.contains(&first.task) && now.contains("1 of 1"), "{explained}");
        let signal = format!("/v1/runs/{}/signals", first.run);
        api.post(&signal, &api.key, json!({"name": "go"})).await.ok();
        let again: Lease = api.lease("w1").await;
        assert_eq!(again.run, first.run, "it comes back to its own slot");
        api.succeed(&again).await.ok();
        assert_eq!(api.lease("w2").await.run, second);
        assert_eq!(api.run(&second).await["flow"], track(1)["flow"]);
    }
}

#[tokio::test]
async fn children_share_the_slot_and_so_do_theirs() {
    for api in both().await {
        let parent = api.leased(track(1)).await;
        let other = api.submit(track(1)).await;
        // One names the key, one names none, and one has a key of its own.
        let children = json!([
            child("same", track(1)),
            child("none", json!({})),
            child("own", json!({"flow": {"key": "provider", "limit": 4}})),
        ]);
        let call = json!({"children": children, "wait": wait_for(&["same", "none", "own"])});
        api.checkpoint(&parent, call).await.has("state", "waiting");
        let kids = api.poll("w1").await;
        assert_eq!(kids.len(), 3, "none of them needs a second slot");
        assert!(kids.iter().all(|kid| kid.run == parent.run), "and the other run waits");
        // A grandchild under a child with another key, and under one without a key.
        for kid in &kids {
            let call = json!({"children": [child("deep", track(1))], "wait": wait_for(&["deep"])});
            api.checkpoint(&kid.clone().by("w1"), call).await.has("state", "waiting");
        }
        let deep = api.poll("w2").await;
        assert_eq!(deep.len(), 3);
        let keys = api.get("/v1/flow-keys").await.ok();
        let track = keys["flowKeys"].as_array().unwrap().iter().find(|it| it["key"] == "track");
        let track = track.cloned().unwrap_or_default();
        assert_eq!((&track["held"], &track["live"]), (&json!(1), &json!(2)), "{keys}");
        for lease in deep {
            api.succeed(&lease.by("w2")).await.ok();
        }
        for lease in api.poll("w1").await {
            api.succeed(&lease).await.ok();
        }
        let back = api.lease("w1").await;
        assert_eq!(back.task, parent.task);
        assert_eq!(api.poll("w2").await.len(), 0, "the other run still waits");
        api.succeed(&back).await.ok();
        assert_eq!(api.lease("w2").await.run, other);
    }
}

#[tokio::test]
async fn a_slot_is_given_back_once_however_the_run_ends() {
    for api in both().await {
        // Cancelled while it waits for a child that runs: the slot is free when the child has ended, too.
        let parent = api.leased(track(1)).await;
        let next = api.submit(track(1)).await;
        let call = json!({"children": [child("kid", json!({}))], "wait": wait_for(&["kid"])});
        api.checkpoint(&parent, call).await.has("state", "waiting");
        let kid = api.lease("w2").await.by("w2");
        api.cancel(&parent.run, json!({})).await.ok();
        assert_eq!(api.poll("w1").await.len(), 0, "its child still runs under the slot");
        api.cancel(&parent.run, json!({"force": true})).await.ok();
        api.pass(seconds(1)).await;
        assert_eq!(api.state(&parent.run).await, "cancelled", "{kid:?}");
        let second = api.lease("w1").await;
        assert_eq!(second.run, next);
        api.succeed(&second).await.ok();
        assert_eq!(key(&api).await, Value::Null, "nobody is left");
    }
}

#[tokio::test]
async fn a_run_that_waits_beyond_its_deadline_gives_its_slot_back() {
    for api in both().await {
        let late = api.leased(merged(track(1), json!({"deadlineMs": 30_000}))).await;
        let next = api.submit(track(1)).await;
        let wait =
            json!({"wait": {"key": "w", "mode": "all", "for": [{"key": "go", "signal": "go"}]}});
        api.checkpoint(&late, wait).await.has("state", "waiting");
        assert_eq!(api.poll("w1").await.len(), 0);
        api.pass(seconds(31)).await;
        assert_eq!(api.state(&late.run).await, "failed");
        assert_eq!(api.lease("w1").await.run, next);
        assert_eq!(key(&api).await["held"], 1);
    }
}

#[tokio::test]
async fn a_run_that_ends_before_its_first_lease_never_held_a_slot() {
    for api in both().await {
        let holder = api.leased(track(1)).await;
        let parked = api.submit(track(1)).await;
        api.cancel(&parked, json!({})).await.has("state", "cancelled");
        assert_eq!(key(&api).await["held"], 1);
        api.succeed(&holder).await.ok();
        assert_eq!(key(&api).await, Value::Null);
    }
}

async fn fork(api: &TestServer, run: &str) -> String {
    let budget = json!({"budget": {"steps": 9}});
    api.post(&format!("/v1/runs/{run}/fork"), &api.key, budget).await.text("runId")
}

fn step(key: &str) -> Value {
    json!({"steps": [{"key": key, "outcome": "SUCCEEDED", "result": 1}]})
}

#[tokio::test]
async fn a_run_that_halts_gives_its_slot_back_and_its_continuation_takes_another() {
    for api in both().await {
        let old = api.leased(merged(track(1), json!({"budget": {"steps": 0}}))).await;
        let next = api.submit(track(1)).await;
        api.checkpoint(&old, step("a#1")).await.has("state", "halted");
        let next_lease = api.lease("w2").await.by("w2");
        assert_eq!(next_lease.run, next);
        let new = fork(&api, &old.run).await;
        assert_eq!(api.poll("w1").await.len(), 0, "it has no slot of its own yet");
        api.succeed(&next_lease).await.ok();
        let continued = api.lease("w1").await;
        assert_eq!((&continued.run, &api.run(&new).await["flow"]), (&new, &track(1)["flow"]));
        let other = api.submit(track(1)).await;
        let wait =
            json!({"wait": {"key": "w", "mode": "all", "for": [{"key": "go", "signal": "go"}]}});
        api.checkpoint(&continued, wait).await.has("state", "waiting");
        assert_eq!(api.poll("w2").await.len(), 0, "and keeps it");
        api.cancel(&new, json!({})).await.ok();
        assert_eq!(api.lease("w2").await.run, other);
    }
}

#[tokio::test]
async fn a_fork_whose_children_start_again_does_not_wait_for_them_with_their_slot() {
    for api in both().await {
        let budget = |steps: u64| json!({"budget": {"steps": steps}});
        let old = api.leased(merged(track(1), budget(3))).await;
        let children = [child("named", merged(track(1), budget(1))), child("none", budget(1))];
        api.checkpoint(&old, json!({"children": children})).await.ok();
        let kids = api.poll("w2").await;
        assert_eq!(kids.len(), 2);
        api.checkpoint(&old, step("a#1")).await.ok();
        api.checkpoint(&old, step("b#1")).await.has("state", "halted");
        // They are told.
        api.pass(seconds(1)).await;
        for kid in kids.into_iter().map(|kid| kid.by("w2")) {
            let beat = api.heartbeat(&kid).await;
            beat.has("shouldCancel", true).has("cancelReason", "budget_exhausted");
            api.complete(&kid, json!({"outcome": "CANCELLED"})).await.ok();
        }
        assert_eq!(api.state(&old.run).await, "halted");
        let new = fork(&api, &old.run).await;
        // One at a time, in any order; and all of them end.
        let mut ended = 0;
        while ended < 3 {
            let mut leases = api.poll("w1").await;
            assert_eq!(leases.len(), 1, "one slot");
            let lease = leases.remove(0);
            if lease.envelope.get("parentTaskId").is_some() {
                api.succeed(&lease).await.ok();
                ended += 1;
                continue;
            }
            let wait = json!({"wait": wait_for(&["named", "none"])});
            let answer = api.checkpoint(&lease, wait).await;
            assert_eq!(answer.status, 200, "{answer:?} of {lease:?}");
            match answer.text("state").as_str() {
                "waiting" => {}
                _ => {
                    api.succeed(&lease).await.ok();
                    ended += 1;
                }
            }
        }
        assert_eq!(api.state(&new).await, "succeeded");
    }
}

#[tokio::test]
async fn a_child_that_names_the_key_with_another_limit_is_refused() {
    for api in both().await {
        let parent = api.leased(track(1)).await;
        let call = json!({"children": [child("kid", track(2))]});
        api.checkpoint(&parent, call).await.problem(409, "flow_limit_conflict");
    }
}

#[tokio::test]
async fn a_detached_child_needs_a_slot_of_its_own() {
    for api in both().await {
        let parent = api.leased(track(1)).await;
        let mut kid = child("kid", track(1));
        kid["detached"] = json!(true);
        api.checkpoint(&parent, json!({"children": [kid]})).await.ok();
        assert_eq!(api.poll("w2").await.len(), 0);
        api.succeed(&parent).await.ok();
        let kid = api.lease("w2").await;
        assert_ne!(kid.run, parent.run);
    }
}

#[tokio::test]
async fn a_slot_for_life_needs_a_limit_and_no_rate() {
    for api in both().await {
        let rate = json!({"count": 1, "perMs": 1000});
        for flow in [
            json!({"key": "a", "hold": "life", "debounceMs": 5}),
            json!({"key": "a", "hold": "life", "rate": rate}),
            json!({"key": "a", "hold": "life", "limit": 1, "rate": rate}),
            json!({"key": "a", "hold": "ever", "limit": 1}),
        ] {
            let got = api.post("/v1/runs", &api.key, run(json!({"flow": flow}))).await;
            got.problem(400, "invalid_argument");
        }
    }
}
