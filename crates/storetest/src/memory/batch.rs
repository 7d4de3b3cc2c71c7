//! One transaction: its saved rows overlay the committed ones, and replace them atomically at commit.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use store::failure::{CommitFailure, Failure, FailureKind};
use store::lookup::PolledRoom;
use store::objects::{LoadedObject, ObjectChange, UniqueKey};
use store::pauses::PausedQueues;
use store::row::{
    Backlog, BatchSpec, Change, EndedPosition, EndedTask, FlowRef, IdempotencyKey, KeyOwner,
    PollRef, SPEC_IN_BATCH_BYTES_MAX, Spec, TaskKey, TaskWithSpec, Unfinished, Want,
};
use store::runs::{MessageChanges, MessageKey, RunLookup, RunRows, SavedMessage};
use store::seam::{
    Batch, Claimable, Decided, Found, Loaded, Lookup, Plan, PolledQueues, Selection,
};
use store::spend::{SpendRow, add};
use store::{DebounceQuery, DebouncedKey};
use verdict::{
    ClosedAttempt, Done, LeaseId, Moment, Name, Object, ObjectKey, Retention, Rules, Scope,
    Subject, Task, TaskId, Time,
};

use super::flows::{self, AllStarts, has_rate};
use super::objects::{self, Objects, Seen};
use super::runs;
use super::tables::{Shared, Tables};
use super::{CommitOutcome, MemoryWriter, lock};

pub struct MemoryBatch<'w> {
    writer: &'w mut MemoryWriter,
    number: u64,
    rules: Rules,
    paused: PausedQueues,
    /// The version of the endpoints that it was given.
    settings_version: i64,
    /// What this batch saved; invisible to others.
    mine: Tables,
    /// The committed revision each saved task had; `None` for a new one.
    bases: BTreeMap<TaskId, Option<u32>>,
    /// The task each key belonged to when this batch first read it.
    key_bases: BTreeMap<IdempotencyKey, Option<TaskId>>,
    /// Whether each message that this batch changed was committed when it did.
    message_bases: BTreeMap<MessageKey, bool>,
    /// The committed revision that each object had when this batch first changed it.
    object_bases: BTreeMap<ObjectKey, Option<u32>>,
    now: Option<Time>,
    keep_alive: bool,
    /// Tasks to leave out of what is selected.
    excluded: BTreeSet<TaskId>,
}

impl<'w> MemoryBatch<'w> {
    pub(super) fn new(
        writer: &'w mut MemoryWriter,
        number: u64,
        rules: Rules,
        (paused, settings_version): (PausedQueues, i64),
    ) -> Self {
        Self {
            writer,
            number,
            rules,
            paused,
            settings_version,
            mine: Tables::default(),
            bases: BTreeMap::new(),
            key_bases: BTreeMap::new(),
            message_bases: BTreeMap::new(),
            object_bases: BTreeMap::new(),
            now: None,
            keep_alive: false,
            excluded: BTreeSet::new(),
        }
    }

    /// The number under which its commit is settled.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Works on the shared tables, if this writer may still use them.
    fn with<T>(
        &mut self,
        work: impl FnOnce(&mut Self, &mut Shared) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let shared = self.writer.shared.clone();
        let mut shared = lock(&shared);
        shared.check_opening(self.writer.opening)?;
        work(self, &mut shared)
    }

    fn read_clock(&mut self) -> Time {
        *self.now.get_or_insert_with(|| self.writer.reading.now())
    }

    fn subject(&self, shared: &Shared, id: TaskId) -> Option<Subject> {
        self.mine.subject(id).or_else(|| shared.tables.subject(id))
    }

    fn spec(&self, shared: &Shared, id: TaskId) -> Spec {
        let spec = self.mine.specs.get(&id).or_else(|| shared.tables.specs.get(&id));
        spec.expect("a task is submitted with its spec").clone()
    }

