//! Effects over one database: several coordinators deliver, and each effect is claimed once.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::database::{BETWEEN_TRIES, Served, TRIES_MAX, UNHURRIED, run};
use super::receiver::{Delivery, Receiver};

/// Runs that each coordinator ends.
const EACH: usize = 40;

impl Served {
    /// Ends a run with an effect of the aggregate that all runs share.
    async fn end_run(&self, name: &str) {
        let submitted = self.post("/v1/runs", run(name, json!({}))).await;
        assert_eq!(submitted.status, 201, "{:?}", submitted.body);
        let lease = self.lease().await;
        let text = |member: &str| lease[member].as_str().unwrap().to_owned();
        let body = json!({
            "attempt": 1, "workerId": "w", "outcome": "SUCCEEDED",
            "steps": [{"key": "s#1", "outcome": "SUCCEEDED"}],
            "effects": [{"key": "e", "step": "s#1", "endpoint": "crm", "type": "ended",
                "aggregate": "all", "body": name}],
        });
        let path = format!("/v1/tasks/{}/completed", text("taskId"));
        let (got, _) = self.at_last(&path, &text("taskToken"), &body).await;
        assert_eq!(got.status, 200, "{:?}", got.body);
    }
}

#[tokio::test]
async fn a_run_waits_at_one_coordinator_and_goes_on_at_another() {
    // Whichever of them delivers, and whichever tells: each run goes on once.
    let database = pgserver::Server::builder().without_fsync().start().unwrap();
    let address = database.conninfo("postgres");
    let one = Served::at(&address, UNHURRIED).await;
    let two = one.beside(&address).await;
    let mut receiver = Receiver::start().await;
    let endpoint = json!({"name": "crm", "url": receiver.url, "types": []});
    assert_eq!(one.post("/v1/endpoints", endpoint).await.status, 201);
    for n in 0..EACH {
        let submitted = one.post("/v1/runs", run(&format!("run-{n}"), json!({}))).await;
        assert_eq!(submitted.status, 201, "{:?}", submitted.body);
        let lease = one.lease().await;
        let text = |member: &str| lease[member].as_str().unwrap().to_owned();
        let body = json!({
            "attempt": 1, "workerId": "w", "steps": [{"key": "s#1", "outcome": "SUCCEEDED"}],
            "effects": [{"key": "e", "step": "s#1", "endpoint": "crm", "type": "t", "body": n}],
            "wait": {"key": "w#1", "mode": "all",
                "for": [{"key": "told#1", "effect": {"step": "s#1", "key": "e"}}]},
        });
        let path = format!("/v1/tasks/{}/checkpoints", text("taskId"));
        let (got, _) = one.at_last(&path, &text("taskToken"), &body).await;
        assert_eq!((got.status, &got.body["state"]), (200, &json!("waiting")), "{:?}", got.body);
        receiver.next().await;
        let next = two.lease().await;
        let records = next["checkpoints"].as_array().unwrap();
        let told = records.iter().find(|it| it["key"] == "w#1").unwrap();
        assert_eq!(told["wait"]["signals"][0]["payload"]["outcome"], "DELIVERED");
        let body = json!({"attempt": 2, "workerId": "w", "outcome": "SUCCEEDED"});
        let path = format!("/v1/tasks/{}/completed", next["taskId"].as_str().unwrap());
        let (got, _) = two.at_last(&path, next["taskToken"].as_str().unwrap(), &body).await;
        assert_eq!(got.status, 200, "{:?}", got.body);
    }
    receiver.assert_quiet();
    one.verify().await;
}

#[tokio::test]
async fn an_end_is_told_to_an_endpoint_that_was_registered_elsewhere_just_before() {
    // D1: what is decided after the answer is decided by it, whichever coordinator decides.
    const ENDPOINTS: usize = 20;
    let database = pgserver::Server::builder().without_fsync().start().unwrap();
    let address = database.conninfo("postgres");
    let one = Served::at(&address, UNHURRIED).await;
    let two = one.beside(&address).await;
    let receiver = Receiver::start().await;
    for n in 1..=ENDPOINTS {
        let submitted = two.post("/v1/runs", run(&format!("run-{n}"), json!({}))).await;
        assert_eq!(submitted.status, 201, "{:?}", submitted.body);
        let lease = two.lease().await;
        let endpoint = json!({"name": format!("e{n}"), "url": receiver.url, "types": ["run.*"]});
        assert_eq!(one.post("/v1/endpoints", endpoint).await.status, 201);
        // It can be named in a call at once, too.
        let body = json!({
            "attempt": 1, "workerId": "w", "outcome": "SUCCEEDED",
            "steps": [{"key": "s#1", "outcome": "SUCCEEDED"}],
            "effects": [{"key": "e", "step": "s#1", "endpoint": format!("e{n}"), "type": "t", "body": n}],
        });
        let path = format!("/v1/tasks/{}/completed", lease["taskId"].as_str().unwrap());
        let (got, _) = two.at_last(&path, lease["taskToken"].as_str().unwrap(), &body).await;
        assert_eq!(got.status, 200, "{:?}", got.body);
        let run_id = submitted.body["runId"].as_str().unwrap();
        let told = two.get(&format!("/v1/effects?runId={run_id}&limit=1000")).await;
        assert_eq!(told.body["effects"].as_array().unwrap().len(), n + 1, "{:?}", told.body);
    }
    one.verify().await;
}

