//! Counts of what a worker does, for a dashboard or an alert of the program that it runs in.
//!
//! They are counted where the events are told, so that both say the same. Nothing depends on them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use wire::Outcome;

use super::event::WorkerEvent;

/// A heartbeat that is sent so long after it was due is late: as long as the clocks are not looked at.
pub(super) const HEARTBEAT_LATE_AFTER: Duration = Duration::from_millis(500);

/// The counts of one worker, which go on while it runs. Cheap to clone.
///
/// ```no_run
/// # use tenure::{Ctx, Failure, Kind, Worker};
/// # const GREET: Kind<String, String> = Kind::new("greet");
/// # async fn greet(_: Ctx, name: String) -> Result<String, Failure> { Ok(name) }
/// # async fn example() -> Result<(), tenure::Error> {
/// let worker = Worker::from_env()?.handle(GREET, greet);
/// let metrics = worker.metrics();
/// let working = tokio::spawn(worker.run());
/// println!("{} running, {} failed", metrics.now().running, metrics.now().failed);
/// # drop(working); Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Metrics(Arc<Counts>);

/// What a worker has done since it was made, and how many tasks it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerMetrics {
    /// Polls for work that were sent, repeated ones included.
    pub polls: u64,
    /// Attempts that were granted or pushed.
    pub leased: u64,
    /// Attempts that run now.
    pub running: u64,
    /// Reports that were accepted, by outcome.
    pub succeeded: u64,
    pub failed: u64,
    pub cancelled: u64,
    /// Handed back, for another worker.
    pub released: u64,
    /// Durable functions that wait.
    pub suspended: u64,
    /// Durable functions whose code is not the code that recorded the run.
    pub diverged: u64,
    /// Leases that were lost: the work was stopped, and its result discarded.
    pub lost: u64,
    /// Calls about attempts that no coordinator answered within the bound.
    pub unanswered: u64,
    /// Calls that the coordinator refused as invalid.
    pub rejected: u64,
    /// Heartbeats that were sent half a second or more after they were due: the process or its machine is overloaded.
    pub heartbeats_late: u64,
}

#[derive(Debug, Default)]
struct Counts {
    polls: AtomicU64,
    leased: AtomicU64,
    running: AtomicU64,
    succeeded: AtomicU64,
    failed: AtomicU64,
    cancelled: AtomicU64,
    released: AtomicU64,
    suspended: AtomicU64,
    diverged: AtomicU64,
    lost: AtomicU64,
    unanswered: AtomicU64,
    rejected: AtomicU64,
    heartbeats_late: AtomicU64,
}

impl Metrics {
    /// The counts as they are now. Each is exact; they are not read at one instant.
    pub fn now(&self) -> WorkerMetrics {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let counts = &*self.0;
        WorkerMetrics {
            polls: read(&counts.polls),
            leased: read(&counts.leased),
            running: read(&counts.running),
            succeeded: read(&counts.succeeded),
            failed: read(&counts.failed),
            cancelled: read(&counts.cancelled),
            released: read(&counts.released),
            suspended: read(&counts.suspended),
            diverged: read(&counts.diverged),
            lost: read(&counts.lost),
            unanswered: read(&counts.unanswered),
            rejected: read(&counts.rejected),
            heartbeats_late: read(&counts.heartbeats_late),
        }
    }

    pub(super) fn count_poll(&self) {
        count(&self.0.polls);
    }

    pub(super) fn count_late_heartbeats(&self, late: usize) {
        self.0.heartbeats_late.fetch_add(late as u64, Ordering::Relaxed);
    }

    /// An attempt begins; it runs until the guard is dropped.
    pub(super) fn begin(&self) -> RunningAttempt {
        count(&self.0.leased);
        count(&self.0.running);
        RunningAttempt(self.clone())
    }

    pub(super) fn is_any_running(&self) -> bool {
        self.0.running.load(Ordering::Relaxed) > 0
    }

    pub(super) fn count(&self, event: &WorkerEvent) {
        let counts = &*self.0;
        match event {
            WorkerEvent::Committed { outcome, .. } => count(match outcome {
                Outcome::Succeeded => &counts.succeeded,
                Outcome::Failed => &counts.failed,
                Outcome::Cancelled => &counts.cancelled,
                Outcome::Released => &counts.released,
            }),
            WorkerEvent::Suspended { .. } => count(&counts.suspended),
            WorkerEvent::Diverged { .. } => count(&counts.diverged),
            WorkerEvent::Cancelled { .. } | WorkerEvent::Abandoned { .. } => count(&counts.lost),
            WorkerEvent::Rejected { .. } => count(&counts.rejected),
            WorkerEvent::Unanswered { .. } => count(&counts.unanswered),
            WorkerEvent::Unreachable { .. } => {}
        }
    }
}

fn count(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

/// An attempt that runs.
pub(super) struct RunningAttempt(Metrics);

impl Drop for RunningAttempt {
    fn drop(&mut self) {
        self.0.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}