    /// Every live task as this batch sees it.
    fn live<'a>(&'a self, shared: &'a Shared) -> impl Iterator<Item = &'a Task> {
        let mine = &self.mine;
        let untouched = move |task: &&Task| {
            !mine.live.contains_key(&task.id) && !mine.done.contains_key(&task.id)
        };
        shared.tables.live.values().filter(untouched).chain(mine.live.values())
    }

    /// The starts of flow keys with a rate, as this batch sees them.
    fn flow_starts(&self, shared: &Shared) -> AllStarts {
        let mut starts = AllStarts::default();
        if self.live(shared).any(has_rate) {
            let subject = |id| self.subject(shared, id);
            shared.tables.add_starts(&mut starts, subject);
            self.mine.add_starts(&mut starts, subject);
        }
        starts
    }

    /// Every live task that no other batch has locked.
    fn free<'a>(&'a self, shared: &'a Shared) -> impl Iterator<Item = &'a Task> {
        let is_free = |task: &&Task| {
            !shared.is_locked_by_another(task.id, self.number) && !self.excluded.contains(&task.id)
        };
        self.live(shared).filter(is_free)
    }

    fn load_one(&self, shared: &mut Shared, key: &TaskKey) -> Loaded {
        if self.excluded.contains(&key.id) {
            return Loaded::Locked;
        }
        let subject = self.subject(shared, key.id);
        match subject.filter(|subject| subject.scope() == Some(&key.scope)) {
            None => Loaded::Subject(Subject::Absent),
            Some(Subject::Live(task)) if shared.is_locked_by_another(task.id, self.number) => {
                Loaded::Locked
            }
            Some(subject) => {
                if subject.live().is_some() {
                    shared.locks.insert(key.id, self.number);
                }
                Loaded::Subject(subject)
            }
        }
    }

    /// The task of a key that waits for a newer one, and the lock against other submissions.
    fn debounced(&self, shared: &mut Shared, query: &DebounceQuery) -> DebouncedKey {
        let DebounceQuery { flow, now } = query;
        if !shared.takes_debounce(flow, self.number) {
            return DebouncedKey::Locked;
        }
        let waits = |task: &&Task| {
            FlowRef::of(task).as_ref() == Some(flow)
                && task.debounced_until().is_some_and(|until| until > *now)
        };
        let Some(id) = self.live(shared).find(waits).map(|task| task.id) else {
            return DebouncedKey::Nobody;
        };
        let key = TaskKey { scope: flow.scope.clone(), id };
        DebouncedKey::Waits(id, self.load_one(shared, &key))
    }

    fn key_owner(&mut self, shared: &Shared, key: &IdempotencyKey) -> Option<KeyOwner> {
        if let Some(held) = self.mine.keys.get(key) {
            return Some(held.clone());
        }
        let held = shared.tables.keys.get(key).cloned();
        self.key_bases.insert(key.clone(), held.as_ref().map(|held| held.task));
        held
    }

    fn ready_one(
        &self,
        shared: &Shared,
        want: &Want,
        now: Time,
        gone: &BTreeSet<TaskId>,
    ) -> Vec<TaskWithSpec> {
        let mut tasks: Vec<&Task> = self
            .free(shared)
            .filter(|task| is_wanted(task, want) && !gone.contains(&task.id))
            .filter(|task| task.claimable_at().is_some_and(|at| at.has_come(now)))
            .collect();
        tasks.sort_by_key(|task| (std::cmp::Reverse(task.priority), task.id));
        tasks.truncate(want.max);
        tasks.into_iter().map(|task| self.ready_row(shared, task)).collect()
    }

    /// Tasks whose flow key another batch has locked: it may be granting the last slot.
    fn of_others_keys(&self, shared: &Shared) -> BTreeSet<TaskId> {
        let is_theirs = |task: &&Task| {
            let holder = FlowRef::of(task).and_then(|flow| shared.flow_locks.get(&flow));
            holder.is_some_and(|holder| *holder != self.number)
        };
        self.live(shared).filter(is_theirs).map(|task| task.id).collect()
    }

