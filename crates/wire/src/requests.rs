//! The request bodies. Every body refuses unknown members, so that a misspelt option is an error
//! and not a silent default.
//!
//! Batch items repeat the members instead of flattening a struct: serde cannot refuse unknown
//! members of a flattened struct.
//!
//! The comments of types and members are their descriptions in the OpenAPI document: no Rust belongs there.
//!
//! ```
//! let run: wire::requests::SubmitRun =
//!     serde_json::from_str(r#"{"kind":"resize","queue":"images","input":{"w":80}}"#).unwrap();
//! assert_eq!(run.input.text(), r#"{"w":80}"#);
//! ```

mod budgets;
mod checkpoints;
mod flow;
mod log;
mod queries;
mod starts;

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::{Deserialize, Deserializer, Serialize, de};

pub use self::budgets::{Budget, OnSoft, SoftLimits};
pub use self::checkpoints::{
    AwaitedEffect, AwaitedItem, CheckpointCall, CheckpointCalls, CheckpointItem, ChildRun,
    DeclaredEffect, Diverged, ResumeRun, SendSignal, Spend, StepError, StepRecord, UnpinRun,
    WaitFor,
};
pub use self::flow::{Flow, FlowHold, FlowRate};
pub use self::log::LogLine;
pub use self::queries::{
    GetRun, HistoryQuery, Included, LabelQuery, ListFlowKeys, ListKinds, ListRuns, ListWorkers,
    LogsQuery, RecordQuery, RecordsQuery, WaitMs,
};
pub use self::starts::{StartItem, Starts};
use crate::limits::{RETRY_BASE_MS_DEFAULT, RETRY_CAP_MS_DEFAULT};
use crate::plan::Plan;
use crate::{Builds, ErrorCategory, Json, Outcome, Time};

/// `POST /v1/runs`: one obligation to execute.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubmitRun {
    /// What a worker must be able to do. Required, unless the run has a `plan`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub kind: String,
    /// Where the run waits for a worker. Required, unless the run has a `plan`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub queue: String,
    /// The steps of the run, one after the other. Each has its own kind, queue, input and retries, so the run has none of
    /// these.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object")]
    pub plan: Option<Plan>,
    /// Passed to the worker unchanged; null when absent. A repeated submission with the same idempotency key may
    /// spell it differently: order and spacing of members do not count, integers count by their digits, other
    /// numbers as doubles.
    #[serde(default)]
    pub input: Json,
    /// What the run is for, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    /// The name of the task in its plan or asset; the kind when absent.
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
    /// Higher goes first; 0 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = -1000, maximum = 1000))]
    pub priority: Option<i32>,
    /// How many attempts may report a failure before the run fails; 3 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 100))]
    pub max_attempts: Option<u32>,
    /// How many attempts may be lost with their worker before the run fails; 3 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 100))]
    pub lost_max: Option<u32>,
    /// How long a worker may go without a heartbeat; 90000 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 2000, maximum = 86400000))]
    pub lease_ms: Option<u64>,
    /// The interval between heartbeats of a worker; a third of `leaseMs` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 500, maximum = 600000))]
    pub heartbeat_interval_ms: Option<u64>,
    /// How long a worker may take to stop after a cancel; 30000 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 3600000))]
    pub cancel_grace_ms: Option<u64>,
    /// What follows when an attempt makes no progress for too long; nothing when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object")]
    pub stall: Option<Stall>,
    /// Not before this instant. Excludes `delayMs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_at: Option<Time>,
    /// Not before this time has passed since the coordinator accepted the run. Unlike an instant that the caller
    /// computes from it, a repeated submission contains the same value. Excludes `runAt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 315576000000u64))]
    pub delay_ms: Option<u64>,
    /// Failed with category TIMEOUT when not ended by then. Excludes `deadlineMs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    /// The deadline as time since the coordinator accepted the run. Excludes `deadline`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 315576000000u64))]
    pub deadline_ms: Option<u64>,
    /// How long the run may wait for its first worker, counted from when it may start. If none has taken it by then, it fails with
    /// the reason TTL_EXPIRED. A run that has been taken is not touched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 315576000000u64))]
    pub ttl_ms: Option<u64>,
    /// Makes the jitter of retries reproducible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(maximum = 9007199254740991u64))]
    pub seed: Option<u64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object")]
    pub retry: Option<Retry>,
    /// What the run and its descendants may use; no limit when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object")]
    pub budget: Option<Budget>,
    /// Limits how many runs with the same key are active at once or start in a while; no limit when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object")]
    pub flow: Option<Flow>,
    /// W3C trace context, continued by the worker; the call may have it as a header instead. Ignored
    /// when it is not valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// Only inside a batch; a single run names its key in the `Idempotency-Key` header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 255))]
    pub idempotency_key: Option<String>,
}

