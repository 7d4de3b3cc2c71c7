//! How a batch saves what was decided: which rows, in which order.
//!
//! A new task is written to `inputs` at once, and to `live` or `done` in its final form. History goes
//! into the task's own row as long as it is short ([`Tale`]), then into `history`.

use verdict::{Closed, Subject, Task, TaskId, Time};

use super::fresh::Fresh;
use super::keys;
use super::order::Marks;
use super::rows::LiveRow;
use super::trouble;
use super::work::{Known, Trouble, Work, conflict, guard, invalid, of_task};
use super::writes::{self, Named};
use crate::codec::tale::{Tale, Told};
use crate::failure::FailureKind;
use crate::row::{Change, Entry, Key, Refused, Spec};

/// The number of the entry that stands in `inputs`.
const SUBMISSION: u32 = 1;

impl Work<'_> {
    pub(super) fn save_one(&mut self, change: Change, now: Time) -> Result<(), Trouble> {
        change.check()?;
        let id = named(&change.after)?.id;
        self.save_checked(id, change, now).map_err(|trouble| match trouble {
            Trouble::Sql(error) if is_refused(&error) => {
                Trouble::Failure(trouble::while_doing("saving decisions")(error).about(id))
            }
            Trouble::Failure(failure) if failure.kind == FailureKind::Invalid => {
                Trouble::Failure(failure.about(id))
            }
            trouble => trouble,
        })
    }

    fn save_checked(&mut self, id: TaskId, change: Change, now: Time) -> Result<(), Trouble> {
        let Change { before, after, spec, closed, entries } = change;
        let row = match (before, spec) {
            (None, Some(spec)) => self.create(after, spec, &entries, now)?,
            (Some(before), None) => self.update(after, before, &entries)?,
            _ => return Err(invalid("a spec comes with a new task and only then")),
        };
        self.save_attempts(id, row, &closed)
    }

    fn create(
        &mut self,
        after: Subject,
        spec: Spec,
        entries: &[Entry],
        now: Time,
    ) -> Result<i64, Trouble> {
        let task = named(&after)?;
        let id = task.id;
        let lane = self.memory.lane(self.connection, task)?;
        let row = self.memory.next_row;
        let policy = after.live().map(|task| &task.policy);
        let (first, later) = split_submission(entries)?;
        let submission = first.map(|first| Tale::of(id, first)).unwrap_or_default();
        let input = writes::Input { row, lane, task, policy, spec: &spec, tale: &submission };
        writes::input(&mut self.statements, input).map_err(|error| conflict_if_known(error, id))?;
        if let Some(text) = &spec.key {
            let key = Key { scope: task.scope.clone(), text: text.clone() };
            self.save_key(&key, row, now)?;
        }
        let (revision, entries) = (revision_of(&after), u32::from(first.is_some()));
        let mut known = Known { row, lane, marks: None, revision, entries, tale: Tale::default() };
        self.tell(&mut known, id, later)?;
        match after {
            Subject::Live(task) => {
                known.marks = Some(Marks::of(&task, lane));
                let live = LiveRow { row, lane, task, tale: known.tale.clone() };
                self.fresh.add(Fresh { live, spec });
            }
            Subject::Done(done) => {
                writes::done_insert(&mut self.statements, row, &done, &known.tale)?;
            }
            Subject::Absent => {}
        }
        self.memory.next_row += 1;
        self.memory.moved(None, known.marks.clone());
        self.known.insert(id, known);
        Ok(row)
    }

    fn save_key(&mut self, key: &Key, row: i64, now: Time) -> Result<(), Trouble> {
        let hash = keys::hash(key);
        keys::write(self.connection, now, hash, row)?;
        self.memory.key_added(hash, row);
        Ok(())
    }

    fn update(&mut self, after: Subject, before: u32, entries: &[Entry]) -> Result<i64, Trouble> {
        let id = named(&after)?.id;
        if !self.known.contains_key(&id) {
            self.live(id).map_err(|error| of_task(error, id))?;
        }
        let Some(mut known) = self.known.remove(&id) else { return Err(conflict(id)) };
        // The statement's own guard comes too late: by then the history would have been written.
        guard(usize::from(known.revision == Some(before)), id)?;
        known.revision = revision_of(&after);
        self.tell(&mut known, id, entries)?;
        let (row, earlier) = (known.row, known.marks.take());
        match after {
            Subject::Live(task) => {
                known.marks = Some(Marks::of(&task, known.lane));
                self.change(&known, before, task)?;
            }
            Subject::Done(done) => {
                self.end(row, before, id)?;
                writes::done_insert(&mut self.statements, row, &done, &known.tale)?;
            }
            Subject::Absent => {}
        }
        self.memory.moved(earlier, known.marks.clone());
        self.known.insert(id, known);
        Ok(row)
    }

    /// Adds entries to the task's tale, and those that find no room there to the table.
    fn tell(&mut self, known: &mut Known, id: TaskId, entries: &[Entry]) -> Result<(), Trouble> {
        for entry in entries {
            known.entries += 1;
            if entry.n != known.entries {
                return Err(invalid("a history entry out of order"));
            }
            match known.tale.tell(id, SUBMISSION, entry) {
                Told::Here => {}
                Told::Elsewhere => writes::entry(self.connection, known.row, entry)?,
            }
        }
        Ok(())
    }

    /// A task of this very batch is changed where it waits to be written.
    fn change(&mut self, known: &Known, before: u32, task: Task) -> Result<(), Trouble> {
        if let Some(fresh) = self.fresh.get_mut(task.id) {
            fresh.live.task = task;
            fresh.live.tale.clone_from(&known.tale);
            return Ok(());
        }
        let Known { row, lane, tale, .. } = known;
        guard(writes::live_update(&mut self.statements, *row, before, &task, tale)?, task.id)?;
        let (row, lane, tale) = (*row, *lane, tale.clone());
        self.memory.running.keep(LiveRow { row, lane, task, tale });
        Ok(())
    }

    fn end(&mut self, row: i64, before: u32, id: TaskId) -> Result<(), Trouble> {
        if self.fresh.remove(id).is_some() {
            return Ok(());
        }
        self.memory.running.forget(id);
        guard(writes::live_delete(&mut self.statements, row, before)?, id)
    }

    /// Writes what this batch created, in its final form and in order of arrival.
    pub(super) fn write_fresh(&mut self) -> Result<(), Trouble> {
        for Fresh { live, .. } in self.fresh.take() {
            writes::live_insert(&mut self.statements, &live)?;
            self.memory.running.keep(live);
        }
        Ok(())
    }

    fn save_attempts(&mut self, id: TaskId, row: i64, closed: &[Closed]) -> Result<(), Trouble> {
        faultpoint::point!("save.row");
        for closed in closed {
            if closed.task != id {
                return Err(invalid("an attempt of another task"));
            }
            writes::attempt(&mut self.statements, row, closed)?;
        }
        Ok(())
    }

    /// A refusal is kept with its task; calls about no task of ours leave nothing.
    pub(super) fn save_refused(&mut self, refused: &Refused) -> Result<(), Trouble> {
        if let Some(row) = self.row_of(refused.task.id)? {
            writes::refused(self.connection, row, refused)?;
        }
        Ok(())
    }
}

/// The entry that stands in `inputs`, and the others.
fn split_submission(entries: &[Entry]) -> Result<(Option<&Entry>, &[Entry]), Trouble> {
    match entries.split_first() {
        Some((first, later)) if first.n == SUBMISSION => Ok((Some(first), later)),
        Some(_) => Err(invalid("a history entry out of order")),
        None => Ok((None, entries)),
    }
}

/// The tables themselves refuse the row.
fn is_refused(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation)
}

fn revision_of(after: &Subject) -> Option<u32> {
    after.live().map(|task| task.revision)
}

fn named(after: &Subject) -> Result<Named<'_>, Trouble> {
    match after {
        Subject::Live(task) => Ok(Named::live(task)),
        Subject::Done(done) => Ok(Named::done(done)),
        Subject::Absent => Err(invalid("a change that leaves no task")),
    }
}

/// A new task whose id is taken met somebody who was faster.
fn conflict_if_known(error: rusqlite::Error, id: TaskId) -> Trouble {
    let unique = rusqlite::ffi::SQLITE_CONSTRAINT_UNIQUE;
    match error.sqlite_error() {
        Some(inner) if inner.extended_code == unique => conflict(id),
        _ => error.into(),
    }
}