    fn ready_row(&self, shared: &Shared, task: &Task) -> TaskWithSpec {
        TaskWithSpec { task: task.clone(), spec: self.batch_spec(shared, task.id) }
    }

    /// What this batch has written is in memory anyway.
    fn batch_spec(&self, shared: &Shared, id: TaskId) -> BatchSpec {
        let spec = self.spec(shared, id);
        let labels: usize = spec.labels.iter().map(|(name, value)| name.len() + value.len()).sum();
        let goal = spec.goal.as_ref().map_or(0, |goal| goal.as_str().len());
        let input_bytes = spec.input.as_str().len();
        let is_long = input_bytes + labels + goal > SPEC_IN_BATCH_BYTES_MAX;
        if is_long && shared.tables.specs.contains_key(&id) {
            return BatchSpec::Long { input_bytes, traceparent: spec.traceparent };
        }
        BatchSpec::Whole(spec)
    }

    fn polled_one(&self, shared: &Shared, poll: &PollRef) -> Vec<TaskWithSpec> {
        let asked_by = |task: &&Task| {
            task.scope == poll.scope
                && task.lease().is_some_and(|lease| {
                    lease.owner == poll.owner && lease.poll.as_ref() == Some(&poll.poll)
                })
        };
        let mut tasks: Vec<&Task> = self.live(shared).filter(asked_by).collect();
        tasks.retain(|task| !self.excluded.contains(&task.id));
        tasks.sort_by_key(|task| task.id);
        tasks.into_iter().map(|task| self.ready_row(shared, task)).collect()
    }

    fn closed_one(
        &self,
        shared: &Shared,
        (task, lease): &(TaskId, LeaseId),
    ) -> Option<ClosedAttempt> {
        let all = (*task, 0)..=(*task, u32::MAX);
        let committed = shared.tables.attempts.range(all.clone());
        let mut rows = committed.chain(self.mine.attempts.range(all));
        rows.find(|(_, closed)| closed.lease == *lease).map(|(_, closed)| closed.clone())
    }

    fn due(&self, shared: &Shared, now: Time, limit: usize) -> Vec<Task> {
        let wakes = |task: &&Task| task.wakes_at().is_some_and(|at| at.has_come(now));
        let mut tasks: Vec<Task> = self.free(shared).filter(wakes).cloned().collect();
        tasks.sort_by_key(|task| (task.wakes_at(), task.id));
        tasks.truncate(limit);
        tasks
    }

    fn running(
        &self,
        shared: &Shared,
        after: Option<TaskId>,
        limit: usize,
    ) -> Result<Vec<Task>, Failure> {
        let wanted =
            |task: &&Task| task.lease().is_some() && after.is_none_or(|after| task.id > after);
        let mut tasks: Vec<Task> = self.live(shared).filter(wanted).cloned().collect();
        tasks.retain(|task| !self.excluded.contains(&task.id));
        tasks.sort_by_key(|task| task.id);
        tasks.truncate(limit);
        let is_held = |task: &&Task| shared.is_locked_by_another(task.id, self.number);
        match tasks.iter().find(is_held) {
            Some(held) => Err(conflict(held.id)),
            None => Ok(tasks),
        }
    }

    fn forget_one(
        &mut self,
        shared: &Shared,
        position: EndedPosition,
        now: Time,
    ) -> Result<(), Failure> {
        let id = TaskId::from_u128(position.0);
        let old = |done: &Done| done.completed_at.plus(Retention::AGE_MIN).has_come(now);
        if !shared.tables.done.get(&id).is_some_and(|done| old(done) && is_root(done)) {
            return Err(invalid("only runs that ended at least a day ago can be deleted"));
        }
        self.mine.forgotten.extend(shared.tables.run(id));
        Ok(())
    }

