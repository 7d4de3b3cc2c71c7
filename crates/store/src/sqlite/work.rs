//! What a batch reads and caches: tasks by id, from memory if they are there, else from the tables.
//!
//! A [`Work`] exists for one synchronous step of a batch, and holds the statements it uses.

use rusqlite::Connection;
use verdict::{LeaseId, Span, Subject, Task, TaskId, Time};

use super::created_tasks::{CreatedTask, CreatedTasks};
use super::ids::{ById, Ids};
use super::live_index::IndexedTask;
use super::ready_index::KindQueueId;
use super::rows::LiveRow;
use super::statements::Statements;
use super::writer::{Memory, SqliteWriter};
use super::{errors, reads};
use crate::codec::inline_history::InlineHistory;
use crate::failure::{Failure, FailureKind};
use crate::row::{BatchSpec, TaskKey, TaskWithSpec, Want};
use crate::seam::Loaded;

/// What a batch has read so far. Bounded by what the batch was asked.
#[derive(Default)]
pub(super) struct BatchCache {
    /// Where tasks that this batch has read or saved are, in the table and in the index.
    known: ById<KnownTask>,
    /// Tasks that this batch created, not yet in `live`.
    created: CreatedTasks,
}

pub(super) struct Work<'a> {
    pub(super) connection: &'a Connection,
    pub(super) memory: &'a mut Memory,
    pub(super) statements: Statements<'a>,
    pub(super) known: &'a mut ById<KnownTask>,
    pub(super) created: &'a mut CreatedTasks,
}

pub(super) struct KnownTask {
    pub(super) row: i64,
    pub(super) kind_queue: KindQueueId,
    /// How long its leases are in its stage; `None` once the task has ended.
    pub(super) lease: Option<Span>,
    /// `None` once the task has ended.
    pub(super) indexed: Option<IndexedTask>,
    /// `None` once the task has ended.
    pub(super) revision: Option<u32>,
    /// The length of its history.
    pub(super) entries: u32,
    /// The history that its row holds.
    pub(super) inline_history: InlineHistory,
}

impl<'a> Work<'a> {
    pub(super) fn of(writer: &'a mut SqliteWriter, cache: &'a mut BatchCache) -> Self {
        Self {
            connection: &writer.connection,
            memory: &mut writer.memory,
            statements: Statements::new(&writer.connection),
            known: &mut cache.known,
            created: &mut cache.created,
        }
    }

    pub(super) fn row_of(&self, id: TaskId) -> rusqlite::Result<Option<i64>> {
        match (self.known.get(&id), self.memory.running.get(id)) {
            (Some(known), _) => Ok(Some(known.row)),
            (None, Some(live)) => Ok(Some(live.row)),
            (None, None) => reads::row_of(self.connection, id),
        }
    }

    pub(super) fn live(&mut self, id: TaskId) -> rusqlite::Result<Option<LiveRow>> {
        if let Some(created) = self.created.get(id) {
            return Ok(Some(created.live.clone()));
        }
        let live = match self.memory.running.get(id) {
            Some(live) => Some(live.clone()),
            None => self.stored(id)?,
        };
        live.iter().for_each(|live| self.note(id, live));
        Ok(live)
    }

    /// Remembers where a task was found.
    fn note(&mut self, id: TaskId, live: &LiveRow) {
        let LiveRow { row, kind_queue, task, inline_history } = live;
        let (row, kind_queue, inline_history) = (*row, *kind_queue, inline_history.clone());
        let indexed = Some(IndexedTask::of(task, kind_queue));
        let (revision, entries) = (Some(task.revision), task.entries);
        let lease = Some(task.policy.lease);
        let known =
            KnownTask { row, kind_queue, lease, indexed, revision, entries, inline_history };
        self.known.insert(id, known);
    }

    fn stored(&mut self, id: TaskId) -> rusqlite::Result<Option<LiveRow>> {
        let Some(row) = self.row_of(id)? else { return Ok(None) };
        let live = reads::live(self.connection, row)?;
        live.iter().for_each(|live| self.memory.running.keep(live.clone()));
        Ok(live)
    }

