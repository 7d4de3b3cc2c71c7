//! Worlds of one schedule: coordinators load it, decide about its instants and commit, and die anywhere in between.
//!
//! [`verdict::schedule`] decides every round. What a store adds is stated here in two lines: a commit is whole, and it is refused
//! if the schedule has changed since it was loaded or if another run has the key of an instant. The judge counts instants
//! by itself: with an interval they are every so many units of time from the beginning.
//!
//! A coordinator that dies is one whose commit never comes, so killing one is part of every exploration. A commit whose
//! answer is lost is one that is made, and carried again.

mod space;
mod world;

pub use space::{explore, find};
pub use world::{
    Commits, FiringBounds, FiringProperty, FiringWorld, GOALS, Guarded, all, cancelling,
    catching_up, paused, queueing, skipping,
};
