//! The progress clock of a task: how long an attempt may go without progress, and what then follows.
//!
//! A lease shows that a worker lives. A worker can live, send heartbeats and get nowhere; only the lack of progress
//! shows that. A task that is submitted with a progress clock stalls when its attempt makes none for that long. One that is
//! submitted without has a generous clock all the same ([`Policy::clock`]): no task is running for ever because its worker goes
//! on sending heartbeats (S2-100). This module has the terms of the clock, what an attempt remembers of its progress, and the
//! instant at which it stalls; what follows a stall is decided in [`crate::decide`], by the sweep that is due at that instant.
//!
//! Not to be confused with [`crate::stall`], which is about silences of the coordinator itself. Those do not
//! count here either: a progress clock stands still while no heartbeat could be recorded, as leases do.
//!
//! Invariants:
//! - Progress is a start, a heartbeat whose progress differs from the last one, a new step or wait of a durable run, or a
//!   child that it starts. A heartbeat that repeats itself is none.
//! - A clock that was asked for starts with the first call of the worker: before that, only the lease judges the grant. The
//!   clock of a task that asked for none counts from the grant and remembers progress alone, so that a plain task costs nothing.
//! - A stall is decided once. After a warning the clock starts again with the next progress; with a cancel pending it
//!   stands still, because the cancel has a clock of its own.

use crate::bounds;
use crate::done::Reason;
use crate::policy::Policy;
use crate::task::{Lease, Progress, Task};
use crate::time::{Span, Time};

/// How long an attempt may only send heartbeats where nobody said otherwise: a day of silence about a piece of work means that
/// nobody is working on it. Longer work says how far it is, or asks for a longer clock.
pub const AFTER_DEFAULT: Span = Span::from_secs(24 * 60 * 60);

/// A worker with a long lease has the time of so many leases to say how far it is.
const LEASES_MIN: u64 = 2;

/// The terms of a progress clock, part of a task's policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProgressClock {
    /// How long an attempt may go without progress.
    pub after: Span,
    pub action: OnStall,
}

/// What follows when an attempt has stalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OnStall {
    /// The stall is recorded, and nothing else changes.
    Warn,
    /// The task is cancelled as if a client had asked for it: the worker gets the signal and its grace period.
    Cancel,
    /// The lease is revoked, and the task is offered again. Counts like a lost worker.
    Requeue,
}

impl OnStall {
    pub const ALL: [OnStall; 3] = [OnStall::Warn, OnStall::Cancel, OnStall::Requeue];

    pub const fn name(self) -> &'static str {
        match self {
            OnStall::Warn => "warn",
            OnStall::Cancel => "cancel",
            OnStall::Requeue => "requeue",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.name() == name)
    }
}

/// What an attempt with a progress clock remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProgressMark {
    /// When the attempt last made progress, later by the time of our own stalls since then.
    pub at: Time,
    /// When the attempt was found to have stalled, if it made no progress since.
    pub stalled_at: Option<Time>,
}

impl ProgressMark {
    pub(crate) const fn new(at: Time) -> Self {
        Self { at, stalled_at: None }
    }
}

impl Policy {
    /// The clock of every attempt: the one that was asked for, else the default, which gives the task to another worker.
    pub fn clock(&self) -> ProgressClock {
        let least = Span::from_millis(self.lease.millis().saturating_mul(LEASES_MIN));
        let default = ProgressClock { after: AFTER_DEFAULT.max(least), action: OnStall::Requeue };
        self.progress_clock.unwrap_or(default)
    }

    /// The shortest silence of ours that could end or change an attempt: of its lease, or of its progress clock.
    pub fn shortest_silence(&self) -> Span {
        self.progress_clock.map_or(self.lease, |clock| clock.after.min(self.lease))
    }
}

impl Task {
    /// What the clock of the current attempt counts from; `None` without an attempt, and before the first call of one that asked
    /// for its clock.
    pub fn progressed_at(&self) -> Option<Time> {
        let lease = self.lease()?;
        let is_implicit = self.policy.progress_clock.is_none() && lease.heard;
        let implicit = is_implicit.then_some(lease.acquired_at);
        lease.progress_mark.map(|mark| mark.at).or(implicit)
    }

    /// When the current attempt stalls unless it makes progress; `None` while no progress clock runs.
    pub fn stalls_at(&self) -> Option<Time> {
        let (clock, since) = (self.policy.clock(), self.progressed_at()?);
        let has_stalled = self.lease()?.progress_mark.is_some_and(|mark| mark.stalled_at.is_some());
        let is_running = self.cancel.is_none() && !has_stalled;
        // A warning is an entry that no attempt needs: the last entries of a history are kept for those that it does.
        let has_room = clock.action != OnStall::Warn || bounds::has_room_for_warning(self);
        (is_running && has_room).then(|| since.plus(clock.after))
    }

    /// Whether the pending cancel was the answer to a stall.
    pub fn is_cancelled_for_stall(&self) -> bool {
        let cancels = self.policy.progress_clock.is_some_and(|it| it.action == OnStall::Cancel);
        let mark = self.lease().and_then(|lease| lease.progress_mark);
        cancels && self.cancel.is_some() && mark.is_some_and(|mark| mark.stalled_at.is_some())
    }

    /// Why a pending cancel ends the task.
    pub(crate) fn cancel_reason(&self) -> Reason {
        if self.is_cancelled_for_stall() { Reason::Stalled } else { Reason::CancelRequested }
    }
}

/// Records that the attempt made progress. With a cancel pending, nothing is recorded.
pub(crate) fn advance(task: &mut Task, now: Time) {
    let counts = task.cancel.is_none();
    if let Some(lease) = task.lease_mut().filter(|_| counts) {
        lease.progress_mark = Some(ProgressMark::new(now));
    }
}

/// The attempt has started, which is progress for a clock that was asked for.
pub(crate) fn start(task: &mut Task, now: Time) {
    if task.policy.progress_clock.is_some() {
        advance(task, now);
    }
}

/// A call of the worker that is no progress only starts a clock that does not run yet.
pub(crate) fn begin(task: &mut Task, now: Time) {
    if task.lease().is_some_and(|lease| lease.progress_mark.is_none()) {
        start(task, now);
    }
}

/// Whether a heartbeat says something that the last one did not.
pub(crate) fn is_new(lease: &Lease, said: Option<&Progress>) -> bool {
    said.is_some() && said != lease.progress.as_ref()
}
