//! Effects from the commit that decided them to a receiver, over real sockets, on both engines.

mod awaited;
mod crashes;
mod database;
pub(crate) mod receiver;

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use self::receiver::{DOWN, GONE, HANGS_UP, OK, Receiver};
use super::test_server::{TestServer, both, merged, seconds};

/// Between two looks at something that another task does.
const LOOK: Duration = Duration::from_millis(20);

/// More looks than a slow machine needs.
const LOOKS_MAX: usize = 3_000;

impl TestServer {
    pub(super) async fn endpoint(&self, name: &str, url: &str, more: Value) -> Value {
        let body = merged(json!({"name": name, "url": url, "retry": {"baseMs": 1000}}), more);
        self.post("/v1/endpoints", &self.admin_key, body).await.ok()
    }

    async fn end_run(&self) -> String {
        let lease = self.leased(json!({})).await;
        self.succeed(&lease).await.has("state", "succeeded");
        lease.run
    }

    pub(super) async fn effects(&self, filter: &str) -> Vec<Value> {
        let page = self.get_as(&format!("/v1/effects?{filter}"), &self.admin_key).await.ok();
        page["effects"].as_array().unwrap().clone()
    }

    /// Looks until an effect of the run is in this state.
    async fn effect_in(&self, run: &str, state: &str) -> Value {
        for _ in 0..LOOKS_MAX {
            let effects = self.effects(&format!("runId={run}")).await;
            if let Some(found) = effects.into_iter().find(|effect| effect["state"] == state) {
                return found;
            }
            tokio::time::sleep(LOOK).await;
        }
        panic!("no effect of {run} is {state}: {:?}", self.effects("").await);
    }

