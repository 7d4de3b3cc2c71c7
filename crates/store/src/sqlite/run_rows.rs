//! What a batch writes and looks up of durable runs: checkpoints, children, signals and the items of long waits.
//!
//! Excluded tasks are not read. A batch without run requests executes nothing here.

use std::sync::LazyLock;

use rusqlite::{Connection, OptionalExtension, params};
use verdict::plan::PlanNeed;
use verdict::run::limits::SLICE_MAX;
use verdict::run::{Checkpoint, ChildRef, Loaded as RunLoaded, RunState, Slice};
use verdict::{Name, Subject, TaskId};

use super::batch::SqliteBatch;
use super::ids::Ids;
use super::reads::select;
use super::rows::Columns;
use super::statements::{BatchStatement, Statements};
use super::steps;
use super::tables::{CHECKPOINTS, CHILDREN, SIGNALS, TaskRow, WAITS};
use super::work::{StepError, Work, invalid, of_task};
use super::writes::{Binding, insert};
use crate::failure::Failure;
use crate::row::{Spec, TaskKey};
use crate::run_columns::{self, CHILD, SIGNAL, checkpoint_without_result};
use crate::runs::{RunLookup, RunRows, StoredChild, StoredSignal};
use crate::seam::Loaded;
use crate::tables::{CheckpointColumns, ChildColumns, SignalColumns, WaitColumns};

type Read<T> = rusqlite::Result<T>;

/// What the steps that may be spawned are created with.
pub(super) type StepSpecs = Vec<(TaskId, Spec)>;

impl SqliteBatch<'_> {
    /// What requests about durable runs name.
    pub(super) fn load_runs(
        &mut self,
        runs: &[RunLookup],
        excluded: &Ids,
    ) -> Result<(Vec<RunLoaded>, StepSpecs), Failure> {
        if runs.is_empty() {
            return Ok((Vec::new(), StepSpecs::new()));
        }
        self.step("loading what durable runs recorded", |work| {
            let (mut last, mut specs) = (None, StepSpecs::new());
            let load = |run: &RunLookup| match excluded.contains(&run.task.id) {
                true => Ok(RunLoaded::default()),
                false => work.load_run(run, &mut last, &mut specs),
            };
            let loaded = runs.iter().map(load).collect::<Result<_, StepError>>()?;
            Ok((loaded, specs))
        })
    }
}

/// The task that was found last. Messages to one task come one after the other, and ask for it by the hundred.
struct FoundTask {
    key: TaskKey,
    /// `None` if there is no such task.
    row: Option<i64>,
    subject: Subject,
}

