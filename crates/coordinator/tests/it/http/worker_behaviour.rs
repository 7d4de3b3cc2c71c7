//! Workers that break the contract, fall silent for a while, or send everything twice.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use verdict::Span;

use super::test_server::{TestServer, both, merged, run, seconds};

#[tokio::test]
async fn a_worker_that_breaks_the_contract_harms_only_itself() {
    for api in both().await {
        // Proves: S3-5, S3-6: whatever a worker does without authority, an honest one's lease, run and reports are as if it
        // were not there; and what it should have done is done by another.
        let honest = api.leased(json!({"leaseMs": 60_000})).await;
        api.started(&honest).await.ok();
        api.submit(json!({})).await;
        let rogue = api.lease("rogue").await.by("rogue");
        api.started(&rogue).await.ok();
        let before = api.run(&honest.run).await;
        for body in [
            rogue.said(
                json!({"outcome": "FAILED", "error": {"category": "USER_CODE", "message": "m"}}),
            ),
            honest.said(json!({"outcome": "SUCCEEDED"})),
            merged(rogue.said(json!({"outcome": "SUCCEEDED"})), json!({"attempt": 7})),
            json!({"outcome": "everything"}),
        ] {
            for call in ["started", "heartbeat", "completed"] {
                // With its own token, about the other worker's task.
                let path = format!("/v1/tasks/{}/{call}", honest.task);
                let got = api.post(&path, &rogue.token, body.clone()).await;
                assert!((400..500).contains(&got.status), "{call}: {got:?}");
            }
        }
        // About its own task: unknown attempts, two ends, work that it never began.
        let lied = merged(rogue.said(json!({"outcome": "SUCCEEDED"})), json!({"attempt": 9}));
        assert!(api.call(&rogue, "completed", lied).await.status >= 400);
        let bulk = json!({"heartbeats": vec![json!({"taskId": rogue.task}); 50]});
        api.post("/v1/heartbeats", &api.worker_key, bulk).await;
        assert_eq!(api.run(&honest.run).await, before, "nothing happened to the other's run");
        // It falls silent; its task goes to another worker, and its late report changes nothing.
        api.pass(seconds(3)).await;
        let heir = api.lease("heir").await.by("heir");
        assert_eq!((heir.run.as_str(), heir.attempt()), (rogue.run.as_str(), 2));
        api.succeed(&rogue).await.problem(409, "attempt_mismatch").has("verdict", "CANCELLED");
        api.succeed(&heir).await.has("verdict", "COMMITTED");
        api.heartbeat(&honest).await.has("verdict", "COMMITTED").has("shouldCancel", false);
        api.succeed(&honest).await.has("verdict", "COMMITTED").has("state", "succeeded");
        let after = api.run(&honest.run).await;
        assert_eq!(
            (&after["attempt"], &after["lost"], &after["failures"]),
            (&json!(1), &json!(0), &json!(0))
        );
    }
}

/// The worker sends nothing for this long, while time passes for the coordinator.
async fn cut_off(api: &TestServer, ms: u64) {
    api.pass(Span::from_millis(ms)).await;
}

#[tokio::test]
async fn a_partition_shorter_than_the_timeout_costs_no_honest_worker_its_lease() {
    for api in both().await {
        // Proves: S4-75: partitions again and again, each one instant shorter than the timeout.
        let lease = api.leased(json!({"leaseMs": 2_000})).await;
        api.started(&lease).await.ok();
        for _ in 0..5 {
            cut_off(&api, 1_999).await;
            api.heartbeat(&lease).await.has("verdict", "COMMITTED");
        }
        cut_off(&api, 1_999).await;
        assert!(api.poll("other").await.is_empty(), "nobody else gets it");
        api.succeed(&lease).await.has("verdict", "COMMITTED").has("state", "succeeded");
        let ended = api.run(&lease.run).await;
        assert_eq!((&ended["attempt"], &ended["lost"]), (&json!(1), &json!(0)));
        // A longer one counts as a death: with the short timeout, and not with a generous one.
        let (short, long) = (json!({"leaseMs": 2_000}), json!({"leaseMs": 10_000}));
        let short = api.leased(short).await;
        let long = api.leased(long).await;
        cut_off(&api, 2_400).await;
        api.heartbeat(&short).await.problem(410, "task_expired").has("verdict", "CANCELLED");
        api.heartbeat(&long).await.has("verdict", "COMMITTED");
    }
}

