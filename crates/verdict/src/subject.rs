//! A subject: a kind of object whose requests are decided like those about tasks.
//!
//! A request names the rows that it needs, and is decided when all of them are known. The carrier asks [`Subject::needs`], looks
//! the rows up and asks again, because a row may name others; it asks at most [`ROUNDS_MAX`] times. Then
//! [`Subject::decide`] is a function of what is known and of the request: there is no clock, no store and no randomness
//! in it. It makes nested decisions about tasks at its [`Desk`], and its result is a list of values.
//!
//! Invariant: a decision reads nothing that its needs do not name.

use std::collections::BTreeSet;

use crate::desk::{Desk, DeskResult, IdBlock};
use crate::id::Name;
use crate::key::{IdempotencyKey, TaskKey, UniqueKey};
use crate::known::{Fetched, Known};
use crate::object::ObjectKey;
use crate::schedule::CalendarQuery;
use crate::time::{Moment, Time};
use crate::verdict::Answer;

/// How often a carrier looks up what requests need before it decides them.
pub const ROUNDS_MAX: usize = 4;

pub trait Subject {
    type Request;

    /// What the decision reads, as far as what is known tells. Names what is known already, too.
    fn needs(request: &Self::Request, known: &Known, now: Time) -> Needs;

    /// The answer, with everything that follows from it left at the desk. All needs are known.
    fn decide(desk: &mut Desk<'_>, request: &Self::Request) -> Answer;

    /// Decides a request whose needs are known.
    fn decided(known: &Known, request: &Self::Request, at: Moment, ids: IdBlock) -> DeskResult {
        let mut desk = Desk::new(known, at, ids);
        let answer = Self::decide(&mut desk, request);
        desk.finish(answer)
    }
}

/// What a decision reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    pub tasks: BTreeSet<TaskKey>,
    /// Idempotency keys, with the tasks that hold them.
    pub keys: BTreeSet<IdempotencyKey>,
    pub objects: BTreeSet<ObjectKey>,
    pub names: BTreeSet<UniqueKey>,
    pub facts: FactNeeds,
}

/// Facts that a decision reads. They are answered without a look at the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FactNeeds {
    pub instants: BTreeSet<CalendarQuery>,
    /// What revisions of templates submit.
    pub templates: BTreeSet<(ObjectKey, u32)>,
    /// Schedules of which so many runs are to start, each of which takes so many requests of its tenant's rate, if that has room.
    pub allowed: BTreeSet<(ObjectKey, usize, u64)>,
    /// Tenants whose quotas hold for new runs.
    pub quotas: BTreeSet<Name>,
}

impl Needs {
    /// What is not known yet.
    #[must_use]
    pub fn missing(mut self, known: &Known) -> Self {
        self.tasks.retain(|key| !known.tasks.contains(key) && !known.tasks.is_locked(key));
        self.keys.retain(|key| !known.keys.contains(key));
        self.objects.retain(|key| known.objects.fetched(key).is_none());
        self.names.retain(|name| known.objects.named(name).is_none());
        let FactNeeds { instants, templates, allowed, quotas } = &mut self.facts;
        instants.retain(|query| known.facts.instants(query).is_none());
        templates.retain(|of| known.facts.template(of).is_none());
        allowed.retain(|(schedule, ..)| known.facts.allowed(schedule).is_none());
        quotas.retain(|tenant| !known.room.contains(tenant));
        self
    }

    /// Whether another writer has one of them.
    pub fn is_locked(&self, known: &Known) -> bool {
        let is_object_locked = |key| matches!(known.objects.fetched(key), Some(Fetched::Locked));
        let is_name_locked = |name| matches!(known.objects.named(name), Some(Fetched::Locked));
        self.tasks.iter().any(|key| known.tasks.is_locked(key))
            || self.keys.iter().any(|key| known.is_holder_locked(key))
            || self.objects.iter().any(is_object_locked)
            || self.names.iter().any(is_name_locked)
    }

    /// Adds what another decision reads.
    pub fn extend(&mut self, other: Self) {
        let Self { tasks, keys, objects, names, facts } = other;
        self.tasks.extend(tasks);
        self.keys.extend(keys);
        self.objects.extend(objects);
        self.names.extend(names);
        self.facts.instants.extend(facts.instants);
        self.facts.templates.extend(facts.templates);
        self.facts.allowed.extend(facts.allowed);
        self.facts.quotas.extend(facts.quotas);
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl FactNeeds {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
