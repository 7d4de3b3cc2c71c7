//! The steps of a plan as they are stored with their root: written once with the submission, like an input.
//!
//! What changes is the count of missing upstreams and the first one that keeps a step from running. Whether a step was
//! spawned follows from its place: the root spawns them in order.

use verdict::plan::{Blame, PlanStep, StepRow};
use verdict::{Name, Subject};

use crate::row::Spec;

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredStep {
    /// Its place in the plan, from 0.
    pub place: u32,
    pub step: PlanStep,
    /// What its task is created with.
    pub spec: Spec,
    pub missing: u32,
    pub blame: Option<Blame>,
}

/// What a decision changes about a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedStep<'a> {
    pub key: &'a Name,
    pub missing: u32,
    pub blame: Option<&'a Blame>,
}

impl StoredStep {
    /// A step at the time of its submission.
    pub fn new(place: u32, step: PlanStep, spec: Spec) -> Self {
        let missing = step.upstreams.len() as u32;
        Self { place, step, spec, missing, blame: None }
    }

    pub fn key(&self) -> &Name {
        &self.step.child.key
    }

    /// What it waits for, if it has upstreams.
    pub fn count(&self) -> Option<CountedStep<'_>> {
        let Self { missing, blame, .. } = self;
        let counted = CountedStep { key: self.key(), missing: *missing, blame: blame.as_ref() };
        (!self.step.upstreams.is_empty()).then_some(counted)
    }

    /// The step as the rules know it, given how many steps its root has spawned.
    pub fn row(&self, spawned: u32) -> StepRow {
        let Self { place, step, spec: _, missing, blame } = self.clone();
        StepRow { step, is_spawned: place < spawned, missing, blame }
    }
}

/// How many steps the root of a plan has spawned.
pub(crate) fn spawned(subject: &Subject) -> u32 {
    subject.live().and_then(|task| task.plan_root()).map_or(0, |root| root.spawned)
}
