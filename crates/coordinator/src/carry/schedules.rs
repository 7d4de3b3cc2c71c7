//! Schedules in a batch: what is loaded for them, and what becomes of their instants.
//!
//! The rules decide which instants fire ([`verdict::schedule`]); a firing is a submission like any other, decided in the same
//! batch under the key of its instant. The schedule moves on in that commit, guarded by the revision of its object. So an instant
//! fires once, whatever dies, and however many coordinators found it due.
//!
//! A batch that sweeps also looks for schedules that are due. It only names them: the next batch carries a request for
//! each, so that what a submission needs (the quota of its tenant, the owner of its key) is loaded as for any other.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use store::objects::{
    LoadedObject, UniqueKey, schedule_change, schedule_of, template_change, template_key,
};
use store::{Batch, IdempotencyKey, Lookup, RunLookup, TaskKey};
use verdict::request::{Cancel, CancelMode};
use verdict::schedule::{
    Fired, Instants, Round, Schedule, ScheduleAnswer, ScheduleRefusal, firing_key, schedule_id,
};
use verdict::{
    Answer, Digest, Moment, Name, Object, ObjectKey, ObjectType, Refusal, Request, Scope, TaskId,
    Time,
};

use super::batch::{Aborted, OpenBatch, submit};
use super::recovery::due_items;
use super::topologies::due_deployed;
use super::working_set::WorkingSet;
use crate::allowances::Allowances;
use crate::ids::Ids;
use crate::item::{Answered, Item, ScheduleCall, ScheduleItem, ScheduleTarget};
use crate::schedules;

/// Schedules that one batch finds due. The rest is found by the next, which follows at once.
const FIRINGS_MAX: usize = 256;

/// What a batch knows of schedules.
#[derive(Default)]
pub(super) struct Schedules {
    slots: HashMap<ObjectKey, Slot>,
    /// The schedules that have these names; `None` if no schedule has it.
    names: HashMap<UniqueKey, Option<ObjectKey>>,
    /// Schedules that could not fire, because another writer has a row that they need.
    missed: HashSet<ObjectKey>,
}

enum Slot {
    /// Another writer has it locked.
    Locked,
    Absent,
    Loaded(Box<LoadedSchedule>),
}

struct LoadedSchedule {
    revision: u32,
    schedule: Schedule,
    /// The template with the revision of its object, once it was loaded.
    template: Option<(u32, verdict::Json)>,
    /// What the calendar said for this batch.
    instants: Instants,
}

impl Schedules {
    fn put(&mut self, key: ObjectKey, loaded: LoadedObject) {
        let slot = match loaded {
            LoadedObject::Locked => Slot::Locked,
            LoadedObject::Absent => Slot::Absent,
            LoadedObject::Object(object) => match schedule_of(&object) {
                Some(schedule) => Slot::Loaded(Box::new(LoadedSchedule {
                    revision: object.revision,
                    schedule,
                    template: None,
                    instants: Instants::default(),
                })),
                None => Slot::Absent,
            },
        };
        self.slots.entry(key).or_insert(slot);
    }

    fn put_named(&mut self, name: UniqueKey, loaded: LoadedObject) {
        let key = match &loaded {
            LoadedObject::Object(object) => Some(object.key.clone()),
            // Who has the name is not known, so its owner cannot be either: nothing is decided about the name.
            LoadedObject::Locked => Some(unknown_owner(&name)),
            LoadedObject::Absent => None,
        };
        if let Some(key) = &key {
            self.put(key.clone(), loaded);
        }
        self.names.insert(name, key);
    }

    fn loaded(&self, key: &ObjectKey) -> Option<&LoadedSchedule> {
        match self.slots.get(key)? {
            Slot::Loaded(loaded) => Some(loaded),
            Slot::Locked | Slot::Absent => None,
        }
    }

    fn loaded_mut(&mut self, key: &ObjectKey) -> Option<&mut LoadedSchedule> {
        match self.slots.get_mut(key)? {
            Slot::Loaded(loaded) => Some(loaded),
            Slot::Locked | Slot::Absent => None,
        }
    }

