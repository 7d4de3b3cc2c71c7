//! Explains why a task is not running or has not ended, as far as the rules can tell.
//!
//! This module restates no rule: it reads every gate from the functions that decide
//! (`claimable_at`, `wakes_at`, `grace_ends_at`, the policy). The rules do not know whether a
//! worker polls for the task or how many tasks are ahead of it; the coordinator adds that.

use crate::done::Reason;
use crate::event::Subject;
use crate::id::Name;
use crate::policy::{RELEASES_MAX, UNDELIVERED_MAX};
use crate::progress_clock::ProgressClock;
use crate::run::{Divergence, Waiting};
use crate::task::{CancelRequest, Lease, Phase, Progress, State, Task};
use crate::time::{Moment, Time};

/// One condition that determines the task's progress, with its present value and the time at which
/// it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    /// The task was submitted with a start time in the future.
    RunAt { due: Time },
    /// The task waits for a newer one with its flow key, which would replace it, but no longer than until `last`.
    Debounced { key: Name, due: Time, last: Time },
    /// An attempt did not succeed, and the retry waits for its backoff.
    Backoff {
        due: Time,
        failures: u32,
        failures_max: u32,
        lost: u32,
        undelivered: u32,
        /// Attempts that were released or not delivered, and how many of them a release may make.
        uncounted: u32,
        uncounted_max: u32,
    },
    /// The rules allow a grant now: the next matching poll gets the task.
    Ready { since: Time },
    /// The task's queue is paused: nothing is granted from it.
    QueuePaused { since: Time },
    /// A worker holds the lease and has made a call under it.
    Leased { owner: Name, attempt: u32, heard_at: Time, until: Time, progress: Option<Progress> },
    /// The task was granted, but the worker has not made a call under the lease.
    Unheard { owner: Name, granted_at: Time, until: Time, undelivered: u32, undelivered_max: u32 },
    /// The lease belongs to an earlier epoch of the store, so reports under it are refused.
    Restored { owner: Name, until: Time },
    /// A cancel was requested, and no heartbeat answer has carried the signal yet.
    CancelUntold { requested_at: Time, until: Time },
    /// The worker received the cancel signal and has until this time to stop.
    CancelTold { told_at: Time, until: Time },
    /// When the attempt reaches its time limit.
    AttemptLimit { at: Time },
    /// The attempt has a progress clock: since when it made no progress, and when it stalls. `stalled_at` is when it was
    /// found stalled, and `until` is absent while the clock stands still.
    Progress { clock: ProgressClock, since: Time, stalled_at: Option<Time>, until: Option<Time> },
    /// When the run's deadline passes: no attempt starts or continues after it.
    Deadline { at: Time },
    /// When the task ends unless a worker has taken it.
    TimeToLive { at: Time },
    /// The task waits for what its call named. It fails if that does not come in time.
    Awaits { missing: u32, timer: Option<Time>, until: Time },
    /// The worker's code did not match the checkpoints: an operator must resume the task.
    Diverged { divergence: Divergence },
    /// The end of the task is decided and waits for so many children.
    Closing { state: State, live_children: u32 },
    /// The step of a plan waits until its upstreams have ended.
    Blocked,
    /// The root of a plan waits until so many steps have ended.
    Steps { live: u32 },
    /// The task has ended.
    Ended { state: State, reason: Option<Reason>, attempt: u32, at: Time },
}

/// Every gate of a task; the one that holds it now comes first. Empty for a task that does not
/// exist. `paused_since` is when its queue was paused, if it is.
pub fn explain(subject: &Subject, paused_since: Option<Time>, at: Moment) -> Vec<Gate> {
    match subject {
        Subject::Absent => Vec::new(),
        Subject::Live(task) => live(task, paused_since, at),
        Subject::Done(done) => vec![Gate::Ended {
            state: done.end.state,
            reason: done.end.reason,
            attempt: done.attempt,
            at: done.completed_at,
        }],
    }
}

