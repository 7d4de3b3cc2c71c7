//! The tasks of a deployment: an event is a task, a work order a run with the stages execute and gate.
//!
//! Their keys name what caused them, so a cause has one task however often it is looked at.

use std::collections::BTreeMap;
use std::sync::Arc;

use edge::digests;
use serde::{Deserialize, Serialize};
use topology::Topology;
use topology::declaration::{Budget as Declared, Check, Gate, Role};
use topology::deployment::{Event, WorkOrder};
use verdict::plan::Stage;
use verdict::topology::{
    DECIDE, EXECUTE, GATE, GATE_KIND, JUDGE_PREFIX, JUDGED, KEY_PREFIX, PEOPLE_PREFIX, event_queue,
    gate_queue, outside_gate_queue,
};
use verdict::{Scope, Span};
use wire::OnError;
use wire::approvals::ApprovalTerms;
use wire::names::DEPLOYMENT_LABEL;
use wire::plan::{Plan, PlanStep};
use wire::requests::{Budget, SubmitRun};

use super::rows::prefix;
use crate::item::Submission;
use crate::requests::checked_submission;
use crate::submit_defaults::SubmitDefaults;

/// How long a role of a coordinator that died keeps an event or a gate from the next one. A role needs milliseconds, and one that
/// takes longer loses no more than its turn.
const ROLE_LEASE_MS: u64 = 5_000;

/// The same for an outside process, behind a network, which may ask a person or a model.
const OUTSIDE_LEASE_MS: u64 = 30_000;

/// How often an event or a gate may be lost with the coordinator that had it: coordinators are restarted.
const ROLE_TRIES: u32 = 100;

/// A cent, in millionths of the unit of currency.
const MICROS_PER_CENT: u64 = 10_000;

/// The input of an event's task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventInput {
    pub(crate) deployment: String,
    pub(crate) generation: u32,
    pub(crate) event: Event,
}

/// Which deployment a task is made for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner<'a> {
    pub(crate) scope: &'a Scope,
    pub(crate) deployment: &'a str,
    pub(crate) generation: u32,
}

impl Owner<'_> {
    /// The idempotency key of an event or work order.
    pub(crate) fn key(self, id: &str) -> String {
        format!("{KEY_PREFIX}{}/{id}", prefix(self.deployment, self.generation))
    }

    fn labels(self) -> BTreeMap<String, String> {
        BTreeMap::from([(DEPLOYMENT_LABEL.to_owned(), self.deployment.to_owned())])
    }

    fn submission(self, id: &str, run: SubmitRun) -> Submission {
        let key = self.key(id);
        let mut made =
            checked_submission(self.scope, run, Some(key.clone()), &SubmitDefaults::default());
        // Whatever was read meanwhile: a cause has one task.
        made.spec.fingerprint = digests::firing(&key);
        made
    }

    /// The task of an event. Events whose work orders go one after the other wait in a queue of their own, the tracks
    /// that go first in front.
    pub(crate) fn event(self, topology: &Topology, event: &Event) -> Submission {
        let role = topology.scheduler_of(&event.kind).map(|(_, role)| role);
        let track = role.and_then(|role| role.track.as_deref());
        let queue = event_queue(self.deployment, topology.serial_key(track));
        let input = EventInput {
            deployment: self.deployment.to_owned(),
            generation: self.generation,
            event: event.clone(),
        };
        let run = SubmitRun {
            kind: event.kind.clone(),
            queue: queue.to_string(),
            input: json(&input),
            priority: Some(-i32::try_from(topology.rank(track)).unwrap_or(i32::MAX)),
            lease_ms: Some(role.map_or(ROLE_LEASE_MS, lease_ms)),
            max_attempts: Some(ROLE_TRIES),
            lost_max: Some(ROLE_TRIES),
            labels: self.labels(),
            ..SubmitRun::default()
        };
        self.submission(&event.id, run)
    }

    /// A stage that judges, whatever happened before it.
    fn gate(self, key: &str, role: Option<(&str, &Role)>) -> PlanStep {
        let queue = match role {
            Some((name, role)) if role.outside => outside_gate_queue(self.deployment, name),
            _ => gate_queue(self.deployment),
        };
        PlanStep {
            key: key.to_owned(),
            kind: GATE_KIND.to_owned(),
            queue: queue.to_string(),
            max_attempts: Some(ROLE_TRIES),
            lost_max: Some(ROLE_TRIES),
            lease_ms: Some(role.map_or(ROLE_LEASE_MS, |(_, role)| lease_ms(role))),
            always: true,
            gate: true,
            ..PlanStep::default()
        }
    }

    /// The run of a work order. Its snapshot is the input of the executor, which may take as long as its budget says in each
    /// attempt; the gate follows whatever became of it.
    pub(crate) fn work_order(self, topology: &Topology, order: &WorkOrder) -> Submission {
        let template = topology.template(&order.template);
        let attempts = template.map_or(1, |template| template.attempts);
        let execute = PlanStep {
            key: EXECUTE.to_owned(),
            kind: order.kind.clone(),
            queue: order.queue.clone(),
            input: json(&order.snapshot),
            max_attempts: Some(attempts),
            lost_max: Some(attempts),
            ..PlanStep::default()
        };
        let judge = topology.judge_of(&order.template);
        let mut steps = vec![execute, self.gate(GATE, judge)];
        if let Some(gate) = topology.gate_of(&order.template) {
            let (judges, people) = (judges(gate, order), people(gate, order));
            let is_asking = !judges.is_empty() || !people.is_empty();
            let is_both = !judges.is_empty() && !people.is_empty();
            steps.extend(judges);
            steps.extend(is_both.then(|| self.gate(JUDGED, judge)));
            steps.extend(people);
            steps.extend(is_asking.then(|| self.gate(DECIDE, judge)));
        }
        let run = SubmitRun {
            plan: Some(Plan { steps }),
            labels: self.labels(),
            budget: template.and_then(|template| budget(&template.budget)),
            ..SubmitRun::default()
        };
        let mut made = self.submission(&order.id, run);
        let limit = Some(Span::from_millis(order.budget_ms));
        made.policy.attempt_limit = limit;
        if let Some(stages) = &made.stages {
            let mut stages = stages.to_vec();
            if let Some(execute) = stages.first_mut() {
                execute.policy.attempt_limit = limit;
                // What people wrote in artifacts refers to nothing.
                execute.has_references = false;
            }
            stages.iter_mut().for_each(show_output);
            made.stages = Some(Arc::from(stages));
        }
        made
    }
}

