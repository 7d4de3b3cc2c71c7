//! Pausing a queue over HTTP: nothing is leased from it, everything else goes on, and it is shown and recorded.

use serde_json::{Value, json};

use super::test_server::{TestServer, both};

impl TestServer {
    async fn pause(&self, queue: &str, how: Value) -> Value {
        self.post(&format!("/v1/queues/{queue}/pause"), &self.admin_key, how).await.ok()
    }

    async fn resume(&self, queue: &str) -> Value {
        self.post(&format!("/v1/queues/{queue}/resume"), &self.admin_key, json!({})).await.ok()
    }

    /// How many tasks a poll of these queues gets.
    async fn count_leased(&self, queues: &[&str], wait_ms: u64) -> usize {
        let poll = json!({"workerId": "w1", "queues": queues, "max": 9, "waitMs": wait_ms});
        let leases = self.post("/v1/leases", &self.worker_key, poll).await.ok();
        leases["leases"].as_array().unwrap().len()
    }

    async fn gates(&self, run: &str) -> Vec<Value> {
        let explained = self.get(&format!("/v1/runs/{run}/explain")).await.ok();
        explained["gates"].as_array().unwrap().clone()
    }
}

#[tokio::test]
async fn a_paused_queue_leases_nothing_until_it_is_resumed() {
    for api in both().await {
        let before = api.submit(json!({})).await;
        let paused = api.pause("q", json!({"reason": "a migration"})).await;
        assert_eq!(paused["pause"]["reason"], "a migration", "{paused}");
        assert!(paused["pause"]["pausedAt"].is_string() && paused["pause"]["pausedBy"].is_string());
        let after = api.submit(json!({})).await;
        api.submit(json!({"queue": "other"})).await;
        assert_eq!(api.count_leased(&["q"], 0).await, 0);
        // A poll of several queues gets the tasks of the others.
        assert_eq!(api.count_leased(&["q", "other"], 0).await, 1);
        assert_eq!((api.state(&before).await, api.state(&after).await).0, "queued");
        let resumed = api.resume("q").await;
        assert!(resumed.get("pause").is_none(), "{resumed}");
        assert_eq!(api.count_leased(&["q"], 0).await, 2);
    }
}

#[tokio::test]
async fn a_poll_that_waits_is_served_when_the_queue_is_resumed() {
    for api in both().await {
        api.pause("q", json!({})).await;
        api.submit(json!({})).await;
        // The clock of these tests stands still, so only the resumption can end the wait with a task.
        let (leased, ()) = tokio::join!(api.count_leased(&["q"], 30_000), async {
            let waits = || async {
                let text = api.get("/metrics").await.body.as_str().unwrap_or_default().to_owned();
                text.contains("tenure_polls_waiting 1")
            };
            while !waits().await {
                tokio::task::yield_now().await;
            }
            api.resume("q").await;
        });
        assert_eq!(leased, 1);
    }
}

#[tokio::test]
async fn everything_but_leases_goes_on() {
    for api in both().await {
        let cancelled = api.submit(json!({})).await;
        let running = api.submit(json!({"leaseMs": 60_000})).await;
        let poll = json!({"workerId": "w1", "queues": ["q"], "max": 2});
        let leases = api.post("/v1/leases", &api.worker_key, poll).await.leases();
        api.pause("q", json!({})).await;
        let lease = leases.iter().find(|lease| lease.run == running).unwrap();
        let call = |verb: &str| format!("/v1/tasks/{}/{verb}", lease.task);
        let beat = json!({"attempt": 1, "workerId": "w1"});
        api.post(&call("heartbeat"), &lease.token, beat).await.ok();
        let report = json!({"attempt": 1, "workerId": "w1", "outcome": "SUCCEEDED"});
        api.post(&call("completed"), &lease.token, report).await.ok();
        assert_eq!(api.state(&running).await, "succeeded");
        let waiting = api.submit(json!({})).await;
        let deadline = json!({"deadline": deadline_in(&api, 5_000).await});
        let late = api.submit(deadline).await;
        for run in [&waiting, &cancelled] {
            let path = format!("/v1/runs/{run}/cancel");
            api.post(&path, &api.key, json!({"force": true})).await.ok();
            assert_eq!(api.state(run).await, "cancelled");
        }
        api.clock.advance(verdict::Span::from_millis(5_000));
        api.submit(json!({"queue": "other"})).await;
        let ended = api.get(&format!("/v1/runs/{late}?waitMs=10000")).await.ok();
        assert_eq!(ended["state"], "failed", "{ended}");
    }
}

