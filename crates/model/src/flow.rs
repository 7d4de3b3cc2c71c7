//! Worlds of one flow key: a few tasks in a few lines want its slots, and leases end in every way that they can end.
//!
//! `verdict::decide` decides every grant with what [`verdict::flow::Slots`] says of the key, as a store with one writer does, and
//! the ready order is nothing but the moves that `Slots` returned. The judge asks neither of them: it counts leases in the
//! tasks. A poll may also try a task that is not offered, because between coordinators a mark on a row decides nothing.
//!
//! What keeps `Slots` true is the seam [`SlotIndex`], so that a planted bug there must be found too.

mod space;
mod step;
mod world;

pub use space::{explore, find};
pub use step::{Following, Placed, SlotIndex};
pub use world::{
    FlowBounds, FlowProperty, FlowWorld, GOALS, Indexed, Line, all, one_slot, one_slot_for_life,
    one_start_at_a_time, two_limits, two_slots, two_slots_for_life, two_starts_and_one_slot,
};
