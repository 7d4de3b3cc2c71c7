//! Review: moves artifacts that fulfil a condition, where the topology declares a role instead of a person.

use serde_json::json;

use crate::check::Topology;
use crate::deployment::Artifact;
use crate::proposal::{ArtifactChange, Author, Change, may_move};
use crate::work::{REVIEW_STEPS_MAX, Work, size_of};

/// What the role proposes for one artifact: the first declared transition that it may make. A condition that costs more work than
/// there is does not hold.
#[must_use]
pub fn propose(topology: &Topology, role: &str, artifact: &Artifact) -> Vec<Change> {
    propose_within(topology, role, artifact, &mut Work::new(REVIEW_STEPS_MAX))
}

/// The same within work that the reviews of one artifact share.
pub(super) fn propose_within(
    topology: &Topology,
    role: &str,
    artifact: &Artifact,
    work: &mut Work,
) -> Vec<Change> {
    let kind = &artifact.name.kind;
    let Some(declared) = topology.role(role).filter(|it| it.artifact.as_ref() == Some(kind)) else {
        return Vec::new();
    };
    let transitions =
        topology.artifact(kind).map(|it| it.transitions.as_slice()).unwrap_or_default();
    let target = transitions
        .iter()
        .filter(|it| it.from == artifact.status)
        .find(|it| may_move(topology, kind, &it.from, &it.to, Author::Role(role)));
    let Some(target) = target.filter(|_| artifact.reserved_by.is_none()) else {
        return Vec::new();
    };
    let Some(when) =
        declared.when.as_ref().filter(|_| work.spend(size_of(&artifact.fields)).is_ok())
    else {
        return Vec::new();
    };
    let about = json!({"artifact": artifact.fields, "status": artifact.status});
    if when.test(&about, work).is_err() {
        return Vec::new();
    }
    let mut change = ArtifactChange::of(artifact);
    change.to = Some(target.to.clone());
    vec![Change::Artifact(change)]
}
