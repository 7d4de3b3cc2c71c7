//! Paused queues in the file. The one writer changes them, so its memory always equals what is committed.

use rusqlite::{Connection, params};

use super::rows::Columns;
use crate::pauses::{PauseChange, PausedQueues, QueuePause};

type Sql<T> = rusqlite::Result<T>;

pub(super) fn write(connection: &Connection, change: &PauseChange) -> Sql<()> {
    match change {
        PauseChange::Pause(QueuePause { scope, queue, at, by, reason }) => {
            let sql =
                "INSERT OR REPLACE INTO paused_queues (tenant, workspace, queue, at, by, reason)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
            connection.prepare_cached(sql)?.execute(params![
                scope.tenant.as_str(),
                scope.workspace.as_str(),
                queue.as_str(),
                at.millis(),
                by.as_str(),
                reason.as_ref().map(|reason| reason.as_str()),
            ])?;
        }
        PauseChange::Resume { scope, queue } => {
            let sql =
                "DELETE FROM paused_queues WHERE tenant = ?1 AND workspace = ?2 AND queue = ?3";
            let names = [scope.tenant.as_str(), scope.workspace.as_str(), queue.as_str()];
            connection.prepare_cached(sql)?.execute(names)?;
        }
    }
    Ok(())
}

pub(super) fn read(connection: &Connection) -> Sql<PausedQueues> {
    let sql = "SELECT tenant, workspace, queue, at, by, reason FROM paused_queues";
    let mut statement = connection.prepare(sql)?;
    let pauses = statement.query_map([], |row| {
        let mut columns = Columns::of(row);
        Ok(QueuePause {
            scope: columns.scope()?,
            queue: columns.name()?,
            at: columns.time()?,
            by: columns.name()?,
            reason: columns.optional_text()?,
        })
    })?;
    pauses.collect()
}
