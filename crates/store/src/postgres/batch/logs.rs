//! Logs of tasks. A batch without lines sends none of these statements.
//!
//! Every row belongs to a task that the batch has locked, so no statement waits for another transaction.

use std::collections::HashMap;

use tokio_postgres::types::{ToSql, Type};
use verdict::TaskId;
use verdict::log::{Piece, PieceId};

use super::PostgresBatch;
use crate::failure::Failure;
use crate::logs::{LogRow, LogsOf, PIECE, SavedLog, cell, log_row, piece, written};
use crate::postgres::reads::{Client, Read, as_limit, set_scopes};
use crate::postgres::rows::{Columns, id_bytes};
use crate::row::TaskKey;

const SAVE: &str = "INSERT INTO tenure.logs AS g \
    (task, tenant, workspace, attempt, first_line, last_line, lines, bytes, dropped, content) \
    SELECT * FROM unnest($1::bytea[], $2::text[], $3::text[], $4::int4[], $5::int8[], $6::int8[], $7::int4[], \
        $8::int4[], $9::int8[], $10::text[]) \
    ON CONFLICT (task, attempt, first_line) DO UPDATE SET last_line = excluded.last_line, lines = excluded.lines, \
        bytes = excluded.bytes, dropped = excluded.dropped, content = g.content || excluded.content";

const REMOVE: &str = "DELETE FROM tenure.logs g \
    USING unnest($1::bytea[], $2::int4[], $3::int8[]) AS u(task, attempt, first_line) \
    WHERE g.task = u.task AND g.attempt = u.attempt AND g.first_line = u.first_line";

pub(super) fn frequent_statements() -> [&'static str; 2] {
    [SAVE, REMOVE]
}

/// What a batch changes, ready to be sent.
#[derive(Clone, Debug, Default)]
pub(super) struct LogWrites {
    removed: (Vec<Vec<u8>>, Vec<i32>, Vec<i64>),
    tasks: Vec<Vec<u8>>,
    tenants: Vec<String>,
    workspaces: Vec<String>,
    attempts: Vec<i32>,
    lines: Vec<i32>,
    bytes: Vec<i32>,
    /// First, last, dropped.
    numbers: [Vec<i64>; 3],
    contents: Vec<String>,
}

impl LogWrites {
    pub(super) fn is_empty(&self) -> bool {
        self.removed.0.is_empty() && self.tasks.is_empty()
    }

    pub(super) fn of(logs: &[SavedLog]) -> Self {
        let mut writes = Self::default();
        for SavedLog { task, change } in logs {
            change.removed.iter().for_each(|id| writes.remove(task, *id));
            change.saved.iter().for_each(|(piece, lines)| writes.save(task, piece, written(lines)));
        }
        writes
    }

    fn remove(&mut self, task: &TaskKey, id: PieceId) {
        let (tasks, attempts, firsts) = &mut self.removed;
        tasks.push(id_bytes(task.id).to_vec());
        attempts.push(int(id.attempt));
        firsts.push(cell(id.first));
    }

    fn save(&mut self, task: &TaskKey, piece: &Piece, content: String) {
        let Piece { id, last, lines, bytes, dropped } = *piece;
        self.tasks.push(id_bytes(task.id).to_vec());
        self.tenants.push(task.scope.tenant.as_str().to_owned());
        self.workspaces.push(task.scope.workspace.as_str().to_owned());
        self.attempts.push(int(id.attempt));
        self.lines.push(int(lines));
        self.bytes.push(int(bytes));
        let cells = [id.first, last, dropped].map(cell);
        self.numbers.iter_mut().zip(cells).for_each(|(column, cell)| column.push(cell));
        self.contents.push(content);
    }

    pub(super) async fn remove_all(&self, client: &Client) -> Read<()> {
        let (tasks, attempts, firsts) = &self.removed;
        if tasks.is_empty() {
            return Ok(());
        }
        let parameters: [(&(dyn ToSql + Sync), Type); 3] =
            [(tasks, Type::BYTEA_ARRAY), (attempts, Type::INT4_ARRAY), (firsts, Type::INT8_ARRAY)];
        client.query_typed(REMOVE, &parameters).await?;
        Ok(())
    }