/// When an attempt counts as stalled, and what then follows. Progress is the start of the attempt, a heartbeat whose
/// progress differs from the last one, and whatever a durable run records. A heartbeat that repeats itself is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Stall {
    /// How long an attempt may go without progress: at least twice `heartbeatIntervalMs`, since heartbeats carry it. The
    /// interval is at most a third of it when `heartbeatIntervalMs` is absent.
    #[cfg_attr(feature = "openapi", schema(minimum = 2000, maximum = 2592000000_u64))]
    pub after_ms: u64,
    /// `warn` when absent.
    #[serde(default)]
    pub action: StallAction,
}

/// What follows when an attempt has stalled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum StallAction {
    /// The stall is an event in the run's history, and nothing else changes.
    #[default]
    Warn,
    /// The run is cancelled: the worker is told, has its grace period, and the run ends with the reason STALLED.
    Cancel,
    /// The worker loses its lease, and the run is offered again. Counts like a lost worker.
    Requeue,
}

impl StallAction {
    pub const ALL: [StallAction; 3] =
        [StallAction::Warn, StallAction::Cancel, StallAction::Requeue];

    pub const fn name(self) -> &'static str {
        match self {
            StallAction::Warn => "warn",
            StallAction::Cancel => "cancel",
            StallAction::Requeue => "requeue",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.name() == name)
    }
}

/// What an attempt needs. Passed to the worker; of these the coordinator enforces only `timeoutMs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resources {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_millicores: Option<u64>,
    /// How long one attempt may take. The coordinator ends the attempt after this time with category TIMEOUT, and
    /// a worker should stop its work by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub timeout_ms: Option<u64>,
}

/// How the wait between failed attempts grows: from `baseMs`, doubling, up to `capMs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Retry {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(maximum = 86400000))]
    pub base_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(maximum = 86400000))]
    pub cap_ms: Option<u64>,
}

impl Retry {
    /// Base and cap with their defaults. A default is adjusted to the member that was given, so
    /// that the cap is never below the base.
    pub fn base_and_cap_ms(&self) -> (u64, u64) {
        match (self.base_ms, self.cap_ms) {
            (Some(base), Some(cap)) => (base, cap),
            (Some(base), None) => (base, base.max(RETRY_CAP_MS_DEFAULT)),
            (None, Some(cap)) => (cap.min(RETRY_BASE_MS_DEFAULT), cap),
            (None, None) => (RETRY_BASE_MS_DEFAULT, RETRY_CAP_MS_DEFAULT),
        }
    }
}

/// `POST /v1/runs` with many runs; each is accepted or refused on its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubmitMany {
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 1000))]
    pub runs: Vec<SubmitRun>,
}

/// `POST /v1/runs/{runId}/cancel`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CancelRun {
    /// Passed to the worker as `cancelReason`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Revoke the lease at once instead of asking the worker to stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
}

/// `POST /v1/runs/{runId}/retry`: the run once more, from the beginning and with every setting that it had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetryRun {
    /// Do again what the run has recorded. Without it, a run with recorded steps or children is refused with `run_has_records`:
    /// continue it with `POST /v1/runs/{runId}/fork` instead.
    #[serde(default, skip_serializing_if = "is_false")]
    pub from_scratch: bool,
}

