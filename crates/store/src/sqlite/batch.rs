//! One transaction of the writer, between `BEGIN IMMEDIATE` and `COMMIT`.
//!
//! The first error ends it: the transaction is rolled back there and then, memory is put back to
//! what it was, and every later call says so. Only COMMIT itself can leave the outcome open; then
//! the whole store is given up until it is opened again.

use std::collections::{HashMap, HashSet};

use verdict::{Closed, LeaseId, Subject, Task, TaskId, Time};

use super::fresh::{Fresh, FreshTasks};
use super::order::Marks;
use super::rows::LiveRow;
use super::writer::SqliteWriter;
use super::writes::{self, Named};
use super::{keys, leaving, reads, trouble};
use crate::failure::{CommitFailure, Failure, FailureKind};
use crate::row::{Change, Ended, Held, Key, Place, PollRef, Ready, Refused, Spec, TaskKey, Want};
use crate::seam::{Batch, Loaded};

pub struct SqliteBatch<'w> {
    writer: &'w mut SqliteWriter,
    /// Where tasks that this batch has read or saved are, in the table and in the order.
    known: HashMap<TaskId, Known>,
    /// Tasks that this batch created, not yet in `live`.
    fresh: FreshTasks,
    now: Option<Time>,
    state: State,
    writes: Writes,
}

struct Known {
    row: i64,
    /// `None` once the task has ended.
    marks: Option<Marks>,
    /// How long its history is.
    entries: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    RolledBack,
    Committed,
}

/// Whether there is anything to make durable.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writes {
    None,
    Some,
}

impl<'w> SqliteBatch<'w> {
    pub(super) fn begin(writer: &'w mut SqliteWriter) -> Result<Self, Failure> {
        writer
            .connection
            .prepare_cached("BEGIN IMMEDIATE")
            .and_then(|mut begin| begin.execute([]))
            .map_err(trouble::while_doing("beginning a batch"))?;
        faultpoint::point!("batch.begun");
        writer.memory.begin();
        let (known, fresh, now) = (HashMap::new(), FreshTasks::default(), None);
        Ok(Self { writer, known, fresh, now, state: State::Open, writes: Writes::None })
    }

    /// Runs one step; the first failure rolls the whole batch back.
    fn step<T>(
        &mut self,
        what: &'static str,
        work: impl FnOnce(&mut Self) -> Result<T, Trouble>,
    ) -> Result<T, Failure> {
        if self.state != State::Open {
            return Err(Failure::new(FailureKind::Unavailable, "the batch was rolled back before"));
        }
        work(self).map_err(|trouble| {
            self.roll_back();
            match trouble {
                Trouble::Sql(error) => trouble::while_doing(what)(error),
                Trouble::Failure(failure) => failure,
            }
        })
    }

    fn roll_back(&mut self) {
        self.state = State::RolledBack;
        // Some errors make SQLite roll back by itself.
        if !self.writer.connection.is_autocommit()
            && self.writer.connection.execute_batch("ROLLBACK").is_err()
        {
            self.writer.shared.poison();
        }
        self.writer.memory.rollback();
    }

    fn read_clock(&mut self) -> Time {
        *self.now.get_or_insert_with(|| self.writer.shared.reading.now())
    }

    fn row_of(&self, id: TaskId) -> rusqlite::Result<Option<i64>> {
        match (self.known.get(&id), self.writer.memory.running.get(id)) {
            (Some(known), _) => Ok(Some(known.row)),
            (None, Some(live)) => Ok(Some(live.row)),
            (None, None) => reads::row_of(&self.writer.connection, id),
        }
    }

    fn live(&mut self, id: TaskId) -> rusqlite::Result<Option<LiveRow>> {
        if let Some(fresh) = self.fresh.get(id) {
            return Ok(Some(fresh.live.clone()));
        }
        let live = match self.writer.memory.running.get(id) {
            Some(live) => Some(live.clone()),
            None => self.stored(id)?,
        };
        live.iter().for_each(|live| self.note(id, live));
        Ok(live)
    }

    /// Remembers where a task was found.
    fn note(&mut self, id: TaskId, live: &LiveRow) {
        let marks = Some(Marks::of(&live.task, live.lane));
        self.known.insert(id, Known { row: live.row, marks, entries: live.task.entries });
    }

    fn stored(&mut self, id: TaskId) -> rusqlite::Result<Option<LiveRow>> {
        let Some(row) = self.row_of(id)? else { return Ok(None) };
        let live = reads::live(&self.writer.connection, row)?;
        live.iter().for_each(|live| self.writer.memory.running.keep(live));
        Ok(live)
    }

