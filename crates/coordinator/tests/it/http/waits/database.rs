//! The same with several coordinators over one database: a run may end at a peer.

use std::path::Path;

use coordinator::admit::{NewKey, Role};
use coordinator::{Options, SeededEntropy, ServeOptions, Server, serve};
use serde_json::{Value, json};
use store::PostgresStore;
use store::postgres::{self, Notify};
use storetest::Database;
use verdict::Scope;

use super::super::test_server::{browser, merged, run};
use super::{LONG_MS, without_time};

async fn peer(database: &Database, key_file: &Path, notify: Notify, keys: Vec<NewKey>) -> Server {
    let options = postgres::Options { notify, ..postgres::Options::new("test") };
    let store = PostgresStore::open(database.url(), options).await.expect("the database opens");
    let mut options = ServeOptions::new("127.0.0.1:0".parse().unwrap(), key_file);
    options.new_keys = keys;
    options.coordinator = Options::default();
    serve(store, options).await.expect("it is served")
}

async fn call(server: &Server, method: &str, path: &str, key: &str, body: Value) -> Value {
    let url = format!("http://{}{path}", server.local_addr());
    let request = browser().build().unwrap().request(method.parse().unwrap(), url);
    let request = if body.is_null() { request } else { request.json(&body) };
    let answer = request.bearer_auth(key).send().await.unwrap();
    let (status, body) = (answer.status().as_u16(), answer.json().await.unwrap());
    assert!((200..300).contains(&status), "{status} {body}");
    body
}

/// Leases one run there, and reports its success there.
async fn work(server: &Server, key: &str) {
    let poll = json!({"workerId": "w1", "queues": ["q"], "max": 1, "waitMs": LONG_MS});
    let lease = &call(server, "POST", "/v1/leases", key, poll).await["leases"][0];
    let path = format!("/v1/tasks/{}/completed", lease["taskId"].as_str().unwrap());
    let report = json!({"attempt": 1, "workerId": "w1", "outcome": "SUCCEEDED", "output": 7});
    call(server, "POST", &path, lease["taskToken"].as_str().unwrap(), report).await;
}

#[tokio::test]
async fn a_run_that_ends_at_a_peer_answers_every_wait() {
    for notify in [Notify::On, Notify::Off] {
        let (database, folder) = (Database::create(), tempfile::tempdir().unwrap());
        let key_file = folder.path().join("tenure.key");
        let key = NewKey::generate(&mut SeededEntropy::new(11), Scope::default(), &Role::ALL);
        let text = key.text().to_owned();
        let here = peer(&database, &key_file, notify, vec![key]).await;
        let there = peer(&database, &key_file, notify, Vec::new()).await;
        let key = text.as_str();
        for by_wait in [false, true] {
            let path = format!("/v1/runs?waitMs={LONG_MS}");
            let path = if by_wait { "/v1/runs" } else { &path };
            let waited = async {
                let submitted = call(&here, "POST", path, key, merged(run(json!({})), json!({})));
                let submitted = submitted.await;
                if !by_wait {
                    return submitted["run"].clone();
                }
                let ids = json!({"runIds": [submitted["runId"]], "waitMs": LONG_MS});
                call(&here, "POST", "/v1/waits", key, ids).await["ended"][0].clone()
            };
            let (waited, ()) = tokio::join!(waited, work(&there, key));
            assert_eq!((&waited["state"], &waited["output"]), (&json!("succeeded"), &json!(7)));
            let path = format!("/v1/runs/{}", waited["runId"].as_str().unwrap());
            let mut stored = call(&there, "GET", &path, key, Value::Null).await;
            if by_wait {
                stored.as_object_mut().unwrap().remove("input");
            }
            assert_eq!(without_time(waited), without_time(stored));
        }
        here.shutdown().await;
        there.shutdown().await;
    }
}
