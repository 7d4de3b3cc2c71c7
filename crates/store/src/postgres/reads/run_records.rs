//! What requests about durable runs name: checkpoints and children by key, signals, and slices of live children.
//!
//! The statements are sent behind the locks of the tasks, in the same round trip, and each only if something is asked of
//! it. A statement sees what was committed before it began, so behind the locks it sees all that belongs to the tasks.

use std::collections::HashMap;
use std::sync::LazyLock;

use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use verdict::run::{Awaited, Checkpoint, Child, Signal};
use verdict::{Name, Scope, TaskId};

use super::{Client, Keys, Read, as_limit};
use crate::failure::Failure;
use crate::postgres::rows::{Columns, id_bytes};
use crate::row::TaskKey;
use crate::run_columns::{self, CHILD, SIGNAL, checkpoint_without_result};

/// Tasks with a key each: as many columns as a statement has parameters.
#[derive(Default)]
struct NamedKeys {
    tasks: Vec<TaskKey>,
    keys: Vec<String>,
}

impl NamedKeys {
    fn push(&mut self, task: &TaskKey, key: &str) {
        self.tasks.push(task.clone());
        self.keys.push(key.to_owned());
    }

    async fn read(&self, client: &Client, sql: &str) -> Read<Vec<Row>> {
        if self.tasks.is_empty() {
            return Ok(Vec::new());
        }
        let tasks = Keys::of(self.tasks.iter());
        let [tenants, workspaces, ids] = tasks.parameters();
        let keys: (&(dyn ToSql + Sync), Type) = (&self.keys, Type::TEXT_ARRAY);
        let parameters = [tenants, workspaces, ids, keys];
        Ok(client.query_typed(sql, &parameters).await?)
    }
}

/// What to read for the requests of one batch.
#[derive(Default)]
pub(in crate::postgres) struct RunReads {
    by_key: NamedKeys,
    signals_by_key: NamedKeys,
    pending_signals: Vec<TaskKey>,
    /// Closing tasks, each with the key after which its slice begins.
    slices: NamedKeys,
    /// How many children each slice may have.
    slice_max: usize,
}

/// What was found of one task.
#[derive(Default)]
pub(in crate::postgres) struct FoundRecords {
    pub(in crate::postgres) checkpoints: Vec<Checkpoint>,
    /// By key, and those of a slice.
    pub(in crate::postgres) children: Vec<Child>,
    pub(in crate::postgres) pending: Vec<Signal>,
    pub(in crate::postgres) keyed: Vec<Signal>,
}

pub(in crate::postgres) type FoundRuns = HashMap<TaskId, FoundRecords>;

impl RunReads {
    pub(in crate::postgres) fn add_key(&mut self, task: &TaskKey, key: &Name) {
        self.by_key.push(task, key.as_str());
    }

    pub(in crate::postgres) fn add_signals(&mut self, task: &TaskKey) {
        self.pending_signals.push(task.clone());
    }

    pub(in crate::postgres) fn add_signal_key(&mut self, task: &TaskKey, key: &Name) {
        self.signals_by_key.push(task, key.as_str());
    }

    /// Adds a slice of up to `max` live children. Without `after` it begins with the first.
    pub(in crate::postgres) fn add_slice(
        &mut self,
        task: &TaskKey,
        after: Option<&Name>,
        max: usize,
    ) {
        self.slices.push(task, after.map_or("", Name::as_str));
        self.slice_max = self.slice_max.max(max);
    }

    pub(in crate::postgres) fn is_empty(&self) -> bool {
        self.by_key.tasks.is_empty()
            && self.signals_by_key.tasks.is_empty()
            && self.pending_signals.is_empty()
            && self.slices.tasks.is_empty()
    }

    /// The scopes of the tasks.
    pub(in crate::postgres) fn scopes(&self) -> impl Iterator<Item = &Scope> {
        let named = [&self.by_key, &self.signals_by_key, &self.slices];
        let named = named.into_iter().flat_map(|named| &named.tasks);
        named.chain(&self.pending_signals).map(|task| &task.scope)
    }

    pub(in crate::postgres) async fn read(&self, client: &Client) -> Read<FoundRuns> {
        let (checkpoints, children, keyed, pending, slices) = futures_util::join!(
            self.by_key.read(client, &CHECKPOINTS),
            self.by_key.read(client, &CHILDREN),
            self.signals_by_key.read(client, &SIGNALS_BY_KEY),
            self.read_pending(client),
            self.read_slices(client),
        );
        let mut found = FoundRuns::new();
        collect(&checkpoints?, run_columns::checkpoint, |task, checkpoint| {
            found.entry(task).or_default().checkpoints.push(checkpoint);
        })?;
        for rows in [children?, slices?] {
            collect(&rows, run_columns::child, |task, started| {
                found.entry(task).or_default().children.push(started.child);
            })?;
        }
        collect(&keyed?, run_columns::signal, |task, stored| {
            found.entry(task).or_default().keyed.push(stored.signal);
        })?;
        collect(&pending?, run_columns::signal, |task, stored| {
            found.entry(task).or_default().pending.push(stored.signal);
        })?;
        Ok(found)
    }