    /// The schedule that an item is about; `None` if it is new or has no owner of its name.
    fn key_of(&self, item: &ScheduleItem) -> Option<ObjectKey> {
        match &item.target {
            ScheduleTarget::New => None,
            ScheduleTarget::Id(id) => Some(schedule_key(&item.scope, id)),
            ScheduleTarget::Name(name) => self.names.get(&unique(&item.scope, name))?.clone(),
        }
    }

    /// Records which items could not be decided. Their schedules are not named again by this batch: they are still due, so
    /// the carrier would try them without a pause until the other writer is done.
    pub(super) fn note_missed(&mut self, items: &[Item], answers: &[Option<Answered>]) {
        let missed = items.iter().zip(answers).filter(|(_, answer)| answer.is_none());
        for (item, _) in missed {
            if let Item::Schedule(item) = item
                && let Some(key) = self.key_of(item)
            {
                self.missed.insert(key);
            }
        }
    }

    pub(super) fn is_locked(&self, item: &ScheduleItem) -> bool {
        let key = match &item.call {
            ScheduleCall::Create { name, .. } => {
                self.names.get(&unique(&item.scope, name)).cloned().flatten()
            }
            _ => self.key_of(item),
        };
        key.is_some_and(|key| matches!(self.slots.get(&key), Some(Slot::Locked)))
    }
}

/// Stands for the schedule that has a name and is locked.
fn unknown_owner(name: &UniqueKey) -> ObjectKey {
    schedule_key(&name.scope, &Name::from(format!("#{}", name.unique_key)))
}

fn schedule_key(scope: &Scope, id: &Name) -> ObjectKey {
    ObjectKey { scope: scope.clone(), object_type: ObjectType::Schedule, id: id.clone() }
}

fn unique(scope: &Scope, name: &Name) -> UniqueKey {
    let (scope, unique_key) = (scope.clone(), name.clone());
    UniqueKey { scope, object_type: ObjectType::Schedule, unique_key }
}

fn schedule_items(items: &[Item]) -> impl Iterator<Item = &ScheduleItem> {
    items.iter().filter_map(|item| match item {
        Item::Schedule(item) => Some(&**item),
        _ => None,
    })
}

impl<B: Batch> OpenBatch<'_, B> {
    /// Loads the schedules that items name, and what their instants need. Most batches have none.
    pub(super) async fn load_schedules(
        &mut self,
        items: &[Item],
        at: Moment,
    ) -> Result<(), Aborted> {
        let (mut keys, mut names) = (Vec::new(), Vec::new());
        for item in schedule_items(items) {
            match (&item.target, &item.call) {
                (ScheduleTarget::Id(id), _) => keys.push(schedule_key(&item.scope, id)),
                (ScheduleTarget::Name(name), _) | (_, ScheduleCall::Create { name, .. }) => {
                    names.push(unique(&item.scope, name));
                }
                (ScheduleTarget::New, _) => {}
            }
        }
        if keys.is_empty() && names.is_empty() {
            return Ok(());
        }
        let lookup = Lookup { objects: &keys, unique_objects: &names, ..Lookup::default() };
        let found = self.batch.look_up(lookup).await?;
        let schedules = &mut self.work.schedules;
        for (name, loaded) in names.into_iter().zip(found.unique_objects) {
            schedules.put_named(name, loaded);
        }
        for (key, loaded) in keys.into_iter().zip(found.objects) {
            schedules.put(key, loaded);
        }
        self.load_firings(items, at.now).await
    }

    /// Loads the runs before, the owners of the keys of instants, and the templates.
    async fn load_firings(&mut self, items: &[Item], now: Time) -> Result<(), Aborted> {
        let mut needed = Needed::default();
        for item in schedule_items(items) {
            let Some(key) = self.work.schedules.key_of(item) else { continue };
            let Some(loaded) = self.work.schedules.loaded_mut(&key) else { continue };
            if matches!(item.call, ScheduleCall::Fire) {
                loaded.instants = schedules::instants(&loaded.schedule, now);
            }
            needed.add(&key, item, loaded, now);
        }
        let Needed { mut tasks, keys, runs, templates } = needed;
        tasks.sort();
        tasks.dedup();
        let lookup = Lookup {
            tasks: &tasks,
            keys: &keys,
            runs: &runs,
            objects: &templates,
            ..Lookup::default()
        };
        let found = self.batch.look_up(lookup).await?;
        for (key, loaded) in tasks.into_iter().zip(found.tasks) {
            self.put(key, loaded);
        }
        for (key, owner) in keys.into_iter().zip(found.owners) {
            let Some((owner, loaded)) = owner else { continue };
            self.put(TaskKey { scope: key.scope.clone(), id: owner.task }, loaded);
            self.work.put_holder(key, owner);
        }
        for (lookup, loaded) in runs.into_iter().zip(found.runs) {
            self.work.put_records(lookup.task, loaded);
        }
        for (key, loaded) in templates.into_iter().zip(found.objects) {
            let schedule = ObjectKey { object_type: ObjectType::Schedule, ..key };
            let slot = self.work.schedules.slots.get_mut(&schedule);
            match (slot, loaded) {
                (Some(Slot::Loaded(slot)), LoadedObject::Object(Object { revision, body, .. })) => {
                    slot.template = Some((revision, body));
                }
                // Written together with its schedule, so whoever has one has the other.
                (Some(slot), LoadedObject::Locked) => *slot = Slot::Locked,
                _ => {}
            }
        }
        Ok(())
    }

    /// Names the schedules that are due, and what recovery and deployments have to look at, for the next batch.
    pub(super) async fn find_due_objects(
        &mut self,
        now: Time,
        background_max: usize,
    ) -> Result<(), Aborted> {
        // What this batch decided about them must not be found again.
        self.save().await?;
        let due = self.batch.due_objects(now, background_max.min(FIRINGS_MAX)).await?;
        self.result.due_objects.extend(due_items(&due));
        self.result.due_objects.extend(due_deployed(&due));
        let missed = &self.work.schedules.missed;
        let is_schedule = |object: &Object| {
            object.key.object_type == ObjectType::Schedule && !missed.contains(&object.key)
        };
        let due = due.into_iter().filter(is_schedule).map(|object| object.key);
        self.result.due_schedules.extend(due);
        Ok(())
    }
}

