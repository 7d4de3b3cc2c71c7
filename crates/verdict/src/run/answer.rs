//! The answers to requests about durable runs.

use crate::approval::{Outcome, VoteRefusal};
use crate::budget::Unit;
use crate::id::{Name, TaskId};
use crate::plan::{PlanAnswer, PlanRefusal};
use crate::task::State;
use crate::time::Time;
use crate::verdict::CancelSignal;

use super::wait::WaitRecord;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunAnswer {
    Checkpointed(Checkpointed),
    /// The signal is recorded now, or was recorded before (`replayed`).
    Signalled {
        state: State,
        replayed: bool,
    },
    /// The task may be leased again.
    Resumed {
        state: State,
    },
    /// Workers of every build may continue the task.
    Unpinned {
        state: State,
    },
    /// The vote is recorded. `None` while more of them are needed.
    Voted {
        outcome: Option<Outcome>,
    },
    /// The answer to a request about a plan.
    Plan(PlanAnswer),
}

/// The answer to a checkpoint call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpointed {
    /// `running` under the same lease, or `waiting` without one.
    pub state: State,
    /// Whether nothing of the call was new.
    pub replayed: bool,
    /// The keys of the call that were recorded before.
    pub replayed_keys: Vec<Name>,
    /// The tasks of the call's children, whichever call made them.
    pub children: Vec<(Name, TaskId)>,
    /// What the call waited for, if it is there.
    pub wait: Option<WaitRecord>,
    /// `None` when the call has closed its attempt.
    pub expires_at: Option<Time>,
    pub cancel: Option<CancelSignal>,
}

/// Why a request about a durable run was refused. Nothing of the request took effect.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RunRefusal {
    /// The key means something else already.
    ConflictingStep { key: Name },
    /// A step's result or a signal's payload is larger than one may be. No repetition helps.
    ResultTooLarge { key: Name, bytes: u64, max: u64 },
    /// The call has more of something than one call may have. Send it in several calls.
    CallTooLong { what: &'static str, count: u64, max: u64 },
    /// The task has recorded as many steps as one task may.
    StepsExhausted { max: u64 },
    /// The task has as many live children as one task may. Wait for some of them.
    TooManyChildren { max: u64 },
    /// The wait names a child that the task does not have, or a detached one.
    UnknownChild { key: Name },
    /// A wait for nothing would never end, or end at once.
    EmptyWait { key: Name },
    /// A child asks for more than its parent has left.
    BudgetInsufficient { key: Name, unit: Unit, asked: u64, left: u64 },
    /// The task has not taken the signals that it has.
    SignalsFull { max: u64, max_bytes: u64 },
    /// Only a diverged task can be resumed.
    NotDiverged { state: State },
    /// Only a pinned run can be unpinned.
    NotPinned { state: State },
    /// The message came before the one that creates its addressee, and stays saved. Never leaves the coordinator.
    MessageEarly,
    /// A decision of an approval.
    Approval(VoteRefusal),
    /// The wait asks for more approvals than one task may have open.
    TooManyApprovals { max: u64 },
    /// A child would hold a flow key for life below as many others as a task may.
    TooManyHeldKeys { key: Name, max: u64 },
    /// A request about a plan.
    Plan(PlanRefusal),
}

impl RunRefusal {
    pub const fn name(&self) -> &'static str {
        match self {
            RunRefusal::ConflictingStep { .. } => "conflicting_step",
            RunRefusal::ResultTooLarge { .. } => "result_too_large",
            RunRefusal::CallTooLong { .. } => "call_too_long",
            RunRefusal::StepsExhausted { .. } => "steps_exhausted",
            RunRefusal::TooManyChildren { .. } => "too_many_children",
            RunRefusal::UnknownChild { .. } => "unknown_child",
            RunRefusal::EmptyWait { .. } => "empty_wait",
            RunRefusal::SignalsFull { .. } => "signals_full",
            RunRefusal::BudgetInsufficient { .. } => "budget_insufficient",
            RunRefusal::NotDiverged { .. } => "not_diverged",
            RunRefusal::NotPinned { .. } => "not_pinned",
            RunRefusal::MessageEarly => "message_early",
            RunRefusal::Approval(refusal) => refusal.name(),
            RunRefusal::TooManyApprovals { .. } | RunRefusal::TooManyHeldKeys { .. } => {
                "call_too_long"
            }
            RunRefusal::Plan(refusal) => refusal.name(),
        }
    }
}
