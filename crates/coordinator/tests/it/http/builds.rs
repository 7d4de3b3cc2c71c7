//! Durable runs that are pinned to the build that recorded something for them.

use serde_json::{Value, json};

use super::durable::step;
use super::test_server::{Lease, Response, TestServer, both, merged, seconds};

impl TestServer {
    /// Polls as a worker of this build, which announces that runs of `resize` stay with it.
    async fn poll_of(&self, build: &str, more: Value) -> Response {
        let resize = json!({"kind": "resize", "builds": "pin"});
        let said = json!({"id": build, "buildId": build, "kinds": [resize]});
        let poll =
            json!({"workerId": format!("w{build}"), "queues": ["q"], "max": 10, "announce": said});
        self.post("/v1/leases", &self.key, merged(poll, more)).await
    }

    async fn lease_of(&self, build: &str) -> Lease {
        let mut leases = self.poll_of(build, json!({})).await.leases();
        assert_eq!(leases.len(), 1, "exactly one run is offered to build {build}");
        leases.remove(0).by(&format!("w{build}"))
    }

    /// A run for which build 7 has recorded a step, and which it holds.
    async fn pinned_run(&self) -> Lease {
        self.submit(json!({})).await;
        let lease = self.lease_of("7").await;
        self.checkpoint(&lease, json!({"steps": [step("a", json!(1))]})).await.ok();
        lease
    }

    async fn hand_back(&self, lease: &Lease) {
        self.complete(lease, json!({"outcome": "RELEASED"})).await.ok();
        self.pass(seconds(2)).await;
    }

    async fn gates_of_run(&self, run: &str) -> Vec<Value> {
        let explained = self.get(&format!("/v1/runs/{run}/explain")).await.ok();
        explained["gates"].as_array().unwrap().clone()
    }

    async fn build_of(&self, run: &str) -> Value {
        self.run(run).await["durable"]["build"].clone()
    }
}

#[tokio::test]
async fn a_run_is_leased_to_the_build_that_recorded_something_for_it() {
    for api in both().await {
        let lease = api.pinned_run().await;
        assert_eq!(api.build_of(&lease.run).await, json!({"id": "7", "pinned": true}));
        api.hand_back(&lease).await;
        assert_eq!(api.state(&lease.run).await, "retry");
        // Neither a worker that announces nothing nor one of another build.
        assert!(api.poll("plain").await.is_empty());
        assert!(api.poll_of("8", json!({})).await.leases().is_empty());
        let again = api.lease_of("7").await;
        assert_eq!((again.run.as_str(), again.attempt()), (lease.run.as_str(), 2));
        assert_eq!(again.envelope["queue"], json!("q"));
        // A new run is free, and the build shows in the history.
        api.submit(json!({})).await;
        api.lease_of("8").await;
        let history = api.get(&format!("/v1/runs/{}/history", lease.run)).await.ok().to_string();
        assert!(history.contains("build_noted"), "{history}");
    }
}

#[tokio::test]
async fn a_lost_lease_returns_to_its_build_only() {
    for api in both().await {
        let lease = api.pinned_run().await;
        api.pass(seconds(4)).await;
        assert_eq!(api.state(&lease.run).await, "retry", "its worker was lost");
        assert!(api.poll("plain").await.is_empty());
        assert!(api.poll_of("8", json!({})).await.leases().is_empty());
        assert_eq!(api.lease_of("7").await.run, lease.run);
    }
}

#[tokio::test]
async fn before_the_first_record_every_build_may_take_a_run() {
    for api in both().await {
        let run = api.submit(json!({})).await;
        let lease = api.lease_of("7").await;
        assert_eq!(api.build_of(&run).await, json!({"id": "7", "pinned": false}));
        api.hand_back(&lease).await;
        assert_eq!(api.lease_of("8").await.run, run);
        assert_eq!(api.build_of(&run).await, json!({"id": "8", "pinned": false}));
    }
}