async fn deadline_in(api: &TestServer, millis: i64) -> Value {
    let now = api.get("/v1/runs/run_x").await.text("serverTime");
    let now: wire::Time = serde_json::from_value(json!(now)).unwrap();
    serde_json::to_value(wire::Time::from_ms(now.as_ms() + millis)).unwrap()
}

#[tokio::test]
async fn a_pause_is_shown_explained_and_recorded() {
    for api in both().await {
        api.pause("empty", json!({})).await;
        let run = api.submit(json!({})).await;
        api.pause("q", json!({"reason": "a migration"})).await;
        // Again: the first pause stays as it is.
        let again = api.pause("q", json!({"reason": "another"})).await;
        assert_eq!(again["pause"]["reason"], "a migration");
        let queues = api.get("/v1/queues").await.ok()["queues"].clone();
        let names: Vec<&str> =
            queues.as_array().unwrap().iter().filter_map(|it| it["queue"].as_str()).collect();
        assert_eq!(names, ["empty", "q"], "{queues}");
        assert_eq!((&queues[0]["ready"], &queues[1]["ready"]), (&json!(0), &json!(1)));
        assert_eq!(queues[1]["pause"]["reason"], "a migration");
        let gates = api.gates(&run).await;
        assert_eq!(gates[0]["gate"], "queue_paused", "{gates:?}");
        let now = gates[0]["now"].as_str().unwrap();
        assert!(now.contains("is paused since") && now.ends_with(": a migration"), "{now}");
        api.resume("q").await;
        api.resume("q").await;
        assert!(api.gates(&run).await.iter().all(|gate| gate["gate"] != "queue_paused"));
        let audit = api.get_as("/v1/audit?limit=3", &api.admin_key).await.ok();
        let acts: Vec<(&str, &str)> =
            audit["entries"].as_array().unwrap().iter().map(act).collect();
        let expected = [("queue.resumed", "q"), ("queue.paused", "q"), ("queue.paused", "empty")];
        assert_eq!(acts, expected);
    }
}

fn act(entry: &Value) -> (&str, &str) {
    (entry["action"].as_str().unwrap(), entry["object"].as_str().unwrap())
}

#[tokio::test]
async fn administrators_pause_what_they_reach() {
    for api in both().await {
        // X13: a tenant's administrator pauses queues of its tenant only; names may need escaping.
        let path = "/v1/queues/a~b/pause";
        let elsewhere = json!({"tenantId": "default"});
        api.post(path, &api.foreign_key, elsewhere).await.problem(403, "forbidden");
        let own = api.post(path, &api.foreign_key, json!({})).await.ok();
        assert_eq!((&own["queue"], &own["tenantId"]), (&json!("a/b"), &json!("other")));
        let by_root = json!({"tenantId": "other"});
        let resumed = api.post("/v1/queues/a~b/resume", &api.admin_key, by_root).await.ok();
        assert!(resumed.get("pause").is_none());
        for key in [&api.client_key, &api.worker_key] {
            api.post("/v1/queues/q/pause", key, json!({})).await.problem(403, "forbidden");
        }
        let wrong = api.post("/v1/queues/a+b/pause", &api.admin_key, json!({})).await;
        wrong.problem(400, "invalid_argument").has("field", "queue");
    }
}
