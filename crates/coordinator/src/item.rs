//! What travels through the intake: a request with its scope and the way back to its caller.

use std::time::Duration;

use store::{Failure, FailureKind, Spec, TaskKey, TaskWithSpec};
use tokio::sync::oneshot;
use tokio::time::Instant;
use verdict::request::{Caller, Undelivered};
use verdict::{Answer, LeaseId, Name, Policy, Request, Scope, Task, Time};

use crate::intake::PriorityClass;

/// A task somebody wants done. Its id is given when it is decided, so that age is acceptance order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    pub scope: Scope,
    pub kind: Name,
    pub queue: Name,
    pub priority: i32,
    pub policy: Policy,
    pub run_at: Option<Time>,
    pub spec: Spec,
}

/// One request of a batch.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    Submit(Submission),
    /// Anything about a task that exists already.
    About {
        key: TaskKey,
        request: Request,
    },
}

impl Item {
    /// A grant nobody received.
    pub(crate) fn undelivered(key: TaskKey, lease: LeaseId) -> Self {
        Item::About { key, request: Request::Undelivered(Undelivered { lease }) }
    }

    /// The lease a call quotes, by which its closed attempt is found.
    pub(crate) fn quoted_lease(&self) -> Option<LeaseId> {
        match self {
            Item::About { request, .. } => request.caller().map(|caller| caller.lease),
            Item::Submit(_) => None,
        }
    }

    /// Where it waits for a batch.
    pub(crate) fn class(&self) -> PriorityClass {
        match self {
            Item::About { request: Request::Undelivered(_), .. } => PriorityClass::Leased,
            _ if self.quoted_lease().is_some() => PriorityClass::Leased,
            Item::About { .. } | Item::Submit(_) => PriorityClass::NewWork,
        }
    }
}

/// Requests that came together and are answered together, each on its own.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) items: Vec<Item>,
    pub(crate) reply: oneshot::Sender<Vec<Reply>>,
}

/// What one request got.
pub type Reply = Result<Answered, RequestError>;

/// A verdict's answer, given when its batch was durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    pub answer: Answer,
    /// The store's time of the decision.
    pub at: Time,
}

/// Why a request got no verdict. Never a refusal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    #[error("too many requests are waiting; try again later")]
    Overloaded,
    #[error("the coordinator is shutting down; try again in a moment")]
    ShuttingDown,
    /// Definite: nothing happened.
    #[error("the store could not take the request because {0}; nothing was changed")]
    Unavailable(Outage),
    /// The commit's outcome is not known. Asking again with the same key or report is safe.
    #[error(
        "the outcome is unknown because the store failed during the commit; a report, or a submission with an idempotency key, is safe to repeat"
    )]
    Unknown,
    /// This request alone broke an assertion or could not be stored; nothing of it happened.
    #[error("the request failed because of a bug in the coordinator; nothing was changed")]
    Defect,
    /// The task cannot be read, decided or stored, and is tried again after this time; nothing happened.
    #[error("the task is set aside because it cannot be processed; the server's log says why")]
    SetAside(Duration),
}

/// A store that does not take what is written, and when to ask it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Outage {
    pub reason: UnavailableReason,
    pub retry_after: Duration,
}

/// What the store lacks, in words that anybody may read. Details are for the operator's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnavailableReason {
    #[error("its disk is full")]
    DiskFull,
    #[error("it did not answer as expected")]
    NotResponding,
    #[error("other requests keep changing the task")]
    Contended,
    #[error("leases from before the start are still being recovered")]
    Recovering,
}

impl UnavailableReason {
    pub(crate) fn of(failure: &Failure) -> Self {
        match failure.kind {
            FailureKind::Full => UnavailableReason::DiskFull,
            FailureKind::Conflict(_) => UnavailableReason::Contended,
            FailureKind::Invalid
            | FailureKind::Closed
            | FailureKind::Unfinished
            | FailureKind::Untrusted
            | FailureKind::UnknownRules
            | FailureKind::Unavailable
            | FailureKind::Overloaded
            | FailureKind::Fatal => UnavailableReason::NotResponding,
        }
    }
}

/// A worker waiting for work.
#[derive(Debug)]
pub struct Poll {
    pub scope: Scope,
    pub worker: Name,
    pub queues: Vec<Name>,
    pub kinds: Option<Vec<Name>>,
    pub max: usize,
    /// Until when to wait for the first task.
    pub until: Instant,
    /// A name for the poll, under which a repeated one finds the same leases.
    pub poll: Option<Name>,
}

/// A poll with the way back to its worker.
#[derive(Debug)]
pub(crate) struct WaitingPoll {
    pub(crate) poll: Poll,
    pub(crate) reply: oneshot::Sender<Result<Vec<Granted>, RequestError>>,
}

/// A leased task with everything its worker needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// Running, with its lease.
    pub task: Task,
    pub spec: Spec,
    pub at: Time,
}

impl Granted {
    pub(crate) fn new(ready: TaskWithSpec, at: Time) -> Self {
        Self { task: ready.task, spec: ready.spec, at }
    }

    pub fn key(&self) -> TaskKey {
        TaskKey { scope: self.task.scope.clone(), id: self.task.id }
    }

    pub fn lease(&self) -> LeaseId {
        self.task.lease().expect("a granted task has a lease").id
    }

    /// Who speaks for the lease: what its worker calls with.
    pub fn caller(&self) -> Caller {
        let lease = self.task.lease().expect("a granted task has a lease");
        Caller {
            worker: lease.owner.clone(),
            attempt: self.task.attempt,
            lease: lease.id,
            epoch: lease.fence.epoch(),
        }
    }
}
