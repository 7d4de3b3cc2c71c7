//! Flow keys over HTTP: how many are leased, who waits, what is refused, and what people see of it. Over both stores.

use serde_json::{Value, json};

use super::test_server::{Lease, TestServer, both, run, seconds};

fn limited(key: &str, limit: u64) -> Value {
    json!({"flow": {"key": key, "limit": limit}})
}

async fn key(api: &TestServer, name: &str) -> Value {
    let listed = api.get("/v1/flow-keys").await.ok();
    let keys = listed["flowKeys"].as_array().unwrap();
    keys.iter().find(|key| key["key"] == name).cloned().unwrap_or(Value::Null)
}

#[tokio::test]
async fn no_more_runs_are_leased_than_the_key_allows() {
    for api in both().await {
        for _ in 0..5 {
            api.submit(limited("acme", 2)).await;
        }
        let plain = api.submit(json!({})).await;
        let leases = api.poll("w1").await;
        // Two of the key, and the run behind them that has none.
        assert_eq!(leases.len(), 3);
        assert_eq!(leases[2].run, plain);
        assert_eq!(api.poll("w2").await.len(), 0);
        let shown = key(&api, "acme").await;
        assert_eq!((&shown["held"], &shown["parked"]), (&json!(2), &json!(3)));
        assert_eq!(shown["holders"], json!([leases[0].task, leases[1].task]));
        let one = api.get("/v1/flow-keys?key=acme").await.ok();
        assert_eq!(one["flowKeys"], json!([shown]));
        // More workers would not help: no list and no metric that an autoscaler reads counts them as ready.
        let queue = api.get("/v1/queues").await.ok()["queues"][0].clone();
        assert_eq!((&queue["ready"], &queue["parked"]), (&json!(0), &json!(3)), "{queue}");
        assert_eq!(queue.get("oldestReadyAt"), None, "{queue}");
        let metrics = api.get("/metrics").await.body;
        let metrics = metrics.as_str().unwrap();
        for row in
            ["tenure_tasks_ready 0\n", "tenure_tasks_parked 3\n", "tenure_oldest_ready_seconds 0\n"]
        {
            assert!(metrics.contains(row), "{row} in {metrics}");
        }
        api.succeed(&leases[0]).await.ok();
        assert_eq!(api.poll("w2").await.len(), 1, "one slot, one run");
        assert_eq!(key(&api, "acme").await["held"], 2);
    }
}

#[tokio::test]
async fn all_runs_of_a_key_end_one_after_the_other() {
    for api in both().await {
        let runs: Vec<Value> = (0..30).map(|_| run(limited("acme", 1))).collect();
        let accepted = api.post("/v1/runs", &api.key, json!({"runs": runs})).await.ok();
        assert_eq!(accepted["results"].as_array().map(Vec::len), Some(30), "{accepted}");
        for _ in 0..30 {
            let lease: Lease = api.lease("w1").await;
            assert_eq!(key(&api, "acme").await["held"], 1);
            api.succeed(&lease).await.ok();
        }
        assert_eq!(key(&api, "acme").await, Value::Null, "a key lives as long as its runs");
    }
}

#[tokio::test]
async fn another_limit_is_refused_while_a_run_with_the_key_lives() {
    for api in both().await {
        let lease = api.leased(limited("acme", 1)).await;
        let other = api.post("/v1/runs", &api.key, run(limited("acme", 2))).await;
        other.problem(409, "flow_limit_conflict");
        assert!(other.text("message").contains("`acme` with limit 1"), "{:?}", other.body);
        // The same limit joins, and a batch refuses item by item.
        let runs = json!({"runs": [run(limited("acme", 1)), run(limited("acme", 3))]});
        let many = api.post("/v1/runs", &api.key, runs).await.ok();
        let items = many["results"].as_array().unwrap();
        assert_eq!(items[1]["error"], "flow_limit_conflict", "{many}");
        assert_eq!(items[0]["error"], Value::Null, "{many}");
        api.succeed(&lease).await.ok();
        let last = api.lease("w1").await;
        api.succeed(&last).await.ok();
        api.submit(limited("acme", 2)).await;
        assert_eq!(key(&api, "acme").await["limit"], 2);
    }
}

