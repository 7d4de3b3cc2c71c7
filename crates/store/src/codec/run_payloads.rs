//! Payloads of durable runs in a history: results of steps are in `checkpoints`, and a signal's payload is in the event
//! that records it. See [`super::payload_digest`].

use verdict::request::Outcome;
use verdict::run::{
    Checkpoint, CheckpointCall, Inherit, Inherited, Recorded, RunEvent, RunRequest, Step, StepCall,
    StepOutcome, Then,
};
use verdict::{ClosedAttempt, Event, Name, Request};

use super::payload_digest::{
    Payloads, digest_end, digest_long_json, digest_long_trace, digest_outcome, has_long_end,
    has_long_outcome, has_long_trace, is_digest, is_long, is_trace_digest, json_digest,
    restore_end, restore_if_same, restore_outcome, restore_report,
};
use crate::row::Entry;

pub(super) fn has_long_request(request: &RunRequest) -> bool {
    match request {
        RunRequest::Checkpoint(call) => {
            call.steps.iter().any(|it| has_long_step(&it.step)) || has_long_then(&call.then)
        }
        RunRequest::Signal(call) => is_long(call.payload.as_ref()),
        RunRequest::Metered(_) | RunRequest::Plan(_) => match request.wrapped() {
            Some(Request::Run(call)) => has_long_request(call),
            Some(Request::Report(report)) => {
                is_long(report.claims.as_ref()) || has_long_outcome(&report.outcome)
            }
            _ => false,
        },
        RunRequest::Inherit(asked) => asked.items.iter().any(has_long_item),
        RunRequest::Message(_) | RunRequest::Resume | RunRequest::Unpin | RunRequest::Decide(_) => {
            false
        }
    }
}

fn has_long_item(item: &Inherited) -> bool {
    let Inherited::Checkpoint(checkpoint) = item else { return false };
    matches!(&checkpoint.recorded, Recorded::Step(step) if has_long_step(step))
}

fn has_long_then(then: &Then) -> bool {
    match then {
        Then::Report { outcome, claims } => is_long(claims.as_ref()) || has_long_outcome(outcome),
        Then::Continue | Then::Wait(_) | Then::Diverged(_) => false,
    }
}

fn has_long_step(step: &Step) -> bool {
    match &step.outcome {
        StepOutcome::Succeeded { result } => is_long(result.as_ref()),
        StepOutcome::Failed { fault, .. } => has_long_trace(Some(fault)),
    }
}

pub(super) fn has_long_event(event: &RunEvent) -> bool {
    match event {
        RunEvent::Checkpointed(checkpoint) => {
            matches!(&checkpoint.recorded, Recorded::Step(step) if has_long_step(step))
        }
        RunEvent::Closing(end, _) => has_long_end(end),
        _ => false,
    }
}

pub(super) fn digest_request(request: &mut RunRequest) {
    match request {
        RunRequest::Checkpoint(call) => {
            call.steps.iter_mut().for_each(|it| digest_step(&mut it.step));
            if let Then::Report { outcome, claims } = &mut call.then {
                digest_long_json(claims);
                digest_outcome(outcome);
            }
        }
        RunRequest::Signal(call) => digest_long_json(&mut call.payload),
        RunRequest::Metered(_) | RunRequest::Plan(_) => match request.wrapped_mut() {
            Some(Request::Run(call)) => digest_request(call),
            Some(Request::Report(report)) => {
                digest_long_json(&mut report.claims);
                digest_outcome(&mut report.outcome);
            }
            _ => {}
        },
        RunRequest::Inherit(asked) => {
            let checkpoints = asked.items.iter_mut().filter_map(checkpoint_of);
            checkpoints.for_each(digest_checkpoint);
        }
        RunRequest::Message(_) | RunRequest::Resume | RunRequest::Unpin | RunRequest::Decide(_) => {
        }
    }
}

fn checkpoint_of(item: &mut Inherited) -> Option<&mut Checkpoint> {
    match item {
        Inherited::Checkpoint(checkpoint) => Some(checkpoint),
        Inherited::Signal(_) | Inherited::Child(_) | Inherited::Again(_) => None,
    }
}

pub(super) fn digest_event(event: &mut RunEvent) {
    match event {
        RunEvent::Checkpointed(checkpoint) => digest_checkpoint(checkpoint),
        RunEvent::Closing(end, _) => *end = digest_end(end),
        _ => {}
    }
}

fn digest_checkpoint(checkpoint: &mut Checkpoint) {
    if let Recorded::Step(step) = &mut checkpoint.recorded {
        digest_step(step);
    }
}

fn digest_step(step: &mut Step) {
    match &mut step.outcome {
        StepOutcome::Succeeded { result } => digest_long_json(result),
        StepOutcome::Failed { fault, .. } => digest_long_trace(fault),
    }
}