impl Work<'_> {
    fn load_run(
        &mut self,
        run: &RunLookup,
        last: &mut Option<FoundTask>,
        specs: &mut StepSpecs,
    ) -> Result<RunLoaded, StepError> {
        let found = match last.take().filter(|found| found.key == run.task) {
            Some(found) => found,
            None => self.find_task(&run.task)?,
        };
        let FoundTask { row, subject, .. } = last.insert(found);
        let Some(row) = *row else { return Ok(RunLoaded::default()) };
        let of_run = |error| of_task(error, run.task.id);
        let mut loaded = self.load_named(row, run, subject).map_err(of_run)?;
        if let Some(need) = PlanNeed::of(&run.named, subject) {
            let (plan, found) = steps::load(self.connection, row, need, subject).map_err(of_run)?;
            loaded.plan = Some(Box::new(plan));
            specs.extend(found);
        }
        Ok(loaded)
    }

    fn find_task(&mut self, key: &TaskKey) -> Result<FoundTask, StepError> {
        let subject = match self.load_one(key)? {
            Loaded::Subject(subject) => subject,
            Loaded::Locked => Subject::Absent,
        };
        let row = match &subject {
            Subject::Absent => None,
            Subject::Live(_) | Subject::Done(_) => self.row_of(key.id)?,
        };
        Ok(FoundTask { key: key.clone(), row, subject })
    }

    pub(super) fn save_run_rows(&mut self, row: i64, rows: &RunRows<'_>) -> Result<(), StepError> {
        for checkpoint in &rows.checkpoints {
            insert_checkpoint(&mut self.statements, row, checkpoint)?;
        }
        for child in &rows.children {
            insert_child(&mut self.statements, row, child)?;
        }
        for (signal, is_taken) in &rows.signals {
            let mut statement = self.connection.prepare_cached(&INSERT_SIGNAL)?;
            let mut cells = Binding::of(&mut statement, SIGNALS.written);
            TaskRow::write(&mut cells, row);
            SignalColumns::write(&mut cells, signal, *is_taken);
            cells.execute()?;
        }
        self.save_changed_rows(row, rows)
    }

    /// Ends and takes what earlier changes inserted, and replaces the items of the wait.
    fn save_changed_rows(&mut self, row: i64, rows: &RunRows<'_>) -> Result<(), StepError> {
        for ended in &rows.ended {
            let sql = "UPDATE children SET ended = ?3 WHERE task = ?1 AND key = ?2";
            let changed = self.statements.get(BatchStatement::ChildEnded, sql)?;
            changed_one(changed, params![row, ended.key.as_str(), ended.state.name()])?;
        }
        for number in &rows.taken {
            let sql = "UPDATE signals SET taken = 1 WHERE task = ?1 AND number = ?2";
            changed_one(&mut self.connection.prepare_cached(sql)?, params![row, number])?;
        }
        self.save_counts(row, rows.counted.values())?;
        if let Some(wait) = rows.wait {
            let mut statement = self.connection.prepare_cached(&REPLACE_WAIT)?;
            let mut cells = Binding::of(&mut statement, WAITS.written);
            TaskRow::write(&mut cells, row);
            WaitColumns::write(&mut cells, wait);
            cells.execute()?;
        }
        Ok(())
    }
}

static INSERT_SIGNAL: LazyLock<String> = LazyLock::new(|| insert(&SIGNALS));

static REPLACE_WAIT: LazyLock<String> = LazyLock::new(|| {
    format!("{} ON CONFLICT (task) DO UPDATE SET items = excluded.items", insert(&WAITS))
});

fn insert_checkpoint(
    statements: &mut Statements<'_>,
    row: i64,
    checkpoint: &Checkpoint,
) -> Read<usize> {
    static SQL: LazyLock<String> = LazyLock::new(|| insert(&CHECKPOINTS));
    let statement = statements.get(BatchStatement::Checkpoint, &SQL)?;
    let mut cells = Binding::of(statement, CHECKPOINTS.written);
    TaskRow::write(&mut cells, row);
    CheckpointColumns::write(&mut cells, checkpoint);
    cells.execute()
}

fn insert_child(statements: &mut Statements<'_>, row: i64, child: &StoredChild) -> Read<usize> {
    static SQL: LazyLock<String> = LazyLock::new(|| insert(&CHILDREN));
    let mut cells = Binding::of(statements.get(BatchStatement::Child, &SQL)?, CHILDREN.written);
    TaskRow::write(&mut cells, row);
    ChildColumns::write(&mut cells, child);
    cells.execute()
}

/// A row that is changed was inserted before: an event that names another one is a defect of its sender.
fn changed_one(
    statement: &mut rusqlite::CachedStatement<'_>,
    parameters: impl rusqlite::Params,
) -> Result<(), StepError> {
    match statement.execute(parameters)? {
        1 => Ok(()),
        _ => Err(invalid("a child or signal that was never recorded")),
    }
}

/// What a task has, as its own row counts it. `None` for a plain task, which has nothing.
fn counts(subject: &Subject) -> Option<&RunState> {
    match subject {
        Subject::Absent => None,
        Subject::Live(task) => task.run.as_deref(),
        Subject::Done(done) => done.run.as_deref(),
    }
}

