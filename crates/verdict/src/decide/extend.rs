//! Extends leases after a stall: lease time runs only while a coordinator could have received a
//! heartbeat.
//!
//! After an outage of ours, leases that were valid when the stall began are extended by the length
//! of the gap, as a recorded decision. A lease that had already expired by then is not. A
//! coordinator that decided something about the task during the gap could receive heartbeats, so
//! only the time since that decision counts. Several coordinators that return from one outage
//! therefore extend a lease once.

use crate::bounds;
use crate::event::Event;
use crate::request::Extend;
use crate::rules::Rules;
use crate::task::Task;
use crate::time::{Moment, Span, Time};
use crate::verdict::{Answer, ReadSet, Verdict};

pub(super) fn decide(read_set: ReadSet<'_>, extend: &Extend, at: Moment) -> Verdict {
    let Some(task) = read_set.subject.live() else { return Verdict::nothing() };
    let Some(lease) = task.lease() else { return Verdict::nothing() };
    let Some(missed) = missed(task, extend, at.rules) else { return Verdict::nothing() };
    if !bounds::may_extend(task) {
        return Verdict::nothing();
    }
    let was_alive = !lease.expires_at.has_come(missed.since);
    if !was_alive || lease.fence.epoch() != at.epoch {
        return Verdict::nothing();
    }
    let wanted = lease.expires_at.plus(missed.gap);
    let signalled_at = task.cancel.as_ref().and_then(|cancel| cancel.signalled_at);
    let event = Event::Extended {
        expires_at: task.bound_lease(lease.acquired_at, wanted, missed.gap),
        signalled_at: signalled_at.map(|at| at.plus(missed.gap)),
        progressed_at: running_mark(task).map(|at| at.plus(missed.gap)),
    };
    Verdict::new(Answer::Done, vec![event])
}

/// Where the task's progress clock counts from, if it runs.
fn running_mark(task: &Task) -> Option<Time> {
    task.stalls_at().and(task.progressed_at())
}

/// The part of the stall by which a task's lease is extended.
struct Missed {
    since: Time,
    gap: Span,
}

/// The planted version gives a millisecond more: enough to tell the versions apart, and harmless.
fn missed(task: &Task, extend: &Extend, rules: Rules) -> Option<Missed> {
    let since = extend.stalled_since.max(task.decided_at);
    let gap = extend.gap.minus(since.since(extend.stalled_since));
    let more = match rules {
        Rules::V1 => 0,
        #[cfg(feature = "lab")]
        Rules::Planted => 1,
    };
    (gap != Span::ZERO).then(|| Missed { since, gap: Span::from_millis(gap.millis() + more) })
}
