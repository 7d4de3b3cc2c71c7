//! A run as it is now, lists of runs, and the answer to a cancel.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::requests::{Flow, Resources, Stall};
use crate::{ErrorCategory, Json, State, Time, Verdict};

/// A run and its condition now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct Run {
    pub run_id: String,
    pub task_id: String,
    pub tenant_id: String,
    pub workspace_id: String,
    pub kind: String,
    pub queue: String,
    pub state: State,
    /// The number of the latest attempt; 0 before the first.
    pub attempt: u32,
    /// Attempts that reported a failure.
    pub failures: u32,
    /// Attempts lost with their worker.
    pub lost: u32,
    pub max_attempts: u32,
    pub priority: i32,
    /// How many attempts may be lost with their worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_max: Option<u32>,
    /// How long a worker may go without a heartbeat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat_interval_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_grace_ms: Option<u64>,
    /// What follows when an attempt makes no progress for too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall: Option<Stall>,
    /// How long the run may wait for its first worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// How the wait between failed attempts grows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The idempotency key that the run was submitted with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// The run that this one repeats, if it was made by a retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<String>,
    /// The run whose recorded steps this one began with, if it was made by a fork.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork_of: Option<String>,
    /// Runs that began with the recorded steps of this one, at most 100. Not in lists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forks: Vec<String>,
    /// Runs that repeat this one, at most 100. Not in lists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retries: Vec<String>,
    /// The worker that holds the lease, or had the latest attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::Json, required = false))]
    pub output: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
    /// The steps of the run in their order, if it has a plan, and what became of each. Of a plan with `dependsOn` the first
    /// 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<super::PlanStage>,
    /// How many steps the plan has, if they are tasks of their own: all of them are in `GET /v1/runs/{runId}/plan`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_steps: Option<u32>,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asset_id: Option<String>,
    pub created_at: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Time>,
    /// Not before this instant, as submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_at: Option<Time>,
    /// When the next attempt is due; only in state `retry`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_requested_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_reason: Option<String>,
    /// The current lease; only in state `running`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::Json, required = false))]
    pub input: Option<Json>,
    /// Calls under a lease of this run that were refused: late, conflicting, or not their caller's.
    /// They changed nothing. Only when a single run is asked for, and the first thousand of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(required = false))]
    pub refused: Vec<RefusedCall>,
    pub server_time: Time,
    /// The task that started this one, its key there, and the run that all of them belong to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// Present once the run has recorded, waited for or started something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durable: Option<super::DurableView>,
    /// The key that limits how many runs are active at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<Flow>,
    /// What the run may use and has used; absent without a budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<super::BudgetView>,
    /// Its descendants, if they were asked for. A task of which `children` has fewer than it started has more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<super::ChildView>,
}

/// Where a task comes from that another task started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct Parent {
    pub task_id: String,
    pub key: String,
    /// The task is a run of its own that outlives the one that started it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub detached: bool,
}

/// The wait between failed attempts: from `baseMs`, doubling, up to `capMs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct RetryPolicy {
    pub base_ms: u64,
    pub cap_ms: u64,
}

/// A refused call under a lease. One is kept per lease, call and code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct RefusedCall {
    pub attempt: u32,
    pub worker_id: String,
    /// `started`, `heartbeat` or `report`.
    pub call: String,
    /// The code it was answered with.
    pub error: String,
    pub verdict: Verdict,
    pub at: Time,
}

/// Why a run or an attempt did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct RunError {
    /// The worker's category; absent when the coordinator ended the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<ErrorCategory>,
    /// HEARTBEAT_TIMEOUT, CANCEL_TIMEOUT, ….
    pub reason: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack_trace: Option<String>,
}

/// The right of one worker to report for one attempt, until a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct Lease {
    pub lease_id: String,
    pub owner: String,
    pub attempt: u32,
    pub fence: u64,
    pub claim_version: u64,
    pub acquired_at: Time,
    pub heartbeat_at: Time,
    pub expires_at: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress_pct: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the attempt last made progress, of a run with `stall`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progressed_at: Option<Time>,
    /// When the attempt was found to have stalled, if it made no progress since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalled_at: Option<Time>,
}

/// A page of runs, newest first, each without its bodies: `input`, `output` and the stack trace of its error
/// come with those that `include` names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct RunList {
    pub runs: Vec<Run>,
    /// Absent on the last page. A page may be shorter than its `limit`, even empty, and still have one: `stopped` says
    /// why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// Why the page ended before its `limit` although there are more runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<PageStop>,
    /// How many runs were looked at, if that is why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub searched: Option<u64>,
    /// When the oldest run that was looked at was submitted; present with `stopped`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub searched_to: Option<Time>,
}

/// What ended a page before it was full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum PageStop {
    /// The next run would not fit into the bytes of a page.
    Bytes,
    /// As many runs were looked at as a page may cost, and most of them did not match.
    Scan,
}

/// A cancel was recorded: 202. `state` is `cancelled` at once when no worker held the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct CancelAccepted {
    pub run_id: String,
    pub state: State,
    pub cancel_requested_at: Time,
}

/// A step of a run's plan, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct PlanStage {
    pub key: String,
    pub kind: String,
    pub queue: String,
    /// `blocked` until the steps before it have ended; `skipped` if it never ran.
    pub state: State,
    /// Why it failed, or why it did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The same in words, of a step with a task of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The steps that must end before this one starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<String>,
    /// How many of them have not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<u32>,
    /// The task of the step, if it has one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// What people are asked, while they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<String>,
    /// When a worker first got it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Time>,
}

/// A page of the steps of a run's plan, in the order in which they are started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct PlanSteps {
    pub steps: Vec<PlanStage>,
    /// The `after` of the next page; absent after the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_after: Option<u32>,
}
