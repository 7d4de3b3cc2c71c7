//! What a list of runs can be filtered by, beyond state, queue and kind.

use serde_json::{Value, json};

use super::test_server::{TestServer, both, seconds};

async fn listed(api: &TestServer, query: &str) -> Vec<String> {
    let list = api.get(&format!("/v1/runs?{query}")).await.ok();
    let runs = list["runs"].as_array().unwrap_or_else(|| panic!("{query}: {list}"));
    runs.iter().map(|run| run["runId"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn labels_are_repeated_and_all_must_match() {
    for api in both().await {
        let one = api.submit(json!({"labels": {"team": "a", "env": "x=y&z"}})).await;
        let two = api.submit(json!({"labels": {"team": "a"}})).await;
        api.submit(json!({})).await;
        assert_eq!(listed(&api, "label=team").await, [two.clone(), one.clone()], "any value");
        assert_eq!(listed(&api, "label=team=a&limit=5&label=env").await, [one.as_str()]);
        assert_eq!(listed(&api, "label=env=x%3Dy%26z&label=team%3Da").await, [one.as_str()]);
        assert_eq!(listed(&api, "label=team=a&label=team=b").await, [] as [&str; 0]);
        assert_eq!(listed(&api, "label=team=").await, [] as [&str; 0], "an empty value is a value");
        for odd in ["label=", "label==a", "label=a%00", "label=a%20b"] {
            let got = api.get(&format!("/v1/runs?{odd}")).await;
            got.problem(400, "invalid_argument").has("field", "label");
        }
        let many = vec!["label=a"; 33].join("&");
        let got = api.get(&format!("/v1/runs?{many}")).await;
        got.problem(400, "invalid_argument").has("field", "label");
        // Every other parameter is given once.
        api.get("/v1/runs?queue=a&queue=b").await.problem(400, "invalid_argument");
    }
}

#[tokio::test]
async fn a_period_is_a_part_of_the_list() {
    for api in both().await {
        let mut runs: Vec<Value> = Vec::new();
        for _ in 0..4 {
            let id = api.submit(json!({})).await;
            runs.push(api.run(&id).await);
            api.clock.advance(seconds(60));
        }
        let id = |n: usize| runs[n]["runId"].as_str().unwrap().to_owned();
        let at = |n: usize| runs[n]["createdAt"].as_str().unwrap().to_owned();
        assert_eq!(listed(&api, &format!("since={}", at(2))).await, [id(3), id(2)]);
        assert_eq!(listed(&api, &format!("until={}", at(2))).await, [id(1), id(0)]);
        let period = format!("since={}&until={}", at(1), at(3));
        assert_eq!(listed(&api, &period).await, [id(2), id(1)]);
        // The pages of a period end with it.
        let first = api.get(&format!("/v1/runs?{period}&limit=1")).await.ok();
        let cursor = first["nextCursor"].as_str().unwrap();
        let last = api.get(&format!("/v1/runs?{period}&limit=1&cursor={cursor}")).await.ok();
        assert_eq!(last["runs"][0]["runId"], id(1).as_str());
        assert!(last.get("nextCursor").is_none(), "{last}");
        api.get("/v1/runs?since=yesterday").await.problem(400, "invalid_argument");
    }
}

#[tokio::test]
async fn a_worker_and_a_category_select_what_it_did() {
    for api in both().await {
        let broken = api.leased(json!({"maxAttempts": 1})).await;
        let error = json!({"category": "DATA_QUALITY", "message": "a bad row"});
        api.complete(&broken, json!({"outcome": "FAILED", "error": error})).await.ok();
        api.submit(json!({})).await;
        let held = api.lease("w2").await;
        let waiting = api.submit(json!({})).await;
        assert_eq!(listed(&api, "worker=w1").await, [broken.run.as_str()]);
        assert_eq!(listed(&api, "worker=w2").await, [held.run.as_str()]);
        assert_eq!(listed(&api, "worker=w3").await, [] as [&str; 0]);
        assert_eq!(listed(&api, "category=DATA_QUALITY").await, [broken.run.as_str()]);
        assert_eq!(listed(&api, "category=TIMEOUT").await, [] as [&str; 0]);
        let both = "category=DATA_QUALITY&worker=w2";
        assert_eq!(listed(&api, both).await, [] as [&str; 0]);
        let list = api.get("/v1/runs").await.ok();
        let workers: Vec<Option<&str>> =
            list["runs"].as_array().unwrap().iter().map(|run| run["workerId"].as_str()).collect();
        assert_eq!(workers, [None, Some("w2"), Some("w1")], "also of runs that have ended");
        assert_eq!(list["runs"][0]["runId"], waiting.as_str());
        for odd in ["CANCELLED", "user_code", ""] {
            api.get(&format!("/v1/runs?category={odd}")).await.problem(400, "invalid_argument");
        }
    }
}