/// The keys of steps in an entry whose results are in their checkpoints. Whoever ends a stage records one: a worker's report, or
/// the people who were asked.
pub(crate) fn digested_steps(entry: &Entry) -> Vec<&Name> {
    let recorded = entry.events.iter().filter_map(recorded_step);
    let recorded = recorded.filter(|(_, step)| is_digested(step)).map(|(key, _)| key);
    let is_report = entry.request.report().is_some();
    let Some(call) = entry.request.checkpoint_call().filter(|_| !is_report) else {
        return recorded.collect();
    };
    let digested = call.steps.iter().filter(|it| is_digested(&it.step)).map(|it| &it.key);
    // The end of a stage is recorded with the last call of its worker.
    let is_asked = |key: &Name| call.steps.iter().any(|it| it.key == *key);
    digested.chain(recorded.filter(|key| !is_asked(key))).collect()
}

/// The step that an event records: that of a report is the end of a stage.
fn recorded_step(event: &Event) -> Option<(&Name, &Step)> {
    let Event::Run(event) = event else { return None };
    let RunEvent::Checkpointed(checkpoint) = &**event else { return None };
    match &checkpoint.recorded {
        Recorded::Step(step) => Some((&checkpoint.key, step)),
        Recorded::Wait(_) | Recorded::Child(_) => None,
    }
}

/// The result of the stage that a report ended: the last that it recorded.
pub(super) fn stage_result(events: &[Event]) -> Option<&verdict::Json> {
    let (_, step) = events.iter().rev().find_map(recorded_step)?;
    match &step.outcome {
        StepOutcome::Succeeded { result } => result.as_ref(),
        StepOutcome::Failed { .. } => None,
    }
}

fn is_digested(step: &Step) -> bool {
    match &step.outcome {
        StepOutcome::Succeeded { result } => result.as_ref().is_some_and(is_digest),
        StepOutcome::Failed { fault, .. } => {
            fault.stack_trace.as_ref().is_some_and(is_trace_digest)
        }
    }
}

pub(super) fn restore_event(event: &mut RunEvent, payloads: Payloads<'_>) {
    match event {
        RunEvent::Checkpointed(checkpoint) => {
            let row = payloads.checkpoints.iter().find(|row| row.number == checkpoint.number);
            if let Some(row) = row
                && is_same(row, checkpoint)
            {
                **checkpoint = row.clone();
            }
        }
        RunEvent::Closing(end, _) => restore_end(end, payloads.end),
        _ => {}
    }
}

fn is_same(row: &Checkpoint, digested: &Checkpoint) -> bool {
    let mut row = row.clone();
    digest_checkpoint(&mut row);
    row == *digested
}

pub(super) fn restore_request(
    request: &mut RunRequest,
    attempt: Option<&ClosedAttempt>,
    events: &[Event],
    payloads: Payloads<'_>,
) {
    match request {
        RunRequest::Checkpoint(call) => restore_call(call, attempt, events, payloads),
        RunRequest::Signal(call) => {
            restore_if_same(&mut call.payload, payload_of(events), json_digest);
        }
        RunRequest::Metered(_) | RunRequest::Plan(_) => match request.wrapped_mut() {
            Some(Request::Run(call)) => restore_request(call, attempt, events, payloads),
            Some(Request::Report(report)) => restore_report(report, attempt, events, payloads.end),
            _ => {}
        },
        RunRequest::Inherit(asked) => restore_inherited(asked, payloads.checkpoints),
        RunRequest::Message(_) | RunRequest::Resume | RunRequest::Unpin | RunRequest::Decide(_) => {
        }
    }
}

/// What was taken over is in the checkpoints of the task, under the same keys.
fn restore_inherited(asked: &mut Inherit, rows: &[Checkpoint]) {
    for checkpoint in asked.items.iter_mut().filter_map(checkpoint_of) {
        let row = rows.iter().find(|row| row.key == checkpoint.key);
        let Some(mut digested) = row.cloned() else { continue };
        digest_checkpoint(&mut digested);
        if digested.recorded == checkpoint.recorded
            && let Some(row) = row
        {
            checkpoint.recorded = row.recorded.clone();
        }
    }
}

fn payload_of(events: &[Event]) -> Option<&verdict::Json> {
    events.iter().find_map(|event| match event {
        Event::Run(event) => match &**event {
            RunEvent::SignalReceived(signal) => signal.payload.as_ref(),
            _ => None,
        },
        _ => None,
    })
}

fn restore_call(
    call: &mut CheckpointCall,
    attempt: Option<&ClosedAttempt>,
    events: &[Event],
    payloads: Payloads<'_>,
) {
    call.steps.iter_mut().for_each(|step| restore_step(step, payloads.checkpoints));
    if let Then::Report { outcome, claims } = &mut call.then {
        restore_if_same(claims, attempt.and_then(|it| it.claims.as_ref()), json_digest);
        restore_outcome(outcome, attempt, payloads.end);
        // What the report of a stage says is in the stage's checkpoint.
        if let Outcome::Succeeded { output } = outcome {
            restore_if_same(output, stage_result(events), json_digest);
        }
    }
}

fn restore_step(call: &mut StepCall, rows: &[Checkpoint]) {
    let row = rows.iter().find(|row| row.key == call.key);
    let Some(Recorded::Step(step)) = row.map(|row| &row.recorded) else { return };
    let mut digested = step.clone();
    digest_step(&mut digested);
    if digested.outcome == call.step.outcome {
        call.step.outcome = step.outcome.clone();
    }
}
