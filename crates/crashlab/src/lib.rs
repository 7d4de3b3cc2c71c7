//! Kills, stops and starves real servers under load, and judges what they leave.
//!
//! A [`TestCluster`](test_cluster::TestCluster) is a folder with a store; servers start there, die in every way a server can, and come
//! back. A [`CrashScenario`](crash_scenario::CrashScenario) is a cluster under the load of clients and workers that write down everything
//! they ask and are told. An experiment breaks a storm and lets it settle; then `tenure verify` judges the store,
//! and `historyck` the history. The tests of `tenure` run the same experiments on the binary that people use;
//! what needs a test build, because the server must die at a named place, is run by the program `crashlab`.
//!
//! Every wait has an end, and says what it waited for.
#![expect(clippy::print_stdout, reason = "experiments tell on stdout what they did")]

mod cluster;
pub mod crash_scenario;
mod fleet;
mod judge;
pub mod load;
mod recording_client;
mod rng;
pub mod scenarios;
pub mod single_database;
pub mod small_disk;
pub mod test_cluster;
pub mod waits;
mod zero_error_probe;

/// Why an experiment failed.
pub use anyhow::Error;
pub use scenarios::{LabOptions, Tally};
