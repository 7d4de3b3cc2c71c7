//! Worlds of durable runs: a parent, its children, signals, waits, cancels and the messages between them.
//!
//! As in the plain worlds, `verdict::decide` decides and nothing here restates a rule. The worker of the parent follows
//! no script: any call that its function could make arrives at any time, under any lease that was ever granted, and
//! again. Messages between tasks are decided late, in any order, and more than once, which is more than any store may do.
//! A worker that crashes makes no more calls, and a coordinator that crashes leaves its messages saved: both are part of
//! every exploration, because a call or message that can always arrive need never arrive.
//!
//! Time is bounded instead of shifted: a world ends after a few units of time, so that every instant of a wait, a lease
//! and a grace is visited.

mod action;
mod bounds;
mod judge;
mod normalise;
mod property;
mod space;
mod step;
mod world;

pub(crate) use normalise::{normalise_closed, normalise_messages, normalise_subject, stripped};
pub(crate) use world::{Issued, RunRow};

pub use bounds::{RunBounds, all, cancelled, fan_in, first_wins};
pub use property::{GOALS, RunProperty};
pub use space::{explore, find};
pub use world::RunWorld;
