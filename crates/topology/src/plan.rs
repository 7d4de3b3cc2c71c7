//! What putting a version in force would do to a deployment, and what stands in the way.
//!
//! Nothing is carried out here. A work order keeps the version that made it, so work in flight never stands in the way.

use std::collections::BTreeSet;
use std::fmt;

use crate::check::Topology;
use crate::deployment::Deployment;
use crate::diff::{self, Difference};

/// The consequences of a new version.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub from: String,
    pub to: String,
    pub differences: Vec<Difference>,
    /// Without these the new version could be put in force.
    pub obstacles: Vec<Obstacle>,
    /// Work orders that end under the version that made them.
    pub in_flight: usize,
}

/// Rows that the new version has no place for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Obstacle {
    Status { artifact: String, status: String },
    ArtifactType { artifact: String },
    Event { event: String },
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status { artifact, status } => {
                write!(
                    f,
                    "{artifact} artifacts are in {status}, which the new version does not have"
                )
            }
            Self::ArtifactType { artifact } => {
                write!(
                    f,
                    "there are {artifact} artifacts, a type that the new version does not have"
                )
            }
            Self::Event { event } => {
                write!(
                    f,
                    "{event} events are unprocessed, and no role of the new version takes them"
                )
            }
        }
    }
}

/// What a deployment that runs `before` would see of `after`.
#[must_use]
pub fn of(before: &Topology, after: &Topology, deployment: &Deployment) -> Plan {
    let mut obstacles = BTreeSet::new();
    for artifact in deployment.artifacts.values() {
        let (kind, status) = (artifact.name.kind.clone(), artifact.status.clone());
        match after.artifact(&kind) {
            None => obstacles.insert(Obstacle::ArtifactType { artifact: kind }),
            Some(declared) if !declared.statuses.contains(&status) => {
                obstacles.insert(Obstacle::Status { artifact: kind, status })
            }
            Some(_) => false,
        };
    }
    let open = deployment.events.values().filter(|event| event.processed.is_none());
    for event in open.filter(|event| after.scheduler_of(&event.kind).is_none()) {
        obstacles.insert(Obstacle::Event { event: event.kind.clone() });
    }
    let active = deployment.work_orders.values().filter(|order| deployment.is_active(order));
    Plan {
        from: before.digest().to_owned(),
        to: after.digest().to_owned(),
        differences: diff::between(before, after),
        obstacles: obstacles.into_iter().collect(),
        in_flight: active.count(),
    }
}
