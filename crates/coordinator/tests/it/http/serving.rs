//! Starting and stopping a server.

use std::sync::Arc;

use coordinator::admit::{NewKey, Role};
use coordinator::{Plaintext, SeededEntropy, ServeError, ServeOptions, StopReason, serve};
use serde_json::{Value, json};
use store::SystemClock;
use store::sqlite::SqliteStore;
use storetest::{ManualClock, MemoryStore};
use verdict::Scope;

use super::test_server::browser;

fn memory() -> MemoryStore {
    MemoryStore::new(Arc::new(ManualClock::default()))
}

fn key() -> NewKey {
    NewKey::generate(&mut SeededEntropy::new(5), Scope::default(), &Role::ALL)
}

#[tokio::test]
async fn only_loopback_is_served_in_the_clear() {
    let folder = tempfile::tempdir().unwrap();
    for address in ["0.0.0.0:0", "192.0.2.1:7400", "[::]:0"] {
        let options = ServeOptions::new(address.parse().unwrap(), folder.path().join("key"));
        let refused = serve(memory(), options).await.err().expect("refused");
        assert!(matches!(refused, ServeError::NotLoopback(_)));
        assert!(refused.to_string().contains("loopback"), "{refused}");
    }
    let mut insisting = ServeOptions::new("0.0.0.0:0".parse().unwrap(), folder.path().join("key"));
    insisting.plaintext = Plaintext::Anywhere;
    let server = serve(memory(), insisting).await.unwrap();
    assert_eq!(server.shutdown().await, StopReason::Drained);
}

#[tokio::test]
async fn a_taken_port_and_a_weak_key_are_told() {
    // X11
    let folder = tempfile::tempdir().unwrap();
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    let options = ServeOptions::new(address, folder.path().join("key"));
    let refused = serve(memory(), options).await.err().expect("refused");
    assert!(matches!(refused, ServeError::Listen { .. }), "{refused}");
    let weak = folder.path().join("weak");
    std::fs::write(&weak, "secret").unwrap();
    let options = ServeOptions::new("127.0.0.1:0".parse().unwrap(), weak);
    let refused = serve(memory(), options).await.err().expect("refused");
    assert!(matches!(refused, ServeError::Keyring(_)), "{refused}");
}

#[tokio::test]
async fn shutting_down_answers_who_waits_and_refuses_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = ServeOptions::new("127.0.0.1:0".parse().unwrap(), folder.path().join("key"));
    let key = key();
    options.new_keys = vec![key.clone()];
    let server = serve(memory(), options).await.unwrap();
    let base = format!("http://{}", server.local_addr());
    let client = browser().build().unwrap();
    let body = json!({"workerId": "w1", "queues": ["q"], "max": 1, "waitMs": 30_000});
    let poll = client.post(format!("{base}/v1/leases")).bearer_auth(key.text()).json(&body);
    let waiting = tokio::spawn(poll.send());
    loop {
        let metrics = client.get(format!("{base}/metrics")).send().await.unwrap();
        if metrics.text().await.unwrap().contains("tenure_polls_waiting 1\n") {
            break;
        }
    }
    assert_eq!(server.shutdown().await, StopReason::Drained);
    let answer: Value = waiting.await.unwrap().unwrap().json().await.unwrap();
    assert_eq!(answer["leases"], json!([]));
    assert!(client.get(format!("{base}/livez")).send().await.is_err());
}

#[tokio::test]
async fn a_draining_coordinator_refuses_new_work_and_takes_reports() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = ServeOptions::new("127.0.0.1:0".parse().unwrap(), folder.path().join("key"));
    let key = key();
    options.new_keys = vec![key.clone()];
    options.callback_base_url = Some("https://tenure.example/base/".into());
    let server = serve(memory(), options).await.unwrap();
    let base = format!("http://{}", server.local_addr());
    let client = browser().build().unwrap();
    let post = |path: &str, bearer: &str, body: Value| {
        let request = client.post(format!("{base}{path}")).bearer_auth(bearer).json(&body);
        async move {
            let response = request.send().await.unwrap();
            (response.status().as_u16(), response.json::<Value>().await.unwrap())
        }
    };
    let run = json!({"kind": "k", "queue": "q"});
    assert_eq!(post("/v1/runs", key.text(), run.clone()).await.0, 201);
    let poll = json!({"workerId": "w1", "queues": ["q"], "max": 1});
    let lease = post("/v1/leases", key.text(), poll.clone()).await.1["leases"][0].clone();
    // S4-5: what the operator configured.
    assert_eq!(lease["callbackBaseUrl"], "https://tenure.example/base");
    server.coordinator().drain();
    for (path, body) in [("/v1/runs", run), ("/v1/leases", poll)] {
        let (status, problem) = post(path, key.text(), body).await;
        assert_eq!((status, &problem["error"]), (503, &json!("shutting_down")), "{path}");
    }
    let path = format!("/v1/tasks/{}/completed", lease["taskId"].as_str().unwrap());
    let report = json!({"attempt": 1, "workerId": "w1", "outcome": "SUCCEEDED"});
    let (status, ack) = post(&path, lease["taskToken"].as_str().unwrap(), report).await;
    assert_eq!((status, &ack["verdict"]), (200, &json!("COMMITTED")));
    assert_eq!(server.shutdown().await, StopReason::Drained);
}

