//! Workers announce what they can do (S2-7, V-14).

use serde_json::{Value, json};

use super::test_server::{Response, TestServer, both, merged, run, seconds};

impl TestServer {
    async fn polled(&self, worker: &str, queue: &str, more: Value) -> Response {
        let poll = json!({"workerId": worker, "queues": [queue], "max": 1});
        self.post("/v1/leases", &self.key, merged(poll, more)).await
    }

    async fn kinds(&self, query: &str) -> Vec<Value> {
        self.get(&format!("/v1/kinds{query}")).await.ok()["kinds"].as_array().unwrap().clone()
    }
}

fn announcement(id: &str, kinds: Value) -> Value {
    json!({"announce": {"id": id, "buildId": "b1", "kinds": kinds}})
}

fn names(kinds: &[Value]) -> Vec<&str> {
    kinds.iter().map(|view| view["kind"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn workers_say_once_what_they_can_do_and_it_can_be_listed() {
    for api in both().await {
        let greet = json!({"kind": "greet", "version": "2", "inputSchema": {"type": "string"}});
        let pack = json!({"kind": "pack"});
        let said = announcement("a1", json!([greet, pack]));
        for worker in ["w1", "w2"] {
            let polled = api.polled(worker, "q", said.clone()).await.ok();
            assert_eq!(polled.get("announceAgain"), None);
        }
        api.polled("w2", "other", json!({"announced": "a1"})).await.ok();
        let kinds = api.kinds("").await;
        assert_eq!(names(&kinds), ["greet", "pack"]);
        let first = &kinds[0];
        assert_eq!((&first["version"], &first["buildId"]), (&json!("2"), &json!("b1")));
        assert_eq!((&first["workers"], &first["queues"]), (&json!(2), &json!(["other", "q"])));
        assert_eq!(first.get("inputSchema"), None, "a list has no schemas");
        let one = api.kinds("?kind=greet").await;
        assert_eq!((one.len(), &one[0]["inputSchema"]), (1, &json!({"type": "string"})));
        // Another build of one kind is another entry, and pages do not split a kind.
        let other =
            json!({"announce": {"id": "a2", "buildId": "b2", "kinds": [{"kind": "greet"}]}});
        api.polled("w3", "q", other).await.ok();
        let page = api.get("/v1/kinds?limit=1").await.ok();
        assert_eq!(names(page["kinds"].as_array().unwrap()), ["greet", "greet"]);
        assert_eq!(page["nextAfter"], "greet");
        assert_eq!(names(&api.kinds("?limit=1&after=greet").await), ["pack"]);
        // V-14: of this tenant and these queues only.
        let foreign = api.get_as("/v1/kinds", &api.foreign_key).await.ok();
        assert_eq!(foreign["kinds"], json!([]));
        let wanted = json!({"roles": ["reader"], "queues": ["other"]});
        let key = api.post("/v1/keys", &api.admin_key, wanted).await.text("secret");
        let limited = api.get_as("/v1/kinds?kind=pack", &key).await.ok();
        assert_eq!(limited["kinds"][0]["queues"], json!(["other"]));
        assert_eq!(limited["kinds"][0]["workers"], 1);
        assert_eq!(api.get_as("/v1/kinds", &api.worker_key).await.status, 403);
    }
}

#[tokio::test]
async fn an_announcement_that_is_not_known_is_asked_for_and_delays_nothing() {
    for api in both().await {
        api.submit(json!({})).await;
        let told = api.polled("w1", "q", json!({"announced": "a1", "waitMs": 30_000})).await.ok();
        assert_eq!((&told["announceAgain"], &told["leases"]), (&json!(true), &json!([])));
        let said = announcement("a1", json!([{"kind": "resize"}]));
        let polled = api.polled("w1", "q", said).await.leases();
        assert_eq!(polled.len(), 1, "a poll that announces leases as any other");
        let polled = api.polled("w1", "q", json!({"announced": "a1"})).await.ok();
        assert_eq!(polled.get("announceAgain"), None);
        // The id of another worker, and another id.
        for (worker, id) in [("w2", "a1"), ("w1", "a2")] {
            let told = api.polled(worker, "q", json!({"announced": id})).await.ok();
            assert_eq!(told["announceAgain"], true);
        }
        api.pass(seconds(121)).await;
        assert!(api.kinds("").await.is_empty(), "who is silent is forgotten");
    }
}

#[tokio::test]
async fn an_announcement_has_bounds() {
    for api in both().await {
        let large = json!({"description": "x".repeat(16 * 1024)});
        let many: Vec<Value> = (0..257).map(|n| json!({"kind": format!("k{n}")})).collect();
        let half = json!({"description": "x".repeat(8 * 1024)});
        let heavy: Vec<Value> =
            (0..17).map(|n| json!({"kind": format!("k{n}"), "inputSchema": half})).collect();
        for (kinds, field) in [
            (json!([]), "announce.kinds"),
            (json!(many), "announce.kinds"),
            (json!([{"kind": "a b"}]), "announce.kinds[0]"),
            (json!([{"kind": "a"}, {"kind": "a"}]), "announce.kinds[1].kind"),
            (json!([{"kind": "a", "inputSchema": true}]), "announce.kinds[0].inputSchema"),
            (json!([{"kind": "a", "outputSchema": large}]), "announce.kinds[0].outputSchema"),
            (json!([{"kind": "a", "schema": {}}]), "announce.kinds[0].schema"),
            (json!(heavy), "announce"),
        ] {
            let refused = api.polled("w1", "q", announcement("a", kinds)).await;
            refused.problem(400, "invalid_argument").has("field", field);
        }
        let both = merged(announcement("a", json!([{"kind": "a"}])), json!({"announced": "a"}));
        let refused = api.polled("w1", "q", both).await;
        refused.problem(400, "invalid_argument").has("field", "announced");
        assert!(api.kinds("").await.is_empty());
    }
}

#[tokio::test]
async fn a_kind_that_no_worker_serves_is_named() {
    for api in both().await {
        let served = api.submit(json!({"kind": "greet"})).await;
        let unserved = api.post("/v1/runs", &api.key, run(json!({"kind": "typo"}))).await;
        let unserved = unserved.text("runId");
        let gates = |id: String| {
            let api = &api;
            async move { api.get(&format!("/v1/runs/{id}/explain")).await.ok()["gates"].clone() }
        };
        let names = |gates: &Value| gates.to_string().contains("kind_not_served");
        assert!(!names(&gates(unserved.clone()).await), "no worker has said what it serves");
        let poll = json!({"workerId": "w1", "queues": ["q"], "max": 0,
            "announce": {"id": "a", "kinds": [{"kind": "greet"}]}});
        api.post("/v1/leases", &api.key, poll).await.ok();
        let told = gates(unserved).await;
        assert!(names(&told) && told.to_string().contains("`greet`"), "{told}");
        assert!(!names(&gates(served).await));
    }
}