#[tokio::test]
async fn an_effect_for_an_endpoint_that_was_deleted_elsewhere_just_before_has_an_outcome_at_once() {
    // D2, D10: whichever coordinator decides, what is committed after the deletion was answered knows it.
    const ENDPOINTS: usize = 20;
    let database = pgserver::Server::builder().without_fsync().start().unwrap();
    let address = database.conninfo("postgres");
    let one = Served::at(&address, UNHURRIED).await;
    let two = one.beside(&address).await;
    let mut receiver = Receiver::start().await;
    for n in 1..=ENDPOINTS {
        let name = format!("e{n}");
        let endpoint = json!({"name": name, "url": receiver.url, "types": []});
        assert_eq!(two.post("/v1/endpoints", endpoint).await.status, 201);
        let submitted = two.post("/v1/runs", run(&format!("run-{n}"), json!({}))).await;
        assert_eq!(submitted.status, 201, "{:?}", submitted.body);
        let lease = two.lease().await;
        let path = format!("/v1/endpoints/{name}/delete");
        assert_eq!(one.post(&path, json!({})).await.status, 200);
        let body = json!({
            "attempt": 1, "workerId": "w", "outcome": "SUCCEEDED",
            "steps": [{"key": "s#1", "outcome": "SUCCEEDED"}],
            "effects": [{"key": "e", "step": "s#1", "endpoint": name, "type": "t", "body": n}],
        });
        let path = format!("/v1/tasks/{}/completed", lease["taskId"].as_str().unwrap());
        let (got, _) = two.at_last(&path, lease["taskToken"].as_str().unwrap(), &body).await;
        // The other coordinator may have read its endpoints again by now, and refuse the name.
        if got.status == 400 {
            continue;
        }
        assert_eq!(got.status, 200, "{:?}", got.body);
        let run_id = submitted.body["runId"].as_str().unwrap();
        let listed = two.get(&format!("/v1/effects?runId={run_id}")).await;
        let id = listed.body["effects"][0]["effectId"].as_str().unwrap().to_owned();
        let shown = two.get(&format!("/v1/effects/{id}")).await.body;
        let log = shown["log"].as_array().unwrap().iter();
        let states: Vec<&Value> = log.map(|change| &change["state"]).collect();
        assert_eq!(states, ["dead"], "{shown:?}");
    }
    receiver.assert_quiet();
    one.verify().await;
}

#[tokio::test]
async fn coordinators_of_one_database_deliver_each_effect_once_and_in_order() {
    // S2-72, S2-75, S2-76, S2-81, D4, D7: claims under row locks, numbers under the lock of their line.
    let database = pgserver::Server::builder().without_fsync().start().unwrap();
    let address = database.conninfo("postgres");
    let one = Served::at(&address, UNHURRIED).await;
    let two = one.beside(&address).await;
    let mut receiver = Receiver::start().await;
    let endpoint = json!({"name": "crm", "url": receiver.url, "types": ["run.*"]});
    assert_eq!(one.post("/v1/endpoints", endpoint).await.status, 201);
    let all = async |served: &Served, word: &str| {
        for n in 0..EACH {
            served.end_run(&format!("{word}-{n}")).await;
        }
    };
    tokio::join!(all(&one, "one"), all(&two, "two"));
    // Each run has its declared effect and its end.
    let deliveries = receiver.take(4 * EACH).await;
    let ids: BTreeSet<&str> = deliveries.iter().map(Delivery::id).collect();
    assert_eq!(ids.len(), deliveries.len(), "no effect was sent twice");
    let shared = deliveries.iter().filter(|it| it.header("tenure-aggregate") == "all");
    let numbers: Vec<u64> =
        shared.map(|it| it.header("tenure-sequence").parse().unwrap()).collect();
    assert_eq!(numbers, (1..=2 * EACH as u64).collect::<Vec<_>>(), "in the order of commits");
    for _ in 0..TRIES_MAX {
        let listed = one.get("/v1/effects?state=delivered&limit=1000").await;
        let delivered = listed.body["effects"].as_array().map_or(0, Vec::len);
        if delivered == 4 * EACH {
            break;
        }
        tokio::time::sleep(BETWEEN_TRIES).await;
    }
    let left: Value = one.get("/v1/effects?state=pending").await.body;
    assert_eq!(left["effects"], json!([]));
    receiver.assert_quiet();
    one.verify().await;
}
