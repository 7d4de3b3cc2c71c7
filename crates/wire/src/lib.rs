//! The requests to a coordinator and its answers, over HTTP, as JSON.
//!
//! One named struct per public shape, members in camelCase. Nothing here decides anything: a
//! request that [`parse`] accepts is well formed, not granted. The crate depends on no other crate
//! of the workspace (except `faultpoint` in test builds), so that a client links the shapes without the rules or the
//! store.
//!
//! Invariants:
//! - Requests refuse unknown members and name them; answers may gain members, and clients ignore
//!   unknown ones.
//! - `verdict` is the coordinator's answer, `outcome` the worker's report, `state` the task's
//!   condition.
//! - Answers are `#[non_exhaustive]` for clients. A server turns the feature `answering` on, to build them.
//! - Every instant is a [`Time`]; opaque JSON ([`Json`]) keeps its bytes.

pub mod admin;
pub mod answers;
pub mod approvals;
pub mod canonical;
mod check;
mod code;
pub mod effects;
#[cfg(not(feature = "museum"))]
mod faultpoint;
mod json;
pub mod limits;
pub mod names;
#[cfg(feature = "openapi")]
mod openapi;
#[cfg(feature = "answering")]
mod pages;
mod parse;
pub mod pausing;
pub mod plan;
pub mod recovery;
pub mod requests;
pub mod schedules;
pub mod scope_budgets;
mod time;
pub mod topologies;
mod trace_context;
mod words;

pub use check::{Check, FieldError, check_name, idempotency_key};
pub use code::{Code, UnknownCode};
pub use json::Json;
#[cfg(feature = "openapi")]
pub use openapi::openapi_json;
pub use parse::{BatchItem, Body, Submit, parse, parse_batch, parse_submit};
pub use time::{Time, TimeError};
pub use trace_context::TraceContext;
pub use words::{
    ApprovalDecision, ApprovalOutcome, ApprovalState, AttemptOutcome, BudgetPeriod, BudgetState,
    Builds, CandidateState, CatchUp, CheckpointKind, CheckpointOutcome, DeploymentState,
    EffectState, EndpointState, ErrorCategory, LogLevel, OnDead, OnError, Outcome, Overlap,
    PauseStateState, RecoveryAction, RecoveryEvaluator, Role, ScheduleState, State, StepOutcome,
    UnknownWord, Verdict, WaitMode, WorkOrderState,
};
