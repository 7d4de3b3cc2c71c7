//! The closed loop: a fixed number of lifecycles in flight, where each one that ends starts the
//! next.
//!
//! In mode `single` each lifecycle has a separate caller that makes three calls. In mode `batch`
//! callers share calls as the SDKs do: everything that waits for a step goes into the next call,
//! and no call waits for a batch to fill.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use crate::error::BenchError;
use crate::load_client::{LoadClient, LoadTarget, SubmitTime, micros_now};
use crate::measurement::Mode;
use crate::resource_usage::{Monitored, ResourceUsage};

/// Before this, caches are cold and the loop has not settled.
const WARM_UP_MAX: Duration = Duration::from_millis(400);

/// Items per call; the maximum of the contract.
const SUBMIT_MAX: usize = 1_000;
const LEASE_MAX: usize = 256;

/// Answered polls that wait for their report: each holds lifecycles of the loop, which are few.
const GRANTS_WAITING_MAX: usize = 1_024;

/// Lifecycles in flight for which one caller per step is enough. With more lifecycles, further
/// callers build the next call while the last one is being committed.
const LIFECYCLES_PER_CALLER: usize = 64;

/// What was observed between two moments of a steady load.
pub(crate) struct Observed {
    pub(crate) lifecycles: u64,
    pub(crate) elapsed: Duration,
    pub(crate) latencies: Vec<u64>,
    pub(crate) used: ResourceUsage,
}

impl Observed {
    pub(crate) fn per_second(&self) -> f64 {
        self.lifecycles as f64 / self.elapsed.as_secs_f64()
    }
}

/// Counts lifecycles that end.
#[derive(Clone, Default)]
pub(crate) struct Tally {
    count: Arc<AtomicU64>,
    latencies: Arc<Mutex<Vec<u64>>>,
}

impl Tally {
    /// Notes the lifecycles that ended with these tasks, and returns how many did.
    pub(crate) fn ended<L: SubmitTime>(&self, leased: &[L]) -> usize {
        let now = micros_now();
        let ended = leased.iter().filter(|task| task.ends_run());
        let spent: Vec<u64> =
            ended.map(|task| now.saturating_sub(task.submitted_micros())).collect();
        let count = spent.len();
        self.count.fetch_add(count as u64, Ordering::Relaxed);
        self.latencies.lock().expect("nobody panics while noting").extend(spent);
        count
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    fn take_latencies(&self) -> Vec<u64> {
        std::mem::take(&mut *self.latencies.lock().expect("nobody panics while noting"))
    }
}

pub(crate) type Loops = JoinSet<Result<(), BenchError>>;

/// Drives the load for a while and measures its middle.
pub(crate) async fn observe<E: LoadTarget>(
    target: &E,
    mode: Mode,
    concurrency: usize,
    span: Duration,
    monitored: &Monitored,
) -> Result<Observed, BenchError> {
    let tally = Tally::default();
    let mut loops = match mode {
        Mode::Single => single(target, concurrency, &tally).await?,
        Mode::Batch => batch(target, concurrency, &tally).await?,
        Mode::Sdk => unreachable!("the SDK makes its calls itself"),
    };
    run_for(&mut loops, WARM_UP_MAX.min(span)).await?;
    tally.take_latencies();
    let meter = monitored.begin().await?;
    let count = tally.count();
    run_for(&mut loops, span).await?;
    let lifecycles = tally.count() - count;
    let latencies = tally.take_latencies();
    let (elapsed, used) = meter.end().await?;
    let observed = Observed { lifecycles, elapsed, latencies, used };
    loops.shutdown().await;
    Ok(observed)
}

/// Keeps the loops running; a loop that ends has failed.
async fn run_for(loops: &mut Loops, span: Duration) -> Result<(), BenchError> {
    let ended = tokio::time::timeout(span, loops.join_next()).await;
    match ended {
        Ok(Some(Ok(result))) => result,
        Ok(Some(Err(panic))) => Err(BenchError::Engine(panic.to_string())),
        Ok(None) | Err(_) => Ok(()),
    }
}

async fn single<E: LoadTarget>(
    target: &E,
    concurrency: usize,
    tally: &Tally,
) -> Result<Loops, BenchError> {
    let mut loops = JoinSet::new();
    for _ in 0..concurrency {
        let (mut client, tally) = (target.open().await?, tally.clone());
        loops.spawn(async move {
            loop {
                client.submit(1).await?;
                // Not necessarily the task that this caller submitted; there is one for each
                // caller.
                let mut ended = 0;
                while ended == 0 {
                    let leased = client.lease(1).await?;
                    ended = complete_all(&mut client, leased, &tally).await?;
                }
            }
        });
    }
    Ok(loops)
}

/// Completes tasks and what comes with the answers; returns how many lifecycles ended.
async fn complete_all<D: LoadClient>(
    client: &mut D,
    mut leased: Vec<D::Leased>,
    tally: &Tally,
) -> Result<usize, BenchError> {
    let mut ended = 0;
    while !leased.is_empty() {
        let next = client.complete_and_go_on(&leased).await?;
        ended += tally.ended(&leased);
        leased = next;
    }
    Ok(ended)
}

/// Lifecycles that may start.
#[derive(Default)]
struct Tickets {
    free: Mutex<usize>,
    freed: Notify,
}

impl Tickets {
    fn give(&self, count: usize) {
        *self.free.lock().expect("nobody panics while counting") += count;
        self.freed.notify_one();
    }

