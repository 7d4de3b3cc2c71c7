//! What tenants may use: set by an administrator, in force at once, and never against a lease.

use serde_json::{Value, json};
use verdict::Span;

use super::site::{Got, Site, both, run, seconds};

impl Site {
    async fn limit(&self, limits: Value) -> Got {
        self.post("/v1/limits", &self.admin_key, limits).await
    }
}

/// How long a refused caller is told to wait, which the header says in whole seconds.
fn told(got: &Got) -> u64 {
    let ms = got.body["retryAfterMs"].as_u64().unwrap();
    let header: u64 = got.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert_eq!(header, ms.div_ceil(1000).max(1));
    ms
}

#[tokio::test]
async fn who_asks_too_often_is_told_when_to_come_back() {
    for site in both().await {
        let path = "/v1/runs?limit=1";
        let limits = json!({"tenantId": "default", "requestsPerSecond": 2, "burst": 3});
        site.limit(limits).await.has("unfinishedRunsNow", 0).has("requestsPerSecond", 2);
        for _ in 0..3 {
            site.get(path).await.ok();
        }
        let refused = site.get(path).await;
        refused.problem(429, "too_many_requests");
        let wait = told(&refused);
        // Up to twice as long as needed, so that not all come back at the same time.
        assert!((500..1000).contains(&wait), "{wait}");
        // Other keys of the tenant share its rate, other tenants have their own.
        site.get_as(path, &site.client_key).await.problem(429, "too_many_requests");
        let poll = json!({"workerId": "w", "queues": ["q"], "max": 1});
        site.post("/v1/leases", &site.worker_key, poll).await.problem(429, "too_many_requests");
        site.get_as(path, &site.foreign_key).await.ok();
        site.clock.advance(Span::from_millis(wait));
        site.get(path).await.ok();
        let metrics = site.get("/metrics").await.body;
        let counted = "tenure_limited_total{limit=\"requests\"} 3";
        assert!(metrics.as_str().unwrap().contains(counted), "{metrics}");
    }
}

#[tokio::test]
async fn whoever_holds_a_lease_is_always_heard() {
    for site in both().await {
        // Heartbeats, starts and reports release load; refusing them would lose work in hand.
        let [mine, batched] = [site.leased(json!({})).await, site.leased(json!({})).await];
        site.limit(json!({"tenantId": "default", "requestsPerSecond": 1})).await.ok();
        site.get("/v1/runs").await.ok();
        site.get("/v1/runs").await.problem(429, "too_many_requests");
        for _ in 0..20 {
            site.started(&mine).await.has("verdict", "COMMITTED");
            site.heartbeat(&mine).await.has("verdict", "COMMITTED");
        }
        let item = |more: &[(&str, &str)]| {
            let mut item =
                batched.said(json!({"taskId": batched.task, "taskToken": batched.token}));
            more.iter().for_each(|(name, value)| item[*name] = json!(value));
            item
        };
        for _ in 0..20 {
            let beats = json!({"heartbeats": [item(&[])]});
            let got = site.post("/v1/heartbeats", &site.worker_key, beats).await.ok();
            assert_eq!(got["answers"][0]["verdict"], "COMMITTED");
        }
        let reports = json!({"reports": [item(&[("outcome", "SUCCEEDED")])]});
        let got = site.post("/v1/reports", &site.worker_key, reports).await.ok();
        assert_eq!(got["answers"][0]["verdict"], "COMMITTED");
        site.succeed(&mine).await.has("verdict", "COMMITTED");
        // And a wrong limit can be taken back.
        for _ in 0..20 {
            site.get_as("/v1/limits", &site.admin_key).await.ok();
        }
        site.limit(json!({"tenantId": "default"})).await.ok();
        for _ in 0..20 {
            site.get("/v1/runs").await.ok();
        }
    }
}

