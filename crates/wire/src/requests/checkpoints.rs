//! What a worker of a durable run sends while it holds its lease: steps done, children wanted, what to wait for.
//!
//! A child repeats the members of a submission, for the reason that [`super`] gives.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Budget, Flow, LogLine, Resources, Retry, Stall, SubmitRun, object};
use crate::approvals::ApprovalTerms;
use crate::{ErrorCategory, Json, StepOutcome, Time, WaitMode};

/// `POST /v1/tasks/{taskId}/checkpoints`: everything in it is recorded as a whole, or nothing is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CheckpointCall {
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub attempt: u32,
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub worker_id: String,
    /// Steps that are done, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(max_items = 100))]
    pub steps: Vec<StepRecord>,
    /// Children to start. A child that was started before under its key is not started again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(max_items = 500))]
    pub children: Vec<ChildRun>,
    /// What to wait for, after everything above. If it is there, the answer has it and the lease goes on; otherwise the
    /// attempt ends here, and another one follows when it is there. Excludes `diverged`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object")]
    pub wait: Option<WaitFor>,
    /// The code does not fit the recorded checkpoints: the attempt ends, and the run waits for an operator. Excludes
    /// `wait`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object")]
    pub diverged: Option<Diverged>,
    /// What is sent to endpoints because of these steps: once for each step that is recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(max_items = 100))]
    pub effects: Vec<DeclaredEffect>,
    /// Lines for people, oldest first. Kept with the attempt if the call is not refused; the oldest are dropped beyond 64 KiB.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<LogLine>,
}

/// `POST /v1/checkpoints`: many calls at once, one answer each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CheckpointCalls {
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 1000))]
    pub checkpoints: Vec<CheckpointItem>,
}

/// One call of a batch: `CheckpointCall` with the task and token a single call has in path and header.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CheckpointItem {
    pub task_id: String,
    pub task_token: String,
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub attempt: u32,
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub worker_id: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(max_items = 100))]
    pub steps: Vec<StepRecord>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(max_items = 500))]
    pub children: Vec<ChildRun>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object")]
    pub wait: Option<WaitFor>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object")]
    pub diverged: Option<Diverged>,
    /// What is sent to endpoints because of these steps: once for each step that is recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(max_items = 100))]
    pub effects: Vec<DeclaredEffect>,
    /// Lines for people, oldest first. Kept with the attempt if the call is not refused; the oldest are dropped beyond 64 KiB.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<LogLine>,
}

impl CheckpointItem {
    /// Task, token and the call that they belong to.
    pub fn into_call(self) -> (String, String, CheckpointCall) {
        let CheckpointItem {
            task_id,
            task_token,
            attempt,
            worker_id,
            steps,
            children,
            wait,
            diverged,
            effects,
            log,
        } = self;
        let call =
            CheckpointCall { attempt, worker_id, steps, children, wait, diverged, effects, log };
        (task_id, task_token, call)
    }
}

/// A call to the outside that a step asks for. It is written with the step and delivered afterwards; the same step with
/// other effects is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeclaredEffect {
    /// Its name among the effects of its step.
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub key: String,
    /// The key of a step of this call.
    pub step: String,
    /// The name of a registered endpoint, never a URL.
    #[cfg_attr(feature = "openapi", schema(max_length = 64, pattern = "^[A-Za-z0-9._-]{1,64}$"))]
    pub endpoint: String,
    /// What happened, in a word.
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub r#type: String,
    /// What stays in order: effects with the same name arrive at the endpoint one after the other. The task when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub aggregate: Option<String>,
    /// What the receiver gets, byte for byte; at most 65536 bytes.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::Json))]
    pub body: Json,
}

/// The result of one step. Its key means this step for the life of the task: the same key with another content is
/// refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StepRecord {
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/#-]{1,128}$")
    )]
    pub key: String,
    pub outcome: StepOutcome,
    /// At most 262144 bytes. Only with outcome SUCCEEDED.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::Json, required = false))]
    pub result: Option<Json>,
    /// Only with outcome FAILED. The run goes on: its code decides what follows.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object")]
    pub error: Option<StepError>,
    /// SHA-256 of what went into the step, as 64 hexadecimal digits: changed code is noticed by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(pattern = "^[0-9a-f]{64}$"))]
    pub input_digest: Option<String>,
    /// What the step used. Recorded and added up.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object")]
    pub spend: Option<Spend>,
    /// Replay begins with this step from now on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub savepoint: bool,
}

/// Why a step or a child failed: a value for the code of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StepError {
    pub category: ErrorCategory,
    /// A stable word, such as STEP_TIMEOUT.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub reason: Option<String>,
    #[serde(default)]
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack_trace: Option<String>,
    /// The opinion of the code that failed; the category's default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
}

/// What steps used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spend {
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(maximum = 9007199254740991u64))]
    pub cost_micros: u64,
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(maximum = 9007199254740991u64))]
    pub tokens: u64,
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(maximum = 9007199254740991u64))]
    pub tool_calls: u64,
}

