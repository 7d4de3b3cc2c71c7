//! Deployments of topologies: declared roles over artifacts, run by the coordinator.
//!
//! ```text
//!   artifact changes ─► readiness, reviews ─► event, in the same commit          carry/topologies
//!   event leased ─► scheduler ─► work order, statuses, end of the event          roles, carry/topologies
//!   work order executed by workers ─► gate leased ─► run record, statuses        roles, carry/topologies
//!   deadline due ─► pause state                                                  carry/topologies
//! ```
//!
//! What a role proposes, and whether a change is allowed, is decided by the crate `topology`, by the same functions that
//! `tenure topology simulate` runs. Here is what surrounds them: rows ([`rows`]), the tasks of events and work orders
//! ([`submissions`]), which deployments there are ([`directory`]), and the roles that lease ([`roles`]).

#[cfg(feature = "http")]
mod checking;
mod directory;
#[cfg(feature = "http")]
pub(crate) mod roles;
pub(crate) mod rows;
pub(crate) mod submissions;

pub(crate) use self::directory::{TopologyDirectory, Versions};
