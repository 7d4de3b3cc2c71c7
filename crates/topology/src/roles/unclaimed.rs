//! Roles that claim nothing: readiness, reviews and deadline monitors, asked about one artifact.
//!
//! Whoever changes an artifact asks them at once; whoever polls asks them again. Both get the same answer for the same
//! artifact, so it does not matter who is first.

use super::{deadlines, readiness, review};
use crate::check::Topology;
use crate::declaration::{Logic, Role};
use crate::deployment::Artifact;
use crate::proposal::Change;
use crate::work::{REVIEW_STEPS_MAX, Work};

/// What the first role proposes that has something to propose, with its name: also one whose turns an outside process takes.
#[must_use]
pub fn next<'t>(
    topology: &'t Topology,
    artifact: &Artifact,
    now: u64,
) -> Option<(&'t str, Vec<Change>)> {
    first(topology, artifact, now, |_| true)
}

/// The same among roles that no outside process has.
#[must_use]
pub fn next_inside<'t>(
    topology: &'t Topology,
    artifact: &Artifact,
    now: u64,
) -> Option<(&'t str, Vec<Change>)> {
    first(topology, artifact, now, |role| !role.outside)
}

fn first<'t>(
    topology: &'t Topology,
    artifact: &Artifact,
    now: u64,
    is_asked: impl Fn(&Role) -> bool,
) -> Option<(&'t str, Vec<Change>)> {
    let roles = topology.declaration().roles.iter().filter(|(_, role)| is_asked(role));
    let mut work = Work::new(REVIEW_STEPS_MAX);
    roles.into_iter().find_map(|(name, _)| {
        let proposed = proposed(topology, name, artifact, now, &mut work);
        (!proposed.is_empty()).then_some((name.as_str(), proposed))
    })
}

/// What one role proposes.
#[must_use]
pub fn of_role(topology: &Topology, role: &str, artifact: &Artifact, now: u64) -> Vec<Change> {
    proposed(topology, role, artifact, now, &mut Work::new(REVIEW_STEPS_MAX))
}

fn proposed(
    topology: &Topology,
    role: &str,
    artifact: &Artifact,
    now: u64,
    work: &mut Work,
) -> Vec<Change> {
    match topology.role(role).map(|declared| declared.uses) {
        Some(Logic::Readiness) => readiness::propose(topology, role, artifact, now),
        Some(Logic::Review) => review::propose_within(topology, role, artifact, work),
        _ => Vec::new(),
    }
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
