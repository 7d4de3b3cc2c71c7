//! A checkpoint: the recorded result of a step, of a wait, or of a child that has ended. It never changes.

use crate::done::Fault;
use crate::id::{Digest, Json, Name, TaskId, Text};
use crate::task::State;
use crate::time::Time;

use super::wait::WaitRecord;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Checkpoint {
    /// Its place among all checkpoints and started children of the task, from 1.
    pub number: u32,
    pub key: Name,
    /// The content that the call had: the same key with another digest is a conflict.
    pub digest: Digest,
    /// The attempt that recorded it; 0 if no worker did.
    pub attempt: u32,
    /// By the store's clock. Durable functions take the time of their last checkpoint for `now()`.
    pub at: Time,
    pub recorded: Recorded,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Recorded {
    Step(Step),
    Wait(WaitRecord),
    Child(ChildEnd),
}

/// What a worker says of one step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    pub outcome: StepOutcome,
    /// Digest of what went into the step, so that changed code is noticed (E4).
    pub input: Option<Digest>,
    pub spend: Spend,
    /// Replay begins after this step. Nothing is deleted.
    pub is_savepoint: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StepOutcome {
    Succeeded {
        result: Option<Json>,
    },
    /// A value for the function, which decides what follows (S2-91). The task goes on.
    Failed {
        fault: Fault,
        /// A stable word for the failure, where the worker has one. Part of the value that replay gives back.
        reason: Option<Text>,
    },
}

/// What a step used. Recorded and added up; a budget limits it ([`crate::budget`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Spend {
    pub cost_micros: u64,
    pub tokens: u64,
    pub tool_calls: u64,
}

impl Spend {
    /// Saturates: a worker's claim must not overflow a total.
    #[must_use]
    pub const fn plus(self, other: Spend) -> Spend {
        Spend {
            cost_micros: self.cost_micros.saturating_add(other.cost_micros),
            tokens: self.tokens.saturating_add(other.tokens),
            tool_calls: self.tool_calls.saturating_add(other.tool_calls),
        }
    }
}

impl Spend {
    /// The larger of each.
    #[must_use]
    pub fn max(self, other: Spend) -> Spend {
        Spend {
            cost_micros: self.cost_micros.max(other.cost_micros),
            tokens: self.tokens.max(other.tokens),
            tool_calls: self.tool_calls.max(other.tool_calls),
        }
    }
}

/// How a child ended. Its output or error stays in the child's own row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChildEnd {
    pub child: TaskId,
    pub state: State,
    /// The digest of the child's record, which the parent's record includes.
    pub record: Digest,
}

impl Step {
    /// The size of what is kept of the step.
    pub fn bytes(&self) -> usize {
        match &self.outcome {
            StepOutcome::Succeeded { result } => {
                result.as_ref().map_or(0, |json| json.as_str().len())
            }
            StepOutcome::Failed { fault, reason } => {
                let text =
                    |text: &Option<Text>| text.as_ref().map_or(0, |text| text.as_str().len());
                fault.message.as_str().len() + text(&fault.stack_trace) + text(reason)
            }
        }
    }
}
