//! The history of a task, decision by decision, and the provenance record of its end.

use serde::{Deserialize, Serialize};

use super::durable::Spent;
use super::runs::RunError;
use crate::requests::Metrics;
use crate::{AttemptOutcome, CheckpointOutcome, ErrorCategory, Json, State, Time};

/// What was decided about a run, in order. A page may be shorter than its `limit`; only an empty one is the last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct History {
    pub entries: Vec<HistoryEntry>,
    /// Ask with `after` set to this for what follows.
    pub next_after: u64,
}

/// One decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct HistoryEntry {
    /// Grows by one with every decision about the run.
    pub n: u64,
    pub at: Time,
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// An object whose members depend on `kind`.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub detail: Json,
}

/// The record of an ended run: input, output and every attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct Record {
    pub run_id: String,
    pub state: State,
    pub kind: String,
    pub queue: String,
    /// What the run was submitted for, in the client's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    pub input_digest: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_digest: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
    pub attempts: Vec<AttemptView>,
    /// Ask with `after` set to this for the attempts that follow; absent where none do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_after: Option<u32>,
    pub created_at: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    pub completed_at: Time,
    /// From `createdAt` to `completedAt`.
    pub duration_ms: u64,
    /// How many decisions the history holds.
    #[serde(default)]
    pub decisions: u32,
    /// The versions of the rules that made them.
    #[serde(default)]
    pub rules: Vec<u32>,
    /// What a durable run recorded; absent for a plain one. The digest covers each step, wait and child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durable: Option<RecordedRun>,
    /// Every completed step, whatever ended the run: those that it recorded, and the steps of a plan that were not skipped. The
    /// first 1,000; `/steps` has all of them with their results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// How many completed steps `toolCalls` leaves out; absent if it has all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls_left_out: Option<u32>,
    /// Digest over kind, queue, input, every attempt, every checkpoint and the end.
    pub digest: String,
}

/// A completed step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct ToolCall {
    pub key: String,
    pub outcome: CheckpointOutcome,
    /// The attempt that recorded it; absent for a step that a fork took over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    pub recorded_at: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spend: Option<Spent>,
}

/// What a durable run recorded, counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct RecordedRun {
    pub steps: u32,
    /// Steps, waits, started and ended children.
    pub checkpoints: u32,
    pub children: u32,
    pub signals: u32,
    /// Attempts that ended because the run waited.
    pub suspensions: u32,
    /// What all steps used together.
    pub spend: Spent,
}

/// One closed attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct AttemptView {
    pub attempt: u32,
    pub lease_id: String,
    pub fence: u64,
    pub owner: String,
    pub outcome: AttemptOutcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<ErrorCategory>,
    pub granted_at: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    pub ended_at: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report_digest: Option<String>,
    #[serde(default)]
    pub claims: AttemptClaims,
    /// How far the worker's clock was from the coordinator's at its report, if more than 5 minutes;
    /// ahead is positive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_skew_ms: Option<i64>,
}

/// What the worker measured, by its own clock; not used for decisions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct AttemptClaims {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Metrics>,
    /// Results of an attempt that did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial_progress: Option<Json>,
    /// The trace context of the work itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}
