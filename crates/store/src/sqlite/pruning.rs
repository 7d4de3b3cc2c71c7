//! Deletes ended runs with everything that belongs to them: input, attempts, history, records, end, and the same of all
//! their descendants, which have ended before them.
//!
//! Triggers refuse to delete any of these rows unless the task is in `leaving`, and they admit to
//! `leaving` only tasks that ended at least a day ago (migration V3). So a mistaken DELETE is refused
//! here too.

use std::sync::LazyLock;

use rusqlite::{Connection, params};
use verdict::{TaskId, Time};

use super::listing::{BLOCK_BITS, rows_of};
use super::objects;
use super::ready_index::{KindQueueId, ReadyIndex};
use super::rows::Columns;
use crate::row::{EndedPosition, EndedTask};

/// The statements that delete a task, in this order: no row is ever left without its task.
const FORGET: [&str; 15] = [
    "DELETE FROM messages WHERE EXISTS (SELECT 1 FROM inputs i JOIN leaving g ON g.row = i.row
        WHERE i.id = messages.addressee)",
    "DELETE FROM logs WHERE task IN (SELECT i.id FROM inputs i JOIN leaving g ON g.row = i.row)",
    "DELETE FROM missing_upstreams WHERE task IN (SELECT row FROM leaving)",
    "DELETE FROM edges WHERE task IN (SELECT row FROM leaving)",
    "DELETE FROM steps WHERE task IN (SELECT row FROM leaving)",
    "DELETE FROM waits WHERE task IN (SELECT row FROM leaving)",
    "DELETE FROM signals WHERE task IN (SELECT row FROM leaving)",
    "DELETE FROM children WHERE task IN (SELECT row FROM leaving)",
    "DELETE FROM checkpoints WHERE task IN (SELECT row FROM leaving)",
    "DELETE FROM refused WHERE task IN (SELECT row FROM leaving)",
    "DELETE FROM history WHERE task IN (SELECT row FROM leaving)",
    "DELETE FROM attempts WHERE task IN (SELECT row FROM leaving)",
    "DELETE FROM done WHERE row IN (SELECT row FROM leaving)",
    "DELETE FROM inputs WHERE row IN (SELECT row FROM leaving)",
    "DELETE FROM leaving",
];

/// A run that can be deleted as a whole: without the newest submission, because new row numbers are derived from it and
/// must not be reused. Tables `done d` and `inputs i`.
pub(super) const WHOLE_RUN: &str = "i.root IS NULL AND d.row < (SELECT max(row) FROM inputs)
    AND i.id IS NOT (SELECT n.root FROM inputs n ORDER BY n.row DESC LIMIT 1)";

/// Ended runs by row, after `after`.
pub(super) fn ended(
    connection: &Connection,
    after: Option<EndedPosition>,
    limit: usize,
) -> rusqlite::Result<Vec<EndedTask>> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        format!(
            "SELECT d.row, i.created_at, d.completed_at, i.id, n.tenant, n.workspace FROM done d
             JOIN inputs i ON i.row = d.row JOIN lanes n ON n.lane = i.lane
             WHERE d.row > ?1 AND {WHOLE_RUN} ORDER BY d.row LIMIT ?2"
        )
    });
    let mut statement = connection.prepare_cached(&SQL)?;
    let after = after.map_or(0, row_of);
    let rows = statement.query_map(params![after, limit as i64], |row| {
        let mut columns = Columns::of(row);
        let position: i64 = columns.take()?;
        let (created_at, completed_at) = (columns.take()?, columns.take()?);
        let id = TaskId::from_u128(u128::from_be_bytes(columns.take()?));
        let has_pending_objects = objects::has_pending(connection, &columns.scope()?, id)?;
        Ok(EndedTask {
            position: EndedPosition(position.unsigned_abs().into()),
            created_at: Time::from_millis(created_at),
            completed_at: Time::from_millis(completed_at),
            has_pending_objects,
        })
    })?;
    rows.collect()
}

/// The kind queues of deleted tasks.
pub(super) struct Pruned {
    /// All of them: their blocks may be deleted.
    pub(super) touched: Vec<KindQueueId>,
    /// Those that were deleted with the last of their tasks.
    pub(super) gone: Vec<KindQueueId>,
}

