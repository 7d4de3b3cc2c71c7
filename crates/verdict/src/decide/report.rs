//! A report: how an attempt ended. The retry policy decides what becomes of the task.
//!
//! What becomes of a task that its worker hands back is in [`super::release`].

use super::caller::{self, Call};
use super::{cancel, release};
use crate::attempt::{AttemptOutcome, ClosedAttempt};
use crate::bounds;
use crate::done::{End, Fault, Reason};
use crate::event::{Event, Next};
use crate::id::Digest;
use crate::request::{Caller, Outcome, Report};
use crate::task::{Lease, State, Task};
use crate::time::{Moment, Time};
use crate::transition::{self, Closing};
use crate::verdict::{Answer, ReadSet, Refusal, Verdict};

/// Owns the transitions from running to the outcome that the worker reported.
pub struct Runner(());

pub(super) fn decide(read_set: ReadSet<'_>, report: &Report, at: Moment) -> Verdict {
    if let Err(refusal) = caller::recognise(read_set, &report.caller, at) {
        return Verdict::refuse(refusal);
    }
    if let Some(stored) = stored_answer(read_set, &report.caller, report.digest) {
        return stored;
    }
    match caller::authorise(read_set, &report.caller, Call::Report, at) {
        Err(refusal) => Verdict::refuse(refusal),
        Ok((task, lease)) => commit(task, lease, report, at),
    }
}

/// The same report gets the same answer; a different report for the same lease is refused.
///
/// The call that suspended an attempt, or halted its task, was no report: a report after it has lost its authority, like any late one.
pub(super) fn stored_answer(
    read_set: ReadSet<'_>,
    caller: &Caller,
    digest: Digest,
) -> Option<Verdict> {
    let closed: &ClosedAttempt =
        read_set.context.closed.filter(|closed| closed.lease == caller.lease)?;
    let is_call = closed.outcome.is_suspension() || closed.reason == Some(Reason::BudgetExhausted);
    let reported = closed.report.filter(|_| !is_call)?;
    let state = read_set.subject.state().expect("a recognised caller has a task");
    if reported != digest {
        return Some(Verdict::refuse(Refusal::ConflictingReport { state }));
    }
    let answer = Answer::Committed { outcome: closed.outcome, state, replayed: true };
    Some(Verdict::new(answer, Vec::new()))
}

pub(super) fn commit(task: &Task, lease: &Lease, report: &Report, at: Moment) -> Verdict {
    let (outcome, next) = match &report.outcome {
        Outcome::Succeeded { output } => {
            let end =
                End { state: State::Succeeded, reason: None, output: output.clone(), fault: None };
            (AttemptOutcome::Succeeded, Next::End(end))
        }
        Outcome::Failed(fault) => (AttemptOutcome::Failed, after_failure(task, fault, at)),
        Outcome::Cancelled { output } => {
            let reason = match task.cancel {
                Some(_) => task.cancel_reason(),
                None => Reason::CancelledByWorker,
            };
            let end = End {
                state: State::Cancelled,
                reason: Some(reason),
                output: output.clone(),
                fault: None,
            };
            (AttemptOutcome::Cancelled, Next::End(end))
        }
        Outcome::Released => (AttemptOutcome::Released, release::after(task, lease, at)),
    };
    let closing = closing(report, outcome, &next);
    let event = transition::report(&Runner(()), task, closing, next, at.now);
    let state = event.next_state().expect("a report closes its attempt");
    Verdict::new(Answer::Committed { outcome, state, replayed: false }, vec![event])
}

/// The budget is used up by the worker's call, or by what its child used (S2-70).
pub(super) fn halt(task: &Task, closing: Closing, end: End, now: Time) -> Event {
    transition::halt(&Runner(()), task, closing, end, now)
}

/// The budget is used up while no worker holds the task.
pub(super) fn halt_waiting(task: &Task, end: End) -> Event {
    transition::halt_waiting(&Runner(()), task, end)
}

/// What follows an attempt that closed in any way, once the budget is used up.
pub(super) fn halt_after(task: &Task, end: End, now: Time) -> Next {
    transition::halt_after(&Runner(()), task, end, now)
}

fn closing(report: &Report, outcome: AttemptOutcome, next: &Next) -> Closing {
    let fault = match &report.outcome {
        Outcome::Failed(fault) => Some(fault.clone()),
        Outcome::Succeeded { .. } | Outcome::Cancelled { .. } | Outcome::Released => None,
    };
    let reason = match next {
        _ if outcome == AttemptOutcome::Released => Some(Reason::Released),
        Next::End(end) => end.reason,
        Next::Retry { .. } | Next::Wait(_) | Next::Stage(_) => None,
    };
    Closing { outcome, reason, fault, report: Some(report.digest), claims: report.claims.clone() }
}

/// Whether the task has had as many failures and lost workers as one may have in all, however much progress it made.
pub(super) fn is_worn_out(task: &Task, failures: u32, lost: u32) -> bool {
    task.run.as_ref().is_some_and(|run| run.is_worn_out(failures, lost))
}

/// What becomes of a task after a reported failure. If the failure is not retryable or no
/// attempt is left, the task ends; a pending cancel replaces the retry; otherwise the task waits
/// for its next attempt.
pub(super) fn after_failure(task: &Task, fault: &Fault, at: Moment) -> Next {
    let failures = bounds::next(task.failures);
    let failed = |reason| {
        Next::End(End {
            state: State::Failed,
            reason: Some(reason),
            output: None,
            fault: Some(fault.clone()),
        })
    };
    if !fault.is_retryable() {
        failed(Reason::NotRetryable)
    } else if failures >= task.policy.failures_max || is_worn_out(task, failures, task.lost) {
        failed(Reason::AttemptsExhausted)
    } else if task.cancel.is_some() {
        Next::End(End { fault: Some(fault.clone()), ..cancel::pending_end(task) })
    } else {
        let due = at.now.plus(task.policy.backoff(task.id, task.attempt, failures));
        bounds::retry(task, due)
    }
}
