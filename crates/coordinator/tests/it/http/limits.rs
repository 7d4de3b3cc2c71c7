//! Limits of tenants: set by an administrator, in force at once, and never applied to calls under a
//! lease.

use serde_json::{Value, json};
use verdict::Span;

use super::test_server::{Response, TestServer, both, run, seconds};

impl TestServer {
    pub(crate) async fn limit(&self, limits: Value) -> Response {
        self.post("/v1/limits", &self.admin_key, limits).await
    }
}

/// The retry time of a refused call, which the header gives in whole seconds.
fn told(got: &Response) -> u64 {
    let ms = got.body["retryAfterMs"].as_u64().unwrap();
    let header: u64 = got.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert_eq!(header, ms.div_ceil(1000).max(1));
    ms
}

#[tokio::test]
async fn who_asks_too_often_is_told_when_to_come_back() {
    for api in both().await {
        let path = "/v1/runs?limit=1";
        let limits = json!({"tenantId": "default", "requestsPerSecond": 2, "burst": 3});
        api.limit(limits).await.has("unfinishedRunsNow", 0).has("requestsPerSecond", 2);
        for _ in 0..3 {
            api.get(path).await.ok();
        }
        let refused = api.get(path).await;
        refused.problem(429, "too_many_requests");
        let wait = told(&refused);
        // Up to twice as long as needed, so that callers do not all return at the same time.
        assert!((500..1000).contains(&wait), "{wait}");
        // Other keys of the tenant share its rate, other tenants have their own.
        api.get_as(path, &api.client_key).await.problem(429, "too_many_requests");
        let poll = json!({"workerId": "w", "queues": ["q"], "max": 1});
        api.post("/v1/leases", &api.worker_key, poll).await.problem(429, "too_many_requests");
        api.get_as(path, &api.foreign_key).await.ok();
        api.clock.advance(Span::from_millis(wait));
        api.get(path).await.ok();
        let metrics = api.get("/metrics").await.body;
        let counted = "tenure_limited_total{limit=\"requests\"} 3";
        assert!(metrics.as_str().unwrap().contains(counted), "{metrics}");
    }
}

impl TestServer {
    /// How many more requests pass now.
    async fn passing(&self) -> usize {
        let mut passed = 0;
        while self.get("/v1/runs?limit=1").await.status == 200 {
            passed += 1;
        }
        passed
    }
}

/// A plan of so many steps that may start at once.
fn wide(steps: usize) -> Value {
    let step = |n| json!({"key": format!("s{n}"), "kind": "k", "queue": "z", "dependsOn": []});
    json!({"plan": {"steps": (0..steps).map(step).collect::<Vec<_>>()}})
}

#[tokio::test]
async fn a_call_counts_once_for_each_hundred_tasks_that_it_creates() {
    for api in both().await {
        let parent = api.leased(json!({"leaseMs": 600_000})).await;
        let planned = json!({"name": "s", "cron": "@yearly", "run": wide(300)});
        assert_eq!(api.post("/v1/schedules", &api.key, planned).await.status, 201);
        let again = || async {
            let limits = json!({"tenantId": "default", "requestsPerSecond": 1, "burst": 10});
            api.limit(limits).await.ok();
        };
        // A run and 500 steps are six requests.
        again().await;
        assert_eq!(api.post("/v1/runs", &api.key, wide(500)).await.status, 201);
        assert_eq!(api.passing().await, 4);
        again().await;
        let runs = vec![run(json!({"queue": "z"})); 250];
        api.post("/v1/runs", &api.key, json!({"runs": runs})).await.ok();
        assert_eq!(api.passing().await, 7);
        again().await;
        let child = |n| json!({"key": format!("c#{}", n + 1), "kind": "k", "queue": "z"});
        let children: Vec<Value> = (0..150).map(child).collect();
        api.checkpoint(&parent, json!({"children": children})).await.ok();
        assert_eq!(api.passing().await, 8);
        again().await;
        let triggered = api.post("/v1/schedules/s/trigger", &api.key, json!({})).await;
        assert_eq!((triggered.status, api.passing().await), (201, 6));
        // One that is larger than the burst is let in, and the next call waits for the rest.
        again().await;
        assert_eq!(api.post("/v1/runs", &api.key, wide(1_999)).await.status, 201);
        let refused = api.get("/v1/runs?limit=1").await;
        refused.problem(429, "too_many_requests");
        assert!((11_000..=13_000).contains(&told(&refused)), "{refused:?}");
    }
}

