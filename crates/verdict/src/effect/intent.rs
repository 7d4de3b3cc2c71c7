//! What a decision asked for: the same for every try, byte for byte.

use std::fmt;

use super::line::LineId;
use crate::event::Event;
use crate::id::{Digest, Json, Name, Scope, TaskId};
use crate::run::RunEvent;
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

    /// What became of an approval, as one endpoint is told.
    pub fn of_approval(task: TaskId, number: u32, kind: &str, endpoint: &Name) -> Self {
        let (task, number) = (task.as_u128().to_be_bytes(), number.to_be_bytes());
        let parts: [&[u8]; 5] =
            [b"approval", &task, &number, kind.as_bytes(), endpoint.as_str().as_bytes()];
        Self(Digest::of(&parts))
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

/// What a worker declares with a step, by the name of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Declared {
    pub step: Name,
    pub key: Name,
    pub endpoint: Name,
    pub kind: Name,
    /// What must stay in order; `None` for the task.
    pub aggregate: Option<Name>,
    pub body: Json,
}

impl Declared {
    /// The effects of the steps that these events record. A step that was recorded before has its effects already: they are
    /// part of its digest, so the same key with other effects is refused.
    pub fn intents(
        declared: &[Declared],
        events: &[Event],
        (scope, task): (&Scope, TaskId),
        now: Time,
    ) -> Vec<Intent> {
        let asked =
            declared.iter().filter(|it| events.iter().any(|event| it.is_recorded_by(event)));
        let intent = |it: &Declared| Intent {
            id: EffectId::of_step(task, &it.step, &it.key),
            scope: scope.clone(),
            task,
            endpoint: it.endpoint.clone(),
            aggregate: it.aggregate.clone().unwrap_or_else(|| task.to_string().into()),
            kind: it.kind.clone(),
            body: it.body.clone(),
            decided_at: now,
        };
        asked.map(intent).collect()
    }

    fn is_recorded_by(&self, event: &Event) -> bool {
        let Event::Run(event) = event else { return false };
        matches!(&**event, RunEvent::Checkpointed(checkpoint) if checkpoint.key == self.step)
    }
}

impl Intent {
    pub fn line(&self) -> LineId {
        LineId::of(&self.scope, &self.endpoint, &self.aggregate)
    }
}