    async fn read_pending(&self, client: &Client) -> Read<Vec<Row>> {
        if self.pending_signals.is_empty() {
            return Ok(Vec::new());
        }
        let keys = Keys::of(self.pending_signals.iter());
        Ok(client.query_typed(&PENDING_SIGNALS, &keys.parameters()).await?)
    }

    async fn read_slices(&self, client: &Client) -> Read<Vec<Row>> {
        if self.slices.tasks.is_empty() {
            return Ok(Vec::new());
        }
        let tasks = Keys::of(self.slices.tasks.iter());
        let [tenants, workspaces, ids] = tasks.parameters();
        let limit = as_limit(self.slice_max);
        let after: (&(dyn ToSql + Sync), Type) = (&self.slices.keys, Type::TEXT_ARRAY);
        let parameters = [tenants, workspaces, ids, after, (&limit, Type::INT8)];
        Ok(client.query_typed(&SLICES, &parameters).await?)
    }
}

/// Reads rows that begin with the task they belong to. An error names the task, so that only this task is affected.
fn collect<T>(
    rows: &[Row],
    read: impl Fn(&mut Columns<'_>) -> Result<T, Failure>,
    mut take: impl FnMut(TaskId, T),
) -> Read<()> {
    for row in rows {
        let mut columns = Columns::of(row);
        let task = columns.task_id()?;
        take(task, read(&mut columns).map_err(|failure| failure.confined_to(task))?);
    }
    Ok(())
}

/// Rows of one table by task and key, each looked up by its own key.
fn by_key(columns: &str, table: &str, letter: &str) -> String {
    format!(
        "SELECT {letter}.task, {columns} \
         FROM unnest($1::text[], $2::text[], $3::bytea[], $4::text[]) AS u(tenant, workspace, task, key) \
         CROSS JOIN LATERAL (SELECT * FROM tenure.{table} WHERE task = u.task AND key = u.key COLLATE \"C\" \
            AND tenant = u.tenant AND workspace = u.workspace OFFSET 0) {letter}"
    )
}

static CHECKPOINTS: LazyLock<String> =
    LazyLock::new(|| by_key(&checkpoint_without_result(), "checkpoints", "c"));
static CHILDREN: LazyLock<String> = LazyLock::new(|| by_key(CHILD, "children", "k"));
static SIGNALS_BY_KEY: LazyLock<String> = LazyLock::new(|| by_key(SIGNAL, "signals", "s"));

static PENDING_SIGNALS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT s.task, {SIGNAL} FROM unnest($1::text[], $2::text[], $3::bytea[]) AS u(tenant, workspace, task) \
         CROSS JOIN LATERAL (SELECT * FROM tenure.signals WHERE task = u.task AND NOT taken \
            AND tenant = u.tenant AND workspace = u.workspace ORDER BY number OFFSET 0) s"
    )
});

static SLICES: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT k.task, {CHILD} \
         FROM unnest($1::text[], $2::text[], $3::bytea[], $4::text[]) AS u(tenant, workspace, task, after) \
         CROSS JOIN LATERAL (SELECT * FROM tenure.children WHERE task = u.task AND ended IS NULL AND NOT detached \
            AND key > u.after COLLATE \"C\" AND tenant = u.tenant AND workspace = u.workspace \
            ORDER BY key LIMIT $5) k"
    )
});

const ITEMS: &str = "SELECT w.task, w.items FROM tenure.waits w WHERE w.task = ANY ($1)";

/// The items of long waits, read after the rows of their tasks were locked.
pub(in crate::postgres) async fn items(
    client: &Client,
    tasks: &[TaskId],
) -> Read<HashMap<TaskId, Vec<Awaited>>> {
    let ids: Vec<Vec<u8>> = tasks.iter().map(|id| id_bytes(*id).to_vec()).collect();
    let rows = client.query_typed(ITEMS, &[(&ids, Type::BYTEA_ARRAY)]).await?;
    let mut found = HashMap::new();
    collect(
        &rows,
        |columns| columns.column("items"),
        |task, items| {
            found.insert(task, items);
        },
    )?;
    Ok(found)
}

/// Statements that batches with durable runs repeat, to be prepared on direct connections.
pub(in crate::postgres) fn frequent_statements() -> impl Iterator<Item = &'static str> {
    let built: [&'static LazyLock<String>; 5] =
        [&CHECKPOINTS, &CHILDREN, &SIGNALS_BY_KEY, &PENDING_SIGNALS, &SLICES];
    built.into_iter().map(|text| text.as_str()).chain([ITEMS])
}
