//! Every state that small worlds can reach, with the rules that run in production.
//!
//! A world is a few tasks, a few workers, a network, a clock and a coordinator that may die. What
//! happens next is chosen in every possible way; what it means is decided by `verdict::decide`
//! itself, through the seam [`Rules`], so nothing here is a model of the rules. An independent
//! [`ledger`] says what each decision breaks, and [`coverage`] says what the exploration has met, so
//! that a world in which nothing happens cannot pass.
//!
//! What is not here: the store, the carrier, HTTP. The simulator runs those.

pub mod action;
pub mod coverage;
pub mod explore;
pub mod ledger;
pub mod network;
pub mod normalise;
pub mod property;
pub mod worlds;

mod space;
mod step;
mod world;

pub use explore::{Outcome, Violation, explore, find};
pub use property::Property;
pub use space::{Production, Rules, Space};
pub use world::{Row, World};
pub use worlds::{Bounds, Extent};