    /// Looks until a row is among the metrics.
    async fn counts(&self, row: &str) {
        for _ in 0..LOOKS_MAX {
            if self.get("/metrics").await.body.as_str().unwrap().contains(row) {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
        panic!("{row} is not counted");
    }

    async fn about_effect(&self, effect: &Value, verb: &str, body: Value) -> Value {
        let id = effect["effectId"].as_str().unwrap();
        self.post(&format!("/v1/effects/{id}/{verb}"), &self.admin_key, body).await.ok()
    }
}

#[tokio::test]
async fn the_end_of_a_run_arrives_signed_and_once() {
    // S2-71, S2-73, S2-45, D1, D3, D9: the intent is in the commit of the end, and the receiver can tell who says it.
    for api in both().await {
        let mut receiver = Receiver::start().await;
        let made = api.endpoint("crm", &receiver.url, json!({})).await;
        let secret = made["secret"].as_str().unwrap();
        let run = api.end_run().await;
        let delivery = receiver.next().await;
        assert_eq!(delivery.verify(secret), Ok(()));
        let body: Value = serde_json::from_str(&delivery.body).unwrap();
        assert_eq!(body["type"], "run.succeeded");
        assert_eq!(
            (&body["data"]["runId"], &body["data"]["state"]),
            (&json!(run), &json!("succeeded"))
        );
        assert_eq!(body["data"]["output"], json!({"rowCount": 1}));
        let effect = api.effect_in(&run, "delivered").await;
        assert_eq!(effect["effectId"], delivery.id());
        assert_eq!((&effect["sequence"], &effect["tries"]), (&json!(1), &json!(1)));
        let id = effect["effectId"].as_str().unwrap();
        let shown = api.get_as(&format!("/v1/effects/{id}"), &api.admin_key).await.ok();
        assert_eq!(shown["body"], body);
        let states: Vec<&Value> =
            shown["log"].as_array().unwrap().iter().map(|change| &change["state"]).collect();
        assert_eq!(states, ["pending", "in_flight", "delivered"]);
        receiver.assert_quiet();
        // Neither a list nor the audit shows the secret.
        let listed = api.get_as("/v1/endpoints", &api.admin_key).await.ok().to_string();
        let audit = api.get_as("/v1/audit", &api.admin_key).await.ok().to_string();
        assert!(!listed.contains(secret) && !audit.contains(secret));
        assert!(audit.contains("endpoint.created"), "{audit}");
    }
}

#[tokio::test]
async fn only_subscribers_are_told() {
    for api in both().await {
        let (mut failures, mut nothing) = (Receiver::start().await, Receiver::start().await);
        api.endpoint("failures", &failures.url, json!({"types": ["run.failed"]})).await;
        api.endpoint("nothing", &nothing.url, json!({"types": []})).await;
        let run = api.end_run().await;
        assert_eq!(api.effects(&format!("runId={run}")).await, Vec::<Value>::new());
        let lease = api.leased(json!({"maxAttempts": 1})).await;
        api.fail(&lease).await.has("state", "failed");
        let delivery = failures.next().await;
        assert!(delivery.body.contains("run.failed") && delivery.body.contains("USER_CODE"));
        api.effect_in(&lease.run, "delivered").await;
        failures.assert_quiet();
        nothing.assert_quiet();
    }
}

#[tokio::test]
async fn a_retry_has_the_same_id_and_bytes() {
    // S2-80, D3, D8: exponential backoff, and what is sent does not change.
    for api in both().await {
        let mut receiver = Receiver::start().await;
        receiver.answers(&[DOWN, DOWN, OK]);
        api.endpoint("crm", &receiver.url, json!({})).await;
        let run = api.end_run().await;
        let first = receiver.next().await;
        let waiting = api.effect_in(&run, "pending").await;
        assert_eq!((&waiting["tries"], &waiting["lastTry"]["status"]), (&json!(1), &json!(500)));
        assert_eq!(waiting["lastTry"]["note"], "oops");
        receiver.assert_quiet();
        api.pass(seconds(2)).await;
        let second = receiver.next().await;
        api.pass(seconds(4)).await;
        let third = receiver.next().await;
        for again in [&second, &third] {
            assert_eq!((again.id(), &again.body), (first.id(), &first.body));
        }
        api.effect_in(&run, "delivered").await;
        receiver.assert_quiet();
        for row in [r#"{outcome="retried"} 2"#, r#"{outcome="delivered"} 1"#] {
            api.counts(&format!("tenure_effect_tries_total{row}")).await;
        }
    }
}

#[tokio::test]
async fn what_fails_for_good_is_dead_until_somebody_redrives_it() {
    // S2-74, R-21, W-8: the maximum of tries is in force.
    for api in both().await {
        let mut receiver = Receiver::start().await;
        receiver.answers(&[DOWN, DOWN]);
        api.endpoint("crm", &receiver.url, json!({"maxTries": 2})).await;
        let run = api.end_run().await;
        receiver.next().await;
        api.effect_in(&run, "pending").await;
        api.pass(seconds(2)).await;
        receiver.next().await;
        let dead = api.effect_in(&run, "dead").await;
        assert_eq!((&dead["reason"], &dead["blocks"]), (&json!("tries_exhausted"), &json!(true)));
        // The counts of the metrics are read again after a pause.
        api.counts("tenure_effects_dead 1\n").await;
        api.about_effect(&dead, "redrive", json!({})).await;
        receiver.next().await;
        let delivered = api.effect_in(&run, "delivered").await;
        let id = delivered["effectId"].as_str().unwrap();
        let again = format!("/v1/effects/{id}/redrive");
        let refused = api.post(&again, &api.admin_key, json!({})).await;
        refused.problem(409, "effect_state_mismatch");
        // Many at once, from a time on.
        receiver.answers(&[DOWN, DOWN]);
        let other = api.end_run().await;
        receiver.next().await;
        api.effect_in(&other, "pending").await;
        api.pass(seconds(2)).await;
        receiver.next().await;
        let dead = api.effect_in(&other, "dead").await;
        let redrive = |since: &Value| json!({"endpoint": "crm", "since": since});
        let future = json!("2100-01-01T00:00:00.000Z");
        let none = api.post("/v1/effects/redrive", &api.admin_key, redrive(&future)).await;
        none.has("redriven", 0);
        let some =
            api.post("/v1/effects/redrive", &api.admin_key, redrive(&dead["decidedAt"])).await;
        some.has("redriven", 1).has("more", false);
        receiver.next().await;
        api.effect_in(&other, "delivered").await;
    }
}

#[tokio::test]
async fn whatever_becomes_of_its_deliveries_nothing_of_a_run_changes() {
    // S2-14, S2-77, S2-78: tried, given up, redriven and delivered, and the run is byte for byte what it was.
    for api in both().await {
        let mut receiver = Receiver::start().await;
        receiver.answers(&[DOWN, DOWN]);
        api.endpoint("crm", &receiver.url, json!({"maxTries": 2})).await;
        let run = api.end_run().await;
        receiver.next().await;
        let shown = async || {
            let all = ["", "/history", "/record"].map(|part| format!("/v1/runs/{run}{part}"));
            let mut texts = Vec::new();
            for path in all {
                let mut shown = api.get(&path).await.ok();
                shown.as_object_mut().unwrap().remove("serverTime");
                texts.push(shown.to_string());
            }
            texts
        };
        let before = shown().await;
        api.effect_in(&run, "pending").await;
        assert_eq!(shown().await, before);
        api.pass(seconds(2)).await;
        receiver.next().await;
        let dead = api.effect_in(&run, "dead").await;
        assert_eq!(shown().await, before);
        api.about_effect(&dead, "redrive", json!({})).await;
        receiver.next().await;
        api.effect_in(&run, "delivered").await;
        assert_eq!(shown().await, before);
    }
}

#[tokio::test]
async fn a_receiver_that_is_gone_disables_its_endpoint() {
    // D10
    for api in both().await {
        let mut receiver = Receiver::start().await;
        receiver.answers(&[GONE]);
        api.endpoint("crm", &receiver.url, json!({})).await;
        let run = api.end_run().await;
        receiver.next().await;
        let dead = api.effect_in(&run, "dead").await;
        assert_eq!(dead["reason"], "gone");
        let shown = api.get_as("/v1/endpoints/crm", &api.admin_key).await.ok();
        assert_eq!(shown["state"], "disabled");
        assert!(shown["disabledBecause"].as_str().unwrap().contains("410"), "{shown}");
        let waiting = api.end_run().await;
        api.effect_in(&waiting, "pending").await;
        receiver.assert_quiet();
        let enabled = api.post("/v1/endpoints/crm", &api.admin_key, json!({"enabled": true})).await;
        enabled.has("state", "enabled");
        receiver.next().await;
        api.effect_in(&waiting, "delivered").await;
    }
}

#[tokio::test]
async fn a_call_without_an_answer_is_unknown_where_it_must_not_be_repeated() {
    // R-20: HTTP cannot say whether it arrived, so a person does.
    for api in both().await {
        let mut receiver = Receiver::start().await;
        receiver.answers(&[HANGS_UP, HANGS_UP]);
        api.endpoint("bank", &receiver.url, json!({"idempotent": false})).await;
        let (first, second) = (api.end_run().await, api.end_run().await);
        receiver.take(2).await;
        let unknown = api.effect_in(&first, "unknown").await;
        let other = api.effect_in(&second, "unknown").await;
        api.pass(seconds(120)).await;
        receiver.assert_quiet();
        api.about_effect(&unknown, "reconcile", json!({"arrived": true})).await;
        api.effect_in(&first, "delivered").await;
        receiver.assert_quiet();
        api.about_effect(&other, "reconcile", json!({"arrived": false})).await;
        assert_eq!(receiver.next().await.id(), other["effectId"].as_str().unwrap());
        api.effect_in(&second, "delivered").await;
        let refused = format!("/v1/effects/{}/reconcile", other["effectId"].as_str().unwrap());
        let refused = api.post(&refused, &api.admin_key, json!({"arrived": true})).await;
        refused.problem(409, "effect_state_mismatch");
    }
}

#[tokio::test]
async fn after_a_rotation_both_secrets_verify_for_a_time() {
    // D9
    for api in both().await {
        let mut receiver = Receiver::start().await;
        let made = api.endpoint("crm", &receiver.url, json!({})).await;
        let old = made["secret"].as_str().unwrap().to_owned();
        let rotated = api
            .post("/v1/endpoints/crm/rotate", &api.admin_key, json!({"overlapMs": 60_000}))
            .await;
        let new = rotated.text("secret");
        api.end_run().await;
        let delivery = receiver.next().await;
        assert_eq!((delivery.verify(&old), delivery.verify(&new)), (Ok(()), Ok(())));
        api.pass(seconds(61)).await;
        api.end_run().await;
        let delivery = receiver.next().await;
        assert!(delivery.verify(&old).is_err());
        assert_eq!(delivery.verify(&new), Ok(()));
    }
}

/// Forty quick deliveries on a busy machine, and four calls that are given up.
const ALL_ARRIVE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_dead_endpoint_delays_no_other() {
    // D5, F75, F76
    for api in both().await {
        let (mut well, dead) = (Receiver::start().await, Receiver::start().await);
        // Nobody answers there: the listener is open, and what it accepts is never read.
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", silent.local_addr().unwrap());
        api.endpoint("silent", &url, json!({"concurrency": 2})).await;
        // One after the other: those that wait for the end of a call to the silent one would take ten minutes.
        api.endpoint("well", &well.url, json!({"concurrency": 1})).await;
        drop(dead);
        let mut runs = BTreeSet::new();
        for _ in 0..40 {
            runs.insert(api.end_run().await);
        }
        let arrived = tokio::time::timeout(ALL_ARRIVE, well.take(40)).await;
        let arrived = arrived.expect("no delivery waits for another endpoint");
        let told: BTreeSet<String> = arrived.iter().map(run_of).collect();
        assert_eq!(told, runs);
        assert!(api.effects("endpoint=silent&state=delivered").await.is_empty());
        assert_eq!(api.effects("endpoint=silent&limit=1000").await.len(), 40);
    }
}

fn run_of(delivery: &receiver::Delivery) -> String {
    let body: Value = serde_json::from_str(&delivery.body).unwrap();
    body["data"]["runId"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn thousands_of_ends_arrive_once_each() {
    // D2, D7: at the sizes that users have.
    const RUNS: usize = 2_000;
    for api in both().await {
        let mut receiver = Receiver::start().await;
        let limits = json!({"concurrency": 64});
        api.endpoint("crm", &receiver.url, limits).await;
        let mut left = RUNS;
        while left > 0 {
            let some = left.min(100);
            let run = json!({"kind": "resize", "queue": "q", "leaseMs": 600_000});
            let runs = vec![run; some];
            api.post("/v1/runs", &api.key, json!({ "runs": runs })).await.ok();
            let lease = json!({"workerId": "w1", "queues": ["q"], "max": some});
            let leases = api.post("/v1/leases", &api.key, lease).await.leases();
            let report = |lease: &super::test_server::Lease| {
                let said = lease.said(json!({"outcome": "SUCCEEDED"}));
                merged(json!({"taskId": lease.task, "taskToken": lease.token}), said)
            };
            let reports: Vec<Value> = leases.iter().map(report).collect();
            api.post("/v1/reports", &api.key, json!({ "reports": reports })).await.ok();
            left -= leases.len();
        }
        let deliveries = receiver.take(RUNS).await;
        let ids: BTreeSet<&str> = deliveries.iter().map(receiver::Delivery::id).collect();
        assert_eq!(ids.len(), RUNS);
        for _ in 0..LOOKS_MAX {
            if api.effects("state=in_flight").await.is_empty() {
                break;
            }
            tokio::time::sleep(LOOK).await;
        }
        assert!(api.effects("state=pending").await.is_empty());
        receiver.assert_quiet();
    }
}

#[tokio::test]
async fn a_deleted_endpoint_gives_up_its_effects_and_its_name() {
    for api in both().await {
        let mut receiver = Receiver::start().await;
        receiver.answers(&[DOWN]);
        api.endpoint("crm", &receiver.url, json!({})).await;
        let run = api.end_run().await;
        receiver.next().await;
        api.effect_in(&run, "pending").await;
        api.post("/v1/endpoints/crm/delete", &api.admin_key, json!({}))
            .await
            .has("state", "deleted");
        api.pass(seconds(3)).await;
        let dead = api.effect_in(&run, "dead").await;
        assert_eq!((&dead["reason"], &dead["blocks"]), (&json!("endpoint_deleted"), &json!(false)));
        let gone = api.get_as("/v1/endpoints/crm", &api.admin_key).await;
        gone.problem(404, "endpoint_not_found");
        receiver.assert_quiet();
    }
}

#[tokio::test]
async fn addresses_inside_are_refused_when_an_endpoint_is_registered() {
    // X34, 8.9: the operator of this server allows 127.0.0.0/8 and nothing else.
    for api in both().await {
        let own = format!("http://{}/", api.address);
        for url in
            ["http://10.0.0.1/", "http://169.254.169.254/", "https://[::1]/", "ftp://x/", &own]
        {
            let body = json!({"name": "x", "url": url});
            let got = api.post("/v1/endpoints", &api.admin_key, body).await;
            got.problem(400, "invalid_argument").has("field", "url");
        }
        api.endpoint("x", "https://example.com/in", json!({})).await;
        let again = json!({"name": "x", "url": "https://example.com/in"});
        let again = api.post("/v1/endpoints", &api.admin_key, again).await;
        again.problem(409, "endpoint_exists");
        // Only administrators register; another tenant does not see it.
        let body = json!({"name": "y", "url": "https://example.com/in"});
        api.post("/v1/endpoints", &api.client_key, body).await.problem(403, "forbidden");
        let foreign = api.get_as("/v1/endpoints", &api.foreign_key).await.ok();
        assert_eq!(foreign["endpoints"], json!([]));
    }
}

/// A step with one effect of the aggregate `order-7`.
fn paid(number: u32) -> Value {
    json!({
        "steps": [{"key": format!("charge#{number}"), "outcome": "SUCCEEDED", "result": number}],
        "effects": [{"key": "mail", "step": format!("charge#{number}"), "endpoint": "mailer",
            "type": "order.paid", "aggregate": "order-7", "body": {"n": number}}],
    })
}

#[tokio::test]
async fn effects_of_steps_are_recorded_once_and_arrive_in_order() {
    // S2-76, R-21, D1, D4, D6: commit order is the order at the receiver, although the first try of the first one fails.
    for api in both().await {
        let mut receiver = Receiver::start().await;
        receiver.answers(&[DOWN]);
        api.endpoint("mailer", &receiver.url, json!({"types": []})).await;
        let (first, second) = (api.leased(json!({})).await, api.leased(json!({})).await);
        api.checkpoint(&first, paid(1)).await.has("replayed", false);
        // The same call again asks for nothing new; the same step with another effect is a conflict.
        api.checkpoint(&first, paid(1)).await.has("replayed", true);
        let mut other = paid(1);
        other["effects"][0]["body"] = json!(2);
        api.checkpoint(&first, other).await.problem(409, "conflicting_step");
        api.checkpoint(&second, paid(2)).await.has("replayed", false);
        api.checkpoint(&first, paid(3)).await.has("replayed", false);
        let last = merged(paid(4), json!({"outcome": "SUCCEEDED"}));
        api.complete(&second, last).await.has("state", "succeeded");
        let failed = receiver.next().await;
        api.effect_in(&first.run, "pending").await;
        assert_eq!(api.effects("state=queued").await.len(), 3);
        receiver.assert_quiet();
        api.pass(seconds(2)).await;
        let deliveries = receiver.take(4).await;
        assert_eq!((failed.id(), &failed.body), (deliveries[0].id(), &deliveries[0].body));
        for (n, delivery) in deliveries.iter().enumerate() {
            let number = n + 1;
            assert_eq!(delivery.body, format!(r#"{{"n":{number}}}"#));
            assert_eq!(delivery.header("tenure-sequence"), number.to_string());
            assert_eq!(delivery.header("tenure-aggregate"), "order-7");
        }
        api.effect_in(&second.run, "delivered").await;
    }
}

#[tokio::test]
async fn a_skipped_effect_is_a_gap_that_the_receiver_sees() {
    // D6, R-21
    for api in both().await {
        let mut receiver = Receiver::start().await;
        receiver.answers(&[DOWN]);
        let terms = json!({"types": [], "maxTries": 1, "onDead": "skip"});
        api.endpoint("mailer", &receiver.url, terms).await;
        let lease = api.leased(json!({})).await;
        api.checkpoint(&lease, paid(1)).await.ok();
        receiver.next().await;
        api.effect_in(&lease.run, "dead").await;
        api.checkpoint(&lease, paid(2)).await.ok();
        let delivery = receiver.next().await;
        assert_eq!((delivery.header("tenure-sequence"), delivery.header("tenure-gap")), ("2", "1"));
    }
}

#[tokio::test]
async fn a_blocking_effect_lets_its_aggregate_go_on_when_a_person_says_so() {
    // R-21
    for api in both().await {
        let mut receiver = Receiver::start().await;
        receiver.answers(&[DOWN]);
        api.endpoint("mailer", &receiver.url, json!({"types": [], "maxTries": 1})).await;
        let lease = api.leased(json!({})).await;
        api.checkpoint(&lease, paid(1)).await.ok();
        receiver.next().await;
        let dead = api.effect_in(&lease.run, "dead").await;
        api.checkpoint(&lease, paid(2)).await.ok();
        let queued = api.effect_in(&lease.run, "queued").await;
        assert_eq!(queued["sequence"], 2);
        receiver.assert_quiet();
        api.about_effect(&dead, "release", json!({})).await;
        assert_eq!(receiver.next().await.header("tenure-sequence"), "2");
        // What was passed can still be sent, out of its turn.
        api.about_effect(&dead, "redrive", json!({})).await;
        let late = receiver.next().await;
        assert_eq!((late.header("tenure-sequence"), late.header("tenure-gap")), ("1", ""));
    }
}

#[tokio::test]
async fn people_are_told_that_they_are_asked_and_what_came_of_it() {
    for api in both().await {
        let mut receiver = Receiver::start().await;
        api.endpoint("chat", &receiver.url, json!({"types": ["approval.*"]})).await;
        api.endpoint("crm", &receiver.url, json!({"types": ["run.failed"]})).await;
        let (ann_id, ann) = api.key_with(json!(["approver"])).await;
        let (_, bob) = api.key_with(json!(["approver"])).await;
        let ask = json!({"subject": "Pay?", "quorum": 2, "content": {"cents": 5}});
        let plan = json!({"plan": {"steps": [{"key": "ask", "approval": ask}]}});
        let run = api.post("/v1/runs", &api.key, plan).await.text("runId");
        let told = |body: &str| serde_json::from_str::<Value>(body).unwrap();
        let opened = told(&receiver.next().await.body);
        assert_eq!(opened["type"], "approval.opened");
        let data = &opened["data"];
        assert_eq!((&data["runId"], &data["subject"]), (&json!(run), &json!("Pay?")));
        assert_eq!((&data["hasContent"], &data["voted"]), (&json!(true), &json!([])));
        assert!(!opened.to_string().contains("cents"), "what is approved stays: {opened}");
        let id = data["approvalId"].as_str().unwrap();
        assert_eq!(data["consolePath"], format!("inbox/{id}"));
        assert!(data["text"].as_str().unwrap().contains(id), "{opened}");
        // A vote that decides nothing is told to nobody.
        let word = json!({"decision": "APPROVED", "digest": data["digest"]});
        api.decide(id, &ann, word.clone()).await.has("state", "pending");
        api.decide(id, &bob, word).await.has("state", "closed");
        let decided = told(&receiver.next().await.body);
        assert_eq!(decided["type"], "approval.decided");
        assert_eq!(decided["data"]["outcome"], "APPROVED");
        assert_eq!(decided["data"]["voted"][0], json!(ann_id));
        receiver.assert_quiet();
        // Nobody decides in time.
        let late = json!({"plan": {"steps": [{"key": "ask", "approval": {"expiresInMs": 1_000}}]}});
        api.post("/v1/runs", &api.key, late).await.ok();
        assert_eq!(told(&receiver.next().await.body)["type"], "approval.opened");
        api.pass(seconds(2)).await;
        let kinds =
            [receiver.next().await, receiver.next().await].map(|it| told(&it.body)["type"].clone());
        assert!(kinds.contains(&json!("approval.expired")) && kinds.contains(&json!("run.failed")));
    }
}
