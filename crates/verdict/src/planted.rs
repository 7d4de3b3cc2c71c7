//! Bugs of other systems, planted in the rules of a test build and of no other.
//!
//! The museum activates each bug and names the test that must detect it. A bug is a wrapper around
//! the rules: it passes them a changed task, caller or time, or changes their verdict. So the rules
//! themselves contain no trace of any bug. Without the feature `museum` no bug can be selected, and
//! [`decide`] is the rules alone.

use crate::decide::decide as by_the_rules;
use crate::done::Reason;
use crate::event::{Event, Next, Subject};
#[cfg(not(feature = "museum"))]
use crate::faultpoint;
use crate::request::{Caller, Request};
use crate::run::{RunRequest, Then};
use crate::task::{Lease, Phase, Task};
use crate::time::{Moment, Span, Time};
use crate::verdict::{Answer, ReadSet, Verdict};

type Bug = fn(ReadSet<'_>, &Request, Moment) -> Verdict;

/// The bugs, by their numbers in the museum.
const BUGS: [(u8, Bug); 13] = [
    (2, rescue_by_age),
    (5, trust_the_name),
    (8, ignore_the_attempt_limit),
    (9, forget_lost_workers),
    (10, grant_before_due),
    (11, revive_what_ran_out),
    (15, retry_without_jitter),
    (26, record_every_heartbeat),
    (27, draw_the_jitter),
    (36, believe_the_worker_clock),
    (46, record_for_a_former_attempt),
    (47, refund_twice),
    (48, go_on_after_a_halt),
];

/// Decides `request`, given the `read_set`, at this moment.
#[inline]
pub fn decide(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
    match BUGS.iter().find(|(number, _)| faultpoint::mutant(*number)) {
        None => by_the_rules(read_set, request, at),
        Some((_, bug)) => bug(read_set, request, at),
    }
}

/// The verdict of the rules on a falsified copy of the task.
fn misread(
    read_set: ReadSet<'_>,
    change: impl FnOnce(&mut Task),
    request: &Request,
    at: Moment,
) -> Verdict {
    let mut subject = read_set.subject.clone();
    if let Subject::Live(task) = &mut subject {
        change(task);
    }
    by_the_rules(ReadSet { subject: &subject, ..read_set }, request, at)
}

fn lease_of(task: &mut Task) -> Option<&mut Lease> {
    task.lease_mut()
}

/// A lease ends at a fixed age, whether it was renewed or not.
fn rescue_by_age(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
    let age = |task: &mut Task| {
        let length = task.policy.lease;
        if let (Request::Sweep, Some(lease)) = (request, lease_of(task)) {
            lease.expires_at = lease.expires_at.min(lease.acquired_at.plus(length));
        }
    };
    misread(read_set, age, request, at)
}

/// The owner's name suffices, whatever lease the call quotes and however late it is.
fn trust_the_name(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
    let task = read_set.subject.live();
    let (Some(task), Some(lease)) = (task, task.and_then(Task::lease)) else {
        return by_the_rules(read_set, request, at);
    };
    let mut request = request.clone();
    match caller_of(&mut request) {
        Some(caller) if caller.worker == lease.owner => {
            let epoch = lease.fence.epoch();
            *caller = Caller { attempt: task.attempt, lease: lease.id, epoch, ..caller.clone() };
            let in_time = Time::from_millis(lease.expires_at.millis().saturating_sub(1));
            by_the_rules(read_set, &request, Moment { now: at.now.min(in_time), ..at })
        }
        Some(_) | None => by_the_rules(read_set, &request, at),
    }
}

/// A step is recorded for a worker whose attempt is over, while another attempt is under way.
fn record_for_a_former_attempt(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
    let task = read_set.subject.live();
    let (Some(task), Some(lease)) = (task, task.and_then(Task::lease)) else {
        return by_the_rules(read_set, request, at);
    };
    let mut request = request.clone();
    if let Request::Run(run) = &mut request
        && let RunRequest::Checkpoint(call) = run.as_mut()
        && !matches!(call.then, Then::Report { .. })
        && call.caller.attempt < task.attempt
    {
        let (worker, epoch) = (lease.owner.clone(), lease.fence.epoch());
        call.caller = Caller { attempt: task.attempt, lease: lease.id, epoch, worker };
    }
    by_the_rules(read_set, &request, at)
}

/// The end of a child is charged and refunded twice.
fn refund_twice(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
    let mut verdict = by_the_rules(read_set, request, at);
    let is_refund = |event: &Event| event.name() == "budget_refunded";
    if let Some(place) = verdict.events.iter().position(is_refund) {
        let again = verdict.events[place].clone();
        verdict.events.insert(place, again);
    }
    verdict
}

/// A task that has used up its budget is tried again.
fn go_on_after_a_halt(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
    let mut verdict = by_the_rules(read_set, request, at);
    for event in &mut verdict.events {
        if let Event::AttemptClosed { next, .. } = event
            && matches!(next, Next::End(end) if end.reason == Some(Reason::BudgetExhausted))
        {
            *next = Next::Retry { due: at.now };
        }
    }
    verdict
}

fn caller_of(request: &mut Request) -> Option<&mut Caller> {
    match request {
        Request::Started(started) => Some(&mut started.caller),
        Request::Heartbeat(heartbeat) => Some(&mut heartbeat.caller),
        Request::Report(report) => Some(&mut report.caller),
        _ => None,
    }
}

/// The attempt limit does not bound the lease.
fn ignore_the_attempt_limit(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
    let unlimited = |task: &mut Task| {
        if !matches!(request, Request::Sweep) {
            task.policy.attempt_limit = None;
        }
    };
    misread(read_set, unlimited, request, at)
}

/// Lost workers are not counted.
fn forget_lost_workers(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
    misread(read_set, |task| task.lost = 0, request, at)
}

/// A task is granted before it is due.
fn grant_before_due(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
    let due_now = |task: &mut Task| {
        if let (Request::Grant(_), Phase::Queued { due } | Phase::Retry { due }) =
            (request, &mut task.phase)
        {
            *due = at.now.min(*due);
        }
    };
    misread(read_set, due_now, request, at)
}

/// A stall extends a lease that had expired before the stall.
fn revive_what_ran_out(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
    let alive = |task: &mut Task| {
        let decided_at = task.decided_at;
        if let (Request::Extend(extend), Some(lease)) = (request, lease_of(task)) {
            let then = extend.stalled_since.max(decided_at).plus(Span::from_millis(1));
            lease.expires_at = lease.expires_at.max(then);
        }
    };
    misread(read_set, alive, request, at)
}

/// Retries have no jitter: a pause is a multiple of the base.
fn retry_without_jitter(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
    let mut verdict = by_the_rules(read_set, request, at);
    let base = read_set.subject.live().map_or(0, |task| task.policy.retry_base.millis()).max(1);
    for event in &mut verdict.events {
        if let Event::AttemptClosed { closed, next: Next::Retry { due } } = event {
            let pause = due.since(closed.closed_at).millis();
            *due = closed.closed_at.plus(Span::from_millis(pause - pause % base));
        }
    }
    verdict
}

/// Every heartbeat is kept in the history.
fn record_every_heartbeat(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
    let mut verdict = by_the_rules(read_set, request, at);
    if let Answer::Alive { expires_at, .. } = verdict.answer {
        let cancel = read_set.subject.live().and_then(|task| task.cancel.as_ref());
        let signalled_at = cancel.map(|cancel| cancel.signalled_at.unwrap_or(at.now));
        verdict.events.push(Event::Extended { expires_at, signalled_at, progressed_at: None });
    }
    verdict
}

/// The jitter is drawn from one shared stream.
fn draw_the_jitter(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
    let drawn = |task: &mut Task| task.policy.seed = Some(faultpoint::draw().into());
    misread(read_set, drawn, request, at)
}

/// A start is judged by the time that the worker claims.
fn believe_the_worker_clock(read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
    let now = match request {
        Request::Started(started) => started.claimed_at.unwrap_or(at.now),
        _ => at.now,
    };
    by_the_rules(read_set, request, Moment { now, ..at })
}
