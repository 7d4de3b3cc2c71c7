//! Worlds of plans with edges: a failure skips what depends on it, transitively and in slices, and the run ends as its steps say.
//!
//! As in the other worlds, `verdict::decide` decides. Reports arrive under any lease that was granted, and again; messages between
//! the root and its steps are decided late, in any order and repeatedly; the root tells its steps in slices of one, so every plan
//! here is larger than one decision. Time stands still: leases, retries and deadlines have worlds of their own.

mod action;
mod space;
mod step;
mod world;

pub use space::{explore, find};
pub use world::{GOALS, PlanBounds, PlanProperty, PlanWorld, all, chain, diamond};