    fn save_one(&mut self, shared: &mut Shared, mut change: Change) -> Result<(), Failure> {
        let id = match &change.after {
            Subject::Live(task) => task.id,
            Subject::Done(done) => done.id,
            Subject::Absent => return Err(invalid("a change that leaves no task")),
        };
        change.check()?;
        self.guard(shared, id, change.before)?;
        self.check_rows(shared, id, &change)?;
        shared.locks.insert(id, self.number);
        self.bases.entry(id).or_insert(change.before);
        self.save_records(shared, id, &mut change)?;
        if let Some(spec) = change.spec {
            self.save_spec(shared, id, &change.after, spec);
        }
        self.mine.attempts.extend(change.closed.into_iter().map(|row| ((id, row.attempt), row)));
        self.mine.history.extend(change.entries.into_iter().map(|entry| ((id, entry.n), entry)));
        match change.after {
            Subject::Live(task) => drop(self.mine.live.insert(id, task)),
            Subject::Done(done) => {
                self.mine.live.remove(&id);
                self.mine.done.insert(id, done);
            }
            Subject::Absent => unreachable!("refused above"),
        }
        Ok(())
    }

    fn save_records(
        &mut self,
        shared: &Shared,
        id: TaskId,
        change: &mut Change,
    ) -> Result<(), Failure> {
        let steps = std::mem::take(&mut change.steps);
        let rows = RunRows::of(change);
        if rows.is_empty() && steps.is_empty() {
            return Ok(());
        }
        let committed = || shared.tables.runs.get(&id).cloned().unwrap_or_default();
        let records = self.mine.runs.entry(id).or_insert_with(committed);
        records.put_steps(steps).map_err(|failure| failure.about(id))?;
        records.write(&rows).map_err(|failure| failure.about(id))
    }

    fn load_run(&self, shared: &mut Shared, run: &RunLookup) -> verdict::Loaded {
        let Loaded::Subject(subject) = self.load_one(shared, &run.task) else {
            return verdict::Loaded::default();
        };
        let id = run.task.id;
        let records = self.mine.runs.get(&id).or_else(|| shared.tables.runs.get(&id));
        match (records, &subject) {
            (Some(records), Subject::Live(_) | Subject::Done(_)) => records.load(run, &subject),
            _ => verdict::Loaded::default(),
        }
    }

    fn step_specs(&self, shared: &mut Shared, run: &RunLookup) -> Vec<(TaskId, Spec)> {
        let Loaded::Subject(subject) = self.load_one(shared, &run.task) else { return Vec::new() };
        let id = run.task.id;
        let records = self.mine.runs.get(&id).or_else(|| shared.tables.runs.get(&id));
        records.map_or_else(Vec::new, |records| records.step_specs(run, &subject))
    }

    fn messages(&self, shared: &Shared) -> BTreeMap<MessageKey, SavedMessage> {
        runs::visible(&shared.tables.messages, &self.mine.message_changes)
    }

    /// The revision guard: the changed revision must be the one that was loaded.
    fn guard(&self, shared: &Shared, id: TaskId, before: Option<u32>) -> Result<(), Failure> {
        let current = match self.subject(shared, id) {
            None => None,
            Some(Subject::Live(task)) => Some(task.revision),
            Some(Subject::Done(_) | Subject::Absent) => return Err(conflict(id)),
        };
        if current != before || shared.is_locked_by_another(id, self.number) {
            return Err(conflict(id));
        }
        Ok(())
    }

    /// Rows that are written once: the spec with a new task, attempts once, history without gaps.
    fn check_rows(&self, shared: &Shared, id: TaskId, change: &Change) -> Result<(), Failure> {
        if change.spec.is_some() != change.before.is_none() {
            return Err(invalid("a spec comes with a new task and only then"));
        }
        let known = |attempt| {
            let row = (id, attempt);
            self.mine.attempts.contains_key(&row) || shared.tables.attempts.contains_key(&row)
        };
        if change.closed.iter().any(|closed| closed.task != id || known(closed.attempt)) {
            return Err(invalid("an attempt that was closed before"));
        }
        let all = (id, 0)..=(id, u32::MAX);
        let mine = self.mine.history.range(all.clone()).next_back();
        let last = mine.or_else(|| shared.tables.history.range(all).next_back());
        let next = last.map_or(1, |((_, n), _)| n + 1);
        let expected = next..;
        if change.entries.iter().zip(expected).any(|(entry, n)| entry.n != n) {
            return Err(invalid("a history entry out of order"));
        }
        Ok(())
    }

