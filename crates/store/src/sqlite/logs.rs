//! Logs of tasks.

use rusqlite::{Connection, params};
use verdict::log::{Piece, PieceId};

use super::batch::SqliteBatch;
use super::readers::Read;
use super::rows::Columns;
use super::work::{StepError, Work};
use crate::columns::id_bytes;
use crate::failure::Failure;
use crate::logs::{LogRow, LogsOf, PIECE, SavedLog, cell, log_row, piece, written};
use crate::row::TaskKey;

impl SqliteBatch<'_> {
    /// The pieces of these tasks.
    pub(super) fn load_logs(&mut self, tasks: &[TaskKey]) -> Result<Vec<Vec<Piece>>, Failure> {
        if tasks.is_empty() {
            return Ok(Vec::new());
        }
        self.step("loading logs", |work| {
            let load = |key: &TaskKey| Ok(pieces(work.connection, key)?);
            tasks.iter().map(load).collect()
        })
    }
}

impl Work<'_> {
    pub(super) fn save_logs(&mut self, logs: &[SavedLog]) -> Result<(), StepError> {
        for SavedLog { task, change } in logs {
            for id in &change.removed {
                remove(self.connection, task, *id)?;
            }
            for (piece, lines) in &change.saved {
                save(self.connection, task, piece, &written(lines))?;
            }
        }
        Ok(())
    }
}

fn pieces(connection: &Connection, key: &TaskKey) -> Read<Vec<Piece>> {
    let sql =
        format!("SELECT {PIECE} FROM logs g WHERE g.task = ?1 ORDER BY g.attempt, g.first_line");
    let mut statement = connection.prepare_cached(&sql)?;
    let found = statement.query_map([id_bytes(key.id)], |row| piece(&mut Columns::of(row)))?;
    found.collect()
}

fn remove(connection: &Connection, task: &TaskKey, id: PieceId) -> Read<()> {
    let sql = "DELETE FROM logs WHERE task = ?1 AND attempt = ?2 AND first_line = ?3";
    let parameters = params![id_bytes(task.id), id.attempt, cell(id.first)];
    connection.prepare_cached(sql)?.execute(parameters)?;
    Ok(())
}

fn save(connection: &Connection, task: &TaskKey, piece: &Piece, content: &str) -> Read<()> {
    let sql =
        "INSERT INTO logs (task, attempt, first_line, last_line, lines, bytes, dropped, content)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
        ON CONFLICT (task, attempt, first_line) DO UPDATE SET last_line = excluded.last_line,
            lines = excluded.lines, bytes = excluded.bytes, dropped = excluded.dropped,
            content = content || excluded.content";
    let Piece { id, last, lines, bytes, dropped } = piece;
    connection.prepare_cached(sql)?.execute(params![
        id_bytes(task.id),
        id.attempt,
        cell(id.first),
        cell(*last),
        lines,
        bytes,
        cell(*dropped),
        content
    ])?;
    Ok(())
}

/// A page of pieces with their lines.
pub(super) fn rows(connection: &Connection, of: &LogsOf, limit: usize) -> Read<Vec<LogRow>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let select = format!(
        "SELECT g.task, n.tenant, n.workspace, {PIECE}, g.content FROM logs g
         JOIN inputs i ON i.id = g.task JOIN lanes n ON n.lane = i.lane"
    );
    let row = |row: &rusqlite::Row<'_>| log_row(&mut Columns::of(row));
    match of {
        LogsOf::Task { key, after } => {
            let (attempt, line) = after.map_or((0, 0), |(attempt, line)| (attempt, cell(line)));
            let sql = format!(
                "{select} WHERE g.task = ?1 AND n.tenant = ?2 AND n.workspace = ?3
                 AND (g.attempt, g.last_line) > (?4, ?5) ORDER BY g.attempt, g.first_line LIMIT ?6"
            );
            let (tenant, workspace) = (key.scope.tenant.as_str(), key.scope.workspace.as_str());
            let parameters = params![id_bytes(key.id), tenant, workspace, attempt, line, limit];
            connection.prepare_cached(&sql)?.query_map(parameters, row)?.collect()
        }
        LogsOf::All { after } => {
            let (task, attempt, first) = after.map_or((Vec::new(), 0, 0), |(task, id)| {
                (id_bytes(task).to_vec(), id.attempt, cell(id.first))
            });
            let sql = format!(
                "{select} WHERE (g.task, g.attempt, g.first_line) > (?1, ?2, ?3)
                 ORDER BY g.task, g.attempt, g.first_line LIMIT ?4"
            );
            let parameters = params![task, attempt, first, limit];
            connection.prepare_cached(&sql)?.query_map(parameters, row)?.collect()
        }
    }
}