    /// Whether a lease is the task's present one, which therefore has no closed attempt.
    fn is_held(&self, id: TaskId, lease: LeaseId) -> bool {
        let live = self.writer.memory.running.get(id);
        live.and_then(|live| live.task.lease()).is_some_and(|held| held.id == lease)
    }

    /// A live task that memory knows about must be in the table.
    fn expect_live(&mut self, id: TaskId) -> Result<LiveRow, Trouble> {
        Ok(self.live(id)?.ok_or_else(|| not_live(id))?)
    }

    fn load_one(&mut self, key: &TaskKey) -> Result<Loaded, Trouble> {
        let subject = match self.live(key.id)? {
            Some(live) => Subject::Live(live.task),
            None => match self.row_of(key.id)? {
                Some(row) => reads::subject(&self.writer.connection, row)?,
                None => Subject::Absent,
            },
        };
        let is_theirs = subject.scope() == Some(&key.scope);
        Ok(Loaded::Subject(if is_theirs { subject } else { Subject::Absent }))
    }

    fn ready_row(&mut self, id: TaskId) -> Result<Ready, Trouble> {
        if let Some(Fresh { live, spec }) = self.fresh.get(id) {
            return Ok(Ready { task: live.task.clone(), spec: spec.clone() });
        }
        let found = reads::ready(&self.writer.connection, id)?;
        let (live, spec) = found.ok_or_else(|| not_live(id))?;
        self.note(id, &live);
        Ok(Ready { task: live.task, spec })
    }

    fn ready_one(
        &mut self,
        want: &Want,
        now: Time,
        taken: &mut HashSet<TaskId>,
    ) -> Result<Vec<Ready>, Trouble> {
        let mut ready = Vec::new();
        for id in self.writer.memory.order.pick(want, taken) {
            let row = self.ready_row(id)?;
            if row.task.claimable_at().is_some_and(|at| at.has_come(now)) {
                taken.insert(id);
                ready.push(row);
            }
        }
        Ok(ready)
    }

    fn tasks(&mut self, ids: Vec<TaskId>) -> Result<Vec<Task>, Trouble> {
        ids.into_iter().map(|id| self.expect_live(id).map(|live| live.task)).collect()
    }

    fn save_one(&mut self, change: &Change) -> Result<(), Trouble> {
        match (change.before, &change.spec) {
            (None, Some(spec)) => self.create(&change.after, spec)?,
            (Some(before), None) => self.update(&change.after, before)?,
            _ => return Err(invalid("a spec comes with a new task and only then")),
        }
        self.save_rows(change)
    }

    fn create(&mut self, after: &Subject, spec: &Spec) -> Result<(), Trouble> {
        let task = named(after)?;
        let lane = self.writer.lane(task)?;
        let row = self.writer.memory.next_row;
        let policy = after.live().map(|task| &task.policy);
        let connection = &self.writer.connection;
        writes::input(connection, row, lane, task, policy, spec)
            .map_err(|error| conflict_if_known(error, task.id))?;
        let marks = match after {
            Subject::Live(live) => {
                let live = LiveRow { row, lane, task: live.clone() };
                let marks = Marks::of(&live.task, lane);
                self.fresh.add(Fresh { live, spec: spec.clone() });
                Some(marks)
            }
            Subject::Done(done) => {
                writes::done_insert(connection, row, done)?;
                None
            }
            Subject::Absent => None,
        };
        if let Some(text) = &spec.key {
            let key = Key { scope: task.scope.clone(), text: text.clone() };
            self.save_key(&key, row)?;
        }
        self.writer.memory.next_row += 1;
        self.writer.memory.moved(None, marks.clone());
        self.known.insert(task.id, Known { row, marks, entries: 0 });
        Ok(())
    }

    fn save_key(&mut self, key: &Key, row: i64) -> Result<(), Trouble> {
        let (hash, now) = (keys::hash(key), self.read_clock());
        keys::write(&self.writer.connection, now, hash, row)?;
        self.writer.memory.key_added(hash, row);
        Ok(())
    }

    fn update(&mut self, after: &Subject, before: u32) -> Result<(), Trouble> {
        let id = named(after)?.id;
        if !self.known.contains_key(&id) {
            self.live(id)?;
        }
        let Some(known) = self.known.get(&id) else { return Err(conflict(id)) };
        let (row, entries) = (known.row, known.entries);
        let marks = match after {
            Subject::Live(task) => {
                self.change(row, before, task)?;
                Some(self.writer.marks(task))
            }
            Subject::Done(done) => {
                self.end(row, before, id)?;
                writes::done_insert(&self.writer.connection, row, done)?;
                None
            }
            Subject::Absent => None,
        };
        let earlier = self.known.insert(id, Known { row, marks: marks.clone(), entries });
        self.writer.memory.moved(earlier.and_then(|known| known.marks), marks);
        Ok(())
    }

