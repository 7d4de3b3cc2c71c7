//! What a batch writes and looks up of durable runs: checkpoints, children, signals and the items of long waits.
//!
//! Excluded tasks are not read. A batch without run requests executes nothing here.

use std::sync::LazyLock;

use rusqlite::{Connection, OptionalExtension, params};
use verdict::run::limits::SLICE_MAX;
use verdict::run::{Checkpoint, ChildRef, Loaded as RunLoaded, Slice};
use verdict::{Name, Subject};

use super::batch::SqliteBatch;
use super::ids::Ids;
use super::reads::select;
use super::rows::Columns;
use super::tables::{CHECKPOINTS, CHILDREN, SIGNALS, TaskRow, WAITS};
use super::work::{StepError, Work, invalid, of_task};
use super::writes::{Binding, insert};
use crate::failure::Failure;
use crate::run_columns::{self, CHILD, SIGNAL, checkpoint_without_result};
use crate::runs::{RunLookup, RunRows, StoredChild, StoredSignal};
use crate::seam::Loaded;
use crate::tables::{CheckpointColumns, ChildColumns, SignalColumns, WaitColumns};

type Read<T> = rusqlite::Result<T>;

impl SqliteBatch<'_> {
    /// What requests about durable runs name.
    pub(super) fn load_runs(
        &mut self,
        runs: &[RunLookup],
        excluded: &Ids,
    ) -> Result<Vec<RunLoaded>, Failure> {
        if runs.is_empty() {
            return Ok(Vec::new());
        }
        self.step("loading what durable runs recorded", |work| {
            let load = |run: &RunLookup| match excluded.contains(&run.task.id) {
                true => Ok(RunLoaded::default()),
                false => work.load_run(run),
            };
            runs.iter().map(load).collect()
        })
    }
}

impl Work<'_> {
    fn load_run(&mut self, run: &RunLookup) -> Result<RunLoaded, StepError> {
        let Loaded::Subject(subject) = self.load_one(&run.task)? else {
            return Ok(RunLoaded::default());
        };
        let (id, row) = (run.task.id, self.row_of(run.task.id)?);
        let (Some(row), false) = (row, subject == Subject::Absent) else {
            return Ok(RunLoaded::default());
        };
        load(self.connection, row, run, &subject).map_err(|error| of_task(error, id))
    }

    pub(super) fn save_run_rows(&mut self, row: i64, rows: &RunRows<'_>) -> Result<(), StepError> {
        let connection = self.connection;
        for checkpoint in &rows.checkpoints {
            insert_checkpoint(connection, row, checkpoint)?;
        }
        for child in &rows.children {
            insert_child(connection, row, child)?;
        }
        for (signal, is_taken) in &rows.signals {
            let mut statement = connection.prepare_cached(&INSERT_SIGNAL)?;
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
            let changed = self.connection.prepare_cached(sql)?;
            changed_one(changed, params![row, ended.key.as_str(), ended.state.name()])?;
        }
        for number in &rows.taken {
            let sql = "UPDATE signals SET taken = 1 WHERE task = ?1 AND number = ?2";
            changed_one(self.connection.prepare_cached(sql)?, params![row, number])?;
        }
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

fn insert_checkpoint(connection: &Connection, row: i64, checkpoint: &Checkpoint) -> Read<usize> {
    static SQL: LazyLock<String> = LazyLock::new(|| insert(&CHECKPOINTS));
    let mut statement = connection.prepare_cached(&SQL)?;
    let mut cells = Binding::of(&mut statement, CHECKPOINTS.written);
    TaskRow::write(&mut cells, row);
    CheckpointColumns::write(&mut cells, checkpoint);
    cells.execute()
}

fn insert_child(connection: &Connection, row: i64, child: &StoredChild) -> Read<usize> {
    static SQL: LazyLock<String> = LazyLock::new(|| insert(&CHILDREN));
    let mut statement = connection.prepare_cached(&SQL)?;
    let mut cells = Binding::of(&mut statement, CHILDREN.written);
    TaskRow::write(&mut cells, row);
    ChildColumns::write(&mut cells, child);
    cells.execute()
}

/// A row that is changed was inserted before: an event that names another one is a defect of its sender.
fn changed_one(
    mut statement: rusqlite::CachedStatement<'_>,
    parameters: impl rusqlite::Params,
) -> Result<(), StepError> {
    match statement.execute(parameters)? {
        1 => Ok(()),
        _ => Err(invalid("a child or signal that was never recorded")),
    }
}

fn load(connection: &Connection, row: i64, run: &RunLookup, subject: &Subject) -> Read<RunLoaded> {
    let named = &run.named;
    let mut loaded = RunLoaded::default();
    for key in &named.keys {
        loaded.checkpoints.extend(checkpoint_by_key(connection, row, key)?);
        loaded.children.extend(child_by_key(connection, row, key)?.map(|started| started.child));
    }
    if let Some(key) = &named.same_key {
        loaded.same_key = signal_by_key(connection, row, key)?.map(|stored| stored.signal);
    }
    if named.needs_signals(subject) {
        loaded.signals = pending(connection, row)?;
    }
    if let Some(slice) = named.slice_of(subject) {
        loaded.live = live_children(connection, row, slice)?;
        loaded.has_more_live = loaded.live.len() > SLICE_MAX;
        loaded.live.truncate(SLICE_MAX);
    }
    Ok(loaded)
}

fn checkpoint_by_key(connection: &Connection, row: i64, key: &Name) -> Read<Option<Checkpoint>> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        select(&checkpoint_without_result(), "checkpoints c WHERE c.task = ?1 AND c.key = ?2")
    });
    connection
        .prepare_cached(&SQL)?
        .query_row((row, key.as_str()), |row| run_columns::checkpoint(&mut Columns::of(row)))
        .optional()
}

pub(super) fn child_by_key(
    connection: &Connection,
    row: i64,
    key: &Name,
) -> Read<Option<StoredChild>> {
    static SQL: LazyLock<String> =
        LazyLock::new(|| select(CHILD, "children k WHERE k.task = ?1 AND k.key = ?2"));
    connection
        .prepare_cached(&SQL)?
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
