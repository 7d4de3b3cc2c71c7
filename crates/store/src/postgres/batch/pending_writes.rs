//! The changes of a batch. Its reads see them on top of the committed rows until the commit writes them all at once.

use std::collections::{BTreeMap, HashMap, HashSet};

use verdict::{ClosedAttempt, Event, LeaseId, Subject, Task, TaskId, Time};

use super::writes::{self, ColumnBatches, Guard, LiveTask, TaskIdentity};
use crate::codec::inline_history::{Appended, InlineHistory};
use crate::failure::Failure;
use crate::postgres::errors::{conflict, invalid};
use crate::postgres::rows::LiveRow;
use crate::row::{Change, Entry, IdempotencyKey, KeyOwner, Refused, Spec};
use crate::runs::{RunRows, StoredStep};
use crate::tables::long_wait;

/// One task that this batch created or changed.
pub(in crate::postgres) struct PendingTask {
    pub(in crate::postgres) subject: Subject,
    /// The spec of a task that this batch created.
    pub(in crate::postgres) spec: Option<Spec>,
    /// What the stored row must still be; `None` for a new task.
    guard: Option<Guard>,
    closed: Vec<ClosedAttempt>,
    entries: Vec<Entry>,
    /// The steps of a plan that this batch submitted.
    pub(in crate::postgres) steps: Vec<StoredStep>,
}

#[derive(Default)]
pub(in crate::postgres) struct PendingWrites {
    tasks: HashMap<TaskId, PendingTask>,
    /// In the order in which they were first saved, which is the order of arrival.
    order: Vec<TaskId>,
    pub(in crate::postgres) keys: BTreeMap<IdempotencyKey, KeyOwner>,
    /// The owner of each key when this batch first read it.
    pub(in crate::postgres) seen_keys: HashMap<IdempotencyKey, Option<TaskId>>,
    refused: Vec<Refused>,
}

impl PendingWrites {
    pub(in crate::postgres) fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.refused.is_empty()
    }

    pub(in crate::postgres) fn get(&self, id: TaskId) -> Option<&PendingTask> {
        self.tasks.get(&id)
    }

    pub(in crate::postgres) fn contains(&self, id: TaskId) -> bool {
        self.tasks.contains_key(&id)
    }

    pub(in crate::postgres) fn subjects(&self) -> impl Iterator<Item = &Subject> {
        self.order.iter().filter_map(|id| self.tasks.get(id)).map(|pending| &pending.subject)
    }

    /// The live tasks among them.
    pub(in crate::postgres) fn live(&self) -> impl Iterator<Item = &Task> {
        self.subjects().filter_map(Subject::live)
    }

    pub(in crate::postgres) fn closed(&self, id: TaskId) -> &[ClosedAttempt] {
        self.tasks.get(&id).map_or(&[], |pending| &pending.closed)
    }

    pub(in crate::postgres) fn save(&mut self, change: Change) -> Result<(), Failure> {
        change.check()?;
        let id = identity_of(&change.after)?.id;
        if change.spec.is_some() != change.before.is_none() {
            return Err(invalid("a spec comes with a new task and only then"));
        }
        if change.closed.iter().any(|closed| closed.task != id) {
            return Err(invalid("an attempt of another task"));
        }
        match self.tasks.get_mut(&id) {
            Some(pending) => pending.save(id, change),
            None => self.begin(id, change),
        }
    }

    /// The first change of a task in this batch.
    fn begin(&mut self, id: TaskId, change: Change) -> Result<(), Failure> {
        let Change { before, after, spec, closed, entries, steps } = change;
        let first = entries.first().map(|entry| entry.n);
        check_numbers(&entries, first.unwrap_or(1))?;
        if before.is_none() && first != Some(1) {
            return Err(invalid("a new task begins its history"));
        }
        if let (Some(text), Some(scope)) =
            (spec.as_ref().and_then(|it| it.key.clone()), after.scope())
        {
            let key = IdempotencyKey { scope: scope.clone(), text };
            let fingerprint = spec.as_ref().expect("it has a key").fingerprint;
            self.keys.insert(key, KeyOwner { task: id, fingerprint });
        }
        let guard = before.map(|before| Guard { before, entries_before: first.map(|n| n - 1) });
        self.tasks.insert(id, PendingTask { subject: after, spec, guard, closed, entries, steps });
        self.order.push(id);
        Ok(())
    }

    pub(in crate::postgres) fn refuse(&mut self, refused: Vec<Refused>) {
        self.refused.extend(refused);
    }

    /// Tasks that existed before this batch and that it did not lock.
    pub(in crate::postgres) fn unlocked(&self, locked: &HashMap<TaskId, LockedRow>) -> Vec<TaskId> {
        let is_unlocked =
            |id: &&TaskId| self.tasks[*id].guard.is_some() && !locked.contains_key(*id);
        self.order.iter().filter(is_unlocked).copied().collect()
    }

    /// Everything as rows. `locked` has the stored rows of tasks that existed before.
    pub(in crate::postgres) fn column_batches(
        &self,
        now: Time,
        locked: &HashMap<TaskId, LockedRow>,
        parked: &HashSet<TaskId>,
    ) -> ColumnBatches {
        let mut column_batches = ColumnBatches::new();
        for id in &self.order {
            let pending = self.tasks.get(id).expect("what is ordered is there");
            let is_parked = parked.contains(id) && pending.is_claimable();
            pending.write(&mut column_batches, now, locked.get(id), is_parked);
        }
        self.refused
            .iter()
            .for_each(|refused| writes::refused(&mut column_batches.refused, refused));
        for (key, held) in &self.keys {
            let seen = self.seen_keys.get(key).copied().flatten();
            writes::key(&mut column_batches.keys, key, held, seen);
        }
        column_batches
    }
}