    fn save_spec(&mut self, shared: &Shared, id: TaskId, after: &Subject, spec: Spec) {
        let scope = after.scope().expect("a saved task has a scope").clone();
        if let Some(text) = spec.key.clone() {
            let key = IdempotencyKey { scope, text };
            let base = shared.tables.keys.get(&key).map(|held| held.task);
            self.key_bases.entry(key.clone()).or_insert(base);
            self.mine.keys.insert(key, KeyOwner { task: id, fingerprint: spec.fingerprint });
        }
        self.mine.specs.insert(id, spec);
    }

    /// Checks that no other batch committed in between, with or without locks.
    fn check_bases(&self, shared: &Shared) -> Result<(), Failure> {
        for (id, base) in &self.bases {
            let committed = shared.tables.live.get(id).map(|task| task.revision);
            if committed != *base || shared.tables.done.contains_key(id) {
                return Err(conflict(*id));
            }
        }
        for (key, held) in &self.mine.keys {
            let committed = shared.tables.keys.get(key).map(|held| held.task);
            if self.key_bases.get(key) != Some(&committed) || shared.is_in_flight(key) {
                return Err(conflict(held.task));
            }
        }
        for (key, base) in &self.object_bases {
            let committed = shared.tables.objects.current.get(key).map(|object| object.revision);
            if committed != *base {
                return Err(conflict(TaskId::from_u128(0)));
            }
        }
        for (key, existed) in &self.message_bases {
            let exists = shared.tables.messages.contains_key(key);
            if exists != *existed || shared.is_message_in_flight(key) {
                return Err(conflict(key.to.id));
            }
        }
        Ok(())
    }

    fn load_object(&self, shared: &mut Shared, object: Option<Object>) -> LoadedObject {
        let key = object.as_ref().map(|object| object.key.clone());
        let is_locked =
            key.as_ref().is_some_and(|key| shared.is_object_locked_by_another(key, self.number));
        if let Some(key) = key.filter(|_| !is_locked) {
            shared.object_locks.insert(key, self.number);
        }
        objects::loaded(object, is_locked)
    }

    fn object(&self, shared: &mut Shared, key: &ObjectKey) -> LoadedObject {
        let seen = Seen { committed: &shared.tables.objects, mine: &self.mine.objects };
        let object = seen.get(key).cloned();
        self.load_object(shared, object)
    }

    fn unique_object(&self, shared: &mut Shared, key: &UniqueKey) -> LoadedObject {
        let seen = Seen { committed: &shared.tables.objects, mine: &self.mine.objects };
        let object = seen.unique(key).cloned();
        self.load_object(shared, object)
    }

    /// The revision guard, and that no other object has the unique key.
    fn save_object(&mut self, shared: &mut Shared, change: ObjectChange) -> Result<(), Failure> {
        let key = &change.after.key;
        if change.after.revision == 0 {
            return Err(invalid("the first revision of an object is 1"));
        }
        let seen = Seen { committed: &shared.tables.objects, mine: &self.mine.objects };
        let stored = seen.get(key).map(|object| object.revision);
        let unique = change.after.unique_key.clone().map(|unique_key| {
            let ObjectKey { scope, object_type, .. } = key.clone();
            UniqueKey { scope, object_type, unique_key }
        });
        let holder = unique.as_ref().and_then(|unique| seen.unique(unique));
        if holder.is_some_and(|holder| holder.key != *key) {
            return Err(invalid("another object has this unique key"));
        }
        if !change.follows(stored) || shared.is_object_locked_by_another(key, self.number) {
            return Err(conflict(TaskId::from_u128(0)));
        }
        let committed = shared.tables.objects.current.get(key).map(|object| object.revision);
        self.object_bases.entry(key.clone()).or_insert(committed);
        shared.object_locks.insert(key.clone(), self.number);
        self.mine.objects.write(change);
        Ok(())
    }

