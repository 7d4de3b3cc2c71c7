//! Test tools for stores: the conformance suite, and what tests need to run it.
//!
//! [`conformance`] is the suite that all engines pass. [`memory`] is the reference engine: other engines are compared
//! with it, and simulations run on it. It uses only the public interface of `store`, as an engine outside of that crate
//! would. [`ManualClock`] moves only when a test sets it; [`unsynced`] opens a file without waiting for the disk;
//! [`Database`] is a PostgreSQL database that exists as long as its test.
//!
//! Nothing here runs in production: only dev-dependencies and crates that are tests themselves use this crate.

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
