//! The part of a history that is about durable runs: what a worker asks to record, and what it is shown of it later.
//!
//! Contents are digests, in any form that preserves equality. Nothing here knows how the coordinator stores them.

use serde::{Deserialize, Serialize};

use crate::event::Task;

/// What a call under a lease asks to record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DurableCall {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Command>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Command>,
    /// The key of the wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<String>,
    /// The worker says that its code does not fit what is recorded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub diverged: bool,
    /// The version of the worker's code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

/// One step or one child of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    pub key: String,
    /// What goes into it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// What came out of a step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
}

/// What somebody was shown of a task's recorded results: an attempt before it began, everything or everything since a
/// savepoint, or a reader after the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    pub task: Task,
    /// `None` for a reader after the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    pub recorded: Vec<Recorded>,
}

/// One recorded result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    /// Its place among everything that the task recorded, from 1.
    pub number: u32,
    pub key: String,
    /// A started child is recorded under the key under which its end is recorded later.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub started: bool,
    /// What was recorded: outcome, result and what satisfied a wait; the task of a started child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub savepoint: bool,
}

impl Replay {
    /// Whether an attempt was over before this was shown.
    pub(crate) fn is_after(&self, attempt: u32) -> bool {
        self.attempt.is_none_or(|own| attempt < own)
    }

    /// What is shown after the end is shown after every attempt.
    pub(crate) fn order(&self) -> u32 {
        self.attempt.unwrap_or(u32::MAX)
    }
}

impl DurableCall {
    /// Everything that the call asks to record under a key.
    pub(crate) fn commands(&self) -> impl Iterator<Item = &Command> {
        self.steps.iter().chain(&self.children)
    }
}