#[tokio::test]
async fn a_tenant_has_so_many_unfinished_runs_and_no_more() {
    for site in both().await {
        // F77
        let held = site.leased(json!({})).await;
        let keyed = |key: &str| {
            let request = site.request("POST", "/v1/runs").bearer_auth(&site.key);
            request.header("idempotency-key", key.to_owned()).json(&run(json!({})))
        };
        let first = site.send(keyed("a")).await;
        site.limit(json!({"tenantId": "default", "unfinishedRuns": 3}))
            .await
            .has("unfinishedRunsNow", 2);
        // In one batch, too, each stands for itself.
        let many = json!({"runs": [run(json!({})), run(json!({})), run(json!({}))]});
        let results = site.post("/v1/runs", &site.key, many).await.ok();
        let codes: Vec<_> =
            results["results"].as_array().unwrap().iter().map(|it| it["error"].clone()).collect();
        assert_eq!(codes, [json!(null), json!("quota_reached"), json!("quota_reached")]);
        let refused = site.send(keyed("b")).await;
        refused.problem(429, "quota_reached");
        assert!(told(&refused) > 0);
        // What exists is found again, whatever the limit.
        let again = site.send(keyed("a")).await;
        assert_eq!((again.status, again.text("runId")), (200, first.text("runId")));
        // Other tenants are not concerned, and an end makes room for one.
        site.post("/v1/runs", &site.foreign_key, run(json!({}))).await.ok();
        site.succeed(&held).await.has("verdict", "COMMITTED");
        assert_eq!(site.send(keyed("b")).await.status, 201);
        site.send(keyed("c")).await.problem(429, "quota_reached");
        // A cancelled run makes room as well.
        site.cancel(&first.text("runId"), json!({})).await.ok();
        assert_eq!(site.send(keyed("c")).await.status, 201);
        site.limit(json!({"tenantId": "default", "unfinishedRuns": 0})).await.ok();
        site.send(keyed("d")).await.problem(429, "quota_reached");
        site.limit(json!({"tenantId": "default"})).await.ok();
        assert_eq!(site.send(keyed("d")).await.status, 201);
    }
}

#[tokio::test]
async fn only_the_first_tenant_sets_limits_and_everybody_sees_their_own() {
    for site in both().await {
        let wanted = json!({"tenantId": "other", "unfinishedRuns": 5});
        let refused = site.post("/v1/limits", &site.foreign_key, wanted.clone()).await;
        refused.problem(403, "forbidden");
        site.limit(wanted).await.ok();
        site.limit(json!({"tenantId": "third", "requestsPerSecond": 1})).await.ok();
        let seen = async |key: &str| {
            let all = site.get_as("/v1/limits", key).await.ok()["limits"].clone();
            let names = all.as_array().unwrap().iter().map(|it| it["tenantId"].clone());
            names.collect::<Vec<_>>()
        };
        assert_eq!(seen(&site.foreign_key).await, [json!("other")]);
        assert_eq!(seen(&site.admin_key).await, [json!("other"), json!("third")]);
        let log = site.get_as("/v1/audit?limit=2", &site.admin_key).await.ok();
        let entry = &log["entries"][1];
        assert_eq!((&entry["action"], &entry["object"]), (&json!("limits.set"), &json!("other")));
        assert!(entry["afterDigest"].is_string() && entry["beforeDigest"].is_null());
        for wrong in [
            json!({"tenantId": "other", "burst": 2}),
            json!({"tenantId": "other", "requestsPerSecond": 0}),
            json!({"tenantId": "no spaces"}),
            json!({"requestsPerSecond": 1}),
        ] {
            site.limit(wrong).await.problem(400, "invalid_argument");
        }
    }
}

#[tokio::test]
async fn the_last_use_of_a_key_is_kept_to_the_hour() {
    for site in both().await {
        let id = site.client_key.split('_').nth(1).unwrap().to_owned();
        let used = async || {
            let keys = site.get_as("/v1/keys", &site.admin_key).await.ok();
            let mut keys = keys["keys"].as_array().unwrap().iter();
            keys.find(|key| key["keyId"] == id).unwrap()["lastUsedAt"].clone()
        };
        assert_eq!(used().await, Value::Null);
        site.get_as("/v1/queues", &site.client_key).await.ok();
        let first = used().await;
        assert!(first.is_string(), "{first}");
        site.clock.advance(seconds(3599));
        site.get_as("/v1/queues", &site.client_key).await.ok();
        assert_eq!(used().await, first);
        site.clock.advance(seconds(1));
        site.get_as("/v1/queues", &site.client_key).await.ok();
        assert_ne!(used().await, first);
        // A refused call is no use.
        let fresh = site.post("/v1/keys", &site.admin_key, json!({"roles": ["worker"]})).await;
        site.get_as("/v1/queues", &fresh.text("secret")).await.problem(403, "forbidden");
        let keys = site.get_as("/v1/keys", &site.admin_key).await.ok();
        let mut keys = keys["keys"].as_array().unwrap().iter();
        let fresh = keys.find(|key| key["keyId"] == fresh.body["key"]["keyId"]).unwrap();
        assert!(fresh.get("lastUsedAt").is_none(), "{fresh}");
    }
}
