//! Plans: the bytes are a plan in JSON.

use std::collections::BTreeSet;

use wire::Json;
use wire::plan::{Compiled, PROBLEMS_MAX, Plan, PlanForm, PlanStep, resolve};

/// What compiles is acyclic and every step of it can end; what does not says why, step by step, within a bound.
pub fn plan(bytes: &[u8]) {
    let Ok(plan) = serde_json::from_slice::<Plan>(bytes) else { return };
    match plan.compile() {
        Err(problems) => {
            assert!(!problems.is_empty() && problems.len() <= PROBLEMS_MAX);
            for problem in &problems {
                assert!(!problem.message.is_empty() && !problem.field.is_empty());
                let is_named = problem.step.is_none_or(|place| place < plan.steps.len());
                assert!(is_named, "{problem}");
            }
        }
        Ok(compiled) => accepted(&plan, &compiled),
    }
}

fn accepted(plan: &Plan, compiled: &Compiled) {
    let mut ended = BTreeSet::new();
    for place in &compiled.order {
        let upstreams = &compiled.upstreams[*place];
        assert!(upstreams.iter().all(|upstream| ended.contains(upstream)), "a step runs too early");
        let step = &plan.steps[*place];
        for reference in &compiled.references[*place] {
            let is_ended =
                ended.iter().any(|place: &usize| plan.steps[*place].key == reference.step);
            assert!(is_ended, "a reference leads to a step that may not have ended");
        }
        resolves(step, compiled.references[*place].is_empty());
        assert!(ended.insert(*place), "a step ends once");
    }
    assert_eq!(ended.len(), plan.steps.len(), "every step ends");
    let has_edges = plan.steps.iter().any(|step| step.depends_on.is_some());
    assert_eq!(compiled.form == PlanForm::Steps, has_edges);
    let text = serde_json::to_vec(plan).expect("a plan that was read can be written");
    let again: Plan = serde_json::from_slice(&text).expect("and read again");
    assert_eq!(again.compile().as_ref(), Ok(compiled));
}

/// Resolving leaves valid JSON, and fails only if there is something to resolve.
fn resolves(step: &PlanStep, is_plain: bool) {
    let output = Json::null();
    match resolve(&step.input, |_| Some(&output)) {
        Ok(resolved) => {
            let read = Json::from_text(resolved.text().to_owned());
            assert!(read.is_ok(), "{}", resolved.text());
        }
        Err(unresolved) => assert!(!is_plain, "nothing refers to anything: {unresolved}"),
    }
}