    /// A task of this very batch is changed where it waits to be written.
    fn change(&mut self, row: i64, before: u32, task: &Task) -> Result<(), Trouble> {
        if let Some(fresh) = self.fresh.get_mut(task.id) {
            guard(usize::from(fresh.live.task.revision == before), task.id)?;
            fresh.live.task = task.clone();
            return Ok(());
        }
        guard(writes::live_update(&self.writer.connection, row, before, task)?, task.id)?;
        let lane = self.writer.marks(task).lane;
        self.writer.memory.running.keep(&LiveRow { row, lane, task: task.clone() });
        Ok(())
    }

    fn end(&mut self, row: i64, before: u32, id: TaskId) -> Result<(), Trouble> {
        if let Some(fresh) = self.fresh.remove(id) {
            return guard(usize::from(fresh.live.task.revision == before), id);
        }
        self.writer.memory.running.forget(id);
        guard(writes::live_delete(&self.writer.connection, row, before)?, id)
    }

    /// Writes what this batch created, in its final form and in order of arrival.
    fn write_fresh(&mut self) -> Result<(), Trouble> {
        for Fresh { live, .. } in self.fresh.take() {
            writes::live_insert(&self.writer.connection, live.row, live.lane, &live.task)?;
            self.writer.memory.running.keep(&live);
        }
        Ok(())
    }

    fn save_rows(&mut self, change: &Change) -> Result<(), Trouble> {
        let id = named(&change.after)?.id;
        let known = self.known.get_mut(&id).expect("the task was saved just now");
        faultpoint::point!("save.row");
        let (row, connection) = (known.row, &self.writer.connection);
        for closed in &change.closed {
            if closed.task != id {
                return Err(invalid("an attempt of another task"));
            }
            writes::attempt(connection, row, closed)?;
        }
        for entry in &change.entries {
            known.entries += 1;
            if entry.n != known.entries {
                return Err(invalid("a history entry out of order"));
            }
            writes::entry(connection, row, entry)?;
        }
        Ok(())
    }

    /// A refusal is kept with its task; calls about no task of ours leave nothing.
    fn save_refused(&mut self, refused: &Refused) -> Result<(), Trouble> {
        if let Some(row) = self.row_of(refused.task.id)? {
            writes::refused(&self.writer.connection, row, refused)?;
        }
        Ok(())
    }

    /// Everything that goes with a commit beside what was saved.
    fn finish(&mut self) -> Result<Time, Failure> {
        let now = self.read_clock();
        let writes = self.writes;
        self.step("finishing a batch", |batch| {
            if writes == Writes::Some {
                faultpoint::point!("commit.fresh");
                batch.write_fresh()?;
                writes::clock(&batch.writer.connection, now)?;
                faultpoint::point!("commit.clock");
                batch.writer.memory.clear_keys(&batch.writer.connection, now)?;
            }
            Ok(now)
        })
    }

    fn commit_now(&mut self) -> Result<(), CommitFailure> {
        let now = self.finish().map_err(CommitFailure::RolledBack)?;
        faultpoint::point!("commit.before");
        let commit = self.writer.connection.prepare_cached("COMMIT");
        let committed = commit.and_then(|mut commit| commit.execute([]));
        match committed {
            Ok(_) => {
                faultpoint::point!("commit.after");
                self.state = State::Committed;
                self.writer.memory.order.seen(now);
                Ok(())
            }
            Err(error) if trouble::commit_left_nothing(&error) => {
                self.roll_back();
                Err(CommitFailure::RolledBack(trouble::while_doing("committing a batch")(error)))
            }
            Err(error) => {
                self.writer.shared.poison();
                self.roll_back();
                let what = "a commit failed and may or may not have happened";
                Err(CommitFailure::Unknown(Failure::new(FailureKind::Fatal, what).because(error)))
            }
        }
    }
}

