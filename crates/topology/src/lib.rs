//! Topologies: declared sets of roles over artifacts.
//!
//! A topology is a file that says which artifacts exist, which statuses they pass through and who may move them, which
//! events that makes, which roles turn events into work orders, and which gates judge the output. This crate reads such
//! a file ([`read()`]), checks it ([`Topology`]), compares two versions ([`diff`]), and holds the logic of the roles
//! ([`roles`]): what a role read goes in, the changes it proposes come out.
//!
//! It is pure: no I/O, no clock, no randomness. Times are milliseconds that the caller passes in. It knows no name of
//! any topology: every artifact type, status, event, track and kind comes from the file.
//!
//! [`simulate`] runs the same role code in virtual time over a deployment in memory; a server runs it over stored rows, and a
//! process outside of the server over what it was told ([`outside`]).

pub mod check;
pub mod claim;
pub mod declaration;
pub mod deployment;
pub mod diff;
pub mod digest;
pub mod fields;
pub mod gate;
pub mod outside;
pub mod plan;
pub mod predicate;
pub mod problem;
pub mod proposal;
pub mod query;
pub mod reading;
pub mod roles;
pub mod simulate;
pub mod span;
pub mod value_schema;
pub mod work;

mod places;
#[cfg(test)]
mod published;
mod schema;

pub use check::Topology;
pub use problem::Problem;
pub use reading::{read, read_stored};

/// The published JSON Schema of a topology file.
pub const SCHEMA: &str = include_str!("../../../protocol/topology.schema.json");
