//! Long polls: when they wake, what a repeated one gets, and what happens when the answer is not
//! received.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use coordinator::admit::{ApiKeys, Keyring, NewKey, Role};
use coordinator::http::{AppState, Timeouts, router};
use coordinator::{Coordinator, Options, SeededEntropy};
use serde_json::{Value, json};
use store::sqlite::SqliteStore;
use store::{Administration, Store, Writer};
use storetest::{ManualClock, MemoryStore};
use tokio::io::AsyncWriteExt;
use tower::ServiceExt;
use verdict::Scope;

use super::test_server::{Lease, TestServer, both};

const LONG_POLL: &str = r#"{"workerId":"w1","queues":["q"],"max":10,"waitMs":30000}"#;

/// Waits until this many workers are waiting; every check is a request, so nothing sleeps.
async fn polls_waiting(api: &TestServer, count: usize) {
    let line = format!("tenure_polls_waiting {count}\n");
    while !api.get("/metrics").await.body.as_str().unwrap().contains(&line) {
        tokio::task::yield_now().await;
    }
}

async fn raw_poll(api: &TestServer) -> tokio::net::TcpStream {
    let mut stream = api.connect().await;
    let head = format!(
        "POST /v1/leases HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{LONG_POLL}",
        api.key,
        LONG_POLL.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn a_waiting_poll_wakes_when_work_comes() {
    for api in both().await {
        let body: Value = serde_json::from_str(LONG_POLL).unwrap();
        let poll = api.post("/v1/leases", &api.key, body);
        let submit = async {
            polls_waiting(&api, 1).await;
            api.submit(json!({})).await
        };
        let (polled, run) = tokio::join!(poll, submit);
        let leases = polled.leases();
        assert_eq!(leases.len(), 1);
        assert_eq!(leases[0].run, run);
    }
}

#[tokio::test]
async fn a_poll_takes_only_its_queues_and_kinds() {
    for api in both().await {
        api.submit(json!({"queue": "other"})).await;
        api.submit(json!({"kind": "paint"})).await;
        let run = api.submit(json!({"kind": "resize"})).await;
        let body = json!({"workerId": "w1", "queues": ["q"], "kinds": ["resize"], "max": 10});
        let leases = api.post("/v1/leases", &api.key, body).await.leases();
        assert_eq!(leases.iter().map(|lease| &lease.run).collect::<Vec<_>>(), [&run]);
    }
}

#[tokio::test]
async fn a_repeated_poll_gets_the_same_leases() {
    for api in both().await {
        api.submit(json!({})).await;
        api.submit(json!({})).await;
        let body = json!({"workerId": "w1", "queues": ["q"], "max": 1, "pollId": "p1"});
        let first = api.post("/v1/leases", &api.key, body.clone()).await.leases();
        let again = api.post("/v1/leases", &api.key, body.clone()).await.leases();
        assert_eq!(first.len(), 1);
        assert_eq!(first[0].envelope["leaseId"], again[0].envelope["leaseId"]);
        assert_eq!((again.len(), again[0].attempt()), (1, 1));
        let mut next = body;
        next["pollId"] = json!("p2");
        let other = api.post("/v1/leases", &api.key, next).await.leases();
        assert_ne!(other[0].run, first[0].run);
        api.succeed(&again[0]).await.has("verdict", "COMMITTED");
    }
}

#[tokio::test]
async fn one_poll_gets_so_many_bytes_of_inputs_and_gets_them_again() {
    for api in both().await {
        let input = "x".repeat(250_000);
        for _ in 0..20 {
            api.submit(json!({"input": input})).await;
        }
        let body =
            |poll: &str| json!({"workerId": "w1", "queues": ["q"], "max": 256, "pollId": poll});
        let first = api.post("/v1/leases", &api.key, body("p1")).await.leases();
        assert_eq!(first.len(), 16, "four mebibytes");
        assert!(first.iter().all(|lease| lease.envelope["input"] == input));
        let again = api.post("/v1/leases", &api.key, body("p1")).await.leases();
        let told = |leases: &[Lease]| -> Vec<(Value, Value)> {
            let member = |lease: &Lease, name: &str| lease.envelope[name].clone();
            leases.iter().map(|it| (member(it, "leaseId"), member(it, "input"))).collect()
        };
        assert_eq!(told(&again), told(&first), "the same leases, whole");
        let rest = api.post("/v1/leases", &api.key, body("p2")).await.leases();
        assert_eq!(rest.len(), 4, "the rest stayed queued");
        for lease in again.iter().chain(&rest) {
            api.succeed(lease).await.has("verdict", "COMMITTED");
        }
    }
}

#[tokio::test]
async fn a_worker_that_hangs_up_while_waiting_takes_nothing() {
    for api in both().await {
        let stream = raw_poll(&api).await;
        polls_waiting(&api, 1).await;
        drop(stream);
        let run = api.submit(json!({})).await;
        // Whether the disconnect was noticed before the grant or after it, the task is available at
        // once.
        let lease = loop {
            match api.poll("w2").await.pop() {
                Some(lease) => break lease.by("w2"),
                None => tokio::task::yield_now().await,
            }
        };
        assert_eq!(lease.run, run);
        api.succeed(&lease).await.has("verdict", "COMMITTED");
        assert_eq!(api.run(&run).await["lost"], 0);
    }
}

#[tokio::test]
async fn a_worker_that_hung_up_is_no_longer_counted_as_waiting() {
    for api in both().await {
        let stream = raw_poll(&api).await;
        polls_waiting(&api, 1).await;
        drop(stream);
        polls_waiting(&api, 0).await;
    }
}

#[tokio::test]
async fn an_answer_nobody_reads_releases_its_leases() {
    let clock = Arc::new(ManualClock::default());
    hang_up_before_delivery(MemoryStore::new(clock.clone())).await;
    let folder = tempfile::tempdir().unwrap();
    let options = store::sqlite::Options::new(clock);
    hang_up_before_delivery(SqliteStore::open(folder.path().join("t.db"), options).unwrap()).await;
}

/// The connection breaks between the grant and the first byte of its answer.
async fn hang_up_before_delivery<S: Store>(store: S) {
    let key = NewKey::generate(&mut SeededEntropy::new(1), Scope::default(), &Role::ALL);
    let mut writer = store.writer().await.unwrap();
    let act = Administration { keys: vec![key.row(store.now())], ..Administration::default() };
    writer.administer(&act).await.unwrap();
    drop(writer);
    let keys = ApiKeys::load(store.browse()).await.unwrap();
    let options = Options { entropy: Box::new(SeededEntropy::new(2)), ..Options::default() };
    let coordinator = Coordinator::start(store, options).await.unwrap();
    let keyring = Keyring::from_bytes([3; 32]);
    let (url, timeouts) = ("http://x".into(), Timeouts::default());
    let app = AppState::new(coordinator, keyring, keys, url, timeouts, SeededEntropy::new(2));
    let routes = router(app);
    let ask = |method: &str, path: &str, body: &str| {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("authorization", format!("Bearer {}", key.text()))
            .header("content-type", "application/json")
            .body(Body::from(body.to_owned()))
            .unwrap();
        let routes = routes.clone();
        async move { routes.oneshot(request).await.unwrap() }
    };
    let submitted = ask("POST", "/v1/runs", r#"{"kind":"k","queue":"q"}"#).await;
    assert_eq!(submitted.status(), 201);
    let poll = r#"{"workerId":"w1","queues":["q"],"max":1}"#;
    let unread = ask("POST", "/v1/leases", poll).await;
    assert_eq!(unread.status(), 200);
    drop(unread);

    let next = ask("POST", "/v1/leases", poll).await;
    let bytes = axum::body::to_bytes(next.into_body(), usize::MAX).await.unwrap();
    let leases: Value = serde_json::from_slice(&bytes).unwrap();
    // A new attempt, at once, and neither a failure nor a loss.
    assert_eq!(leases["leases"][0]["attempt"], 2);
    let run = leases["leases"][0]["runId"].as_str().unwrap();
    let history = ask("GET", &format!("/v1/runs/{run}/history"), "").await;
    let bytes = axum::body::to_bytes(history.into_body(), usize::MAX).await.unwrap();
    assert!(String::from_utf8_lossy(&bytes).contains("\"outcome\":\"UNDELIVERED\""));
}
