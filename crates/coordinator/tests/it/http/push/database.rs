//! Push over one database: several coordinators, and an endpoint that holds no more than it may.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::super::database::{Served, UNHURRIED, run};
use super::super::webhooks::receiver::{Delivery, Receiver};

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

#[tokio::test]
async fn a_task_is_pushed_or_polled_and_never_both() {
    // F58, A1: two coordinators push while workers poll the same queue. Every task has one attempt, in one place.
    let database = pgserver::Server::builder().without_fsync().start().unwrap();
    let address = database.conninfo("postgres");
    let one = Served::at(&address, UNHURRIED).await;
    let two = one.beside(&address).await;
    let mut receiver = Receiver::start().await;
    let endpoint =
        json!({"name": "fn", "url": receiver.url, "queues": ["q"], "concurrency": TASKS});
    assert_eq!(one.post("/v1/endpoints", endpoint).await.status, 201);
    let mut polled = BTreeSet::new();
    let poll = json!({"workerId": "w", "queues": ["q"], "max": 1});
    for n in 0..TASKS {
        let (served, other) = if n % 2 == 0 { (&one, &two) } else { (&two, &one) };
        let submitted = run(&format!("run-{n}"), json!({"leaseMs": 600_000}));
        let (submitted, got) = tokio::join!(
            served.post("/v1/runs", submitted),
            other.post("/v1/leases", poll.clone())
        );
        assert_eq!((submitted.status, got.status), (201, 200), "{:?}", submitted.body);
        polled.extend(got.body["leases"].as_array().unwrap().iter().map(place));
    }
    loop {
        let waiting = one.get("/v1/runs?state=queued").await.body;
        if waiting["runs"].as_array().unwrap().is_empty() {
            break;
        }
        let got = one.post("/v1/leases", poll.clone()).await;
        polled.extend(got.body["leases"].as_array().unwrap().iter().map(place));
    }
    let pushes = receiver.take(TASKS - polled.len()).await;
    let sent = |push: &Delivery| place(&serde_json::from_str(&push.body).unwrap());
    let pushed: BTreeSet<(String, u64)> = pushes.iter().map(sent).collect();
    assert_eq!(pushed.len(), pushes.len(), "each was pushed once");
    let all: BTreeSet<&(String, u64)> = polled.union(&pushed).collect();
    assert_eq!(all.len(), TASKS, "none is in two places, and none is in no place");
    assert!(all.iter().all(|(_, attempt)| *attempt == 1), "{all:?}");
    receiver.assert_quiet();
    one.verify().await;
}

/// The task of a lease, and its attempt.
fn place(lease: &Value) -> (String, u64) {
    (lease["taskId"].as_str().unwrap().to_owned(), lease["attempt"].as_u64().unwrap())
}
