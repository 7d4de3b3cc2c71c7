//! What the rules added to a request about a durable run: [`super::delta`] for steps and children, which a call may have
//! by the hundred, and for the ends of children, which a parent may have by the thousand. Their events repeat the request.

use serde::{Deserialize, Serialize};
use verdict::plan::{PlanEvent, PlanMessage};
use verdict::run::{
    Body, Checkpoint, CheckpointCall, ChildCall, ChildEnd, Inherit, Inherited, Message, Recorded,
    RunEvent, RunRequest, StepCall,
};
use verdict::{Digest, Event, Request, Time};

use super::scalars::{as_number, as_text};

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
    /// The step was created as its message says.
    #[serde(rename = "step_spawned_as_asked")]
    StepSpawned {
        #[serde(with = "as_number")]
        due: Time,
    },
    /// The end of a child was recorded as its message says.
    #[serde(rename = "child_ended_as_told")]
    ChildEnded {
        number: u32,
        #[serde(with = "as_text")]
        digest: Digest,
        #[serde(with = "as_number")]
        at: Time,
    },
    /// What is in this place of a request of a fork was taken over.
    #[serde(rename = "inherited_as_asked")]
    Inherited {
        place: usize,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        number: Option<u32>,
    },
}

/// `None` for an event that says anything else than its request.
pub(super) fn delta_of(request: &Request, event: &Event) -> Option<RunDelta> {
    let (Request::Run(request), Event::Run(event)) = (innermost(request), event) else {
        return None;
    };
    match (&**request, &**event) {
        (RunRequest::Checkpoint(call), RunEvent::Checkpointed(checkpoint)) => {
            let place = call.steps.iter().position(|step| step.key == checkpoint.key)?;
            let Checkpoint { number, at, .. } = **checkpoint;
            let derived = recorded(call, &call.steps[place], number, at);
            (derived == **checkpoint).then_some(RunDelta::Stepped { place, number, at })
        }
        (RunRequest::Checkpoint(call), RunEvent::ChildSpawned(child)) => {
            // A call has up to 500 children. Their ids are short, and only one child is compared as a whole.
            let is_it = |asked: &ChildCall| asked.submit.id == child.submit.id;
            let place = call.children.iter().position(is_it)?;
            (call.children[place] == **child).then_some(RunDelta::Spawned { place })
        }
        (RunRequest::Message(message), RunEvent::Checkpointed(checkpoint)) => {
            let Checkpoint { number, digest, at, .. } = **checkpoint;
            let derived = ended(message, number, digest, at)?;
            (derived == **checkpoint).then_some(RunDelta::ChildEnded { number, digest, at })
        }
        (RunRequest::Message(message), RunEvent::Plan(event)) => {
            let PlanEvent::StepSpawned { submitted, .. } = &**event else { return None };
            let derived = step_spawned(message, submitted.due)?;
            (derived == **event).then_some(RunDelta::StepSpawned { due: submitted.due })
        }
        (RunRequest::Inherit(asked), event) => inherited_delta(asked, event),
        _ => None,
    }
}

pub(super) fn rebuild(request: &Request, delta: &RunDelta) -> Option<Event> {
    let Request::Run(request) = innermost(request) else { return None };
    let event = match (&**request, delta) {
        (RunRequest::Checkpoint(call), RunDelta::Stepped { place, number, at }) => {
            let checkpoint = recorded(call, call.steps.get(*place)?, *number, *at);
            RunEvent::Checkpointed(Box::new(checkpoint))
        }
        (RunRequest::Checkpoint(call), RunDelta::Spawned { place }) => {
            RunEvent::ChildSpawned(Box::new(call.children.get(*place)?.clone()))
        }
        (RunRequest::Message(message), RunDelta::ChildEnded { number, digest, at }) => {
            RunEvent::Checkpointed(Box::new(ended(message, *number, *digest, *at)?))
        }
        (RunRequest::Inherit(asked), RunDelta::Inherited { place, number }) => {
            inherited(asked.items.get(*place)?, *number)?
        }
        (RunRequest::Message(message), RunDelta::StepSpawned { due }) => {
            RunEvent::Plan(Box::new(step_spawned(message, *due)?))
        }
        _ => return None,
    };
    Some(Event::Run(Box::new(event)))
}

/// The request without what it only adds to another.
fn innermost(request: &Request) -> &Request {
    match request {
        Request::Run(run) => run.wrapped().map_or(request, innermost),
        _ => request,
    }
}

/// The first event of a step, as the message of its root asks for it.
fn step_spawned(message: &Message, due: Time) -> Option<PlanEvent> {
    let Body::Plan(PlanMessage::Spawn { submit, lineage, terms, is_blocked }) = &message.body
    else {
        return None;
    };
    let submitted = Box::new(super::delta::submitted(submit, due));
    let (lineage, terms, is_blocked) = (lineage.clone(), terms.clone(), *is_blocked);
    Some(PlanEvent::StepSpawned { submitted, lineage, terms, is_blocked })
}

/// The checkpoint of a child's end. No worker recorded it.
fn ended(message: &Message, number: u32, digest: Digest, at: Time) -> Option<Checkpoint> {
    let Body::ChildEnded { key, state, record, .. } = &message.body else { return None };
    let end = ChildEnd { child: message.from, state: *state, record: *record };
    let (key, recorded) = (key.clone(), Recorded::Child(end));
    Some(Checkpoint { number, key, digest, attempt: 0, at, recorded })
}

/// Where the event stands in the request. A child that starts again may differ, and is stored whole then.
fn inherited_delta(asked: &Inherit, event: &RunEvent) -> Option<RunDelta> {
    let (place, number) = match event {
        RunEvent::Checkpointed(checkpoint) => {
            let is_it = |item: &Inherited| matches!(item, Inherited::Checkpoint(it) if it.key == checkpoint.key);
            (asked.items.iter().position(is_it)?, Some(checkpoint.number))
        }
        RunEvent::SignalReceived(signal) => {
            let is_it = |item: &Inherited| matches!(item, Inherited::Signal(it) if it.number == signal.number);
            (asked.items.iter().position(is_it)?, None)
        }
        RunEvent::ChildInherited(child) => {
            let is_it =
                |item: &Inherited| matches!(item, Inherited::Child(it) if it.key == child.key);
            (asked.items.iter().position(is_it)?, None)
        }
        RunEvent::ChildSpawned(child) => {
            let is_it =
                |item: &Inherited| matches!(item, Inherited::Again(it) if it.key == child.key);
            (asked.items.iter().position(is_it)?, None)
        }
        _ => return None,
    };
    let derived = inherited(&asked.items[place], number)?;
    (derived == *event).then_some(RunDelta::Inherited { place, number })
}

fn inherited(item: &Inherited, number: Option<u32>) -> Option<RunEvent> {
    Some(match item {
        Inherited::Signal(signal) => RunEvent::SignalReceived(Box::new(signal.clone())),
        Inherited::Child(child) => RunEvent::ChildInherited(Box::new(child.clone())),
        Inherited::Again(child) => RunEvent::ChildSpawned(Box::new(child.clone())),
        Inherited::Checkpoint(checkpoint) => {
            let checkpoint = Checkpoint { number: number?, attempt: 0, ..checkpoint.clone() };
            RunEvent::Checkpointed(Box::new(checkpoint))
        }
    })
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
