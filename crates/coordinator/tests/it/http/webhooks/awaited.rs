//! A durable run waits for what becomes of its effect: whenever the delivery ends, the run is told once.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::test_server::{Lease, TestServer, both, merged, seconds};
use super::receiver::{DOWN, HANGS_UP, Receiver};
use super::{LOOK, LOOKS_MAX, paid};

fn waiting(number: u32) -> Value {
    let step = format!("charge#{number}");
    json!({"wait": {"key": format!("w#{number}"), "mode": "all",
        "for": [{"key": format!("told#{number}"), "effect": {"step": step, "key": "mail"}}]}})
}

impl TestServer {
    /// The next lease, once the run goes on.
    async fn resumed(&self) -> Lease {
        for _ in 0..LOOKS_MAX {
            if let Some(lease) = self.poll("w1").await.pop() {
                return lease;
            }
            tokio::time::sleep(LOOK).await;
        }
        panic!("no run goes on");
    }

    /// Looks until nobody is left to be told.
    async fn explained(&self, run: &str) -> String {
        self.get(&format!("/v1/runs/{run}/explain")).await.ok().to_string()
    }
}

/// What the wait with this number told, as the next attempt reads it.
fn told(lease: &Lease, number: u32) -> Value {
    let records = lease.envelope["checkpoints"].as_array().unwrap();
    let wait = records.iter().find(|it| it["key"] == format!("w#{number}")).unwrap();
    let signal = &wait["wait"]["signals"][0];
    assert_eq!(signal["key"], format!("told#{number}"));
    signal["payload"].clone()
}

#[tokio::test]
async fn a_run_goes_on_when_its_effect_was_delivered_after_the_call_that_waits() {
    for api in both().await {
        let mut receiver = Receiver::start().await;
        receiver.answers(&[DOWN]);
        api.endpoint("mailer", &receiver.url, json!({"types": []})).await;
        let lease = api.leased(json!({})).await;
        let call = merged(paid(1), waiting(1));
        api.checkpoint(&lease, call.clone()).await.has("state", "waiting");
        // The same call again has its answer again, and nobody is told twice for it.
        api.checkpoint(&lease, call).await.has("state", "waiting").has("replayed", true);
        receiver.next().await;
        let shown = api.run(&lease.run).await;
        let item = &shown["durable"]["waiting"]["wait"]["for"][0];
        assert_eq!(item["effect"], "told#1", "{shown}");
        let explained = api.explained(&lease.run).await;
        assert!(explained.contains("waits for the delivery of eff_"), "{explained}");
        assert!(explained.contains("to `mailer`"), "{explained}");
        assert_eq!(api.poll("w1").await.len(), 0, "it was not delivered yet");
        let effect = api.effect_in(&lease.run, "pending").await;
        api.pass(seconds(2)).await;
        receiver.next().await;
        let next = api.resumed().await;
        let told = told(&next, 1);
        assert_eq!(told["outcome"], "DELIVERED");
        assert_eq!(told["effectId"], effect["effectId"]);
        api.succeed(&next).await.has("state", "succeeded");
    }
}

#[tokio::test]
async fn a_run_is_told_of_a_delivery_that_ended_before_it_waited_and_again_by_a_later_wait() {
    for api in both().await {
        let mut receiver = Receiver::start().await;
        api.endpoint("mailer", &receiver.url, json!({"types": []})).await;
        let lease = api.leased(json!({})).await;
        api.checkpoint(&lease, paid(1)).await.has("state", "running");
        receiver.next().await;
        api.effect_in(&lease.run, "delivered").await;
        api.checkpoint(&lease, waiting(1)).await.has("state", "waiting");
        let next = api.resumed().await;
        assert_eq!(told(&next, 1)["outcome"], "DELIVERED");
        // Another wait for the same effect, beside a time that has not come: the winner is recorded.
        let again = json!({"wait": {"key": "w#2", "mode": "any", "for": [
            {"key": "late#1", "until": "2100-01-01T00:00:00.000Z"},
            {"key": "told#2", "effect": {"step": "charge#1", "key": "mail"}}]}});
        api.checkpoint(&next, again).await.has("state", "waiting");
        let last = api.resumed().await;
        assert_eq!(told(&last, 2)["outcome"], "DELIVERED");
        let steps = api.steps(&lease.run).await;
        let wait = steps.iter().find(|it| it["key"] == "w#2").unwrap();
        assert_eq!(wait["wait"]["winner"], "told#2");
        receiver.assert_quiet();
    }
}