fn live(task: &Task, paused_since: Option<Time>, at: Moment) -> Vec<Gate> {
    let holding: Vec<Gate> = match &task.phase {
        Phase::Queued { due } | Phase::Retry { due } => {
            let paused = paused_since.map(|since| Gate::QueuePaused { since });
            paused.into_iter().chain([waiting(task, *due, at.now)]).collect()
        }
        Phase::Waiting(on) => {
            let paused = paused_since.filter(|_| on.claimable_at().is_some());
            let paused = paused.map(|since| Gate::QueuePaused { since });
            paused.into_iter().chain([suspended(task, on)]).collect()
        }
        Phase::Running(lease) => {
            let cancel = task.cancel.as_ref().map(|cancel| cancelling(task, lease, cancel));
            cancel.into_iter().chain([running(task, lease, at.epoch)]).collect()
        }
    };
    holding.into_iter().chain(limits(task)).collect()
}

fn waiting(task: &Task, due: Time, now: Time) -> Gate {
    match task.state() {
        _ if due.has_come(now) => Gate::Ready { since: due },
        State::Retry => Gate::Backoff {
            due,
            failures: task.failures,
            failures_max: task.policy.failures_max,
            lost: task.lost,
            undelivered: task.undelivered,
            uncounted: task.uncounted(),
            uncounted_max: RELEASES_MAX,
        },
        _ => debounced(task, due).unwrap_or(Gate::RunAt { due }),
    }
}

fn debounced(task: &Task, due: Time) -> Option<Gate> {
    task.debounced_until()?;
    let flow = task.flow()?;
    let debounced = flow.debounce?;
    let last = debounced.since.plus(debounced.max);
    Some(Gate::Debounced { key: flow.name.clone(), due, last })
}

fn suspended(task: &Task, waiting: &Waiting) -> Gate {
    match waiting {
        Waiting::Ready { due } => Gate::Ready { since: *due },
        Waiting::For(wait) => {
            Gate::Awaits { missing: wait.missing, timer: wait.timer(), until: wait.gives_up_at }
        }
        Waiting::Diverged(divergence) => Gate::Diverged { divergence: divergence.clone() },
        Waiting::Blocked { due: Some(due) } => Gate::Ready { since: *due },
        Waiting::Blocked { due: None } => Gate::Blocked,
        Waiting::Steps => Gate::Steps { live: task.live_children() },
        Waiting::Closing(closing) => {
            Gate::Closing { state: closing.end.state, live_children: task.live_children() }
        }
    }
}

fn running(task: &Task, lease: &Lease, epoch: u32) -> Gate {
    let (owner, until) = (lease.owner.clone(), lease.expires_at);
    if lease.fence.epoch() != epoch {
        return Gate::Restored { owner, until };
    }
    if !lease.heard {
        return Gate::Unheard {
            owner,
            granted_at: lease.acquired_at,
            until,
            undelivered: task.undelivered,
            undelivered_max: UNDELIVERED_MAX,
        };
    }
    Gate::Leased {
        owner,
        attempt: task.attempt,
        heard_at: lease.heartbeat_at,
        until,
        progress: lease.progress.clone(),
    }
}

fn cancelling(task: &Task, lease: &Lease, cancel: &CancelRequest) -> Gate {
    // The sweep acts at the earliest of these times, so the explanation reports the same one.
    let until = task.wakes_at().unwrap_or(lease.expires_at);
    match cancel.signalled_at {
        Some(told_at) => Gate::CancelTold { told_at, until },
        None => Gate::CancelUntold { requested_at: cancel.requested_at, until },
    }
}

fn progress(task: &Task) -> Option<Gate> {
    // The bound that every attempt has says nothing while a cancel is about to end it.
    if task.cancel.is_some() && task.policy.progress_clock.is_none() {
        return None;
    }
    let (clock, since) = (task.policy.clock(), task.progressed_at()?);
    let stalled_at = task.lease()?.progress_mark.and_then(|mark| mark.stalled_at);
    Some(Gate::Progress { clock, since, stalled_at, until: task.stalls_at() })
}

fn limits(task: &Task) -> impl Iterator<Item = Gate> {
    let limit = task.lease().zip(task.policy.attempt_limit);
    let limit =
        limit.map(|(lease, limit)| Gate::AttemptLimit { at: lease.acquired_at.plus(limit) });
    let deadline = task.policy.deadline.map(|at| Gate::Deadline { at });
    let ttl = task.ttl_ends_at().map(|at| Gate::TimeToLive { at });
    [progress(task), limit, ttl, deadline].into_iter().flatten()
}
