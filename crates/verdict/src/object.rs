//! Objects: typed, versioned rows for what is rare: approvals, webhook endpoints and what is sent to them, schedules,
//! budgets of tenants and workspaces, what deployments of topologies have.
//!
//! One drawer for all of them, because a table of its own costs three engines, conformance, moving, verification and row
//! security. A store keeps an object without understanding it: it guards the revision, keeps the unique key unique and
//! finds what is due. What a status or a body means is the business of the type's own rules.
//!
//! Not here: when an object changes. Rules decide that, and whoever carries a decision saves the changed object with it.
//!
//! Invariants:
//! - the revision is 1 at first and grows by one with each change;
//! - the log has one entry for each revision, and the last one is the object; of a schedule, which time changes for ever, it
//!   keeps the newest ([`ObjectType::first_kept`]);
//! - an object is never deleted, except with the run that is its parent: a type that can be removed has a status for it
//!   and gives its unique key back.

use crate::id::{Json, Name, Scope};
use crate::time::Time;

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectType {
    /// A decision of people that a task waits for. Its task has the truth; the object finds it.
    Approval,
    /// An effect and where its delivery stands ([`crate::effect`]).
    Effect,
    /// Where effects are delivered.
    Endpoint,
    /// The order of the effects of one aggregate at one endpoint.
    Line,
    /// What an effect says, byte for byte. Written once, beside the effect, which changes often.
    Payload,
    /// When runs are submitted.
    Schedule,
    /// From a run that has ended to one that was forked from it or repeats it.
    Fork,
    /// What a schedule submits, apart from it: each firing writes the schedule, and the template may be long.
    ScheduleTemplate,
    /// Who waits for what becomes of an effect ([`crate::effect::watch`]).
    Watch,
    /// What the runs of a workspace or tenant may use ([`crate::scope_budget`]).
    Budget,
    /// Which coordinator pushes work to an endpoint ([`crate::push`]).
    PushClaim,
    /// What recovery may do for which runs.
    RecoveryPolicy,
    /// A recovery candidate ([`crate::recovery`]).
    RecoveryCandidate,
    /// That a run failed so that recovery looks at it.
    FailedRun,
    /// One version of a topology, as it was declared. Written once.
    Topology,
    /// A topology in force.
    Deployment,
    /// An artifact of a deployment, with its status.
    Artifact,
    /// A work order of a deployment, and its run record once it has one.
    WorkOrder,
    /// Something in a deployment that waits for a person.
    PauseState,
    /// Which work order is active among those that go one after the other.
    Track,
    /// That the task of a deployment's event ended otherwise than by its role ([`crate::topology::is_unprocessed`]).
    UnprocessedEvent,
    /// A step of a plan that waits until what it depends on is read ([`crate::plan::preparing`]).
    Preparation,
}

impl ObjectType {
    pub const ALL: [ObjectType; 22] = [
        ObjectType::Approval,
        ObjectType::Effect,
        ObjectType::Endpoint,
        ObjectType::Line,
        ObjectType::Payload,
        ObjectType::Schedule,
        ObjectType::Fork,
        ObjectType::ScheduleTemplate,
        ObjectType::Watch,
        ObjectType::Budget,
        ObjectType::PushClaim,
        ObjectType::RecoveryPolicy,
        ObjectType::RecoveryCandidate,
        ObjectType::FailedRun,
        ObjectType::Topology,
        ObjectType::Deployment,
        ObjectType::Artifact,
        ObjectType::WorkOrder,
        ObjectType::PauseState,
        ObjectType::Track,
        ObjectType::UnprocessedEvent,
        ObjectType::Preparation,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            ObjectType::Approval => "approval",
            ObjectType::Effect => "effect",
            ObjectType::Endpoint => "endpoint",
            ObjectType::Line => "line",
            ObjectType::Payload => "payload",
            ObjectType::Schedule => "schedule",
            ObjectType::Fork => "fork",
            ObjectType::ScheduleTemplate => "schedule_template",
            ObjectType::Watch => "watch",
            ObjectType::Budget => "budget",
            ObjectType::PushClaim => "push_claim",
            ObjectType::RecoveryPolicy => "recovery_policy",
            ObjectType::RecoveryCandidate => "recovery_candidate",
            ObjectType::FailedRun => "failed_run",
            ObjectType::Topology => "topology",
            ObjectType::Deployment => "deployment",
            ObjectType::Artifact => "artifact",
            ObjectType::WorkOrder => "work_order",
            ObjectType::PauseState => "pause_state",
            ObjectType::Track => "track",
            ObjectType::UnprocessedEvent => "unprocessed_event",
            ObjectType::Preparation => "preparation",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// Whether the log of such an object keeps only its newest entries.
    pub const fn has_bounded_log(self) -> bool {
        matches!(self, ObjectType::Schedule | ObjectType::Track)
    }

    /// The oldest revision in the log of such an object that has this revision now. Entries leave in blocks, so that most
    /// changes delete nothing.
    pub const fn first_kept(self, revision: u32) -> u32 {
        let block = revision - revision % LOG_BLOCK;
        match self.has_bounded_log() {
            true if block > LOG_KEPT => block - LOG_KEPT + 1,
            true | false => 1,
        }
    }

    /// With the change to this revision, all entries before the one that is returned leave the log.
    pub const fn forgets_before(self, revision: u32) -> Option<u32> {
        match self.first_kept(revision) {
            1 => None,
            first if revision.is_multiple_of(LOG_BLOCK) => Some(first),
            _ => None,
        }
    }
}

/// How many entries of a bounded log are kept at least: weeks of an hourly schedule, the whole of a schedule that people look
/// at, and the last hours of a track.
pub const LOG_KEPT: u32 = 1_000;

/// How many entries leave a bounded log at once.
const LOG_BLOCK: u32 = 100;

/// The key of an object. Keys are ordered by the bytes of their names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectKey {
    pub scope: Scope,
    pub object_type: ObjectType,
    pub id: Name,
}

impl ObjectKey {
    fn order(&self) -> (&Scope, &'static str, &Name) {
        (&self.scope, self.object_type.name(), &self.id)
    }
}

/// By the name of the type, as databases sort it.
impl Ord for ObjectKey {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

impl PartialOrd for ObjectKey {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Object {
    pub key: ObjectKey,
    /// How often it was written. Stores use it as the optimistic lock when they save.
    pub revision: u32,
    /// A word of its type. Objects are listed by it.
    pub status: Name,
    /// When time changes it.
    pub due: Option<Time>,
    /// A name that no other object of its type and scope has.
    pub unique_key: Option<Name>,
    /// What it belongs to. An object whose parent is a run is forgotten with the run.
    pub parent: Option<Name>,
    /// Whether something is still to be done about it, whatever is due: readiness and deadlines do not share a column.
    pub is_pending: bool,
    /// The rest, in the form of its type.
    pub body: Json,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_of_a_schedule_keeps_its_newest_entries_and_others_keep_all() {
        let schedule = ObjectType::Schedule;
        for (revision, first) in
            [(1, 1), (1_000, 1), (1_099, 1), (1_100, 101), (1_199, 101), (1_200, 201)]
        {
            assert_eq!(schedule.first_kept(revision), first, "{revision}");
            assert_eq!(ObjectType::Endpoint.first_kept(revision), 1);
        }
        let forgets: Vec<u32> = (1..=1_300).filter_map(|it| schedule.forgets_before(it)).collect();
        assert_eq!(forgets, [101, 201, 301]);
    }
}