/// A child to start: a submission with a key. Its end is a checkpoint of its parent under the same key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChildRun {
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/#-]{1,128}$")
    )]
    pub key: String,
    /// Start a separate run that outlives its parent. It cannot be awaited.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub detached: bool,
    /// SHA-256 of what makes the child what it is, as 64 hexadecimal digits; the coordinator's own digest of the
    /// submission when absent. The same key with another digest is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(pattern = "^[0-9a-f]{64}$"))]
    pub input_digest: Option<String>,
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub kind: String,
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub queue: String,
    #[serde(default)]
    pub input: Json,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub task_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub asset_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object")]
    pub resources: Option<Resources>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = -1000, maximum = 1000))]
    pub priority: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 100))]
    pub max_attempts: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 100))]
    pub lost_max: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 2000, maximum = 86400000))]
    pub lease_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 500, maximum = 600000))]
    pub heartbeat_interval_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 3600000))]
    pub cancel_grace_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object")]
    pub stall: Option<Stall>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 315576000000u64))]
    pub delay_ms: Option<u64>,
    /// The parent's deadline holds too, unless the child is detached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 315576000000u64))]
    pub deadline_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 315576000000u64))]
    pub ttl_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(maximum = 9007199254740991u64))]
    pub seed: Option<u64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object")]
    pub retry: Option<Retry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// What the child may use. It leaves the balance of the parent, and what was not used comes back with its end. A unit that the
    /// parent limits and the child does not name may not be used.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object")]
    pub budget: Option<Budget>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object")]
    pub flow: Option<Flow>,
}

impl ChildRun {
    /// A child from a submission. Its idempotency key, if any, is left out: a child's key is unique in its parent.
    pub fn new(key: impl Into<String>, run: SubmitRun) -> ChildRun {
        let SubmitRun {
            kind,
            queue,
            // A child has no plan: without a kind it is refused.
            plan: _,
            input,
            goal,
            task_key,
            asset_id,
            resources,
            priority,
            max_attempts,
            lost_max,
            lease_ms,
            heartbeat_interval_ms,
            cancel_grace_ms,
            stall,
            run_at,
            delay_ms,
            deadline,
            deadline_ms,
            ttl_ms,
            seed,
            labels,
            retry,
            budget,
            flow,
            traceparent,
            idempotency_key: _,
        } = run;
        ChildRun {
            key: key.into(),
            detached: false,
            input_digest: None,
            kind,
            queue,
            input,
            goal,
            task_key,
            asset_id,
            resources,
            priority,
            max_attempts,
            lost_max,
            lease_ms,
            heartbeat_interval_ms,
            cancel_grace_ms,
            stall,
            run_at,
            delay_ms,
            deadline,
            deadline_ms,
            ttl_ms,
            seed,
            labels,
            retry,
            traceparent,
            budget,
            flow,
        }
    }

    /// The submission without what makes it a child.
    pub fn into_run(self) -> SubmitRun {
        let ChildRun {
            key: _,
            detached: _,
            input_digest: _,
            kind,
            queue,
            input,
            goal,
            task_key,
            asset_id,
            resources,
            priority,
            max_attempts,
            lost_max,
            lease_ms,
            heartbeat_interval_ms,
            cancel_grace_ms,
            stall,
            run_at,
            delay_ms,
            deadline,
            deadline_ms,
            ttl_ms,
            seed,
            labels,
            retry,
            traceparent,
            budget,
            flow,
        } = self;
        SubmitRun {
            kind,
            queue,
            plan: None,
            input,
            goal,
            task_key,
            asset_id,
            resources,
            priority,
            max_attempts,
            lost_max,
            lease_ms,
            heartbeat_interval_ms,
            cancel_grace_ms,
            stall,
            run_at,
            delay_ms,
            deadline,
            deadline_ms,
            ttl_ms,
            seed,
            labels,
            retry,
            budget,
            flow,
            traceparent,
            idempotency_key: None,
        }
    }
}

/// What a run waits for. What satisfied it is recorded as one checkpoint under its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WaitFor {
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/#-]{1,128}$")
    )]
    pub key: String,
    /// Whether all items must be there, or any one of them.
    pub mode: WaitMode,
    #[serde(rename = "for")]
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 10000))]
    pub items: Vec<AwaitedItem>,
    /// How long to wait at most: then the run fails with WAIT_TIMEOUT. 30 days when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 315576000000u64))]
    pub max_ms: Option<u64>,
}

/// One item of a wait: exactly one of `until`, `signal`, `child`, `approval` and `effect`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AwaitedItem {
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/#-]{1,128}$")
    )]
    pub key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// One signal of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub signal: Option<String>,
    /// The end of the child with this key, whatever its state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/#-]{1,128}$")
    )]
    pub child: Option<String>,
    /// A decision of people. Its outcome comes as the value of a signal.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object")]
    pub approval: Option<ApprovalTerms>,
    /// What becomes of an effect that this task declared, in this call or before: delivered, failed or unknown. Its outcome
    /// comes as the value of a signal.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object")]
    pub effect: Option<AwaitedEffect>,
}

/// An effect of the task itself, by the names with which it was declared.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AwaitedEffect {
    /// The key of the step that it was declared with.
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/#-]{1,128}$")
    )]
    pub step: String,
    /// Its own key.
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub key: String,
}

/// Where code and checkpoints differ, for people. Texts are repaired and cut, never refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Diverged {
    /// Empty for the function's own branch.
    #[serde(default)]
    pub branch: String,
    /// The place in the branch, from 0.
    pub index: u32,
    pub recorded: String,
    pub actual: String,
}

/// `POST /v1/runs/{runId}/signals`: a value for a run, by name. Kept until the run takes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SendSignal {
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub name: String,
    /// Null when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::Json, required = false))]
    pub payload: Option<Json>,
}

/// `POST /v1/runs/{runId}/resume`. It has no members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResumeRun {}

/// `POST /v1/runs/{runId}/unpin`. It has no members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UnpinRun {}
