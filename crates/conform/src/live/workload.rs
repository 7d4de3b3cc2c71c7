//! What a live run submits, and what it needs from outside: signals, and a worker for the children.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::proxy::Proxy;
use crate::http::Request;

/// Short, so that a task of a killed worker is leased again soon.
const LEASE_MS: u64 = 4_000;
const HEARTBEAT_MS: u64 = 1_000;
/// Kills must not use up a run's attempts.
const ATTEMPTS_MAX: u32 = 100;
/// Runs in one call of the kit.
const BATCH: usize = 50;
const LOOK_AGAIN: Duration = Duration::from_millis(500);
const ENDED: [&str; 4] = ["succeeded", "failed", "cancelled", "halted"];

#[derive(Clone)]
pub(super) struct Workload {
    runs: usize,
    proxy: Arc<Proxy>,
    api_key: Arc<str>,
    /// The state of each run that was accepted, by its id.
    states: Arc<Mutex<BTreeMap<String, String>>>,
}

impl Workload {
    pub(super) fn new(runs: usize, proxy: Arc<Proxy>, api_key: String) -> Workload {
        Workload { runs, proxy, api_key: api_key.into(), states: Arc::default() }
    }

    /// Submits every run, under keys: a call without an answer is made again.
    pub(super) async fn submit(&self) -> io::Result<()> {
        let runs: Vec<Value> = (0..self.runs).map(run).collect();
        for (n, batch) in runs.chunks(BATCH).enumerate() {
            let accepted = self.post("/v1/runs", &json!({"runs": batch})).await?;
            let results = accepted["results"].as_array().cloned().unwrap_or_default();
            let ids: Vec<&str> = results.iter().filter_map(|it| it["runId"].as_str()).collect();
            if ids.len() < batch.len() {
                let refused = results.iter().find(|it| it["runId"].is_null());
                return Err(io::Error::other(format!("the server refused a run: {refused:?}")));
            }
            self.note_queued(&ids);
            for (place, id) in ids.into_iter().enumerate() {
                self.signal(n * BATCH + place, id).await?;
            }
        }
        Ok(())
    }

    fn note_queued(&self, ids: &[&str]) {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.extend(ids.iter().map(|id| ((*id).to_owned(), "queued".to_owned())));
    }

    /// Sends what a run waits for; a signal is kept until it is taken.
    async fn signal(&self, n: usize, run: &str) -> io::Result<()> {
        let kind = run_kind(n);
        let times = match kind {
            "order" => 1,
            "signaller" => 3,
            "parallel" => 2,
            _ => 0,
        };
        let name = if kind == "order" { "approve" } else { "go" };
        for _ in 0..times {
            let body = json!({"name": name, "payload": true});
            self.post(&format!("/v1/runs/{run}/signals"), &body).await?;
        }
        Ok(())
    }

    /// Executes the children that subjects start, until it is aborted.
    pub(super) async fn help(self) {
        for n in 0_u64.. {
            let poll = json!({"workerId": "kit", "queues": ["conform"], "kinds": ["square", "pack"], "max": 50,
                "waitMs": 1000, "pollId": format!("kit-{n}")});
            let Ok(leases) = self.post("/v1/leases", &poll).await else {
                sleep(LOOK_AGAIN).await;
                continue;
            };
            let leases = leases["leases"].as_array().cloned().unwrap_or_default();
            let reports: Vec<Value> = leases.iter().map(report).collect();
            if !reports.is_empty() {
                // What is lost here is leased again.
                let _ = self.post("/v1/reports", &json!({"reports": reports})).await;
            }
        }
    }

    /// Waits until every run has ended. Returns those that have not.
    pub(super) async fn wait_for_ends(&self, until: Instant) -> Vec<String> {
        loop {
            let open: Vec<String> = {
                let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
                let is_open = |(_, state): &(&String, &String)| !ENDED.contains(&state.as_str());
                states.iter().filter(is_open).map(|(id, _)| id.clone()).collect()
            };
            if open.is_empty() || Instant::now() >= until {
                return open;
            }
            for id in open {
                if let Ok(run) = self.get(&format!("/v1/runs/{id}")).await {
                    let state = run["state"].as_str().unwrap_or("queued").to_owned();
                    let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
                    states.insert(id, state);
                }
            }
            sleep(LOOK_AGAIN).await;
        }
    }

    async fn get(&self, path: &str) -> io::Result<Value> {
        let answer = self.proxy.call(self.authorized(Request::get(path))).await?;
        serde_json::from_slice(&answer.body).map_err(io::Error::other)
    }

    async fn post(&self, path: &str, body: &Value) -> io::Result<Value> {
        let answer = self.proxy.call(self.authorized(Request::post(path, body))).await?;
        if answer.status >= 400 {
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            return Err(io::Error::other(format!("{path}: {} {text}", answer.status)));
        }
        serde_json::from_slice(&answer.body).map_err(io::Error::other)
    }

    fn authorized(&self, mut request: Request) -> Request {
        request.headers.push(("authorization".to_owned(), format!("Bearer {}", self.api_key)));
        request
    }
}

/// Which kind the n-th run has: mostly short tasks, and every kind that ends without a person.
fn run_kind(n: usize) -> &'static str {
    const KINDS: [&str; 12] = [
        "echo", "slow", "order", "echo", "fail", "children", "slow", "versions", "echo", "looper",
        "slow", "parallel",
    ];
    KINDS[n % KINDS.len()]
}

fn run(n: usize) -> Value {
    let kind = run_kind(n);
    let input = match kind {
        "slow" => json!({"ms": 100 + (n * 37) % 1400}),
        "order" => json!({"cents": n, "items": ["lamp", "book"]}),
        "fail" => json!({"category": "DATA_QUALITY", "message": "it is wrong"}),
        "children" => json!([1, 2, 3]),
        "versions" => json!({"code": "v1", "value": n}),
        "parallel" => json!({"slowMs": 200}),
        _ => json!({"n": n}),
    };
    json!({"kind": kind, "queue": "conform", "input": input, "leaseMs": LEASE_MS, "heartbeatIntervalMs": HEARTBEAT_MS,
        "maxAttempts": ATTEMPTS_MAX, "lostMax": ATTEMPTS_MAX, "idempotencyKey": format!("live-{n}")})
}

fn report(lease: &Value) -> Value {
    let output = match (lease["kind"].as_str(), lease["input"].as_i64()) {
        (Some("square"), Some(n)) => json!(n * n),
        _ => json!(format!("packed {}", lease["input"].as_str().unwrap_or_default())),
    };
    json!({"taskId": lease["taskId"], "taskToken": lease["taskToken"], "attempt": lease["attempt"],
        "workerId": "kit", "outcome": "SUCCEEDED", "output": output})
}