impl PendingTask {
    /// A later change of the same task in the same batch.
    fn save(&mut self, id: TaskId, change: Change) -> Result<(), Failure> {
        let current = self.subject.live().map(|task| task.revision);
        if current.is_none() || change.before != current {
            return Err(conflict(id));
        }
        let next = self
            .entries
            .last()
            .map_or_else(|| change.entries.first().map_or(1, |entry| entry.n), |entry| entry.n + 1);
        check_numbers(&change.entries, next)?;
        if let (Some(guard), None) = (&mut self.guard, self.entries.first()) {
            guard.entries_before = change.entries.first().map(|entry| entry.n - 1);
        }
        let known = |attempt| self.closed.iter().any(|closed| closed.attempt == attempt);
        if change.closed.iter().any(|closed| known(closed.attempt)) {
            return Err(invalid("an attempt that was closed before"));
        }
        self.subject = change.after;
        self.closed.extend(change.closed);
        self.entries.extend(change.entries);
        Ok(())
    }

    fn is_claimable(&self) -> bool {
        self.subject.live().is_some_and(|task| task.claimable_at().is_some())
    }

    fn write(
        &self,
        column_batches: &mut ColumnBatches,
        now: Time,
        locked: Option<&LockedRow>,
        is_parked: bool,
    ) {
        let task = identity_of(&self.subject).expect("what is saved exists");
        let inline_history = self.append_history(column_batches, &task, locked);
        match (&self.subject, self.guard) {
            (Subject::Live(task), None) => {
                let (inline_history, alarm_at) = (&inline_history, task.wakes_at());
                let live = LiveTask { task, inline_history, now, alarm_at, is_parked };
                writes::new_live(&mut column_batches.new_live, live);
            }
            (Subject::Live(task), Some(guard)) => {
                let alarm_at = alarm_for(task, locked.and_then(|locked| locked.alarm_at), now);
                let inline_history = &inline_history;
                let live = LiveTask { task, inline_history, now, alarm_at, is_parked };
                writes::changed(&mut column_batches.changed, live, guard);
            }
            (Subject::Done(done), guard) => {
                if let Some(guard) = guard {
                    writes::ended(&mut column_batches.ended, done.id, &done.scope, guard);
                }
                writes::done(&mut column_batches.done, done, &inline_history);
            }
            (Subject::Absent, _) => unreachable!("what is saved exists"),
        }
        for closed in &self.closed {
            writes::attempt(&mut column_batches.attempts, task.scope, closed);
        }
        column_batches.runs.add_steps(&task, &self.steps);
        column_batches.runs.add(&task, &self.run_rows(), locked, &self.subject);
    }

