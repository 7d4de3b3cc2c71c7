//! Giving a task to a worker, and taking back a grant nobody received.

use super::{cancel, sweep};
use crate::attempt::AttemptOutcome;
use crate::bounds;
use crate::done::Reason;
use crate::event::{Event, Next};
use crate::policy::UNDELIVERED_MAX;
use crate::request::{Grant, Undelivered};
use crate::rules::Rules;
use crate::task::{State, Task};
use crate::time::{Moment, Time};
use crate::transition::{self, Closing};
use crate::verdict::{Answer, ReadSet, Verdict};

/// Owns the acquisition of leases.
pub struct Pool(());

pub(super) fn decide(read_set: ReadSet<'_>, grant: &Grant, at: Moment) -> Verdict {
    match read_set.subject.live() {
        Some(task) if is_grantable(task, at.now) && is_full(task, at.rules) => {
            let end = transition::give_up(&Pool(()), task, bounds::full_end());
            Verdict::new(Answer::Done, vec![end])
        }
        Some(task) if is_grantable(task, at.now) => {
            Verdict::new(Answer::Granted, vec![transition::grant(&Pool(()), task, grant, at)])
        }
        Some(_) | None => Verdict::nothing(),
    }
}

/// Due, not leased, not past its deadline. A task whose cancel was requested is never here: a
/// waiting one ended at once, and a running one does not come back.
fn is_grantable(task: &Task, now: Time) -> bool {
    let due = task.claimable_at().is_some_and(|due| due.has_come(now));
    let over = task.policy.deadline.is_some_and(|deadline| deadline.has_come(now));
    due && !over && task.cancel.is_none()
}

/// Whether no further attempt fits. A queued task has had none.
fn is_full(task: &Task, rules: Rules) -> bool {
    task.state() == State::Retry && !bounds::has_room(task, rules)
}

/// The answer that carried the grant could not be written: the task goes back to its old place, or
/// ends if its cancel was requested meanwhile, since nothing would ever grant it again.
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
        // Without an end and without a pause: whoever hung up again and again made attempts without end.
        Rules::V1 | Rules::V2 => (Reason::Undelivered, Next::Retry { due: at.now }),
        Rules::V3 => (Reason::HandedBack, after_hand_back(task, at)),
    };
    let closing = Closing::unreported(AttemptOutcome::Undelivered, reason);
    transition::hand_back(&Pool(()), task, closing, next, at.now)
}

/// One grant that came back is no news about the task. Several in a row are a way to the worker that does not work,
/// and count like grants that ran out unheard.
fn after_hand_back(task: &Task, at: Moment) -> Next {
    let count = bounds::next(task.undelivered);
    if count >= UNDELIVERED_MAX {
        return Next::End(sweep::unanswered_end());
    }
    let pause = task.policy.hand_back_pause(task.id, task.attempt, count);
    bounds::retry(task, at.now.plus(pause), at.rules)
}
