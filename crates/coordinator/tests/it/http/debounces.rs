//! Runs that wait for newer ones with their flow key, over HTTP and over both stores.

use serde_json::{Value, json};

use super::test_server::{TestServer, both, run, seconds};

fn waits(key: &str) -> Value {
    json!({"flow": {"key": key, "debounceMs": 2000, "debounceMaxMs": 5000}})
}

async fn reason(api: &TestServer, run: &str) -> String {
    let shown = api.run(run).await;
    assert_eq!(shown["state"], "cancelled", "{shown}");
    shown["cancelReason"].as_str().expect("it says why").to_owned()
}

#[tokio::test]
async fn the_last_of_those_that_follow_closely_runs() {
    for api in both().await {
        let first = api.submit(waits("acme")).await;
        let other = api.submit(waits("bolt")).await;
        api.pass(seconds(1)).await;
        let second = api.submit(waits("acme")).await;
        assert_eq!(api.poll("w1").await.len(), 0, "nobody's wait is over");
        let reason = reason(&api, &first).await;
        assert!(reason.contains(&second) && reason.contains("acme"), "{reason}");
        api.pass(seconds(1)).await;
        assert_eq!(api.lease("w1").await.run, other, "another key is another line");
        api.pass(seconds(1)).await;
        let lease = api.lease("w1").await;
        assert_eq!(lease.run, second);
        // A run that started is not touched, and the next one begins a new line.
        let third = api.submit(waits("acme")).await;
        assert_eq!(api.state(&second).await, "running");
        api.succeed(&lease).await.ok();
        api.pass(seconds(2)).await;
        assert_eq!(api.lease("w1").await.run, third);
    }
}

#[tokio::test]
async fn a_steady_stream_postpones_no_longer_than_the_maximum() {
    for api in both().await {
        let mut runs = Vec::new();
        // Every second, of two that each would wait: the line ends five seconds after the first.
        for _ in 0..5 {
            runs.push(api.submit(waits("acme")).await);
            assert_eq!(api.poll("w1").await.len(), 0);
            api.pass(seconds(1)).await;
        }
        let lease = api.lease("w1").await;
        assert_eq!(Some(&lease.run), runs.last());
        let next = api.submit(waits("acme")).await;
        assert_eq!(api.state(&lease.run).await, "running");
        assert_eq!(api.state(&next).await, "queued");
    }
}

#[tokio::test]
async fn a_run_that_is_ready_is_not_replaced_though_no_worker_came() {
    for api in both().await {
        let first = api.submit(waits("acme")).await;
        api.pass(seconds(2)).await;
        let second = api.submit(waits("acme")).await;
        assert_eq!(api.lease("w1").await.run, first);
        assert_eq!(api.state(&second).await, "queued");
    }
}

#[tokio::test]
async fn a_repeated_submission_finds_its_run_and_replaces_nothing() {
    for api in both().await {
        let with_key = |key: &str| {
            let request = api.request("POST", "/v1/runs").bearer_auth(&api.key);
            api.send(request.header("idempotency-key", key.to_owned()).json(&run(waits("acme"))))
        };
        let first = with_key("a").await.text("runId");
        let again = with_key("a").await;
        assert_eq!(again.text("runId"), first);
        assert_eq!(api.state(&first).await, "queued", "it does not replace itself");
        let second = with_key("b").await.text("runId");
        // The first one once more: it was replaced, and that is the answer. The second one goes on waiting.
        let again = with_key("a").await;
        assert_eq!(again.text("runId"), first);
        assert_eq!(api.state(&first).await, "cancelled");
        assert_eq!(api.state(&second).await, "queued");
        api.pass(seconds(2)).await;
        assert_eq!(api.lease("w1").await.run, second);
    }
}