#[tokio::test]
async fn an_answer_of_cancelled_judges_no_result() {
    for api in both().await {
        // Proves: S3-27: a failure for good that comes too late is no failure of the task, and a success no success.
        let error = json!({"category": "DATA_QUALITY", "message": "bad rows", "retryable": false});
        let reports = [
            json!({"outcome": "FAILED", "error": error}),
            json!({"outcome": "SUCCEEDED", "output": 7}),
        ];
        for report in reports {
            let late = api.leased(json!({})).await;
            api.started(&late).await.ok();
            api.pass(seconds(3)).await;
            let answer = api.complete(&late, report).await;
            answer.problem(410, "task_expired").has("verdict", "CANCELLED");
            let run = api.run(&late.run).await;
            assert_eq!(
                (&run["state"], &run["failures"], &run["lost"]),
                (&json!("retry"), &json!(0), &json!(1))
            );
            assert!(run.get("output").is_none() && run.get("error").is_none(), "{run}");
            let next = api.lease("w2").await.by("w2");
            api.succeed(&next).await.has("verdict", "COMMITTED");
            assert_eq!(api.run(&late.run).await["output"], json!({"rowCount": 1}));
        }
    }
}

/// The run without its version, which every renewal changes, even one that changes nothing else.
fn unversioned(mut run: Value) -> Value {
    if let Some(lease) = run.get_mut("lease").and_then(Value::as_object_mut) {
        lease.remove("claimVersion");
    }
    run
}

/// A run and its history.
async fn shown(api: &TestServer, run: &str) -> (Value, Value) {
    let history = api.get(&format!("/v1/runs/{run}/history")).await.ok();
    (unversioned(api.run(run).await), history["entries"].clone())
}

#[tokio::test]
async fn every_call_may_come_twice() {
    for api in both().await {
        // Proves: S3-59: each call again, byte for byte; the second one changes nothing and is told what the first one was.
        let submission = run(json!({"idempotencyKey": "once"}));
        let submit = |body: Value| api.post("/v1/runs", &api.key, json!({"runs": [body]}));
        let first = submit(submission.clone()).await.ok();
        let again = submit(submission).await.ok();
        assert_eq!(first["results"][0]["runId"], again["results"][0]["runId"]);
        let poll = json!({"workerId": "w1", "queues": ["q"], "max": 5, "pollId": "poll-1"});
        let granted = api.post("/v1/leases", &api.key, poll.clone()).await.leases();
        let granted_again = api.post("/v1/leases", &api.key, poll).await.leases();
        let names = |leases: &[super::test_server::Lease]| {
            leases.iter().map(|lease| lease.envelope["leaseId"].clone()).collect::<Vec<_>>()
        };
        assert_eq!((granted.len(), names(&granted)), (1, names(&granted_again)));
        let lease = &granted[0];
        let calls = [
            ("started", lease.said(json!({}))),
            ("heartbeat", lease.said(json!({"progressPct": 5}))),
            ("completed", lease.said(json!({"outcome": "SUCCEEDED", "output": [1]}))),
        ];
        for (call, body) in &calls {
            let told = api.call(lease, call, body.clone()).await;
            assert_eq!((told.status, &told.body["verdict"]), (200, &json!("COMMITTED")), "{call}");
            let before = shown(&api, &lease.run).await;
            let told = api.call(lease, call, body.clone()).await;
            assert_eq!((told.status, &told.body["verdict"]), (200, &json!("COMMITTED")), "{call}");
            let after = shown(&api, &lease.run).await;
            assert_eq!(after, before, "{call} again changed something");
        }
        let other = api.submit(json!({})).await;
        api.cancel(&other, json!({})).await.ok();
        let before = shown(&api, &other).await;
        api.cancel(&other, json!({})).await.ok();
        assert_eq!(shown(&api, &other).await, before);
    }
}