#[tokio::test]
async fn a_parent_that_waits_leaves_its_slot_to_its_child() {
    for api in both().await {
        let parent = api.leased(limited("acme", 1)).await;
        let child = |limit: u64| json!({"key": "kid", "kind": "resize", "queue": "q", "flow": {"key": "acme", "limit": limit}});
        let conflict = api.checkpoint(&parent, json!({"children": [child(2)]})).await;
        conflict.problem(409, "flow_limit_conflict").has("verdict", "REJECTED");
        let wait = json!({"children": [child(1)],
            "wait": {"key": "w", "mode": "all", "for": [{"key": "kid", "child": "kid"}]}});
        api.checkpoint(&parent, wait).await.has("state", "waiting");
        // With limit 1, and the parent holds none.
        let kid = api.lease("w2").await.by("w2");
        assert_ne!(
            kid.run,
            kid.task.replace("task_", "run_"),
            "a child belongs to its parent's run"
        );
        api.succeed(&kid).await.ok();
        assert_eq!(api.lease("w1").await.task, parent.task, "the parent goes on");
    }
}

#[tokio::test]
async fn a_slot_comes_back_when_its_worker_is_lost() {
    for api in both().await {
        let first = api.leased(limited("acme", 1)).await;
        let second = api.submit(limited("acme", 1)).await;
        api.pass(seconds(3)).await;
        // The lost run waits for its backoff, and the other one fits.
        assert_eq!(api.lease("w2").await.run, second);
        assert_eq!(api.state(&first.run).await, "retry");
    }
}

#[tokio::test]
async fn explain_names_the_key_and_its_holders() {
    for api in both().await {
        let holder = api.leased(limited("acme", 1)).await;
        let parked = api.submit(limited("acme", 1)).await;
        let explained = api.get(&format!("/v1/runs/{parked}/explain")).await.ok();
        let gate = &explained["gates"][0];
        assert_eq!(gate["gate"], "flow_key", "{explained}");
        let now = gate["now"].as_str().unwrap();
        assert!(now.contains("`acme`") && now.contains("1 of 1"), "{now}");
        assert!(now.contains(&holder.task), "{now}");
        api.succeed(&holder).await.ok();
        let explained = api.get(&format!("/v1/runs/{parked}/explain")).await.ok();
        assert_ne!(explained["gates"][0]["gate"], "flow_key", "{explained}");
    }
}

#[tokio::test]
async fn what_a_key_cannot_be_is_refused_and_what_is_not_built_too() {
    for api in both().await {
        let wrong = [
            json!({"key": "", "limit": 1}),
            json!({"key": "a b", "limit": 1}),
            json!({"key": "a", "limit": 0}),
            json!({"key": "a", "limit": 10_001}),
            json!({"key": "a"}),
            json!({"key": "a", "limit": 1, "rate": 5}),
            json!({"key": "a", "rate": null}),
            json!({"key": "a", "rate": {"count": 1}}),
            json!({"key": "a", "rate": {"count": 0, "perMs": 1000}}),
            json!({"key": "a", "rate": {"count": 1001, "perMs": 1000}}),
            json!({"key": "a", "rate": {"count": 1, "perMs": 0}}),
            json!({"key": "a", "rate": {"count": 1, "perMs": 2_592_000_001_u64}}),
            json!({"key": "a", "rate": {"count": 1, "perMs": 1000, "burst": 2}}),
            json!({"key": "a", "debounceMs": 0}),
            json!({"key": "a", "debounceMs": 604_800_001_u64}),
            json!({"key": "a", "debounceMs": 5, "debounceMaxMs": 4}),
            json!({"key": "a", "limit": 1, "debounceMaxMs": 4}),
            json!({"key": "a", "debounceMs": 5, "debounceMaxMs": 2_592_000_001_u64}),
            json!({"key": "a", "limit": 1, "hold": "ever"}),
        ];
        for flow in wrong {
            let got = api.post("/v1/runs", &api.key, run(json!({"flow": flow}))).await;
            got.problem(400, "invalid_argument");
        }
        let shown = api.submit(limited("acme", 7)).await;
        assert_eq!(api.run(&shown).await["flow"], json!({"key": "acme", "limit": 7}));
    }
}