impl Batch for SqliteBatch<'_> {
    async fn load(&mut self, keys: &[TaskKey]) -> Result<Vec<Loaded>, Failure> {
        self.step("loading tasks", |batch| keys.iter().map(|key| batch.load_one(key)).collect())
    }

    async fn closed(
        &mut self,
        leases: &[(TaskId, LeaseId)],
    ) -> Result<Vec<Option<Closed>>, Failure> {
        self.step("loading closed attempts", |batch| {
            let find = |(id, lease): &(TaskId, LeaseId)| {
                if batch.is_held(*id, *lease) {
                    return Ok(None);
                }
                match batch.row_of(*id)? {
                    Some(row) => Ok(reads::attempt(&batch.writer.connection, *id, row, *lease)?),
                    None => Ok(None),
                }
            };
            leases.iter().map(find).collect()
        })
    }

    async fn holders(&mut self, keys: &[Key]) -> Result<Vec<Option<Held>>, Failure> {
        self.step("looking up idempotency keys", |batch| {
            let writer = &batch.writer;
            let find = |key| Ok(writer.memory.keys.holder(&writer.connection, key)?);
            keys.iter().map(find).collect()
        })
    }

    async fn polled(&mut self, polls: &[PollRef]) -> Result<Vec<Vec<Ready>>, Failure> {
        self.step("looking up polls", |batch| {
            let mut answers = Vec::new();
            for poll in polls {
                let ids = batch.writer.memory.order.polled(poll);
                let ready: Result<Vec<Ready>, Trouble> =
                    ids.into_iter().map(|id| batch.ready_row(id)).collect();
                answers.push(ready?);
            }
            Ok(answers)
        })
    }

    async fn now(&mut self) -> Result<Time, Failure> {
        Ok(self.read_clock())
    }

    async fn save(&mut self, changes: Vec<Change>, refused: Vec<Refused>) -> Result<(), Failure> {
        self.step("saving decisions", |batch| {
            if !changes.is_empty() || !refused.is_empty() {
                batch.writes = Writes::Some;
            }
            changes.iter().try_for_each(|change| batch.save_one(change))?;
            refused.iter().try_for_each(|refused| batch.save_refused(refused))
        })
    }

    async fn ready(&mut self, wants: &[Want], now: Time) -> Result<Vec<Vec<Ready>>, Failure> {
        self.step("taking ready tasks", |batch| {
            batch.writer.memory.order.promote(now);
            let mut taken = HashSet::new();
            wants.iter().map(|want| batch.ready_one(want, now, &mut taken)).collect()
        })
    }

    async fn due(&mut self, now: Time, limit: usize) -> Result<Vec<Task>, Failure> {
        self.step("taking due tasks", |batch| {
            let ids = batch.writer.memory.order.due(now, limit);
            batch.tasks(ids)
        })
    }

    async fn running(&mut self, after: Option<TaskId>, limit: usize) -> Result<Vec<Task>, Failure> {
        self.step("listing running tasks", |batch| {
            let ids = batch.writer.memory.order.running(after, limit);
            batch.tasks(ids)
        })
    }

    async fn ended(&mut self, after: Option<Place>, limit: usize) -> Result<Vec<Ended>, Failure> {
        self.step("looking for old ends", |batch| {
            Ok(leaving::ended(&batch.writer.connection, after, limit)?)
        })
    }

    async fn forget(&mut self, places: &[Place]) -> Result<(), Failure> {
        let now = self.read_clock();
        self.step("forgetting ended tasks", |batch| {
            batch.writes = Writes::Some;
            let rows = places.iter().copied().map(leaving::row_of);
            Ok(leaving::forget(&batch.writer.connection, rows, now)?)
        })
    }

    fn pulse(&mut self) {
        self.writes = Writes::Some;
    }

    async fn commit(mut self) -> Result<(), CommitFailure> {
        self.commit_now()
    }
}

impl Drop for SqliteBatch<'_> {
    fn drop(&mut self) {
        if self.state == State::Open {
            self.roll_back();
        }
    }
}

/// A step's failure before it is known what the step was.
enum Trouble {
    Sql(rusqlite::Error),
    Failure(Failure),
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        Trouble::Sql(error)
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Trouble::Failure(failure)
    }
}

fn named(after: &Subject) -> Result<Named<'_>, Trouble> {
    match after {
        Subject::Live(task) => Ok(Named::live(task)),
        Subject::Done(done) => Ok(Named::done(done)),
        Subject::Absent => Err(invalid("a change that leaves no task")),
    }
}

fn guard(rows: usize, id: TaskId) -> Result<(), Trouble> {
    if rows == 1 { Ok(()) } else { Err(conflict(id)) }
}

fn conflict(id: TaskId) -> Trouble {
    Failure::new(FailureKind::Conflict(id), "another writer changed the task first").into()
}

fn not_live(id: TaskId) -> Failure {
    Failure::new(FailureKind::Fatal, format!("{id} is ordered but not live"))
}

fn invalid(what: &str) -> Trouble {
    Failure::new(FailureKind::Invalid, what).into()
}

/// A new task whose id is taken met somebody who was faster.
fn conflict_if_known(error: rusqlite::Error, id: TaskId) -> Trouble {
    let unique = rusqlite::ffi::SQLITE_CONSTRAINT_UNIQUE;
    match error.sqlite_error() {
        Some(inner) if inner.extended_code == unique => conflict(id),
        _ => error.into(),
    }
}
