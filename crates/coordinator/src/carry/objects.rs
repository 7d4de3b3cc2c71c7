//! Requests about objects in a batch: what they need is looked up, and what was decided becomes part of the batch.
//!
//! Rules say what a request needs and decide it ([`crate::subjects`]). Here are the look-ups, a few for all requests together, and
//! the facts that no row has: what a calendar says, what a template submits, and what room a tenant has.
//!
//! A batch that sweeps also looks for objects that are due. It only names them: the next batch carries a request for each, so
//! that what it needs is loaded as for any other.

use std::collections::BTreeSet;
use std::sync::Arc;

use store::objects::{LoadedObject, UniqueKey};
use store::{Batch, Lookup};
use verdict::desk::{DeskChange, DeskResult};
use verdict::known::{Body, Facts, Fetched, ObjectRow, Room};
use verdict::subject::{FactNeeds, Needs, ROUNDS_MAX};
use verdict::{Answer, Moment, Name, Object, ObjectKey, Time};

use super::batch::{Aborted, OpenBatch};
use super::recovery::due_items;
use super::topologies::due_deployed;
use super::working_set::WorkingSet;
use crate::allowances::Allowances;
use crate::ids::Ids;
use crate::item::Item;
use crate::schedules;
use crate::subjects::{ObjectRequest, row_of};

/// Objects that one batch finds due. The rest is found by the next, which follows at once.
const DUE_OBJECTS_MAX: usize = 256;

fn requests(items: &[Item]) -> impl Iterator<Item = &ObjectRequest> {
    items.iter().filter_map(|item| match item {
        Item::Object(request) => Some(&**request),
        _ => None,
    })
}

impl<B: Batch> OpenBatch<'_, B> {
    /// Loads what requests about objects need. A row may name others, so this takes several look-ups; most batches need none.
    pub(super) async fn load_objects(&mut self, items: &[Item], at: Moment) -> Result<(), Aborted> {
        for _ in 0..ROUNDS_MAX {
            let missing = self.missing(items, at.now);
            if missing.is_empty() {
                return Ok(());
            }
            self.look_up_needs(missing).await?;
        }
        match self.missing(items, at.now).is_empty() {
            true => Ok(()),
            false => Err(Aborted::Defect),
        }
    }

    /// The rows that are still to be looked up. Facts that are missing are answered at once, and may need further rows.
    fn missing(&mut self, items: &[Item], now: Time) -> Needs {
        loop {
            let mut missing = Needs::default();
            let known = &self.work.known;
            requests(items).for_each(|it| missing.extend(it.needs(known, now).missing(known)));
            if missing.facts.is_empty() {
                return missing;
            }
            self.answer_facts(missing.facts, now);
        }
    }

    fn answer_facts(&mut self, needs: FactNeeds, now: Time) {
        let FactNeeds { instants, templates, allowed, quotas } = needs;
        let allowances = self.options.allowances;
        let known = &mut self.work.known;
        for query in instants {
            let instants = schedules::instants(&query);
            known.facts.put_instants(query, instants);
        }
        for of in templates {
            let row = known.objects.fetched(&of.0).and_then(Fetched::loaded);
            put_template(&mut known.facts, of, row);
        }
        for (schedule, runs, each) in allowed {
            let tenant = &schedule.scope.tenant;
            let has_room = |_: &usize| allowances.allows_firing(tenant, each, now);
            let allowed = (0..runs).take_while(has_room).count();
            known.facts.put_allowed(schedule, allowed);
        }
        quotas.into_iter().for_each(|tenant| put_quota(&mut known.room, tenant, allowances));
    }

    async fn look_up_needs(&mut self, needs: Needs) -> Result<(), Aborted> {
        let Needs { tasks, keys, objects, names, facts: _ } = needs;
        let (tasks, keys) = (Vec::from_iter(tasks), Vec::from_iter(keys));
        let (objects, names) = (Vec::from_iter(objects), Vec::from_iter(names));
        let lookup = Lookup {
            tasks: &tasks,
            keys: &keys,
            objects: &objects,
            unique_objects: &names,
            ..Lookup::default()
        };
        let found = self.batch.look_up(lookup).await?;
        for (key, loaded) in tasks.into_iter().zip(found.tasks) {
            self.put(key, loaded);
        }
        for (key, owner) in keys.into_iter().zip(found.owners) {
            let owner = owner.map(|(owner, loaded)| {
                self.put(key.task(&owner), loaded);
                owner
            });
            self.work.known.keys.put(key, owner);
        }
        for (name, loaded) in names.into_iter().zip(found.unique_objects) {
            self.put_named(name, loaded);
        }
        for (key, loaded) in objects.into_iter().zip(found.objects) {
            self.work.known.objects.put(key, fetched(loaded, |object| row_of(&object)));
        }
        Ok(())
    }

    fn put_named(&mut self, name: UniqueKey, loaded: LoadedObject) {
        let with_key = |object: Object| row_of(&object).map(|row| (object.key, row));
        self.work.known.objects.put_named(name, fetched(loaded, with_key));
    }

    /// Names the objects that are due, for the next batch.
    pub(super) async fn find_due_objects(
        &mut self,
        items: &[Item],
        now: Time,
        background_max: usize,
    ) -> Result<(), Aborted> {
        let missed = self.missed_objects(items, now);
        // What this batch decided about them must not be found again.
        self.save().await?;
        let due = self.batch.due_objects(now, background_max.min(DUE_OBJECTS_MAX)).await?;
        let requests = due.iter().filter(|object| !missed.contains(&object.key));
        let requests = requests.filter_map(|object| ObjectRequest::of_due(object, now));
        self.result.due_objects.extend(requests.map(|it| Item::Object(Box::new(it))));
        self.result.due_objects.extend(due_items(&due));
        self.result.due_objects.extend(due_deployed(&due));
        Ok(())
    }

    /// The objects about which nothing could be decided. They are not named again by this batch: they are still due, so
    /// the carrier would try them without a pause until the other writer is done.
    fn missed_objects(&self, items: &[Item], now: Time) -> BTreeSet<ObjectKey> {
        let answers = items.iter().zip(&self.result.answers);
        let missed = answers.filter(|(_, answer)| answer.is_none()).map(|(item, _)| item);
        let known = &self.work.known;
        let requests = missed.flat_map(|item| requests(std::slice::from_ref(item)));
        requests.flat_map(|request| request.needs(known, now).objects).collect()
    }
}

