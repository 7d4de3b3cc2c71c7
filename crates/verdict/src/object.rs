//! Objects: typed, versioned rows for what is rare: approvals, webhook endpoints and what is sent to them, schedules,
//! budgets of tenants and workspaces.
//!
//! One drawer for all of them, because a table of its own costs three engines, conformance, moving, verification and row
//! security. A store keeps an object without understanding it: it guards the revision, keeps the unique key unique and
//! finds what is due. What a status or a body means is the business of the type's own rules.
//!
//! Not here: when an object changes. Rules decide that, and whoever carries a decision saves the changed object with it.
//!
//! Invariants:
//! - the revision is 1 at first and grows by one with each change;
//! - the log has one entry for each revision, and the last one is the object;
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
    /// From a run that has ended to one that was forked from it.
    Fork,
    /// What a schedule submits, apart from it: each firing writes the schedule, and the template may be long.
    ScheduleTemplate,
    /// Who waits for what becomes of an effect ([`crate::effect::watch`]).
    Watch,
    /// What the runs of a workspace or tenant may use ([`crate::scope_budget`]).
    Budget,
    /// Which coordinator pushes work to an endpoint ([`crate::push`]).
    PushClaim,
}

impl ObjectType {
    pub const ALL: [ObjectType; 11] = [
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
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}

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