/// What the firings of a batch need.
#[derive(Default)]
struct Needed {
    tasks: Vec<TaskKey>,
    keys: Vec<IdempotencyKey>,
    runs: Vec<RunLookup>,
    templates: Vec<ObjectKey>,
}

impl Needed {
    fn add(&mut self, key: &ObjectKey, item: &ScheduleItem, loaded: &LoadedSchedule, now: Time) {
        let schedule = &loaded.schedule;
        let instants: Vec<Time> = match item.call {
            ScheduleCall::Fire => {
                let waiting = schedule.waiting.iter().map(|it| it.instant);
                waiting.chain(loaded.instants.due.iter().copied()).collect()
            }
            ScheduleCall::Trigger => vec![now],
            _ => Vec::new(),
        };
        let scope = &key.scope;
        let key_of =
            |instant| IdempotencyKey { scope: scope.clone(), text: firing_key(&key.id, instant) };
        self.keys.extend(instants.into_iter().map(key_of));
        if let (ScheduleCall::Fire, Some(last)) = (&item.call, schedule.last) {
            let run = TaskKey { scope: scope.clone(), id: last.run };
            self.runs.extend(RunLookup::of(&run, &cancel_older()));
            self.tasks.push(run);
        }
        self.templates.push(template_key(key));
    }
}

fn cancel_older() -> Request {
    let reason = Some("the schedule started a newer run".into());
    Request::Cancel(Cancel { mode: CancelMode::Graceful, reason })
}

/// What a decision about a schedule needs besides the working set.
pub(super) struct Deciding<'a> {
    pub(super) work: &'a mut WorkingSet,
    pub(super) ids: &'a mut Ids,
    pub(super) allowances: &'a Allowances,
    pub(super) at: Moment,
}