#[tokio::test]
async fn a_lease_lasts_at_least_two_heartbeat_intervals() {
    for api in both().await {
        // Proves: S4-38: whatever a submission asks for, and whatever it leaves open.
        for lease_ms in [2_000_u64, 2_001, 10_000, 90_000, 86_400_000] {
            let lease = api.leased(json!({"leaseMs": lease_ms})).await;
            let interval = lease.envelope["heartbeatIntervalMs"].as_u64().unwrap();
            assert!(interval > 0 && 2 * interval <= lease_ms, "{lease_ms} and {interval}");
            assert_eq!(lease.envelope["heartbeatTimeoutMs"], lease_ms);
            api.succeed(&lease).await.ok();
        }
        let just = api.leased(json!({"leaseMs": 10_000, "heartbeatIntervalMs": 5_000})).await;
        assert_eq!(just.envelope["heartbeatIntervalMs"], 5_000);
        for (lease_ms, interval_ms) in [(10_000, 5_001), (2_000, 1_001), (90_000, 90_000)] {
            let wanted = run(json!({"leaseMs": lease_ms, "heartbeatIntervalMs": interval_ms}));
            let refused = api.post("/v1/runs", &api.key, wanted).await;
            refused.problem(400, "invalid_argument");
            assert!(refused.text("message").contains("heartbeatIntervalMs"), "{refused:?}");
        }
    }
}

#[tokio::test]
async fn a_timeout_is_tried_again_after_a_pause() {
    for api in both().await {
        // Proves: S4-63: retryable unless told otherwise, and not at once.
        let lease = api.leased(json!({"retry": {"baseMs": 4_000, "capMs": 4_000}})).await;
        let error = json!({"category": "TIMEOUT", "message": "took too long"});
        let ack = api.complete(&lease, json!({"outcome": "FAILED", "error": error})).await;
        ack.has("verdict", "COMMITTED").has("state", "retry");
        let waiting = api.run(&lease.run).await;
        assert_eq!(waiting["failures"], 1, "{waiting}");
        assert!(api.poll("eager").await.is_empty(), "the pause is not over");
        api.pass(seconds(10)).await;
        let next = api.lease("w2").await;
        assert_eq!((next.attempt(), next.run.as_str()), (2, lease.run.as_str()));
    }
}

/// Warnings logged on this thread, where the whole server runs.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

#[derive(Default)]
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, "{}={value:?} ", field.name()).unwrap();
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn a_mismatch_of_attempts_is_warned_of_and_changes_nothing() {
    let warnings = Warnings::default();
    let _listening = tracing::subscriber::set_default(warnings.clone());
    for api in both().await {
        // Proves: S4-67: for every call, and with both numbers.
        let first = api.leased(json!({})).await;
        api.started(&first).await.ok();
        api.pass(seconds(3)).await;
        let second = api.lease("w2").await.by("w2");
        let before = api.run(&first.run).await;
        warnings.0.lock().unwrap().clear();
        for got in
            [api.started(&first).await, api.heartbeat(&first).await, api.succeed(&first).await]
        {
            got.problem(409, "attempt_mismatch").has("verdict", "CANCELLED");
        }
        assert_eq!(api.run(&first.run).await, before);
        let told = warnings.0.lock().unwrap().clone();
        assert_eq!(told.len(), 3, "{told:?}");
        for line in told {
            assert!(line.contains("expected=2") && line.contains("received=1"), "{line}");
        }
        api.succeed(&second).await.has("verdict", "COMMITTED");
    }
}

#[tokio::test]
async fn a_worker_that_stops_hands_its_task_back_without_a_penalty() {
    for api in both().await {
        let lease = api.leased(json!({"maxAttempts": 1, "lostMax": 1})).await;
        api.started(&lease).await.ok();
        let ack = api.complete(&lease, json!({"outcome": "RELEASED"})).await;
        ack.has("verdict", "COMMITTED").has("finalState", "RELEASED").has("state", "retry");
        let run = api.run(&lease.run).await;
        assert_eq!((&run["failures"], &run["lost"]), (&json!(0), &json!(0)), "{run}");
        // The released attempt is over: its token opens nothing any more.
        api.heartbeat(&lease).await.problem(410, "task_expired");
        let again = api.complete(&lease, json!({"outcome": "RELEASED"})).await;
        again.has("verdict", "COMMITTED").has("replayed", true);
        let other = api.complete(&lease, json!({"outcome": "SUCCEEDED"})).await;
        other.problem(409, "conflicting_report");
        api.pass(seconds(1)).await;
        let next = api.lease("w1").await;
        assert_eq!(next.attempt(), 2);
        api.succeed(&next).await.ok();
        let record = api.get(&format!("/v1/runs/{}/record", lease.run)).await.ok();
        assert_eq!(record["attempts"][0]["outcome"], "RELEASED", "{record}");
        assert_eq!(api.state(&lease.run).await, "succeeded");
    }
}
