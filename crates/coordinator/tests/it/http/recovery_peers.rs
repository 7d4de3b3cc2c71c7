//! Recovery over one database: two coordinators find the same failures and carry out the same round, and each failed run comes back
//! once.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use coordinator::admit::{NewKey, Role};
use coordinator::{SeededEntropy, ServeOptions, Server, serve};
use serde_json::{Value, json};
use store::{PostgresStore, postgres};
use storetest::Database;
use verdict::Scope;

use super::test_server::browser;
use crate::harness::PATIENCE;

const RUNS: usize = 300;

async fn start(database: &Database, key_file: &Path, new_keys: Vec<NewKey>) -> Server {
    let store = PostgresStore::open(database.url(), postgres::Options::new("test")).await;
    let mut options = ServeOptions::new("127.0.0.1:0".parse().unwrap(), key_file);
    options.new_keys = new_keys;
    serve(store.expect("the database opens"), options).await.expect("it is served")
}

struct Caller {
    http: reqwest::Client,
    key: String,
}

impl Caller {
    async fn post(&self, server: &Server, path: &str, body: Value) -> Value {
        let url = format!("http://{}{path}", server.local_addr());
        let answer = self.http.post(url).bearer_auth(&self.key).json(&body).send().await.unwrap();
        let (status, body) = (answer.status(), answer.json::<Value>().await.unwrap());
        assert!(status.is_success(), "{path}: {body}");
        body
    }

    async fn get(&self, server: &Server, path: &str) -> Value {
        let url = format!("http://{}{path}", server.local_addr());
        let answer = self.http.get(url).bearer_auth(&self.key).send().await.unwrap();
        answer.json().await.unwrap()
    }

    /// Waits until there is one candidate of which this is true.
    async fn until(&self, server: &Server, is_it: impl Fn(&Value) -> bool) -> Value {
        let look = async {
            loop {
                let found = self.get(server, "/v1/recovery/candidates").await;
                match &found["candidates"].as_array().unwrap()[..] {
                    [one] if is_it(one) => return one.clone(),
                    more => assert!(more.len() <= 1, "one live candidate for each signature"),
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(3 * PATIENCE, look).await.expect("it comes to that in time")
    }

    /// Leases up to 100 tasks of a queue.
    async fn lease(&self, server: &Server, queue: &str) -> Vec<Value> {
        let poll = json!({"workerId": "w", "queues": [queue], "max": 100, "waitMs": 500});
        self.post(server, "/v1/leases", poll).await["leases"].as_array().unwrap().clone()
    }

    async fn report(&self, server: &Server, leases: &[Value], said: Value) {
        let item = |lease: &Value| {
            let mut item = json!({"taskId": lease["taskId"], "taskToken": lease["taskToken"],
                "attempt": lease["attempt"], "workerId": "w"});
            item.as_object_mut().unwrap().extend(said.as_object().unwrap().clone());
            item
        };
        let reports: Vec<Value> = leases.iter().map(item).collect();
        self.post(server, "/v1/reports", json!({"reports": reports})).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_failed_run_is_counted_once_and_comes_back_once() {
    // A2-17, A2-18: a new run for each that failed, linked to it; one candidate for all of them.
    let (database, folder) = (Database::create(), tempfile::tempdir().unwrap());
    let key_file = folder.path().join("tenure.key");
    let key = NewKey::generate(&mut SeededEntropy::new(11), Scope::default(), &Role::ALL);
    let caller = Caller { http: browser().build().unwrap(), key: key.text().to_owned() };
    let one = start(&database, &key_file, vec![key]).await;
    let two = start(&database, &key_file, Vec::new()).await;
    let policy = json!({"evaluator": "workers", "runsMax": 1_000});
    caller.post(&one, "/v1/recovery/policies/p", policy).await;
    // The other one reads policies every second.
    let known = async {
        while caller.get(&two, "/v1/recovery/policies").await["policies"] == json!([]) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, known).await.expect("it learns of the policy");
    let run = json!({"kind": "k", "queue": "q", "maxAttempts": 1});
    caller.post(&one, "/v1/runs", json!({"runs": vec![run; RUNS]})).await;
    let error = json!({"category": "INFRASTRUCTURE", "message": "gone after 7ms"});
    let failure = json!({"outcome": "FAILED", "error": error});
    let mut failed = BTreeSet::new();
    while failed.len() < RUNS {
        for server in [&one, &two] {
            let leases = caller.lease(server, "q").await;
            failed.extend(leases.iter().map(|it| it["runId"].as_str().unwrap().to_owned()));
            if !leases.is_empty() {
                caller.report(server, &leases, failure.clone()).await;
            }
        }
    }
    let all = caller.until(&two, |it| it["runs"] == RUNS).await;
    assert_eq!(all["count"], RUNS, "each is counted once");
    let mut evaluation = caller.lease(&two, "tenure.recovery").await;
    evaluation.extend(caller.lease(&one, "tenure.recovery").await);
    assert_eq!(evaluation.len(), 1);
    let retry = json!({"outcome": "SUCCEEDED", "output": {"action": "retry"}});
    caller.report(&two, &evaluation, retry).await;
    let done = caller.until(&one, |it| it["state"] == "succeeded").await;
    assert_eq!((&done["forked"], &done["refused"]), (&json!(RUNS), &json!(0)), "{done}");
    let new = caller.get(&one, "/v1/runs?label=tenure.recovered&limit=1000").await;
    let new = new["runs"].as_array().unwrap();
    let of: BTreeSet<String> =
        new.iter().map(|run| run["retryOf"].as_str().unwrap().to_owned()).collect();
    assert_eq!((new.len(), of), (RUNS, failed));
    one.shutdown().await;
    two.shutdown().await;
}
