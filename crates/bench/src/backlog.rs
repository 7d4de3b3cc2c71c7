//! Filling a queue, and working it off.

use tokio::time::Instant;

use tokio::task::JoinSet;

use crate::door::{Door, Entrance};
use crate::load::{Loops, Tally};
use crate::measurement::Measurement;
use crate::process::{Usage, rss_mib};
use crate::remote::Remote;
use crate::trouble::Trouble;

/// Runs of one call, and calls at once: what one client with a list does.
const RUNS_PER_CALL: usize = 500;
const SUBMITTERS: usize = 4;

/// Leases of one poll, and workers at once.
const LEASES_PER_POLL: usize = 256;
const WORKERS: usize = 4;

pub(crate) async fn fill(
    remote: &Remote,
    count: usize,
    server: Option<u32>,
) -> Result<Measurement, Trouble> {
    let mut callers: Loops = JoinSet::new();
    let watch = Watch::begin(server);
    for _ in 0..SUBMITTERS {
        let mut door = remote.open().await?;
        callers.spawn(async move {
            for _ in 0..count / SUBMITTERS / RUNS_PER_CALL {
                door.submit(RUNS_PER_CALL).await?;
            }
            Ok(())
        });
    }
    all(callers).await?;
    Ok(watch.end("bulk submit", count / SUBMITTERS / RUNS_PER_CALL * SUBMITTERS * RUNS_PER_CALL))
}

/// Leases and completes until `count` tasks have ended.
pub(crate) async fn drain(
    remote: &Remote,
    count: usize,
    server: Option<u32>,
) -> Result<Measurement, Trouble> {
    let mut workers: Loops = JoinSet::new();
    let tally = Tally::default();
    let watch = Watch::begin(server);
    for _ in 0..WORKERS {
        let (mut door, tally) = (remote.open().await?, tally.clone());
        workers.spawn(async move {
            // The last poll of each worker would wait for work that never comes.
            while (tally.count() as usize) < count.saturating_sub(LEASES_PER_POLL * WORKERS) {
                let leased = door.lease(LEASES_PER_POLL).await?;
                door.complete(&leased).await?;
                tally.ended(&leased);
            }
            Ok(())
        });
    }
    all(workers).await?;
    let drained = tally.count() as usize;
    Ok(watch.end("drain", drained))
}

async fn all(mut callers: Loops) -> Result<(), Trouble> {
    while let Some(ended) = callers.join_next().await {
        ended.map_err(|panic| Trouble::Engine(panic.to_string()))??;
    }
    Ok(())
}

struct Watch {
    began: Instant,
    server: Option<(u32, Usage)>,
    own: Usage,
}

impl Watch {
    fn begin(server: Option<u32>) -> Self {
        let server = server.map(|pid| (pid, Usage::of(pid)));
        Self { began: Instant::now(), server, own: Usage::own() }
    }

    fn end(self, name: &str, count: usize) -> Measurement {
        let each = count.max(1) as f64;
        let used = self.server.map(|(pid, before)| Usage::of(pid).since(&before));
        Measurement {
            lifecycles_per_second: Some(each / self.began.elapsed().as_secs_f64()),
            cpu_micros_per_lifecycle: used.map(|used| used.cpu_micros / each),
            bytes_per_lifecycle: used.map(|used| used.written_bytes / each),
            rss_mib: self.server.and_then(|(pid, _)| rss_mib(pid)),
            client_micros_per_lifecycle: Some(Usage::own().since(&self.own).cpu_micros / each),
            ..Measurement::named(name)
        }
    }
}
