//! The digest of the provenance record: one number that identifies the submission, every attempt
//! and the end.
//!
//! The task keeps it as a hash chain with one link per closed attempt, so that ending a task never
//! loads its attempts. Anyone with the rows can recompute it.

use crate::attempt::ClosedAttempt;
use crate::done::{End, Fault};
use crate::event::Submitted;
use crate::id::Digest;
use crate::task::Task;
use crate::time::Time;

const FORMAT: &[u8] = b"tenure record 1";

pub(crate) fn begin(submitted: &Submitted) -> Digest {
    Digest::of(&[
        FORMAT,
        submitted.scope.tenant.as_str().as_bytes(),
        submitted.scope.workspace.as_str().as_bytes(),
        &submitted.id.as_u128().to_be_bytes(),
        submitted.kind.as_str().as_bytes(),
        submitted.queue.as_str().as_bytes(),
        submitted.input.bytes(),
    ])
}

/// Adds one closed attempt to a chain.
pub fn extend(chain: Digest, closed: &ClosedAttempt) -> Digest {
    let fault = closed.fault.as_ref().map(fault_digest);
    Digest::of(&[
        chain.bytes(),
        &closed.attempt.to_be_bytes(),
        &closed.lease.as_u128().to_be_bytes(),
        &closed.fence.as_u64().to_be_bytes(),
        closed.owner.as_str().as_bytes(),
        &closed.granted_at.millis().to_be_bytes(),
        &closed.started_at.map_or(i64::MIN, Time::millis).to_be_bytes(),
        &closed.closed_at.millis().to_be_bytes(),
        closed.outcome.name().as_bytes(),
        closed.reason.map_or("", |reason| reason.name()).as_bytes(),
        fault.as_ref().map_or(&[], |digest| digest.bytes().as_slice()),
        closed.report.as_ref().map_or(&[], |digest| digest.bytes().as_slice()),
    ])
}

/// The chain closed by the task's end.
pub(crate) fn seal(task: &Task, end: &End, now: Time) -> Digest {
    seal_chain(task.chain, end, task.created_at, now)
}

/// Closes a chain with an end. A reader computes this from the rows to check a record.
pub fn seal_chain(chain: Digest, end: &End, created_at: Time, completed_at: Time) -> Digest {
    let fault = end.fault.as_ref().map(fault_digest);
    Digest::of(&[
        chain.bytes(),
        end.state.name().as_bytes(),
        end.reason.map_or("", |reason| reason.name()).as_bytes(),
        end.output.as_ref().map_or("", |output| output.as_str()).as_bytes(),
        fault.as_ref().map_or(&[], |digest| digest.bytes().as_slice()),
        &created_at.millis().to_be_bytes(),
        &completed_at.millis().to_be_bytes(),
    ])
}

fn fault_digest(fault: &Fault) -> Digest {
    Digest::of(&[
        fault.category.name().as_bytes(),
        fault.message.as_str().as_bytes(),
        fault.stack_trace.as_ref().map_or("", |trace| trace.as_str()).as_bytes(),
        &[fault.retryable.map_or(2, u8::from)],
    ])
}
