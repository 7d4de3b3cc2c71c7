//! What a decision asked for: the same for every try, byte for byte.

use std::fmt;

use super::line::LineId;
use crate::id::{Digest, Json, Name, Scope, TaskId};
use crate::time::Time;

/// The name of an effect, which receivers see as `webhook-id`. Made of what asked for it, so a decision that is repeated
/// asks for the same effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EffectId(Digest);

impl EffectId {
    /// The effect that a step of a task declared under a key.
    pub fn of_step(task: TaskId, step: &Name, key: &Name) -> Self {
        let task = task.as_u128().to_be_bytes();
        Self(Digest::of(&[b"step", &task, step.as_str().as_bytes(), key.as_str().as_bytes()]))
    }

    /// The end of a task, as one endpoint is told.
    pub fn of_end(task: TaskId, endpoint: &Name) -> Self {
        let task = task.as_u128().to_be_bytes();
        Self(Digest::of(&[b"end", &task, endpoint.as_str().as_bytes()]))
    }

    pub const fn from_digest(digest: Digest) -> Self {
        Self(digest)
    }

    pub const fn digest(&self) -> &Digest {
        &self.0
    }

    pub fn parse(text: &str) -> Option<Self> {
        Digest::parse(text.strip_prefix("eff_")?).map(Self)
    }
}

impl fmt::Display for EffectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "eff_{}", self.0)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Intent {
    pub id: EffectId,
    pub scope: Scope,
    /// The task whose decision asked for it.
    pub task: TaskId,
    /// A registered endpoint. Workers know names, never addresses.
    pub endpoint: Name,
    /// What must stay in order. The task, unless its worker named something else.
    pub aggregate: Name,
    /// What happened, in a word that endpoints subscribe to.
    pub kind: Name,
    pub body: Json,
    pub decided_at: Time,
}

impl Intent {
    pub fn line(&self) -> LineId {
        LineId::of(&self.scope, &self.endpoint, &self.aggregate)
    }
}
