//! What is known when a request is decided: rows as they were loaded, after what was decided before, and facts.
//!
//! A carrier fills it with what the requests need ([`crate::subject::Needs`]) and writes every decision back into it. Rules only
//! read it. It knows nothing of stores: tests and the model build their own.
//!
//! Invariant: a row that was never asked for is not here, which differs from one that does not exist.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::allowance::{Quota, Unfinished};
use crate::event::Subject;
use crate::flow::FlowUses;
use crate::id::{Json, Name, Scope, TaskId};
use crate::key::{IdempotencyKey, KeyOwner, TaskKey, UniqueKey};
use crate::object::{ObjectKey, ObjectType};
use crate::recovery::RecoveryPolicy;
use crate::request::Request;
use crate::run::{Loaded, Records};
use crate::schedule::{CalendarQuery, Instants, Schedule};
use crate::scope_budget::{BudgetUse, ScopeBudget, budget_scopes};
use crate::submission::Submission;
use crate::task::Task;
use crate::verdict::KeyHolder;

#[derive(Clone, Debug, Default)]
pub struct Known {
    pub tasks: TaskSet,
    /// What requests about durable runs name, by task.
    pub records: BTreeMap<TaskKey, Records>,
    pub objects: ObjectSet,
    pub keys: KeyOwners,
    /// The flow keys that were looked up.
    pub flows: BTreeMap<Scope, FlowUses>,
    pub room: Room,
    pub facts: Facts,
}

impl Known {
    /// The task that holds an idempotency key.
    pub fn holder(&self, key: &IdempotencyKey) -> Option<KeyHolder<'_>> {
        let owner = self.keys.owner(key)?;
        let subject = self.tasks.get(&key.task(owner))?;
        Some(KeyHolder { subject, fingerprint: owner.fingerprint })
    }

    /// Whether another writer has the task locked that holds an idempotency key.
    pub fn is_holder_locked(&self, key: &IdempotencyKey) -> bool {
        self.keys.owner(key).is_some_and(|owner| self.tasks.is_locked(&key.task(owner)))
    }
}

/// What a request about a durable run needs of its records; `None` for a plain task.
pub fn loaded_for(
    subject: &Subject,
    records: Option<&Records>,
    request: &Request,
) -> Option<Loaded> {
    let is_durable =
        matches!(request, Request::Run(_)) || subject.live().is_some_and(|task| task.run.is_some());
    let load = |records: &Records| records.load(subject, request);
    is_durable.then(|| records.map_or_else(Loaded::default, load))
}

/// A row that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fetched<T> {
    /// Another writer has it.
    Locked,
    Absent,
    Loaded(T),
}

impl<T> Fetched<T> {
    pub const fn loaded(&self) -> Option<&T> {
        match self {
            Fetched::Loaded(row) => Some(row),
            Fetched::Locked | Fetched::Absent => None,
        }
    }
}

/// Tasks as they are after what was decided so far.
#[derive(Clone, Debug, Default)]
pub struct TaskSet {
    /// By their ids, which are unique across scopes.
    rows: BTreeMap<TaskId, (Scope, Subject)>,
    /// Tasks that were asked for in a scope where they are not.
    elsewhere: BTreeMap<TaskKey, Subject>,
    /// Tasks that another writer has locked.
    locked: BTreeSet<TaskKey>,
}

impl TaskSet {
    /// Adds a task as it was loaded. One that is here already stays as it is.
    pub fn put(&mut self, key: TaskKey, subject: Subject) {
        if !self.contains(&key) {
            self.set(key, subject);
        }
    }

    /// Adds or replaces a task.
    pub fn set(&mut self, key: TaskKey, subject: Subject) {
        match self.rows.get(&key.id) {
            Some((scope, _)) if *scope != key.scope => drop(self.elsewhere.insert(key, subject)),
            Some(_) | None => drop(self.rows.insert(key.id, (key.scope, subject))),
        }
    }

    pub fn get(&self, key: &TaskKey) -> Option<&Subject> {
        match self.rows.get(&key.id)? {
            (scope, subject) if *scope == key.scope => Some(subject),
            _ => self.elsewhere.get(key),
        }
    }

    pub fn get_mut(&mut self, key: &TaskKey) -> Option<&mut Subject> {
        match self.rows.get_mut(&key.id)? {
            (scope, subject) if *scope == key.scope => Some(subject),
            _ => self.elsewhere.get_mut(key),
        }
    }

