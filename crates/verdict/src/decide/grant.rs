//! Grants a task to a worker, and takes back a grant that was not delivered.

use super::{cancel, flow, sweep};
use crate::attempt::AttemptOutcome;
use crate::bounds;
use crate::budget::Balance;
use crate::done::Reason;
use crate::event::{Event, Next};
use crate::policy::UNDELIVERED_MAX;
use crate::request::{Grant, Undelivered};
use crate::rules::Rules;
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
        Some(task) if is_grantable(task, at.now) && is_full(task, at.rules) => ungranted(task, at),
        // A task that does not fit into its key stays where it is until a slot is free.
        Some(task) if !flow::has_room(read_set.context.flows, task) => Verdict::nothing(),
        Some(task) if is_grantable(task, at.now) => {
            Verdict::new(Answer::Granted, vec![transition::grant(&Pool(()), task, grant, at)])
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

/// The sweep that is due at once ends the task: the pool sets no outcome (S2-54).
fn ungranted(task: &Task, at: Moment) -> Verdict {
    match at.rules {
        Rules::V1 | Rules::V2 | Rules::V3 | Rules::V4 | Rules::V5 => {
            let end = transition::give_up(&Pool(()), task, bounds::full_end());
            Verdict::new(Answer::Done, vec![end])
        }
        Rules::V6 => Verdict::nothing(),
    }
}

/// Whether no further attempt fits into the history of a task that has had one.
fn is_full(task: &Task, rules: Rules) -> bool {
    match rules {
        Rules::V1 | Rules::V2 | Rules::V3 | Rules::V4 | Rules::V5 => {
            task.attempt > 0 && !bounds::has_room(task, rules)
        }
        Rules::V6 => bounds::is_spent(task),
    }
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
    let (reason, next) = match at.rules {
        // Without a limit and without a pause: a poller that kept disconnecting caused attempts
        // without end.
        Rules::V1 | Rules::V2 => (Reason::Undelivered, Next::Retry { due: at.now }),
        Rules::V3 | Rules::V4 | Rules::V5 => (Reason::HandedBack, after_hand_back(task, at)),
        Rules::V6 => (Reason::HandedBack, Next::Retry { due: due_after_hand_back(task, at) }),
    };
    let closing = Closing::unreported(AttemptOutcome::Undelivered, reason);
    transition::hand_back(&Pool(()), task, closing, next, at.now)
}

/// One undelivered grant says nothing about the task. Several in a row mean that grants cannot
/// reach the worker, and count like grants that expired without a call.
fn after_hand_back(task: &Task, at: Moment) -> Next {
    if bounds::next(task.undelivered) >= UNDELIVERED_MAX {
        return Next::End(sweep::unanswered_end());
    }
    bounds::retry(task, due_after_hand_back(task, at), at.rules)
}

/// The last grant that may come back needs no pause: no other follows, and the sweep ends the task.
fn due_after_hand_back(task: &Task, at: Moment) -> Time {
    let count = bounds::next(task.undelivered);
    if count >= UNDELIVERED_MAX {
        return at.now;
    }
    at.now.plus(task.policy.hand_back_pause(task.id, task.attempt, count))
}
