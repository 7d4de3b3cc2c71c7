//! The worst possible network, and workers that follow no rules.
//!
//! Any call that a worker could have sent under a lease it was granted may arrive now: late, again, out of order, or
//! never. Messages in flight need not be part of the state: a message that can always arrive and need never arrive is
//! lost, duplicated and reordered in some exploration, at every moment. So the network's only state is the list of
//! leases whose grants were sent. In the same way a coordinator that dies before its commit has done nothing, and one
//! that dies between commit and answer has decided something that no caller knows.

use verdict::LeaseId;
use verdict::request::{
    Caller, Cancel, CancelMode, Grant, Heartbeat, Outcome, Report, Started, Submit, Undelivered,
};
use verdict::{Category, Digest, Fault, Name, Request, Scope, TaskId};

use crate::action::{Call, IssuedAt, ReportKind, Sender, Submission, TaskAt, Worker};
use crate::world::World;
use crate::worlds::Bounds;

/// A lease whose grant was sent to a worker. It is never forgotten, not even by a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Issued {
    pub task: TaskAt,
    pub worker: Worker,
    pub attempt: u32,
    pub lease: LeaseId,
    pub epoch: u32,
}

const NAMES: [&str; 4] = ["ann", "bob", "cid", "dan"];

pub(crate) fn worker_name(worker: Worker) -> Name {
    Name::from(NAMES[usize::from(worker)])
}

/// A unique lease id: attempts repeat only in another epoch of the store.
pub(crate) fn lease_id(task: TaskAt, attempt: u32, epoch: u32) -> LeaseId {
    LeaseId::from_u128((u128::from(epoch) << 64) | ((task as u128) << 32) | u128::from(attempt))
}

pub(crate) fn submission(
    task: TaskAt,
    which: Submission,
    bounds: &Bounds,
    world: &World,
) -> Submit {
    Submit {
        budget: None,
        flow: None,
        id: TaskId::from_u128(task as u128 + 1),
        scope: Scope::default(),
        kind: "k".into(),
        queue: "q".into(),
        priority: 0,
        policy: bounds.policy_at(world.now),
        run_at: bounds.starts_after.map(|span| world.now.plus(span)),
        input: ZERO,
        fingerprint: fingerprint(which),
    }
}

/// Cheap stand-ins for fingerprints: they only need to differ.
pub(crate) fn fingerprint(which: Submission) -> Digest {
    Digest::from_bytes([which as u8 + 1; 32])
}

pub(crate) const ZERO: Digest = Digest::from_bytes([0; 32]);

pub(crate) fn grant(task: TaskAt, worker: Worker, world: &World) -> Grant {
    let attempt = world.tasks[task].ledger.grants + 1;
    let lease = lease_id(task, attempt, world.epoch);
    Grant { lease, owner: worker_name(worker), poll: None, build: None }
}

/// The call as it arrives, and the task it is addressed to.
pub(crate) fn arriving(
    world: &World,
    at: IssuedAt,
    call: Call,
    sender: Sender,
) -> (TaskAt, Request) {
    let issued = &world.issued[at];
    let mut task = issued.task;
    let mut caller = Caller {
        worker: worker_name(issued.worker),
        attempt: issued.attempt,
        lease: issued.lease,
        epoch: issued.epoch,
    };
    match sender {
        Sender::Owner => {}
        Sender::Thief(worker) => caller.worker = worker_name(worker),
        Sender::AheadOfItself => caller.attempt += 1,
        Sender::Inventing => caller.lease = LeaseId::from_u128(u128::MAX),
        Sender::Astray(other) => task = other,
    }
    let request = match call {
        Call::Started => Request::Started(Started { caller, claimed_at: None }),
        Call::Heartbeat => Request::Heartbeat(Heartbeat { caller, progress: None }),
        Call::Report(said) => Request::Report(report(caller, said)),
    };
    (task, request)
}

fn report(caller: Caller, said: ReportKind) -> Report {
    let failed = |category| {
        Outcome::Failed(Fault { category, message: "x".into(), stack_trace: None, retryable: None })
    };
    let outcome = match said {
        ReportKind::Succeeded => Outcome::Succeeded { output: None },
        ReportKind::Failed => failed(Category::UserCode),
        ReportKind::Hopeless => failed(Category::DataQuality),
        ReportKind::Cancelled => Outcome::Cancelled { output: None },
        ReportKind::Released => Outcome::Released,
    };
    Report { caller, outcome, digest: digest(said), claims: None, by: None }
}

/// Cheap stand-ins for the digests of reports: they only need to differ.
fn digest(said: ReportKind) -> Digest {
    Digest::from_bytes([said as u8 + 1; 32])
}

pub(crate) fn cancel(mode: CancelMode) -> Request {
    Request::Cancel(Cancel { reason: None, mode })
}

pub(crate) fn undelivered(issued: &Issued) -> Request {
    Request::Undelivered(Undelivered { lease: issued.lease })
}
