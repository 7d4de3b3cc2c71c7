//! What passes between an engine and its driver: plain values, in the shape of `POST /v1/tasks/{id}/checkpoints`.
//!
//! A driver carries a [`Command`] out and brings back an [`Answer`]. Nothing here decides anything, and nothing here is
//! specific to Rust: `protocol/scenarios/durable` holds these values as JSON.

use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};
use wire::approvals::ApprovalTerms;
use wire::requests::{AwaitedEffect, SubmitRun};
use wire::{Json, Time};

use crate::effect::Effect;
use crate::{Digest, Failure};

/// How an operation ended, or that a child was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Outcome {
    /// A child was started. Its end is a second checkpoint with the same key.
    Started,
    Succeeded,
    Failed,
    Cancelled,
}

/// One recorded, immutable result, as the coordinator keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Checkpoint {
    pub key: String,
    pub outcome: Outcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_digest: Option<Digest>,
    /// The coordinator's time of the commit that recorded it.
    pub recorded_at: Time,
    #[serde(default, skip_serializing_if = "is_false")]
    pub savepoint: bool,
}

/// What an attempt begins with: the lease's envelope, as far as the engine needs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Start {
    /// Begins the idempotency keys of steps: those of a parent and of its children differ.
    pub task_id: String,
    /// Begins them instead, if the run continues another one: the task with which that line began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// The fence of this attempt's lease.
    pub fence: u64,
    /// Equal in every attempt, like everything below it.
    pub seed: u64,
    /// When the run was accepted: the function's time before its first checkpoint.
    pub created_at: Time,
    #[serde(default)]
    pub input: Json,
    /// In commit order. What precedes the last savepoint may be left out.
    #[serde(default)]
    pub checkpoints: Vec<Checkpoint>,
}

/// A finished step that has yet to be recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepRecord {
    pub key: String,
    pub outcome: Outcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_digest: Option<Digest>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spend: Option<Spend>,
    /// The new start of replay.
    #[serde(default, skip_serializing_if = "is_false")]
    pub savepoint: bool,
    /// What is sent to endpoints because of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<Effect>,
}

impl StepRecord {
    /// The checkpoint that this becomes when it is recorded.
    pub fn recorded_at(self, recorded_at: Time) -> Checkpoint {
        let StepRecord { key, outcome, result, error, input_digest, savepoint, .. } = self;
        Checkpoint { key, outcome, result, error, input_digest, recorded_at, savepoint }
    }
}

/// What a step used of the run's budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spend {
    pub cost_micros: u64,
    pub tokens: u64,
    pub tool_calls: u64,
}

impl Spend {
    /// The sum; it never wraps.
    #[must_use]
    pub fn plus(self, more: Spend) -> Spend {
        Spend {
            cost_micros: self.cost_micros.saturating_add(more.cost_micros),
            tokens: self.tokens.saturating_add(more.tokens),
            tool_calls: self.tool_calls.saturating_add(more.tool_calls),
        }
    }
}

/// A child that has yet to be started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChildRecord {
    pub key: String,
    /// Of kind, queue and input.
    pub input_digest: Digest,
    /// A run that outlives its parent, linked by cause.
    #[serde(default, skip_serializing_if = "is_false")]
    pub detached: bool,
    pub run: SubmitRun,
}

/// Whether one awaited item ends the wait, or only all of them do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    All,
    Any,
}

/// What a wait is for. Its arrival is a checkpoint with this key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Awaited {
    Timer { key: String, until: Time },
    Signal { key: String, signal: String },
    Child { key: String, child: String },
    Approval { key: String, approval: Box<ApprovalTerms> },
    Effect { key: String, effect: AwaitedEffect },
}

impl Awaited {
    pub fn key(&self) -> &str {
        match self {
            Awaited::Timer { key, .. }
            | Awaited::Signal { key, .. }
            | Awaited::Child { key, .. }
            | Awaited::Approval { key, .. }
            | Awaited::Effect { key, .. } => key,
        }
    }

    /// When time alone brings it.
    pub(crate) fn until(&self) -> Option<Time> {
        match self {
            Awaited::Timer { until, .. } => Some(*until),
            Awaited::Approval { approval, .. } => approval.expires_at,
            Awaited::Signal { .. } | Awaited::Child { .. } | Awaited::Effect { .. } => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Wait {
    /// A function of what is awaited, so that a repeated call is recognised.
    pub key: String,
    pub mode: Mode,
    #[serde(rename = "for")]
    pub items: Vec<Awaited>,
    /// How long the coordinator keeps the wait, if that is longer than its default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ms: Option<u64>,
}

/// One call to the coordinator, recorded as a whole or not at all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Call {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepRecord>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<ChildRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<Wait>,
}

/// What the function returned, with the steps and detached children that ride along.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepRecord>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<ChildRecord>,
    pub outcome: Outcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
}

/// What the driver does next.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Command {
    /// A step's work begins. If it has a timeout, call [`Run::time_out`](crate::Run::time_out) when that is over.
    Execute {
        key: String,
        /// Numbers the tries of this step, from 1.
        #[serde(rename = "try")]
        number: u32,
        #[serde(
            rename = "timeoutMs",
            serialize_with = "milliseconds",
            skip_serializing_if = "Option::is_none"
        )]
        timeout: Option<Duration>,
    },
    /// Send this to the coordinator and pass its answer to [`Run::recorded`](crate::Run::recorded).
    Checkpoint(Call),
    /// The end: report it. The run is over.
    Complete(Report),
    /// The coordinator keeps what is awaited: the lease and the slot are free.
    Suspend,
    /// The coordinator halted the run at a limit.
    Halt,
    /// The coordinator asked to stop: report CANCELLED.
    Cancel,
}

/// Whether the run goes on under the same lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Running,
    Waiting,
    Halted,
}

/// The coordinator's answer to a [`Call`] that it committed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    pub state: State,
    /// When the steps of the call were recorded; for a repeated call, the time of the first.
    pub recorded_at: Time,
    /// What was awaited and has arrived, in commit order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<Checkpoint>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub should_cancel: bool,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

fn milliseconds<S: Serializer>(span: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    span.map(|span| span.as_millis() as u64).serialize(serializer)
}
