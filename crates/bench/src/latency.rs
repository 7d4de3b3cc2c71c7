//! How long one task takes on an idle server.

use std::time::Duration;

use tokio::time::Instant;

use tokio::sync::mpsc;

use crate::error::BenchError;
use crate::load_client::{LoadClient, LoadTarget, SubmitTime, micros_now};
use crate::measurement::{Measurement, Mode};
use crate::remote::Remote;

/// There is one task at a time.
const STARTS_WAITING_MAX: usize = 16;

/// Between two tasks, so that each meets an idle server.
pub(crate) const PAUSE: Duration = Duration::from_millis(5);

/// Measures from the submission's first byte until the waiting worker has the task, and until the
/// waiting client has the result. Client and worker may use different servers. The queue must not
/// be used for anything else: at the end a worker disconnects while it waits, and the next task of
/// that queue may still be granted to it.
pub(crate) async fn idle(
    client: &Remote,
    worker: &Remote,
    queue: &str,
    span: Duration,
) -> Result<[Measurement; 2], BenchError> {
    let remote = client.with(Mode::Single, queue);
    let (started, mut starts) = mpsc::channel(STARTS_WAITING_MAX);
    let worker = tokio::spawn(work(worker.with(Mode::Single, queue), started));
    let mut client = remote.open().await?;
    let (mut until_started, mut until_result) = (Vec::new(), Vec::new());
    let end = Instant::now() + span;
    while Instant::now() < end {
        let begun = micros_now();
        let run = client.submit_one().await?;
        let path = format!("/v1/runs/{run}?waitMs=10000");
        client.connection.get(&path, &remote.key).await?;
        until_result.push(micros_now() - begun);
        until_started.extend(starts.recv().await);
        tokio::time::sleep(PAUSE).await;
    }
    worker.abort();
    let row = |name: &str, micros| Measurement {
        concurrency: Some(1),
        ..Measurement::named(name).with_latencies(micros)
    };
    Ok([row("submit to started", until_started), row("submit to result", until_result)])
}

async fn work(remote: Remote, started: mpsc::Sender<u64>) -> Result<(), BenchError> {
    let mut client = remote.open().await?;
    loop {
        let leased = client.lease(1).await?;
        for task in &leased {
            // The receiver is gone if the measurement has ended.
            let _ = started.send(micros_now() - task.submitted_micros()).await;
        }
        if !leased.is_empty() {
            client.complete(&leased).await?;
        }
    }
}
