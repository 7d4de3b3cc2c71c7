//! What the rules added to a call of a durable run: [`super::delta`] for steps and children, which a call may have by the
//! hundred and which its events repeat.

use serde::{Deserialize, Serialize};
use verdict::run::{
    Checkpoint, CheckpointCall, ChildCall, Recorded, RunEvent, RunRequest, StepCall,
};
use verdict::{Event, Request, Time};

use super::scalars::as_number;

#[derive(Serialize, Deserialize)]
pub(super) enum RunDelta {
    /// The step in this place of the call was recorded.
    #[serde(rename = "stepped_as_asked")]
    Stepped {
        place: usize,
        number: u32,
        #[serde(with = "as_number")]
        at: Time,
    },
    /// The child in this place of the call was recorded.
    #[serde(rename = "spawned_as_asked")]
    Spawned { place: usize },
}

/// `None` for an event that says anything else than its call.
pub(super) fn delta_of(request: &Request, event: &Event) -> Option<RunDelta> {
    let (call, Event::Run(event)) = (call_of(request)?, event) else { return None };
    match &**event {
        RunEvent::Checkpointed(checkpoint) => {
            let place = call.steps.iter().position(|step| step.key == checkpoint.key)?;
            let Checkpoint { number, at, .. } = **checkpoint;
            let derived = recorded(call, &call.steps[place], number, at);
            (derived == **checkpoint).then_some(RunDelta::Stepped { place, number, at })
        }
        RunEvent::ChildSpawned(child) => {
            // A call has up to 500 children. Their ids are short, and only one child is compared as a whole.
            let is_it = |asked: &ChildCall| asked.submit.id == child.submit.id;
            let place = call.children.iter().position(is_it)?;
            (call.children[place] == **child).then_some(RunDelta::Spawned { place })
        }
        _ => None,
    }
}

pub(super) fn rebuild(request: &Request, delta: &RunDelta) -> Option<Event> {
    let call = call_of(request)?;
    let event = match delta {
        RunDelta::Stepped { place, number, at } => {
            let checkpoint = recorded(call, call.steps.get(*place)?, *number, *at);
            RunEvent::Checkpointed(Box::new(checkpoint))
        }
        RunDelta::Spawned { place } => {
            RunEvent::ChildSpawned(Box::new(call.children.get(*place)?.clone()))
        }
    };
    Some(Event::Run(Box::new(event)))
}

fn call_of(request: &Request) -> Option<&CheckpointCall> {
    let Request::Run(request) = request else { return None };
    match &**request {
        RunRequest::Checkpoint(call) => Some(call),
        RunRequest::Signal(_) | RunRequest::Message(_) | RunRequest::Resume => None,
    }
}

fn recorded(call: &CheckpointCall, step: &StepCall, number: u32, at: Time) -> Checkpoint {
    Checkpoint {
        number,
        key: step.key.clone(),
        digest: step.digest,
        attempt: call.caller.attempt,
        at,
        recorded: Recorded::Step(step.step.clone()),
    }
}
