//! Whether an attempt may still act: its lease as far as this process can prove it, and why it was
//! asked to stop.
//!
//! The lease is trusted until a moment counted from *before* the request that renewed it was sent.
//! The clocks are monotonic, and one of them also counts suspended time. So the coordinator's lease
//! always ends later, however long the answer took. A lost lease is never regained.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use wire::LogLevel;
use wire::answers::BudgetLeft;
use wire::requests::LogLine;
use workflow::Spend;

use super::clock::{Clock, Moment, wall_clock};
use super::log_buffer::{CALL_BYTES_MAX, LogBuffer, LogSwitch};

/// Reserve for the network time of a last write, in addition to the tenth for clock drift.
const MARGIN: Duration = Duration::from_secs(1);

/// How much of a lease its worker uses: `ttl × 0.9 − 1 s`.
///
/// Where that would be half of the lease or less (leases up to 2.5 s) it is `ttl × 0.75` instead:
/// with the fixed second too little of a short lease would be left.
pub(crate) fn usable_for(ttl: Duration) -> Duration {
    let long = (ttl * 9 / 10).saturating_sub(MARGIN);
    if long > ttl / 2 { long } else { ttl * 3 / 4 }
}

/// Why a task should stop.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// The run was cancelled: clean up and return; the end is reported.
    CancelRequested { reason: Option<String> },
    /// The attempt took longer than its `timeoutMs`: clean up and return; the end is reported.
    TimedOut,
    /// The worker shuts down and stops waiting: clean up and return. A result is still reported; an
    /// error hands the task back.
    ShuttingDown,
    /// The lease is lost: write nothing more; the returned value is discarded.
    LeaseLost { why: String },
}

#[derive(Debug)]
pub(crate) struct LeaseState {
    stop: Mutex<Option<StopReason>>,
    /// Fires for every [`StopReason`].
    stop_token: CancellationToken,
    /// Fires for [`StopReason::LeaseLost`].
    lost: CancellationToken,
    proof: Mutex<Proof>,
    /// Notified when the proof changes, and when the lease is lost.
    changed: Notify,
    clock: Clock,
    content: Mutex<HeartbeatContent>,
    /// What the coordinator last said is left of the budget.
    left: Mutex<Option<BudgetLeft>>,
    /// What the code logs, until the coordinator has it.
    log: Mutex<LogBuffer>,
    log_switch: LogSwitch,
}

/// What the coordinator has answered about the lease.
#[derive(Clone, Copy, Debug, Default)]
struct Proof {
    /// Absent until the lease is proven valid.
    valid_until: Option<Moment>,
    /// Whether the start was acknowledged.
    is_started: bool,
}

/// What must be answered before the code of an attempt runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precondition {
    /// The lease is proven valid.
    Lease,
    /// And the start is acknowledged.
    LeaseAndStart,
}

#[derive(Debug)]
struct HeartbeatContent {
    task_token: String,
    progress: Progress,
    /// Whether the progress was set, or more was used, after the latest heartbeat was made.
    is_progress_new: bool,
    /// What the attempt has used, if its code says so.
    spend: Option<Spend>,
}

/// The content of the next heartbeat.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Progress {
    pub(crate) pct: Option<f64>,
    pub(crate) message: Option<String>,
}

impl LeaseState {
    pub(crate) fn new(task_token: String, clock: Clock) -> LeaseState {
        LeaseState {
            stop: Mutex::new(None),
            stop_token: CancellationToken::new(),
            lost: CancellationToken::new(),
            proof: Mutex::default(),
            changed: Notify::new(),
            clock,
            content: Mutex::new(HeartbeatContent {
                task_token,
                progress: Progress::default(),
                is_progress_new: false,
                spend: None,
            }),
            left: Mutex::default(),
            log: Mutex::default(),
            log_switch: LogSwitch::default(),
        }
    }

    /// The coordinator granted or renewed the lease for `ttl` in answer to a request sent at `sent`.
    pub(crate) fn renew(&self, sent: Moment, ttl: Duration) {
        locked(&self.proof).valid_until = Some(sent.after(usable_for(ttl)));
        self.changed.notify_waiters();
    }

    pub(crate) fn valid_until(&self) -> Option<Moment> {
        locked(&self.proof).valid_until
    }

