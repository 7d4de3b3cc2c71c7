//! Durable runs: tasks that record checkpoints, wait, take signals and have children.
//!
//! A worker of a durable run calls with what it has done (steps), what it wants (children) and what it waits for, and all
//! of it is recorded in one decision, under its lease. This module has the shapes; [`crate::decide`] has the rules. It
//! knows no step order and no branches: those belong to the function that the worker runs.
//!
//! A decision is about one task, and a task in memory stays small: [`RunState`] counts what the task has, and what a
//! request names is loaded with it ([`Loaded`]). What must happen to another task is a [`Message`], which follows from
//! the events of the sender's decision. A plain task has no [`RunState`] and pays for none of this.
//!
//! What a store loads for each request ([`Loaded`]; [`Records`] is the reference that tests and the model use):
//!
//! | request | checkpoints and children under these keys | pending signals | other |
//! |---|---|---|---|
//! | checkpoint | of each step and child, the wait and the children it awaits | if the call waits | the closed attempt of the lease; the quota, if a child is detached |
//! | signal | | all | the signal already recorded under the same idempotency key |
//! | message: child ended | of that child | if the task waits | |
//! | message: signal | | all | the signal already recorded under the message's key |
//! | message: spawn, cancel | | | |
//! | inherit | | | |
//! | sweep | | if the task waits | the next slice of live children, if the task is closing |
//! | resume, and every plain request | | | as for a plain task |
//!
//! Invariants:
//! - a key of a task names one thing for the life of the task: a step, a child or a wait;
//! - a checkpoint never changes, and each key has at most one (E3);
//! - the end of a child, a signal and a message each count once, however often and in whatever order they arrive;
//! - a task with live children is never done: its end waits until the last of them has ended.

pub mod answer;
pub mod checkpoint;
pub mod event;
pub(crate) mod fold;
pub mod inherit;
pub mod items;
pub mod limits;
pub mod lineage;
pub mod loaded;
pub mod message;
pub mod named;
pub mod records;
pub mod request;
pub mod signal;
pub mod state;
pub mod wait;
pub mod waiting;

pub use answer::{Checkpointed, RunAnswer, RunRefusal};
pub use checkpoint::{Checkpoint, ChildEnd, Recorded, Spend, Step, StepOutcome};
pub use event::RunEvent;
pub use inherit::{Inherit, Inherited};
pub use items::Items;
pub use lineage::Lineage;
pub use loaded::{Child, ChildRef, Loaded};
pub use message::{Body, Message, MessageNumber};
pub use named::{Named, SignalNeed};
pub use records::Records;
pub use request::{CheckpointCall, ChildCall, Metered, RunRequest, StepCall, Then, WaitCall};
pub use signal::{Signal, SignalCall, SignalCounts};
pub use state::RunState;
pub use wait::{Awaited, AwaitedEvent, Taken, Wait, WaitMode, WaitRecord};
pub use waiting::{Closing, Divergence, Slice, Waiting};
