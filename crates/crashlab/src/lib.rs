//! Kills, pauses and starves real servers under load, and judges the result.
//!
//! A [`TestCluster`](test_cluster::TestCluster) is a folder with a store; its servers start, die in every way a
//! server can, and restart. A [`CrashScenario`](crash_scenario::CrashScenario) is a cluster under the load of clients
//! and workers that record every call and every answer. An experiment injects faults into a scenario and lets it
//! settle; then `tenure verify` checks the store and `historyck` checks the history. The tests of `tenure` run the
//! same experiments on the ordinary binary. Experiments that need a test build, because the server must die at a named
//! fault point, are run by the program `crashlab`.
//!
//! Every wait has a timeout, and its error names what it waited for.
#![expect(clippy::print_stdout, reason = "experiments tell on stdout what they did")]

mod cluster;
pub mod crash_scenario;
mod fleet;
mod judge;
pub mod load;
mod receiver;
mod recording_client;
pub mod rng;
pub mod scenarios;
pub mod single_database;
pub mod small_disk;
pub mod test_cluster;
pub mod waits;
mod zero_error_probe;

/// Why an experiment failed.
pub use anyhow::Error;
pub use scenarios::{LabOptions, Tally};