#[tokio::test]
async fn keys_are_listed_in_pages_by_scope() {
    for api in both().await {
        for name in ["a", "b", "c"] {
            api.submit(limited(name, 1)).await;
        }
        let page = api.get("/v1/flow-keys?limit=2").await.ok();
        assert_eq!(page["flowKeys"].as_array().map(Vec::len), Some(2));
        assert_eq!(page["nextAfter"], "b");
        let rest = api.get("/v1/flow-keys?after=b").await.ok();
        assert_eq!((&rest["flowKeys"][0]["key"], &rest["nextAfter"]), (&json!("c"), &Value::Null));
        let theirs = api.get_as("/v1/flow-keys", &api.foreign_key).await.ok();
        assert_eq!(theirs["flowKeys"], json!([]));
    }
}

fn rated(count: u64, per_ms: u64) -> Value {
    json!({"flow": {"key": "acme", "rate": {"count": count, "perMs": per_ms}}})
}

#[tokio::test]
async fn no_more_runs_start_than_the_rate_allows_and_all_of_them_do() {
    for api in both().await {
        for _ in 0..5 {
            api.submit(rated(2, 1_000)).await;
        }
        let plain = api.submit(json!({})).await;
        let leases = api.poll("w1").await;
        assert_eq!(leases.len(), 3, "two of the key, and the run behind them that has none");
        assert_eq!(leases[2].run, plain);
        for lease in &leases {
            api.succeed(lease).await.ok();
        }
        assert_eq!(api.poll("w2").await.len(), 0, "an end is no start");
        let shown = key(&api, "acme").await;
        assert_eq!(shown["rate"], json!({"count": 2, "perMs": 1000}), "{shown}");
        assert_eq!((&shown["limit"], &shown["parked"]), (&Value::Null, &json!(3)), "{shown}");
        assert!(shown["opensAt"].is_string(), "{shown}");
        let mut started = 0;
        while started < 3 {
            api.pass(seconds(1)).await;
            let leases = api.poll("w1").await;
            assert!(leases.len() <= 2, "{}", leases.len());
            started += leases.len();
            for lease in &leases {
                api.succeed(lease).await.ok();
            }
        }
    }
}

#[tokio::test]
async fn explain_says_when_the_next_run_may_start() {
    for api in both().await {
        let first = api.leased(rated(1, 60_000)).await;
        let parked = api.submit(rated(1, 60_000)).await;
        api.succeed(&first).await.ok();
        let explained = api.get(&format!("/v1/runs/{parked}/explain")).await.ok();
        let gate = &explained["gates"][0];
        assert_eq!(gate["gate"], "flow_key", "{explained}");
        let now = gate["now"].as_str().unwrap();
        assert!(now.contains("`acme` starts at most 1 tasks per 60000 ms"), "{now}");
        assert_eq!(gate["at"], key(&api, "acme").await["opensAt"], "{explained}");
        assert!(gate["at"].is_string(), "{explained}");
        assert_eq!(
            api.run(&parked).await["flow"],
            json!({"key": "acme", "rate": {"count": 1, "perMs": 60_000}})
        );
    }
}

#[tokio::test]
async fn another_rate_is_refused_while_a_run_with_the_key_lives() {
    for api in both().await {
        api.submit(rated(2, 1_000)).await;
        for other in [rated(3, 1_000), rated(2, 2_000), limited("acme", 2)] {
            let other = api.post("/v1/runs", &api.key, run(other)).await;
            other.problem(409, "flow_limit_conflict");
            let message = other.text("message");
            assert!(message.contains("`acme` with 2 starts per 1000 ms"), "{message}");
        }
    }
}