    fn save_messages(&mut self, shared: &Shared, changes: MessageChanges) -> Result<(), Failure> {
        runs::change(&shared.tables.messages, &mut self.mine.message_changes, changes)?;
        for key in self.mine.message_changes.keys() {
            let existed = shared.tables.messages.contains_key(key);
            self.message_bases.entry(key.clone()).or_insert(existed);
        }
        Ok(())
    }
}

impl Batch for MemoryBatch<'_> {
    async fn prepare(&mut self, plan: Plan<'_>) -> Result<Option<Vec<Unfinished>>, Failure> {
        if let Some(tasks) = plan.exclude {
            self.excluded.clone_from(tasks);
        }
        Ok(None)
    }

    /// Never waits for a lock: a test says when another writer releases it.
    async fn look_up(&mut self, lookup: Lookup<'_>) -> Result<Found, Failure> {
        let now = self.now.unwrap_or_else(|| self.writer.reading.now());
        self.with(|batch, shared| {
            let owners: Vec<Option<KeyOwner>> =
                lookup.keys.iter().map(|key| batch.key_owner(shared, key)).collect();
            let tasks = lookup.tasks_to_load(&owners);
            let loaded = tasks.iter().map(|key| batch.load_one(shared, key)).collect();
            let mut found = Found::of(&lookup, owners, loaded);
            let closed = lookup.leases.iter().map(|lease| batch.closed_one(shared, lease));
            found.closed = closed.collect();
            let mut room = PolledRoom::default();
            let polled = lookup.polls.iter().map(|poll| batch.polled_one(shared, poll));
            found.leased = polled.map(|found| room.takes(found.len()).then_some(found)).collect();
            found.runs = lookup.runs.iter().map(|run| batch.load_run(shared, run)).collect();
            let specs = lookup.runs.iter().flat_map(|run| batch.step_specs(shared, run));
            found.step_specs = specs.collect();
            let messages = batch.messages(shared);
            found.messages = runs::of_addressees(&messages, lookup.messages, &batch.excluded);
            found.objects = lookup.objects.iter().map(|key| batch.object(shared, key)).collect();
            found.unique_objects =
                lookup.unique_objects.iter().map(|key| batch.unique_object(shared, key)).collect();
            let starts = batch.flow_starts(shared);
            let flow_use = |flow: &FlowRef| flows::in_use(batch.live(shared), &starts, flow, now);
            found.flows = lookup.flows.iter().map(flow_use).collect();
            let waiting = lookup.debounced.iter().map(|query| batch.debounced(shared, query));
            found.debounced = waiting.collect();
            found.spend = lookup.spend.iter().map(|query| shared.tables.spent(query)).collect();
            found.logs = lookup.logs.iter().map(|key| shared.tables.pieces(key)).collect();
            let listed = lookup.listed.iter().map(|filter| shared.tables.objects.list(filter));
            found.listed = listed.collect();
            Ok(found)
        })
    }

    async fn addressees(&mut self, now: Time, limit: usize) -> Result<Vec<TaskKey>, Failure> {
        self.with(|batch, shared| {
            let mut due = runs::addressees(&batch.messages(shared), now);
            due.retain(|key| !batch.excluded.contains(&key.id));
            Ok(runs::in_limit(due, limit))
        })
    }

    async fn due_objects(&mut self, now: Time, limit: usize) -> Result<Vec<Object>, Failure> {
        self.with(|batch, shared| {
            let seen = Seen { committed: &shared.tables.objects, mine: &batch.mine.objects };
            let mut due = seen.due(now);
            due.retain(|object| !shared.is_object_locked_by_another(&object.key, batch.number));
            due.truncate(limit);
            let locks = due.iter().map(|object| (object.key.clone(), batch.number));
            shared.object_locks.extend(locks);
            Ok(due)
        })
    }

    async fn ended(
        &mut self,
        after: Option<EndedPosition>,
        limit: usize,
    ) -> Result<Vec<EndedTask>, Failure> {
        self.with(|batch, shared| {
            let known = shared.tables.done.values().chain(batch.mine.done.values());
            let mut ended: Vec<EndedTask> = known
                .filter(|done| !batch.mine.forgotten.contains(&done.id))
                .filter(|done| is_root(done))
                .map(|done| ended_task(done, &shared.tables.objects))
                .filter(|ended| after.is_none_or(|after| ended.position > after))
                .collect();
            ended.sort_by_key(|ended| ended.position);
            ended.truncate(limit);
            Ok(ended)
        })
    }

    async fn moment(&mut self) -> Result<Moment, Failure> {
        let now = self.read_clock();
        self.writer.looked_at = Some(now);
        Ok(Moment { now, epoch: self.writer.epoch, rules: self.rules })
    }

    async fn save(&mut self, decided: Decided) -> Result<(), Failure> {
        let Decided { changes, refused, forgotten, messages, objects, spend, logs, keep_alive } =
            decided;
        self.mine.saved_logs.extend(logs);
        self.keep_alive |= keep_alive;
        for SpendRow { scope, day, amounts } in spend {
            let sum = self.mine.spend.entry((scope, day)).or_default();
            *sum = add(*sum, amounts);
        }
        self.with(|batch, shared| {
            changes.into_iter().try_for_each(|change| batch.save_one(shared, change))?;
            for refused in refused {
                if !shared.tables.has_refused(&refused) {
                    batch.mine.add_refused(refused);
                }
            }
            batch.save_messages(shared, messages)?;
            objects.into_iter().try_for_each(|change| batch.save_object(shared, change))
        })?;
        if forgotten.is_empty() {
            return Ok(());
        }
        let now = self.read_clock();
        self.with(|batch, shared| {
            forgotten.into_iter().try_for_each(|position| batch.forget_one(shared, position, now))
        })
    }

    async fn backlogs(
        &mut self,
        polled: &dyn PolledQueues,
        claimable: Claimable,
    ) -> Result<Vec<Backlog>, Failure> {
        let Claimable::By(now) = claimable else { return Ok(Vec::new()) };
        self.with(|batch, shared| {
            let mut held: BTreeMap<(&Scope, Cow<'_, Name>), Vec<&Name>> = BTreeMap::new();
            let is_ready = |task: &&Task| task.claimable_at().is_some_and(|at| at.has_come(now));
            let starts = batch.flow_starts(shared);
            let parked = flows::parked(batch.live(shared), &starts, now);
            let offered = batch.free(shared).filter(|task| !parked.contains(&task.id));
            for task in offered.filter(is_ready) {
                held.entry((&task.scope, task.offered_in())).or_default().push(&task.kind);
            }
            held.retain(|(scope, queue), _| polled.contains(scope, queue));
            let backlog = |((scope, queue), kinds): ((&Scope, Cow<'_, Name>), Vec<&Name>)| {
                let named = kinds.iter().filter(|kind| polled.names_kind(scope, kind));
                let named: BTreeSet<Name> = named.map(|kind| (*kind).clone()).collect();
                let (scope, queue) = (scope.clone(), queue.into_owned());
                Backlog { scope, queue, tasks: kinds.len(), kinds: Some(Vec::from_iter(named)) }
            };
            Ok(held.into_iter().map(backlog).collect())
        })
    }

    async fn ready(
        &mut self,
        wants: &[Want],
        now: Time,
    ) -> Result<Vec<Vec<TaskWithSpec>>, Failure> {
        self.with(|batch, shared| {
            let starts = batch.flow_starts(shared);
            let mut gone = flows::parked(batch.live(shared), &starts, now);
            let others = batch.of_others_keys(shared);
            gone.extend(others);
            let mut answers = Vec::new();
            for want in wants {
                let ready = batch.ready_one(shared, want, now, &gone);
                gone.extend(ready.iter().map(|ready| ready.task.id));
                for ready in &ready {
                    shared.locks.insert(ready.task.id, batch.number);
                    shared.takes_flow(&ready.task, batch.number);
                }
                answers.push(ready);
            }
            Ok(answers)
        })
    }

    async fn most_urgent(
        &mut self,
        queues: &[(Scope, Name)],
        now: Time,
    ) -> Result<Vec<Option<i32>>, Failure> {
        self.with(|batch, shared| {
            let is_ready = |task: &&Task| task.claimable_at().is_some_and(|at| at.has_come(now));
            let ready: Vec<&Task> = batch.free(shared).filter(is_ready).collect();
            let most_urgent = |(scope, queue): &(Scope, Name)| {
                let here =
                    ready.iter().filter(|it| it.scope == *scope && *it.offered_in() == *queue);
                here.map(|task| task.priority).max()
            };
            Ok(queues.iter().map(most_urgent).collect())
        })
    }

    async fn select(&mut self, selection: Selection, limit: usize) -> Result<Vec<Task>, Failure> {
        self.with(|batch, shared| {
            let tasks = match selection {
                Selection::Due { now } => batch.due(shared, now, limit),
                Selection::Running { after } => batch.running(shared, after, limit)?,
            };
            shared.locks.extend(tasks.iter().map(|task| (task.id, batch.number)));
            Ok(tasks)
        })
    }

    fn paused(&self) -> &PausedQueues {
        &self.paused
    }

    fn settings_version(&self) -> i64 {
        self.settings_version
    }

    async fn commit(mut self) -> Result<(), CommitFailure> {
        let at = self.read_clock();
        let written = self.with(|batch, shared| {
            batch.check_bases(shared)?;
            if shared.rules != batch.rules.number() {
                let kind = FailureKind::Conflict(TaskId::from_u128(0));
                return Err(Failure::new(kind, "another version of the rules came into force"));
            }
            let version = shared.tables.objects.settings_version();
            if shared.tables.paused != batch.paused || version != batch.settings_version {
                let kind = FailureKind::Conflict(TaskId::from_u128(0));
                return Err(Failure::new(kind, "the paused queues or the endpoints have changed"));
            }
            let saved = std::mem::take(&mut batch.mine);
            let has_news = batch.keep_alive || !saved.is_empty();
            if has_news {
                shared.write(batch.number, saved, at);
            }
            Ok(has_news)
        });
        if !written.map_err(CommitFailure::RolledBack)? {
            return Ok(());
        }
        self.writer.disk.sync().await.map_err(CommitFailure::Unknown)?;
        let durable = self.with(|batch, shared| {
            shared.settle(batch.number, CommitOutcome::Kept);
            Ok(())
        });
        durable.map_err(CommitFailure::Unknown)
    }
}

impl Drop for MemoryBatch<'_> {
    fn drop(&mut self) {
        lock(&self.writer.shared).end_batch(self.number);
    }
}

fn is_wanted(task: &Task, want: &Want) -> bool {
    task.scope == want.scope
        && want.queues.contains(&task.offered_in())
        && want.kinds.as_ref().is_none_or(|kinds| kinds.contains(&task.kind))
}

fn conflict(id: TaskId) -> Failure {
    Failure::new(FailureKind::Conflict(id), "another writer changed the task first")
}

fn invalid(what: &str) -> Failure {
    Failure::new(FailureKind::Invalid, what)
}

/// A run is forgotten as a whole: a task with a parent is not one.
fn is_root(done: &Done) -> bool {
    let lineage = done.run.as_ref().and_then(|run| run.lineage.as_ref());
    lineage.is_none_or(|lineage| lineage.parent().is_none())
}

/// Ids grow with submissions, so their order is the order of positions.
fn ended_task(done: &Done, objects: &Objects) -> EndedTask {
    EndedTask {
        position: EndedPosition(done.id.as_u128()),
        created_at: done.created_at,
        completed_at: done.completed_at,
        has_pending_objects: objects.has_pending(&done.scope, &done.id.run_name().into()),
    }
}
