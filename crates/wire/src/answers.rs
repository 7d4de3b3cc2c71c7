//! What is answered. Answers may grow members; clients ignore those they do not know.
//!
//! An absent member means "nothing to say"; null is never sent except inside opaque JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::requests::{Metrics, Resources};
use crate::{AttemptOutcome, ErrorCategory, Json, Outcome, State, Time, Verdict};

/// A run was accepted: 201, or 200 with `replayed` when its idempotency key was known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunAccepted {
    pub run_id: String,
    pub task_id: String,
    pub state: State,
    pub created_at: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replayed: Option<bool>,
}

/// Answers to a batch of runs, in the order of the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubmitResults {
    pub results: Vec<SubmitResult>,
}

/// One run of a batch: either the members of [`RunAccepted`], or `error` and `message`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubmitResult {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replayed: Option<bool>,
    /// A stable code; present exactly when the run was not accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The member at fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
}

impl From<RunAccepted> for SubmitResult {
    fn from(accepted: RunAccepted) -> SubmitResult {
        SubmitResult {
            run_id: Some(accepted.run_id),
            task_id: Some(accepted.task_id),
            state: Some(accepted.state),
            created_at: Some(accepted.created_at),
            replayed: accepted.replayed,
            ..SubmitResult::default()
        }
    }
}

/// A run and its condition now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = crate::Json, required = false)]
    pub output: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
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
    /// Who holds the run now; only in state `running`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = crate::Json, required = false)]
    pub input: Option<Json>,
    /// Calls under a lease of this run that were refused: late, conflicting, or not their caller's.
    /// They changed nothing. Only when a single run is asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub refused: Vec<RefusedCall>,
    pub server_time: Time,
}

/// A call under a lease that did not count. One is kept per lease, call and code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
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
}

/// Why a run is not running, or not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    pub run_id: String,
    pub task_id: String,
    pub state: State,
    /// What holds it, the most pressing first.
    pub gates: Vec<Gate>,
    pub server_time: Time,
}

/// One thing that holds a run where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Gate {
    /// A stable name: `run_at`, `backoff`, `no_worker`, `ahead`, `ready`, `leased`, `unheard`, `restored`,
    /// `cancel_untold`, `cancel_told`, `attempt_limit`, `deadline`, `ended`.
    pub gate: String,
    /// Its present value, as a sentence.
    pub now: String,
    /// What would change it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    /// When time alone changes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
}

/// A page of runs, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunList {
    pub runs: Vec<Run>,
    /// Absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A cancel was recorded: 202. `state` is `cancelled` at once when nobody held the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CancelAccepted {
    pub run_id: String,
    pub state: State,
    pub cancel_requested_at: Time,
}

/// What a poll was granted, in the order of grant; empty when the wait was over first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Leases {
    pub leases: Vec<Envelope>,
    pub server_time: Time,
}

/// Everything a worker needs to execute one attempt and to report on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
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
    /// Larger than every fence granted for this task before: hand it to whatever the code writes to.
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
    /// The length of the lease: silence of this length loses it.
    pub heartbeat_timeout_ms: u64,
    pub cancel_grace_period_ms: u64,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

/// The answer to `started`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StartedAck {
    pub acknowledged: bool,
    pub verdict: Verdict,
    pub server_time: Time,
}

/// The answer to `heartbeat`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeartbeatAck {
    pub acknowledged: bool,
    pub verdict: Verdict,
    /// Begin a graceful stop and report CANCELLED within the grace period.
    pub should_cancel: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_reason: Option<String>,
    pub lease_expires_at: Time,
    /// A fresh token, when less than half of the old one's life was left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_token: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_expires_at: Option<Time>,
    pub server_time: Time,
}

/// The answer to `completed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompletedAck {
    pub acknowledged: bool,
    pub verdict: Verdict,
    /// The attempt's outcome: FAILED even if a retry follows.
    pub final_state: Outcome,
    /// The task's condition at the time of answering.
    pub state: State,
    /// The very same report had been answered before; this is that answer.
    pub replayed: bool,
    pub server_time: Time,
}

/// Answers to a batch of reports, in the order of the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReportAnswers {
    pub answers: Vec<ReportAnswer>,
    pub server_time: Time,
}

/// What a single `completed` call would have been answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReportAnswer {
    pub task_id: String,
    /// The HTTP status a single call would have had.
    pub status: u16,
    /// Absent only when nothing was decided (429, 503): send the report again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_state: Option<Outcome>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replayed: Option<bool>,
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

/// Answers to a batch of heartbeats, in the order of the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeartbeatAnswers {
    pub answers: Vec<HeartbeatAnswer>,
    pub server_time: Time,
}

/// What a single `heartbeat` call would have been answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
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

/// What was decided about a run, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct History {
    pub entries: Vec<HistoryEntry>,
    /// Ask with `after` set to this for what follows.
    pub next_after: u64,
}

/// One decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HistoryEntry {
    /// Grows by one with every decision about the run.
    pub n: u64,
    pub at: Time,
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// An object whose members depend on `kind`.
    #[schema(value_type = Object)]
    pub detail: Json,
}

/// The provenance of an ended run: what went in, what came out, every attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    pub run_id: String,
    pub state: State,
    pub kind: String,
    pub queue: String,
    pub input_digest: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_digest: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
    pub attempts: Vec<AttemptView>,
    pub created_at: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    pub completed_at: Time,
    /// From `createdAt` to `completedAt`.
    pub duration_ms: u64,
    /// Over everything above.
    pub digest: String,
}

/// One closed attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
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

/// What the worker said by its own clock and its own measure; nothing was decided by it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AttemptClaims {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Metrics>,
    /// The trace context of the work itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

/// What waits and runs, per queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Queues {
    pub queues: Vec<QueueView>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueView {
    pub queue: String,
    /// Could be leased now.
    pub ready: u64,
    /// Waits for its time: a delayed start or the next attempt.
    pub delayed: u64,
    pub running: u64,
    /// When the oldest ready task was enqueued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_ready_at: Option<Time>,
}

/// `/readyz`: 200 when every check passes, 503 otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ready {
    pub ready: bool,
    pub checks: Vec<ReadyCheck>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReadyCheck {
    pub name: String,
    pub ok: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// `/version`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// The version of the program.
    pub version: String,
    /// The version of this interface: the first segment of its paths.
    pub api: String,
}

/// Every error answer: `application/problem+json` with the worker contract's own members beside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// Where the code is explained.
    #[serde(rename = "type")]
    pub type_uri: String,
    pub title: String,
    pub status: u16,
    pub detail: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// The stable code.
    pub error: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// On every answer to started, heartbeat and completed, except 429 and 503.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// The condition that stood in the way, upper case as the worker contract quotes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_attempt: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_attempt: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The member of the request at fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    pub server_time: Time,
}
