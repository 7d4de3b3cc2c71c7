//! The desk: what a decision about an object sees, and where it leaves what follows.
//!
//! Its submissions and requests about tasks are decided at once, by the same rules as those of clients, because the answer may
//! matter: an instant whose run has no room waits. Everything stays on an overlay over what is known, so that later
//! decisions of the same desk see it and nothing else does. The result is a list of values, in order; a carrier
//! applies it as it is and decides nothing again.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::allowance::{Quota, Unfinished};
use crate::apply::apply_verdict;
use crate::event::Subject;
use crate::flow::{FlowUses, Standing};
use crate::id::{Digest, Scope, TaskId};
use crate::key::{IdempotencyKey, KeyOwner, TaskKey, UniqueKey};
use crate::known::{Body, Fetched, Known, ObjectRow, ObjectSet, Room, TaskSet, loaded_for};
use crate::object::ObjectKey;
use crate::planted::decide;
use crate::request::Request;
use crate::run::Records;
use crate::schedule::{CalendarQuery, Instants};
use crate::scope_budget::count_all;
use crate::submission::{NewStep, Spec, Submission};
use crate::task::Task;
use crate::time::{Moment, Time};
use crate::verdict::{Answer, Context, KeyHolder, ReadSet, Verdict};

/// A decision that read more than it named would depend on what else is in its batch.
const FORGOTTEN: &str = "a decision reads what its needs name";

pub struct Desk<'k> {
    known: &'k Known,
    over: Overlay,
    at: Moment,
    ids: IdBlock,
    changes: Vec<DeskChange>,
}

/// What this desk has decided, over what is known.
#[derive(Default)]
struct Overlay {
    tasks: TaskSet,
    records: BTreeMap<TaskKey, Records>,
    keys: BTreeMap<IdempotencyKey, KeyOwner>,
    flows: BTreeMap<Scope, FlowUses>,
    objects: ObjectSet,
    /// What is known of the room, with what was accepted here. Only once something was.
    room: Option<Room>,
}

/// What came of a decision about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeskResult {
    pub answer: Answer,
    /// In the order of the decisions.
    pub changes: Vec<DeskChange>,
}

/// One decision at a desk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeskChange {
    /// A submission. It may have been refused, or found its task by its key; then it changes nothing.
    Submitted { key: TaskKey, request: Request, verdict: Verdict, new: Box<NewTask> },
    /// A request about a task.
    Asked { key: TaskKey, request: Request, verdict: Verdict },
    /// An object as it is from now on.
    Written { key: ObjectKey, row: ObjectRow },
}

/// What a new task is stored with besides what the rules read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTask {
    pub spec: Spec,
    /// The steps of its plan, if it has one.
    pub steps: Vec<NewStep>,
}

/// Ids that nothing else uses, for one decision. They sort by their use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdBlock {
    next: u128,
    end: u128,
}

impl IdBlock {
    /// As many ids as one decision may ever need: that of a firing takes one for each of its runs and for each step of their plans.
    pub const LENGTH: u128 = 1 << 32;

    pub const fn starting_at(first: u128) -> Self {
        Self { next: first, end: first + Self::LENGTH }
    }

    fn take(&mut self) -> TaskId {
        assert!(self.next < self.end, "a decision needs a bounded number of ids");
        self.next += 1;
        TaskId::from_u128(self.next - 1)
    }
}

impl<'k> Desk<'k> {
    pub fn new(known: &'k Known, at: Moment, ids: IdBlock) -> Self {
        Self { known, over: Overlay::default(), at, ids, changes: Vec::new() }
    }

    /// Everything that was decided here.
    pub fn finish(self, answer: Answer) -> DeskResult {
        DeskResult { answer, changes: self.changes }
    }

    pub const fn now(&self) -> Time {
        self.at.now
    }

    pub fn id(&mut self) -> TaskId {
        self.ids.take()
    }