/// `POST /v1/runs/{runId}/fork`: a new run that starts from the recorded steps of one that has ended without success.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ForkRun {
    /// What the new run may use; what the old run used does not count. As much as the old run could when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object")]
    pub budget: Option<Budget>,
    /// The key of the first step that is executed again. When absent, everything is taken over, except that a run that failed
    /// repeats the step that failed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 128))]
    pub from_step: Option<String>,
}

/// `POST /v1/waits`: wait until at least one of these runs has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WaitForRuns {
    /// A repeated id counts once.
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 256))]
    pub run_ids: Vec<String>,
    /// How long to wait while none has ended; 0 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(maximum = 30000))]
    pub wait_ms: Option<u64>,
}

/// `POST /v1/leases`: a worker asks for work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LeaseRequest {
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub worker_id: String,
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 32))]
    pub queues: Vec<String>,
    /// Only these kinds; every kind when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 256))]
    pub kinds: Option<Vec<String>>,
    /// At most this many leases. Fewer where their inputs would be more than 4 MiB together: one is
    /// always granted, and the other tasks stay queued for the next poll. A worker that has no room
    /// asks for 0, and waits for signals about the tasks it holds.
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 256))]
    pub max: u32,
    /// How long to wait while there is nothing; 0 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(maximum = 30000))]
    pub wait_ms: Option<u64>,
    /// Repeating a poll with the same id returns the same leases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub poll_id: Option<String>,
    /// What the worker can do. Sent once; later polls send `announced` instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub announce: Option<Box<Announcement>>,
    /// The `id` of what the worker announced before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub announced: Option<String>,
}

/// What a worker can do. It describes, and filters nothing, except for runs that are pinned to a build (`builds`): what is
/// leased to the worker follows from `queues` and `kinds` of the poll.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Announcement {
    /// A name for exactly this announcement, such as a digest of it.
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub id: String,
    /// The build that the worker runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub build_id: Option<String>,
    /// Each kind once.
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 256))]
    pub kinds: Vec<AnnouncedKind>,
}

/// A kind of work, with what goes in and out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AnnouncedKind {
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub version: Option<String>,
    /// For a kind of durable runs, together with `buildId`: `pin` if a run that has recorded something may only be continued by
    /// workers of the build that recorded it, `any` if every build may. Both let the run remember its build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub builds: Option<Builds>,
    /// A JSON Schema of at most 16 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Object, required = false))]
    pub input_schema: Option<Json>,
    /// A JSON Schema of at most 16 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Object, required = false))]
    pub output_schema: Option<Json>,
}

/// `POST /v1/tasks/{taskId}/started`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Started {
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub attempt: u32,
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub worker_id: String,
    /// By the worker's clock: recorded, but not used for decisions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
}

/// `POST /v1/tasks/{taskId}/heartbeat`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Heartbeat {
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub attempt: u32,
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub worker_id: String,
    /// By the worker's clock: recorded, but not used for decisions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 100))]
    pub progress_pct: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What the attempt has used so far, its steps included.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object")]
    pub spend: Option<Spend>,
    /// Lines for people, oldest first. Kept with the attempt if the call is not refused; the oldest are dropped beyond 64 KiB.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<LogLine>,
}

