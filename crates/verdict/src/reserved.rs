//! Reserved queues: those in which tasks of the server itself wait.
//!
//! Their names begin with [`PREFIX`], which no client, child, plan or topology can use. This is the one list of who owns which of
//! them and who may serve them; every place that lets somebody lease, push, pause, retry or submit asks it.
//!
//! Invariants:
//! - a queue is reserved by its name alone, also where no rule makes a task for it yet;
//! - a queue that decides in place of people (built-in evaluations) or makes records (events, gates) is served by the server alone.

use crate::id::Name;
use crate::plan::PlanState;
use crate::run::RunState;
use crate::{recovery, topology};

/// What the name of every reserved queue begins with.
pub const PREFIX: &str = "tenure.";

/// What a reserved queue is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserved<'a> {
    /// Evaluations of recovery candidates by workers, and questions to people, which no worker gets.
    Recovery,
    /// Evaluations of recovery candidates that the server makes.
    BuiltInRecovery,
    /// Events and gates of a deployment.
    Deployment(&'a str),
    /// No task waits there: the name is kept free.
    Unused,
}

impl<'a> Reserved<'a> {
    /// What the queue is reserved for; `None` for a queue that anybody may use.
    pub fn of(queue: &'a str) -> Option<Self> {
        queue.strip_prefix(PREFIX)?;
        Some(match queue {
            recovery::QUEUE => Reserved::Recovery,
            recovery::QUEUE_BUILT_IN => Reserved::BuiltInRecovery,
            _ => topology::deployment_in(queue).map_or(Reserved::Unused, Reserved::Deployment),
        })
    }

    /// Whether workers may lease from it. No reserved queue is pushed to an endpoint or paused, and none takes a submission, a child
    /// or a retry of anybody but its owner: a pause of evaluations would keep failures of the whole workspace from being
    /// recovered, and an endpoint would decide them without being a worker of the policy.
    pub const fn is_served_outside(self) -> bool {
        match self {
            Reserved::Recovery => true,
            Reserved::BuiltInRecovery | Reserved::Deployment(_) | Reserved::Unused => false,
        }
    }
}

/// Whether workers may serve this queue.
pub fn is_served_outside(queue: &str) -> bool {
    Reserved::of(queue).is_none_or(Reserved::is_served_outside)
}

/// Whether a task that was submitted to this queue is the server's own, or passes through a stage that is, and is not submitted again
/// by anybody else. An event is: a person may let one come back that no role processed, and a role makes nothing twice of it.
pub fn is_own(queue: &Name, run: Option<&RunState>) -> bool {
    let stages = match run.and_then(|run| run.plan.as_deref()) {
        Some(PlanState::Stages(stages)) => &stages.stages[..],
        Some(PlanState::Root(_) | PlanState::Step(_)) | None => &[],
    };
    let mut queues = std::iter::once(queue).chain(stages.iter().map(|stage| &stage.queue));
    let is_event = |queue: &Name| topology::deployment_of_events(queue).is_some();
    queues.any(|queue| Reserved::of(queue.as_str()).is_some() && !is_event(queue))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_evaluations_for_workers_are_served_from_outside() {
        let gates = topology::gate_queue("joinery");
        let outside = topology::outside_gate_queue("joinery", "judge");
        let events = topology::event_queue("joinery", Some("saw"));
        let table = [
            (recovery::QUEUE, Some(Reserved::Recovery), true),
            (recovery::QUEUE_BUILT_IN, Some(Reserved::BuiltInRecovery), false),
            (gates.as_str(), Some(Reserved::Deployment("joinery")), false),
            (outside.as_str(), Some(Reserved::Deployment("joinery")), false),
            (events.as_str(), Some(Reserved::Deployment("joinery")), false),
            ("tenure.effects/crm", Some(Reserved::Unused), false),
            ("tenure.", Some(Reserved::Unused), false),
            ("tenure", None, true),
            ("tenure-jobs", None, true),
            ("q", None, true),
        ];
        for (queue, reserved, is_served) in table {
            assert_eq!(
                (Reserved::of(queue), is_served_outside(queue)),
                (reserved, is_served),
                "{queue}"
            );
        }
    }
}
