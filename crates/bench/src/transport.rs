//! The ceiling of the transport: the same calls, answered by a server that decides and stores
//! nothing.
//!
//! It keeps only a counter: how many tasks were submitted and not yet leased, because the load is a
//! closed loop and needs its tasks back.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::error::BenchError;
use crate::load_client;
use crate::measurement::Mode;
use crate::remote::Remote;

/// The length of a real token.
const TOKEN_BYTES: usize = 420;

pub(crate) struct NullServer {
    serving: JoinHandle<std::io::Result<()>>,
    pub(crate) remote: Remote,
}

impl NullServer {
    pub(crate) async fn start(mode: Mode) -> Result<Self, BenchError> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let routes = Router::new()
            .route("/v1/runs", post(submit))
            .route("/v1/leases", post(lease))
            .route("/v1/tasks/{task}/completed", post(completed))
            .route("/v1/reports", post(reports))
            .with_state(Arc::new(Waiting::new()));
        let serving = tokio::spawn(async move { axum::serve(listener, routes).await });
        let key = "tnr_".to_owned() + &"0".repeat(80);
        Ok(Self { serving, remote: Remote::new(vec![address], key, mode) })
    }

    pub(crate) fn stop(self) {
        self.serving.abort();
    }
}

/// Tasks that may be leased.
struct Waiting {
    count: Mutex<usize>,
    more: Notify,
    given: AtomicUsize,
    token: String,
}

impl Waiting {
    fn new() -> Self {
        let token = "t".repeat(TOKEN_BYTES);
        Self { count: Mutex::new(0), more: Notify::new(), given: AtomicUsize::new(0), token }
    }

    fn add(&self, count: usize) {
        *self.count.lock().expect("nobody panics while counting") += count;
        self.more.notify_one();
    }

    async fn take(&self, max: usize) -> usize {
        loop {
            {
                let mut count = self.count.lock().expect("nobody panics while counting");
                let taken = (*count).min(max);
                *count -= taken;
                if *count > 0 {
                    self.more.notify_one();
                }
                if taken > 0 {
                    return taken;
                }
            }
            self.more.notified().await;
        }
    }

    fn envelope(&self) -> String {
        let number = self.given.fetch_add(1, Ordering::Relaxed);
        let (token, input) = (&self.token, load_client::input());
        format!(
            r#"{{"taskId":"task_{number:026}","runId":"run_{number:026}","tenantId":"default","workspaceId":"default","taskKey":"bench","kind":"bench","queue":"bench","attempt":1,"leaseId":"lease_{number:026}","fence":4294967297,"input":{input},"taskToken":"{token}","heartbeatIntervalMs":30000,"heartbeatTimeoutMs":90000,"cancelGracePeriodMs":30000}}"#
        )
    }
}

#[derive(Deserialize)]
struct Runs<'a> {
    #[serde(borrow)]
    runs: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Reports<'a> {
    #[serde(borrow)]
    reports: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Wanted {
    max: usize,
}

async fn submit(State(waiting): State<Arc<Waiting>>, body: Bytes) -> String {
    const ACCEPTED: &str = r#"{"runId":"run_0","taskId":"task_0","state":"queued","createdAt":"2026-01-01T00:00:00.000Z"}"#;
    let Ok(Runs { runs }) = serde_json::from_slice(&body) else {
        waiting.add(1);
        return ACCEPTED.to_owned();
    };
    waiting.add(runs.len());
    format!(r#"{{"results":[{}]}}"#, vec![ACCEPTED; runs.len()].join(","))
}

async fn lease(State(waiting): State<Arc<Waiting>>, body: Bytes) -> String {
    let max = serde_json::from_slice(&body).map_or(1, |Wanted { max }| max);
    let taken = waiting.take(max).await;
    let leases: Vec<String> = (0..taken).map(|_| waiting.envelope()).collect();
    format!(r#"{{"leases":[{}]}}"#, leases.join(","))
}

async fn completed(_: Bytes) -> &'static str {
    r#"{"acknowledged":true,"verdict":"COMMITTED","finalState":"SUCCEEDED","state":"succeeded","replayed":false,"serverTime":"2026-01-01T00:00:00.000Z"}"#
}

async fn reports(body: Bytes) -> String {
    const ANSWER: &str = r#"{"taskId":"task_0","status":200,"verdict":"COMMITTED","state":"succeeded","finalState":"SUCCEEDED","replayed":false}"#;
    let count = serde_json::from_slice(&body).map_or(0, |Reports { reports }| reports.len());
    format!(r#"{{"answers":[{}]}}"#, vec![ANSWER; count].join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_client::{LoadClient, LoadTarget};

    #[tokio::test]
    async fn every_task_that_was_submitted_comes_back_once() {
        for mode in [Mode::Single, Mode::Batch] {
            let null_server = NullServer::start(mode).await.unwrap();
            let mut client = null_server.remote.open().await.unwrap();
            let count = if mode == Mode::Single { 1 } else { 5 };
            client.submit(count).await.unwrap();
            let first = client.lease(3).await.unwrap();
            assert_eq!(first.len(), count.min(3));
            client.complete(&first).await.unwrap();
            client.submit(1).await.unwrap();
            assert_eq!(client.lease(9).await.unwrap().len(), count + 1 - first.len());
            null_server.stop();
        }
    }
}