#[tokio::test]
async fn a_failure_and_not_knowing_are_told_as_values() {
    for api in both().await {
        let receiver = Receiver::start().await;
        receiver.answers(&[DOWN, HANGS_UP]);
        let terms = json!({"types": [], "maxTries": 1, "onDead": "skip", "idempotent": false});
        api.endpoint("mailer", &receiver.url, terms).await;
        let lease = api.leased(json!({})).await;
        api.checkpoint(&lease, merged(paid(1), waiting(1))).await.has("state", "waiting");
        let next = api.resumed().await;
        let failed = told(&next, 1);
        assert_eq!(
            (&failed["outcome"], &failed["reason"]),
            (&json!("FAILED"), &json!("tries_exhausted"))
        );
        api.checkpoint(&next, merged(paid(2), waiting(2))).await.has("state", "waiting");
        let next = api.resumed().await;
        assert_eq!(told(&next, 2)["outcome"], "UNKNOWN");
        // A person finds out, and a later wait is told that.
        let unknown = api.effect_in(&lease.run, "unknown").await;
        api.about_effect(&unknown, "reconcile", json!({"arrived": true})).await;
        let again = json!({"wait": {"key": "w#3", "mode": "all",
            "for": [{"key": "told#3", "effect": {"step": "charge#2", "key": "mail"}}]}});
        api.checkpoint(&next, again).await.has("state", "waiting");
        let last = api.resumed().await;
        assert_eq!(told(&last, 3)["outcome"], "DELIVERED");
    }
}

#[tokio::test]
async fn nobody_waits_for_an_effect_that_was_never_declared() {
    for api in both().await {
        let lease = api.leased(json!({})).await;
        let refused = api.checkpoint(&lease, waiting(1)).await;
        refused.problem(400, "invalid_argument").has("field", "wait.for");
        // Another task's effect is not this task's, whatever it is called.
        let receiver = Receiver::start().await;
        api.endpoint("mailer", &receiver.url, json!({"types": []})).await;
        let other = api.leased(json!({})).await;
        api.checkpoint(&other, paid(1)).await.ok();
        api.checkpoint(&lease, waiting(1)).await.problem(400, "invalid_argument");
        api.succeed(&lease).await.has("state", "succeeded");
    }
}

#[tokio::test]
async fn six_hundred_runs_wait_for_their_effects_and_each_is_told() {
    // More than two looks of the teller, on the engine that writes to a file.
    const RUNS: usize = 600;
    let [_, api] = both().await;
    let mut receiver = Receiver::start().await;
    api.endpoint("mailer", &receiver.url, json!({"types": [], "concurrency": 64})).await;
    api.post("/v1/endpoints/mailer", &api.admin_key, json!({"enabled": false})).await.ok();
    for n in 0..RUNS {
        let lease = api.leased(json!({})).await;
        let mut call = merged(paid(1), waiting(1));
        call["effects"][0]["aggregate"] = json!(format!("order-{n}"));
        api.checkpoint(&lease, call).await.has("state", "waiting");
    }
    assert_eq!(api.poll("w1").await.len(), 0, "nothing was sent");
    api.post("/v1/endpoints/mailer", &api.admin_key, json!({"enabled": true})).await.ok();
    receiver.take(RUNS).await;
    let mut runs = BTreeSet::new();
    for _ in 0..LOOKS_MAX {
        for next in api.poll("w1").await {
            assert_eq!(told(&next, 1)["outcome"], "DELIVERED");
            assert!(runs.insert(next.run), "a run goes on once");
        }
        if runs.len() == RUNS {
            return;
        }
    }
    panic!("only {} runs go on", runs.len());
}
