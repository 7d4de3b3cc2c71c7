//! Why is this task not running, or not ended? What the rules alone can say of it.
//!
//! No rule is written a second time here: every gate is read off the same functions that decide
//! (`claimable_at`, `wakes_at`, `grace_ends_at`, the policy). Whether a worker asks for the task,
//! and how many stand before it, the rules do not know; the coordinator adds that.

use crate::done::Reason;
use crate::event::Subject;
use crate::id::Name;
use crate::policy::UNDELIVERED_MAX;
use crate::task::{CancelRequest, Lease, Phase, Progress, State, Task};
use crate::time::{Moment, Time};

/// One thing that holds a task where it is, with its present value and the time that changes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    /// It was submitted for later.
    RunAt { due: Time },
    /// An attempt did not succeed and the next one waits.
    Backoff { due: Time, failures: u32, failures_max: u32, lost: u32, undelivered: u32 },
    /// Nothing in the rules holds it: the next poll that wants it gets it.
    Ready { since: Time },
    /// A worker has it and was heard.
    Leased { owner: Name, attempt: u32, heard_at: Time, until: Time, progress: Option<Progress> },
    /// It was granted, and whoever was to have it never made a call.
    Unheard { owner: Name, granted_at: Time, until: Time, undelivered: u32, undelivered_max: u32 },
    /// The lease is of an earlier life of the store: nobody may report under it any more.
    Restored { owner: Name, until: Time },
    /// Somebody asked for its end and the worker has not been told yet.
    CancelUntold { requested_at: Time, until: Time },
    /// The worker was told to stop, and has this long.
    CancelTold { told_at: Time, until: Time },
    /// This attempt may not take longer.
    AttemptLimit { at: Time },
    /// After this nothing starts and nothing goes on.
    Deadline { at: Time },
    /// It is over.
    Ended { state: State, reason: Option<Reason>, attempt: u32, at: Time },
}

/// Every gate of a task, the one that holds it now first. Empty for a task that does not exist.
pub fn explain(subject: &Subject, at: Moment) -> Vec<Gate> {
    match subject {
        Subject::Absent => Vec::new(),
        Subject::Live(task) => live(task, at),
        Subject::Done(done) => vec![Gate::Ended {
            state: done.end.state,
            reason: done.end.reason,
            attempt: done.attempt,
            at: done.completed_at,
        }],
    }
}

fn live(task: &Task, at: Moment) -> Vec<Gate> {
    let holding = match &task.phase {
        Phase::Queued { due } | Phase::Retry { due } => vec![waiting(task, *due, at.now)],
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
        },
        _ => Gate::RunAt { due },
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
    // The sweep looks at whichever comes first, and so does whoever asks.
    let until = task.wakes_at().unwrap_or(lease.expires_at);
    match cancel.signalled_at {
        Some(told_at) => Gate::CancelTold { told_at, until },
        None => Gate::CancelUntold { requested_at: cancel.requested_at, until },
    }
}

fn limits(task: &Task) -> impl Iterator<Item = Gate> {
    let limit = task.lease().zip(task.policy.attempt_limit);
    let limit =
        limit.map(|(lease, limit)| Gate::AttemptLimit { at: lease.acquired_at.plus(limit) });
    let deadline = task.policy.deadline.map(|at| Gate::Deadline { at });
    [limit, deadline].into_iter().flatten()
}
