//! An SDK worker and a client in a separate queue: they must never see an error.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tenure::{Client, NewRun, Worker, WorkerEvent};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use wire::State;

const QUEUE: &str = "unworried";

pub(crate) struct ZeroErrorProbe {
    client: Client,
    seen: Arc<Mutex<Vec<WorkerEvent>>>,
    over: CancellationToken,
    worker: JoinHandle<Result<(), tenure::Error>>,
    submitting: JoinHandle<Result<usize, tenure::Error>>,
}

impl ZeroErrorProbe {
    /// Uses all of these coordinators, with default settings.
    pub(crate) fn start(urls: &str, api_key: &str) -> Result<ZeroErrorProbe> {
        let client = Client::new(urls, api_key)?;
        let (seen, over) = (Arc::new(Mutex::new(Vec::new())), CancellationToken::new());
        let telling = Arc::clone(&seen);
        let worker = Worker::new(Client::new(urls, api_key)?)
            .name(QUEUE)
            .queue(QUEUE)
            .concurrency(4)
            .on_event(move |event| {
                telling.lock().expect("nothing panics with the list in hand").push(event.clone());
            })
            .handle("echo", |_, input: Value| async move { Ok(input) });
        let told = over.clone();
        let worker = tokio::spawn(async move { worker.run_until(told.cancelled_owned()).await });
        let submitting = tokio::spawn(submit_until_told(client.clone(), over.clone()));
        Ok(ZeroErrorProbe { client, seen, over, worker, submitting })
    }

    /// Waits until a newly submitted run has succeeded.
    pub(crate) async fn works(&self, patience: Duration) -> Result<()> {
        let ended = self.client.submit_run(run()).await?.wait_timeout(patience).await?;
        ensure!(ended.state == State::Succeeded, "a run is {} after all this time", ended.state);
        Ok(())
    }

    /// Stops both, and fails if either of them saw an error.
    pub(crate) async fn end(self) -> Result<()> {
        self.over.cancel();
        let submitted = self.submitting.await?.context("a client saw an error")?;
        self.worker.await?.context("the worker ended with an error")?;
        let seen = self.seen.lock().expect("nothing panics with the list in hand");
        let is_error = |event: &&WorkerEvent| !matches!(event, WorkerEvent::Committed { .. });
        if let Some(error) = seen.iter().find(is_error) {
            bail!("a worker saw {error:?}");
        }
        ensure!(submitted > 0 && !seen.is_empty(), "nothing was done meanwhile");
        Ok(())
    }
}

fn run() -> NewRun {
    NewRun::new("echo", &json!({})).queue(QUEUE)
}

async fn submit_until_told(
    client: Client,
    over: CancellationToken,
) -> Result<usize, tenure::Error> {
    let mut submitted = 0;
    while !over.is_cancelled() {
        client.submit_run(run()).await?.wait_timeout(Duration::from_secs(60)).await?;
        submitted += 1;
    }
    Ok(submitted)
}