#[tokio::test]
async fn a_followed_history_ends_when_the_server_does() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = ServeOptions::new("127.0.0.1:0".parse().unwrap(), folder.path().join("key"));
    let key = key();
    options.new_keys = vec![key.clone()];
    let server = serve(memory(), options).await.unwrap();
    let base = format!("http://{}", server.local_addr());
    let client = browser().build().unwrap();
    let run = json!({"kind": "k", "queue": "q"});
    let accepted = client.post(format!("{base}/v1/runs")).bearer_auth(key.text()).json(&run);
    let accepted: Value = accepted.send().await.unwrap().json().await.unwrap();
    let path = format!("{base}/v1/runs/{}/history", accepted["runId"].as_str().unwrap());
    let follow = client.get(path).bearer_auth(key.text()).header("accept", "text/event-stream");
    let mut stream = follow.send().await.unwrap();
    let first = stream.chunk().await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&first).contains("event: submitted"));
    let (ended, rest) = tokio::join!(server.shutdown(), stream.chunk());
    assert_eq!(ended, StopReason::Drained);
    assert_eq!(rest.unwrap(), None, "the stream ends whole, it is not cut");
}

#[tokio::test]
async fn keys_runs_and_tokens_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let key = key();
    let client = browser().pool_max_idle_per_host(0).build().unwrap();
    let mut lease = Value::Null;
    for life in 0..2 {
        let options = store::sqlite::Options::new(Arc::new(SystemClock::start()));
        let store = SqliteStore::open(folder.path().join("t.db"), options).unwrap();
        let mut options =
            ServeOptions::new("127.0.0.1:0".parse().unwrap(), folder.path().join("key"));
        if life == 0 {
            options.new_keys = vec![key.clone()];
        }
        let server = serve(store, options).await.unwrap();
        let base = format!("http://{}", server.local_addr());
        let post = |path: &str, bearer: &str, body: Value| {
            client.post(format!("{base}{path}")).bearer_auth(bearer).json(&body).send()
        };
        if life == 0 {
            let run = json!({"kind": "k", "queue": "q"});
            assert_eq!(post("/v1/runs", key.text(), run).await.unwrap().status(), 201);
            let poll = json!({"workerId": "w1", "queues": ["q"], "max": 1});
            let leases = post("/v1/leases", key.text(), poll).await.unwrap();
            lease = leases.json::<Value>().await.unwrap()["leases"][0].clone();
        } else {
            // The worker that leased before the restart reports after it.
            let path = format!("/v1/tasks/{}/completed", lease["taskId"].as_str().unwrap());
            let report = json!({"attempt": 1, "workerId": "w1", "outcome": "SUCCEEDED"});
            let token = lease["taskToken"].as_str().unwrap();
            let ack: Value = post(&path, token, report).await.unwrap().json().await.unwrap();
            assert_eq!(ack["verdict"], "COMMITTED");
        }
        assert_eq!(server.shutdown().await, StopReason::Drained);
    }
}

#[tokio::test]
async fn limits_and_what_counts_against_them_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (store, key) = (memory(), key());
    for life in 1..=2 {
        let listen = "127.0.0.1:0".parse().unwrap();
        let mut options = ServeOptions::new(listen, folder.path().join("key"));
        options.new_keys = if life == 1 { vec![key.clone()] } else { Vec::new() };
        let server = serve(store.clone(), options).await.unwrap();
        let client = browser().build().unwrap();
        let post = |path: &str, body: Value| {
            let url = format!("http://{}{path}", server.local_addr());
            client.post(url).bearer_auth(key.text()).json(&body).send()
        };
        let run = json!({"kind": "k", "queue": "q"});
        let limits = json!({"tenantId": "default", "unfinishedRuns": 1});
        if life == 1 {
            assert_eq!(post("/v1/runs", run.clone()).await.unwrap().status(), 201);
            assert_eq!(post("/v1/limits", limits).await.unwrap().status(), 200);
        }
        assert_eq!(post("/v1/runs", run).await.unwrap().status(), 429, "in life {life}");
        assert_eq!(server.shutdown().await, StopReason::Drained);
    }
}
