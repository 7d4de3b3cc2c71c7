//! Lease time runs only while a coordinator could have heard a heartbeat.
//!
//! After an outage of ours, leases that were alive when the stall began get the length of the gap
//! back, as a recorded decision. A lease that had already run out by then does not. Whoever decided
//! something about the task meanwhile could hear: only the time since then is missing, so that several
//! coordinators that come back from one outage give it back once.

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
    if !bounds::may_extend(task, at.rules) {
        return Verdict::nothing();
    }
    let was_alive = !lease.expires_at.has_come(missed.since);
    if !was_alive || lease.fence.epoch() != at.epoch {
        return Verdict::nothing();
    }
    let wanted = lease.expires_at.plus(missed.gap);
    let signalled_at = task.cancel.as_ref().and_then(|cancel| cancel.signalled_at);
    let event = Event::Extended {
        expires_at: task.bound_lease(lease.acquired_at, wanted),
        signalled_at: signalled_at.map(|at| at.plus(missed.gap)),
    };
    Verdict::new(Answer::Done, vec![event])
}

/// What a task has missed of being heard.
struct Missed {
    since: Time,
    gap: Span,
}

/// Version 1 looked at the outage alone: each of several coordinators gave back the whole of it.
fn missed(task: &Task, extend: &Extend, rules: Rules) -> Option<Missed> {
    match rules {
        Rules::V1 => Some(Missed { since: extend.stalled_since, gap: extend.gap }),
        Rules::V2 | Rules::V3 => {
            let since = extend.stalled_since.max(task.decided_at);
            let gap = extend.gap.minus(since.since(extend.stalled_since));
            (gap != Span::ZERO).then_some(Missed { since, gap })
        }
    }
}
