//! What the root of a plan asks of its steps.

use crate::event::Subject;
use crate::id::{Name, TaskId};
use crate::request::Submit;
use crate::run::{Body, Lineage};
use crate::task::Task;

use super::event::{PlanEvent, SpawnedStep, Told, ToldTo};
use super::step::{Blame, StepTerms};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PlanMessage {
    /// The step is to be created, blocked or not. Its input was stored with the plan, under its id.
    Spawn { submit: Box<Submit>, lineage: Lineage, terms: StepTerms, is_blocked: bool },
    /// All upstreams have ended, and the step may run. The API keys under which steps were done, where people are asked.
    Release { done_by: Vec<Name> },
    /// All upstreams have ended, and this one keeps the step from running.
    Skip { blame: Blame },
}

/// The messages of an event of a plan, in order.
pub(crate) fn spoken(after: &Subject, from: TaskId, event: &PlanEvent) -> Vec<(TaskId, Body)> {
    match event {
        PlanEvent::StepsSpawned(steps) => {
            steps.iter().flat_map(|spawned| spawn(after, from, spawned)).collect()
        }
        PlanEvent::DownstreamsTold { told, .. } => {
            told.iter().filter_map(|told| tell(after, told)).collect()
        }
        _ => Vec::new(),
    }
}

/// The keys that the root of a plan knows.
fn done_by(root: &Subject) -> Vec<Name> {
    let root = root.live().and_then(Task::plan_root);
    root.map_or_else(Vec::new, |root| root.done_by.clone())
}

fn tell(after: &Subject, told: &Told) -> Option<(TaskId, Body)> {
    let message = match told.to {
        ToldTo::Wait => return None,
        ToldTo::Run => PlanMessage::Release { done_by: done_by(after) },
        ToldTo::Skip => PlanMessage::Skip { blame: told.blame.clone()? },
    };
    Some((told.id, Body::Plan(message)))
}

/// A step whose upstreams ended before it was spawned is spawned all the same: every step of a plan is a task with a record.
fn spawn(after: &Subject, from: TaskId, spawned: &SpawnedStep) -> Vec<(TaskId, Body)> {
    let SpawnedStep { step, to, blame } = spawned;
    let (id, key) = (step.child.submit.id, step.child.key.clone());
    let lineage = Lineage::Child { run: after.run_id().unwrap_or(from), parent: from, key };
    let submit = Box::new(step.child.submit.clone());
    let is_blocked = *to != ToldTo::Run;
    let terms = StepTerms { done_by: done_by(after), ..step.terms.clone() };
    let message = PlanMessage::Spawn { submit, lineage, terms, is_blocked };
    let blame = blame.clone().filter(|_| *to == ToldTo::Skip);
    let skip = blame.map(|blame| PlanMessage::Skip { blame });
    [message].into_iter().chain(skip).map(|message| (id, Body::Plan(message))).collect()
}
