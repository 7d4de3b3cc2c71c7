//! Roles that claim nothing: readiness, reviews and deadline monitors, asked about one artifact.
//!
//! Whoever changes an artifact asks them at once; whoever polls asks them again. Both get the same answer for the same
//! artifact, so it does not matter who is first.

use super::{deadlines, readiness, review};
use crate::check::Topology;
use crate::declaration::Logic;
use crate::deployment::Artifact;
use crate::proposal::Change;

/// What the first role proposes that has something to propose, with its name.
#[must_use]
pub fn next<'t>(
    topology: &'t Topology,
    artifact: &Artifact,
    now: u64,
) -> Option<(&'t str, Vec<Change>)> {
    topology.declaration().roles.iter().find_map(|(name, role)| {
        let proposed = match role.uses {
            Logic::Readiness => readiness::propose(topology, name, artifact, now),
            Logic::Review => review::propose(topology, name, artifact),
            _ => Vec::new(),
        };
        (!proposed.is_empty()).then_some((name.as_str(), proposed))
    })
}

/// The next deadline of the artifact after `since`, with the role that watches it.
#[must_use]
pub fn next_deadline<'t>(
    topology: &'t Topology,
    artifact: &Artifact,
    since: u64,
) -> Option<(u64, &'t str)> {
    let deadline = |(name, role)| Some((deadlines::deadline(topology, role, artifact)?, name));
    let all = topology.roles_using(Logic::DeadlineMonitor).filter_map(deadline);
    all.filter(|(at, _)| *at > since).min()
}
