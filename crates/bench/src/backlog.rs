//! Filling a queue and draining it.

use tokio::task::JoinSet;

use crate::error::BenchError;
use crate::load::{Loops, Tally};
use crate::load_client::{LoadClient, LoadTarget};
use crate::measurement::Measurement;
use crate::remote::Remote;
use crate::resource_usage::{Monitored, UsageMeter};

/// Runs per call and concurrent calls: what one client with a list does.
const RUNS_PER_CALL: usize = 500;
const SUBMITTERS: usize = 4;

/// Leases per poll and concurrent workers.
const LEASES_PER_POLL: usize = 256;
const WORKERS: usize = 4;

pub(crate) async fn fill(
    remote: &Remote,
    count: usize,
    monitored: &Monitored,
) -> Result<Measurement, BenchError> {
    let mut callers: Loops = JoinSet::new();
    let meter = monitored.begin().await?;
    for _ in 0..SUBMITTERS {
        let mut client = remote.open().await?;
        callers.spawn(async move {
            for _ in 0..count / SUBMITTERS / RUNS_PER_CALL {
                client.submit(RUNS_PER_CALL).await?;
            }
            Ok(())
        });
    }
    all(callers).await?;
    let submitted = count / SUBMITTERS / RUNS_PER_CALL * SUBMITTERS * RUNS_PER_CALL;
    let filled = row("bulk submit", submitted, &meter).await?;
    Ok(Measurement { rss_mib: monitored.rss_mib(), ..filled })
}

/// Leases and completes until `count` tasks have ended.
pub(crate) async fn drain(
    remote: &Remote,
    count: usize,
    monitored: &Monitored,
) -> Result<Measurement, BenchError> {
    let mut workers: Loops = JoinSet::new();
    let tally = Tally::default();
    let meter = monitored.begin().await?;
    for _ in 0..WORKERS {
        let (mut client, tally) = (remote.open().await?, tally.clone());
        workers.spawn(async move {
            // Stops early: the last poll of each worker would wait for work that never comes.
            while (tally.count() as usize) < count.saturating_sub(LEASES_PER_POLL * WORKERS) {
                let leased = client.lease(LEASES_PER_POLL).await?;
                client.complete(&leased).await?;
                tally.ended(&leased);
            }
            Ok(())
        });
    }
    all(workers).await?;
    let drained = tally.count() as usize;
    let drained = row("drain", drained, &meter).await?;
    Ok(Measurement { rss_mib: monitored.rss_mib(), ..drained })
}

/// Waits for all callers to end.
pub(crate) async fn all(mut callers: Loops) -> Result<(), BenchError> {
    while let Some(ended) = callers.join_next().await {
        ended.map_err(|panic| BenchError::Engine(panic.to_string()))??;
    }
    Ok(())
}

/// The result of filling or draining, per task.
async fn row(name: &str, count: usize, meter: &UsageMeter) -> Result<Measurement, BenchError> {
    let (elapsed, used) = meter.end().await?;
    let row = Measurement {
        lifecycles_per_second: Some(count as f64 / elapsed.as_secs_f64()),
        ..Measurement::named(name)
    };
    Ok(used.put(row, count as u64))
}
