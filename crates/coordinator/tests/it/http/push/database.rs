//! Push over one database: several coordinators, and an endpoint that holds no more than it may.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::super::database::{Served, UNHURRIED, run};
use super::super::webhooks::receiver::Receiver;

/// Tasks, all pushed to one endpoint.
const TASKS: usize = 30;

/// What the endpoint may hold.
const CONCURRENCY: usize = 2;

#[tokio::test]
async fn coordinators_of_one_database_together_push_no_more_than_an_endpoint_may_hold() {
    // one at a time pushes, and counts what is held in the database. Every attempt is pushed once.
    let database = pgserver::Server::builder().without_fsync().start().unwrap();
    let address = database.conninfo("postgres");
    let one = Served::at(&address, UNHURRIED).await;
    let two = one.beside(&address).await;
    let mut receiver = Receiver::start().await;
    let endpoint = json!({"name": "fn", "url": receiver.url, "queues": ["q"],
        "concurrency": CONCURRENCY});
    assert_eq!(one.post("/v1/endpoints", endpoint).await.status, 201);
    for n in 0..TASKS {
        let served = if n % 2 == 0 { &one } else { &two };
        let more = json!({"leaseMs": 600_000});
        let submitted = served.post("/v1/runs", run(&format!("run-{n}"), more)).await;
        assert_eq!(submitted.status, 201, "{:?}", submitted.body);
    }
    let mut held: BTreeMap<String, Value> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    while seen.len() < TASKS {
        let push = receiver.next().await;
        assert!(seen.insert(push.id().to_owned()), "{} came twice", push.id());
        held.insert(push.id().to_owned(), serde_json::from_str(&push.body).unwrap());
        assert!(held.len() <= CONCURRENCY, "{} are held", held.len());
        if held.len() == CONCURRENCY || seen.len() == TASKS {
            let (_, sent) = held.pop_first().unwrap();
            let body = json!({"attempt": 1, "workerId": "push:fn", "outcome": "SUCCEEDED"});
            let path = format!("/v1/tasks/{}/completed", sent["taskId"].as_str().unwrap());
            let token = sent["taskToken"].as_str().unwrap();
            let (got, _) = two.at_last(&path, token, &body).await;
            assert_eq!(got.status, 200, "{:?}", got.body);
        }
    }
    receiver.assert_quiet();
    one.verify().await;
}
