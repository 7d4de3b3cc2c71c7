//! Who polls for what, and who holds leases.

use std::time::Duration;

use serde_json::{Value, json};

use super::test_server::{TestServer, both};

/// Asks until the answer is as expected: a poll waits only once its request has arrived.
async fn workers_until(api: &TestServer, holds: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    const TRIES_MAX: usize = 2_000;
    for _ in 0..TRIES_MAX {
        let answer = api.get("/v1/workers").await.ok();
        let workers = answer["workers"].as_array().unwrap().clone();
        if holds(&workers) {
            assert_eq!(answer["coordinators"], 1);
            return workers;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it never became so: {:?}", api.get("/v1/workers").await);
}

#[tokio::test]
async fn a_run_goes_to_a_worker_with_its_skill_and_the_runtime_answers_for_it() {
    // Proves: S2-7: skills, budgets and state are the runtime's. It knows what each worker can do from its poll, gives it
    // nothing else, counts what is used whoever reports it, and answers about a run while no worker exists.
    for api in both().await {
        let skilled = async |worker: &str, kinds: &[&str]| {
            let body = json!({"workerId": worker, "queues": ["q"], "kinds": kinds, "max": 9});
            api.post("/v1/leases", &api.key, body).await.leases()
        };
        let draw = api.submit(json!({"kind": "draw", "budget": {"tokens": 10}})).await;
        assert_eq!(api.run(&draw).await["budget"]["left"]["tokens"], 10);
        assert!(skilled("writer", &["write", "sing"]).await.is_empty(), "it cannot draw");
        let lease = skilled("painter", &["paint", "draw"]).await.remove(0).by("painter");
        assert_eq!(lease.run, draw);
        let step = json!({"key": "a#1", "outcome": "SUCCEEDED", "spend": {"tokens": 4}});
        api.checkpoint(&lease, json!({"steps": [step]})).await.has("state", "running");
        let shown = api.run(&draw).await;
        assert_eq!((&shown["state"], &shown["workerId"]), (&json!("running"), &json!("painter")));
        assert_eq!(shown["budget"]["left"]["tokens"], 6);
        // What a worker claims of its budget decides nothing: more than is left halts the run.
        let more = json!({"key": "b#1", "outcome": "SUCCEEDED", "spend": {"tokens": 7}});
        api.checkpoint(&lease, json!({"steps": [more]})).await.has("state", "halted");
        assert_eq!(api.run(&draw).await["budget"]["used"]["tokens"], 11);
    }
}

#[tokio::test]
async fn polls_and_leases_are_listed_by_worker() {
    for api in both().await {
        assert_eq!(api.get("/v1/workers").await.ok()["workers"], json!([]));
        let lease = api.leased(json!({})).await;
        let poll = json!({
            "workerId": "w1", "queues": ["b", "a"], "kinds": ["k"], "max": 3, "waitMs": 30_000,
        });
        let request = api.request("POST", "/v1/leases").bearer_auth(&api.key).json(&poll);
        let waiting = tokio::spawn(request.send());
        let other = json!({"workerId": "w0", "queues": ["a"], "max": 1, "waitMs": 30_000});
        let request = api.request("POST", "/v1/leases").bearer_auth(&api.key).json(&other);
        let idle = tokio::spawn(request.send());
        let workers = workers_until(&api, |workers| {
            workers.len() == 2
                && workers.iter().all(|worker| worker["polls"].as_array().unwrap().len() == 1)
        })
        .await;
        assert_eq!(workers[0]["workerId"], "w0");
        assert_eq!(workers[0]["leases"], json!([]));
        assert_eq!(workers[1]["workerId"], "w1");
        let polls = json!([{"queues": ["b", "a"], "kinds": ["k"], "count": 1, "max": 3}]);
        assert_eq!(workers[1]["polls"], polls);
        let run = api.run(&lease.run).await;
        let leases = json!([{
            "queue": "q", "count": 1, "oldestAcquiredAt": run["lease"]["acquiredAt"],
            "latestHeartbeatAt": run["lease"]["heartbeatAt"],
            "nextExpiresAt": run["lease"]["expiresAt"],
        }]);
        assert_eq!(workers[1]["leases"], leases);
        // A page names where the next one begins.
        let first = api.get("/v1/workers?limit=1").await.ok();
        assert_eq!(
            (&first["workers"][0]["workerId"], &first["nextAfter"]),
            (&json!("w0"), &json!("w0"))
        );
        let second = api.get("/v1/workers?limit=1&after=w0").await.ok();
        assert_eq!(second["workers"][0]["workerId"], "w1");
        assert!(second.get("nextAfter").is_none(), "{second}");
        // Neither a closed poll nor an ended lease is listed.
        waiting.abort();
        idle.abort();
        api.succeed(&lease).await.ok();
        workers_until(&api, <[Value]>::is_empty).await;
        api.get("/v1/workers?limit=0").await.problem(400, "invalid_argument");
    }
}

#[tokio::test]
async fn workers_of_another_scope_are_not_listed() {
    for api in both().await {
        api.leased(json!({})).await;
        let wanted = json!({"roles": ["client"], "tenantId": "acme", "workspaceId": "main"});
        let key = api.post("/v1/keys", &api.admin_key, wanted).await.text("secret");
        let theirs = api.get_as("/v1/workers", &key).await.ok();
        assert_eq!(theirs["workers"], json!([]));
        assert_eq!(api.get("/v1/workers").await.ok()["workers"][0]["workerId"], "w1");
    }
}
