//! Test tools for stores: what every engine must do, and what a test needs to try it.
//!
//! [`conformance`] is the suite that all engines pass. [`memory`] is the reference engine that they are compared with
//! and that simulations run on; it is written against the public face of `store`, as any engine outside of that crate
//! would be. [`ManualClock`] moves by hand; [`unsynced`] opens a file without waiting for the disk; [`Database`] is a
//! PostgreSQL database that lives as long as its test.
//!
//! Nothing here runs in production: only dev-dependencies and crates that are tests themselves name this one.

pub mod conformance;
mod database;
mod manual_clock;
pub mod memory;
mod mixed_rules;
mod unsynced;

pub use database::Database;
pub use manual_clock::ManualClock;
pub use memory::{MemoryStore, Writers};
pub use mixed_rules::{MixedRules, OLDER};
pub use unsynced::unsynced;
