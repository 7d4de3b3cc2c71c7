//! Worlds of submissions that follow each other closely: coordinators look who waits with a flow key, decide and commit, and die in
//! between, while waits end and workers take what is ready.
//!
//! [`verdict::flow::debounce`] says what each submission does, and `verdict::decide` ends and grants the runs. What a store adds is
//! the seam [`Submissions`]: a key is locked by who submits with it, and so is the run that waits. The judge knows when each run
//! was submitted and which one it was replaced by, and reads no other rule than the two spans.

mod space;
mod world;

pub use space::{explore, find};
pub use world::{
    DebounceBounds, DebounceProperty, DebounceWorld, GOALS, Locked, Submissions, all, bursts,
    steady_stream,
};
