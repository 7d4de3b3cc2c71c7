//! What readers see of durable runs: checkpoints, children and signals of one task, a page at a time.

use std::sync::LazyLock;

use rusqlite::{Connection, OptionalExtension, params};
use verdict::Name;
use verdict::run::Checkpoint;

use super::reads::select;
use super::rows::Columns;
use super::run_rows::child_by_key;
use super::statements::Statements;
use super::steps;
use crate::browse::RowsAfter;
use crate::row::TaskRows;
use crate::row_size::{self, ByteBudget};
use crate::run_columns::{self, CHECKPOINT, CHILD, SIGNAL};
use crate::runs::{StoredChild, StoredSignal};

type Read<T> = rusqlite::Result<T>;

/// Checkpoints after this number, with results, up to the limits.
pub(super) fn checkpoints(
    connection: &Connection,
    row: i64,
    after: u32,
    limit: usize,
    mut budget: ByteBudget,
) -> Read<Vec<Checkpoint>> {
    let sql = select(
        CHECKPOINT,
        "checkpoints c WHERE c.task = ?1 AND c.number > ?2 ORDER BY c.number LIMIT ?3",
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params![row, after, most(limit)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let checkpoint = run_columns::checkpoint(&mut Columns::of(row))?;
        if !budget.takes(row_size::checkpoint(&checkpoint)) {
            break;
        }
        found.push(checkpoint);
    }
    Ok(found)
}

/// A checkpoint with its result.
pub(super) fn checkpoint(
    connection: &Connection,
    row: i64,
    key: &Name,
) -> Read<Option<Checkpoint>> {
    static SQL: LazyLock<String> =
        LazyLock::new(|| select(CHECKPOINT, "checkpoints c WHERE c.task = ?1 AND c.key = ?2"));
    connection
        .prepare_cached(&SQL)?
        .query_row((row, key.as_str()), |row| run_columns::checkpoint(&mut Columns::of(row)))
        .optional()
}

/// Checkpoints and children under these keys, in the order of their numbers.
pub(super) fn by_keys(
    connection: &Connection,
    row: i64,
    keys: &[Name],
    limit: usize,
) -> Read<TaskRows> {
    let (mut rows, mut budget) = (TaskRows::default(), ByteBudget::page());
    let mut statements = Statements::new(connection);
    for key in keys.iter().take(limit) {
        rows.children.extend(child_by_key(&mut statements, row, key)?);
        let Some(found) = checkpoint(connection, row, key)? else { continue };
        if !budget.takes(row_size::checkpoint(&found)) {
            break;
        }
        rows.checkpoints.push(found);
    }
    rows.checkpoints.sort_by_key(|checkpoint| checkpoint.number);
    rows.children.sort_by_key(|child| child.number);
    Ok(rows)
}

/// Children with a key after this, in the order of their keys.
pub(super) fn children(
    connection: &Connection,
    row: i64,
    after: Option<&Name>,
    limit: usize,
) -> Read<Vec<StoredChild>> {
    let sql = select(CHILD, "children k WHERE k.task = ?1 AND k.key > ?2 ORDER BY k.key LIMIT ?3");
    let mut statement = connection.prepare_cached(&sql)?;
    // No key is empty.
    let parameters = params![row, after.map_or("", Name::as_str), most(limit)];
    let found = statement.query_map(parameters, |row| run_columns::child(&mut Columns::of(row)))?;
    found.collect()
}

/// Children after this number, in the order in which they were started.
pub(super) fn started(
    connection: &Connection,
    row: i64,
    after: u32,
    limit: usize,
) -> Read<Vec<StoredChild>> {
    let sql =
        select(CHILD, "children k WHERE k.task = ?1 AND k.number > ?2 ORDER BY k.number LIMIT ?3");
    let mut statement = connection.prepare_cached(&sql)?;
    let parameters = params![row, after, most(limit)];
    let found = statement.query_map(parameters, |row| run_columns::child(&mut Columns::of(row)))?;
    found.collect()
}

/// Which signals a reader asks for.
#[derive(Clone, Copy)]
pub(super) enum Signals {
    All,
    Pending,
}

/// Signals after this number, up to the limits.
pub(super) fn signals(
    connection: &Connection,
    row: i64,
    which: Signals,
    after: u32,
    limit: usize,
    mut budget: ByteBudget,
) -> Read<Vec<StoredSignal>> {
    let from = match which {
        Signals::All => "signals s WHERE s.task = ?1 AND s.number > ?2 ORDER BY s.number LIMIT ?3",
        Signals::Pending => {
            "signals s INDEXED BY signals_pending
             WHERE s.task = ?1 AND s.number > ?2 AND s.taken = 0 ORDER BY s.number LIMIT ?3"
        }
    };
    let mut statement = connection.prepare_cached(&select(SIGNAL, from))?;
    let mut rows = statement.query(params![row, after, most(limit)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let signal = run_columns::signal(&mut Columns::of(row))?;
        if !budget.takes(row_size::signal(&signal)) {
            break;
        }
        found.push(signal);
    }
    Ok(found)
}

/// Which rows of a durable run a reader asks for, owned.
pub(super) enum RunRowsAfter {
    Checkpoint(u32),
    Child(Option<Name>),
    Started(u32),
    Keys(Vec<Name>),
    Step(u32),
    StepKey(Name),
    Signal(Signals, u32),
    /// Rows that every task has are read elsewhere.
    None,
}

impl RunRowsAfter {
    pub(super) fn of(after: RowsAfter<'_>) -> Self {
        match after {
            RowsAfter::Checkpoint(number) => Self::Checkpoint(number),
            RowsAfter::Child(key) => Self::Child(key.cloned()),
            RowsAfter::Started(number) => Self::Started(number),
            RowsAfter::Keys(keys) => Self::Keys(keys.to_vec()),
            RowsAfter::Step(place) => Self::Step(place),
            RowsAfter::StepKey(key) => Self::StepKey(key.clone()),
            RowsAfter::Signal(number) => Self::Signal(Signals::All, number),
            RowsAfter::PendingSignal(number) => Self::Signal(Signals::Pending, number),
            RowsAfter::Entry(_) | RowsAfter::Attempt(_) | RowsAfter::Refusal(_) => Self::None,
        }
    }

    pub(super) fn read(&self, connection: &Connection, row: i64, limit: usize) -> Read<TaskRows> {
        let page = ByteBudget::page();
        match self {
            Self::Checkpoint(after) => {
                checkpoints(connection, row, *after, limit, page).map(TaskRows::from)
            }
            Self::Child(after) => {
                children(connection, row, after.as_ref(), limit).map(TaskRows::from)
            }
            Self::Started(after) => started(connection, row, *after, limit).map(TaskRows::from),
            Self::Keys(keys) => by_keys(connection, row, keys, limit),
            Self::Step(place) => {
                steps::from_place(connection, row, *place, limit, Some(page)).map(TaskRows::from)
            }
            Self::StepKey(key) => {
                let found = steps::stored_by_key(connection, row, key)?;
                Ok(Vec::from_iter(found).into())
            }
            Self::Signal(which, after) => {
                signals(connection, row, *which, *after, limit, page).map(TaskRows::from)
            }
            Self::None => Ok(TaskRows::default()),
        }
    }
}

fn most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