impl Work<'_> {
    /// Nothing is searched that the task does not have.
    fn load_named(&mut self, row: i64, run: &RunLookup, subject: &Subject) -> Read<RunLoaded> {
        let (named, mut loaded) = (&run.named, RunLoaded::default());
        let Some(counts) = counts(subject) else { return Ok(loaded) };
        for key in named.keys.iter().filter(|_| counts.checkpoints > 0) {
            loaded.checkpoints.extend(checkpoint_by_key(&mut self.statements, row, key)?);
        }
        for key in named.keys.iter().filter(|_| counts.children > 0) {
            let started = child_by_key(&mut self.statements, row, key)?;
            loaded.children.extend(started.map(|started| started.child));
        }
        if let Some(key) = named.same_key.as_ref().filter(|_| counts.signals.received > 0) {
            let stored = signal_by_key(self.connection, row, key)?;
            loaded.same_key = stored.map(|stored| stored.signal);
        }
        if counts.signals.pending > 0 && named.needs_signals(subject) {
            loaded.signals = pending(self.connection, row)?;
        }
        if let Some(slice) = named.slice_of(subject) {
            loaded.live = live_children(self.connection, row, slice)?;
            loaded.has_more_live = loaded.live.len() > SLICE_MAX;
            loaded.live.truncate(SLICE_MAX);
        }
        Ok(loaded)
    }
}

fn checkpoint_by_key(
    statements: &mut Statements<'_>,
    row: i64,
    key: &Name,
) -> Read<Option<Checkpoint>> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        select(&checkpoint_without_result(), "checkpoints c WHERE c.task = ?1 AND c.key = ?2")
    });
    statements
        .get(BatchStatement::CheckpointByKey, &SQL)?
        .query_row((row, key.as_str()), |row| run_columns::checkpoint(&mut Columns::of(row)))
        .optional()
}

pub(super) fn child_by_key(
    statements: &mut Statements<'_>,
    row: i64,
    key: &Name,
) -> Read<Option<StoredChild>> {
    static SQL: LazyLock<String> =
        LazyLock::new(|| select(CHILD, "children k WHERE k.task = ?1 AND k.key = ?2"));
    statements
        .get(BatchStatement::ChildByKey, &SQL)?
        .query_row((row, key.as_str()), |row| run_columns::child(&mut Columns::of(row)))
        .optional()
}

fn signal_by_key(connection: &Connection, row: i64, key: &Name) -> Read<Option<StoredSignal>> {
    static SQL: LazyLock<String> =
        LazyLock::new(|| select(SIGNAL, "signals s WHERE s.task = ?1 AND s.key = ?2"));
    connection
        .prepare_cached(&SQL)?
        .query_row((row, key.as_str()), |row| run_columns::signal(&mut Columns::of(row)))
        .optional()
}

fn pending(connection: &Connection, row: i64) -> Read<Vec<verdict::run::Signal>> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        select(
            SIGNAL,
            "signals s INDEXED BY signals_pending WHERE s.task = ?1 AND s.taken = 0
             ORDER BY s.number",
        )
    });
    let mut statement = connection.prepare_cached(&SQL)?;
    let found =
        statement.query_map([row], |row| Ok(run_columns::signal(&mut Columns::of(row))?.signal))?;
    found.collect()
}

/// One more than a slice, so that the caller knows whether there are more.
fn live_children(connection: &Connection, row: i64, slice: &Slice) -> Read<Vec<ChildRef>> {
    let sql = "SELECT key, child FROM children INDEXED BY children_that_live
        WHERE task = ?1 AND ended IS NULL AND detached = 0 AND key > ?2 ORDER BY key LIMIT ?3";
    // No key is empty.
    let after = slice.after.as_ref().map_or("", Name::as_str);
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_map(params![row, after, SLICE_MAX as i64 + 1], |row| {
        let mut columns = Columns::of(row);
        Ok(ChildRef { key: columns.name()?, id: columns.task_id()? })
    })?;
    found.collect()
}
