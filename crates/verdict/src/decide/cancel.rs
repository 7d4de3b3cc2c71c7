//! Cancels a task.
//!
//! A task that no worker holds ends at once, or closes if it has live children. A running one gets the cancel signal with its next heartbeat and
//! has its grace period to clean up; a forced cancel revokes the lease at once. Cancelling twice
//! changes nothing.

use super::stages;
use crate::attempt::AttemptOutcome;
use crate::done::{Category, Done, End, Fault, Reason};
use crate::event::{Event, Subject};
use crate::request::{Cancel, CancelMode};
use crate::run::{self, RunEvent};
use crate::task::{State, Task};
use crate::time::{Moment, Time};
use crate::transition::{self, Closing};
use crate::verdict::{Answer, ReadSet, Refusal, Verdict};

/// Owns every end that a cancel causes without a report from the worker.
pub struct Canceller(());

pub(super) fn decide(read_set: ReadSet<'_>, cancel: &Cancel, at: Moment) -> Verdict {
    match read_set.subject {
        Subject::Absent => Verdict::refuse(Refusal::TaskNotFound),
        Subject::Done(done) => on_ended(done),
        Subject::Live(task) => match (task.closing(), stages::ending(task)) {
            (Some(closing), _) => on_closing(task, closing, cancel, at.now),
            // The end of the task is decided, and only `always` stages are left. Force ends them too.
            (None, Some(ending)) if cancel.mode == CancelMode::Graceful => {
                let requested_at = ending.cancel.as_ref().map_or(at.now, |it| it.requested_at);
                accepted(task.state(), requested_at, Vec::new())
            }
            (None, _) => on_live(task, cancel, at.now),
        },
    }
}

fn on_ended(done: &Done) -> Verdict {
    match (&done.cancel, done.end.state) {
        (Some(cancel), state @ State::Cancelled) => accepted(state, cancel.requested_at, vec![]),
        (_, state) => Verdict::refuse(Refusal::RunAlreadyTerminal { state }),
    }
}

fn on_live(task: &Task, cancel: &Cancel, now: Time) -> Verdict {
    let requested_at = task.cancel.as_ref().map_or(now, |earlier| earlier.requested_at);
    let mut events = Vec::new();
    if task.cancel.is_none() {
        events.push(Event::CancelRequested { reason: cancel.reason.clone() });
    }
    match (task.lease(), cancel.mode) {
        (None, _) => {
            let end = stages::forced_end(task, cancel.mode).unwrap_or_else(requested_end);
            let end = transition::cancel_waiting(&Canceller(()), task, end, cancel.mode);
            let state = state_after(&end);
            events.push(end);
            accepted(state, requested_at, events)
        }
        (Some(_), CancelMode::Immediate) => {
            let closing = Closing::unreported(AttemptOutcome::Revoked, Reason::CancelForced);
            let end = End { reason: Some(Reason::CancelForced), ..requested_end() };
            let revoked = transition::revoke(&Canceller(()), task, closing, end, now);
            let state = state_after(&revoked);
            events.push(revoked);
            accepted(state, requested_at, events)
        }
        (Some(_), CancelMode::Graceful) => accepted(State::Running, requested_at, events),
    }
}

/// A task with live children waits for them before it is cancelled.
fn state_after(event: &Event) -> State {
    match event {
        Event::Ended(end) => end.state,
        Event::AttemptClosed { next, .. } => next.state(),
        _ => State::Waiting,
    }
}

/// The end of the task is decided and stays what it is. Force only hastens it: the children's leases are revoked.
fn on_closing(task: &Task, closing: &run::Closing, cancel: &Cancel, now: Time) -> Verdict {
    let requested_at = task.cancel.as_ref().map_or(now, |earlier| earlier.requested_at);
    let requested =
        task.cancel.is_none().then(|| Event::CancelRequested { reason: cancel.reason.clone() });
    let is_hastened = cancel.mode == CancelMode::Immediate && closing.mode == CancelMode::Graceful;
    let hastened = is_hastened.then(|| Event::Run(Box::new(RunEvent::Hastened)));
    accepted(State::Waiting, requested_at, requested.into_iter().chain(hastened).collect())
}

fn accepted(state: State, requested_at: Time, events: Vec<Event>) -> Verdict {
    Verdict::new(Answer::CancelAccepted { state, requested_at }, events)
}

fn requested_end() -> End {
    End {
        state: State::Cancelled,
        reason: Some(Reason::CancelRequested),
        output: None,
        fault: None,
    }
}

/// How the cancel that is pending ends the task.
pub(super) fn pending_end(task: &Task) -> End {
    End { reason: Some(task.cancel_reason()), ..requested_end() }
}

/// The worker has not started, so there is nothing to clean up and the task ends at once.
pub(super) fn before_start(task: &Task, now: Time) -> Event {
    let closing = Closing::unreported(AttemptOutcome::Cancelled, task.cancel_reason());
    transition::revoke(&Canceller(()), task, closing, pending_end(task), now)
}

/// The worker's code diverged with a cancel pending. No worker is left to honour the cancel, so the task ends.
pub(super) fn diverged(task: &Task, closing: Closing, now: Time) -> Event {
    transition::revoke(&Canceller(()), task, closing, pending_end(task), now)
}

/// The grace period is over and the worker has not reported, so the lease is revoked (R-13, W-13).
pub(super) fn grace_over(task: &Task, outcome: AttemptOutcome, now: Time) -> Event {
    let closing = Closing::unreported(outcome, Reason::CancelTimeout);
    let fault = Fault {
        category: Category::Timeout,
        message: "the worker did not stop within the cancel grace period".into(),
        stack_trace: None,
        retryable: Some(false),
    };
    let end = End {
        state: State::Failed,
        reason: Some(Reason::CancelTimeout),
        output: None,
        fault: Some(fault),
    };
    transition::revoke(&Canceller(()), task, closing, end, now)
}
