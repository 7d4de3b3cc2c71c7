//! Runs a topology in virtual time: a script creates artifacts and plays people and executors, roles poll as they would
//! in a deployment, and the code that decides is that of [`crate::roles`] and [`crate::gate`].
//!
//! Nothing waits and nothing is random: the same topology and script give the same report. Role processes claim with a
//! lease, may die while they hold one, and poll at intervals that the script chooses.

mod ending;
mod polls;
pub mod script;
mod steps;
mod world;

pub use ending::{Entry, InboxItem, Report, Unmet};
pub use script::Script;

use crate::check::Topology;

/// Runs a script to its end: until nothing can happen any more, or until the time the script gives.
#[must_use]
pub fn run(topology: &Topology, script: &Script) -> Report {
    let mut world = world::World::new(topology, script);
    world.run();
    world.report()
}
