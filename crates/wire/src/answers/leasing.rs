//! Leases that a worker is granted, and the answers to its calls while it holds them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::requests::Resources;
use crate::{Json, State, Time, Verdict};

/// The leases that a poll was granted, in the order of grant; empty when the wait ended first, or
/// when there is a signal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct Leases {
    pub leases: Vec<Envelope>,
    /// Tasks of this worker whose next heartbeat brings a signal: send it now. A hint that may be
    /// missing; the heartbeat alone carries the signal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<Signal>,
    /// What the poll names as announced is not known here: send `announce` with the next poll, at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub announce_again: Option<bool>,
    pub server_time: Time,
}

/// A task that its worker should send a heartbeat for at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct Signal {
    pub task_id: String,
}

/// Everything a worker needs to execute one attempt and to report on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct Envelope {
    pub task_id: String,
    pub run_id: String,
    pub tenant_id: String,
    pub workspace_id: String,
    pub task_key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asset_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    pub kind: String,
    pub queue: String,
    pub attempt: u32,
    pub lease_id: String,
    /// Larger than every earlier fence of this task: pass it to the systems that the code writes to.
    pub fence: u64,
    #[serde(default)]
    pub input: Json,
    pub enqueued_at: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    pub lease_expires_at: Time,
    pub callback_base_url: String,
    pub task_token: String,
    pub token_expires_at: Time,
    pub heartbeat_interval_ms: u64,
    /// The length of the lease: it expires after this time without a heartbeat.
    pub heartbeat_timeout_ms: u64,
    pub cancel_grace_period_ms: u64,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// The source of a durable function's random numbers: equal in every attempt of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The task with which this line of continuations began: idempotency keys of steps are `origin/key`, so that a step which is
    /// repeated after `continue` has the key that it had. The task itself when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// The task that started this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_task_id: Option<String>,
    /// The key of the plan's step that this is, if the run has a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// What the task has recorded since its last savepoint, that included, in the order of the commits: up to 64 KiB.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkpoints: Vec<super::Checkpoint>,
    /// There are more: ask `GET /v1/tasks/{taskId}/checkpoints` with `after` set to this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoints_after: Option<u32>,
    /// What is left of the budget; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_left: Option<super::BudgetLeft>,
}

/// The answer to `heartbeat`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct HeartbeatAck {
    pub acknowledged: bool,
    pub verdict: Verdict,
    /// Begin a graceful stop and report CANCELLED within the grace period.
    pub should_cancel: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_reason: Option<String>,
    pub lease_expires_at: Time,
    /// A new token, when less than half of the old one's lifetime is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_token: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_expires_at: Option<Time>,
    /// What is left of the budget; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<super::BudgetLeft>,
    pub server_time: Time,
}

/// Answers to a batch of heartbeats, in the order of the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct HeartbeatAnswers {
    pub answers: Vec<HeartbeatAnswer>,
    pub server_time: Time,
}

/// What a single `heartbeat` call would have been answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct HeartbeatAnswer {
    pub task_id: String,
    /// The HTTP status a single call would have had.
    pub status: u16,
    /// Absent only when nothing was decided (429, 503).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub should_cancel: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_expires_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_token: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_expires_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<super::BudgetLeft>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_attempt: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_attempt: Option<u32>,
}
