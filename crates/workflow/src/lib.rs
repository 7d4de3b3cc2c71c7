//! The engine of durable functions: recorded checkpoints in, commands out.
//!
//! A durable function is ordinary code that gets a [`Flow`] context. Each step's result is recorded before the next
//! step starts, and another attempt fast-forwards over what is recorded. A [`Run`] is one attempt: a driver polls it,
//! carries its [`Command`]s out and brings the coordinator's [`Answer`]s back.
//!
//! This crate does no I/O, reads no clock, draws no randomness and needs no runtime; [`testing`] drives functions in
//! memory. It does not know leases, retries of whole runs or HTTP: the SDK does.
//!
//! Invariants:
//! - The same start and the same answers give the same commands, byte for byte.
//! - A step starts only after everything that its branch did before it is recorded.
//! - If the code differs from the record, the run stops at the first difference, and nothing was executed.
//! - Memory is bounded by what is open and by what was recorded since the last savepoint.

mod alarm;
mod all;
mod any;
mod approval;
mod branch;
mod branch_state;
mod children;
mod command;
mod core;
mod digest;
mod effect;
mod failure;
mod flow;
mod history;
mod key;
mod kind;
mod operation;
#[doc(hidden)]
pub mod options;
mod outside;
mod recorded;
mod run;
mod shared;
mod step;
mod stop;
pub mod testing;
mod wait;

pub use all::{AllCall, Joins, Member, Members};
pub use any::AnyCall;
pub use approval::{Approval, ApprovalCall, Vote, decided_digest};
pub use branch::BranchCall;
pub use children::{CalledRun, ChildCall, ChildrenCall, MapKind};
pub use command::{
    Answer, Awaited, Call, Checkpoint, ChildRecord, Command, Mode, Outcome, Report, Spend, Start,
    State, StepRecord, Wait,
};
pub use digest::{Digest, DigestFn, NotADigest};
pub use effect::{Delivery, DeliveryCall, DeliveryOutcome, Effect, EffectCall};
pub use failure::Failure;
pub use flow::Flow;
pub use kind::{Kind, RunKind};
pub use recorded::checkpoints;
pub use run::{Body, Function, Run, function};
pub use step::{OnError, Retry, Step, StepCall};
pub use stop::{Difference, Divergence, LastOperation, Misuse, Seen, SourceLine, Stop};
pub use wait::{SignalCall, SleepCall, WaitCall, Waits};
#[doc(hidden)]
pub use wire;
pub use wire::{ApprovalDecision, ApprovalOutcome, Builds, Json, Time};
