//! The result of a decision: an answer for the caller and the events to record.

use crate::allowance::Quota;
use crate::attempt::{AttemptOutcome, ClosedAttempt};
use crate::event::{Event, Subject};
use crate::flow::{FlowUses, Terms};
use crate::id::{Digest, Name, TaskId, Text};
use crate::object::Object;
use crate::recovery::{RecoveryAnswer, RecoveryPolicy, RecoveryRefusal};
use crate::run::{Loaded, RunAnswer, RunRefusal};
use crate::schedule::{ScheduleAnswer, ScheduleRefusal};
use crate::scope_budget::{BudgetAnswer, BudgetUse, Spent};
use crate::task::State;
use crate::time::Time;
use crate::topology::TopologyRefusal;

/// The data that one request needs.
#[derive(Clone, Copy, Debug)]
pub struct ReadSet<'a> {
    pub subject: &'a Subject,
    pub context: Context<'a>,
}

/// What a request needs besides its own task.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'a> {
    /// The closed attempt that had the quoted lease, if that lease was ever issued for this task.
    pub closed: Option<&'a ClosedAttempt>,
    /// The task that already holds the submitted idempotency key.
    pub holder: Option<KeyHolder<'a>>,
    /// The quota of the submitting tenant and its usage; `None` without a limit.
    pub quota: Option<Quota>,
    /// The budgets of the submitting workspace and tenant, and what is used of them.
    pub budgets: &'a [BudgetUse],
    /// Whether an administrator paused the queue of the task to be granted.
    pub is_queue_paused: bool,
    /// The flow keys of the task's scope that the request is about; `None` where none is.
    pub flows: Option<&'a FlowUses>,
    /// What a request about a durable run needs ([`crate::run`]); `None` for every plain task.
    pub run: Option<&'a Loaded>,
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
    /// In order. Empty if nothing changes. A refusal may have events: a start that meets a cancel
    /// request is refused *and* ends the task.
    pub events: Vec<Event>,
}

impl Verdict {
    pub fn new(answer: Answer, events: Vec<Event>) -> Self {
        Self { answer, events }
    }

    pub fn refuse(refusal: Refusal) -> Self {
        Self { answer: Answer::Refused(refusal), events: Vec::new() }
    }

    /// No answer and no change.
    pub fn nothing() -> Self {
        Self { answer: Answer::Nothing, events: Vec::new() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The submission is recorded now, or was recorded before (`replayed`).
    Accepted {
        task: TaskId,
        state: State,
        created_at: Time,
        replayed: bool,
    },
    /// The task is leased; the task's new state holds what the worker gets.
    Granted,
    /// A start is acknowledged.
    Acknowledged,
    /// The lease was renewed.
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
    /// The cancel is recorded; it may already have ended the task.
    CancelAccepted {
        state: State,
        requested_at: Time,
    },
    /// A sweep, a release or an extension took effect.
    Done,
    /// There was nothing to do.
    Nothing,
    Refused(Refusal),
    /// The answer to a request about a durable run.
    Run(Box<RunAnswer>),
    /// The answer to a request about a schedule.
    Schedule(Box<ScheduleAnswer>),
    /// The answer to a request about a recovery candidate.
    Recovery(Box<RecoveryAnswer>),
    /// The answer to a request about the budget of a workspace or tenant.
    Budget(Box<BudgetAnswer>),
    /// The answer to a request about a recovery policy: the policy from now on.
    Policy(Box<RecoveryPolicy>),
    /// The answer to a request about a deployment: what it was about, as it is now.
    Object(Box<Object>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CancelSignal {
    pub reason: Option<Text>,
}

/// The verdict that a worker must obey. Never stored as a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WorkerVerdict {
    Committed,
    /// The worker had no authority at the time of reporting.
    Cancelled,
    /// The request itself was invalid.
    Rejected,
}

/// Why a request was refused. A refusal is an answer, not an error.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    TaskNotFound,
    /// The lease id was never issued for this task.
    UnknownLease,
    /// The caller is not the owner of the lease.
    WorkerMismatch,
    /// This lease already reported a different result.
    ConflictingReport {
        state: State,
    },
    /// A newer attempt exists.
    AttemptSuperseded {
        expected: u32,
        received: u32,
    },
    /// The attempt was never granted.
    AttemptUnknown {
        expected: u32,
        received: u32,
    },
    TaskAlreadyTerminal {
        state: State,
    },
    /// The attempt was started again after its own report was recorded.
    AttemptAlreadyCompleted {
        state: State,
    },
    /// The lease expired or was revoked.
    TaskExpired {
        state: State,
    },
    /// The key was used for a different submission.
    KeyReused {
        holder: TaskId,
    },
    /// The run to cancel has already ended in another way.
    RunAlreadyTerminal {
        state: State,
    },
    /// The lease was renewed as often as the bounds allow and cannot be renewed again.
    HistoryFull {
        state: State,
    },
    /// The tenant has reached its quota of unfinished runs.
    QuotaReached {
        quota: u64,
    },
    /// Tasks that have not ended use the flow key with another limit or rate.
    FlowLimitConflict {
        key: Name,
        in_force: Terms,
        asked: Terms,
    },
    /// The submission would replace a waiting run of a queue that its caller may not use.
    DebounceForbidden {
        key: Name,
    },
    /// The budget of the workspace or tenant is used up.
    BudgetSpent(Spent),
    /// A request about a durable run.
    Run(RunRefusal),
    /// A request about a schedule.
    Schedule(ScheduleRefusal),
    /// A request about recovery.
    Recovery(RecoveryRefusal),
    /// A request about a deployment.
    Topology(TopologyRefusal),
}

impl Refusal {
    /// The stable name that the wire, the metrics and the record of refused calls use.
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
            Refusal::FlowLimitConflict { .. } => "flow_limit_conflict",
            Refusal::DebounceForbidden { .. } => "debounce_forbidden",
            Refusal::BudgetSpent(_) => "budget_spent",
            Refusal::Run(refusal) => refusal.name(),
            Refusal::Schedule(refusal) => refusal.name(),
            Refusal::Recovery(refusal) => refusal.name(),
            Refusal::Topology(refusal) => refusal.name(),
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
            | Refusal::QuotaReached { .. }
            | Refusal::FlowLimitConflict { .. }
            | Refusal::DebounceForbidden { .. }
            | Refusal::BudgetSpent(_)
            | Refusal::Run(_)
            | Refusal::Schedule(_)
            | Refusal::Recovery(_)
            | Refusal::Topology(_) => WorkerVerdict::Rejected,
        }
    }
}
