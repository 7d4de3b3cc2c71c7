//! Explores every state that small worlds can reach, with the production rules.
//!
//! A world has a few tasks, a few workers, a network, a clock and a coordinator that may die. The explorer tries
//! every possible next action; `verdict::decide` itself decides the result, through the seam [`Rules`], so this crate
//! does not restate the rules. An independent [`ledger`] reports what each decision breaks, and [`coverage`] records
//! which situations the exploration has reached, so that a world in which nothing happens cannot pass.
//!
//! The store, the carrier and HTTP are not part of this; the simulator runs those.

pub mod action;
pub mod coverage;
pub mod debounce;
pub mod escrow;
pub mod explore;
pub mod firing;
pub mod flow;
pub mod ledger;
pub mod network;
pub mod normalise;
pub mod plans;
pub mod property;
pub mod runs;
pub mod worlds;

mod space;
mod step;
mod world;

pub use explore::{Outcome, Violation, explore, find};
pub use property::Property;
pub use space::{Production, Rules, Space};
pub use world::{Row, World};
pub use worlds::{Bounds, Extent};
