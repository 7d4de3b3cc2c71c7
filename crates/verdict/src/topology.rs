//! Requests about deployments of topologies: why one is refused, and under which names their tasks wait.
//!
//! What a topology allows is decided by the crate `topology`, which knows nothing of tasks; whoever carries a decision saves
//! what it changes together with the tasks that it makes. Here is what both sides call the same.

use crate::done::Done;
use crate::id::{Name, Text};
use crate::task::State;

/// What the queues begin with in which the events and gates of deployments wait. Clients cannot use such names.
pub const NAME_PREFIX: &str = "tenure.topology";

/// The kind of the stage that judges the output of a work order.
pub const GATE_KIND: &str = "tenure.topology.gate";

/// The key of the stage that executes a work order. Its checkpoint is the output.
pub const EXECUTE: &str = "execute";

/// The key of the stage that judges it. Its checkpoint is the run record.
pub const GATE: &str = "gate";

/// The key of the stage that judges it once judges and people have answered.
pub const DECIDE: &str = "decide";

/// The key of the stage between judges and people: an output that a judge refused is shown to nobody.
pub const JUDGED: &str = "judged";

/// What the keys of the stages begin with that ask judges and people; the name of the check follows.
pub const JUDGE_PREFIX: &str = "judge/";
pub const PEOPLE_PREFIX: &str = "people/";

/// What the idempotency keys of events and work orders begin with, and those of clients do not.
pub const KEY_PREFIX: &str = "topology/";

/// The queue in which the gates of a deployment wait.
pub fn gate_queue(deployment: &str) -> Name {
    Name::from(format!("{NAME_PREFIX}.{deployment}/gates"))
}

/// The queue in which the gates of a role wait whose turns processes outside of the coordinator take.
pub fn outside_gate_queue(deployment: &str, role: &str) -> Name {
    Name::from(format!("{NAME_PREFIX}.{deployment}/gates/{role}"))
}

/// The queue that a worker's key must name to take the turns of a role. No task waits there: it is the name of a right, which
/// executors do not have.
pub fn role_right(deployment: &str, role: &str) -> String {
    format!("role:{deployment}/{role}")
}

/// The queue in which its events wait; those whose work orders go one after the other have one for their key.
pub fn event_queue(deployment: &str, serial: Option<&str>) -> Name {
    Name::from(match serial {
        None => format!("{NAME_PREFIX}.{deployment}/events"),
        Some(key) => format!("{NAME_PREFIX}.{deployment}/serial/{key}"),
    })
}

/// The deployment whose events or gates wait in this queue; `None` for every other queue.
pub fn deployment_in(queue: &str) -> Option<&str> {
    split(queue).map(|(deployment, _)| deployment)
}

/// The deployment whose events wait in this queue; `None` for every other queue.
pub fn deployment_of_events(queue: &Name) -> Option<&str> {
    let (deployment, rest) = split(queue.as_str())?;
    (rest == "events" || rest.starts_with("serial/")).then_some(deployment)
}

fn split(queue: &str) -> Option<(&str, &str)> {
    queue.strip_prefix(NAME_PREFIX)?.strip_prefix('.')?.split_once('/')
}

/// Whether this was the task of an event that ended otherwise than by its role deciding: it ran out of tries, was given up or
/// cancelled. The same commit writes a note of it, which becomes a pause state (A0-11).
pub fn is_unprocessed(done: &Done) -> bool {
    done.end.state != State::Succeeded && deployment_of_events(&done.queue).is_some()
}

/// Why a request about a deployment was refused. The texts are for people.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TopologyRefusal {
    DeploymentNotFound,
    ArtifactNotFound,
    ArtifactExists,
    /// The declaration does not allow this, or does not allow this caller to do it.
    NotAllowed(Text),
    /// The key did the work that it wants to approve.
    OwnWork,
    /// Something has changed since the caller read it.
    Stale(Text),
    /// The request does not fit the declaration.
    Invalid(Text),
    /// What is there stands in the way of the change.
    Incompatible(Text),
}

impl TopologyRefusal {
    pub const fn name(&self) -> &'static str {
        match self {
            TopologyRefusal::DeploymentNotFound => "deployment_not_found",
            TopologyRefusal::ArtifactNotFound => "artifact_not_found",
            TopologyRefusal::ArtifactExists => "artifact_exists",
            TopologyRefusal::NotAllowed(_) => "transition_not_allowed",
            TopologyRefusal::OwnWork => "approval_forbidden",
            TopologyRefusal::Stale(_) => "artifact_changed",
            TopologyRefusal::Invalid(_) => "invalid_argument",
            TopologyRefusal::Incompatible(_) => "deployment_conflict",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_of_events_name_their_deployment_and_no_other_queue_does() {
        for serial in [None, Some("saw"), Some("saw/left")] {
            let queue = event_queue("joinery", serial);
            assert_eq!(deployment_of_events(&queue), Some("joinery"), "{queue}");
        }
        let others = [
            gate_queue("joinery"),
            outside_gate_queue("joinery", "events"),
            Name::from("joinery/events"),
            Name::from("tenure.topology/events"),
            Name::from("q"),
        ];
        for queue in others {
            assert_eq!(deployment_of_events(&queue), None, "{queue}");
        }
    }
}
