//! Lease time runs only while a coordinator could have heard a heartbeat.
//!
//! After an outage of ours, leases that were alive when hearing stopped get the length of the gap
//! back, as a recorded decision. A lease that had already run out by then does not.

use crate::event::Event;
use crate::request::Extend;
use crate::time::Moment;
use crate::verdict::{Answer, Seen, Verdict};

pub(super) fn decide(seen: Seen<'_>, extend: &Extend, at: Moment) -> Verdict {
    let Some(task) = seen.subject.live() else { return Verdict::nothing() };
    let Some(lease) = task.lease() else { return Verdict::nothing() };
    let was_alive = !lease.expires_at.has_come(extend.deaf_since);
    if !was_alive || lease.fence.epoch() != at.epoch {
        return Verdict::nothing();
    }
    let wanted = lease.expires_at.plus(extend.gap);
    let signalled_at = task.cancel.as_ref().and_then(|cancel| cancel.signalled_at);
    let event = Event::Extended {
        expires_at: task.bound_lease(lease.acquired_at, wanted),
        signalled_at: signalled_at.map(|at| at.plus(extend.gap)),
    };
    Verdict::new(Answer::Done, vec![event])
}
