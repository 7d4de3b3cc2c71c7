//! A plan without edges as the stages of one task.
//!
//! The members of a step are filled and translated as those of a run of its own. The plan itself is stored as it was written.

use std::sync::Arc;

use verdict::plan::{Capabilities, Stage};
use verdict::{Digest, Policy, Span};
use wire::OnError;
use wire::plan::{Plan, PlanStep, references};
use wire::requests::SubmitRun;

use super::checkpoints::step_terms;
use super::policy;
use super::steps::limits_of;
use crate::submit_defaults::SubmitDefaults;

pub(super) fn of(plan: &Plan, seed: Option<u64>, defaults: &SubmitDefaults) -> Arc<[Stage]> {
    let stage = |step| stage(step, plan.queue_of(step), seed, defaults);
    plan.steps.iter().map(stage).collect()
}

fn stage(step: &PlanStep, queue: &str, seed: Option<u64>, defaults: &SubmitDefaults) -> Stage {
    let mut run = SubmitRun { seed, ..step.as_run() };
    defaults.fill(&mut run);
    let mut policy = Policy { deadline: None, ..policy(&run) };
    if step.on_error() == OnError::Abort {
        policy.failures_max = 1;
    }
    Stage {
        key: step.key.as_str().into(),
        kind: step.kind().into(),
        queue: queue.into(),
        policy,
        ceiling: step.ceiling.map(limits_of).unwrap_or_default(),
        time_limit: step.deadline_ms.map(Span::from_millis),
        input: Digest::of(&[step.input.text().as_bytes()]),
        has_references: references::has_any(&step.input),
        continues_on_error: step.on_error() == OnError::Continue,
        is_always: step.always,
        is_gate: step.gate,
        may: Capabilities::ALL,
        asks: step_terms(step).map(Arc::new),
        is_prepared: step.is_prepared(),
    }
}

/// A run with a plan begins as its first step, with the plan as its input. Its deadline and start are its own.
pub(super) fn begin(run: &mut SubmitRun, plan: &Plan) {
    let text = serde_json::to_string(plan).expect("what was parsed can be written again");
    run.input = wire::Json::from_text(text).expect("a plan is valid JSON");
    let Some(first) = plan.steps.first() else { return };
    (run.kind, run.queue) = (first.kind().to_owned(), plan.queue_of(first).to_owned());
    (run.max_attempts, run.lost_max) = (first.max_attempts, first.lost_max);
    (run.lease_ms, run.heartbeat_interval_ms) = (first.lease_ms, first.heartbeat_interval_ms);
    (run.cancel_grace_ms, run.retry) = (first.cancel_grace_ms, first.retry.clone());
}
