//! A heartbeat: renews the lease and tells the worker whether to stop.
//!
//! A heartbeat grants nothing and changes no result (S3-47). It is the only carrier of the cancel
//! signal while a worker executes, and the first answer that carries the signal starts the grace
//! period.

use super::caller::{self, Call};
use crate::bounds;
use crate::event::Event;
use crate::request::Heartbeat;
use crate::task::{Lease, Task};
use crate::time::Moment;
use crate::verdict::{Answer, CancelSignal, ReadSet, Refusal, Verdict};

pub(super) fn decide(read_set: ReadSet<'_>, heartbeat: &Heartbeat, at: Moment) -> Verdict {
    let checked = caller::recognise(read_set, &heartbeat.caller, at)
        .and_then(|()| caller::authorise(read_set, &heartbeat.caller, Call::Heartbeat, at));
    match checked {
        Err(refusal) => Verdict::refuse(refusal),
        // The worker may still report until its present lease expires.
        Ok((task, _)) if !bounds::may_renew(task) => {
            Verdict::refuse(Refusal::HistoryFull { state: task.state() })
        }
        Ok((task, lease)) => renew(task, lease, heartbeat, at),
    }
}

fn renew(task: &Task, lease: &Lease, heartbeat: &Heartbeat, at: Moment) -> Verdict {
    // A renewal never shortens a lease: one that was extended for a stall of ours keeps its expiry.
    let expires_at = task.lease_end(lease.acquired_at, at.now).max(lease.expires_at);
    let renewed = Event::Renewed { expires_at, progress: heartbeat.progress.clone() };
    let first_signal = task.cancel.as_ref().is_some_and(|cancel| cancel.signalled_at.is_none());
    let signalled = first_signal.then_some(Event::CancelSignalled);
    let cancel = task.cancel.as_ref().map(|cancel| CancelSignal { reason: cancel.reason.clone() });
    let answer = Answer::Alive { expires_at, cancel };
    Verdict::new(answer, std::iter::once(renewed).chain(signalled).collect())
}
