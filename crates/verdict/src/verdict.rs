//! What the rules say: an answer for the caller and the events to remember.

use crate::allowance::Quota;
use crate::attempt::{AttemptOutcome, ClosedAttempt};
use crate::event::{Event, Subject};
use crate::id::{Digest, TaskId, Text};
use crate::task::State;
use crate::time::Time;

/// The slice of the world one request touches.
#[derive(Clone, Copy, Debug)]
pub struct ReadSet<'a> {
    pub subject: &'a Subject,
    pub context: Context<'a>,
}

/// What a request touches beside its own task.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'a> {
    /// The closed attempt that had the quoted lease, if that lease was ever this task's.
    pub closed: Option<&'a ClosedAttempt>,
    /// The task that already holds the submitted idempotency key.
    pub holder: Option<KeyHolder<'a>>,
    /// What the tenant of a submission may have and has; `None` without a limit.
    pub quota: Option<Quota>,
}

impl<'a> ReadSet<'a> {
    pub fn of(subject: &'a Subject) -> Self {
        Self { subject, context: Context::default() }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct KeyHolder<'a> {
    pub subject: &'a Subject,
    pub fingerprint: Digest,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub answer: Answer,
    /// In order. Empty means: nothing changes. A refusal may have events: a start that meets a
    /// cancel request is refused *and* ends the task.
    pub events: Vec<Event>,
}

impl Verdict {
    pub fn new(answer: Answer, events: Vec<Event>) -> Self {
        Self { answer, events }
    }

    pub fn refuse(refusal: Refusal) -> Self {
        Self { answer: Answer::Refused(refusal), events: Vec::new() }
    }

    /// Nothing to say and nothing to change.
    pub fn nothing() -> Self {
        Self { answer: Answer::Nothing, events: Vec::new() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The submission is recorded, or was before (`replayed`).
    Accepted {
        task: TaskId,
        state: State,
        created_at: Time,
        replayed: bool,
    },
    /// The task is leased; what the worker gets is in the task's new state.
    Granted,
    /// A start is acknowledged.
    Acknowledged,
    /// The lease goes on.
    Alive {
        expires_at: Time,
        cancel: Option<CancelSignal>,
    },
    /// The attempt's outcome is recorded and the attempt is closed.
    Committed {
        outcome: AttemptOutcome,
        state: State,
        replayed: bool,
    },
    /// The cancel is recorded; the task may already have ended by it.
    CancelAccepted {
        state: State,
        requested_at: Time,
    },
    /// A sweep, a release or an extension did its work.
    Done,
    /// There was nothing to do.
    Nothing,
    Refused(Refusal),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CancelSignal {
    pub reason: Option<Text>,
}

/// The word a worker obeys. Never stored as a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WorkerVerdict {
    Committed,
    /// The worker had no authority at the time of reporting.
    Cancelled,
    /// The request itself was invalid.
    Rejected,
}

/// Why a request was not granted. Not an error: an answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    TaskNotFound,
    /// The lease id was never issued for this task.
    UnknownLease,
    /// Another worker than the lease's owner.
    WorkerMismatch,
    /// This lease already reported something else.
    ConflictingReport {
        state: State,
    },
    /// A newer attempt exists.
    AttemptSuperseded {
        expected: u32,
        received: u32,
    },
    /// An attempt that was never granted.
    AttemptUnknown {
        expected: u32,
        received: u32,
    },
    TaskAlreadyTerminal {
        state: State,
    },
    /// Started again after its own report was recorded.
    AttemptAlreadyCompleted {
        state: State,
    },
    /// The lease expired or was revoked.
    TaskExpired {
        state: State,
    },
    /// The key was used for another submission.
    KeyReused {
        holder: TaskId,
    },
    /// A cancel for a run that ended otherwise.
    RunAlreadyTerminal {
        state: State,
    },
    /// The lease cannot be renewed any more, because of how often it was.
    HistoryFull {
        state: State,
    },
    /// The tenant has as many unfinished runs as it may have.
    QuotaReached {
        quota: u64,
    },
}

impl Refusal {
    /// Its stable name: what the wire, the metrics and the memory of refused calls say.
    pub const fn name(&self) -> &'static str {
        match self {
            Refusal::TaskNotFound => "task_not_found",
            Refusal::UnknownLease => "unknown_lease",
            Refusal::WorkerMismatch => "worker_mismatch",
            Refusal::ConflictingReport { .. } => "conflicting_report",
            Refusal::AttemptSuperseded { .. } | Refusal::AttemptUnknown { .. } => {
                "attempt_mismatch"
            }
            Refusal::TaskAlreadyTerminal { .. } => "task_already_terminal",
            Refusal::AttemptAlreadyCompleted { .. } => "attempt_already_completed",
            Refusal::TaskExpired { .. } => "task_expired",
            Refusal::KeyReused { .. } => "idempotency_key_reused",
            Refusal::RunAlreadyTerminal { .. } => "run_already_terminal",
            Refusal::HistoryFull { .. } => "history_full",
            Refusal::QuotaReached { .. } => "quota_reached",
        }
    }

    /// The verdict this refusal carries to a worker: CANCELLED if its authority is lost, else REJECTED.
    pub fn worker_verdict(&self) -> WorkerVerdict {
        match self {
            Refusal::AttemptSuperseded { .. }
            | Refusal::TaskAlreadyTerminal { .. }
            | Refusal::AttemptAlreadyCompleted { .. }
            | Refusal::TaskExpired { .. } => WorkerVerdict::Cancelled,
            Refusal::TaskNotFound
            | Refusal::UnknownLease
            | Refusal::WorkerMismatch
            | Refusal::ConflictingReport { .. }
            | Refusal::AttemptUnknown { .. }
            | Refusal::KeyReused { .. }
            | Refusal::RunAlreadyTerminal { .. }
            | Refusal::HistoryFull { .. }
            | Refusal::QuotaReached { .. } => WorkerVerdict::Rejected,
        }
    }
}