#[tokio::test]
async fn whoever_holds_a_lease_is_always_heard() {
    for api in both().await {
        // Heartbeats, starts and reports release load; refusing them would lose work in progress.
        let [mine, batched] = [api.leased(json!({})).await, api.leased(json!({})).await];
        api.limit(json!({"tenantId": "default", "requestsPerSecond": 1})).await.ok();
        api.get("/v1/runs").await.ok();
        api.get("/v1/runs").await.problem(429, "too_many_requests");
        for _ in 0..20 {
            api.started(&mine).await.has("verdict", "COMMITTED");
            api.heartbeat(&mine).await.has("verdict", "COMMITTED");
        }
        let item = |more: &[(&str, &str)]| {
            let mut item =
                batched.said(json!({"taskId": batched.task, "taskToken": batched.token}));
            more.iter().for_each(|(name, value)| item[*name] = json!(value));
            item
        };
        for _ in 0..20 {
            let starts = json!({"starts": [item(&[])]});
            let got = api.post("/v1/starts", &api.worker_key, starts).await.ok();
            assert_eq!(got["answers"][0]["verdict"], "COMMITTED");
            let beats = json!({"heartbeats": [item(&[])]});
            let got = api.post("/v1/heartbeats", &api.worker_key, beats).await.ok();
            assert_eq!(got["answers"][0]["verdict"], "COMMITTED");
        }
        let reports = json!({"reports": [item(&[("outcome", "SUCCEEDED")])]});
        let got = api.post("/v1/reports", &api.worker_key, reports).await.ok();
        assert_eq!(got["answers"][0]["verdict"], "COMMITTED");
        api.succeed(&mine).await.has("verdict", "COMMITTED");
        // And a wrong limit can be corrected.
        for _ in 0..20 {
            api.get_as("/v1/limits", &api.admin_key).await.ok();
        }
        api.limit(json!({"tenantId": "default"})).await.ok();
        for _ in 0..20 {
            api.get("/v1/runs").await.ok();
        }
    }
}

#[tokio::test]
async fn a_tenant_has_so_many_unfinished_runs_and_no_more() {
    for api in both().await {
        // F77
        let held = api.leased(json!({})).await;
        let keyed = |key: &str| {
            let request = api.request("POST", "/v1/runs").bearer_auth(&api.key);
            request.header("idempotency-key", key.to_owned()).json(&run(json!({})))
        };
        let first = api.send(keyed("a")).await;
        api.limit(json!({"tenantId": "default", "unfinishedRuns": 3}))
            .await
            .has("unfinishedRunsNow", 2);
        // In one batch, too, each run is decided separately.
        let many = json!({"runs": [run(json!({})), run(json!({})), run(json!({}))]});
        let results = api.post("/v1/runs", &api.key, many).await.ok();
        let codes: Vec<_> =
            results["results"].as_array().unwrap().iter().map(|it| it["error"].clone()).collect();
        assert_eq!(codes, [json!(null), json!("quota_reached"), json!("quota_reached")]);
        let refused = api.send(keyed("b")).await;
        refused.problem(429, "quota_reached");
        assert!(told(&refused) > 0);
        // An existing run is found again, whatever the limit.
        let again = api.send(keyed("a")).await;
        assert_eq!((again.status, again.text("runId")), (200, first.text("runId")));
        // Other tenants are not affected, and the end of a run makes room for one.
        api.post("/v1/runs", &api.foreign_key, run(json!({}))).await.ok();
        api.succeed(&held).await.has("verdict", "COMMITTED");
        assert_eq!(api.send(keyed("b")).await.status, 201);
        api.send(keyed("c")).await.problem(429, "quota_reached");
        // A cancelled run makes room as well.
        api.cancel(&first.text("runId"), json!({})).await.ok();
        assert_eq!(api.send(keyed("c")).await.status, 201);
        api.limit(json!({"tenantId": "default", "unfinishedRuns": 0})).await.ok();
        api.send(keyed("d")).await.problem(429, "quota_reached");
        api.limit(json!({"tenantId": "default"})).await.ok();
        assert_eq!(api.send(keyed("d")).await.status, 201);
    }
}

