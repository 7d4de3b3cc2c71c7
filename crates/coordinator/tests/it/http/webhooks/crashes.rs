//! A coordinator that dies between the claim, the call and the record of an effect.
//!
//! Death is the end of its runtime: no task of it runs on, nothing is settled or given back. The store is opened again as
//! after a crash of the process.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use coordinator::admit::{NewKey, Role};
use coordinator::server::parse_receivers;
use coordinator::{SeededEntropy, ServeOptions, serve};
use serde_json::{Value, json};
use store::sqlite::SqliteStore;
use storetest::ManualClock;
use tokio::runtime::Runtime;
use verdict::{Scope, Span};

use super::super::test_server::browser;
use super::receiver::{HANGS, Receiver};

/// Between two tries to open a file that a dying coordinator still holds.
const BETWEEN: Duration = Duration::from_millis(20);

/// A coordinator with a runtime of its own.
struct Life {
    runtime: Runtime,
    url: String,
    key: String,
}

impl Life {
    #[expect(
        clippy::disallowed_methods,
        reason = "the threads of the life before give the file back when they end, and nothing says when"
    )]
    fn begin(folder: &Path, clock: &Arc<ManualClock>) -> Self {
        let key = NewKey::generate(&mut SeededEntropy::new(11), Scope::default(), &Role::ALL);
        let text = key.text().to_owned();
        let runtime = Runtime::new().unwrap();
        let path = folder.join("tenure.db");
        let is_first = !path.exists();
        let store = loop {
            match SqliteStore::open(&path, storetest::unsynced(clock.clone())) {
                Ok(store) => break store,
                Err(_) => std::thread::sleep(BETWEEN),
            }
        };
        let mut options = ServeOptions::new("127.0.0.1:0".parse().unwrap(), folder.join("key"));
        options.new_keys = if is_first { vec![key] } else { Vec::new() };
        options.receivers = parse_receivers(&["127.0.0.0/8".to_owned()]).unwrap();
        let server = runtime.block_on(serve(store, options)).unwrap();
        let url = format!("http://{}", server.local_addr());
        // A server that is dropped goes on until its runtime ends.
        drop(server);
        Self { runtime, url, key: text }
    }

    async fn post(&self, path: &str, bearer: &str, body: Value) -> Value {
        let request = browser().build().unwrap().post(format!("{}{path}", self.url));
        let answer = request.bearer_auth(bearer).json(&body).send().await.unwrap();
        assert!(answer.status().is_success(), "{path}: {answer:?}");
        answer.json().await.unwrap()
    }

    /// Records a step with an effect of one aggregate.
    async fn declare(&self, lease: &Value, number: u32) {
        let step = format!("s#{number}");
        let body = json!({
            "attempt": 1, "workerId": "w", "steps": [{"key": step, "outcome": "SUCCEEDED"}],
            "effects": [{"key": "e", "step": step, "endpoint": "crm", "type": "t", "body": number}],
        });
        let path = format!("/v1/tasks/{}/checkpoints", lease["taskId"].as_str().unwrap());
        self.post(&path, lease["taskToken"].as_str().unwrap(), body).await;
    }

    async fn effects(&self, state: &str) -> usize {
        let request =
            browser().build().unwrap().get(format!("{}/v1/effects?state={state}", self.url));
        let answer = request.bearer_auth(&self.key).send().await.unwrap();
        let body: Value = answer.json().await.unwrap();
        body["effects"].as_array().unwrap().len()
    }

    fn die(self) {
        self.runtime.shutdown_background();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_waits_for_its_effect_is_told_by_the_next_life() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::default());
    let mut receiver = Receiver::start().await;
    let first = tokio::task::block_in_place(|| Life::begin(folder.path(), &clock));
    let endpoint = json!({"name": "crm", "url": receiver.url, "types": []});
    first.post("/v1/endpoints", &first.key, endpoint).await;
    let run = json!({"kind": "k", "queue": "q", "leaseMs": 600_000});
    first.post("/v1/runs", &first.key, run).await;
    let poll = json!({"workerId": "w", "queues": ["q"], "max": 1});
    let lease = first.post("/v1/leases", &first.key, poll.clone()).await["leases"][0].clone();
    receiver.answers(&[HANGS]);
    first.declare(&lease, 1).await;
    let path = format!("/v1/tasks/{}/checkpoints", lease["taskId"].as_str().unwrap());
    let wait = json!({"attempt": 1, "workerId": "w", "wait": {"key": "w#1", "mode": "all",
        "for": [{"key": "told#1", "effect": {"step": "s#1", "key": "e"}}]}});
    let waiting = first.post(&path, lease["taskToken"].as_str().unwrap(), wait).await;
    assert_eq!(waiting["state"], "waiting");
    // The receiver has the request; nobody has said yet what became of it.
    receiver.next().await;
    first.die();
    let second = tokio::task::block_in_place(|| Life::begin(folder.path(), &clock));
    let ticking = tokio::spawn({
        let clock = clock.clone();
        async move {
            loop {
                clock.advance(Span::from_millis(400));
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    });
    receiver.next().await;
    let next = loop {
        let leases = second.post("/v1/leases", &second.key, poll.clone()).await["leases"].clone();
        if !leases[0].is_null() {
            break leases[0].clone();
        }
        tokio::time::sleep(BETWEEN).await;
    };
    ticking.abort();
    let records = next["checkpoints"].as_array().unwrap();
    let told = records.iter().find(|it| it["key"] == "w#1").unwrap();
    assert_eq!(told["wait"]["signals"][0]["payload"]["outcome"], "DELIVERED");
    second.die();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f05_killed_between_call_and_record_the_effect_is_sent_again_unchanged_and_in_order() {
    // D1, D2, D3, D4, R-20, W-8: one intent, byte-equal tries, the order of the aggregate.
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::default());
    let mut receiver = Receiver::start().await;
    let first = tokio::task::block_in_place(|| Life::begin(folder.path(), &clock));
    let endpoint = json!({"name": "crm", "url": receiver.url, "types": []});
    first.post("/v1/endpoints", &first.key, endpoint).await;
    let run = json!({"kind": "k", "queue": "q", "leaseMs": 600_000});
    first.post("/v1/runs", &first.key, run).await;
    let poll = json!({"workerId": "w", "queues": ["q"], "max": 1});
    let lease = first.post("/v1/leases", &first.key, poll).await["leases"][0].clone();
    receiver.answers(&[HANGS]);
    for number in 1..=3 {
        first.declare(&lease, number).await;
    }
    // The receiver has the request, and the coordinator dies before it has an answer.
    let before = receiver.next().await;
    assert_eq!((first.effects("in_flight").await, first.effects("queued").await), (1, 2));
    first.die();
    let second = tokio::task::block_in_place(|| Life::begin(folder.path(), &clock));
    assert_eq!((second.effects("in_flight").await, second.effects("queued").await), (1, 2));
    receiver.assert_quiet();
    // The claim runs out, and the pause after a try passes.
    let ticking = tokio::spawn({
        let clock = clock.clone();
        async move {
            loop {
                clock.advance(Span::from_millis(400));
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    });
    // It is found by the next scan of the store.
    let after = receiver.take(3).await;
    assert_eq!((after[0].id(), &after[0].body), (before.id(), &before.body));
    let bodies: Vec<&str> = after.iter().map(|delivery| delivery.body.as_str()).collect();
    assert_eq!(bodies, ["1", "2", "3"]);
    let numbers: Vec<&str> = after.iter().map(|it| it.header("tenure-sequence")).collect();
    assert_eq!(numbers, ["1", "2", "3"]);
    while second.effects("delivered").await < 3 {
        tokio::time::sleep(BETWEEN).await;
    }
    ticking.abort();
    receiver.assert_quiet();
    second.die();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f05_the_only_writer_sends_what_was_in_flight_as_soon_as_it_begins() {
    // No claim runs out here: the clock stands still, but for the time that a restart takes.
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::default());
    let mut receiver = Receiver::start().await;
    let first = tokio::task::block_in_place(|| Life::begin(folder.path(), &clock));
    let endpoint = json!({"name": "crm", "url": receiver.url, "types": []});
    first.post("/v1/endpoints", &first.key, endpoint).await;
    let run = json!({"kind": "k", "queue": "q", "leaseMs": 600_000});
    first.post("/v1/runs", &first.key, run).await;
    let poll = json!({"workerId": "w", "queues": ["q"], "max": 1});
    let lease = first.post("/v1/leases", &first.key, poll).await["leases"][0].clone();
    receiver.answers(&[HANGS]);
    for number in 1..=2 {
        first.declare(&lease, number).await;
    }
    let before = receiver.next().await;
    first.die();
    clock.advance(Span::from_millis(1));
    let second = tokio::task::block_in_place(|| Life::begin(folder.path(), &clock));
    let after = receiver.take(2).await;
    assert_eq!((after[0].id(), &after[0].body), (before.id(), &before.body));
    assert_eq!(after[1].body, "2");
    while second.effects("delivered").await < 2 {
        tokio::time::sleep(BETWEEN).await;
    }
    receiver.assert_quiet();
    second.die();
}