    pub fn contains(&self, key: &TaskKey) -> bool {
        self.get(key).is_some()
    }

    pub fn live(&self, key: &TaskKey) -> Option<&Task> {
        self.get(key)?.live()
    }

    /// Notes that another writer has a task.
    pub fn lock(&mut self, key: TaskKey) {
        self.locked.insert(key);
    }

    pub fn is_locked(&self, key: &TaskKey) -> bool {
        self.locked.contains(key)
    }

    /// The living tasks that are wanted, in the order of their keys.
    pub fn live_keys(&self, is_wanted: impl Fn(&Task) -> bool) -> Vec<TaskKey> {
        let live = self.rows.values().filter_map(|(_, subject)| subject.live());
        let wanted = live.filter(|task| is_wanted(task));
        let mut keys: Vec<TaskKey> =
            wanted.map(|task| TaskKey { scope: task.scope.clone(), id: task.id }).collect();
        keys.sort();
        keys
    }
}

/// Who has which idempotency key.
#[derive(Clone, Debug, Default)]
pub struct KeyOwners(BTreeMap<IdempotencyKey, Option<KeyOwner>>);

impl KeyOwners {
    pub fn put(&mut self, key: IdempotencyKey, owner: Option<KeyOwner>) {
        self.0.insert(key, owner);
    }

    pub fn owner(&self, key: &IdempotencyKey) -> Option<&KeyOwner> {
        self.0.get(key)?.as_ref()
    }

    /// Whether it was asked for.
    pub fn contains(&self, key: &IdempotencyKey) -> bool {
        self.0.contains_key(key)
    }
}

/// Objects as they are after what was decided so far.
#[derive(Clone, Debug, Default)]
pub struct ObjectSet {
    rows: BTreeMap<ObjectKey, Fetched<ObjectRow>>,
    /// Which objects have these unique keys.
    names: BTreeMap<UniqueKey, Fetched<ObjectKey>>,
}

/// An object as the rules know it. Its status, its due time and its unique key follow from the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRow {
    pub revision: u32,
    pub body: Body,
}

/// The body of an object, by its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    Schedule(Box<Schedule>),
    /// What a schedule submits, as it was written. What it means is a fact ([`Facts::template`]).
    Template(Json),
    /// The budget of a workspace or tenant; one that is empty was removed.
    Budget(ScopeBudget),
    Policy(Box<RecoveryPolicy>),
}

impl Body {
    /// The name that no other object of the scope and type has.
    fn unique_key(&self) -> Option<&Name> {
        match self {
            Body::Schedule(schedule) => Some(&schedule.name),
            Body::Template(_) | Body::Budget(_) | Body::Policy(_) => None,
        }
    }

    /// Whether the object has given its name back.
    fn is_gone(&self) -> bool {
        match self {
            Body::Schedule(schedule) => schedule.is_deleted,
            Body::Template(_) | Body::Budget(_) | Body::Policy(_) => false,
        }
    }
}

impl ObjectSet {
    /// Adds an object as it was loaded. One that is here already stays as it is.
    pub fn put(&mut self, key: ObjectKey, row: Fetched<ObjectRow>) {
        self.rows.entry(key).or_insert(row);
    }

    /// Adds which object has a unique key.
    pub fn put_named(&mut self, name: UniqueKey, found: Fetched<(ObjectKey, ObjectRow)>) {
        let named = match found {
            Fetched::Loaded((key, row)) => {
                self.put(key.clone(), Fetched::Loaded(row));
                Fetched::Loaded(key)
            }
            Fetched::Locked => Fetched::Locked,
            Fetched::Absent => Fetched::Absent,
        };
        self.names.insert(name, named);
    }

    /// The object from now on, with its name.
    pub fn write(&mut self, key: ObjectKey, row: ObjectRow) {
        if let Some(name) = row.body.unique_key() {
            let (scope, object_type) = (key.scope.clone(), key.object_type);
            let name = UniqueKey { scope, object_type, unique_key: name.clone() };
            let named = match row.body.is_gone() {
                true => Fetched::Absent,
                false => Fetched::Loaded(key.clone()),
            };
            self.names.insert(name, named);
        }
        self.rows.insert(key, Fetched::Loaded(row));
    }

    /// `None` if it was not asked for.
    pub fn fetched(&self, key: &ObjectKey) -> Option<&Fetched<ObjectRow>> {
        self.rows.get(key)
    }

    /// The same of a unique key.
    pub fn named(&self, name: &UniqueKey) -> Option<&Fetched<ObjectKey>> {
        self.names.get(name)
    }

