//! Keys that are limited to queues, and keys that only read.

use serde_json::{Value, json};

use super::test_server::{TestServer, both, run};

impl TestServer {
    async fn key_for(&self, roles: &[&str], queues: Option<&[&str]>) -> String {
        let wanted = json!({"roles": roles, "queues": queues});
        self.post("/v1/keys", &self.admin_key, wanted).await.text("secret")
    }

    async fn submit_to(&self, queue: &str) -> String {
        self.submit(json!({"queue": queue})).await
    }

    async fn listed_runs(&self, query: &str, key: &str) -> Vec<Value> {
        let page = self.get_as(&format!("/v1/runs{query}"), key).await.ok();
        page["runs"].as_array().unwrap().iter().map(|run| run["runId"].clone()).collect()
    }
}

#[tokio::test]
async fn a_limited_client_submits_to_its_queues_only() {
    for api in both().await {
        // X10: the queue of the body is checked, in a batch for each item.
        let key = api.key_for(&["client"], Some(&["a", "b"])).await;
        let to = |queue: &str| run(json!({"queue": queue}));
        assert_eq!(api.post("/v1/runs", &key, to("a")).await.status, 201);
        let refused = api.post("/v1/runs", &key, to("c")).await;
        refused.problem(403, "forbidden");
        let message = refused.text("message");
        assert!(message.contains("submit to the queue c") && message.contains("a, b"), "{message}");
        let batch = json!({"runs": [to("c"), to("b"), to("a ")]});
        let results = api.post("/v1/runs", &key, batch).await.ok()["results"].clone();
        assert_eq!(results[0]["error"], "forbidden", "{results}");
        assert!(results[1]["runId"].is_string(), "{results}");
        assert_eq!(results[2]["error"], "invalid_argument", "{results}");
        // Each step of a plan has a queue, and none may be outside of the limit.
        let plan = |queue: &str| {
            let step = |key: &str, queue: &str| json!({"key": key, "kind": "k", "queue": queue});
            json!({"plan": {"steps": [step("one", "a"), step("two", queue)]}})
        };
        api.post("/v1/runs", &key, plan("c")).await.problem(403, "forbidden");
        assert_eq!(api.post("/v1/runs", &key, plan("b")).await.status, 201);
        // Nothing of the refused ones was stored.
        assert_eq!(api.listed_runs("?queue=c", &api.client_key).await.len(), 0);
    }
}

#[tokio::test]
async fn a_run_of_another_queue_does_not_exist_for_a_limited_key() {
    for api in both().await {
        // X13: like a run of another tenant, for reads and for writes.
        let (own, other) = (api.submit_to("a").await, api.submit_to("c").await);
        for roles in [["client"], ["reader"]] {
            let key = api.key_for(&roles, Some(&["a", "b"])).await;
            for route in ["", "/history", "/explain", "/record"] {
                let path = format!("/v1/runs/{other}{route}");
                api.get_as(&path, &key).await.problem(404, "run_not_found");
            }
            api.get_as(&format!("/v1/runs/{own}"), &key).await.has("runId", own.as_str());
            assert_eq!(api.listed_runs("", &key).await, [json!(own)]);
            assert_eq!(api.listed_runs("?limit=1", &key).await, [json!(own)]);
            let named = api.get_as("/v1/runs?queue=c", &key).await;
            named.problem(403, "forbidden");
            let queues = api.get_as("/v1/queues", &key).await.ok()["queues"].clone();
            assert_eq!(queues.as_array().unwrap().len(), 1, "{queues}");
            assert_eq!(queues[0]["queue"], "a");
        }
        let key = api.key_for(&["client"], Some(&["a"])).await;
        let cancel = format!("/v1/runs/{other}/cancel");
        api.post(&cancel, &key, json!({})).await.problem(404, "run_not_found");
        assert_eq!(api.state(&other).await, "queued");
        api.post(&format!("/v1/runs/{own}/cancel"), &key, json!({})).await.ok();
        assert_eq!(api.state(&own).await, "cancelled");
    }
}

#[tokio::test]
async fn a_reader_sees_what_others_see_and_changes_nothing() {
    for api in both().await {
        // X10: no route that writes admits it.
        let (key, id) = (api.key_for(&["reader"], None).await, api.submit_to("a").await);
        let reads = ["/v1/runs", "/v1/queues", "/v1/audit", "/v1/audit/verify", "/v1/limits"];
        for path in reads.into_iter().chain(["/v1/set-aside", "/metrics"]) {
            assert_eq!(api.get_as(path, &key).await.status, 200, "{path}");
        }
        api.get_as(&format!("/v1/runs/{id}/explain"), &key).await.ok();
        api.get_as("/v1/keys", &key).await.problem(403, "forbidden");
        let refused = api.post("/v1/runs", &key, run(json!({}))).await;
        refused.problem(403, "forbidden");
        assert!(refused.text("message").contains("role client"), "{refused:?}");
        let cancel = api.post(&format!("/v1/runs/{id}/cancel"), &key, json!({})).await;
        cancel.problem(403, "forbidden");
        let poll = json!({"workerId": "w1", "queues": ["a"], "max": 1});
        api.post("/v1/leases", &key, poll).await.problem(403, "forbidden");
        assert_eq!(api.state(&id).await, "queued");
    }
}

