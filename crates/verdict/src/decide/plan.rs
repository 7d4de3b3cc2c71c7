//! The requests about plans: submissions, reports that ask for the next stage, and inputs that cannot be resolved.
//!
//! A plan was checked where it came in: keys are unique, upstreams exist, nothing depends on itself. This file
//! checks only what the rules rely on for their bounds.

use super::{engine, stages, steps, submit};
use crate::done::{Category, End, Fault, Reason};
use crate::event::Event;
use crate::id::Text;
use crate::plan::limits::{EDGES_MAX, STAGES_MAX, STEPS_MAX};
use crate::plan::{
    Found, PlanEvent, PlanForm, PlanRefusal, PlanRequest, PlanStep, PlanSubmit, Prepared,
};
use crate::run::{CheckpointCall, RunRefusal};
use crate::task::{State, Task};
use crate::time::Moment;
use crate::transition::plan_event;
use crate::verdict::{Answer, ReadSet, Refusal, Verdict};

pub(super) fn decide(read_set: ReadSet<'_>, request: &PlanRequest, at: Moment) -> Verdict {
    match request {
        PlanRequest::Submit(submit) => submit_plan(read_set, submit, at),
        PlanRequest::Advance(advance) => stages::advance(read_set, advance, at),
        PlanRequest::InputUnresolved { message } => unresolved(read_set, message, at),
        PlanRequest::Prepared(prepared) => begin(read_set, prepared),
    }
}

/// A submission like any other, with its plan. The first steps are spawned in the same decision.
fn submit_plan(read_set: ReadSet<'_>, asked: &PlanSubmit, at: Moment) -> Verdict {
    if let Err(refusal) = check(asked) {
        return Verdict::refuse(Refusal::Run(RunRefusal::Plan(refusal)));
    }
    let Verdict { answer, mut events } = submit::decide(read_set, &asked.submit, at);
    if events.is_empty() {
        return Verdict::new(answer, events);
    }
    let steps = asked.steps.len() as u64;
    if let Some(quota) = read_set.context.quota.filter(|it| !it.has_room_for_children(steps)) {
        return Verdict::refuse(Refusal::QuotaReached { quota: quota.max });
    }
    if let Err(refusal) = steps::check_ceilings(asked, at.now) {
        return Verdict::refuse(Refusal::Run(refusal));
    }
    events.push(plan_event(PlanEvent::Planned(asked.form.clone())));
    if let PlanForm::Steps { .. } = asked.form {
        events.push(steps::first_slice(&asked.submit, &asked.steps, at.now));
    }
    Verdict::new(with_state(answer, asked), events)
}

fn with_state(answer: Answer, asked: &PlanSubmit) -> Answer {
    let state = match asked.form {
        PlanForm::Stages { ref stages, .. } if !stages[0].begins_waiting() => State::Queued,
        PlanForm::Stages { .. } | PlanForm::Steps { .. } => State::Waiting,
    };
    match answer {
        Answer::Accepted { task, created_at, replayed, .. } => {
            Answer::Accepted { task, state, created_at, replayed }
        }
        other => other,
    }
}

fn check(asked: &PlanSubmit) -> Result<(), PlanRefusal> {
    let edges = asked.steps.iter().map(|step: &PlanStep| step.upstreams.len()).sum();
    let (what, count, max) = match &asked.form {
        PlanForm::Stages { stages, .. } => ("stages", stages.len(), STAGES_MAX),
        PlanForm::Steps { count, .. } => ("steps", *count as usize, STEPS_MAX),
    };
    if count == 0 {
        return Err(PlanRefusal::Empty);
    }
    for (what, count, max) in [(what, count, max), ("edges", edges, EDGES_MAX)] {
        if count > max {
            return Err(PlanRefusal::TooMany { what, count: count as u64, max: max as u64 });
        }
    }
    Ok(())
}

/// Whether the token of the task's stage may make this call, and records under none of the stages' keys.
pub(super) fn check_call(task: &Task, call: &CheckpointCall) -> Result<(), RunRefusal> {
    let Some(stages) = task.stages() else { return Ok(()) };
    let may = stages.stage().may;
    let asked = [
        ("steps", may.steps, !call.steps.is_empty()),
        ("waits", may.waits, call.wait().is_some()),
        ("children", may.children, !call.children.is_empty()),
    ];
    if let Some((what, ..)) = asked.into_iter().find(|(_, may, wants)| *wants && !may) {
        return Err(RunRefusal::Plan(PlanRefusal::NotAllowed { what }));
    }
    let keys = call.steps.iter().map(|step| &step.key);
    let keys = keys.chain(call.children.iter().map(|child| &child.key));
    let mut keys = keys.chain(call.wait().map(|wait| &wait.key));
    let taken = keys.find(|key| stages.stages.iter().any(|stage| stage.key == **key));
    taken.map_or(Ok(()), |key| Err(RunRefusal::ConflictingStep { key: key.clone() }))
}

/// The input of a ready task refers to what is not there. Outputs never change, so no repetition helps.
fn unresolved(read_set: ReadSet<'_>, message: &Text, at: Moment) -> Verdict {
    let is_ready = |task: &&Task| {
        task.has_references() && task.claimable_at().is_some_and(|due| due.has_come(at.now))
    };
    match read_set.subject.live().filter(is_ready) {
        None => Verdict::nothing(),
        Some(task) => {
            let event: Event = engine::refuse_input(task, unresolved_end(message));
            Verdict::new(Answer::Done, vec![event])
        }
    }
}

/// A step that was prepared begins, or is skipped, or fails. An answer that comes again changes nothing, nor does one about a step that
/// the task has left.
fn begin(read_set: ReadSet<'_>, prepared: &Prepared) -> Verdict {
    let is_it = |task: &&Task| task.preparing() == Some(prepared.place);
    let Some(task) = read_set.subject.live().filter(is_it) else { return Verdict::nothing() };
    let event = match &prepared.found {
        Found::Begins { shown } => plan_event(PlanEvent::Prepared { shown: shown.clone() }),
        Found::Unneeded { why } => engine::skip(task, unneeded_end(why)),
        Found::Unresolved { message } => engine::refuse_input(task, unresolved_end(message)),
    };
    Verdict::new(Answer::Done, vec![event])
}

fn unneeded_end(why: &Text) -> End {
    let fault = Fault {
        category: Category::UserCode,
        message: why.clone(),
        stack_trace: None,
        retryable: Some(false),
    };
    let reason = Some(Reason::ConditionFalse);
    End { state: State::Skipped, reason, output: None, fault: Some(fault) }
}

fn unresolved_end(message: &Text) -> End {
    let fault = Fault {
        category: Category::Configuration,
        message: message.clone(),
        stack_trace: None,
        retryable: Some(false),
    };
    let reason = Some(Reason::InputUnresolved);
    End { state: State::Failed, reason, output: None, fault: Some(fault) }
}