impl Deciding<'_> {
    /// The answer to one request; `None` if another writer has a row locked that it needs.
    pub(super) fn decide(&mut self, item: &ScheduleItem) -> Option<Answer> {
        if let ScheduleCall::Create { name, terms, is_paused, template } = &item.call {
            let next = schedules::next(terms, self.at.now);
            let schedule =
                Schedule::new(name.clone(), terms.clone(), *is_paused, next, self.at.now);
            return Some(self.create(item, schedule, template.clone()));
        }
        let Some(key) = self.work.schedules.key_of(item) else {
            return Some(refused(ScheduleRefusal::NotFound));
        };
        let found = self.work.schedules.loaded(&key).filter(|it| !it.schedule.is_deleted);
        let Some(schedule) = found.map(|it| it.schedule.clone()) else {
            return Some(refused(ScheduleRefusal::NotFound));
        };
        match &item.call {
            ScheduleCall::Fire => self.fire(&key, &schedule),
            ScheduleCall::Trigger => self.trigger(&key, &schedule, item.by.clone()),
            call => Some(match changed(schedule, call, self.at.now) {
                Ok(after) => {
                    if let ScheduleCall::Update { template: Some(template), .. } = call {
                        self.write_template(&key, template.clone(), item.by.as_ref());
                    }
                    self.write(&key, &after, item.by.clone());
                    answered(key.id, after, None)
                }
                Err(refusal) => refused(refusal),
            }),
        }
    }

    fn create(
        &mut self,
        item: &ScheduleItem,
        schedule: Schedule,
        template: verdict::Json,
    ) -> Answer {
        let name = unique(&item.scope, &schedule.name);
        if self.work.schedules.names.get(&name).is_some_and(Option::is_some) {
            return refused(ScheduleRefusal::NameTaken);
        }
        let id = schedule_id(self.ids.task(self.at.now));
        let key = schedule_key(&item.scope, &id);
        let slot = LoadedSchedule {
            revision: 0,
            schedule: schedule.clone(),
            template: None,
            instants: Instants::default(),
        };
        self.work.schedules.names.insert(name, Some(key.clone()));
        self.work.schedules.slots.insert(key.clone(), Slot::Loaded(Box::new(slot)));
        self.write_template(&key, template, item.by.as_ref());
        self.write(&key, &schedule, item.by.clone());
        answered(id, schedule, None)
    }

    /// Time has come for some instants.
    fn fire(&mut self, key: &ObjectKey, schedule: &Schedule) -> Option<Answer> {
        let former = schedule.last.map(|last| task_key(key, last.run));
        if former.as_ref().is_some_and(|former| self.work.is_locked(former)) {
            return None;
        }
        let is_former_live = former.is_some_and(|former| self.work.task(&former).is_some());
        let instants = self.work.schedules.loaded(key)?.instants.clone();
        let Some(round) = schedule.begin(&instants, is_former_live, self.at.now) else {
            return Some(Answer::Nothing);
        };
        if self.is_owner_locked(key, &round) {
            return None;
        }
        let allowed: Vec<bool> = round.fire.iter().map(|_| self.is_allowed(key)).collect();
        // The older run goes on where the rate lets no newer one take its place.
        if let Some(older) = round.cancel.filter(|_| allowed.contains(&true)) {
            let older = task_key(key, older);
            self.work.decide(&older, Cow::Owned(cancel_older()), self.at);
        }
        let fired = round.fire.iter().zip(allowed).map(|(it, is_allowed)| match is_allowed {
            true => outcome(self.submit(key, it.instant)),
            false => Fired::NoRoom,
        });
        let fired = fired.collect();
        let after = round.end(fired, self.at.now);
        self.work.batch_metrics.note_instants(schedule.counts, after.counts);
        self.write(key, &after, None);
        Some(answered(key.id.clone(), after, None))
    }

    /// A run for this moment. If it is refused, nothing changes.
    fn trigger(
        &mut self,
        key: &ObjectKey,
        schedule: &Schedule,
        by: Option<Name>,
    ) -> Option<Answer> {
        let round = schedule.triggered(self.at.now);
        if self.is_owner_locked(key, &round) {
            return None;
        }
        let answer = self.submit(key, self.at.now);
        let Answer::Accepted { task, .. } = answer else { return Some(answer) };
        let after = round.end(vec![Fired::Started(task)], self.at.now);
        self.work.batch_metrics.note_instants(schedule.counts, after.counts);
        self.write(key, &after, by);
        Some(answered(key.id.clone(), after, Some(task)))
    }

    /// Whether another writer has a run locked that was submitted for an instant of the round before.
    fn is_owner_locked(&self, key: &ObjectKey, round: &Round) -> bool {
        round.fire.iter().any(|it| {
            let text = firing_key(&key.id, it.instant);
            self.work.is_key_holder_locked(&IdempotencyKey { scope: key.scope.clone(), text })
        })
    }

    /// Whether the tenant's rate has room for the run of an instant. It counts as if a client had sent it, so that a schedule is
    /// no way around the rate; what has no room there waits, as with a quota.
    fn is_allowed(&self, key: &ObjectKey) -> bool {
        self.allowances.allows_firing(&key.scope.tenant, self.at.now)
    }

    fn submit(&mut self, key: &ObjectKey, instant: Time) -> Answer {
        let loaded = self.work.schedules.loaded(key);
        let template = loaded.and_then(|it| it.template.as_ref()).map(|(_, body)| body.clone());
        let template = template.unwrap_or_else(|| verdict::Json::from(""));
        let Ok(submission) = schedules::submission(&key.scope, &key.id, instant, &template) else {
            return Answer::Nothing;
        };
        let input = Digest::of(&[submission.spec.input.as_str().as_bytes()]);
        submit(self.work, self.ids, &submission, input, self.at, self.allowances)
    }

    fn write(&mut self, key: &ObjectKey, after: &Schedule, by: Option<Name>) {
        let Some(slot) = self.work.schedules.loaded_mut(key) else { return };
        slot.revision += 1;
        slot.schedule = after.clone();
        let change = schedule_change(key.clone(), slot.revision, after, self.at.now, by);
        self.work.objects.push(change);
        if after.is_deleted {
            self.work.schedules.names.insert(unique(&key.scope, &after.name), None);
        }
    }

    fn write_template(&mut self, key: &ObjectKey, template: verdict::Json, by: Option<&Name>) {
        let Some(slot) = self.work.schedules.loaded_mut(key) else { return };
        let revision = slot.template.as_ref().map_or(0, |(revision, _)| *revision) + 1;
        slot.template = Some((revision, template.clone()));
        let change = template_change(key, revision, template, self.at.now, by.cloned());
        self.work.objects.push(change);
    }
}