#[tokio::test]
async fn a_poll_that_waits_is_woken_by_a_run_of_its_build() {
    for api in both().await {
        let lease = api.pinned_run().await;
        let wait = json!({"key": "w", "mode": "all", "for": [{"key": "go", "signal": "go"}]});
        api.checkpoint(&lease, json!({"wait": wait})).await.has("state", "waiting");
        let signal = async {
            // The poll waits once it is listed.
            while !api.get("/v1/workers").await.ok().to_string().contains("\"w7\"") {
                tokio::task::yield_now().await;
            }
            let path = format!("/v1/runs/{}/signals", lease.run);
            api.post(&path, &api.key, json!({"name": "go"})).await
        };
        let (polled, signalled) = tokio::join!(api.poll_of("7", json!({"waitMs": 30_000})), signal);
        assert_eq!(signalled.status, 202);
        let leases = polled.leases();
        assert_eq!((leases.len(), leases[0].run.as_str()), (1, lease.run.as_str()));
    }
}

#[tokio::test]
async fn an_unpinned_run_is_continued_by_another_build() {
    for api in both().await {
        let lease = api.pinned_run().await;
        api.hand_back(&lease).await;
        let path = format!("/v1/runs/{}/unpin", lease.run);
        let unpinned = api.post(&path, &api.key, json!({})).await;
        assert_eq!(unpinned.status, 202);
        unpinned.has("runId", lease.run.as_str()).has("state", "retry");
        api.post(&path, &api.key, json!({})).await.problem(409, "not_pinned");
        assert_eq!(api.build_of(&lease.run).await, Value::Null);
        let next = api.lease_of("8").await;
        assert_eq!(next.run, lease.run);
        assert_eq!(api.build_of(&lease.run).await, json!({"id": "8", "pinned": true}));
        api.succeed(&next).await.ok();
        api.post(&path, &api.key, json!({})).await.problem(409, "run_already_terminal");
        assert_eq!(api.build_of(&lease.run).await, json!({"id": "8", "pinned": true}));
        let unknown = "/v1/runs/run_01ARZ3NDEKTSV4RRFFQ69G5FAV/unpin";
        api.post(unknown, &api.key, json!({})).await.problem(404, "run_not_found");
    }
}

#[tokio::test]
async fn explain_names_the_build_that_has_no_worker() {
    for api in both().await {
        let lease = api.pinned_run().await;
        api.hand_back(&lease).await;
        // Workers of another build, and of none, wait for work of its kind.
        let asked = async {
            let mut gates = Vec::new();
            while !api.get("/v1/workers").await.ok().to_string().contains("\"w8\"") {
                tokio::task::yield_now().await;
            }
            gates.extend(api.gates_of_run(&lease.run).await);
            api.submit(json!({})).await;
            gates
        };
        let (gates, polled) = tokio::join!(asked, api.poll_of("8", json!({"waitMs": 30_000})));
        assert_eq!(polled.leases().len(), 1, "the new run");
        assert_eq!(gates[0]["gate"], json!("no_worker_of_build"));
        let (now, change) = (gates[0]["now"].to_string(), gates[0]["change"].to_string());
        assert!(now.contains("pinned to build `7`"), "{now}");
        assert!(change.contains(&format!("tenure runs unpin {}", lease.run)), "{change}");
    }
}

#[tokio::test]
async fn a_paused_queue_pauses_its_pinned_runs() {
    for api in both().await {
        let lease = api.pinned_run().await;
        api.hand_back(&lease).await;
        api.post("/v1/queues/q/pause", &api.admin_key, json!({})).await.ok();
        assert!(api.poll_of("7", json!({})).await.leases().is_empty());
        api.post("/v1/queues/q/resume", &api.admin_key, json!({})).await.ok();
        assert_eq!(api.lease_of("7").await.run, lease.run);
    }
}

#[tokio::test]
async fn a_pin_needs_the_name_of_a_build_and_no_queue_can_be_named_like_one() {
    for api in both().await {
        let kinds = json!([{"kind": "resize", "builds": "pin"}]);
        let poll = json!({"workerId": "w", "queues": ["q"], "max": 1, "announce": {"id": "a", "kinds": kinds}});
        let refused = api.post("/v1/leases", &api.key, poll).await;
        refused.problem(400, "invalid_argument").has("field", "announce.kinds[0].builds");
        let poll = json!({"workerId": "w", "queues": ["q@7"], "max": 1});
        api.post("/v1/leases", &api.key, poll).await.problem(400, "invalid_argument");
        let run = json!({"kind": "resize", "queue": "q@7"});
        api.post("/v1/runs", &api.key, run).await.problem(400, "invalid_argument");
        api.poll_of("7", json!({})).await.ok();
        let kinds = api.get("/v1/kinds").await.ok();
        assert_eq!(kinds["kinds"][0]["builds"], json!("pin"));
    }
}
