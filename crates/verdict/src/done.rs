//! A task that has ended. It never changes again.

use crate::id::{Digest, Json, Name, Scope, TaskId, Text};
use crate::run::RunState;
use crate::task::{CancelRequest, State};
use crate::time::Time;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Done {
    pub id: TaskId,
    pub scope: Scope,
    pub kind: Name,
    pub queue: Name,
    pub priority: i32,
    pub created_at: Time,
    pub started_at: Option<Time>,
    pub completed_at: Time,
    pub attempt: u32,
    pub failures: u32,
    pub lost: u32,
    pub claim_version: u32,
    pub cancel: Option<CancelRequest>,
    pub end: End,
    pub entries: u32,
    /// Digest over the submission, every attempt and the end: it identifies the provenance record.
    pub record: Digest,
    /// What a task of a durable run has besides; `None` for a plain task.
    pub run: Option<Box<RunState>>,
}

/// How a task ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct End {
    /// One of the terminal states.
    pub state: State,
    pub reason: Option<Reason>,
    pub output: Option<Json>,
    pub fault: Option<Fault>,
}

/// What a worker reported as its failure.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fault {
    pub category: Category,
    pub message: Text,
    pub stack_trace: Option<Text>,
    /// The worker's hint. Policy may forbid a retry that the hint asks for, never the reverse
    ///
    pub retryable: Option<bool>,
}

impl Fault {
    pub fn is_retryable(&self) -> bool {
        self.retryable.unwrap_or(self.category.is_retryable_by_default())
    }
}

/// The six error categories. `Cancelled` belongs to the outcome CANCELLED alone, so a fault
/// cannot carry it and it is not listed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    UserCode,
    DataQuality,
    Infrastructure,
    Configuration,
    Timeout,
}

impl Category {
    pub const ALL: [Category; 5] = [
        Category::UserCode,
        Category::DataQuality,
        Category::Infrastructure,
        Category::Configuration,
        Category::Timeout,
    ];

    pub const fn is_retryable_by_default(self) -> bool {
        match self {
            Category::UserCode | Category::Infrastructure | Category::Timeout => true,
            Category::DataQuality | Category::Configuration => false,
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Category::UserCode => "USER_CODE",
            Category::DataQuality => "DATA_QUALITY",
            Category::Infrastructure => "INFRASTRUCTURE",
            Category::Configuration => "CONFIGURATION",
            Category::Timeout => "TIMEOUT",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|category| category.name() == name)
    }
}

/// Why an attempt or a task ended without success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    NotRetryable,
    AttemptsExhausted,
    HeartbeatTimeout,
    Undelivered,
    /// A grant was handed back before a worker received it.
    HandedBack,
    AttemptTimeout,
    DeadlineExceeded,
    CancelRequested,
    CancelForced,
    CancelTimeout,
    CancelledByWorker,
    /// Nothing more can be recorded of the task ([`crate::bounds`]).
    HistoryFull,
    /// The worker handed the task back because it stops. The reason of every released attempt.
    Released,
    /// The task was handed back more often than one task may be.
    ReleasesExhausted,
    /// The call of the attempt asked for something that was not there. The reason of every suspended attempt.
    Suspended,
    /// The worker's code does not match the checkpoints. The reason of every diverged attempt.
    Diverged,
    /// What the task waited for did not come in time.
    WaitTimeout,
    /// A step of a plan did not run, because an upstream did not succeed.
    UpstreamFailed,
    /// A step of the plan did not succeed.
    StepFailed,
    /// The input refers to something that is not there.
    InputUnresolved,
    /// More was used than the budget allows. A clean stop, not a failure (S2-40).
    BudgetExhausted,
    /// The time of the budget is over.
    BudgetTimeExhausted,
    /// The attempt made no progress for as long as its progress clock allows.
    Stalled,
    /// No worker took the task within its time to live.
    TtlExpired,
    /// A step asked people, and they did not approve.
    NotApproved,
    /// The condition of a step did not hold, so it did not run.
    ConditionFalse,
}

impl Reason {
    pub const ALL: [Reason; 26] = [
        Reason::NotRetryable,
        Reason::AttemptsExhausted,
        Reason::HeartbeatTimeout,
        Reason::Undelivered,
        Reason::HandedBack,
        Reason::AttemptTimeout,
        Reason::DeadlineExceeded,
        Reason::CancelRequested,
        Reason::CancelForced,
        Reason::CancelTimeout,
        Reason::CancelledByWorker,
        Reason::HistoryFull,
        Reason::Released,
        Reason::ReleasesExhausted,
        Reason::Suspended,
        Reason::Diverged,
        Reason::WaitTimeout,
        Reason::UpstreamFailed,
        Reason::StepFailed,
        Reason::InputUnresolved,
        Reason::BudgetExhausted,
        Reason::BudgetTimeExhausted,
        Reason::Stalled,
        Reason::TtlExpired,
        Reason::NotApproved,
        Reason::ConditionFalse,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Reason::NotRetryable => "NOT_RETRYABLE",
            Reason::AttemptsExhausted => "ATTEMPTS_EXHAUSTED",
            Reason::HeartbeatTimeout => "HEARTBEAT_TIMEOUT",
            Reason::Undelivered => "UNDELIVERED",
            Reason::HandedBack => "HANDED_BACK",
            Reason::AttemptTimeout => "ATTEMPT_TIMEOUT",
            Reason::DeadlineExceeded => "DEADLINE_EXCEEDED",
            Reason::CancelRequested => "CANCEL_REQUESTED",
            Reason::CancelForced => "CANCEL_FORCED",
            Reason::CancelTimeout => "CANCEL_TIMEOUT",
            Reason::CancelledByWorker => "CANCELLED_BY_WORKER",
            Reason::HistoryFull => "HISTORY_FULL",
            Reason::Released => "RELEASED",
            Reason::ReleasesExhausted => "RELEASES_EXHAUSTED",
            Reason::Suspended => "SUSPENDED",
            Reason::Diverged => "DIVERGED",
            Reason::WaitTimeout => "WAIT_TIMEOUT",
            Reason::UpstreamFailed => "UPSTREAM_FAILED",
            Reason::StepFailed => "STEP_FAILED",
            Reason::InputUnresolved => "INPUT_UNRESOLVED",
            Reason::BudgetExhausted => "BUDGET_EXHAUSTED",
            Reason::BudgetTimeExhausted => "BUDGET_TIME_EXHAUSTED",
            Reason::Stalled => "STALLED",
            Reason::TtlExpired => "TTL_EXPIRED",
            Reason::NotApproved => "NOT_APPROVED",
            Reason::ConditionFalse => "CONDITION_FALSE",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.name() == name)
    }
}
