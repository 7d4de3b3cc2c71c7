//! What happens to a plan, besides what happens to every task and every durable run.

use crate::done::End;
use crate::event::Submitted;
use crate::id::{Digest, Name, TaskId};
use crate::run::Lineage;
use crate::time::Time;

use super::preparing::Shown;
use super::request::PlanForm;
use super::state::EndedStep;
use super::step::{Blame, PlanStep, StepTerms};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PlanEvent {
    /// The task that was just submitted has a plan.
    Planned(PlanForm),
    /// The task enters a stage while no attempt is open. See [`crate::Next::Stage`] for the other case.
    StageEntered(Turn),
    /// The root spawns the next steps of its plan.
    StepsSpawned(Vec<SpawnedStep>),
    /// A step has ended in a way that decides how the run ends.
    StepBlamed(Blame),
    /// A slice of the downstreams of an ended step is told.
    DownstreamsTold { ended: EndedStep, told: Vec<Told>, has_more: bool },
    /// The first event of a step.
    StepSpawned { submitted: Box<Submitted>, lineage: Lineage, terms: StepTerms, is_blocked: bool },
    /// All upstreams of the step have ended, and it may be leased. One that asks people learns under which API keys steps were
    /// done.
    Released { deadline: Option<Time>, done_by: Vec<Name> },
    /// What the step depends on was read, and it begins. One that asks people shows them this, if it was composed.
    Prepared { shown: Option<Box<Shown>> },
    /// Under which API keys a step was done: in the history of the step, and of its root.
    DoneBy(Vec<Name>),
}

/// A step that is spawned: blocked, ready, or to be skipped at once because of an upstream that ended before.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SpawnedStep {
    pub step: PlanStep,
    pub to: ToldTo,
    pub blame: Option<Blame>,
}

/// The stage that a task enters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Turn {
    pub stage: u32,
    pub due: Time,
    /// How the task ends when the remaining `always` stages have ended; `None` while its end is open.
    pub ending: Option<End>,
    /// The API key under which the stage was done that the task leaves, if people are asked later.
    pub by: Option<Name>,
    /// The digest of that stage's output, if people are shown it later.
    pub output: Option<Digest>,
}

impl Turn {
    /// A stage that follows without anything to remember.
    pub const fn new(stage: u32, due: Time) -> Self {
        Self { stage, due, ending: None, by: None, output: None }
    }
}

/// What the end of an upstream means for one step, and the row of that step afterwards.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Told {
    pub key: Name,
    pub id: TaskId,
    pub missing: u32,
    pub blame: Option<Blame>,
    pub to: ToldTo,
}

/// What a step is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ToldTo {
    /// Nothing: upstreams are missing, it is not spawned yet, or it is about to be cancelled.
    Wait,
    Run,
    Skip,
}

impl PlanEvent {
    pub fn name(&self) -> &'static str {
        match self {
            PlanEvent::Planned(_) => "planned",
            PlanEvent::StageEntered(_) => "stage_entered",
            PlanEvent::StepsSpawned(_) => "steps_spawned",
            PlanEvent::StepBlamed(_) => "step_blamed",
            PlanEvent::DownstreamsTold { .. } => "downstreams_told",
            PlanEvent::StepSpawned { .. } => "step_spawned",
            PlanEvent::Released { .. } => "released",
            PlanEvent::Prepared { .. } => "prepared",
            PlanEvent::DoneBy(_) => "done_by",
        }
    }
}
