//! A stage: one leg of a task that passes through several kinds or queues in turn.

use std::sync::Arc;

use crate::approval::Terms;
use crate::budget::Limits;
use crate::id::{Digest, Name};
use crate::policy::Policy;
use crate::time::{Span, Time};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stage {
    /// The key of the checkpoint that the stage's end makes. Workers cannot record under it.
    pub key: Name,
    pub kind: Name,
    pub queue: Name,
    /// Failures, backoff and leases of this stage. Its deadline is unused: see `time_limit`.
    pub policy: Policy,
    /// What the stage may use at most of what the task may use; empty without a ceiling.
    pub ceiling: Limits,
    /// How long the stage may take, counted from the moment at which it may first be leased.
    pub time_limit: Option<Span>,
    /// Digest of the input as it was written, references included.
    pub input: Digest,
    /// Whether the input refers to outputs of earlier stages, which a grant must resolve first.
    pub has_references: bool,
    /// A failure of the stage is recorded, and the task goes on (S2-91).
    pub continues_on_error: bool,
    /// The stage runs whatever ended the task before it.
    pub is_always: bool,
    /// The stage judges the one before it, so a worker never gets it together with the answer to its own report.
    pub is_gate: bool,
    pub may: Capabilities,
    /// The stage asks people instead of a worker: no worker ever gets it.
    pub asks: Option<Arc<Terms>>,
    /// The stage has a condition, or composes what people are asked: see [`super::preparing`].
    pub is_prepared: bool,
}

/// What the token of a stage may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Capabilities {
    pub steps: bool,
    pub waits: bool,
    pub children: bool,
}

impl Capabilities {
    pub const ALL: Capabilities = Capabilities { steps: true, waits: true, children: true };
    pub const STEPS_ONLY: Capabilities =
        Capabilities { steps: true, waits: false, children: false };
}

impl Stage {
    /// Whether no worker gets the stage when it begins.
    pub(crate) fn begins_waiting(&self) -> bool {
        self.asks.is_some() || self.is_prepared
    }

    /// The policy while the task is in this stage. The deadline of the run stays in force, except for a stage that must run
    /// because the deadline has passed.
    pub(crate) fn policy_from(&self, due: Time, run_deadline: Option<Time>) -> Policy {
        let own = self.time_limit.map(|limit| due.plus(limit));
        let outer = run_deadline.filter(|_| !self.is_always);
        Policy { deadline: [own, outer].into_iter().flatten().min(), ..self.policy.clone() }
    }
}
