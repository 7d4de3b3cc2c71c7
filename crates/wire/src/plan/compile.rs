//! The check of a plan, and what a plan comes to: stages of one task, or tasks with edges.

use std::collections::BTreeMap;

use super::condition;
use super::graph::Graph;
use super::problem::{PROBLEMS_MAX, PlanProblem};
use super::references::{self, Reference};
use super::{EDGES_MAX, PATH_MAX, Plan, PlanStep, STAGES_MAX, STEPS_MAX};
use crate::limits::{INTEGER_MAX, PAYLOAD_DEPTH_MAX};
use crate::{Check, OnError};

/// Steps that a message about a cycle names; a longer one is cut in the middle of its path.
const CYCLE_SHOWN: usize = 10;

/// Maximum bytes of all contents that a plan has for people to approve: they are part of the row of its task.
const CONTENTS_BYTES_MAX: usize = 128 * 1024;

/// How the steps of a plan run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanForm {
    /// One after the other, as stages of one task.
    Stages,
    /// As tasks, each after its upstreams.
    Steps,
}

/// A plan that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    pub form: PlanForm,
    /// The places of the steps in an order in which each comes after its upstreams.
    pub order: Vec<usize>,
    /// For each step, the places of the steps that it depends on. Empty lists for stages.
    pub upstreams: Vec<Vec<usize>>,
    /// For each step, the references in its input.
    pub references: Vec<Vec<Reference>>,
    /// How many steps the longest path has.
    pub longest_path: usize,
}

impl Compiled {
    pub fn edges(&self) -> usize {
        self.upstreams.iter().map(Vec::len).sum()
    }
}

impl Plan {
    /// Checks the plan as a whole: all that is wrong, at most [`PROBLEMS_MAX`], in the order of the plan.
    pub fn compile(&self) -> Result<Compiled, Vec<PlanProblem>> {
        let mut check = PlanCheck::new(self);
        check.counts();
        if check.problems.is_empty() {
            check.keys();
            check.members();
            let upstreams = check.upstreams();
            return check.finish(upstreams);
        }
        Err(check.problems)
    }

    fn form(&self) -> PlanForm {
        match self.steps.iter().any(|step| step.depends_on.is_some()) {
            true => PlanForm::Steps,
            false => PlanForm::Stages,
        }
    }
}

struct PlanCheck<'a> {
    plan: &'a Plan,
    form: PlanForm,
    /// The first step of each key.
    places: BTreeMap<&'a str, usize>,
    problems: Vec<PlanProblem>,
}

impl<'a> PlanCheck<'a> {
    fn new(plan: &'a Plan) -> Self {
        Self { plan, form: plan.form(), places: BTreeMap::new(), problems: Vec::new() }
    }

    fn wrong(&mut self, step: Option<usize>, member: &str, message: impl Into<String>) {
        if self.problems.len() >= PROBLEMS_MAX {
            return;
        }
        let key = step.map(|place| self.plan.steps[place].key.clone());
        let field = match step {
            Some(place) if member.is_empty() => format!("steps[{place}]"),
            Some(place) => format!("steps[{place}].{member}"),
            None => member.to_owned(),
        };
        self.problems.push(PlanProblem { step, key, field, message: message.into() });
    }

    /// With too many steps nothing else is looked at: the work of a check is bounded.
    fn counts(&mut self) {
        let steps = self.plan.steps.len();
        let edges: usize =
            self.plan.steps.iter().filter_map(|step| step.depends_on.as_ref()).map(Vec::len).sum();
        let asked =
            self.plan.steps.iter().filter_map(|step| step.approval.as_ref()?.content.as_ref());
        let contents: usize = asked.map(|content| content.text().len()).sum();
        if contents > CONTENTS_BYTES_MAX {
            let message = format!(
                "have {contents} bytes in `approval.content`, and may have {CONTENTS_BYTES_MAX}; refer to the output of a step"
            );
            self.wrong(None, "steps", message);
        }
        let (max, remedy) = match self.form {
            PlanForm::Stages => (STAGES_MAX, "without `dependsOn`; give steps `dependsOn`"),
            PlanForm::Steps => (STEPS_MAX, "in one plan; start further runs from a step"),
        };
        if steps == 0 {
            self.wrong(None, "steps", "is empty; a plan has at least one step");
        } else if steps > max {
            self.wrong(None, "steps", format!("has {steps} entries, and may have {max} {remedy}"));
        }
        if edges > EDGES_MAX {
            let message = format!(
                "have {edges} entries in `dependsOn`, and may have {EDGES_MAX}; let steps depend on a step that joins others"
            );
            self.wrong(None, "steps", message);
        }
    }

