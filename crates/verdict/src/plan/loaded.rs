//! What is loaded for a request about the root of a plan: see the table in [`super`].

use crate::event::Subject;
use crate::id::Name;
use crate::run::Named;

use super::step::{Blame, PlanStep};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanLoaded {
    /// The row of the step that ended, without its upstreams, which no rule reads once the step is spawned.
    pub ended: Option<StepRow>,
    /// The next downstreams of a step, in the order of their keys: at most [`super::limits::STEPS_PER_DECISION`]. Without
    /// their upstreams: a step that joins thousands would otherwise be read whole at the end of each.
    pub downstreams: Vec<StepRow>,
    pub has_more_downstreams: bool,
    /// The next steps to spawn, in the order of the plan: at most [`super::limits::STEPS_PER_DECISION`].
    pub unspawned: Vec<StepRow>,
}

/// A step as the root knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StepRow {
    pub step: PlanStep,
    pub is_spawned: bool,
    /// How many of its upstreams have not ended, as far as the root has counted.
    pub missing: u32,
    /// The first upstream that keeps it from running.
    pub blame: Option<Blame>,
}

/// What of a plan one request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanNeed<'a> {
    /// The row of the step with this key, and its first downstreams.
    Ended { key: &'a Name },
    /// The downstreams of this step after this key.
    Downstreams { of: &'a Name, after: Option<&'a Name> },
    /// The steps from this place of the plan on.
    Unspawned { from: u32 },
}

impl<'a> PlanNeed<'a> {
    /// What a request that names this needs of the plan; `None` for every task that is not the root of a plan with steps.
    pub fn of(named: &'a Named, subject: &'a Subject) -> Option<Self> {
        let root = subject.live()?.plan_root()?;
        if let Some(key) = named.keys.first() {
            return Some(PlanNeed::Ended { key });
        }
        if !named.slice {
            return None;
        }
        if !root.is_all_spawned() {
            return Some(PlanNeed::Unspawned { from: root.spawned });
        }
        let next = root.backlog.first()?;
        Some(PlanNeed::Downstreams { of: &next.ended.key, after: next.after.as_ref() })
    }
}

impl StepRow {
    /// A step at the time of its submission.
    pub fn of(step: &PlanStep) -> Self {
        let missing = step.upstreams.len() as u32;
        Self { step: step.clone(), is_spawned: false, missing, blame: None }
    }

    pub(crate) fn without_upstreams(&self) -> Self {
        let Self { step, is_spawned, missing, blame } = self;
        let (child, terms) = (step.child.clone(), step.terms.clone());
        let step = PlanStep { child, upstreams: [].into(), terms };
        Self { step, is_spawned: *is_spawned, missing: *missing, blame: blame.clone() }
    }
}
