//! Identifies the caller of a call under a lease, and checks whether the lease is still valid.
//!
//! The order of checks is part of the contract, because it decides which answer a worker gets when
//! several apply: task, lease, owner, stored answer (reports only), attempt, terminal, current.

use crate::event::Subject;
use crate::id::LeaseId;
use crate::request::Caller;
use crate::task::{Lease, State, Task};
use crate::time::Moment;
use crate::verdict::{Context, ReadSet, Refusal};

/// Which call is being checked: a lost lease is answered differently for some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Started,
    Heartbeat,
    Report,
    Checkpoint,
}

/// The lease was issued for this task, and to this worker. It need not be current.
pub(super) fn recognise(read_set: ReadSet<'_>, caller: &Caller, at: Moment) -> Result<(), Refusal> {
    let Some(state) = read_set.subject.state() else { return Err(Refusal::TaskNotFound) };
    let open =
        read_set.subject.live().and_then(Task::lease).filter(|lease| lease.id == caller.lease);
    let closed = read_set.context.closed.filter(|closed| closed.lease == caller.lease);
    let owner = match (open, closed) {
        (Some(lease), _) => &lease.owner,
        (None, Some(closed)) => &closed.owner,
        // A restored store does not know leases granted after its backup: lost authority, not an
        // invalid call.
        (None, None) if caller.epoch < at.epoch => return Err(Refusal::TaskExpired { state }),
        (None, None) => return Err(Refusal::UnknownLease),
    };
    if *owner == caller.worker { Ok(()) } else { Err(Refusal::WorkerMismatch) }
}

/// Whether a report of this caller would be its first and under a lease that holds: a commit that adds
/// something to a report asks before.
pub fn may_report(subject: &Subject, caller: &Caller, at: Moment) -> bool {
    let read_set = ReadSet { subject, context: Context::default() };
    recognise(read_set, caller, at).is_ok() && authorise(read_set, caller, Call::Report, at).is_ok()
}

/// The number after which the holder of a lease may read what its task has recorded: where its stage begins. Stages before it
/// may be of queues that are none of the holder's business, and so may be what is recorded once another has the task. Only the
/// present lease reads; one that is out of time does so until it is ended.
pub fn reads_records_from(subject: &Subject, lease: LeaseId) -> Result<u32, Refusal> {
    let task = match subject {
        Subject::Absent => return Err(Refusal::TaskNotFound),
        Subject::Live(task) => task,
        Subject::Done(done) => return Err(Refusal::TaskAlreadyTerminal { state: done.end.state }),
    };
    match task.lease() {
        Some(held) if held.id == lease => Ok(task.stages().map_or(0, |stages| stages.since)),
        Some(_) | None => Err(Refusal::TaskExpired { state: task.state() }),
    }
}

/// The task and its lease, if the caller has authority now.
pub(super) fn authorise<'a>(
    read_set: ReadSet<'a>,
    caller: &Caller,
    call: Call,
    at: Moment,
) -> Result<(&'a Task, &'a Lease), Refusal> {
    check_attempt(read_set.subject, caller)?;
    let task = match read_set.subject {
        Subject::Absent => return Err(Refusal::TaskNotFound),
        Subject::Live(task) => task,
        Subject::Done(done) => return Err(on_terminal(done.end.state, call)),
    };
    let state = task.state();
    if call == Call::Started
        && read_set.context.closed.is_some_and(|closed| closed.report.is_some())
    {
        return Err(Refusal::AttemptAlreadyCompleted { state });
    }
    match task.lease() {
        Some(lease) if lease.id == caller.lease && holds(lease, at) => Ok((task, lease)),
        Some(_) | None => Err(Refusal::TaskExpired { state }),
    }
}

fn holds(lease: &Lease, at: Moment) -> bool {
    lease.fence.epoch() == at.epoch && !lease.expires_at.has_come(at.now)
}

fn check_attempt(subject: &Subject, caller: &Caller) -> Result<(), Refusal> {
    let expected = match subject {
        Subject::Absent => return Err(Refusal::TaskNotFound),
        Subject::Live(task) => task.attempt,
        Subject::Done(done) => done.attempt,
    };
    let received = caller.attempt;
    match received.cmp(&expected) {
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Less => Err(Refusal::AttemptSuperseded { expected, received }),
        std::cmp::Ordering::Greater => Err(Refusal::AttemptUnknown { expected, received }),
    }
}

fn on_terminal(state: State, call: Call) -> Refusal {
    match call {
        Call::Started | Call::Report | Call::Checkpoint => Refusal::TaskAlreadyTerminal { state },
        Call::Heartbeat => Refusal::TaskExpired { state },
    }
}