    /// Whether this batch created it.
    pub(in crate::postgres) fn is_new(&self) -> bool {
        self.guard.is_none()
    }

    /// The rows of a durable run that follow from the entries.
    pub(in crate::postgres) fn run_rows(&self) -> RunRows<'_> {
        RunRows::of_parts(self.guard.map(|guard| guard.before), &self.subject, &self.entries)
    }

    /// What this batch decided about a durable run, entry by entry.
    pub(in crate::postgres) fn events(&self) -> impl Iterator<Item = &[Event]> {
        self.entries.iter().map(|entry| entry.events.as_slice())
    }

    /// Writes the history: the submission goes with the input, the next entries go into the inline history of the
    /// task's row, and entries that do not fit there go into the history table.
    fn append_history(
        &self,
        column_batches: &mut ColumnBatches,
        task: &TaskIdentity<'_>,
        locked: Option<&LockedRow>,
    ) -> InlineHistory {
        let mut inline_history =
            locked.map(|locked| locked.inline_history.clone()).unwrap_or_default();
        let mut entries = self.entries.as_slice();
        if let (None, Some(spec), Some((submission, later))) =
            (self.guard, &self.spec, entries.split_first())
        {
            let submitted = InlineHistory::of(task.id, submission);
            let identity = (task, &self.subject);
            writes::input(&mut column_batches.inputs, identity, spec, &submitted);
            entries = later;
        }
        for entry in entries {
            if inline_history.try_append(task.id, SUBMISSION, entry) == Appended::NoRoom {
                writes::entry(&mut column_batches.history, task.id, task.scope, entry);
            }
        }
        inline_history
    }
}

/// The stored row of a task that this batch locked.
#[derive(Clone)]
pub(in crate::postgres) struct LockedRow {
    pub(in crate::postgres) alarm_at: Option<Time>,
    pub(in crate::postgres) inline_history: InlineHistory,
    pub(in crate::postgres) lease: Option<LeaseId>,
    /// Whether it held a slot of its flow key.
    pub(in crate::postgres) holds_slot: bool,
    /// Whether the items of its wait have a row of their own.
    pub(in crate::postgres) has_long_wait: bool,
    /// The task, if it belongs to a durable run: what is loaded for it depends on its phase.
    pub(in crate::postgres) run: Option<Box<Subject>>,
}

impl LockedRow {
    pub(in crate::postgres) fn of(row: &LiveRow) -> Self {
        let lease = row.task.lease().map(|lease| lease.id);
        let has_long_wait = row.incomplete_wait().is_some() || long_wait(&row.task).is_some();
        let run = row.task.run.is_some().then(|| Box::new(Subject::Live(row.task.clone())));
        let (alarm_at, inline_history) = (row.alarm_at, row.inline_history.clone());
        let holds_slot = row.task.holds_slot();
        Self { alarm_at, inline_history, lease, holds_slot, has_long_wait, run }
    }
}

/// The number of the entry that is stored with the input.
const SUBMISSION: u32 = 1;

/// Keeps an alarm that will fire before the task wakes: then the row keeps its position in every index. An alarm that
/// has fired is never kept, because sweeps begin where the last one ended and would not find it again.
fn alarm_for(task: &Task, alarm: Option<Time>, now: Time) -> Option<Time> {
    let wakes_at = task.wakes_at()?;
    Some(alarm.filter(|alarm| !alarm.has_come(now) && *alarm <= wakes_at).unwrap_or(wakes_at))
}

fn check_numbers(entries: &[Entry], first: u32) -> Result<(), Failure> {
    if entries.iter().zip(first..).any(|(entry, n)| entry.n != n) {
        return Err(invalid("a history entry out of order"));
    }
    Ok(())
}

fn identity_of(after: &Subject) -> Result<TaskIdentity<'_>, Failure> {
    match after {
        Subject::Live(task) => Ok(TaskIdentity::submitted(task)),
        Subject::Done(done) => Ok(TaskIdentity::done(done)),
        Subject::Absent => Err(invalid("a change that leaves no task")),
    }
}
