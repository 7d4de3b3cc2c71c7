//! What is submitted: the members that the rules read, and those that are only kept ([`Spec`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::budget::Budget;
use crate::flow::FlowKey;
use crate::flow::debounce::DebounceCall;
use crate::id::{Digest, Json, Name, Scope, TaskId, Text};
use crate::key::IdempotencyKey;
use crate::plan::{PlanForm, PlanRequest, PlanStep, PlanSubmit, Stage, StepTerms};
use crate::policy::Policy;
use crate::request::{Request, Submit};
use crate::run::{ChildCall, Inherited, RunRequest};
use crate::time::{Span, Time};

/// A task to be created. Its id is assigned when it is decided, so that ids sort by acceptance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    pub scope: Scope,
    pub kind: Name,
    pub queue: Name,
    pub priority: i32,
    pub policy: Policy,
    pub run_at: Option<Time>,
    /// The earliest start as time from the decision, where `run_at` is not given.
    pub delay: Option<Span>,
    /// The deadline as time from the decision, where the policy has none.
    pub deadline_in: Option<Span>,
    /// What it may use.
    pub budget: Option<Box<Budget>>,
    /// The key of which only so many tasks are leased at once.
    pub flow: Option<Box<FlowKey>>,
    /// That the run waits for a newer one with its key. Only for what clients submit.
    pub debounce: Option<DebounceCall>,
    pub spec: Spec,
    /// The stages of a run with a plan. Kind, queue and policy are those of the first, except for the deadline.
    pub stages: Option<Arc<[Stage]>>,
    /// What the run takes over from one that has ended; `None` for all but forks.
    pub fork: Option<Arc<Fork>>,
    /// The steps of a run whose plan has edges. Kind and queue are those of its root, which no worker gets.
    pub steps: Option<Arc<PlannedSteps>>,
}

/// What a new run takes over from a run that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fork {
    pub from: TaskId,
    /// The digest of the old run's record.
    pub record: Digest,
    /// In the order in which they are taken over.
    pub items: Vec<ForkItem>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForkItem {
    Record(Inherited),
    /// A child that starts again. Its id is assigned when the fork is decided.
    Again {
        key: Name,
        input: Digest,
        child: Box<Submission>,
    },
}

/// The steps of a plan, upstreams first. Their ids are assigned when the run is decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedSteps {
    /// The digest of the plan as it was written.
    pub digest: Digest,
    pub steps: Vec<StepSubmission>,
}

/// A step whose task has an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewStep {
    pub step: PlanStep,
    /// What its task is created with.
    pub spec: Spec,
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepSubmission {
    pub key: Name,
    pub kind: Name,
    pub queue: Name,
    pub priority: i32,
    pub policy: Policy,
    pub upstreams: Arc<[Name]>,
    pub terms: StepTerms,
    /// Its ceiling.
    pub budget: Option<Box<Budget>>,
    /// As it was written, references included.
    pub input: Json,
    pub input_digest: Digest,
    pub traceparent: Option<Text>,
    pub fingerprint: Digest,
}

/// The parts of a submission that no rule reads. Written once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    pub input: Json,
    pub goal: Option<Text>,
    pub task_key: Option<Name>,
    pub asset_id: Option<Text>,
    pub resources: Option<Resources>,
    pub labels: BTreeMap<String, String>,
    pub traceparent: Option<Text>,
    /// The idempotency key as the client wrote it.
    pub key: Option<Text>,
    pub fingerprint: Digest,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    pub memory_bytes: Option<u64>,
    pub cpu_millicores: Option<u64>,
    pub timeout_ms: Option<u64>,
}

impl PlannedSteps {
    /// The steps in their order, each with the id of its task.
    pub fn created(&self, scope: &Scope, mut next_id: impl FnMut() -> TaskId) -> Vec<NewStep> {
        self.steps.iter().map(|step| step.created(scope, next_id())).collect()
    }
}

impl StepSubmission {
    fn created(&self, scope: &Scope, id: TaskId) -> NewStep {
        let submit = Submit {
            id,
            scope: scope.clone(),
            kind: self.kind.clone(),
            queue: self.queue.clone(),
            priority: self.priority,
            policy: self.policy.clone(),
            run_at: None,
            input: self.input_digest,
            budget: self.budget.clone(),
            flow: None,
            fingerprint: self.fingerprint,
        };
        let spec = Spec {
            input: self.input.clone(),
            goal: None,
            task_key: Some(self.key.clone()),
            asset_id: None,
            resources: None,
            labels: BTreeMap::new(),
            traceparent: self.traceparent.clone(),
            key: None,
            fingerprint: self.fingerprint,
        };
        let child = ChildCall { key: self.key.clone(), is_detached: false, submit };
        let step = PlanStep { child, upstreams: self.upstreams.clone(), terms: self.terms.clone() };
        NewStep { step, spec }
    }
}

impl Submission {
    /// The queues in which it waits, one after the other or side by side.
    pub fn queues(&self) -> impl Iterator<Item = &Name> {
        let stages = self.stages.iter().flat_map(|stages| stages.iter()).map(|stage| &stage.queue);
        let steps = self.steps.iter().flat_map(|planned| &planned.steps).map(|step| &step.queue);
        let items = self.fork.iter().flat_map(|fork| &fork.items);
        let again = items.filter_map(|item| match item {
            ForkItem::Again { child, .. } => Some(&child.queue),
            ForkItem::Record(_) => None,
        });
        std::iter::once(&self.queue).chain(stages).chain(steps).chain(again)
    }

    pub fn idempotency_key(&self) -> Option<IdempotencyKey> {
        let text = self.spec.key.clone()?;
        Some(IdempotencyKey { scope: self.scope.clone(), text })
    }

    /// The task that it asks for, with its id and the digest of its input.
    pub fn submit(&self, id: TaskId, input: Digest, now: Time) -> Submit {
        Submit {
            budget: self.budget.clone(),
            flow: self.flow.clone(),
            id,
            scope: self.scope.clone(),
            kind: self.kind.clone(),
            queue: self.queue.clone(),
            priority: self.priority,
            policy: self.policy_at(now),
            run_at: self.starts_at(now),
            input,
            fingerprint: self.spec.fingerprint,
        }
    }

    /// The request that is decided, with the plan if it has one.
    pub fn request(&self, submit: Submit, steps: &[NewStep]) -> Request {
        let form = match (&self.stages, &self.steps) {
            (Some(stages), _) => {
                PlanForm::Stages { digest: submit.input, stages: Arc::clone(stages) }
            }
            (None, Some(planned)) => {
                PlanForm::Steps { digest: planned.digest, count: steps.len() as u32 }
            }
            (None, None) => return Request::Submit(submit),
        };
        let steps = steps.iter().map(|new| new.step.clone()).collect();
        let plan = PlanSubmit { submit, form, steps };
        Request::Run(Box::new(RunRequest::Plan(PlanRequest::Submit(plan))))
    }

    /// Spans begin when the submission is decided. A repeated submission is recognised by the spans as sent, and keeps
    /// the instants of the first.
    pub fn starts_at(&self, now: Time) -> Option<Time> {
        self.run_at.or_else(|| self.delay.map(|delay| now.plus(delay)))
    }

    pub fn policy_at(&self, now: Time) -> Policy {
        let deadline = self.deadline_in.map(|span| now.plus(span));
        Policy { deadline: self.policy.deadline.or(deadline), ..self.policy.clone() }
    }
}
