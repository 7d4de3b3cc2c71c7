//! Whole tasks, many at once: a few statements per page, not per task.

use std::collections::HashMap;
use std::sync::LazyLock;

use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use verdict::TaskId;

use super::browse::{self, INLINE_HISTORIES};
use super::{Client, Read, listing, run_rows};
use crate::browse::fitting_one_read;
use crate::codec::payload_digest::{self, Payloads};
use crate::failure::Failure;
use crate::postgres::rows::{self, CLOSED, Columns, ENTRY, REFUSED, id_bytes};
use crate::row::{Entry, StoredTask, TaskBundle, TaskKey, TaskRows};
use crate::row_size;
use crate::run_columns;

static HISTORY: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT h.task, {ENTRY} FROM tenure.history h WHERE h.task = ANY ($1) ORDER BY h.task, h.n"
    )
});
static INLINE: LazyLock<String> =
    LazyLock::new(|| format!("{INLINE_HISTORIES} WHERE i.id = ANY ($1)"));
static ATTEMPTS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT a.task, {CLOSED} FROM tenure.attempts a WHERE a.task = ANY ($1) \
         ORDER BY a.task, a.attempt"
    )
});
static REFUSALS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT r.task, {REFUSED} FROM tenure.refused r WHERE r.task = ANY ($1) \
         ORDER BY r.task, r.at, r.ord, r.lease"
    )
});

/// Tasks in order of id with all of their rows, in the snapshot of the transaction.
pub(in crate::postgres) async fn read(
    client: &Client,
    after: Option<TaskId>,
    limit: usize,
) -> Read<Vec<TaskBundle>> {
    let found = fitting_one_read(listing::all_tasks(client, after, limit).await?);
    let whole = found.iter().filter(|found| row_size::fits_one_read(found));
    let keys: HashMap<TaskId, TaskKey> =
        whole.map(StoredTask::key).map(|key| (key.id, key)).collect();
    let ids: Vec<Vec<u8>> = keys.keys().map(|id| id_bytes(*id).to_vec()).collect();
    let parameters: [(&(dyn ToSql + Sync), Type); 1] = [(&ids, Type::BYTEA_ARRAY)];
    let runs = found.iter().filter(|it| it.record_count() > 0).map(|it| it.key().id);
    let runs = runs.filter(|id| keys.contains_key(id)).map(|id| id_bytes(id).to_vec());
    let runs: Vec<Vec<u8>> = runs.collect();
    let (told, history, attempts, refused, runs) = futures_util::join!(
        client.query_typed(&INLINE, &parameters),
        client.query_typed(&HISTORY, &parameters),
        client.query_typed(&ATTEMPTS, &parameters),
        client.query_typed(&REFUSALS, &parameters),
        run_rows::whole(client, &runs),
    );
    let told: Read<HashMap<TaskId, Vec<Entry>>> =
        told?.iter().map(|row| Ok(browse::inline_histories(&mut Columns::of(row))?)).collect();
    let mut told = told?;
    let mut history = by_task(&history?, rows::entry)?;
    let mut attempts = by_task(&attempts?, rows::closed)?;
    let mut refused = by_task(&refused?, |task, columns| {
        let key = keys.get(&task).expect("only rows of these tasks were asked for");
        rows::refused(key, columns)
    })?;
    let runs = runs?;
    let mut checkpoints =
        by_task(&runs.checkpoints, |_, columns| run_columns::checkpoint(columns))?;
    let mut children = by_task(&runs.children, |_, columns| run_columns::child(columns))?;
    let mut signals = by_task(&runs.signals, |_, columns| run_columns::signal(columns))?;
    let whole = |found: StoredTask| {
        let id = found.key().id;
        if !keys.contains_key(&id) {
            return TaskBundle::without_rows(found);
        }
        let attempts = attempts.remove(&id).unwrap_or_default();
        let checkpoints = checkpoints.remove(&id).unwrap_or_default();
        let end = payload_digest::decided_end(&found.subject);
        let payloads = Payloads { attempts: &attempts, end, checkpoints: &checkpoints };
        let entries = told.remove(&id).into_iter().chain(history.remove(&id)).flatten();
        let history = entries.map(|entry| payload_digest::restore(entry, payloads)).collect();
        let refused = refused.remove(&id).unwrap_or_default();
        let children = children.remove(&id).unwrap_or_default();
        let signals = signals.remove(&id).unwrap_or_default();
        // A task with steps is read in parts.
        let steps = Vec::new();
        let rows = TaskRows { steps, history, attempts, refused, checkpoints, children, signals };
        TaskBundle { task: found, rows: Some(rows) }
    };
    Ok(found.into_iter().map(whole).collect())
}

/// Groups rows by the task in their first column, and keeps their order.
fn by_task<T>(
    rows: &[Row],
    read: impl Fn(TaskId, &mut Columns<'_>) -> Result<T, Failure>,
) -> Read<HashMap<TaskId, Vec<T>>> {
    let mut found: HashMap<TaskId, Vec<T>> = HashMap::new();
    for row in rows {
        let mut columns = Columns::of(row);
        let task = columns.task_id()?;
        found.entry(task).or_default().push(read(task, &mut columns)?);
    }
    Ok(found)
}
