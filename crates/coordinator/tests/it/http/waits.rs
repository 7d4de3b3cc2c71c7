//! Waiting for runs: one, many, and the one that was just submitted.
//!
//! A run that ends while its caller waits is answered from what its commit wrote. That answer has to be the one that the
//! store would give, and the store is not read for it.

mod database;

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use super::test_server::{Lease, PATIENCE, TestServer, both, counted, merged, run, seconds};

const LONG_MS: u64 = 30_000;

impl TestServer {
    async fn wait(&self, ids: &[&str], wait_ms: u64) -> Value {
        self.wait_as(&self.key, ids, wait_ms).await
    }

    async fn wait_as(&self, key: &str, ids: &[&str], wait_ms: u64) -> Value {
        self.post("/v1/waits", key, json!({"runIds": ids, "waitMs": wait_ms})).await.ok()
    }

    /// Waits until callers wait for so many tasks.
    async fn until_watched(&self, tasks: usize) {
        let watched = async {
            while self.coordinator.count_watched() != tasks {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(PATIENCE, watched).await.expect("that many are waited for");
    }

    /// Lets the coordinator keep runs from now on, as it does once the first caller has waited.
    async fn first_wait(&self) {
        self.wait(&["run_00000000000000000000000000"], 0).await;
    }

    /// A wait for the run, begun before `end` and answered after it.
    async fn ended_while_waiting(&self, id: &str, end: impl Future<Output = ()>) -> Value {
        let path = format!("/v1/runs/{id}?waitMs={LONG_MS}");
        let ending = async {
            self.until_watched(1).await;
            end.await;
        };
        let (waited, ()) = tokio::join!(self.get(&path), ending);
        waited.ok()
    }
}

fn ids(list: &Value) -> Vec<&str> {
    let id = |it: &'_ Value| it["runId"].as_str().or(it.as_str()).map(|text| text.len());
    let list = list.as_array().unwrap();
    assert!(list.iter().all(|it| id(it).is_some()));
    list.iter().map(|it| it["runId"].as_str().or(it.as_str()).unwrap()).collect()
}

fn without_time(mut run: Value) -> Value {
    run.as_object_mut().unwrap().remove("serverTime");
    run
}

#[tokio::test]
async fn a_run_that_ends_while_its_caller_waits_costs_no_read() {
    let (api, browse) = counted().await;
    api.first_wait().await;
    let lease = api.leased(json!({})).await;
    let before = browse.rows_read();
    let waited =
        api.ended_while_waiting(&lease.run, async { drop(api.succeed(&lease).await.ok()) });
    assert_eq!(waited.await["state"], "succeeded");
    assert_eq!(browse.rows_read(), before, "neither at the beginning nor at the end");

    let lease = api.leased(json!({})).await;
    let before = browse.rows_read();
    let ended = async {
        api.until_watched(1).await;
        api.succeed(&lease).await.ok();
    };
    let ids = [lease.run.as_str()];
    let (waited, ()) = tokio::join!(api.wait(&ids, LONG_MS), ended);
    assert_eq!(waited["ended"][0]["output"], json!({"rowCount": 1}));
    assert_eq!(browse.rows_read(), before);

    let before = browse.rows_read();
    let path = format!("/v1/runs?waitMs={LONG_MS}");
    let worked = async {
        api.until_watched(1).await;
        let lease = api.lease("w1").await;
        api.succeed(&lease).await.ok();
    };
    let (submitted, ()) = tokio::join!(api.post(&path, &api.key, run(json!({}))), worked);
    assert_eq!(submitted.body["run"]["state"], "succeeded", "{submitted:?}");
    assert_eq!(browse.rows_read(), before);
}

#[tokio::test]
async fn a_run_of_which_only_the_store_knows_costs_one_look() {
    let (api, browse) = counted().await;
    // Submitted before any caller waited, so it is not kept.
    let lease = api.leased(json!({})).await;
    let before = browse.rows_read();
    let looked = async {
        while browse.rows_read() == before {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        api.succeed(&lease).await.ok();
    };
    let waited = api.ended_while_waiting(&lease.run, looked).await;
    assert_eq!(waited["state"], "succeeded");
    assert_eq!(browse.rows_read(), before + 1, "the first entry, when the wait began");
}

/// How a run comes to its end, after it was submitted.
#[derive(Clone, Copy, Debug)]
enum Story {
    Succeeds,
    Fails,
    FailsTwice,
    IsCancelledInQueue,
    IsCancelledByForce,
    LosesItsWorker,
    GetsARefusal,
    IsDurable,
}

impl Story {
    const ALL: [Story; 8] = [
        Story::Succeeds,
        Story::Fails,
        Story::FailsTwice,
        Story::IsCancelledInQueue,
        Story::IsCancelledByForce,
        Story::LosesItsWorker,
        Story::GetsARefusal,
        Story::IsDurable,
    ];

    async fn tell(self, api: &TestServer, id: &str) {
        let error = json!({"category": "DATA_QUALITY", "message": "no", "stackTrace": "at 7"});
        let fails = json!({"outcome": "FAILED", "error": error});
        let cancel = |body| async move { drop(api.cancel(id, body).await.ok()) };
        match self {
            Story::Succeeds => drop(api.succeed(&api.lease("w1").await).await.ok()),
            Story::Fails => drop(api.complete(&api.lease("w1").await, fails).await.ok()),
            Story::FailsTwice => {
                api.fail(&api.lease("w1").await).await.ok();
                let second = api.lease("w2").await.by("w2");
                api.fail(&second).await.ok();
            }
            Story::IsCancelledInQueue => cancel(json!({"reason": "enough"})).await,
            Story::IsCancelledByForce => {
                api.lease("w1").await;
                cancel(json!({"force": true})).await;
            }
            Story::LosesItsWorker => {
                // Without a word from it the grant counts as undelivered, and the worker as not lost.
                api.started(&api.lease("w1").await).await.ok();
                api.pass(seconds(3)).await;
            }
            Story::GetsARefusal => {
                let lease = api.lease("w1").await;
                api.heartbeat(&lease.clone().by("another")).await;
                api.succeed(&lease).await.ok();
            }
            Story::IsDurable => durable(api, &api.lease("w1").await).await,
        }
    }
}

async fn durable(api: &TestServer, lease: &Lease) {
    let step = json!({"key": "a", "result": 1, "outcome": "SUCCEEDED"});
    let call = lease.said(json!({"steps": [step]}));
    api.call(lease, "checkpoints", call).await.ok();
    api.succeed(lease).await.ok();
}

#[tokio::test]
async fn an_answer_from_memory_is_the_one_that_the_store_gives() {
    let plain = json!({"maxAttempts": 2, "lostMax": 1, "retry": {"baseMs": 0, "capMs": 0}});
    let full = json!({
        "goal": "g", "labels": {"team": "a"}, "priority": 3, "assetId": "asset", "taskKey": "key",
        "input": {"n": [1, "two"]}, "seed": 7, "ttlMs": 60_000, "deadlineMs": 60_000,
        "budget": {"tokens": 100}, "flow": {"key": "c-7", "limit": 1},
        "stall": {"afterMs": 10_000, "action": "warn"}, "resources": {"timeoutMs": 50_000},
        "heartbeatIntervalMs": 1_000, "cancelGraceMs": 500,
    });
    let large = json!({"input": "x".repeat(20_000)});
    for api in both().await {
        api.first_wait().await;
        for story in Story::ALL {
            for (n, more) in [json!({}), full.clone(), large.clone()].into_iter().enumerate() {
                let id = api.submit(merged(plain.clone(), more)).await;
                let waited = api.ended_while_waiting(&id, story.tell(&api, &id)).await;
                let stored = api.get(&format!("/v1/runs/{id}")).await.ok();
                assert!(stored["completedAt"].is_string(), "{story:?} {n}: {stored}");
                assert_eq!(without_time(waited), without_time(stored), "{story:?} {n}");
            }
        }
    }
}

#[tokio::test]
async fn a_run_with_a_plan_is_answered_with_its_composed_output() {
    for api in both().await {
        api.first_wait().await;
        let steps = json!([{"key": "a", "kind": "k", "queue": "q", "input": 1}]);
        let id = api.post("/v1/runs", &api.key, json!({"plan": {"steps": steps}})).await;
        let id = id.text("runId");
        let waited = api.ended_while_waiting(&id, async {
            api.succeed(&api.lease("w1").await).await.ok();
        });
        let waited = without_time(waited.await);
        assert_eq!(waited, without_time(api.get(&format!("/v1/runs/{id}")).await.ok()));
        assert!(waited["plan"].is_array(), "{waited}");
    }
}

#[tokio::test]
async fn many_runs_are_waited_for_in_one_call() {
    for api in both().await {
        let done = api.leased(json!({"input": "secret"})).await;
        api.succeed(&done).await.ok();
        let open = api.submit(json!({})).await;
        let missing = "run_00000000000000000000000000";
        let foreign = api.post("/v1/runs", &api.foreign_key, run(json!({}))).await.text("runId");
        let asked = [open.as_str(), missing, &done.run, "nonsense", &foreign, &open, &done.run];
        // X13: a malformed id, a missing run and another tenant's run are told alike, and at once.
        let answer = api.wait(&asked, LONG_MS).await;
        assert_eq!(ids(&answer["ended"]), [done.run.as_str()]);
        assert_eq!(ids(&answer["pending"]), [open.as_str()]);
        let mut not_found = ids(&answer["notFound"]);
        not_found.sort_unstable();
        let mut expected = ["nonsense", missing, foreign.as_str()];
        expected.sort_unstable();
        assert_eq!(not_found, expected);
        let ended = &answer["ended"][0];
        assert_eq!((&ended["output"], ended.get("input")), (&json!({"rowCount": 1}), None));
        // Not one of them has ended: the time passes.
        let answer = api.wait(&[&open], 1).await;
        assert_eq!((ids(&answer["ended"]), ids(&answer["pending"])), (vec![], vec![open.as_str()]));
        // The first end answers for all, and what has not ended is named.
        let other = api.submit(json!({"queue": "other"})).await;
        let ending = async {
            api.until_watched(2).await;
            api.cancel(&open, json!({})).await.ok();
        };
        let (open, other) = (open.as_str(), other.as_str());
        let asked = [other, open];
        let (answer, ()) = tokio::join!(api.wait(&asked, LONG_MS), ending);
        assert_eq!((ids(&answer["ended"]), ids(&answer["pending"])), (vec![open], vec![other]));
        assert_eq!(api.coordinator.count_watched(), 0);
    }
}

#[tokio::test]
async fn a_limited_key_waits_for_runs_of_its_queues_only() {
    for api in both().await {
        let wanted = json!({"roles": ["reader"], "queues": ["other"]});
        let key = api.post("/v1/keys", &api.admin_key, wanted).await.text("secret");
        for first in [false, true] {
            // Once the run is looked up in the store, and once it is kept from its submission.
            if first {
                api.first_wait().await;
            }
            let hidden = api.submit(json!({})).await;
            let shown = api.submit(json!({"queue": "other"})).await;
            let answer = api.wait_as(&key, &[&hidden, &shown], LONG_MS).await;
            assert_eq!(ids(&answer["notFound"]), [hidden.as_str()]);
            assert_eq!(ids(&answer["pending"]), [shown.as_str()]);
        }
    }
}

#[tokio::test]
async fn a_wait_has_limits() {
    for api in both().await {
        let id = api.submit(json!({})).await;
        let many: Vec<String> = (0..257).map(|n| format!("run_{n}")).collect();
        for (body, field) in [
            (json!({"runIds": many}), "runIds"),
            (json!({"runIds": []}), "runIds"),
            (json!({"runIds": ["with space"]}), "runIds[0]"),
            (json!({"runIds": [id], "waitMs": 30_001}), "waitMs"),
            (json!({"runIds": [id], "wait": 1}), "wait"),
        ] {
            let refused = api.post("/v1/waits", &api.key, body).await;
            refused.problem(400, "invalid_argument").has("field", field);
        }
        assert_eq!(
            api.post("/v1/waits", &api.worker_key, json!({"runIds": [id]})).await.status,
            403
        );
        let over = api.post("/v1/runs?waitMs=30001", &api.key, run(json!({}))).await;
        over.problem(400, "invalid_argument").has("field", "waitMs");
        let batch = json!({"runs": [run(json!({}))]});
        let batch = api.post("/v1/runs?waitMs=1", &api.key, batch).await;
        batch.problem(400, "invalid_argument").has("field", "waitMs");
        assert_eq!(api.get("/v1/runs").await.ok()["runs"].as_array().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn an_answer_is_no_larger_than_its_limit() {
    const RUNS: usize = 20;
    for api in both().await {
        let mut left: Vec<String> = Vec::new();
        for _ in 0..RUNS {
            let lease = api.leased(json!({})).await;
            let output = json!({"outcome": "SUCCEEDED", "output": "x".repeat(255 * 1024)});
            api.complete(&lease, output).await.ok();
            left.push(lease.run);
        }
        let mut calls = 0;
        while !left.is_empty() {
            let asked: Vec<&str> = left.iter().map(String::as_str).collect();
            let answer = api.wait(&asked, LONG_MS).await;
            assert!(answer.to_string().len() <= 4 * 1024 * 1024 + 64 * 1024);
            assert!(!ids(&answer["ended"]).is_empty());
            assert_eq!(ids(&answer["ended"]).len() + ids(&answer["pending"]).len(), left.len());
            left = ids(&answer["pending"]).into_iter().map(str::to_owned).collect();
            calls += 1;
        }
        assert_eq!(calls, 2);
    }
}

#[tokio::test]
async fn a_submission_brings_its_end_along() {
    let path = format!("/v1/runs?waitMs={LONG_MS}");
    for api in both().await {
        let submitting = api.request("POST", &path).bearer_auth(&api.key);
        let submitting =
            submitting.header("idempotency-key", "k-1").json(&run(json!({"input": 1})));
        let again = submitting.try_clone().unwrap();
        let working = async {
            api.until_watched(1).await;
            let lease = api.lease("w1").await;
            api.succeed(&lease).await.ok();
        };
        let (submitted, ()) = tokio::join!(api.send(submitting), working);
        assert_eq!(submitted.status, 201, "{submitted:?}");
        submitted.has("state", "queued");
        let id = submitted.text("runId");
        let stored = without_time(api.get(&format!("/v1/runs/{id}")).await.ok());
        assert_eq!(without_time(submitted.body["run"].clone()), stored);
        let replayed = api.send(again).await;
        assert_eq!(replayed.status, 200);
        replayed.has("replayed", true).has("runId", id);
        assert_eq!(without_time(replayed.body["run"].clone()), stored);
        // A run that does not end in time is accepted all the same.
        let open = api.post("/v1/runs?waitMs=1", &api.key, run(json!({}))).await;
        assert_eq!((open.status, open.body.get("run")), (201, None));
        let plain = api.post("/v1/runs", &api.key, run(json!({}))).await;
        assert_eq!((plain.status, plain.body.get("run")), (201, None));
    }
}

#[tokio::test]
async fn a_server_that_stops_answers_those_who_wait() {
    let path = format!("/v1/runs?waitMs={LONG_MS}");
    for api in both().await {
        let id = api.submit(json!({})).await;
        let asked = [id.as_str()];
        let one = format!("/v1/runs/{id}?waitMs={LONG_MS}");
        let stopping = async {
            api.until_watched(2).await;
            api.drain();
        };
        let (submitted, many, one, ()) = tokio::join!(
            api.post(&path, &api.key, run(json!({}))),
            api.wait(&asked, LONG_MS),
            api.get(&one),
            stopping
        );
        assert_eq!((submitted.status, submitted.body.get("run")), (201, None));
        assert_eq!(ids(&many["pending"]), asked);
        one.has("state", "queued");
        assert_eq!(api.coordinator.count_watched(), 0);
    }
}

#[tokio::test]
async fn a_caller_that_leaves_leaves_nothing_behind() {
    for api in both().await {
        let id = api.submit(json!({})).await;
        let body = json!({"runIds": [id], "waitMs": LONG_MS}).to_string();
        let (key, length) = (&api.key, body.len());
        let mut gone = api.connect().await;
        let head = format!(
            "POST /v1/waits HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        gone.write_all(head.as_bytes()).await.unwrap();
        api.until_watched(1).await;
        drop(gone);
        api.until_watched(0).await;
        api.cancel(&id, json!({})).await.ok();
    }
}
