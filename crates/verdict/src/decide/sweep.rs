//! A sweep: decides what the passage of time changes about a task.
//!
//! A sweep is a request like any other: it judges the task as it is now, not as it was when it was
//! selected. A late or repeated sweep therefore does nothing.

use super::{approvals, budget, cancel, report, stalled, steps, waiting};
use crate::attempt::AttemptOutcome;
use crate::bounds;
use crate::budget::Balance;
use crate::done::{Category, End, Fault, Reason};
use crate::event::{Event, Next};
use crate::id::Text;
use crate::policy::UNDELIVERED_MAX;
use crate::run::{Wait, Waiting};
use crate::task::{Lease, Phase, State, Task};
use crate::time::{Moment, Span, Time};
use crate::transition::{self, Closing};
use crate::verdict::{Answer, ReadSet, Verdict};

/// Owns the transitions that time alone causes.
pub struct Sweeper(());

pub(super) fn decide(read_set: ReadSet<'_>, at: Moment) -> Verdict {
    if let Some(events) = approvals::expire(read_set, at) {
        return approvals::swept(events);
    }
    if let Some(events) = read_set.subject.live().and_then(|task| stalled::decide(task, at)) {
        return Verdict::new(Answer::Done, events);
    }
    let event = read_set.subject.live().and_then(|task| match &task.phase {
        Phase::Queued { .. } | Phase::Retry { .. } => sweep_waiting(task, at),
        Phase::Running(lease) => sweep_running(task, lease, at),
        Phase::Waiting(waiting) => sweep_suspended(read_set, task, waiting, at),
    });
    match event {
        Some(event) => Verdict::new(Answer::Done, vec![event]),
        None => Verdict::nothing(),
    }
}

fn sweep_waiting(task: &Task, at: Moment) -> Option<Event> {
    let over = task.policy.deadline.is_some_and(|deadline| deadline.has_come(at.now));
    let missed = over.then(|| transition::miss_deadline(&Sweeper(()), task, deadline_end()));
    missed
        .or_else(|| sweep_unclaimed(task, at.now))
        .or_else(|| sweep_budget(task, at))
        .or_else(|| sweep_spent(task, at))
}

/// No worker took the task within its time to live.
fn sweep_unclaimed(task: &Task, now: Time) -> Option<Event> {
    let is_over = task.ttl_ends_at().is_some_and(|end| end.has_come(now));
    is_over.then(|| transition::miss_deadline(&Sweeper(()), task, ttl_end()))
}

/// The time of the budget is over while no worker holds the task (S2-38).
fn sweep_budget(task: &Task, at: Moment) -> Option<Event> {
    let is_wall = budget::is_wall_over(task, at);
    let is_active = task.balance().is_some_and(Balance::is_active_over)
        && task.claimable_at().is_some_and(|due| due.has_come(at.now));
    let halt = || transition::miss_deadline(&Sweeper(()), task, budget::out_of_time(task, is_wall));
    (is_wall || is_active).then(halt)
}

/// A task that would be granted again, had it an attempt left (S2-54: the pool only grants).
fn sweep_spent(task: &Task, at: Moment) -> Option<Event> {
    let is_due = task.claimable_at().is_some_and(|due| due.has_come(at.now));
    let spend = || transition::spend(&Sweeper(()), task, bounds::spent_end(task));
    (bounds::is_spent(task) && is_due).then(spend)
}

/// The deadline is in force whatever a task waits for. A task whose end is decided has no deadline any more.
fn sweep_suspended(
    read_set: ReadSet<'_>,
    task: &Task,
    waiting: &Waiting,
    at: Moment,
) -> Option<Event> {
    let now = at.now;
    match waiting {
        // The steps of a plan are all spawned before any is cancelled, so that each of them has a record.
        Waiting::Closing(closing) => steps::next_slice(read_set, task, now)
            .or_else(|| waiting::next_slice(read_set, closing, now)),
        Waiting::Ready { .. } | Waiting::Diverged(_) | Waiting::Blocked { .. } => {
            sweep_waiting(task, at)
        }
        Waiting::Steps => {
            sweep_waiting(task, at).or_else(|| steps::next_slice(read_set, task, now))
        }
        Waiting::For(wait) => sweep_waiting(task, at)
            .or_else(|| waiting::wake(read_set, task, wait, now))
            .or_else(|| wait.gives_up_at.has_come(now).then(|| give_up(task, wait))),
    }
}

/// What the task waited for did not come.
fn give_up(task: &Task, wait: &Wait) -> Event {
    let message = format!("what the wait `{}` is for did not come in time", wait.key);
    let end = End {
        state: State::Failed,
        reason: Some(Reason::WaitTimeout),
        output: None,
        fault: Some(timeout_fault(&message)),
    };
    transition::miss_deadline(&Sweeper(()), task, end)
}

fn sweep_running(task: &Task, lease: &Lease, at: Moment) -> Option<Event> {
    let now = at.now;
    if task.grace_ends_at().is_some_and(|end| end.has_come(now)) {
        return Some(cancel::grace_over(task, AttemptOutcome::Revoked, now));
    }
    lease.expires_at.has_come(now).then(|| expire(task, lease, at))
}

