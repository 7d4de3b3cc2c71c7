//! Grants a task to a worker, and takes back a grant that was not delivered.

use super::{cancel, flow, run};
use crate::attempt::AttemptOutcome;
use crate::bounds;
use crate::budget::Balance;
use crate::build;
use crate::done::Reason;
use crate::event::{Event, Next};
use crate::policy::UNDELIVERED_MAX;
use crate::request::{Grant, Undelivered};
use crate::task::Task;
use crate::time::{Moment, Time};
use crate::transition::{self, Closing};
use crate::verdict::{Answer, ReadSet, Verdict};

/// Owns the acquisition of leases.
pub struct Pool(());

pub(super) fn decide(read_set: ReadSet<'_>, grant: &Grant, at: Moment) -> Verdict {
    match read_set.subject.live() {
        // A paused queue grants nothing. Everything else about its tasks goes on: deadlines, cancels, running attempts.
        Some(_) if read_set.context.is_queue_paused => Verdict::nothing(),
        // The sweep that is due at once ends the task: the pool sets no outcome (S2-54).
        Some(task) if bounds::is_spent(task) => Verdict::nothing(),
        // A store that offers a pinned run to another build is refused.
        Some(task) if !build::may_take(task, grant.build.as_deref()) => Verdict::nothing(),
        // A task that does not fit into its key stays where it is until a slot is free.
        Some(task) if !flow::has_room(read_set.context.flows, task) => Verdict::nothing(),
        Some(task) if is_grantable(task, at.now) => {
            let mut events = vec![transition::grant(&Pool(()), task, grant, at)];
            events.extend(build::noted(task, grant).map(run::event));
            Verdict::new(Answer::Granted, events)
        }
        Some(_) | None => Verdict::nothing(),
    }
}

/// The task is due, not leased and not past its deadline or its time to live. A task with a cancel request never gets
/// here: a waiting one ended at once, and a running one is not requeued.
fn is_grantable(task: &Task, now: Time) -> bool {
    let due = task.claimable_at().is_some_and(|due| due.has_come(now));
    let over = task.policy.deadline.is_some_and(|deadline| deadline.has_come(now));
    let is_out_of_time = task.wall_end().is_some_and(|end| end.has_come(now)) || has_no_time(task);
    let is_expired = task.ttl_ends_at().is_some_and(|end| end.has_come(now));
    due && !over && !is_out_of_time && !is_expired && task.cancel.is_none()
}

/// The leases of the task have lasted as long as they may together. The next sweep halts it.
fn has_no_time(task: &Task) -> bool {
    let budget = |balance: &Balance| balance.is_active_over();
    task.balance().is_some_and(budget)
}

/// The answer that carried the grant could not be written. The task returns to its old queue
/// position, or ends if its cancel was requested meanwhile, since no later grant would happen.
pub(super) fn undelivered(read_set: ReadSet<'_>, undelivered: &Undelivered, at: Moment) -> Verdict {
    let Some(task) = read_set.subject.live() else { return Verdict::nothing() };
    match task.lease() {
        Some(lease) if lease.id == undelivered.lease && !lease.heard => {
            let event = match task.cancel {
                Some(_) => cancel::before_start(task, at.now),
                None => hand_back(task, at),
            };
            Verdict::new(Answer::Done, vec![event])
        }
        Some(_) | None => Verdict::nothing(),
    }
}

fn hand_back(task: &Task, at: Moment) -> Event {
    let next = Next::Retry { due: due_after_hand_back(task, at) };
    let closing = Closing::unreported(AttemptOutcome::Undelivered, Reason::HandedBack);
    transition::hand_back(&Pool(()), task, closing, next, at.now)
}

/// One undelivered grant says nothing about the task. Several in a row mean that grants cannot
/// reach the worker, and count like grants that expired without a call. The last grant that may come back needs no pause: no other follows, and the sweep ends the task.
fn due_after_hand_back(task: &Task, at: Moment) -> Time {
    let count = bounds::next(task.undelivered);
    if count >= UNDELIVERED_MAX {
        return at.now;
    }
    at.now.plus(task.policy.hand_back_pause(task.id, task.attempt, count))
}
