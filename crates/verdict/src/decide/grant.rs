//! Giving a task to a worker, and taking back a grant nobody received.

use super::cancel;
use crate::attempt::AttemptOutcome;
use crate::done::Reason;
use crate::event::Event;
use crate::request::{Grant, Undelivered};
use crate::task::Task;
use crate::time::{Moment, Time};
use crate::transition::{self, Closing};
use crate::verdict::{Answer, Seen, Verdict};

/// Owns the acquisition of leases.
pub struct Pool(());

pub(super) fn decide(seen: Seen<'_>, grant: &Grant, at: Moment) -> Verdict {
    match seen.subject.live() {
        Some(task) if is_grantable(task, at.now) => {
            Verdict::new(Answer::Granted, vec![transition::grant(&Pool(()), task, grant, at)])
        }
        Some(_) | None => Verdict::nothing(),
    }
}

/// Due, not leased, not past its deadline. A task whose cancel was requested is never here: a
/// waiting one ended at once, and a running one does not come back.
fn is_grantable(task: &Task, now: Time) -> bool {
    let due = task.claimable_at().is_some_and(|due| due.has_come(now) || faultpoint::mutant(10));
    let over = task.policy.deadline.is_some_and(|deadline| deadline.has_come(now));
    due && !over && task.cancel.is_none()
}

/// The answer that carried the grant could not be written: the task goes back to its old place, or
/// ends if its cancel was requested meanwhile, since nothing would ever grant it again.
pub(super) fn undelivered(seen: Seen<'_>, undelivered: &Undelivered, at: Moment) -> Verdict {
    let Some(task) = seen.subject.live() else { return Verdict::nothing() };
    match task.lease() {
        Some(lease) if lease.id == undelivered.lease && !lease.heard => {
            let event = match task.cancel {
                Some(_) => cancel::before_start(task, at.now),
                None => hand_back(task, at.now),
            };
            Verdict::new(Answer::Done, vec![event])
        }
        Some(_) | None => Verdict::nothing(),
    }
}

fn hand_back(task: &Task, now: Time) -> Event {
    let closing = Closing::unreported(AttemptOutcome::Undelivered, Reason::Undelivered);
    transition::hand_back(&Pool(()), task, closing, now)
}