    /// Whether a lease is the task's current one, which therefore has no closed attempt.
    pub(super) fn is_held(&self, id: TaskId, lease: LeaseId) -> bool {
        let live = self.memory.running.get(id);
        live.and_then(|live| live.task.lease()).is_some_and(|held| held.id == lease)
    }

    /// Reads a live task that memory knows, and that must therefore be in the table.
    fn expect_live(&mut self, id: TaskId) -> Result<LiveRow, StepError> {
        let live = self.live(id).map_err(|error| of_task(error, id))?;
        Ok(live.ok_or_else(|| not_live(id))?)
    }

    pub(super) fn load_one(&mut self, key: &TaskKey) -> Result<Loaded, StepError> {
        let subject = self.subject(key.id).map_err(|error| of_task(error, key.id))?;
        let is_theirs = subject.scope() == Some(&key.scope) || faultpoint::mutant(31);
        Ok(Loaded::Subject(if is_theirs { subject } else { Subject::Absent }))
    }

    fn subject(&mut self, id: TaskId) -> rusqlite::Result<Subject> {
        Ok(match self.live(id)? {
            Some(live) => Subject::Live(live.task),
            None => match self.row_of(id)? {
                Some(row) => reads::subject(self.connection, row)?,
                None => Subject::Absent,
            },
        })
    }

    pub(super) fn ready_row(&mut self, id: TaskId) -> Result<TaskWithSpec, StepError> {
        if let Some(CreatedTask { live, spec }) = self.created.get(id) {
            let spec = BatchSpec::Whole(spec.clone());
            return Ok(TaskWithSpec { task: live.task.clone(), spec });
        }
        let found = reads::ready(&mut self.statements, &self.memory.index.ready, id);
        let found = found.map_err(|error| of_task(error, id))?;
        let (live, spec) = found.ok_or_else(|| not_live(id))?;
        self.note(id, &live);
        Ok(TaskWithSpec { task: live.task, spec })
    }

    pub(super) fn ready_one(
        &mut self,
        want: &Want,
        now: Time,
        taken: &mut Ids,
    ) -> Result<Vec<TaskWithSpec>, StepError> {
        let mut ready = Vec::new();
        for id in self.memory.index.ready.pick(want, taken) {
            let row = self.ready_row(id)?;
            if row.task.claimable_at().is_some_and(|at| at.has_come(now)) {
                taken.insert(id);
                ready.push(row);
            }
        }
        Ok(ready)
    }

    pub(super) fn tasks(&mut self, ids: Vec<TaskId>) -> Result<Vec<Task>, StepError> {
        ids.into_iter().map(|id| self.expect_live(id).map(|live| live.task)).collect()
    }
}

/// A failure within a step, before the step adds what it was doing.
pub(super) enum StepError {
    Sql(rusqlite::Error),
    Failure(Failure),
}

impl From<rusqlite::Error> for StepError {
    fn from(error: rusqlite::Error) -> Self {
        StepError::Sql(error)
    }
}

impl From<Failure> for StepError {
    fn from(failure: Failure) -> Self {
        StepError::Failure(failure)
    }
}

/// Attributes a row that exists but cannot be understood or written to its task. Any other SQLite error concerns
/// the whole batch.
pub(super) fn of_task(error: rusqlite::Error, id: TaskId) -> StepError {
    let is_row = error.sqlite_error_code().is_none();
    let failure = errors::while_doing("reading what is stored of a task")(error);
    StepError::Failure(if is_row { failure.confined_to(id) } else { failure })
}

pub(super) fn guard(rows: usize, id: TaskId) -> Result<(), StepError> {
    if rows == 1 || faultpoint::mutant(1) { Ok(()) } else { Err(conflict(id)) }
}

pub(super) fn conflict(id: TaskId) -> StepError {
    Failure::new(FailureKind::Conflict(id), "another writer changed the task first").into()
}

fn not_live(id: TaskId) -> Failure {
    Failure::new(FailureKind::Fatal, format!("{id} is ordered but not live"))
}

pub(super) fn invalid(what: &str) -> StepError {
    Failure::new(FailureKind::Invalid, what).into()
}