/// The lease has expired, and the cause decides what follows: the deadline ends the task, the
/// attempt limit is a failure like any other, and silence means a lost worker or an undelivered
/// grant.
fn expire(task: &Task, lease: &Lease, at: Moment) -> Event {
    let now = at.now;
    let limit = task.policy.attempt_limit.map(|limit| lease.acquired_at.plus(limit));
    if task.policy.deadline.is_some_and(|deadline| deadline.has_come(now)) {
        let closing = Closing::unreported(AttemptOutcome::Revoked, Reason::DeadlineExceeded);
        time_out(task, closing, Next::End(deadline_end()), now)
    } else if is_out_of_time(task, lease, now) {
        let end = budget::out_of_time(task, budget::is_wall_over(task, at));
        let closing = Closing::unreported(AttemptOutcome::Revoked, Reason::BudgetTimeExhausted);
        time_out(task, closing, Next::End(end), now)
    } else if limit.is_some_and(|limit| limit.has_come(now)) {
        attempt_timeout(task, at)
    } else if task.cancel.is_some() {
        lost_with_cancel_pending(task, now)
    } else if lease.heard {
        lost(task, at)
    } else {
        unheard(task, at)
    }
}

fn is_out_of_time(task: &Task, lease: &Lease, now: Time) -> bool {
    let end = task.balance().and_then(|it| it.halts_at(lease.acquired_at, Span::ZERO));
    end.is_some_and(|end| end.has_come(now))
}

fn attempt_timeout(task: &Task, at: Moment) -> Event {
    let fault = timeout_fault("the attempt took longer than its limit");
    let next = match report::after_failure(task, &fault, at) {
        Next::End(end) if end.state == State::Failed && end.reason != Some(Reason::HistoryFull) => {
            Next::End(End { reason: Some(Reason::AttemptTimeout), ..end })
        }
        next => next,
    };
    let closing = Closing {
        fault: Some(fault),
        ..Closing::unreported(AttemptOutcome::Revoked, Reason::AttemptTimeout)
    };
    time_out(task, closing, next, at.now)
}

/// No worker is left to honour the cancel. If the grace period, counted from the request, is over
/// too, the worker never answered the cancel; otherwise the task ends as cancelled.
fn lost_with_cancel_pending(task: &Task, now: Time) -> Event {
    let requested_at = task.cancel.as_ref().map_or(now, |cancel| cancel.requested_at);
    if requested_at.plus(task.policy.cancel_grace).has_come(now) {
        return cancel::grace_over(task, AttemptOutcome::Lost, now);
    }
    let closing = Closing::unreported(AttemptOutcome::Lost, Reason::HeartbeatTimeout);
    time_out(task, closing, Next::End(cancel::pending_end(task)), now)
}

/// A lost worker is not the task's fault, so the retry is due at once. A task that keeps losing its
/// workers is poison, and ends (R-11, W-19).
fn lost(task: &Task, at: Moment) -> Event {
    let closing = Closing::unreported(AttemptOutcome::Lost, Reason::HeartbeatTimeout);
    let count = bounds::next(task.lost);
    let is_last = count >= task.policy.lost_max || report::is_worn_out(task, task.failures, count);
    let next = if is_last {
        Next::End(silent_end(Reason::HeartbeatTimeout, "no heartbeat came before the lease ended"))
    } else {
        bounds::retry(task, at.now)
    };
    time_out(task, closing, next, at.now)
}

fn unheard(task: &Task, at: Moment) -> Event {
    let closing = Closing::unreported(AttemptOutcome::Undelivered, Reason::HeartbeatTimeout);
    let count = bounds::next(task.undelivered);
    let next = if count >= UNDELIVERED_MAX {
        Next::End(unanswered_end())
    } else {
        let due = at.now.plus(task.policy.backoff(task.id, task.attempt, count));
        bounds::retry(task, due)
    };
    time_out(task, closing, next, at.now)
}

/// How a task ends after the maximum number of undelivered grants in a row.
pub(crate) fn unanswered_end() -> End {
    silent_end(Reason::Undelivered, "no worker ever answered a grant of this task")
}

pub(super) fn time_out(task: &Task, closing: Closing, next: Next, now: Time) -> Event {
    transition::time_out(&Sweeper(()), task, closing, next, now)
}

fn deadline_end() -> End {
    End {
        state: State::Failed,
        reason: Some(Reason::DeadlineExceeded),
        output: None,
        fault: Some(timeout_fault("the deadline passed before the task succeeded")),
    }
}

fn ttl_end() -> End {
    End {
        state: State::Failed,
        reason: Some(Reason::TtlExpired),
        output: None,
        fault: Some(timeout_fault("no worker took the task within its time to live")),
    }
}

fn silent_end(reason: Reason, message: &str) -> End {
    let fault = Fault { category: Category::Infrastructure, ..timeout_fault(message) };
    End { state: State::Failed, reason: Some(reason), output: None, fault: Some(fault) }
}

pub(super) fn timeout_fault(message: &str) -> Fault {
    Fault {
        category: Category::Timeout,
        message: Text::from(message),
        stack_trace: None,
        retryable: None,
    }
}
