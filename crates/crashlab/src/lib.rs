//! Kills, stops and starves real servers under load, and judges what they leave.
//!
//! A [`Site`](site::Site) is a place with a store; servers start there, die in every way a server can, and come
//! back. A [`Storm`](storm::Storm) is a site under the load of clients and workers that write down everything
//! they ask and are told. An experiment breaks a storm and lets it settle; then `tenure verify` judges the store,
//! and `historyck` the history. The tests of `tenure` run the same experiments on the binary that people use;
//! what needs a test build, because the server must die at a named place, is run by the program `crashlab`.
//!
//! Every wait has an end, and says what it waited for.
#![expect(clippy::print_stdout, reason = "experiments tell on stdout what they did")]

mod chance;
mod cluster;
mod fleet;
pub mod ground;
mod judge;
pub mod load;
pub mod lone;
mod recorded;
pub mod scenarios;
pub mod site;
pub mod storm;
mod unworried;
pub mod waits;

/// Why an experiment failed.
pub use anyhow::Error;
pub use scenarios::{Tally, Wishes};