/// Call it inside a transaction. The idempotency keys of these tasks have expired; they are cleared with their hour.
pub(super) fn forget(
    connection: &Connection,
    rows: impl Iterator<Item = i64>,
    now: Time,
) -> rusqlite::Result<Pruned> {
    let mut leave = connection
        .prepare_cached("INSERT INTO leaving (row, at) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?;
    // A task with a parent may leave only after its root has.
    let mut leave_descendants = connection.prepare_cached(
        "INSERT INTO leaving (row, at) SELECT c.row, ?2 FROM inputs c
         WHERE c.root = (SELECT id FROM inputs WHERE row = ?1) ON CONFLICT DO NOTHING",
    )?;
    for row in rows {
        leave.execute([row, now.millis()])?;
        leave_descendants.execute([row, now.millis()])?;
    }
    faultpoint::point!("prune.leaving");
    let left = blocks_of_leaving(connection)?;
    objects::forget(connection)?;
    for sql in FORGET {
        connection.prepare_cached(sql)?.execute([])?;
    }
    delete_blocks(connection, &left)?;
    let mut touched: Vec<KindQueueId> =
        left.into_iter().map(|(kind_queue, _)| kind_queue).collect();
    touched.dedup();
    let gone = delete_kind_queues(connection, &touched)?;
    Ok(Pruned { touched, gone })
}

/// The blocks of kind queues that lose a task, in order.
fn blocks_of_leaving(connection: &Connection) -> rusqlite::Result<Vec<(KindQueueId, i64)>> {
    let mut statement = connection.prepare_cached(
        "SELECT DISTINCT lane, row >> ?1 FROM inputs WHERE row IN (SELECT row FROM leaving)
         ORDER BY 1, 2",
    )?;
    let blocks =
        statement.query_map([BLOCK_BITS], |row| Ok((row.get(0).map(KindQueueId)?, row.get(1)?)))?;
    blocks.collect()
}

/// Deletes those of these blocks that no longer hold a task of their kind queue.
fn delete_blocks(connection: &Connection, blocks: &[(KindQueueId, i64)]) -> rusqlite::Result<()> {
    let mut delete = connection.prepare_cached(
        "DELETE FROM lane_blocks WHERE lane = ?1 AND block = ?2 AND NOT EXISTS (
            SELECT 1 FROM inputs WHERE row BETWEEN ?3 AND ?4 AND lane = ?1)
         AND NOT EXISTS (SELECT 1 FROM live WHERE row BETWEEN ?3 AND ?4 AND lane = ?1)",
    )?;
    for (kind_queue, block) in blocks {
        let rows = rows_of(*block);
        delete.execute(params![kind_queue.0, block, rows.start(), rows.end()])?;
    }
    Ok(())
}

/// Deletes those of these kind queues to which no stored task was submitted, and returns them. A live task is stored,
/// so none of them has one.
fn delete_kind_queues(
    connection: &Connection,
    kind_queues: &[KindQueueId],
) -> rusqlite::Result<Vec<KindQueueId>> {
    let mut close = connection.prepare_cached(
        "DELETE FROM lanes
         WHERE lane = ?1 AND NOT EXISTS (SELECT 1 FROM lane_blocks WHERE lane = ?1)",
    )?;
    let mut closed = Vec::new();
    for kind_queue in kind_queues {
        if close.execute([kind_queue.0])? > 0 {
            closed.push(*kind_queue);
        }
    }
    Ok(closed)
}

/// Deletes the kind queues of builds that have no live task, and returns them. Runs are not submitted to them, so nothing else
/// keeps them.
pub(super) fn delete_pinned(
    connection: &Connection,
    ready: &ReadyIndex,
) -> rusqlite::Result<Vec<KindQueueId>> {
    let mut statement =
        connection.prepare_cached("SELECT lane FROM lanes WHERE instr(queue, '@') > 0")?;
    let pinned = statement.query_map([], |row| row.get(0).map(KindQueueId))?;
    let mut empty: Vec<KindQueueId> = pinned.collect::<rusqlite::Result<_>>()?;
    empty.retain(|kind_queue| !ready.has_tasks(*kind_queue));
    let mut delete = connection.prepare_cached("DELETE FROM lanes WHERE lane = ?1")?;
    empty.iter().try_for_each(|kind_queue| delete.execute([kind_queue.0]).map(drop))?;
    Ok(empty)
}

pub(super) fn row_of(position: EndedPosition) -> i64 {
    i64::try_from(position.0).expect("places of this engine are rows")
}
