//! What follows when an attempt has made no progress for too long ([`crate::progress_clock`]).
//!
//! The sweep that is due at that instant decides it. The end of the lease comes first: if the worker is silent too, that is
//! a lost worker and no stall.

use super::{report, sweep};
use crate::attempt::AttemptOutcome;
use crate::bounds;
use crate::done::{End, Reason};
use crate::event::{Event, Next};
use crate::id::Text;
use crate::progress_clock::{OnStall, ProgressClock};
use crate::task::{State, Task};
use crate::time::Moment;
use crate::transition::Closing;

/// `None` if the task has no attempt that has stalled.
pub(super) fn decide(task: &Task, at: Moment) -> Option<Vec<Event>> {
    let (clock, lease) = (task.policy.clock(), task.lease()?);
    let has_stalled = task.stalls_at()?.has_come(at.now);
    if !has_stalled || lease.expires_at.has_come(at.now) {
        return None;
    }
    let since = task.progressed_at()?;
    Some(match clock.action {
        // The lease is of an earlier life of the store: its worker could not record progress, and loses the lease in time.
        _ if lease.fence.epoch() != at.epoch => vec![Event::Stalled { since }],
        OnStall::Warn => vec![Event::Stalled { since }],
        OnStall::Cancel => {
            let reason = Text::from(format!("{}: {}", Reason::Stalled.name(), message(clock)));
            vec![Event::Stalled { since }, Event::CancelRequested { reason: Some(reason) }]
        }
        OnStall::Requeue => vec![requeue(task, clock, at)],
    })
}

/// The worker is stuck, and that need not be the task's fault: like a lost worker, the retry is due at once, and a task that
/// stalls every worker ends (W-19).
fn requeue(task: &Task, clock: ProgressClock, at: Moment) -> Event {
    let closing = Closing::unreported(AttemptOutcome::Revoked, Reason::Stalled);
    let count = bounds::next(task.lost);
    let is_last = count >= task.policy.lost_max || report::is_worn_out(task, task.failures, count);
    let next = if is_last {
        let fault = Some(sweep::timeout_fault(&message(clock)));
        let reason = Some(Reason::Stalled);
        Next::End(End { state: State::Failed, reason, output: None, fault })
    } else {
        bounds::retry(task, at.now)
    };
    sweep::time_out(task, closing, next, at.now)
}

fn message(clock: ProgressClock) -> String {
    format!(
        "the attempt sent heartbeats and made no progress for {} ms; its worker is stuck, or works longer than that without \
         saying how far it is",
        clock.after.millis()
    )
}
