//! Roles of a topology in a process of your own.
//!
//! The server leaves the turns of a role with `outside: true` to whoever asks for them. A [`RoleProcess`] takes them, and gives
//! each to the function that was added for the role. The function decides and never writes: the server checks the decision,
//! makes the changes that follow from it, and commits them with the end of the turn, or nothing.
//!
//! ```no_run
//! use tenure::roles::{GateDecision, OrderTurn, RoleProcess};
//! use tenure::{Error, Failure};
//!
//! #[derive(serde::Deserialize)]
//! struct Patch { content: String }
//!
//! async fn judge(turn: OrderTurn) -> Result<GateDecision, Failure> {
//!     if let Some(refusal) = turn.refusal {
//!         return Ok(GateDecision::fail("declared-checks", refusal));
//!     }
//!     Ok(match turn.output::<Patch>() {
//!         Ok(patch) if patch.content.is_empty() => GateDecision::fail("content", "it is empty"),
//!         Ok(_) => GateDecision::pass(),
//!         Err(why) => GateDecision::fail("shape", why.message),
//!     })
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Error> {
//!     RoleProcess::from_env("execution")?.gate("gate", judge).run().await
//! }
//! ```
//!
//! Invariants: a turn that is lost is decided by nobody here; a decision is sent for the turn that it was made for, at the
//! revisions that it was told; a turn that is not decided is given back with the reason.

mod decider;
mod decision;
mod event;
mod process;
mod told;
mod turns;

pub use self::decision::{ArtifactDecision, EndReason, GateDecision, SchedulerDecision};
pub use self::event::RoleEvent;
pub use self::process::RoleProcess;
pub use self::told::{
    Answer, AnswerStatus, Artifact, ArtifactRef, ArtifactTurn, Asked, Event, EventTurn,
    ExecutionStatus, OrderTurn, OutputBundle, Version, WorkOrder,
};
