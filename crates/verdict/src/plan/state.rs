//! What a task of a plan has in its own row besides what every durable run has.

use std::sync::Arc;

use crate::approval::Terms;
use crate::done::End;
use crate::id::{Digest, Name};
use crate::task::{CancelRequest, State, Task};
use crate::time::Time;
use crate::topology;

use super::stage::Stage;
use super::step::{Blame, StepTerms};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PlanState {
    /// The task passes through stages.
    Stages(StagesState),
    /// The task is the root of a plan with steps, and is never leased.
    Root(RootState),
    /// The task is a step of such a plan.
    Step(StepTerms),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StagesState {
    /// Never changes, never empty.
    pub stages: Arc<[Stage]>,
    /// The stage that the task is in, from 0.
    pub current: u32,
    /// The number of the last checkpoint before the stage. What was recorded up to it is of no use to the stage.
    pub since: u32,
    /// The deadline of the whole task; the policy has that of the stage.
    pub run_deadline: Option<Time>,
    /// The end that is decided while `always` stages are still to run.
    pub ending: Option<Ending>,
    /// The API keys under which stages were done that people decide about later.
    pub done_by: Vec<Name>,
    /// The digests of the outputs that people are shown later, by the keys of their stages.
    pub outputs: Vec<(Name, Digest)>,
}

/// An end that waits for `always` stages. The first reason to end is final.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ending {
    pub end: End,
    /// The cancel that caused it. It is kept here, because the workers of the remaining stages are not to stop.
    pub cancel: Option<CancelRequest>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RootState {
    pub steps: u32,
    /// The earliest time of the first lease of any step.
    pub start: Time,
    /// How many of them were spawned, in the order of the plan.
    pub spawned: u32,
    /// The step that decides that the run did not succeed.
    pub blame: Option<Blame>,
    /// Ended steps whose downstreams are not all told, in order. At most [`super::limits::BACKLOG_MAX`].
    pub backlog: Vec<Backlog>,
    /// When the next slice is due; `None` if there is nothing to spawn or tell.
    pub due: Option<Time>,
    /// The API keys under which steps were done, where a step asks people.
    pub done_by: Vec<Name>,
}

/// An ended step whose downstreams are to be told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EndedStep {
    pub key: Name,
    pub state: State,
    /// Whether the end keeps them from running.
    pub blocks: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Backlog {
    pub ended: EndedStep,
    /// The key of the last downstream that was told: they are told in the order of their keys.
    pub after: Option<Name>,
}

impl StagesState {
    pub fn stage(&self) -> &Stage {
        &self.stages[self.current as usize]
    }

    /// The digest of the output of a stage that people are shown.
    pub(crate) fn output(&self, stage: &Name) -> Option<Digest> {
        self.outputs.iter().find(|(key, _)| key == stage).map(|(_, digest)| *digest)
    }

    /// The terms of those after the present stage that ask people.
    pub(crate) fn asked_later(&self) -> impl Iterator<Item = &Terms> {
        let rest = self.stages.iter().skip(self.current as usize + 1);
        rest.filter_map(|stage| stage.asks.as_deref())
    }

    /// Whether people decide later about what is done now: a stage asks them, or a gate passes it on to them with an artifact.
    pub(crate) fn is_decided_by_people(&self) -> bool {
        let rest = self.stages.iter().skip(self.current as usize + 1);
        let is_gate = |stage: &Stage| topology::deployment_in(stage.queue.as_str()).is_some();
        self.asked_later().next().is_some() || rest.into_iter().any(is_gate)
    }

    /// Whether what stages use is counted, even if the task has no budget.
    pub(crate) fn has_ceilings(&self) -> bool {
        self.stages.iter().any(|stage| !stage.ceiling.is_empty())
    }

    /// The place of the next stage.
    pub(crate) fn next(&self) -> Option<u32> {
        let next = self.current + 1;
        ((next as usize) < self.stages.len()).then_some(next)
    }

    /// How far a poll for these queues and kinds takes the stages that follow: the place of the last one before the first
    /// that it does not take. `None` if it does not take the next one.
    pub fn taken_until(&self, queues: &[Name], kinds: Option<&[Name]>) -> Option<u32> {
        let takes = |stage: &Stage| {
            queues.contains(&stage.queue) && kinds.is_none_or(|kinds| kinds.contains(&stage.kind))
        };
        let rest = self.stages.iter().skip(self.current as usize + 1);
        let taken = rest.take_while(|stage| takes(stage)).count() as u32;
        (taken > 0).then_some(self.current + taken)
    }

    /// The place of the next stage that runs whatever happened.
    pub(crate) fn next_always(&self) -> Option<u32> {
        let rest = self.stages.iter().enumerate().skip(self.current as usize + 1);
        rest.filter(|(_, stage)| stage.is_always).map(|(place, _)| place as u32).next()
    }
}

impl RootState {
    pub(crate) fn new(steps: u32, start: Time) -> Self {
        let (backlog, done_by) = (Vec::new(), Vec::new());
        Self { steps, start, spawned: 0, blame: None, backlog, due: None, done_by }
    }

    pub fn is_all_spawned(&self) -> bool {
        self.spawned >= self.steps
    }
}

impl Task {
    pub fn plan(&self) -> Option<&PlanState> {
        self.run.as_ref()?.plan.as_deref()
    }

    pub fn stages(&self) -> Option<&StagesState> {
        match self.plan()? {
            PlanState::Stages(stages) => Some(stages),
            PlanState::Root(_) | PlanState::Step(_) => None,
        }
    }

    pub fn plan_root(&self) -> Option<&RootState> {
        match self.plan()? {
            PlanState::Root(root) => Some(root),
            PlanState::Stages(_) | PlanState::Step(_) => None,
        }
    }

    pub fn step_terms(&self) -> Option<&StepTerms> {
        match self.plan()? {
            PlanState::Step(terms) => Some(terms),
            PlanState::Stages(_) | PlanState::Root(_) => None,
        }
    }

    /// Whether a grant must resolve references in the input first.
    pub fn has_references(&self) -> bool {
        match self.plan() {
            Some(PlanState::Stages(stages)) => stages.stage().has_references,
            Some(PlanState::Step(terms)) => terms.has_references,
            Some(PlanState::Root(_)) | None => false,
        }
    }

    /// Whether children must end, or be spawned and end, before the task can.
    pub(crate) fn has_open_children(&self) -> bool {
        self.live_children() > 0 || self.plan_root().is_some_and(|root| !root.is_all_spawned())
    }
}
