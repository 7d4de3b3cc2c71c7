//! How long a task token stays valid beyond its stated expiry.
//!
//! Lease time runs only while a coordinator could have received a heartbeat, and a heartbeat is
//! what brings a fresh token. So a token is extended like its lease: by the stalls recorded since
//! it was issued, and by no more. Reading those records, and limiting how often, is up to the
//! caller. An extended token authorises nothing: the call is decided like any other, since the
//! lease may have ended by now.

use crate::event::Subject;
use crate::id::LeaseId;
use crate::request::Request;
use crate::task::Task;
use crate::time::{Span, Time};

/// The sum of the recorded stalls since a token was issued.
///
/// Several coordinators may record one outage, so no instant counts twice, and no instant before
/// the token's issue counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StalledTime {
    counted_to: Time,
    total: Span,
}

impl StalledTime {
    pub const fn since(issued_at: Time) -> Self {
        Self { counted_to: issued_at, total: Span::ZERO }
    }

    /// Adds the stall that the next request of the task's history records, if it records one.
    pub fn count(&mut self, request: &Request) {
        let Request::Extend(extend) = request else { return };
        let from = extend.stalled_since.max(self.counted_to);
        let to = extend.stalled_since.plus(extend.gap);
        let total = self.total.millis().saturating_add(to.since(from).millis());
        self.total = Span::from_millis(total);
        self.counted_to = self.counted_to.max(to);
    }

    /// By how much the token is extended.
    pub const fn total(self) -> Span {
        self.total
    }
}

/// Whether a stall that is not recorded yet could still extend the lease, and with it the token.
pub fn may_be_extended(subject: &Subject, lease: LeaseId) -> bool {
    subject.live().and_then(Task::lease).is_some_and(|current| current.id == lease)
}
