//! The policy that a task was submitted with: limits, durations and backoff.

use crate::id::{Digest, TaskId};
use crate::progress_clock::ProgressClock;
use crate::time::{Span, Time};

/// How many grants in a row may stay undelivered, handed back or expired without a call, before the
/// task fails. Grants are lost in bursts (a proxy restarts); ten in a row with backoff span minutes
/// and mean that none will ever be delivered.
pub const UNDELIVERED_MAX: u32 = 10;

/// The minimum pause after the second grant in a row that was handed back, whatever the retry
/// policy says. It doubles with each further one, so that ten of them take four minutes and no
/// transient fault ends a task.
const HAND_BACK_PAUSE_MIN: Span = Span::from_secs(1);

/// A task with short leases is urgent: its first pause is at most this fraction of a lease.
const HAND_BACK_PAUSES_PER_LEASE: u64 = 8;

/// How many attempts of a task may end without counting as a failure or a lost worker before a
/// release ends the task: more restarts of workers than any run lives through, and few enough that
/// a worker that hands back everything it gets does not do so for ever.
pub const RELEASES_MAX: u32 = 100;

/// The minimum time between the grant of a released task and its next grant: a worker that hands
/// back at once must not spin. It doubles with each release.
const RELEASE_SPACING_MIN: Span = Span::from_secs(1);

/// The longest such time. A worker that hands back at once uses up all releases of a task in about
/// seven hours, so there is time to notice it.
const RELEASE_SPACING_MAX: Span = Span::from_secs(300);

/// A task with short leases is urgent: its longest spacing is this many leases, and its first one
/// lease.
const RELEASE_SPACING_LEASES: u64 = 4;

/// More doublings could overflow, and every cap is reached long before.
const DOUBLINGS_MAX: u32 = 40;

/// Changes when the backoff formula changes, so that recorded schedules stay explainable.
const BACKOFF_VERSION: u8 = 1;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// Length of the lease, which is also the heartbeat timeout.
    pub lease: Span,
    pub heartbeat_every: Span,
    pub cancel_grace: Span,
    /// How many reported failures end the task (`maxAttempts`).
    pub failures_max: u32,
    /// How many lost workers end the task: a task that kills its workers must end (W-19).
    pub lost_max: u32,
    pub retry_base: Span,
    pub retry_cap: Span,
    /// The maximum duration of one attempt, counted from its grant (W-21, W-31).
    pub attempt_limit: Option<Span>,
    /// No attempt starts or continues after this (W-31).
    pub deadline: Option<Time>,
    /// How long the task may wait for its first worker, counted from when it may be leased ([`crate::time_to_live`]).
    pub ttl: Option<Span>,
    /// Makes the jitter equal for equal seeds; without it the jitter differs for every task.
    pub seed: Option<u64>,
    /// How long an attempt may go without progress, and what then follows; `None` if that is nobody's concern.
    pub progress_clock: Option<ProgressClock>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            lease: Span::from_secs(90),
            heartbeat_every: Span::from_secs(30),
            cancel_grace: Span::from_secs(30),
            failures_max: 3,
            lost_max: 3,
            retry_base: Span::from_secs(5),
            retry_cap: Span::from_secs(300),
            attempt_limit: None,
            deadline: None,
            ttl: None,
            seed: None,
            progress_clock: None,
        }
    }
}

impl Policy {
    /// The delay after the `count`-th failure: exponential, capped, plus seeded jitter.
    ///
    /// The jitter is a hash, not a draw from a stream, so one more decision elsewhere can never
    /// change it (S2-109, S2-110, R-17).
    pub fn backoff(&self, task: TaskId, attempt: u32, count: u32) -> Span {
        let doublings = count.saturating_sub(1).min(DOUBLINGS_MAX);
        let exponential = self.retry_base.millis().saturating_mul(1 << doublings);
        let jitter = self.jitter(task, attempt, self.retry_base.millis() / 2);
        Span::from_millis(exponential.min(self.retry_cap.millis()).saturating_add(jitter))
    }

    /// The pause after the `count`-th undelivered grant in a row, when that grant was handed back.
    /// The first one has no pause: a worker that just restarted delays nothing, and the task keeps
    /// its queue position.
    pub fn hand_back_pause(&self, task: TaskId, attempt: u32, count: u32) -> Span {
        let Some(again) = count.checked_sub(2) else { return Span::ZERO };
        let first = self.lease.millis() / HAND_BACK_PAUSES_PER_LEASE;
        let first = first.min(HAND_BACK_PAUSE_MIN.millis());
        let least = first.saturating_mul(1 << again.min(DOUBLINGS_MAX));
        self.backoff(task, attempt, again + 1).max(Span::from_millis(least))
    }

    /// The minimum time between the grant that was released, the `count`-th attempt that counts as
    /// nothing else, and the next grant. An attempt that lasted longer is followed at once: a long
    /// run does not wait because its worker was replaced.
    pub fn release_spacing(&self, count: u32) -> Span {
        let lease = self.lease.millis();
        let first = RELEASE_SPACING_MIN.millis().min(lease);
        let longest =
            lease.saturating_mul(RELEASE_SPACING_LEASES).min(RELEASE_SPACING_MAX.millis());
        let doublings = count.saturating_sub(1).min(DOUBLINGS_MAX);
        Span::from_millis(first.saturating_mul(1 << doublings).min(longest))
    }

    fn jitter(&self, task: TaskId, attempt: u32, max: u64) -> u64 {
        let source = match self.seed {
            Some(seed) => seed.to_be_bytes().to_vec(),
            None => task.as_u128().to_be_bytes().to_vec(),
        };
        let digest = Digest::of(&[&source, &attempt.to_be_bytes(), &[BACKOFF_VERSION]]);
        let mut head = [0; 8];
        head.copy_from_slice(&digest.bytes()[..8]);
        // The bias of the remainder is below 2^-20 for every delay that fits a day.
        u64::from_be_bytes(head) % max.saturating_add(1)
    }
}
