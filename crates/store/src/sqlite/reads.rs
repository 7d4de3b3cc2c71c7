//! Reading single tasks, inside a batch and outside.

use std::sync::LazyLock;

use rusqlite::{Connection, OptionalExtension};
use verdict::{ClosedAttempt, Done, LeaseId, Subject, TaskId};

use super::ready_index::{KindQueueId, ReadyIndex};
use super::rows::{
    self, BATCH_SPEC, CLOSED, Columns, KEY, LiveRow, NAMES, QueueAndKind, SPEC, id_bytes,
};
use super::statements::{BatchStatement, Statements};
use crate::cells::TaskIdentity;
use crate::codec::inline_history::InlineHistory;
use crate::row::{BatchSpec, Spec};
use crate::row_size::{self, ByteBudget};

type Read<T> = rusqlite::Result<T>;

/// The scope, queue and kind of a kind queue.
pub(super) fn kind_queue(connection: &Connection, kind_queue: KindQueueId) -> Read<QueueAndKind> {
    let sql = select(NAMES, "lanes n WHERE n.lane = ?1");
    let mut statement = connection.prepare_cached(&sql)?;
    statement.query_row([kind_queue.0], |row| QueueAndKind::read(&mut Columns::of(row)))
}

/// The kind queue of this scope, queue and kind, if it exists.
pub(super) fn find_kind_queue(
    connection: &Connection,
    task: &TaskIdentity<'_>,
) -> Read<Option<KindQueueId>> {
    let sql = "SELECT lane FROM lanes
        WHERE tenant = ?1 AND workspace = ?2 AND queue = ?3 AND kind = ?4 LIMIT 1";
    let (scope, queue, kind) = (task.scope, task.queue.as_str(), task.kind.as_str());
    let names = [scope.tenant.as_str(), scope.workspace.as_str(), queue, kind];
    connection.prepare_cached(sql)?.query_row(names, |row| row.get(0).map(KindQueueId)).optional()
}

/// A task's row number.
pub(super) fn row_of(connection: &Connection, id: TaskId) -> Read<Option<i64>> {
    connection
        .prepare_cached("SELECT row FROM inputs WHERE id = ?1")?
        .query_row([id_bytes(id)], |row| row.get(0))
        .optional()
}

pub(super) fn live(connection: &Connection, row: i64) -> Read<Option<LiveRow>> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        let from = "live l JOIN inputs i ON i.row = l.row JOIN lanes n ON n.lane = l.lane";
        select(
            &format!("{KEY}, {NAMES}, {}", rows::task_columns()),
            &format!("{from} WHERE l.row = ?1"),
        )
    });
    connection
        .prepare_cached(&SQL)?
        .query_row([row], |row| {
            rows::live_row(&mut Columns::of(row), |columns, _| QueueAndKind::read(columns))
        })
        .optional()
}

/// A live task by its id, with its submission unless that is long: one search instead of three, without the names that memory
/// has, for queues that are being drained.
pub(super) fn ready(
    statements: &mut Statements<'_>,
    kind_queues: &ReadyIndex,
    id: TaskId,
) -> Read<Option<(LiveRow, BatchSpec)>> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        let columns = format!("{KEY}, {}, {}", rows::task_columns(), *BATCH_SPEC);
        select(&columns, "inputs i JOIN live l ON l.row = i.row WHERE i.id = ?1")
    });
    statements
        .get(BatchStatement::Ready, &SQL)?
        .query_row([id_bytes(id)], |row| {
            let mut columns = Columns::of(row);
            let names = |columns: &mut Columns<'_>, kind_queue| {
                kind_queues.names(kind_queue).ok_or_else(|| columns.unknown_value("lane"))
            };
            Ok((rows::live_row(&mut columns, names)?, rows::batch_spec(&mut columns)?))
        })
        .optional()
}

pub(super) fn done(connection: &Connection, row: i64) -> Read<Option<Done>> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        let from = "done d JOIN inputs i ON i.row = d.row JOIN lanes n ON n.lane = i.lane";
        select(&rows::done_columns(), &format!("{from} WHERE d.row = ?1"))
    });
    connection
        .prepare_cached(&SQL)?
        .query_row([row], |row| rows::done(&mut Columns::of(row)))
        .optional()
}

/// The live or ended task; a row that is neither counts as absent, and `verify` reports it.
pub(super) fn subject(connection: &Connection, row: i64) -> Read<Subject> {
    if let Some(live) = live(connection, row)? {
        return Ok(Subject::Live(live.task));
    }
    Ok(done(connection, row)?.map_or(Subject::Absent, Subject::Done))
}

pub(super) fn spec(connection: &Connection, row: i64) -> Read<Spec> {
    let sql = select(SPEC, "inputs i WHERE i.row = ?1");
    connection.prepare_cached(&sql)?.query_row([row], |row| rows::spec(&mut Columns::of(row)))
}

/// Closed attempts after this one, up to the limits.
pub(super) fn attempts(
    connection: &Connection,
    task: TaskId,
    row: i64,
    after: u32,
    limit: usize,
    mut budget: ByteBudget,
) -> Read<Vec<ClosedAttempt>> {
    let sql = select(CLOSED, "attempts a WHERE a.task = ?1 AND a.attempt > ?2 ORDER BY a.attempt");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query((row, after))?;
    let mut attempts = Vec::new();
    while attempts.len() < limit
        && let Some(row) = rows.next()?
    {
        let closed = rows::closed(task, &mut Columns::of(row))?;
        if !budget.takes(row_size::closed(&closed)) {
            break;
        }
        attempts.push(closed);
    }
    Ok(attempts)
}

pub(super) fn numbered_attempt(
    connection: &Connection,
    task: TaskId,
    row: i64,
    attempt: u32,
) -> Read<Option<ClosedAttempt>> {
    let sql = select(CLOSED, "attempts a WHERE a.task = ?1 AND a.attempt = ?2");
    connection
        .prepare_cached(&sql)?
        .query_row((row, attempt), |row| rows::closed(task, &mut Columns::of(row)))
        .optional()
}

pub(super) fn attempt(
    connection: &Connection,
    task: TaskId,
    row: i64,
    lease: LeaseId,
) -> Read<Option<ClosedAttempt>> {
    let sql = select(CLOSED, "attempts a WHERE a.task = ?1 AND a.lease = ?2");
    connection
        .prepare_cached(&sql)?
        .query_row((row, lease.as_u128().to_be_bytes()), |row| {
            rows::closed(task, &mut Columns::of(row))
        })
        .optional()
}

/// The packed parts of a task's history: the submission, and the later entries in its row.
pub(super) fn inline_histories(connection: &Connection, row: i64) -> Read<[InlineHistory; 2]> {
    connection
        .prepare_cached(
            "SELECT i.tale, coalesce(l.tale, d.tale) FROM inputs i
             LEFT JOIN live l ON l.row = i.row LEFT JOIN done d ON d.row = i.row WHERE i.row = ?1",
        )?
        .query_row([row], |row| {
            let mut columns = Columns::of(row);
            Ok([columns.inline_history()?, columns.inline_history()?])
        })
}

/// A SELECT of these columns from these tables.
pub(super) fn select(columns: &str, from: &str) -> String {
    format!("SELECT {columns} FROM {from}")
}
