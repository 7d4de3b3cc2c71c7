//! How much longer a task token is good for than it says.
//!
//! Lease time runs only while a coordinator could have heard a heartbeat, and a heartbeat is what brings a fresh token.
//! So a token is given back what its lease was: the time of the stalls that were recorded since it was issued, and no
//! more. Reading those records, and limiting how often, is the caller's; what the token may do is decided like any other
//! call, since its lease may be over by now.

use crate::event::Subject;
use crate::id::LeaseId;
use crate::request::Request;
use crate::task::Task;
use crate::time::{Span, Time};

/// The recorded stalls since a token was issued, added up.
///
/// Several coordinators may record one outage, so no instant counts twice, and none before the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StalledTime {
    counted_to: Time,
    total: Span,
}

impl StalledTime {
    pub const fn since(issued_at: Time) -> Self {
        Self { counted_to: issued_at, total: Span::ZERO }
    }

    /// Adds what the next request of the task's history says of a stall.
    pub fn count(&mut self, request: &Request) {
        let Request::Extend(extend) = request else { return };
        let from = extend.stalled_since.max(self.counted_to);
        let to = extend.stalled_since.plus(extend.gap);
        let total = self.total.millis().saturating_add(to.since(from).millis());
        self.total = Span::from_millis(total);
        self.counted_to = self.counted_to.max(to);
    }

    /// How much longer the token is good for.
    pub const fn total(self) -> Span {
        self.total
    }
}

/// Whether a stall that is not recorded yet could still extend the lease, and with it the token.
pub fn may_be_extended(subject: &Subject, lease: LeaseId) -> bool {
    subject.live().and_then(Task::lease).is_some_and(|current| current.id == lease)
}
