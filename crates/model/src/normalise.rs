//! Maps all states that the rules cannot distinguish to one form.
//!
//! Times are kept relative to the reference time, and times so far in the past that no rule can distinguish them are
//! mapped to one value. Counters that only grow (claim version, fence, revision) keep their order and lose their
//! size. Values that the rules never read again (digests, texts, times of closed attempts) are made equal. All checks
//! of a step run before this, on real values.

use verdict::bounds::{DECISIONS_MAX, ENTRIES_MAX};
use verdict::{
    AttemptOutcome, ClosedAttempt, Done, End, Fence, Lease, Phase, Policy, Subject, Task, Time,
};

use crate::ledger::{CancelState, Ledger};
use crate::network::ZERO;
use crate::world::{REFERENCE_TIME, Row, World};
use crate::worlds::STEP_BACK;

/// Too little room left for a whole attempt.
const SHORT: u32 = 8;

/// Earlier than every time that matters.
const EARLIEST_TIME: Time = Time::from_millis(0);

/// How the times of a world are shifted.
#[derive(Clone, Copy)]
struct Shift {
    by: i64,
    /// How far the clock may still be set back: times within this distance are not yet past.
    slack: i64,
    has_releases: bool,
}

impl Shift {
    /// An instant of which only its arrival matters.
    fn instant(self, time: Time) -> Time {
        self.since(time, 0)
    }

    /// An instant that no clock will precede again is equivalent to any earlier one.
    fn past(self, time: Time) -> Time {
        let time = Time::from_millis(time.millis() - self.by);
        if time.millis() <= REFERENCE_TIME.millis() - self.slack { EARLIEST_TIME } else { time }
    }

    /// An instant from which a duration of at most `span` is counted.
    fn since(self, time: Time, span: u64) -> Time {
        let floor = REFERENCE_TIME.millis() - self.slack - span as i64;
        Time::from_millis((time.millis() - self.by).max(floor))
    }
}

pub(crate) fn normalise(world: &mut World) {
    let slack = if world.left.steps_back > 0 { STEP_BACK } else { 0 };
    let by = world.now.millis() - REFERENCE_TIME.millis();
    let shift = Shift { by, slack, has_releases: world.has_releases };
    world.now = REFERENCE_TIME;
    for (task, fence) in world.fences.iter_mut().enumerate() {
        normalise_row(&mut world.tasks[task], *fence, shift);
        if let Some(rows) = &mut world.backup {
            normalise_row(&mut rows[task], *fence, shift);
        }
        *fence = Fence::new((*fence >> 32) as u32, (*fence as u32).min(1)).as_u64();
    }
}

/// Below, at or above the largest fence: the next grant depends on nothing more.
fn beside(fence: u64, claim_version: u32) -> u32 {
    let given = fence as u32;
    let ahead = (i64::from(claim_version) - i64::from(given)).clamp(-1, 1);
    (i64::from(given.min(1)) + ahead).max(0) as u32
}

fn normalise_row(row: &mut Row, fence: u64, shift: Shift) {
    let policy = row.subject.live().map(|task| task.policy.clone()).unwrap_or_default();
    match &mut row.subject {
        Subject::Absent => {}
        Subject::Live(task) => {
            task.claim_version = beside(fence, task.claim_version);
            normalise_task(task, shift);
        }
        Subject::Done(done) => normalise_done(done),
    }
    row.closed.iter_mut().for_each(normalise_closed);
    normalise_ledger(&mut row.ledger, &policy, shift);
}

fn normalise_task(task: &mut Task, shift: Shift) {
    task.created_at = EARLIEST_TIME;
    task.started_at = task.started_at.map(|_| EARLIEST_TIME);
    // Normalization must not hide a rule that reads further back than it may.
    task.decided_at = shift.past(task.decided_at);
    task.revision = near(task.revision, DECISIONS_MAX);
    task.entries = near(task.entries, ENTRIES_MAX);
    task.chain = ZERO;
    let grace = task.policy.cancel_grace.millis();
    if let Some(cancel) = &mut task.cancel {
        cancel.requested_at = shift.since(cancel.requested_at, grace);
        cancel.signalled_at = cancel.signalled_at.map(|at| shift.since(at, grace));
    }
    match &mut task.phase {
        Phase::Queued { due } | Phase::Retry { due } => *due = shift.instant(*due),
        Phase::Running(lease) => normalise_lease(lease, &task.policy, shift),
        Phase::Waiting(_) => unreachable!("plain tasks do not wait: see the worlds of runs"),
    }
    task.policy.deadline = task.policy.deadline.map(|deadline| shift.instant(deadline));
}

/// A count matters only near its limit. Once the room is too small for an attempt, its exact value does not matter.
fn near(count: u32, max: u32) -> u32 {
    if count < max / 2 { 0 } else { count.min(max - SHORT) }
}

fn normalise_lease(lease: &mut Lease, policy: &Policy, shift: Shift) {
    lease.acquired_at = acquired_at(lease.acquired_at, policy, shift);
    lease.heartbeat_at = lease.acquired_at;
    lease.started_at = lease.started_at.map(|_| lease.acquired_at);
    lease.expires_at = shift.instant(lease.expires_at);
    lease.fence = Fence::new(lease.fence.epoch(), 1);
}

/// Only the attempt's limit is counted from here, and the time until a released task is leased again.
fn acquired_at(time: Time, policy: &Policy, shift: Shift) -> Time {
    let spacing = shift.has_releases.then(|| policy.release_spacing(u32::MAX));
    let longest = policy.attempt_limit.max(spacing);
    longest.map_or(EARLIEST_TIME, |longest| shift.since(time, longest.millis()))
}

fn normalise_done(done: &mut Done) {
    done.created_at = EARLIEST_TIME;
    done.started_at = None;
    done.completed_at = REFERENCE_TIME;
    (done.failures, done.lost, done.claim_version, done.entries) = (0, 0, 0, 0);
    if let Some(cancel) = &mut done.cancel {
        cancel.requested_at = EARLIEST_TIME;
        cancel.signalled_at = None;
    }
    done.end = End { state: done.end.state, reason: None, output: None, fault: None };
    done.record = ZERO;
}

fn normalise_closed(closed: &mut ClosedAttempt) {
    (closed.granted_at, closed.started_at, closed.closed_at) = (EARLIEST_TIME, None, EARLIEST_TIME);
    closed.fence = Fence::new(closed.fence.epoch(), 1);
    (closed.reason, closed.fault) = (None, None);
    if closed.report.is_none() {
        closed.outcome = AttemptOutcome::Lost;
    }
}

fn normalise_ledger(ledger: &mut Ledger, policy: &Policy, shift: Shift) {
    if let Some(open) = &mut ledger.open {
        open.granted_at = acquired_at(open.granted_at, policy, shift);
        open.until = shift.instant(open.until);
    }
    if let Some(CancelState { told_at: Some(told_at) }) = &mut ledger.cancel {
        *told_at = match ledger.open {
            Some(_) => shift.since(*told_at, policy.cancel_grace.millis()),
            None => EARLIEST_TIME,
        };
    }
}
