//! The Rust SDK, as a program uses it: the example of the first page of the documents, without its `main`.
//!
//! Client and worker have separate connections, as if they were two processes, and run in this one,
//! whose processor time is the client's. The example names its queue, so these measurements need a
//! store of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tenure::{Client, Failure, Flow, NewRun, Worker, WorkerEvent};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::greet::{greet, greeter};
use crate::error::{BenchError, failed};
use crate::latency::PAUSE;
use crate::load_client::micros_now;
use crate::measurement::{Measurement, Mode};
use crate::plan::Options;
use crate::remote::Remote;
use crate::resource_usage::Monitored;
use crate::server::Servers;
use crate::store_factory::StoreFactory;

#[expect(unreachable_pub, reason = "the example stands for a module of a program")]
#[expect(dead_code, reason = "it is a program, and its `main` is not called here")]
#[path = "../../../sdks/rust/examples/greet.rs"]
mod greet;

/// How many tasks the worker executes at the same time.
const CONCURRENCY: usize = 256;
/// How many callers submit and wait at the same time.
const CALLERS: usize = 64;
/// Runs per call when the backlog is filled.
const RUNS_PER_CALL: usize = 500;
/// Durable runs in the backlog, per second of a measurement.
const DURABLE_RUNS_PER_SECOND: f64 = 4_000.0;
/// Who is greeted.
const NAME: &str = "Ada";

/// A backlog drained by one worker; submit and wait from one caller, and from many.
pub(crate) async fn measure(
    options: &Options,
    stores: &StoreFactory,
    backlog: usize,
) -> Result<Vec<Measurement>, BenchError> {
    let (server, _) = Servers::on_new_store(&options.program, stores, 1).await?;
    let remote = &server.remote;
    let one = submit_and_wait(remote, &server.monitored, 1, options.span).await?;
    let many = submit_and_wait(remote, &server.monitored, CALLERS, options.span).await?;
    let drained = drain(remote, &server.monitored, backlog).await?;
    server.kill().await?;
    Ok(vec![one, many, drained])
}

/// A worker that runs beside the measurement until it is told to stop.
struct Running {
    stop: Arc<Notify>,
    worker: tokio::task::JoinHandle<Result<(), tenure::Error>>,
}

impl Running {
    fn start(worker: Worker) -> Running {
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let until = async move { stopped.notified().await };
        let worker = tokio::spawn(worker.concurrency(CONCURRENCY).run_until(until));
        Running { stop, worker }
    }

    async fn end(self) -> Result<(), BenchError> {
        self.stop.notify_one();
        let ended = self.worker.await.map_err(|panic| BenchError::Engine(panic.to_string()))?;
        ended.map_err(failed)
    }
}

async fn submit_and_wait(
    remote: &Remote,
    monitored: &Monitored,
    callers: usize,
    span: Duration,
) -> Result<Measurement, BenchError> {
    let worker = Running::start(greeter(remote.sdk()?));
    let client = remote.sdk()?;
    greet(&client, NAME).await.map_err(failed)?;
    let meter = monitored.begin().await?;
    let until = Instant::now() + span;
    let mut loops = JoinSet::new();
    for _ in 0..callers {
        // One caller alone meets an idle server each time, as in the measurement without the SDK.
        let pause = if callers == 1 { PAUSE } else { Duration::ZERO };
        loops.spawn(call(client.clone(), until, pause));
    }
    let mut latencies = Vec::new();
    while let Some(ended) = loops.join_next().await {
        latencies.extend(ended.map_err(|panic| BenchError::Engine(panic.to_string()))??);
    }
    let (elapsed, used) = meter.end().await?;
    worker.end().await?;
    let count = latencies.len();
    let row = Measurement {
        concurrency: Some(callers),
        mode: Some(Mode::Sdk),
        lifecycles_per_second: (callers > 1).then(|| count as f64 / elapsed.as_secs_f64()),
        ..Measurement::named("submit to result").with_latencies(latencies)
    };
    Ok(used.put(row, count as u64))
}

/// Greets again and again, and returns how long each greeting took.
async fn call(client: Client, until: Instant, pause: Duration) -> Result<Vec<u64>, BenchError> {
    let mut latencies = Vec::new();
    while Instant::now() < until {
        let begun = micros_now();
        greet(&client, NAME).await.map_err(failed)?;
        latencies.push(micros_now() - begun);
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
    }
    Ok(latencies)
}

async fn drain(
    remote: &Remote,
    monitored: &Monitored,
    count: usize,
) -> Result<Measurement, BenchError> {
    let count = fill(remote, count, "hello").await?;
    execute("drain", remote, monitored, count, greeter).await
}

/// Runs of a durable function with this many steps, submitted before and executed by one worker.
pub(crate) async fn measure_steps(
    options: &Options,
    stores: &StoreFactory,
    steps: usize,
) -> Result<Measurement, BenchError> {
    let (server, _) = Servers::on_new_store(&options.program, stores, 1).await?;
    let (remote, monitored) = (&server.remote, &server.monitored);
    let count = (options.span.as_secs_f64() * DURABLE_RUNS_PER_SECOND) as usize;
    let count = fill(remote, count.max(RUNS_PER_CALL), "stepwise").await?;
    let worker = |client| {
        Worker::new(client).queue("default").durable(
            "stepwise",
            move |ctx: Flow, _: String| async move {
                for _ in 0..steps {
                    ctx.step("step", async |_| Ok::<_, Failure>(NAME.to_owned())).await?;
                }
                Ok(())
            },
        )
    };
    let name = format!("runs of {steps} steps");
    let row = execute(&name, remote, monitored, count, worker).await?;
    server.kill().await?;
    Ok(row)
}

/// Submits runs of this kind, and returns how many.
async fn fill(remote: &Remote, count: usize, kind: &str) -> Result<usize, BenchError> {
    let filling = remote.sdk()?;
    for _ in 0..count / RUNS_PER_CALL {
        let runs = (0..RUNS_PER_CALL).map(|_| NewRun::new(kind, NAME).queue("default"));
        for submitted in filling.submit_many(runs).await.map_err(failed)? {
            submitted.map_err(failed)?;
        }
    }
    Ok(count / RUNS_PER_CALL * RUNS_PER_CALL)
}

/// Executes what is queued with one worker, until all of it has ended.
async fn execute(
    name: &str,
    remote: &Remote,
    monitored: &Monitored,
    count: usize,
    worker: impl Fn(Client) -> Worker,
) -> Result<Measurement, BenchError> {
    let (done, finished) = (AtomicUsize::new(0), Arc::new(Notify::new()));
    let finish = Arc::clone(&finished);
    let meter = monitored.begin().await?;
    let worker = Running::start(worker(remote.sdk()?).on_event(move |event| {
        let is_commit = matches!(event, WorkerEvent::Committed { .. });
        if is_commit && done.fetch_add(1, Ordering::Relaxed) + 1 == count {
            finish.notify_one();
        }
    }));
    finished.notified().await;
    let (elapsed, used) = meter.end().await?;
    worker.end().await?;
    let row = Measurement {
        concurrency: Some(CONCURRENCY),
        mode: Some(Mode::Sdk),
        lifecycles_per_second: Some(count as f64 / elapsed.as_secs_f64()),
        ..Measurement::named(name)
    };
    Ok(used.put(row, count as u64))
}
