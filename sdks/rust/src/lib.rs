//! Rust client and worker for Tenure.
//!
//! [`Client`] submits runs and returns handles for them. It repeats a call only when nothing was
//! decided: no answer at all, 429 or 503. A verdict is never a reason to repeat. [`Worker`] fetches
//! work and runs handlers under their leases; [`testing`] runs a handler without either.
//!
//! ```no_run
//! use tenure::Kind;
//!
//! const HELLO: Kind<String, String> = Kind::new("hello");
//!
//! # async fn example() -> Result<(), tenure::Error> {
//! let client = tenure::Client::from_env()?;
//! let greeting = client.submit(HELLO, "Ada").await?.result().await?;
//! # Ok(()) }
//! ```
//!
//! ```no_run
//! use tenure::{Ctx, Failure, Kind, Worker};
//!
//! const HELLO: Kind<String, String> = Kind::new("hello");
//!
//! async fn hello(_: Ctx, name: String) -> Result<String, Failure> {
//!     Ok(format!("Hello, {name}!"))
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), tenure::Error> {
//!     Worker::from_env()?.handle(HELLO, hello).run().await
//! }
//! ```
//!
//! [`Worker::durable`] adds durable functions: each step's result is recorded before the next one starts, and another
//! worker continues the run after a crash, a deploy or a week of waiting. [`testing::FlowTest`] runs one in memory,
//! with time skipped.
//!
//! # What a task may rely on
//!
//! - Heartbeats are sent from a separate thread: code that blocks its runtime keeps its lease.
//! - The lease is trusted for `ttl × 0.9 − 1 s` (leases up to 2.5 s: `ttl × 0.75`), counted from
//!   before the renewing request was sent. When that is over, or the coordinator answers that
//!   authority is lost, [`Ctx::cancelled`] completes, the future is dropped a moment later, and its
//!   result is discarded. Code that blocks cannot be dropped: it should check
//!   [`Ctx::is_cancelled`].
//! - [`Ctx::fence`] grows with every attempt. Writes to other systems are safe against an older
//!   attempt only if the receiver refuses a smaller fence than it has seen.
//! - A failure is reported once, with its category; the coordinator decides whether there is
//!   another attempt.

mod artifact;
mod budget;
mod client;
mod codec;
mod connections;
mod endpoint;
mod endpoints;
mod error;
#[cfg(not(feature = "museum"))]
mod faultpoint;
mod flow_key;
mod new_run;
mod payload;
mod plan;
pub mod push;
mod recovery_policy;
pub mod roles;
mod root_certificates;
mod run_failure;
mod run_handle;
pub mod testing;
mod transport;
pub mod webhooks;
mod when;
mod worker;
#[cfg(doctest)]
mod wrong_pairs;

pub use ::wire::answers::{
    BudgetLeft, BudgetView, CancelAccepted, Explanation, History, HistoryEntry, Record, Run,
    RunAccepted, RunError, RunList,
};
pub use ::wire::requests::StallAction;
pub use ::wire::{
    ApprovalState, BudgetPeriod, CandidateState, Code, EffectState, ErrorCategory, Json, LogLevel,
    Outcome, PauseStateState, Role, ScheduleState, State, Time, TraceContext, Verdict,
    WorkOrderState,
};
pub use artifact::{ArtifactMove, NewArtifact};
pub use budget::{Budget, Ceiling, OnSoft};
pub use client::{
    Approvals, Audit, Budgets, Client, DEFAULT_URL, Deployments, Effects, Keys, Kinds, Limits,
    OutsideRole, Queues, Recovery, Request, RunsRequest, Schedules, WebhookEndpoints, Workers,
};
pub use codec::Codec;
pub use endpoint::{Endpoint, OnDead};
pub use error::{Error, NoAnswer};
pub use flow_key::FlowKey;
pub use new_run::NewRun;
pub use payload::Unreadable;
pub use plan::{Plan, PlanStep};
pub use recovery_policy::{RecoveryAction, RecoveryEvaluator, RecoveryPolicy};
pub use run_failure::RunFailure;
pub use run_handle::{
    CancelMode, CancelRequest, ForkRequest, HistoryRequest, RetryRequest, RunHandle, SignalRequest,
};
pub use transport::Retries;
pub use when::{CatchUp, Overlap, When};
pub use worker::{
    Ctx, Metrics, StopReason, TaskKind, WithState, Worker, WorkerEvent, WorkerMetrics,
};
#[doc(hidden)]
pub use worker::{ProgramEnd, Recorder, RecorderEnd};
/// The engine of durable functions, for the programs of Tenure itself. What users need of it has a name here.
#[doc(hidden)]
pub use workflow;
pub use workflow::{
    Approval, ApprovalDecision, ApprovalOutcome, Builds, Delivery, DeliveryOutcome, Effect,
    Failure, Flow, Kind, OnError, Retry, RunKind, Spend, Step, Vote,
};

/// The shapes of the HTTP interface: answers, to name them in a signature, and requests, for [`Request::with`] and for programs
/// with a worker loop of their own.
pub mod wire {
    pub use ::wire::{
        ApprovalDecision, ApprovalOutcome, ApprovalState, AttemptOutcome, BudgetPeriod,
        BudgetState, Builds, CandidateState, CatchUp, CheckpointKind, CheckpointOutcome, Code,
        DeploymentState, EffectState, EndpointState, ErrorCategory, Json, LogLevel, OnDead,
        OnError, Outcome, Overlap, PauseStateState, RecoveryAction, RecoveryEvaluator, Role,
        ScheduleState, State, StepOutcome, Time, TimeError, TraceContext, UnknownCode, UnknownWord,
        Verdict, WaitMode, WorkOrderState, admin, answers, approvals, effects, pausing, plan,
        recovery, requests, schedules, scope_budgets, topologies,
    };
}

/// Compiles the examples of the documents that show this crate.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../../README.md")]
    struct Readme;

    #[doc = include_str!("../README.md")]
    struct OwnReadme;

    #[doc = include_str!("../../../docs/guide/rust.md")]
    struct Guide;

    #[doc = include_str!("../../../docs/guide/rust-testing.md")]
    struct TestingGuide;

    #[doc = include_str!("../../../docs/start/first-task.md")]
    struct FirstTask;

    #[doc = include_str!("../../../docs/start/durable-function.md")]
    struct FirstDurable;

    #[doc = include_str!("../../../docs/guide/durable.md")]
    struct DurableGuide;

    #[doc = include_str!("../../../docs/guide/determinism.md")]
    struct Determinism;

    #[doc = include_str!("../../../docs/guide/flow-control.md")]
    struct FlowControlGuide;

    #[doc = include_str!("../../../docs/guide/approvals.md")]
    struct ApprovalsGuide;

    #[doc = include_str!("../../../docs/guide/push.md")]
    struct PushGuide;

    #[doc = include_str!("../../../docs/guide/recovery.md")]
    struct RecoveryGuide;

    #[doc = include_str!("../../../docs/guide/topologies.md")]
    struct TopologiesGuide;

    #[doc = include_str!("../../../docs/guide/plans.md")]
    struct PlansGuide;

    #[doc = include_str!("../../../docs/guide/schedules.md")]
    struct SchedulesGuide;

    #[doc = include_str!("../../../docs/guide/logs.md")]
    struct LogsGuide;

    #[doc = include_str!("../../../docs/guide/webhooks.md")]
    struct WebhooksGuide;
}