    /// What the calendar says.
    pub fn instants(&self, query: &CalendarQuery) -> &'k Instants {
        self.known.facts.instants(query).expect(FORGOTTEN)
    }

    /// What a revision of a template submits; `None` if this program cannot read it.
    pub fn template(&self, of: &(ObjectKey, u32)) -> Option<&'k Arc<Submission>> {
        self.known.facts.template(of).expect(FORGOTTEN).as_ref()
    }

    /// For how many runs of a schedule the rate of its tenant has room.
    pub fn allowed(&self, schedule: &ObjectKey) -> usize {
        self.known.facts.allowed(schedule).expect(FORGOTTEN)
    }

    /// The task, if it lives.
    pub fn task(&self, key: &TaskKey) -> Option<&Task> {
        self.subject(key).live()
    }

    fn subject(&self, key: &TaskKey) -> &Subject {
        self.over.tasks.get(key).or_else(|| self.known.tasks.get(key)).expect(FORGOTTEN)
    }

    pub fn object(&self, key: &ObjectKey) -> Option<&ObjectRow> {
        self.fetched(key).expect(FORGOTTEN).loaded()
    }

    fn fetched(&self, key: &ObjectKey) -> Option<&Fetched<ObjectRow>> {
        self.over.objects.fetched(key).or_else(|| self.known.objects.fetched(key))
    }

    /// The object that has a unique key.
    pub fn named(&self, name: &UniqueKey) -> Option<&ObjectKey> {
        let named = self.over.objects.named(name).or_else(|| self.known.objects.named(name));
        named.expect(FORGOTTEN).loaded()
    }

    /// Saves the next revision of an object: the first one of an object that nothing is known of.
    pub fn write(&mut self, key: ObjectKey, body: Body) {
        let before = self.fetched(&key).and_then(Fetched::loaded);
        let revision = before.map_or(0, |row| row.revision) + 1;
        let row = ObjectRow { revision, body };
        self.over.objects.write(key.clone(), row.clone());
        self.changes.push(DeskChange::Written { key, row });
    }

    /// Submits a run. It needs room in the quota of its tenant and in the budgets of its scope, as for any client.
    pub fn submit(&mut self, submission: &Submission) -> Answer {
        let scope = &submission.scope;
        let input = Digest::of(&[submission.spec.input.as_str().as_bytes()]);
        let key = TaskKey { scope: scope.clone(), id: self.ids.take() };
        let planned = submission.steps.as_ref();
        let steps = planned.map_or_else(Vec::new, |it| it.created(scope, || self.ids.take()));
        let budgets = self.known.room.budgets_of(scope);
        let mut submit = submission.submit(key.id, input, self.at.now);
        if !budgets.is_empty() {
            count_all(&mut submit);
        }
        let request = submission.request(submit, &steps);
        let idempotency_key = submission.idempotency_key();
        let holder = idempotency_key.as_ref().and_then(|key| self.holder(key));
        let (quota, flows) = (self.quota(scope), self.flows(scope));
        let context = Context { holder, quota, flows, budgets: &budgets, ..Context::default() };
        let read_set = ReadSet { subject: &Subject::Absent, context };
        let verdict = decide(read_set, &request, self.at);
        let answer = verdict.answer.clone();
        if !verdict.events.is_empty() {
            self.join(&key, submission, steps.len());
            self.follow(&key, Subject::Absent, verdict.clone());
        }
        let new = Box::new(NewTask { spec: submission.spec.clone(), steps });
        self.changes.push(DeskChange::Submitted { key, request, verdict, new });
        answer
    }

    /// Decides a request about a task that is known. Not for calls under a lease: what authority they have is not known here.
    pub fn ask(&mut self, key: &TaskKey, request: Request) -> Answer {
        debug_assert!(request.caller().is_none(), "a call under a lease is decided by itself");
        let subject = self.subject(key).clone();
        let records = self.over.records.get(key).or_else(|| self.known.records.get(key));
        let loaded = loaded_for(&subject, records, &request);
        let (run, flows) = (loaded.as_ref(), self.flows(&key.scope));
        let context = Context { run, flows, ..Context::default() };
        let verdict = decide(ReadSet { subject: &subject, context }, &request, self.at);
        let answer = verdict.answer.clone();
        if !verdict.events.is_empty() {
            self.follow(key, subject, verdict.clone());
        }
        self.changes.push(DeskChange::Asked { key: key.clone(), request, verdict });
        answer
    }

    fn holder(&self, key: &IdempotencyKey) -> Option<KeyHolder<'_>> {
        assert!(self.known.keys.contains(key), "{FORGOTTEN}");
        let owner = self.over.keys.get(key).or_else(|| self.known.keys.owner(key))?;
        let subject = self.subject(&key.task(owner));
        Some(KeyHolder { subject, fingerprint: owner.fingerprint })
    }

    fn room(&self) -> &Room {
        self.over.room.as_ref().unwrap_or(&self.known.room)
    }

    fn quota(&self, scope: &Scope) -> Option<Quota> {
        assert!(self.room().contains(&scope.tenant), "{FORGOTTEN}");
        self.room().quota(&scope.tenant)
    }

    fn flows(&self, scope: &Scope) -> Option<&FlowUses> {
        self.over.flows.get(scope).or_else(|| self.known.flows.get(scope))
    }

    /// A new task takes room, and its idempotency key.
    fn join(&mut self, key: &TaskKey, submission: &Submission, steps: usize) {
        let tenant = &key.scope.tenant;
        if self.room().is_limited(tenant) {
            let room = self.over.room.get_or_insert_with(|| self.known.room.clone());
            room.accept(tenant, Unfinished { runs: 1, children: steps as u64 });
        }
        if let Some(text) = submission.idempotency_key() {
            let owner = KeyOwner { task: key.id, fingerprint: submission.spec.fingerprint };
            self.over.keys.insert(text, owner);
        }
    }

    /// Lets later decisions of this desk see one.
    fn follow(&mut self, key: &TaskKey, mut subject: Subject, verdict: Verdict) {
        let was = Standing::of(subject.live());
        let applied = apply_verdict(&mut subject, verdict, self.at);
        if let Some(known) = self.known.flows.get(&key.scope) {
            let flows = self.over.flows.entry(key.scope.clone());
            flows.or_insert_with(|| known.clone()).follow(was, &subject);
        }
        if let Some(known) = self.known.records.get(key) {
            let records = self.over.records.entry(key.clone());
            records.or_insert_with(|| known.clone()).note(applied.events());
        }
        self.over.tasks.set(key.clone(), subject);
    }
}
