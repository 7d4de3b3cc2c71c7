//! What is recorded of a durable run, and the answers to calls that record.

use serde::{Deserialize, Serialize};

use crate::{
    CheckpointKind, CheckpointOutcome, ErrorCategory, Json, State, Time, Verdict, WaitMode,
};

/// One recorded result, which never changes: of a step, a wait, a started child or an ended child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct Checkpoint {
    /// Its place among everything that the task recorded, from 1: the order of the commits.
    pub number: u32,
    pub key: String,
    pub kind: CheckpointKind,
    /// STARTED for a child that was started; its end is a second checkpoint with the same key.
    pub outcome: CheckpointOutcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::Json, required = false))]
    pub result: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<CheckpointError>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_digest: Option<String>,
    /// The attempt that recorded it; absent when no worker did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    pub recorded_at: Time,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub savepoint: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spend: Option<Spent>,
    /// The task of a child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// A started child that is a separate run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub detached: bool,
    /// What satisfied a wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<WaitOutcome>,
}

/// Why a step or a child did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct CheckpointError {
    /// Absent when the coordinator ended a child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<ErrorCategory>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack_trace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
}

/// What satisfied a wait.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct WaitOutcome {
    /// The key of the item that came first, if one was enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub winner: Option<String>,
    /// The signals that its items took.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<TakenSignal>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct TakenSignal {
    /// The key of the item that took it.
    pub key: String,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::Json, required = false))]
    pub payload: Option<Json>,
}

/// A page of what a task recorded, in the order of the commits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct Checkpoints {
    pub checkpoints: Vec<Checkpoint>,
    /// Ask with `after` set to this for what follows; absent where nothing does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_after: Option<u32>,
}

/// A page of what a run recorded, in the order of the commits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct Steps {
    pub steps: Vec<Checkpoint>,
    /// Ask with `after` set to this for what follows; absent where nothing does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_after: Option<u32>,
}

/// The answer to a call with checkpoints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct CheckpointAck {
    pub acknowledged: bool,
    pub verdict: Verdict,
    /// `running`: the lease goes on. Anything else: the attempt is over, and the worker forgets the task.
    pub state: State,
    /// Nothing of the call was new.
    pub replayed: bool,
    /// When the steps of the call were recorded; for a repeated call, the time of the first.
    pub recorded_at: Time,
    /// What was awaited, if it is there: the checkpoint of the wait and the ends of awaited children, in the order of
    /// the commits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<Checkpoint>,
    /// `results` has no room for all: read them with `GET /v1/tasks/{taskId}/checkpoints`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub results_left_out: bool,
    /// The tasks of the call's children, whichever call started them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<StartedChild>,
    pub should_cancel: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_reason: Option<String>,
    /// Absent when the call has ended its attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_expires_at: Option<Time>,
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

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct StartedChild {
    pub key: String,
    pub task_id: String,
}

/// Answers to a batch of calls with checkpoints, in the order of the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct CheckpointAnswers {
    pub answers: Vec<CheckpointAnswer>,
    pub server_time: Time,
}

/// What a single call would have been answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct CheckpointAnswer {
    pub task_id: String,
    /// The HTTP status a single call would have had.
    pub status: u16,
    /// Absent only when nothing was decided (429, 503): send the call again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replayed: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<Checkpoint>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub results_left_out: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<StartedChild>,
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

/// A signal was recorded now, or before under the same idempotency key: 202.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct SignalAccepted {
    pub run_id: String,
    pub state: State,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replayed: Option<bool>,
}

/// A diverged run may be leased again: 202.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct RunResumed {
    pub run_id: String,
    pub state: State,
}

/// Workers of every build may continue a pinned run: 202.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct RunUnpinned {
    pub run_id: String,
    pub state: State,
}

/// A page of children, in the order in which they were started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct Children {
    pub children: Vec<ChildView>,
    /// Ask with `after` set to this for what follows; absent where nothing does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_after: Option<u32>,
}

/// A task that another task started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct ChildView {
    pub key: String,
    pub task_id: String,
    pub kind: String,
    pub queue: String,
    pub state: State,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub detached: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// Its own children, in `GET /v1/runs/{runId}?tree=` up to the depth and number that were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(no_recursion))]
    pub children: Vec<ChildView>,
}

/// What a durable run has recorded and what it waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct DurableView {
    /// The source of its random numbers, submitted or derived from its id: the one that its workers are sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    pub steps: u32,
    /// Children ever started, detached ones included.
    pub children: u32,
    pub live_children: u32,
    pub pending_signals: u32,
    pub suspensions: u32,
    /// The number of the checkpoint with which replay begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub savepoint: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spend: Option<Spent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<WaitingView>,
    /// The build of the worker that took the run last, if it announced one for the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<RunBuild>,
}

/// The build of a durable run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct RunBuild {
    pub id: String,
    /// Whether only workers of this build may continue the run.
    pub pinned: bool,
}

/// Why a run is `waiting`: exactly one of the members is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct WaitingView {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<OpenWait>,
    /// What it waited for is there: it waits for a worker since this instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diverged: Option<Divergence>,
    /// Its end is decided, and its children are still to end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
}

/// The wait of a suspended run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct OpenWait {
    pub key: String,
    pub mode: WaitMode,
    /// The items; at most 100 of them are shown.
    #[serde(rename = "for")]
    pub items: Vec<AwaitedView>,
    /// How many items there are.
    pub count: u32,
    /// How many children and signals have not come.
    pub missing: u32,
    /// The run fails with WAIT_TIMEOUT if the wait lasts until then.
    pub gives_up_at: Time,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct Ending {
    pub state: State,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// One item of a wait.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct AwaitedView {
    pub key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<String>,
    /// The key of an approval: `explain` names its id and who may decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
    /// When the approval expires: its default or EXPIRED counts then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    /// The key of an item that waits for what becomes of an effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
}

/// Where code and checkpoints differ, as the worker said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct Divergence {
    /// Empty for the function's own branch.
    pub branch: String,
    pub index: u32,
    pub recorded: String,
    pub actual: String,
}

/// What steps used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct Spent {
    pub cost_micros: u64,
    pub tokens: u64,
    pub tool_calls: u64,
}
