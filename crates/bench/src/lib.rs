//! How fast Tenure is on this machine, compared with its engine and its transport alone.
//!
//! The benchmark counts whole lifecycles: submitted, leased, completed, each step acknowledged
//! after it was synced to disk. The load is a closed loop: a fixed number of lifecycles is in
//! flight, and each one that ends starts the next. Measurements that are compared run alternately,
//! each on a new, empty store, because a shared machine is never the same for two minutes.
//!
//! Nothing is asserted here: numbers are reported, and people judge them.

mod backlog;
mod compare;
mod database;
mod effects;
mod embedded;
mod error;
mod fanout;
mod goal;
mod http;
mod idle_polls;
mod large_store;
mod latency;
mod limited;
mod load;
mod load_client;
mod measurement;
mod old_snapshot;
mod orders;
mod parallel;
mod plan;
#[cfg(test)]
mod planned_once;
mod process;
mod remote;
mod resource_usage;
mod savepoints;
mod sdk;
mod server;
mod shape;
mod sleepers;
mod staged;
mod store_factory;
mod tails;
mod transport;

pub use compare::{Comparison, Ratio, compare};
pub use error::BenchError;
pub use goal::{Goal, Side, Unit, goals};
pub use measurement::{Measurement, Mode};
pub use plan::{Extent, Options, Target, run};
pub use shape::Shape;