    /// Takes all that there are, up to `max`, and at least one.
    async fn take(&self, max: usize) -> usize {
        loop {
            {
                let mut free = self.free.lock().expect("nobody panics while counting");
                let taken = (*free).min(max);
                *free -= taken;
                if taken > 0 {
                    return taken;
                }
            }
            self.freed.notified().await;
        }
    }
}

async fn batch<E: LoadTarget>(
    target: &E,
    concurrency: usize,
    tally: &Tally,
) -> Result<Loops, BenchError> {
    let mut loops = JoinSet::new();
    let tickets = Arc::new(Tickets::default());
    let callers = (concurrency / LIFECYCLES_PER_CALLER).clamp(1, 4);
    let share = concurrency.div_ceil(callers);
    for _ in 0..callers {
        let (leased, to_report) = mpsc::channel(GRANTS_WAITING_MAX);
        loops.spawn(submitter(target.open().await?, tickets.clone(), share));
        loops.spawn(poller(target.open().await?, leased, share));
        loops.spawn(reporter(target.open().await?, to_report, tickets.clone(), tally.clone()));
        tickets.give(share);
    }
    Ok(loops)
}

async fn submitter<D: LoadClient>(
    mut client: D,
    tickets: Arc<Tickets>,
    share: usize,
) -> Result<(), BenchError> {
    loop {
        let count = tickets.take(share.min(SUBMIT_MAX)).await;
        client.submit(count).await?;
    }
}

async fn poller<D: LoadClient>(
    mut client: D,
    to_report: mpsc::Sender<Vec<D::Leased>>,
    share: usize,
) -> Result<(), BenchError> {
    loop {
        let leased = client.lease(share.min(LEASE_MAX)).await?;
        if to_report.send(leased).await.is_err() {
            return Ok(());
        }
    }
}

async fn reporter<D: LoadClient>(
    mut client: D,
    mut leased: mpsc::Receiver<Vec<D::Leased>>,
    tickets: Arc<Tickets>,
    tally: Tally,
) -> Result<(), BenchError> {
    while let Some(mut ended) = leased.recv().await {
        while let Ok(more) = leased.try_recv() {
            ended.extend(more);
        }
        if ended.is_empty() {
            continue;
        }
        tickets.give(complete_all(&mut client, ended, &tally).await?);
    }
    Ok(())
}
