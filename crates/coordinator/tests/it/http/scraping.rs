//! Who may read `/metrics`, and what else is open without a key.

use std::net::SocketAddr;
use std::sync::Arc;

use coordinator::admit::{NewKey, Role};
use coordinator::{Plaintext, SeededEntropy, ServeOptions, Server, StopReason, serve};
use serde_json::Value;
use storetest::{ManualClock, MemoryStore};
use verdict::Scope;

use super::test_server::browser;

/// A name that must not be visible without authority.
const CANARY: &str = "secret-queue";

struct Scraped {
    server: Server,
    http: reqwest::Client,
    _folder: tempfile::TempDir,
}

/// An administrator of everything, one of another tenant, and two keys without the role admin.
fn keys() -> [NewKey; 4] {
    let mut entropy = SeededEntropy::new(21);
    let mut key = |scope, roles: &[Role]| NewKey::generate(&mut entropy, scope, roles);
    [
        key(Scope::default(), &[Role::Admin]),
        key(Scope::new("acme", "default"), &Role::ALL),
        key(Scope::default(), &[Role::Client]),
        key(Scope::default(), &[Role::Worker]),
    ]
}

impl Scraped {
    async fn at(listen: &str, metrics_listen: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut options = ServeOptions::new(listen.parse().unwrap(), folder.path().join("key"));
        options.plaintext = Plaintext::Anywhere;
        options.new_keys = keys().to_vec();
        options.metrics_listen = metrics_listen.map(|address| address.parse().unwrap());
        let store = MemoryStore::new(Arc::new(ManualClock::default()));
        let server = serve(store, options).await.unwrap();
        Self { server, http: browser().build().unwrap(), _folder: folder }
    }

    /// Status and text, requested over loopback wherever the server listens.
    async fn get(&self, to: SocketAddr, path: &str, key: Option<&str>) -> (u16, String) {
        let url = format!("http://127.0.0.1:{}{path}", to.port());
        let request = self.http.get(url);
        let request = match key {
            Some(key) => request.bearer_auth(key),
            None => request,
        };
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }

    async fn scrape(&self, key: Option<&str>) -> (u16, String) {
        self.get(self.server.local_addr(), "/metrics", key).await
    }
}

#[tokio::test]
async fn beyond_loopback_metrics_are_for_who_administers_everything() {
    // X46: the configured listen address decides, not the address a request came over.
    let api = Scraped::at("0.0.0.0:0", None).await;
    let [admin, foreign, client, worker] = keys();
    let (status, text) = api.scrape(Some(admin.text())).await;
    assert_eq!(status, 200, "{text}");
    assert!(text.contains("tenure_tasks_ready 0\n") && text.ends_with("# EOF\n"), "{text}");
    let others = [
        (None, 401, "unauthenticated"),
        (Some("tnr_x_y_z"), 401, "unauthenticated"),
        (Some(foreign.text()), 403, "forbidden"),
        (Some(client.text()), 403, "forbidden"),
        (Some(worker.text()), 403, "forbidden"),
    ];
    for (key, expected, code) in others {
        let (status, text) = api.scrape(key).await;
        let problem: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((status, problem["error"].as_str()), (expected, Some(code)), "{text}");
        // The message names both remedies.
        let message = problem["message"].as_str().unwrap();
        assert!(message.contains("admin") && message.contains("--metrics-listen"), "{message}");
        assert!(!text.contains("tenure_"), "{text}");
    }
    assert_eq!(api.server.shutdown().await, StopReason::Drained);
}

#[tokio::test]
async fn on_loopback_metrics_need_no_key() {
    // X46: every process on this machine may read it.
    for listen in ["127.0.0.1:0", "[::1]:0"] {
        let api = Scraped::at(listen, None).await;
        let url = format!("http://{}/metrics", api.server.local_addr());
        let response = api.http.get(url).send().await.unwrap();
        assert_eq!(response.status(), 200, "{listen}");
        assert_eq!(api.server.shutdown().await, StopReason::Drained);
    }
}

#[tokio::test]
async fn a_listener_of_its_own_serves_metrics_and_nothing_else() {
    // X46: no key opens anything else there.
    let api = Scraped::at("0.0.0.0:0", Some("127.0.0.1:0")).await;
    let scraped = api.server.metrics_addr().unwrap();
    assert_ne!(scraped, api.server.local_addr());
    let (status, text) = api.get(scraped, "/metrics", None).await;
    assert_eq!(status, 200);
    assert!(text.contains("tenure_task_counts_age_seconds "), "{text}");
    let [admin, ..] = keys();
    for path in ["/v1/runs", "/v1/keys", "/readyz", "/livez", "/openapi.json", "/"] {
        let (status, text) = api.get(scraped, path, Some(admin.text())).await;
        assert_eq!(status, 404, "{path}: {text}");
        assert!(text.contains("this address serves /metrics and nothing else"), "{text}");
    }
    assert_eq!(api.scrape(None).await.0, 401, "the other listener is as it was");
    assert_eq!(api.server.shutdown().await, StopReason::Drained);
    assert!(api.http.get(format!("http://{scraped}/metrics")).send().await.is_err());
}

#[tokio::test]
async fn what_is_open_beyond_loopback_tells_nothing_of_the_work() {
    // X46: health, version and description reveal nothing about tenants; the rest requires a key.
    let api = Scraped::at("0.0.0.0:0", None).await;
    let [_, foreign, client, _] = keys();
    for (key, queue) in [(&client, CANARY), (&foreign, CANARY)] {
        let url = format!("http://127.0.0.1:{}/v1/runs", api.server.local_addr().port());
        let run = serde_json::json!({"kind": "k", "queue": queue});
        let submitted = api.http.post(url).bearer_auth(key.text()).json(&run).send().await;
        assert_eq!(submitted.unwrap().status(), 201);
    }
    for path in ["/livez", "/readyz", "/version", "/openapi.json", "/errors/forbidden"] {
        let (status, text) = api.get(api.server.local_addr(), path, None).await;
        assert_eq!(status, 200, "{path}");
        assert!(!text.contains(CANARY) && !text.contains("acme"), "{path}: {text}");
    }
    for path in ["/v1/runs", "/v1/queues", "/v1/keys", "/v1/audit", "/v1/limits", "/metrics"] {
        assert_eq!(api.get(api.server.local_addr(), path, None).await.0, 401, "{path}");
    }
    assert_eq!(api.server.shutdown().await, StopReason::Drained);
}