#[tokio::test]
async fn a_batch_of_submissions_leaves_one() {
    for api in both().await {
        let runs: Vec<Value> = (0..20).map(|_| run(waits("acme"))).collect();
        let answer = api.post("/v1/runs", &api.key, json!({"runs": runs})).await.ok();
        let ids = answer["results"].as_array().expect("one result each").iter();
        let ids: Vec<String> = ids.map(|it| it["runId"].as_str().unwrap().to_owned()).collect();
        for pair in ids.windows(2) {
            assert!(reason(&api, &pair[0]).await.contains(&pair[1]), "each names the next");
        }
        api.pass(seconds(2)).await;
        let leases = api.poll("w1").await;
        assert_eq!(leases.iter().map(|it| &it.run).collect::<Vec<_>>(), [ids.last().unwrap()]);
    }
}

#[tokio::test]
async fn views_and_explain_say_what_a_run_waits_for() {
    for api in both().await {
        let first = api.submit(json!({"flow": {"key": "acme", "debounceMs": 2000}})).await;
        let shown = api.run(&first).await;
        assert_eq!(
            shown["flow"],
            json!({"key": "acme", "debounceMs": 2000, "debounceMaxMs": 3_600_000})
        );
        let explained = api.get(&format!("/v1/runs/{first}/explain")).await.ok();
        let gate = &explained["gates"][0];
        assert_eq!((&gate["gate"], &gate["at"]), (&json!("debounce"), &shown["runAt"]));
        assert!(gate["now"].as_str().unwrap().contains("`acme`"), "{gate}");
        // A retry repeats the run at its start, and no newer run replaces it.
        let second = api.submit(json!({"flow": {"key": "acme", "debounceMs": 2000}})).await;
        let again = api.post(&format!("/v1/runs/{first}/retry"), &api.key, json!({})).await;
        let again = again.text("runId");
        let third = api.submit(json!({"flow": {"key": "acme", "debounceMs": 2000}})).await;
        assert!(reason(&api, &second).await.contains(&third));
        assert_eq!(api.run(&again).await["flow"], json!({"key": "acme"}));
        assert_eq!(api.state(&again).await, "queued");
        api.pass(seconds(2)).await;
        let mut runs: Vec<String> = api.poll("w1").await.into_iter().map(|it| it.run).collect();
        runs.sort();
        assert_eq!(runs, [again, third]);
    }
}

#[tokio::test]
async fn what_says_when_it_starts_cannot_wait() {
    for api in both().await {
        for more in [json!({"delayMs": 5}), json!({"runAt": "2030-01-01T00:00:00.000Z"})] {
            let mut body = run(waits("acme"));
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let refused = api.post("/v1/runs", &api.key, body).await;
            refused.problem(400, "invalid_argument");
            assert!(refused.text("message").contains("flow.debounceMs"), "{:?}", refused.body);
        }
        let parent = api.leased(json!({})).await;
        let mut child = run(waits("acme"));
        child["key"] = json!("kid");
        let refused = api.checkpoint(&parent, json!({"children": [child]})).await;
        refused.problem(400, "invalid_argument");
        let schedule = json!({"name": "nightly", "everyMs": 60_000, "run": run(waits("acme"))});
        let refused = api.post("/v1/schedules", &api.key, schedule).await;
        refused.problem(400, "invalid_argument");
    }
}

#[tokio::test]
async fn a_newer_run_needs_no_more_room_than_the_one_it_replaces() {
    for api in both().await {
        api.submit(waits("acme")).await;
        api.limit(json!({"tenantId": "default", "unfinishedRuns": 1})).await.ok();
        let many = json!({"runs": [run(waits("acme")), run(waits("acme")), run(json!({}))]});
        let results = api.post("/v1/runs", &api.key, many).await.ok();
        let codes = results["results"].as_array().unwrap().iter().map(|it| it["error"].clone());
        let codes: Vec<Value> = codes.collect();
        assert_eq!(codes, [Value::Null, Value::Null, json!("quota_reached")]);
    }
}