/// `POST /v1/tasks/{taskId}/completed`: the end of an attempt, as reported by its worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Completed {
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub attempt: u32,
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub worker_id: String,
    pub outcome: Outcome,
    /// By the worker's clock: recorded, but not used for decisions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Time>,
    /// Only with outcome SUCCEEDED.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::Json, required = false))]
    pub output: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object")]
    pub error: Option<ReportedError>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object")]
    pub metrics: Option<Metrics>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled_during_phase: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::Json, required = false))]
    pub partial_progress: Option<Json>,
    /// W3C trace context of the work itself, which the attempt's span is linked with. Ignored when it
    /// is not valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// Steps that ride along: recorded before the report, or not at all if it is refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(max_items = 100))]
    pub steps: Vec<StepRecord>,
    /// Children that ride along. Those that are not detached are cancelled by the end of their parent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(max_items = 500))]
    pub children: Vec<ChildRun>,
    /// What the attempt has used in all, its steps included.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object")]
    pub spend: Option<Spend>,
    /// What is sent to endpoints because of these steps: once for each step that is recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(max_items = 100))]
    pub effects: Vec<DeclaredEffect>,
    /// Asks for the next stage of the task, leased in the same decision. A wish: the answer has `next` if it is granted.
    /// Steps, children and effects may ride along.
    #[serde(default, skip_serializing_if = "is_false")]
    pub next: bool,
    /// Lines for people, oldest first. Kept with the attempt if the call is not refused; the oldest are dropped beyond 64 KiB.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<LogLine>,
}

/// Why an attempt failed. The text is repaired where needed and never a reason to refuse the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReportedError {
    pub category: ErrorCategory,
    #[serde(default)]
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack_trace: Option<String>,
    /// The worker's opinion; the category's default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
}

/// What an attempt used, as measured by its worker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Metrics {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_time_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io_read_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io_write_bytes: Option<u64>,
}

/// `POST /v1/reports`: many reports at once, one verdict each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reports {
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 1000))]
    pub reports: Vec<Report>,
}

/// One report of a batch: [`Completed`] with the task and token a single call has in path and header.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Report {
    pub task_id: String,
    pub task_token: String,
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub attempt: u32,
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub worker_id: String,
    pub outcome: Outcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::Json, required = false))]
    pub output: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object")]
    pub error: Option<ReportedError>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object")]
    pub metrics: Option<Metrics>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled_during_phase: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::Json, required = false))]
    pub partial_progress: Option<Json>,
    /// W3C trace context of the work itself, which the attempt's span is linked with. Ignored when it
    /// is not valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// Steps that ride along: recorded before the report, or not at all if it is refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(max_items = 100))]
    pub steps: Vec<StepRecord>,
    /// Children that ride along. Those that are not detached are cancelled by the end of their parent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(max_items = 500))]
    pub children: Vec<ChildRun>,
    /// What the attempt has used in all, its steps included.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object")]
    pub spend: Option<Spend>,
    /// What is sent to endpoints because of these steps: once for each step that is recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(max_items = 100))]
    pub effects: Vec<DeclaredEffect>,
    /// Asks for the next stage of the task, leased in the same decision. A wish: the answer has `next` if it is granted.
    /// Steps, children and effects may ride along.
    #[serde(default, skip_serializing_if = "is_false")]
    pub next: bool,
    /// Lines for people, oldest first. Kept with the attempt if the call is not refused; the oldest are dropped beyond 64 KiB.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<LogLine>,
}

fn is_false(wish: &bool) -> bool {
    !*wish
}

/// `POST /v1/heartbeats`: many heartbeats at once, one answer each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Heartbeats {
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 1000))]
    pub heartbeats: Vec<HeartbeatItem>,
}

/// One heartbeat of a batch: [`Heartbeat`] with the task and token a single call has in path and header.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeartbeatItem {
    pub task_id: String,
    pub task_token: String,
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub attempt: u32,
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub worker_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 100))]
    pub progress_pct: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What the attempt has used so far, its steps included.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object")]
    pub spend: Option<Spend>,
    /// Lines for people, oldest first. Kept with the attempt if the call is not refused; the oldest are dropped beyond 64 KiB.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<LogLine>,
}

/// Accepts a nested struct only as an object: derived serde would also accept its members as an
/// array, in an order that we never promised.
pub(crate) fn object<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    deserializer.deserialize_option(ObjectOrNull(PhantomData))
}

struct ObjectOrNull<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> de::Visitor<'de> for ObjectOrNull<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_none<E: de::Error>(self) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<T>, D::Error> {
        deserializer.deserialize_map(self)
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Option<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Some)
    }
}
