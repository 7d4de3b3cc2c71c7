//! Plans: what a run does, declared when it is submitted instead of coded in a durable function.
//!
//! A plan has one of two forms. **Stages**: one task passes through kinds and queues in turn, with one id and one claim.
//! **Steps**: the root is never leased, each step is a child task, and a step is blocked until its upstreams have ended.
//! This module has the shapes; [`crate::decide`] has the rules. The language of plans, references between steps
//! and the order of steps belong to the wire: the rules get a plan that was checked, and see digests of inputs only.
//!
//! A decision stays about one task. The root of a plan with steps counts, for each step, the upstreams that have not
//! ended; it tells a step once, when the last of them has, to run or to be skipped. A step that is skipped ends
//! like any other, which the root hears like any other end: so a failure skips transitively, in slices, without recursion and
//! without a view of the whole graph.
//!
//! What a store loads besides the table in [`crate::run`] ([`PlanNeed::of`] says it as a value, [`PlanRecords`] is the reference):
//!
//! | request, about the root of a plan with steps | loaded |
//! |---|---|
//! | message: child ended | the row of that step, and the first slice of its downstreams |
//! | sweep, with steps to spawn | the rows of the next slice of steps, in the order of the plan |
//! | sweep, with downstreams to tell | the rows of their next slice |
//! | every other request, every step and every task with stages | nothing |
//!
//! What rows follow from: the steps of a plan are a payload of the submission, stored with it and identified by the plan's
//! digest; [`PlanEvent`]s change `missing` and `blame` of their rows and say which of them were spawned. Stages are part of the
//! task's own state, never change, and may be stored once.
//!
//! A step may ask people instead of a worker: see `asking`. One that depends on what earlier steps returned, by a condition or by a
//! content that people are asked about, is prepared before it begins: see [`preparing`].
//!
//! The output of a plan is the map of step key to output (S2-84). It is composed when it is read, from the checkpoints of stages
//! or the ends of children, so no end of a run copies what its steps returned.
//!
//! Invariants:
//! - a task without a plan has no [`PlanState`] and pays one comparison per decision;
//! - each step of a plan is spawned once, told at most once, and ends once;
//! - a step is skipped exactly if its condition does not hold, or an upstream did not succeed and neither `continue` nor `always` lets
//!   it run; only the second keeps its downstreams from running;
//! - what a plan is cannot change after its submission.

pub(crate) mod asking;
pub mod event;
pub(crate) mod fold;
pub mod limits;
pub mod loaded;
pub mod message;
pub mod preparing;
pub mod records;
pub mod request;
pub mod stage;
pub mod state;
pub mod step;

pub use event::{PlanEvent, SpawnedStep, Told, ToldTo, Turn};
pub use loaded::{PlanLoaded, PlanNeed, StepRow};
pub use message::PlanMessage;
pub use preparing::{Found, Prepared, Shown};
pub use records::PlanRecords;
pub use request::{Advance, NextLease, PlanAnswer, PlanForm, PlanRefusal, PlanRequest, PlanSubmit};
pub use stage::{Capabilities, Stage};
pub use state::{Backlog, EndedStep, Ending, PlanState, RootState, StagesState};
pub use step::{Blame, PlanStep, StepTerms};