/// The schedule after a change that submits nothing.
fn changed(
    schedule: Schedule,
    call: &ScheduleCall,
    now: Time,
) -> Result<Schedule, ScheduleRefusal> {
    Ok(match call {
        ScheduleCall::Update { terms, .. } => {
            let terms = schedule.terms.changed(terms, now)?;
            // Only a change of the recurrence moves the next instant: what is due and not yet fired must not be lost.
            let next = match terms.recurrence == schedule.terms.recurrence {
                true => schedule.next,
                false => schedules::next(&terms, now),
            };
            schedule.updated(terms, next)
        }
        ScheduleCall::Pause => schedule.paused(),
        ScheduleCall::Resume => {
            let next = schedules::next(&schedule.terms, now);
            schedule.resumed(next)
        }
        ScheduleCall::Backfill { from, to } => {
            let instants = schedules::in_range(&schedule.terms, *from, *to);
            schedule.backfilled(&instants, now)?
        }
        ScheduleCall::Delete => schedule.deleted(),
        ScheduleCall::Create { .. } | ScheduleCall::Fire | ScheduleCall::Trigger => schedule,
    })
}

fn task_key(key: &ObjectKey, run: TaskId) -> TaskKey {
    TaskKey { scope: key.scope.clone(), id: run }
}

/// What the answer to a submission means for its instant.
fn outcome(answer: Answer) -> Fired {
    match answer {
        Answer::Accepted { task, .. } => Fired::Started(task),
        Answer::Refused(Refusal::QuotaReached { .. } | Refusal::BudgetSpent(_)) => Fired::NoRoom,
        Answer::Refused(refusal) => Fired::Refused(refusal.name().into()),
        // The template cannot be read by this program.
        _ => Fired::Refused(wire::Code::InvalidArgument.as_str().into()),
    }
}

fn answered(id: Name, schedule: Schedule, run: Option<TaskId>) -> Answer {
    Answer::Schedule(Box::new(ScheduleAnswer { id, schedule, run }))
}

fn refused(refusal: ScheduleRefusal) -> Answer {
    Answer::Refused(Refusal::Schedule(refusal))
}