/// The stages that ask the judges of a gate, once its checks of data hold. Who does not answer in time fails the check and not the work
/// order: the last stage decides.
fn judges(gate: &Gate, order: &WorkOrder) -> Vec<PlanStep> {
    let step = |check: &Check| {
        let judge = check.judge.as_ref()?;
        let input = serde_json::json!({"check": check.name, "workOrder": order.id,
            "output": {"$from": EXECUTE}});
        Some(PlanStep {
            key: format!("{JUDGE_PREFIX}{}", check.name),
            kind: judge.kind.clone(),
            queue: judge.queue.clone(),
            input: json(&input),
            on_error: Some(OnError::Continue),
            deadline_ms: Some(judge.within.ms()),
            ..PlanStep::default()
        })
    };
    gate.checks.iter().filter_map(step).collect()
}

/// People decide about what the executor has made, and see it.
fn show_output(stage: &mut Stage) {
    if let Some(terms) = &mut stage.asks {
        Arc::make_mut(terms).shows = Some(EXECUTE.into());
    }
}

/// The stages that ask people.
fn people(gate: &Gate, order: &WorkOrder) -> Vec<PlanStep> {
    let step = |check: &Check| {
        let people = check.people.as_ref()?;
        let approval = ApprovalTerms {
            roles: vec!["approver".to_owned(), "admin".to_owned()],
            expires_in_ms: Some(people.within.ms()),
            subject: Some(format!("{} ({})", people.ask, order.id)),
            ..ApprovalTerms::default()
        };
        Some(PlanStep {
            key: format!("{PEOPLE_PREFIX}{}", check.name),
            approval: Some(approval),
            on_error: Some(OnError::Continue),
            ..PlanStep::default()
        })
    };
    gate.checks.iter().filter_map(step).collect()
}

/// How long a role has an event or a work order.
fn lease_ms(role: &Role) -> u64 {
    let usual = if role.outside { OUTSIDE_LEASE_MS } else { ROLE_LEASE_MS };
    role.lease.map_or(usual, |lease| lease.ms())
}

fn budget(declared: &Declared) -> Option<Budget> {
    let Declared { time: _, steps, tokens, cents } = declared;
    let cost_micros = cents.map(|cents| cents.saturating_mul(MICROS_PER_CENT));
    let budget = Budget { cost_micros, tokens: *tokens, steps: *steps, ..Budget::default() };
    (budget != Budget::default()).then_some(budget)
}

fn json(value: &impl Serialize) -> wire::Json {
    let text = serde_json::to_string(value).expect("what was read can be written again");
    wire::Json::from_text(text).expect("it was just written")
}
