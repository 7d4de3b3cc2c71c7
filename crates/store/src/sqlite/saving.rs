//! How a batch saves decisions: which rows, in which order.
//!
//! A new task is written to `inputs` at once, and to `live` or `done` in its final form. Its history is
//! inline in the task's row while it is short ([`InlineHistory`]), and continues in `history`.

use verdict::{ClosedAttempt, Span, Subject, Task, TaskId, Time};

use super::created_tasks::CreatedTask;
use super::errors;
use super::keys;
use super::live_index::IndexedTask;
use super::rows::LiveRow;
use super::work::{KnownTask, StepError, Work, conflict, guard, invalid, of_task};
use super::writes::{self, TaskIdentity};
use crate::codec::inline_history::{Appended, InlineHistory};
use crate::codec::packed_terms::Terms;
use crate::failure::FailureKind;
use crate::flow_starts::starts_of;
use crate::row::{Change, Entry, IdempotencyKey, Refused, Spec};
use crate::runs::RunRows;

/// The number of the entry that is stored in `inputs`.
const SUBMISSION: u32 = 1;

impl Work<'_> {
    pub(super) fn save_one(&mut self, change: Change, now: Time) -> Result<(), StepError> {
        change.check()?;
        let id = identity_of(&change.after)?.id;
        self.save_checked(id, change, now).map_err(|error| match error {
            StepError::Sql(error) if is_refused(&error) => {
                StepError::Failure(errors::while_doing("saving decisions")(error).about(id))
            }
            StepError::Failure(failure) if failure.kind == FailureKind::Invalid => {
                StepError::Failure(failure.about(id))
            }
            error => error,
        })
    }

    fn save_checked(&mut self, id: TaskId, change: Change, now: Time) -> Result<(), StepError> {
        let starts = starts_of(&change, now);
        let Change { before, after, spec, closed, entries, steps } = change;
        let durable = RunRows::are_of(&after).then(|| after.clone());
        let row = match (before, spec) {
            (None, Some(spec)) => self.create(after, spec, &entries, now)?,
            (Some(before), None) => self.update(after, before, &entries)?,
            _ => return Err(invalid("a spec comes with a new task and only then")),
        };
        self.save_attempts(id, row, &closed)?;
        self.save_starts(&starts, now)?;
        match durable {
            Some(after) => {
                self.save_steps(row, &steps)?;
                self.save_run_rows(row, &RunRows::of_parts(before, &after, &entries))?;
                if let Subject::Done(_) = after {
                    writes::wait_delete(self.connection, row)?;
                }
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn create(
        &mut self,
        after: Subject,
        spec: Spec,
        entries: &[Entry],
        now: Time,
    ) -> Result<i64, StepError> {
        let task = identity_of(&after)?;
        let (id, scope) = (task.id, task.scope.clone());
        // A task that is copied may be in a later stage than the one that it was submitted to, or pinned to a build.
        let kind_queue = self.memory.kind_queue(self.connection, &task)?;
        let present = match after.live().map(TaskIdentity::live) {
            Some(present) => self.memory.kind_queue(self.connection, &present)?,
            None => kind_queue,
        };
        let row = self.memory.next_row;
        let terms = after.live().map(Terms::of);
        let (first, later) = split_submission(entries)?;
        let submission = first.map(|first| InlineHistory::of(id, first)).unwrap_or_default();
        let input = writes::Input {
            row,
            kind_queue,
            task: &task,
            terms: terms.as_ref(),
            spec: &spec,
            inline_history: &submission,
            after: &after,
        };
        writes::input(&mut self.statements, input).map_err(|error| conflict_if_known(error, id))?;
        self.memory.enter_block(self.connection, kind_queue, row)?;
        if present != kind_queue && after.live().is_some_and(|task| task.pin().is_none()) {
            self.memory.enter_block(self.connection, present, row)?;
        }
        if let Some(text) = &spec.key {
            let key = IdempotencyKey { scope, text: text.clone() };
            self.save_key(&key, row, now)?;
        }
        let (revision, entries) = (revision_of(&after), u32::from(first.is_some()));
        let mut known = KnownTask {
            row,
            kind_queue: present,
            lease: lease_of(&after),
            indexed: None,
            revision,
            entries,
            inline_history: InlineHistory::default(),
        };
        self.append_history(&mut known, id, later)?;
        match after {
            Subject::Live(task) => {
                known.indexed = Some(IndexedTask::of(&task, present));
                let inline_history = known.inline_history.clone();
                let live = LiveRow { row, kind_queue: present, task, inline_history };
                self.created.add(CreatedTask { live, spec });
            }
            Subject::Done(done) => {
                writes::done_insert(&mut self.statements, row, &done, &known.inline_history)?;
            }
            Subject::Absent => {}
        }
        self.memory.next_row += 1;
        self.memory.moved(None, known.indexed.clone());
        self.known.insert(id, known);
        Ok(row)
    }

    fn save_key(&mut self, key: &IdempotencyKey, row: i64, now: Time) -> Result<(), StepError> {
        let hash = keys::hash(key);
        keys::write(self.connection, now, hash, row)?;
        self.memory.key_added(hash, row);
        Ok(())
    }

    fn update(&mut self, after: Subject, before: u32, entries: &[Entry]) -> Result<i64, StepError> {
        let id = identity_of(&after)?.id;
        if !self.known.contains_key(&id) {
            self.live(id).map_err(|error| of_task(error, id))?;
        }
        let Some(mut known) = self.known.remove(&id) else { return Err(conflict(id)) };
        // The guard in the statement would be too late: the history would already have been written.
        guard(usize::from(known.revision == Some(before)), id)?;
        known.revision = revision_of(&after);
        self.append_history(&mut known, id, entries)?;
        let (row, earlier) = (known.row, known.indexed.take());
        match after {
            Subject::Live(task) => {
                self.change_queue(&mut known, &task, entries)?;
                known.indexed = Some(IndexedTask::of(&task, known.kind_queue));
                self.change(&known, before, task)?;
            }
            Subject::Done(done) => {
                self.end(row, before, id)?;
                writes::done_insert(&mut self.statements, row, &done, &known.inline_history)?;
            }
            Subject::Absent => {}
        }
        self.memory.moved(earlier, known.indexed.clone());
        self.known.insert(id, known);
        Ok(row)
    }

    /// A task that entered another stage may wait in another kind queue, with leases of another length, and a task that is
    /// pinned to a build waits in that of the build. Most stages of a plan have those of the stage before, and their row is
    /// not written twice.
    fn change_queue(
        &mut self,
        known: &mut KnownTask,
        task: &Task,
        entries: &[Entry],
    ) -> Result<(), StepError> {
        if task.pin().is_none() && !entries.iter().any(RunRows::is_move) {
            return Ok(());
        }
        let kind_queue = self.memory.kind_queue(self.connection, &TaskIdentity::live(task))?;
        let before = (known.kind_queue, known.lease);
        (known.kind_queue, known.lease) = (kind_queue, Some(task.policy.lease));
        if before == (known.kind_queue, known.lease) {
            return Ok(());
        }
        // No task is submitted to a queue of a build, so that no list reads its blocks.
        if task.pin().is_none() {
            self.memory.enter_block(self.connection, known.kind_queue, known.row)?;
        }
        match self.created.get_mut(task.id) {
            Some(created) => created.live.kind_queue = known.kind_queue,
            None => writes::live_move(self.connection, known.row, known.kind_queue, task)?,
        }
        Ok(())
    }

    /// Appends entries to the task's inline history, and to the table those for which there is no room.
    fn append_history(
        &mut self,
        known: &mut KnownTask,
        id: TaskId,
        entries: &[Entry],
    ) -> Result<(), StepError> {
        for entry in entries {
            known.entries += 1;
            if entry.n != known.entries {
                return Err(invalid("a history entry out of order"));
            }
            match known.inline_history.try_append(id, SUBMISSION, entry) {
                Appended::Inline => {}
                Appended::NoRoom => writes::entry(&mut self.statements, known.row, entry)?,
            }
        }
        Ok(())
    }

    /// Changes a task that this batch created, before it is written.
    fn change(&mut self, known: &KnownTask, before: u32, task: Task) -> Result<(), StepError> {
        if let Some(created) = self.created.get_mut(task.id) {
            created.live.task = task;
            created.live.inline_history.clone_from(&known.inline_history);
            return Ok(());
        }
        let KnownTask { row, kind_queue, inline_history, .. } = known;
        guard(
            writes::live_update(&mut self.statements, *row, before, &task, inline_history)?,
            task.id,
        )?;
        let (row, kind_queue, inline_history) = (*row, *kind_queue, inline_history.clone());
        self.memory.running.keep(LiveRow { row, kind_queue, task, inline_history });
        Ok(())
    }

    fn end(&mut self, row: i64, before: u32, id: TaskId) -> Result<(), StepError> {
        if self.created.remove(id).is_some() {
            return Ok(());
        }
        self.memory.running.forget(id);
        guard(writes::live_delete(&mut self.statements, row, before)?, id)
    }

    /// Writes the tasks that this batch created, in their final form and in order of arrival.
    pub(super) fn write_created(&mut self) -> Result<(), StepError> {
        for CreatedTask { live, .. } in self.created.take() {
            writes::live_insert(&mut self.statements, &live)?;
            self.memory.running.keep(live);
        }
        Ok(())
    }

    fn save_attempts(
        &mut self,
        id: TaskId,
        row: i64,
        closed: &[ClosedAttempt],
    ) -> Result<(), StepError> {
        faultpoint::point!("save.row");
        for closed in closed {
            if closed.task != id {
                return Err(invalid("an attempt of another task"));
            }
            writes::attempt(&mut self.statements, row, closed)?;
        }
        Ok(())
    }

    /// Stores a refusal with its task; a call about an unknown task leaves nothing.
    pub(super) fn save_refused(&mut self, refused: &Refused) -> Result<(), StepError> {
        if let Some(row) = self.row_of(refused.task.id)? {
            writes::refused(self.connection, row, refused)?;
        }
        Ok(())
    }
}

/// The entry that is stored in `inputs`, and the others.
fn split_submission(entries: &[Entry]) -> Result<(Option<&Entry>, &[Entry]), StepError> {
    match entries.split_first() {
        Some((first, later)) if first.n == SUBMISSION => Ok((Some(first), later)),
        Some(_) => Err(invalid("a history entry out of order")),
        None => Ok((None, entries)),
    }
}

/// Whether a constraint of the tables refused the row.
fn is_refused(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation)
}

fn lease_of(after: &Subject) -> Option<Span> {
    after.live().map(|task| task.policy.lease)
}

fn revision_of(after: &Subject) -> Option<u32> {
    after.live().map(|task| task.revision)
}

fn identity_of(after: &Subject) -> Result<TaskIdentity<'_>, StepError> {
    match after {
        Subject::Live(task) => Ok(TaskIdentity::submitted(task)),
        Subject::Done(done) => Ok(TaskIdentity::done(done)),
        Subject::Absent => Err(invalid("a change that leaves no task")),
    }
}

/// A new task whose id exists lost a race against another writer.
fn conflict_if_known(error: rusqlite::Error, id: TaskId) -> StepError {
    let unique = rusqlite::ffi::SQLITE_CONSTRAINT_UNIQUE;
    match error.sqlite_error() {
        Some(inner) if inner.extended_code == unique => conflict(id),
        _ => error.into(),
    }
}
