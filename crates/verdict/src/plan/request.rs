//! The requests about plans, their answers and their refusals.

use std::sync::Arc;

use crate::attempt::AttemptOutcome;
use crate::id::{Digest, LeaseId, Name, Text};
use crate::request::{Request, Submit};
use crate::task::State;

use super::preparing::Prepared;
use super::stage::Stage;
use super::step::PlanStep;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanRequest {
    /// Decided like a plain submission: with the holder of its idempotency key and the quota.
    Submit(PlanSubmit),
    /// A report that also asks for the next stage.
    Advance(Advance),
    /// The input of a task that is ready refers to something that is not there. No repetition helps.
    InputUnresolved { message: Text },
    /// What was found of the outputs that a step depends on. No caller can send it.
    Prepared(Prepared),
}

/// A run with a plan. `submit` has the members of the run: of a plan with stages, its kind, queue and policy are those of the
/// first stage, except for the deadline, which is the whole run's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanSubmit {
    pub submit: Submit,
    pub form: PlanForm,
    /// All steps of a plan with steps, in the order in which they are spawned: upstreams first. Empty for stages.
    pub steps: Arc<[PlanStep]>,
}

/// What a plan is. The digest is that of the plan as it was written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PlanForm {
    Stages { digest: Digest, stages: Arc<[Stage]> },
    Steps { digest: Digest, count: u32 },
}

/// A report and what the same worker could do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advance {
    /// A report, alone or with what the attempt used.
    pub report: Box<Request>,
    pub next: NextLease,
}

/// A lease that a worker wants with the answer to its report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextLease {
    pub lease: LeaseId,
    /// The last stage that the worker's poll and its key allow: see [`super::StagesState::taken_until`].
    pub until: u32,
    /// Queues from which nothing is leased this way now: they are paused, or a more urgent task is ready in them.
    pub closed_queues: Vec<Name>,
}

impl NextLease {
    /// Marks the lease that came with the answer to the report of this one, so that a repeated report finds it again.
    #[must_use]
    pub fn mark(reported: LeaseId) -> Name {
        Name::from(format!("next/{reported}"))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanAnswer {
    /// The report is recorded. `lease` is that of the next stage, if the worker got it.
    Advanced { outcome: AttemptOutcome, state: State, replayed: bool, lease: Option<LeaseId> },
}

/// Why a request about a plan was refused. Nothing of the request took effect.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PlanRefusal {
    /// A plan without steps would end at once or never.
    Empty,
    /// The plan has more of something than one plan may have.
    TooMany { what: &'static str, count: u64, max: u64 },
    /// The stage's token may not ask for this.
    NotAllowed { what: &'static str },
}

impl PlanRefusal {
    pub const fn name(&self) -> &'static str {
        match self {
            PlanRefusal::Empty | PlanRefusal::TooMany { .. } => "plan_invalid",
            PlanRefusal::NotAllowed { .. } => "capability_missing",
        }
    }
}