#[tokio::test]
async fn only_the_first_tenant_sets_limits_and_everybody_sees_their_own() {
    for api in both().await {
        let wanted = json!({"tenantId": "other", "unfinishedRuns": 5});
        let refused = api.post("/v1/limits", &api.foreign_key, wanted.clone()).await;
        refused.problem(403, "forbidden");
        api.limit(wanted).await.ok();
        api.limit(json!({"tenantId": "third", "requestsPerSecond": 1})).await.ok();
        let seen = async |key: &str| {
            let all = api.get_as("/v1/limits", key).await.ok()["limits"].clone();
            let names = all.as_array().unwrap().iter().map(|it| it["tenantId"].clone());
            names.collect::<Vec<_>>()
        };
        assert_eq!(seen(&api.foreign_key).await, [json!("other")]);
        assert_eq!(seen(&api.admin_key).await, [json!("other"), json!("third")]);
        let log = api.get_as("/v1/audit?limit=2", &api.admin_key).await.ok();
        let entry = &log["entries"][1];
        assert_eq!((&entry["action"], &entry["object"]), (&json!("limits.set"), &json!("other")));
        assert!(entry["afterDigest"].is_string() && entry["beforeDigest"].is_null());
        for wrong in [
            json!({"tenantId": "other", "burst": 2}),
            json!({"tenantId": "other", "requestsPerSecond": 0}),
            json!({"tenantId": "no spaces"}),
            json!({"requestsPerSecond": 1}),
        ] {
            api.limit(wrong).await.problem(400, "invalid_argument");
        }
    }
}

#[tokio::test]
async fn the_last_use_of_a_key_is_kept_to_the_hour() {
    for api in both().await {
        let id = api.client_key.split('_').nth(1).unwrap().to_owned();
        let used = async || {
            let keys = api.get_as("/v1/keys", &api.admin_key).await.ok();
            let mut keys = keys["keys"].as_array().unwrap().iter();
            keys.find(|key| key["keyId"] == id).unwrap()["lastUsedAt"].clone()
        };
        assert_eq!(used().await, Value::Null);
        api.get_as("/v1/queues", &api.client_key).await.ok();
        let first = used().await;
        assert!(first.is_string(), "{first}");
        api.clock.advance(seconds(3599));
        api.get_as("/v1/queues", &api.client_key).await.ok();
        assert_eq!(used().await, first);
        api.clock.advance(seconds(1));
        api.get_as("/v1/queues", &api.client_key).await.ok();
        assert_ne!(used().await, first);
        // A refused call does not count as use.
        let fresh = api.post("/v1/keys", &api.admin_key, json!({"roles": ["worker"]})).await;
        api.get_as("/v1/queues", &fresh.text("secret")).await.problem(403, "forbidden");
        let keys = api.get_as("/v1/keys", &api.admin_key).await.ok();
        let mut keys = keys["keys"].as_array().unwrap().iter();
        let fresh = keys.find(|key| key["keyId"] == fresh.body["key"]["keyId"]).unwrap();
        assert!(fresh.get("lastUsedAt").is_none(), "{fresh}");
    }
}
