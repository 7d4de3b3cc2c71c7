//! What is loaded for one request besides its task: see the table in [`super`].
//!
//! A store loads nothing for a task that has nothing: [`super::RunState`] counts signals and children.

use crate::id::{Digest, Name, TaskId};
use crate::plan::PlanLoaded;
use crate::task::State;

use super::checkpoint::{Checkpoint, Recorded, StepOutcome};
use super::signal::Signal;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// The checkpoints under the keys that the request names. The results of steps may be left out: no rule reads them.
    pub checkpoints: Vec<Checkpoint>,
    /// The children under the keys that the request names.
    pub children: Vec<Child>,
    /// All signals that the task has not taken, in order.
    pub signals: Vec<Signal>,
    /// The signal that was recorded under the idempotency key of the request, taken or not.
    pub same_key: Option<Signal>,
    /// Live children of a closing task after its slice's key, in the order of their keys: at most
    /// [`super::limits::SLICE_MAX`].
    pub live: Vec<ChildRef>,
    /// Whether there are more live children after those.
    pub has_more_live: bool,
    /// What the root of a plan needs ([`crate::plan`]); `None` for every other task.
    pub plan: Option<Box<PlanLoaded>>,
}

/// A child as its parent knows it: recorded when it was spawned, before it exists itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Child {
    pub key: Name,
    pub id: TaskId,
    /// The content that was asked for: the same key with another content is a conflict.
    pub digest: Digest,
    pub is_detached: bool,
    /// How it ended; `None` until its message was decided, and always for a detached one.
    pub end: Option<State>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChildRef {
    pub key: Name,
    pub id: TaskId,
}

impl Loaded {
    /// The same without the results of steps, as stores load it.
    #[must_use]
    pub fn without_results(mut self) -> Self {
        for checkpoint in &mut self.checkpoints {
            if let Recorded::Step(step) = &mut checkpoint.recorded
                && let StepOutcome::Succeeded { result } = &mut step.outcome
            {
                *result = None;
            }
        }
        self
    }

    pub fn checkpoint(&self, key: &Name) -> Option<&Checkpoint> {
        self.checkpoints.iter().find(|checkpoint| checkpoint.key == *key)
    }

    pub fn child(&self, key: &Name) -> Option<&Child> {
        self.children.iter().find(|child| child.key == *key)
    }
}
