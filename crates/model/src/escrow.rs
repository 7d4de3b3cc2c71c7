//! Worlds of budgets: a run that may use so much, children with ceilings, lost workers, soft limits, halts and continuations.
//!
//! As in the other worlds, `verdict::decide` decides and nothing here restates a rule. Any call that a worker could make
//! arrives at any time, under any lease that was ever granted, and again; totals of spend come late, twice and out of order;
//! messages between tasks are decided late, in any order and repeatedly. The [`ledger`] keeps books of its own from what callers were
//! told was accepted, and compares them with the balance of every task after every decision.
//!
//! Only tokens are limited here: every unit passes through the same arithmetic, and the clocks of a budget are no escrow.

mod action;
mod bounds;
mod goals;
mod ledger;
mod property;
mod space;
mod step;
mod world;

pub use action::EscrowCall;
pub use bounds::{EscrowBounds, all, asked, continued, exhausted, shared};
pub use property::{EscrowProperty, GOALS};
pub use space::{explore, find};
pub use world::EscrowWorld;