    fn keys(&mut self) {
        for (place, step) in self.plan.steps.iter().enumerate() {
            match self.places.get(step.key.as_str()) {
                Some(first) => {
                    let message = format!("is the key of steps[{first}] too; keys are unique");
                    self.wrong(Some(place), "key", message);
                }
                None => {
                    self.places.insert(&step.key, place);
                }
            }
        }
    }

    fn members(&mut self) {
        for (place, step) in self.plan.steps.iter().enumerate() {
            if let Err(wrong) = crate::check_name("key", &step.key) {
                self.wrong(Some(place), "key", wrong.message);
            }
            match &step.approval {
                None => {
                    if let Err(wrong) = step.as_run().check() {
                        self.wrong(Some(place), &wrong.field, wrong.message);
                    }
                }
                Some(terms) => {
                    if let Err(wrong) = terms.check() {
                        let field = format!("approval.{}", wrong.field);
                        self.wrong(Some(place), &field, wrong.message);
                    }
                    if terms.content.is_some() && terms.digest.is_some() {
                        let message =
                            "is that of `content`, and is made when people are asked; leave it out";
                        self.wrong(Some(place), "approval.digest", message);
                    }
                    if terms.subject_from.is_some() && terms.subject.is_some() {
                        let message = "is given together with `subject`; send one of them";
                        self.wrong(Some(place), "approval.subjectFrom", message);
                    }
                }
            }
            for (member, message) in step_problems(step) {
                self.wrong(Some(place), member, message);
            }
        }
    }

    /// The upstreams of each step, as far as they can be followed.
    fn upstreams(&mut self) -> Vec<Vec<usize>> {
        let plan = self.plan;
        let all = plan.steps.iter().enumerate();
        all.map(|(place, step)| self.upstreams_of(place, step)).collect()
    }

    fn upstreams_of(&mut self, place: usize, step: &PlanStep) -> Vec<usize> {
        let mut found = Vec::new();
        for (index, name) in step.depends_on.iter().flatten().enumerate() {
            let member = format!("dependsOn[{index}]");
            match self.places.get(name.as_str()).copied() {
                None => {
                    let message = format!("names `{name}`, which is no step of this plan");
                    self.wrong(Some(place), &member, message);
                }
                Some(upstream) if upstream == place => {
                    self.wrong(Some(place), &member, "names the step itself; remove it");
                }
                Some(upstream) if found.contains(&upstream) => {
                    self.wrong(Some(place), &member, format!("names `{name}` again; remove it"));
                }
                Some(upstream) => found.push(upstream),
            }
        }
        found
    }

    fn finish(mut self, upstreams: Vec<Vec<usize>>) -> Result<Compiled, Vec<PlanProblem>> {
        let graph = Graph::new(&upstreams);
        for cycle in graph.cycles(PROBLEMS_MAX) {
            let path = self.path(&cycle);
            self.wrong(Some(cycle[0]), "dependsOn", format!("leads back to the step: {path}"));
        }
        let ordered = graph.order();
        let longest_path = match self.form {
            PlanForm::Stages => self.plan.steps.len(),
            PlanForm::Steps => ordered.depths.iter().copied().max().unwrap_or(0),
        };
        if let Some(place) = ordered.depths.iter().position(|depth| *depth > PATH_MAX) {
            let message = format!(
                "puts the step at the end of a path of more than {PATH_MAX} steps; use a durable function for long sequences"
            );
            self.wrong(Some(place), "dependsOn", message);
        }
        let references = self.references(&graph);
        self.problems.sort_by_key(|problem| problem.step);
        match self.problems.is_empty() {
            true => {
                let (form, order) = (self.form, ordered.places);
                Ok(Compiled { form, order, upstreams, references, longest_path })
            }
            false => Err(self.problems),
        }
    }

    /// A cycle for people: every step depends on the next.
    fn path(&self, cycle: &[usize]) -> String {
        let key = |place: &usize| self.plan.steps[*place].key.as_str();
        let mut shown: Vec<&str> = cycle.iter().map(key).collect();
        if shown.len() > CYCLE_SHOWN {
            shown.splice(CYCLE_SHOWN / 2..shown.len() - CYCLE_SHOWN / 2, ["…"]);
        }
        shown.push(key(&cycle[0]));
        shown.join(" → ")
    }

    fn references(&mut self, graph: &Graph<'_>) -> Vec<Vec<Reference>> {
        let plan = self.plan;
        let all = plan.steps.iter().enumerate();
        all.map(|(place, step)| self.references_of(place, step, graph)).collect()
    }