fn fetched<T>(loaded: LoadedObject, read: impl FnOnce(Object) -> Option<T>) -> Fetched<T> {
    match loaded {
        LoadedObject::Locked => Fetched::Locked,
        LoadedObject::Absent => Fetched::Absent,
        LoadedObject::Object(object) => read(object).map_or(Fetched::Absent, Fetched::Loaded),
    }
}

fn put_template(facts: &mut Facts, of: (ObjectKey, u32), row: Option<&ObjectRow>) {
    let run = row.and_then(|row| match &row.body {
        Body::Template(template) => schedules::submission(&of.0.scope, template),
        _ => None,
    });
    facts.put_template(of, run.map(Arc::new));
}

/// The tenant's quota and its use, as the store counts it, or as this coordinator does.
fn put_quota(room: &mut Room, tenant: Name, allowances: &Allowances) {
    let max = allowances.quota(&tenant);
    if max.is_some() && room.counted(&tenant).is_none() {
        room.put_counted(tenant.clone(), allowances.unfinished(&tenant));
    }
    room.put_quota(tenant, max);
}

impl WorkingSet {
    /// The answer to one request; `None` if another writer has something that it needs, or an earlier decision of this batch has
    /// changed what that is.
    pub(super) fn decide_object(
        &mut self,
        ids: &mut Ids,
        request: &ObjectRequest,
        at: Moment,
    ) -> Option<Answer> {
        let needs = request.needs(&self.known, at.now);
        if needs.is_locked(&self.known) || !needs.missing(&self.known).is_empty() {
            return None;
        }
        let decided = request.decide(&self.known, at, ids.block(at.now));
        let DeskResult { answer, changes } = decided;
        if request.fires() {
            self.note_instants(&changes);
        }
        self.apply(changes, request.by(), at);
        Some(answer)
    }

    fn note_instants(&mut self, changes: &[DeskChange]) {
        for change in changes {
            if let DeskChange::Written { key, row } = change
                && let Body::Schedule(after) = &row.body
                && let Some(before) = self.known.objects.schedule(key)
            {
                self.batch_metrics.note_instants(before.counts, after.counts);
            }
        }
    }
}