    pub(super) async fn save_all(&self, client: &Client) -> Read<()> {
        if self.tasks.is_empty() {
            return Ok(());
        }
        let [first, last, dropped] = &self.numbers;
        let parameters: [(&(dyn ToSql + Sync), Type); 10] = [
            (&self.tasks, Type::BYTEA_ARRAY),
            (&self.tenants, Type::TEXT_ARRAY),
            (&self.workspaces, Type::TEXT_ARRAY),
            (&self.attempts, Type::INT4_ARRAY),
            (first, Type::INT8_ARRAY),
            (last, Type::INT8_ARRAY),
            (&self.lines, Type::INT4_ARRAY),
            (&self.bytes, Type::INT4_ARRAY),
            (dropped, Type::INT8_ARRAY),
            (&self.contents, Type::TEXT_ARRAY),
        ];
        client.query_typed(SAVE, &parameters).await?;
        Ok(())
    }
}

/// Attempts and sizes are bounded far below.
fn int(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

impl PostgresBatch<'_> {
    /// The pieces of these tasks, which are locked.
    pub(super) async fn load_logs(
        &mut self,
        tasks: &[TaskKey],
    ) -> Result<Vec<Vec<Piece>>, Failure> {
        if tasks.is_empty() {
            return Ok(Vec::new());
        }
        let setting = self.scopes.add(tasks.iter().map(|task| &task.scope));
        let ids: Vec<Vec<u8>> = tasks.iter().map(|task| id_bytes(task.id).to_vec()).collect();
        let work = move |client: Client| async move {
            let (set, found) =
                futures_util::join!(set_scopes(&client, setting), pieces(&client, &ids));
            set?;
            found
        };
        let mut found = self.transaction().run("loading logs", work).await?;
        Ok(tasks.iter().map(|task| found.remove(&task.id).unwrap_or_default()).collect())
    }
}

async fn pieces(client: &Client, ids: &Vec<Vec<u8>>) -> Read<HashMap<TaskId, Vec<Piece>>> {
    let sql = format!(
        "SELECT g.task, {PIECE} FROM tenure.logs g WHERE g.task = ANY ($1) \
         ORDER BY g.task, g.attempt, g.first_line"
    );
    let mut found: HashMap<TaskId, Vec<Piece>> = HashMap::new();
    for row in &client.query_typed(&sql, &[(ids, Type::BYTEA_ARRAY)]).await? {
        let mut columns = Columns::of(row);
        let task = columns.task_id()?;
        found.entry(task).or_default().push(piece(&mut columns)?);
    }
    Ok(found)
}

/// A page of pieces with their lines.
pub(in crate::postgres) async fn rows(
    client: &Client,
    of: &LogsOf,
    limit: usize,
) -> Read<Vec<LogRow>> {
    let limit = as_limit(limit);
    let select =
        format!("SELECT g.task, g.tenant, g.workspace, {PIECE}, g.content FROM tenure.logs g");
    let (sql, task, attempt, line) = match of {
        LogsOf::Task { key, after } => {
            let (attempt, line) = after.unwrap_or((0, 0));
            let sql = format!(
                "{select} WHERE g.task = $1 AND (g.attempt, g.last_line) > ($2, $3) \
                 ORDER BY g.attempt, g.first_line LIMIT $4"
            );
            (sql, id_bytes(key.id).to_vec(), attempt, line)
        }
        LogsOf::All { after } => {
            let (task, attempt, line) = after.map_or((Vec::new(), 0, 0), |(task, id)| {
                (id_bytes(task).to_vec(), id.attempt, id.first)
            });
            let sql = format!(
                "{select} WHERE (g.task, g.attempt, g.first_line) > ($1, $2, $3) \
                 ORDER BY g.task, g.attempt, g.first_line LIMIT $4"
            );
            (sql, task, attempt, line)
        }
    };
    let (attempt, line) = (int(attempt), cell(line));
    let parameters: [(&(dyn ToSql + Sync), Type); 4] =
        [(&task, Type::BYTEA), (&attempt, Type::INT4), (&line, Type::INT8), (&limit, Type::INT8)];
    let found = client.query_typed(&sql, &parameters).await?;
    found.iter().map(|row| Ok(log_row(&mut Columns::of(row))?)).collect()
}
