//! Plans: what a reader is shown of the steps of an ended run must follow from each other.

use std::collections::BTreeMap;

use crate::event::{EndedPlan, EndedStep, EventKind, State};
use crate::finding::{Finding, Invariant};
use crate::history::{History, findings_for};

pub(super) fn steps_follow_their_plan(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::E8);
    for (place, event) in history.events.iter().enumerate() {
        let EventKind::Plan(plan) = &event.what else { continue };
        let by_key: BTreeMap<&str, &EndedStep> =
            plan.steps.iter().map(|step| (step.key.as_str(), step)).collect();
        let wrong = plan.steps.iter().filter_map(|step| problem_of(plan, step, &by_key));
        for why in wrong.chain(problem_of_run(plan)) {
            found.report(Some(&plan.run), vec![place], why);
        }
    }
}

/// Whether the end of a step keeps others from running.
fn blocks(step: &EndedStep) -> bool {
    match step.state {
        State::Succeeded => false,
        State::Skipped => true,
        _ => !step.tolerated,
    }
}

fn problem_of(
    plan: &EndedPlan,
    step: &EndedStep,
    by_key: &BTreeMap<&str, &EndedStep>,
) -> Option<String> {
    let (key, state) = (&step.key, step.state);
    if !state.is_terminal() {
        return Some(format!("step `{key}` is {state:?}, and the run has ended"));
    }
    let upstreams: Vec<&EndedStep> =
        step.after.iter().filter_map(|key| by_key.get(key.as_str()).copied()).collect();
    let cause = upstreams.iter().find(|upstream| blocks(upstream));
    let is_skipped = state == State::Skipped;
    // A cancel ends what has not run, whatever it depends on.
    let is_cancelled = plan.cancelled && state == State::Cancelled;
    match cause {
        None if is_skipped => Some(format!("step `{key}` was skipped, and nothing kept it")),
        Some(cause) if !is_skipped && !is_cancelled => {
            Some(format!("step `{key}` is {state:?}, and `{}` was {:?}", cause.key, cause.state))
        }
        _ => too_early(step, &upstreams),
    }
}

fn too_early(step: &EndedStep, upstreams: &[&EndedStep]) -> Option<String> {
    let started = step.started?;
    let later = upstreams.iter().find(|it| it.completed.is_none_or(|end| end > started))?;
    Some(format!("step `{}` started before `{}` had ended", step.key, later.key))
}

fn problem_of_run(plan: &EndedPlan) -> Option<String> {
    if plan.cancelled {
        return None;
    }
    let is_cause = |step: &&EndedStep| blocks(step) && step.state != State::Skipped;
    let cause = plan.steps.iter().find(is_cause);
    match (cause, plan.state) {
        (None, State::Succeeded) | (Some(_), State::Failed) => None,
        (None, state) => Some(format!("the run is {state:?}, and every step went well")),
        (Some(step), state) => {
            Some(format!("the run is {state:?}, and step `{}` was {:?}", step.key, step.state))
        }
    }
}