    fn references_of(
        &mut self,
        place: usize,
        step: &PlanStep,
        graph: &Graph<'_>,
    ) -> Vec<Reference> {
        let (mut all, mut known) = (Vec::new(), BTreeMap::new());
        for (member, written) in step.written() {
            let (found, malformed) = references::find(written);
            for wrong in malformed {
                self.wrong(Some(place), &format!("{member}{}", wrong.place), wrong.message);
            }
            for reference in found {
                let message = known
                    .entry(reference.step.clone())
                    .or_insert_with(|| self.reference_problem(place, &reference.step, graph));
                if let Some(message) = message.clone() {
                    self.wrong(Some(place), &format!("{member}{}", reference.place), message);
                }
                all.push(reference);
            }
        }
        self.condition(place, step, graph);
        all
    }

    /// A condition is one of the language, and speaks about steps that have ended.
    fn condition(&mut self, place: usize, step: &PlanStep, graph: &Graph<'_>) {
        let steps = match step.when.as_ref().map(condition::check) {
            None => return,
            Some(Ok(steps)) => steps,
            Some(Err(message)) => return self.wrong(Some(place), "when", message),
        };
        for name in steps {
            if let Some(message) = self.reference_problem(place, &name, graph) {
                self.wrong(Some(place), "when", message);
            }
        }
    }

    fn reference_problem(&self, place: usize, name: &str, graph: &Graph<'_>) -> Option<String> {
        let Some(referred) = self.places.get(name).copied() else {
            return Some(format!("refers to `{name}`, which is no step of this plan"));
        };
        let (has_ended, remedy) = match self.form {
            PlanForm::Stages => (referred < place, "refer to an earlier step"),
            PlanForm::Steps => (graph.is_upstream(place, referred), "add it to `dependsOn`"),
        };
        let message = || {
            format!("refers to `{name}`, which may not have ended when this step starts; {remedy}")
        };
        (!has_ended).then(message)
    }
}

/// What is wrong with a step that no run could have.
fn step_problems(step: &PlanStep) -> Vec<(&'static str, String)> {
    let mut problems = Vec::new();
    let aborts = step.on_error() == OnError::Abort;
    for (member, is_given) in [
        ("maxAttempts", step.max_attempts.is_some_and(|max| max > 1)),
        ("retry", step.retry.is_some()),
    ] {
        if aborts && is_given {
            let message = "has no effect with `onError: abort`, which ends the step at its first failure; remove one of them";
            problems.push((member, message.to_owned()));
        }
    }
    let refused = asking_problems(step);
    problems.extend(refused.into_iter().map(|member| {
        let message = "is for workers, and a step with `approval` has none; remove one of them";
        (member, message.to_owned())
    }));
    if references::depth(step.input.text()) > PAYLOAD_DEPTH_MAX {
        problems.push(("input", format!("must have at most {PAYLOAD_DEPTH_MAX} levels")));
    }
    let ceiling = step.ceiling.unwrap_or_default();
    let parts = [
        ("ceiling.costMicros", ceiling.cost_micros),
        ("ceiling.tokens", ceiling.tokens),
        ("ceiling.toolCalls", ceiling.tool_calls),
        ("ceiling.steps", ceiling.steps),
    ];
    for (member, value) in parts {
        if value.is_some_and(|value| value > INTEGER_MAX) {
            problems.push((member, format!("must be at most {INTEGER_MAX}")));
        }
    }
    problems
}

/// The members of a step with `approval` that only mean something to a worker. `onError` may say whether the plan goes on.
fn asking_problems(step: &PlanStep) -> Vec<&'static str> {
    if step.approval.is_none() {
        return Vec::new();
    }
    let members = [
        ("kind", !step.kind.is_empty()),
        ("queue", !step.queue.is_empty()),
        ("input", !step.input.is_null()),
        ("onError", step.on_error == Some(OnError::Retry)),
        ("maxAttempts", step.max_attempts.is_some()),
        ("lostMax", step.lost_max.is_some()),
        ("retry", step.retry.is_some()),
        ("leaseMs", step.lease_ms.is_some()),
        ("heartbeatIntervalMs", step.heartbeat_interval_ms.is_some()),
        ("cancelGraceMs", step.cancel_grace_ms.is_some()),
        ("ceiling", step.ceiling.is_some()),
        ("gate", step.gate),
    ];
    members.into_iter().filter(|(_, is_given)| *is_given).map(|(member, _)| member).collect()
}
