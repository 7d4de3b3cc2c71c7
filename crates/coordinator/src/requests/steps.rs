//! A plan with edges as the tasks of its steps.
//!
//! The members of a step are filled and translated as those of a run of its own. The root has no input: what was written is
//! in its steps, and the plan is identified by its digest.

use std::sync::Arc;

use verdict::plan::StepTerms;
use verdict::{Budget, Digest, Limits, Name, Policy, Span, Text};
use wire::OnError;
use wire::plan::{Ceiling, Compiled, Plan, PlanForm, PlanStep, references};
use wire::requests::SubmitRun;

use super::checkpoints::step_terms;
use super::{policy, raw};
use crate::item::{PlannedSteps, StepSubmission};
use crate::preparing::Question;
use crate::submit_defaults::SubmitDefaults;

/// The kind of a run whose steps are tasks of their own. No worker gets the run itself.
const ROOT_KIND: &str = "plan";

/// What the steps of a plan take from their run.
pub(super) struct OfRun<'a> {
    pub(super) seed: Option<u64>,
    pub(super) priority: i32,
    pub(super) traceparent: Option<&'a Text>,
    /// Whether a step of the plan asks people.
    pub(super) asks_people: bool,
}

/// The order of the steps, if the plan has edges. A plan that does not compile was refused before.
pub(super) fn compiled(plan: &Plan) -> Option<Compiled> {
    plan.compile().ok().filter(|compiled| compiled.form == PlanForm::Steps)
}

pub(super) fn of(
    plan: &Plan,
    compiled: &Compiled,
    run: &OfRun<'_>,
    defaults: &SubmitDefaults,
) -> Arc<PlannedSteps> {
    let key = |place: &usize| Name::from(plan.steps[*place].key.as_str());
    let steps = compiled.order.iter().map(|place| {
        let upstreams = compiled.upstreams[*place].iter().map(key).collect();
        let declared = &plan.steps[*place];
        step(declared, plan.queue_of(declared), upstreams, run, defaults)
    });
    let text = serde_json::to_string(plan).expect("what was parsed can be written again");
    let digest = Digest::of(&[text.as_bytes()]);
    Arc::new(PlannedSteps { digest, steps: steps.collect() })
}

fn step(
    step: &PlanStep,
    queue: &str,
    upstreams: Arc<[Name]>,
    of_run: &OfRun<'_>,
    defaults: &SubmitDefaults,
) -> StepSubmission {
    let mut run = SubmitRun { seed: of_run.seed, ..step.as_run() };
    defaults.fill(&mut run);
    let mut policy = Policy { deadline: None, ..policy(&run) };
    if step.on_error() == OnError::Abort {
        policy.failures_max = 1;
    }
    let text = serde_json::to_string(step).expect("what was parsed can be written again");
    let terms = StepTerms {
        continues_on_error: step.on_error() == OnError::Continue,
        is_always: step.always,
        time_limit: step.deadline_ms.map(Span::from_millis),
        has_references: references::has_any(&step.input) || step.composes(),
        asks: step_terms(step).map(Arc::new),
        when: step.when.as_ref().map(raw),
        keeps_keys: of_run.asks_people,
        done_by: Vec::new(),
    };
    let input = raw(&written(step));
    StepSubmission {
        key: step.key.as_str().into(),
        kind: step.kind().into(),
        queue: queue.into(),
        priority: of_run.priority,
        policy,
        upstreams,
        terms,
        budget: step.ceiling.map(limits_of).map(|limits| Box::new(of_limits(limits))),
        input_digest: Digest::of(&[input.as_str().as_bytes()]),
        input,
        traceparent: of_run.traceparent.cloned(),
        fingerprint: Digest::of(&[b"step", text.as_bytes()]),
    }
}

/// The input of a worker, or what people are asked as it was written.
fn written(step: &PlanStep) -> wire::Json {
    match step.approval.as_ref().filter(|_| step.composes()) {
        Some(terms) => wire::Json::from_value(&Question::of(terms)).expect("JSON has a JSON form"),
        None => step.input.clone(),
    }
}

pub(super) const fn limits_of(ceiling: Ceiling) -> Limits {
    let Ceiling { cost_micros, tokens, tool_calls, steps } = ceiling;
    Limits { cost_micros, tokens, steps, tool_calls }
}

fn of_limits(limits: Limits) -> Budget {
    Budget { limits, ..Budget::default() }
}

/// The run itself: it waits in the queue of its first step, for whoever may read that queue.
pub(super) fn begin(run: &mut SubmitRun, plan: &Plan) {
    run.kind = ROOT_KIND.to_owned();
    let first = plan.steps.first();
    run.queue = first.map_or_else(String::new, |first| plan.queue_of(first).to_owned());
}