#[tokio::test]
async fn keys_say_their_roles_and_queues() {
    for api in both().await {
        api.key_for(&["client", "reader"], Some(&["a", "b"])).await;
        let keys = api.get_as("/v1/keys", &api.admin_key).await.ok()["keys"].clone();
        let limited = keys.as_array().unwrap().iter().find(|key| key["queues"].is_array());
        let limited = limited.unwrap();
        assert_eq!(limited["roles"], json!(["client", "reader"]), "{limited}");
        assert_eq!(limited["queues"], json!(["a", "b"]), "{limited}");
        let wanted = json!({"roles": ["admin"], "queues": ["a"]});
        let refused = api.post("/v1/keys", &api.admin_key, wanted).await;
        refused.problem(400, "invalid_argument").has("field", "queues");
    }
}

#[tokio::test]
async fn a_limited_worker_gets_nothing_by_the_name_of_anothers_poll() {
    for api in both().await {
        // X13: neither the leases of the poll nor the signals of its worker.
        let key = api.key_for(&["worker"], Some(&["a"])).await;
        let run = api.submit_to("c").await;
        let poll =
            |queue: &str| json!({"workerId": "w1", "queues": [queue], "max": 1, "pollId": "p1"});
        let lease = api.post("/v1/leases", &api.worker_key, poll("c")).await.leases().remove(0);
        assert_eq!(api.post("/v1/leases", &key, poll("a")).await.ok()["leases"], json!([]));
        api.cancel(&run, json!({})).await;
        let listen = |queue: &str| json!({"workerId": "w1", "queues": [queue], "max": 0});
        let stolen = api.post("/v1/leases", &key, listen("a")).await.ok();
        assert!(stolen.get("signals").is_none(), "{stolen}");
        let told = api.post("/v1/leases", &api.worker_key, listen("c")).await.ok();
        assert_eq!(told["signals"][0]["taskId"], lease.task.as_str(), "{told}");
    }
}

#[tokio::test]
async fn a_limited_reader_sees_no_worker_of_another_queue_not_even_as_a_cursor() {
    for api in both().await {
        // X13: pages are cut after other queues are left out.
        let key = api.key_for(&["reader"], Some(&["a"])).await;
        for (worker, queue) in [("w1", "c"), ("w2", "a"), ("w3", "c"), ("w4", "a"), ("w5", "c")] {
            api.submit_to(queue).await;
            let poll = json!({"workerId": worker, "queues": [queue], "max": 1});
            assert_eq!(api.post("/v1/leases", &api.worker_key, poll).await.leases().len(), 1);
        }
        let page = async |after: &str| {
            let page = api.get_as(&format!("/v1/workers?limit=1{after}"), &key).await.ok();
            (page["workers"][0]["workerId"].clone(), page["nextAfter"].clone())
        };
        assert_eq!(page("").await, (json!("w2"), json!("w2")));
        assert_eq!(page("&after=w2").await, (json!("w4"), Value::Null));
    }
}

#[tokio::test]
async fn a_pending_signal_does_not_hide_the_leases_of_a_repeated_poll() {
    for api in both().await {
        let first = api.submit_to("c").await;
        let poll =
            |name: &str| json!({"workerId": "w1", "queues": ["c"], "max": 1, "pollId": name});
        api.post("/v1/leases", &api.worker_key, poll("p1")).await.leases();
        api.submit_to("c").await;
        let second = api.post("/v1/leases", &api.worker_key, poll("p2")).await.leases().remove(0);
        api.cancel(&first, json!({})).await;
        let again = api.post("/v1/leases", &api.worker_key, poll("p2")).await.ok();
        assert_eq!(again["leases"][0]["taskId"], second.task.as_str(), "{again}");
        assert_eq!(again["signals"].as_array().map(Vec::len), Some(1), "{again}");
    }
}

#[tokio::test]
async fn a_limited_client_does_not_learn_which_run_holds_a_key() {
    for api in both().await {
        let key = api.key_for(&["client"], Some(&["a"])).await;
        let keyed = |queue: &str| run(json!({"queue": queue, "idempotencyKey": "k"}));
        let held = api.post("/v1/runs", &api.client_key, json!({"runs": [keyed("c")]})).await.ok();
        let batch = api.post("/v1/runs", &key, json!({"runs": [keyed("a")]})).await.ok();
        let refused = &batch["results"][0];
        assert_eq!(refused["error"], "idempotency_key_reused", "{batch}");
        let holder = held["results"][0]["runId"].as_str().unwrap();
        assert!(!refused.to_string().contains(holder), "{batch}");
    }
}