    /// The coordinator acknowledged the start.
    pub(crate) fn acknowledge_start(&self) {
        locked(&self.proof).is_started = true;
        self.changed.notify_waiters();
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Waits until the precondition is met once, or the lease is lost.
    pub(crate) async fn wait_until(&self, precondition: Precondition) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // Registered before the proof is read, so that a change in between is not missed.
            changed.as_mut().enable();
            if self.meets(precondition) || self.lost.is_cancelled() {
                return;
            }
            changed.await;
        }
    }

    fn meets(&self, precondition: Precondition) -> bool {
        let proof = *locked(&self.proof);
        let is_started = precondition == Precondition::Lease || proof.is_started;
        proof.valid_until.is_some() && is_started
    }

    /// Lost by a verdict, or by the clock even if no other thread has noticed yet: a resumed
    /// process may run a task's code before the thread that watches the clock.
    pub(crate) fn is_lost(&self) -> bool {
        if self.valid_until().is_some_and(|until| until.has_come(self.clock.now())) {
            self.lose("the worker's local deadline passed without a renewal");
        }
        self.lost.is_cancelled()
    }

    pub(crate) fn lose(&self, why: impl Into<String>) {
        self.stop(StopReason::LeaseLost { why: why.into() });
    }

    /// The first reason is kept, except that a lost lease overrides any other.
    pub(crate) fn stop(&self, stop: StopReason) {
        let is_loss = matches!(stop, StopReason::LeaseLost { .. });
        let mut current = locked(&self.stop);
        if current.is_none() || (is_loss && !matches!(*current, Some(StopReason::LeaseLost { .. })))
        {
            *current = Some(stop);
        }
        drop(current);
        if is_loss {
            self.lost.cancel();
            self.changed.notify_waiters();
        }
        self.stop_token.cancel();
    }

    pub(crate) fn stop_reason(&self) -> Option<StopReason> {
        locked(&self.stop).clone()
    }

    pub(crate) fn stop_token(&self) -> &CancellationToken {
        &self.stop_token
    }

    pub(crate) fn lost_token(&self) -> &CancellationToken {
        &self.lost
    }

    pub(crate) fn task_token(&self) -> String {
        locked(&self.content).task_token.clone()
    }

    pub(crate) fn refresh_token(&self, task_token: String) {
        locked(&self.content).task_token = task_token;
    }

    pub(crate) fn progress(&self) -> Progress {
        locked(&self.content).progress.clone()
    }

    /// The progress for a heartbeat that is made now.
    pub(crate) fn take_progress(&self) -> Progress {
        let mut content = locked(&self.content);
        content.is_progress_new = false;
        content.progress.clone()
    }

    pub(crate) fn set_progress(&self, progress: Progress) {
        let mut content = locked(&self.content);
        content.is_progress_new |= content.progress != progress;
        content.progress = progress;
    }

    /// What the attempt has used in all, if its code said so.
    pub(crate) fn spend(&self) -> Option<wire::requests::Spend> {
        let Spend { cost_micros, tokens, tool_calls } = locked(&self.content).spend?;
        Some(wire::requests::Spend { cost_micros, tokens, tool_calls })
    }

    pub(crate) fn add_spend(&self, more: Spend) {
        let mut content = locked(&self.content);
        content.is_progress_new = true;
        content.spend = Some(content.spend.unwrap_or_default().plus(more));
    }

    pub(crate) fn left(&self) -> Option<BudgetLeft> {
        locked(&self.left).clone()
    }

    /// An answer without it says nothing about the budget.
    pub(crate) fn set_left(&self, left: Option<BudgetLeft>) {
        if left.is_some() {
            *locked(&self.left) = left;
        }
    }

    /// Adds a line to the log of the attempt.
    pub(crate) fn log(&self, level: LogLevel, text: &str) {
        if self.log_switch.is_off() {
            return;
        }
        locked(&self.log).add(level, text, wall_clock());
        locked(&self.content).is_progress_new = true;
    }

    /// The oldest lines that have not arrived.
    pub(crate) fn log_lines(&self, bytes_max: usize) -> Vec<LogLine> {
        if self.log_switch.is_off() {
            return Vec::new();
        }
        locked(&self.log).lines(bytes_max)
    }

    /// Shared by all attempts of a worker.
    pub(crate) fn with_log_switch(mut self, log_switch: LogSwitch) -> LeaseState {
        self.log_switch = log_switch;
        self
    }

    pub(crate) fn log_switch(&self) -> &LogSwitch {
        &self.log_switch
    }

    /// The coordinator has the lines up to this one.
    pub(crate) fn log_arrived(&self, last: u64) {
        let mut log = locked(&self.log);
        log.arrived(last);
        if log.bytes() > 0 {
            locked(&self.content).is_progress_new = true;
        }
    }

    /// About how much the next heartbeat carries of it.
    pub(crate) fn log_bytes(&self) -> usize {
        locked(&self.log).bytes().min(CALL_BYTES_MAX)
    }

    /// Whether the next heartbeat has news for the coordinator.
    pub(crate) fn has_new_progress(&self) -> bool {
        locked(&self.content).is_progress_new
    }
}

/// A panic of another holder leaves these values consistent: each is replaced in one assignment.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease_state() -> LeaseState {
        LeaseState::new("token".to_owned(), Clock::system())
    }

    #[test]
    fn a_worker_uses_nine_tenths_of_a_lease_less_a_second() {
        let usable_ms = |ms| usable_for(Duration::from_millis(ms)).as_millis();
        assert_eq!(usable_ms(90_000), 80_000);
        assert_eq!(usable_ms(10_000), 8_000);
        // Up to 2.5 s the fixed second would leave half or less.
        assert_eq!(usable_ms(2_500), 1_875);
        assert_eq!(usable_ms(2_000), 1_500);
        assert_eq!(usable_ms(2_510), 1_259);
    }

    #[tokio::test(start_paused = true)]
    async fn the_clock_alone_loses_a_lease_and_a_renewal_counts_from_its_sending() {
        // S3-10, S3-48, S3-66: ownership is lost by time, without a message.
        let lease_state = lease_state();
        let sent = lease_state.clock().now();
        tokio::time::advance(Duration::from_secs(5)).await;
        lease_state.renew(sent, Duration::from_secs(10));
        tokio::time::advance(Duration::from_millis(2_999)).await;
        assert!(!lease_state.is_lost());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(lease_state.is_lost());
        assert!(lease_state.stop_token().is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_lease_is_never_revived() {
        // S3-49: a renewal that arrives after the loss changes nothing.
        let lease_state = lease_state();
        lease_state.lose("410");
        lease_state.renew(lease_state.clock().now(), Duration::from_secs(90));
        assert!(lease_state.is_lost());
    }

    #[test]
    fn a_loss_overrides_a_cancel_and_nothing_overrides_a_loss() {
        let lease_state = lease_state();
        lease_state.stop(StopReason::CancelRequested { reason: None });
        assert!(!lease_state.lost_token().is_cancelled());
        lease_state.lose("410");
        lease_state.stop(StopReason::ShuttingDown);
        assert_eq!(
            lease_state.stop_reason(),
            Some(StopReason::LeaseLost { why: "410".to_owned() })
        );
    }
}