    /// The schedule with this key, if it is loaded.
    pub fn schedule(&self, key: &ObjectKey) -> Option<&Schedule> {
        debug_assert_eq!(key.object_type, ObjectType::Schedule, "the key of a schedule");
        match &self.rows.get(key)?.loaded()?.body {
            Body::Schedule(schedule) => Some(schedule),
            _ => None,
        }
    }
}

/// What new runs have room in.
#[derive(Clone, Debug, Default)]
pub struct Room {
    /// The quotas of tenants; `None` for one without.
    quotas: BTreeMap<Name, Option<u64>>,
    /// Unfinished work that was counted before, by tenant.
    counted: BTreeMap<Name, Unfinished>,
    /// Unfinished work that was accepted since then, of tenants with a quota.
    accepted: BTreeMap<Name, Unfinished>,
    /// The budgets that hold for new runs, with what was used of them before.
    pub budgets: BTreeMap<Scope, BudgetUse>,
}

impl Room {
    /// Notes how many unfinished runs a tenant may have.
    pub fn put_quota(&mut self, tenant: Name, max: Option<u64>) {
        self.quotas.insert(tenant, max);
    }

    /// Notes the unfinished work of a tenant, in place of what its quota would be counted from otherwise.
    pub fn put_counted(&mut self, tenant: Name, counted: Unfinished) {
        self.counted.insert(tenant, counted);
    }

    pub fn counted(&self, tenant: &Name) -> Option<Unfinished> {
        self.counted.get(tenant).copied()
    }

    /// Whether it is known how much room a tenant has.
    pub fn contains(&self, tenant: &Name) -> bool {
        self.quotas.contains_key(tenant)
    }

    /// Whether a tenant has a quota, as far as is known.
    pub fn is_limited(&self, tenant: &Name) -> bool {
        self.quotas.get(tenant).is_some_and(Option::is_some)
    }

    /// The quota of a tenant with its use.
    pub fn quota(&self, tenant: &Name) -> Option<Quota> {
        let max = self.quotas.get(tenant).copied().flatten()?;
        Some(self.used_of(tenant, max, self.counted(tenant).unwrap_or_default()))
    }

    /// The use of a quota: what was counted, and what was accepted since.
    pub fn used_of(&self, tenant: &Name, max: u64, counted: Unfinished) -> Quota {
        let Unfinished { runs, children } =
            counted.plus(self.accepted.get(tenant).copied().unwrap_or_default());
        Quota { max, unfinished: runs, children }
    }

    /// Counts what was accepted.
    pub fn accept(&mut self, tenant: &Name, more: Unfinished) {
        let accepted = self.accepted.entry(tenant.clone()).or_default();
        *accepted = accepted.plus(more);
    }

    /// The budgets that hold for runs of this scope.
    pub fn budgets_of(&self, scope: &Scope) -> Vec<BudgetUse> {
        if self.budgets.is_empty() {
            return Vec::new();
        }
        let found = |scope: &Scope| self.budgets.get(scope).cloned();
        budget_scopes(scope).iter().filter_map(found).collect()
    }
}

/// What no row says, and is computed for the moment of the decision.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    instants: BTreeMap<CalendarQuery, Instants>,
    templates: BTreeMap<(ObjectKey, u32), Option<Arc<Submission>>>,
    allowed: BTreeMap<ObjectKey, usize>,
}

impl Facts {
    pub fn put_instants(&mut self, query: CalendarQuery, instants: Instants) {
        self.instants.insert(query, instants);
    }

    /// What the calendar says.
    pub fn instants(&self, query: &CalendarQuery) -> Option<&Instants> {
        self.instants.get(query)
    }

    pub fn put_template(&mut self, of: (ObjectKey, u32), run: Option<Arc<Submission>>) {
        self.templates.insert(of, run);
    }

    /// What a revision of a template submits; `None` within if this program cannot read it.
    pub fn template(&self, of: &(ObjectKey, u32)) -> Option<&Option<Arc<Submission>>> {
        self.templates.get(of)
    }

    pub fn put_allowed(&mut self, schedule: ObjectKey, runs: usize) {
        self.allowed.insert(schedule, runs);
    }

    /// For how many runs of a schedule the rate of its tenant has room now. They are taken from the rate.
    pub fn allowed(&self, schedule: &ObjectKey) -> Option<usize> {
        self.allowed.get(schedule).copied()
    }
}
