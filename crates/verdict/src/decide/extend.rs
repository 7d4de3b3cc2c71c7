//! Lease time runs only while a coordinator could have heard a heartbeat.
//!
//! After an outage of ours, leases that were alive when hearing stopped get the length of the gap
//! back, as a recorded decision. A lease that had already run out by then does not. Whoever decided
//! something about the task meanwhile could hear: only the time since then is missing, so that several
//! coordinators that come back from one outage give it back once.

use crate::event::Event;
use crate::request::Extend;
use crate::time::{Moment, Span};
use crate::verdict::{Answer, Seen, Verdict};

pub(super) fn decide(seen: Seen<'_>, extend: &Extend, at: Moment) -> Verdict {
    let Some(task) = seen.subject.live() else { return Verdict::nothing() };
    let Some(lease) = task.lease() else { return Verdict::nothing() };
    let deaf_since = extend.deaf_since.max(task.decided_at);
    let was_alive = !lease.expires_at.has_come(deaf_since) || faultpoint::mutant(11);
    let gap = extend.gap.minus(deaf_since.since(extend.deaf_since));
    if !was_alive || lease.fence.epoch() != at.epoch || gap == Span::ZERO {
        return Verdict::nothing();
    }
    let wanted = lease.expires_at.plus(gap);
    let signalled_at = task.cancel.as_ref().and_then(|cancel| cancel.signalled_at);
    let event = Event::Extended {
        expires_at: task.bound_lease(lease.acquired_at, wanted),
        signalled_at: signalled_at.map(|at| at.plus(gap)),
    };
    Verdict::new(Answer::Done, vec![event])
}
