//! Reads beside the writers: each call in one snapshot, restricted to the caller's scope.

use std::sync::{Arc, LazyLock};

use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use verdict::scope_budget::Day;
use verdict::{Amounts, ClosedAttempt, End, Name, Object, Scope, TaskId, Time};

use super::replay::{self, Wanted};
use super::run_rows::{self, RunRowsAfter};
use super::{Client, Read, as_limit, integrity, listing, objects, overview, task_bundles};
use crate::administration::{AdministrationRows, AuditFilter, Audited};
use crate::browse::{Browse, RowsAfter, ScanDepth};
use crate::codec::payload_digest::{self, Payloads};
use crate::failure::Failure;
use crate::logs::{LogRow, LogsOf};
use crate::objects::{ObjectChange, ObjectFilter, ObjectLogFilter, PendingObjects};
use crate::overview::TaskOverview;
use crate::pauses::PausedQueues;
use crate::postgres::administration::pauses;
use crate::postgres::batch::{logs, quota, spend};
use crate::postgres::connection::session;
use crate::postgres::flows::keys;
use crate::postgres::rows::{self, CLOSED, Columns, ENTRY, REFUSED, id_bytes};
use crate::postgres::{Shared, administration, scopes};
use crate::record_seals::{EndedRecord, EndedRecords, RecordSeal, SealFilter};
use crate::row::{
    Ahead, Entry, Filter, FlowFilter, FlowKeyRow, HeldLeases, Listing, PAGE_BYTES_MAX, QueueDepth,
    Refused, StoredTask, TaskBundle, TaskKey, TaskRows,
};
use crate::row_size::{self, ByteBudget};
use crate::runs::{MessageKey, RecordsOf, RunRecord, SavedMessage};
use crate::spend::{SpendQuery, SpendRow};

#[derive(Clone)]
pub struct PostgresBrowse {
    shared: Arc<Shared>,
}

impl PostgresBrowse {
    pub(in crate::postgres) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    async fn in_scope<T, F, W>(
        &self,
        what: &'static str,
        scope: &Scope,
        work: W,
    ) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: Future<Output = Read<T>> + Send,
        W: FnOnce(Client) -> F + Send + 'static,
    {
        self.shared.read(what, scopes::setting(scope), work).await
    }

    async fn in_all<T, F, W>(&self, what: &'static str, work: W) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: Future<Output = Read<T>> + Send,
        W: FnOnce(Client) -> F + Send + 'static,
    {
        self.shared.read(what, scopes::ALL.to_owned(), work).await
    }

    async fn history(
        &self,
        key: &TaskKey,
        after: u32,
        limit: usize,
    ) -> Result<Vec<Entry>, Failure> {
        let (key, scope) = (key.clone(), &key.scope);
        self.in_scope("reading a history", scope, move |client| async move {
            scoped(&client, &key, history(&client, key.id, after, limit)).await
        })
        .await
    }

    async fn attempts(
        &self,
        key: &TaskKey,
        after: u32,
        limit: usize,
    ) -> Result<Vec<ClosedAttempt>, Failure> {
        let (key, scope) = (key.clone(), &key.scope);
        self.in_scope("reading attempts", scope, move |client| async move {
            scoped(&client, &key, attempts(&client, key.id, after, limit)).await
        })
        .await
    }

    async fn refused(
        &self,
        key: &TaskKey,
        after: Option<&Refused>,
        limit: usize,
    ) -> Result<Vec<Refused>, Failure> {
        let (key, scope, after) = (key.clone(), &key.scope, after.cloned());
        self.in_scope("reading refusals", scope, move |client| async move {
            scoped(&client, &key, refused(&client, &key, after.as_ref(), limit)).await
        })
        .await
    }

    /// Rows of a durable run.
    async fn run_rows(
        &self,
        key: &TaskKey,
        after: RowsAfter<'_>,
        limit: usize,
    ) -> Result<TaskRows, Failure> {
        let (key, scope, after) = (key.clone(), &key.scope, RunRowsAfter::of(after));
        self.in_scope("reading what a run recorded", scope, move |client| async move {
            scoped(&client, &key, run_rows::read(&client, key.id, &after, limit)).await
        })
        .await
    }

    async fn all_tasks(
        &self,
        after: Option<TaskId>,
        limit: usize,
    ) -> Result<Vec<StoredTask>, Failure> {
        self.in_all("reading all tasks", move |client| async move {
            listing::all_tasks(&client, after, limit).await
        })
        .await
    }

    async fn task_bundles(
        &self,
        after: Option<TaskId>,
        limit: usize,
    ) -> Result<Vec<TaskBundle>, Failure> {
        self.in_all("reading all tasks", move |client| async move {
            task_bundles::read(&client, after, limit).await
        })
        .await
    }
}

const IN_SCOPE: &str =
    "SELECT 1 FROM tenure.inputs i WHERE i.id = $1 AND i.tenant = $2 AND i.workspace = $3";
/// The first of these rows, until their total size reaches the limit of a page: at least one.
pub(super) fn until_page_full(
    columns: &str,
    letter: &str,
    rows: &str,
    weight: &str,
    order: &str,
) -> String {
    format!(
        "SELECT {columns} FROM (SELECT {letter}.*, sum({weight}) OVER (ORDER BY {letter}.{order}) \
            - ({weight}) AS weight_before FROM (SELECT * FROM {rows} LIMIT $3) {letter}) {letter} \
         WHERE {letter}.weight_before < {PAGE_BYTES_MAX} ORDER BY {letter}.{order}"
    )
}

static ATTEMPTS: LazyLock<String> = LazyLock::new(|| {
    let rows = "tenure.attempts WHERE task = $1 AND attempt > $2 ORDER BY attempt";
    let weight = "coalesce(octet_length(a.fault), 0) + coalesce(octet_length(a.claims), 0)";
    until_page_full(CLOSED, "a", rows, weight, "attempt")
});
static INLINE: LazyLock<String> = LazyLock::new(|| format!("{INLINE_HISTORIES} WHERE i.id = $1"));
static OVERFLOW: LazyLock<String> = LazyLock::new(|| {
    let rows = "tenure.history WHERE task = $1 AND n > $2 ORDER BY n";
    until_page_full(ENTRY, "h", rows, "octet_length(h.request) + octet_length(h.events)", "n")
});
static REFUSALS: LazyLock<String> = LazyLock::new(|| {
    let place = "r.at, r.ord, r.lease, r.call, r.code";
    format!(
        "SELECT {REFUSED} FROM tenure.refused r WHERE r.task = $1 AND ($2::bytea IS NULL OR \
            ({place}) > (SELECT {place} FROM tenure.refused r \
                WHERE r.task = $1 AND r.lease = $2 AND r.call = $3 AND r.code = $4)) \
         ORDER BY {place} LIMIT $5"
    )
});

/// Statements that read single tasks often, to be prepared on direct connections.
pub(in crate::postgres) fn frequent_statements() -> impl Iterator<Item = &'static str> {
    let built: [&'static LazyLock<String>; 4] = [&ATTEMPTS, &INLINE, &OVERFLOW, &REFUSALS];
    built
        .into_iter()
        .map(|text| text.as_str())
        .chain([IN_SCOPE])
        .chain(listing::frequent_statements())
        .chain(replay::frequent_statements())
        .chain(objects::frequent_statements())
}

pub(super) async fn find(client: &Client, key: &TaskKey) -> Read<Option<StoredTask>> {
    let found = listing::found(client, &[id_bytes(key.id).to_vec()]).await?;
    Ok(found.into_iter().find(|found| found.subject.scope() == Some(&key.scope)))
}

async fn is_in_scope(client: &Client, key: &TaskKey) -> Read<bool> {
    let (id, tenant) = (id_bytes(key.id), key.scope.tenant.as_str());
    let (id, workspace) = (&id[..], key.scope.workspace.as_str());
    let parameters: [(&(dyn ToSql + Sync), Type); 3] =
        [(&id, Type::BYTEA), (&tenant, Type::TEXT), (&workspace, Type::TEXT)];
    Ok(!client.query_typed(IN_SCOPE, &parameters).await?.is_empty())
}

/// Reads data of a task, if the task is in the caller's scope. Both statements are sent together.
async fn scoped<T: Default>(
    client: &Client,
    key: &TaskKey,
    read: impl Future<Output = Read<T>>,
) -> Read<T> {
    let (is_in_scope, found) = futures_util::join!(is_in_scope(client, key), read);
    let found = found?;
    Ok(if is_in_scope? { found } else { T::default() })
}

pub(super) async fn attempts(
    client: &Client,
    id: TaskId,
    after: u32,
    limit: usize,
) -> Read<Vec<ClosedAttempt>> {
    let rows = numbered(client, &ATTEMPTS, id, after, limit).await?;
    let closed = rows.iter().map(|row| Ok(rows::closed(id, &mut Columns::of(row))?));
    Ok(row_size::take_fitting(closed.collect::<Read<_>>()?, ByteBudget::page(), row_size::closed))
}

/// Rows of a task that are numbered above `after`.
pub(super) async fn numbered(
    client: &Client,
    sql: &str,
    id: TaskId,
    after: u32,
    limit: usize,
) -> Read<Vec<Row>> {
    let bytes = id_bytes(id);
    // Numbers are far below the column's maximum; a value above it is after all of them.
    let (bytes, after) = (&bytes[..], i32::try_from(after).unwrap_or(i32::MAX));
    let limit = as_limit(limit);
    let parameters: [(&(dyn ToSql + Sync), Type); 3] =
        [(&bytes, Type::BYTEA), (&after, Type::INT4), (&limit, Type::INT8)];
    Ok(client.query_typed(sql, &parameters).await?)
}

/// The end of a task, if it is decided: carried out, or waiting for children.
async fn decided_end(client: &Client, id: TaskId) -> Read<Option<End>> {
    let found = listing::found(client, &[id_bytes(id).to_vec()]).await?;
    Ok(found.first().and_then(|found| payload_digest::decided_end(&found.subject)).cloned())
}

/// The entries of the inline history, then those of the history table, as many as fit, each with its payloads from
/// other tables.
pub(super) async fn history(
    client: &Client,
    id: TaskId,
    after: u32,
    limit: usize,
) -> Read<Vec<Entry>> {
    let (told, overflow_entries) =
        futures_util::join!(inline_entries(client, id), overflow_entries(client, id, after, limit));
    let mut entries = told?;
    entries.extend(overflow_entries?);
    entries.retain(|entry| entry.n > after);
    entries.truncate(limit);
    let closed: Vec<u32> = entries.iter().flat_map(payload_digest::closed_attempts).collect();
    let first = closed.iter().min().map_or(0, |first| first.saturating_sub(1));
    let (attempts, end, checkpoints) = futures_util::join!(
        unless_empty(closed.is_empty(), attempts(client, id, first, closed.len())),
        unless_empty(!entries.iter().any(payload_digest::ends_task), decided_end(client, id)),
        run_rows::digested(client, id, &mut entries),
    );
    let (attempts, end, checkpoints) = (attempts?, end?, checkpoints?);
    // If not all attempts fit, the page ends before the entry of the first one that is missing.
    let read_to = attempts.last().map_or(u32::MAX, |closed| closed.attempt);
    let complete = entries
        .into_iter()
        .take_while(|entry| payload_digest::closed_attempts(entry).all(|it| it <= read_to));
    let payloads = Payloads { attempts: &attempts, end: end.as_ref(), checkpoints: &checkpoints };
    let restored = complete.map(|entry| payload_digest::restore(entry, payloads)).collect();
    Ok(row_size::take_fitting(restored, ByteBudget::page(), row_size::entry))
}

/// Skips a read that would find nothing.
async fn unless_empty<T: Default>(is_empty: bool, read: impl Future<Output = Read<T>>) -> Read<T> {
    if is_empty { Ok(T::default()) } else { read.await }
}

async fn inline_entries(client: &Client, id: TaskId) -> Read<Vec<Entry>> {
    let rows = client.query_typed(&INLINE, &[(&&id_bytes(id)[..], Type::BYTEA)]).await?;
    let inline_histories = rows.iter().map(|row| Ok(inline_histories(&mut Columns::of(row))?.1));
    Ok(inline_histories.collect::<Read<Vec<_>>>()?.into_iter().flatten().collect())
}

/// The inline part of histories: the submission, and the entries in the task's row.
pub(in crate::postgres) const INLINE_HISTORIES: &str = "SELECT i.id, i.tale, coalesce(l.tale, d.tale) \
    FROM tenure.inputs i LEFT JOIN tenure.live l ON l.id = i.id LEFT JOIN tenure.done d ON d.id = i.id";

pub(in crate::postgres) fn inline_histories(
    columns: &mut Columns<'_>,
) -> Result<(TaskId, Vec<Entry>), Failure> {
    let id = columns.task_id()?;
    let mut entries = Vec::new();
    for _ in 0..2 {
        let told = columns.inline_history()?.entries(id);
        entries.extend(told.map_err(|error| columns.unreadable(error))?);
    }
    Ok((id, entries))
}

/// The entries that did not fit into the inline history.
async fn overflow_entries(
    client: &Client,
    id: TaskId,
    after: u32,
    limit: usize,
) -> Read<Vec<Entry>> {
    let rows = numbered(client, &OVERFLOW, id, after, limit).await?;
    rows.iter().map(|row| Ok(rows::entry(id, &mut Columns::of(row))?)).collect()
}

pub(super) async fn refused(
    client: &Client,
    key: &TaskKey,
    after: Option<&Refused>,
    limit: usize,
) -> Read<Vec<Refused>> {
    let (id, limit) = (id_bytes(key.id), as_limit(limit));
    let lease = after.map(|after| after.lease.as_u128().to_be_bytes().to_vec());
    let (call, code) = (after.map(|it| it.call.as_str()), after.map(|it| it.code.as_str()));
    let parameters: [(&(dyn ToSql + Sync), Type); 5] = [
        (&&id[..], Type::BYTEA),
        (&lease, Type::BYTEA),
        (&call, Type::TEXT),
        (&code, Type::TEXT),
        (&limit, Type::INT8),
    ];
    let rows = client.query_typed(&REFUSALS, &parameters).await?;
    rows.iter().map(|row| Ok(rows::refused(key, &mut Columns::of(row))?)).collect()
}

async fn queues(client: &Client, scope: Option<&Scope>, now: Time) -> Read<Vec<QueueDepth>> {
    let sql = "SELECT l.tenant, l.workspace, split_part(l.queue, '@', 1), \
            count(*) FILTER (WHERE l.claimable_at <= $1 AND NOT l.parked), \
            count(*) FILTER (WHERE l.claimable_at <= $1 AND l.parked), \
            count(*) FILTER (WHERE l.claimable_at > $1), \
            count(*) FILTER (WHERE l.state = 'running'), count(*), \
            count(*) FILTER (WHERE l.parent IS NULL), \
            min(l.claimable_at) FILTER (WHERE l.claimable_at <= $1 AND NOT l.parked) \
        FROM tenure.live l \
        WHERE ($2::text IS NULL OR l.tenant = $2) AND ($3::text IS NULL OR l.workspace = $3) \
        GROUP BY 1, 2, 3 \
        ORDER BY l.tenant COLLATE \"C\", l.workspace COLLATE \"C\", \
            split_part(l.queue, '@', 1) COLLATE \"C\"";
    let tenant = scope.map(|scope| scope.tenant.as_str());
    let workspace = scope.map(|scope| scope.workspace.as_str());
    let now = now.millis();
    let parameters: [(&(dyn ToSql + Sync), Type); 3] =
        [(&now, Type::INT8), (&tenant, Type::TEXT), (&workspace, Type::TEXT)];
    let (allowed, rows) = futures_util::join!(
        client.batch_execute(session::WHOLE_TABLES),
        client.query_typed(sql, &parameters)
    );
    allowed?;
    let depth = |row: &Row| {
        let mut columns = Columns::of(row);
        Ok(QueueDepth {
            scope: columns.scope()?,
            queue: columns.name()?,
            ready: columns.take::<i64>()?.unsigned_abs(),
            parked: columns.take::<i64>()?.unsigned_abs(),
            delayed: columns.take::<i64>()?.unsigned_abs(),
            running: columns.take::<i64>()?.unsigned_abs(),
            unfinished: columns.take::<i64>()?.unsigned_abs(),
            runs: columns.take::<i64>()?.unsigned_abs(),
            oldest_ready_at: columns.optional_time()?,
        })
    };
    rows?.iter().map(depth).collect()
}

async fn leaves_queues(client: &Client, root: &TaskKey, queues: &[Name]) -> Read<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM tenure.inputs i WHERE i.root = $1 \
                AND i.tenant = $2 AND i.workspace = $3 \
                AND NOT split_part(i.queue, '@', 1) = ANY ($4)) \
            OR EXISTS (SELECT 1 FROM tenure.steps p WHERE p.task = $1 \
                AND p.tenant = $2 AND p.workspace = $3 \
                AND NOT (p.step::json #>> '{child,submit,queue}') = ANY ($4))";
    let id = id_bytes(root.id);
    let (id, tenant) = (&id[..], root.scope.tenant.as_str());
    let workspace = root.scope.workspace.as_str();
    let queues: Vec<&str> = queues.iter().map(Name::as_str).collect();
    let parameters: [(&(dyn ToSql + Sync), Type); 4] = [
        (&id, Type::BYTEA),
        (&tenant, Type::TEXT),
        (&workspace, Type::TEXT),
        (&queues, Type::TEXT_ARRAY),
    ];
    let rows = client.query_typed(sql, &parameters).await?;
    Ok(Columns::of(&rows[0]).take()?)
}

async fn held_leases(
    client: &Client,
    scope: &Scope,
    queues: Option<&[Name]>,
    after: Option<&Name>,
    limit: usize,
) -> Read<Vec<HeldLeases>> {
    let sql = "SELECT l.owner, split_part(l.queue, '@', 1), count(*), min(l.acquired_at), \
            max(l.heartbeat_at), min(l.expires_at) FROM tenure.live l \
        WHERE l.lease IS NOT NULL AND l.tenant = $1 AND l.workspace = $2 \
            AND ($3::text IS NULL OR l.owner COLLATE \"C\" > $3) \
            AND ($4::text[] IS NULL OR split_part(l.queue, '@', 1) = ANY ($4)) \
        GROUP BY 1, 2 \
        ORDER BY l.owner COLLATE \"C\", split_part(l.queue, '@', 1) COLLATE \"C\" LIMIT $5";
    let (tenant, workspace) = (scope.tenant.as_str(), scope.workspace.as_str());
    let queues: Option<Vec<&str>> = queues.map(|names| names.iter().map(Name::as_str).collect());
    let (after, limit) = (after.map(Name::as_str), as_limit(limit));
    let parameters: [(&(dyn ToSql + Sync), Type); 5] = [
        (&tenant, Type::TEXT),
        (&workspace, Type::TEXT),
        (&after, Type::TEXT),
        (&queues, Type::TEXT_ARRAY),
        (&limit, Type::INT8),
    ];
    let (allowed, rows) = futures_util::join!(
        client.batch_execute(session::WHOLE_TABLES),
        client.query_typed(sql, &parameters)
    );
    allowed?;
    let held = |row: &Row| {
        let mut columns = Columns::of(row);
        Ok(HeldLeases {
            worker: columns.name()?,
            queue: columns.name()?,
            count: columns.take::<i64>()?.unsigned_abs(),
            oldest_acquired_at: columns.time()?,
            latest_heartbeat_at: columns.time()?,
            next_expires_at: columns.time()?,
        })
    };
    rows?.iter().map(held).collect()
}

async fn ahead(client: &Client, key: &TaskKey, now: Time, limit: usize) -> Read<Ahead> {
    let id = id_bytes(key.id);
    let (id, tenant) = (&id[..], key.scope.tenant.as_str());
    let (workspace, now, limit) = (key.scope.workspace.as_str(), now.millis(), as_limit(limit));
    let sql = "SELECT count(*) FILTER (WHERE is_kind), count(*) FILTER (WHERE NOT is_kind) FROM ( \
            SELECT l.kind = mine.kind AS is_kind FROM tenure.live mine JOIN tenure.live l \
                ON (l.tenant, l.workspace, l.queue) = (mine.tenant, mine.workspace, mine.queue) \
            WHERE mine.id = $1 AND mine.tenant = $2 AND mine.workspace = $3 \
                AND l.claimable_at <= $4 AND l.place < mine.place LIMIT $5) ahead";
    let parameters: [(&(dyn ToSql + Sync), Type); 5] = [
        (&id, Type::BYTEA),
        (&tenant, Type::TEXT),
        (&workspace, Type::TEXT),
        (&now, Type::INT8),
        (&limit, Type::INT8),
    ];
    let rows = client.query_typed(sql, &parameters).await?;
    let mut columns = Columns::of(&rows[0]);
    let (of_kind, of_others): (i64, i64) = (columns.take()?, columns.take()?);
    let number = |count: i64| usize::try_from(count).unwrap_or(0);
    Ok(Ahead { of_kind: number(of_kind), of_others: number(of_others) })
}

impl Browse for PostgresBrowse {
    async fn find(&self, key: &TaskKey) -> Result<Option<StoredTask>, Failure> {
        let key = key.clone();
        let scope = key.scope.clone();
        self.in_scope(
            "finding a task",
            &scope,
            move |client| async move { find(&client, &key).await },
        )
        .await
    }

    async fn overview(
        &self,
        key: &TaskKey,
        refused_max: usize,
    ) -> Result<Option<TaskOverview>, Failure> {
        let (key, scope) = (key.clone(), &key.scope);
        self.in_scope("reading a task", scope, move |client| async move {
            overview::overview(&client, &key, refused_max).await
        })
        .await
    }

    async fn list(&self, scope: &Scope, filter: &Filter) -> Result<Listing, Failure> {
        let (wanted, filter) = (scope.clone(), filter.clone());
        self.in_scope("listing tasks", scope, move |client| async move {
            listing::list(&client, &wanted, &filter).await
        })
        .await
    }

    async fn rows(
        &self,
        key: &TaskKey,
        after: RowsAfter<'_>,
        limit: usize,
    ) -> Result<TaskRows, Failure> {
        match after {
            RowsAfter::Entry(n) => self.history(key, n, limit).await.map(TaskRows::from),
            RowsAfter::Attempt(n) => self.attempts(key, n, limit).await.map(TaskRows::from),
            RowsAfter::Refusal(last) => self.refused(key, last, limit).await.map(TaskRows::from),
            RowsAfter::Checkpoint(_)
            | RowsAfter::Child(_)
            | RowsAfter::Started(_)
            | RowsAfter::Keys(_)
            | RowsAfter::Step(_)
            | RowsAfter::StepKey(_)
            | RowsAfter::Signal(_)
            | RowsAfter::PendingSignal(_) => self.run_rows(key, after, limit).await,
        }
    }

    async fn queues(&self, scope: Option<&Scope>) -> Result<Vec<QueueDepth>, Failure> {
        let (wanted, now) = (scope.cloned(), self.shared.clock.now());
        let setting = scope.map_or(scopes::ALL.to_owned(), scopes::setting);
        let read = move |client| async move { queues(&client, wanted.as_ref(), now).await };
        self.shared.read("counting queues", setting, read).await
    }

    async fn unfinished(&self, tenants: &[Name]) -> Result<Vec<u64>, Failure> {
        let asked: Vec<String> = tenants.iter().map(|name| name.as_str().to_owned()).collect();
        let read = move |client: Client| async move { quota::counted(&client, &asked).await };
        let counted = self.in_all("counting unfinished runs", read).await?;
        let runs = |name: &Name| counted.get(name).map_or(0, |unfinished| unfinished.runs);
        Ok(tenants.iter().map(runs).collect())
    }

    async fn leaves_queues(&self, root: &TaskKey, queues: &[Name]) -> Result<bool, Failure> {
        let (key, queues) = (root.clone(), queues.to_vec());
        self.in_scope("reading the queues of a run", &root.scope, move |client| async move {
            leaves_queues(&client, &key, &queues).await
        })
        .await
    }

    async fn flow_keys(&self, filter: &FlowFilter) -> Result<Vec<FlowKeyRow>, Failure> {
        let (wanted, now) = (filter.clone(), self.shared.clock.now());
        self.in_scope("reading flow keys", &filter.scope, move |client| async move {
            keys::list(&client, &wanted, now).await
        })
        .await
    }

    async fn held_leases(
        &self,
        scope: &Scope,
        queues: Option<&[Name]>,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<HeldLeases>, Failure> {
        let (wanted, queues) = (scope.clone(), queues.map(<[Name]>::to_vec));
        let after = after.cloned();
        self.in_scope("reading held leases", scope, move |client| async move {
            held_leases(&client, &wanted, queues.as_deref(), after.as_ref(), limit).await
        })
        .await
    }

    async fn count_pending_objects(&self) -> Result<Vec<PendingObjects>, Failure> {
        self.in_all("counting objects", move |client: Client| async move {
            objects::count_pending(&client).await
        })
        .await
    }

    async fn count_ahead(&self, key: &TaskKey, limit: usize) -> Result<Ahead, Failure> {
        let (key, scope, now) = (key.clone(), &key.scope, self.shared.clock.now());
        self.in_scope("counting what is ahead", scope, move |client| async move {
            ahead(&client, &key, now, limit).await
        })
        .await
    }

    async fn administration(&self) -> Result<AdministrationRows, Failure> {
        let now = self.shared.clock.now();
        let read = move |client: Client| async move { administration::rows(&client, now).await };
        self.shared.read_upkeep("reading keys and limits", read).await
    }

    async fn paused_queues(&self) -> Result<PausedQueues, Failure> {
        pauses::refresh(&self.shared).await
    }

    async fn settings_in_force(&self) -> Result<(), Failure> {
        pauses::wait_for_batches(&self.shared).await
    }

    async fn records(
        &self,
        key: &TaskKey,
        of: RecordsOf<'_>,
        limit: usize,
    ) -> Result<Vec<RunRecord>, Failure> {
        let (key, scope, wanted) = (key.clone(), &key.scope, Wanted::of(of));
        self.in_scope("reading what a run recorded", scope, move |client| async move {
            scoped(&client, &key, replay::read(&client, key.id, &wanted, limit)).await
        })
        .await
    }

    async fn saved_messages(
        &self,
        after: Option<&MessageKey>,
        limit: usize,
    ) -> Result<Vec<SavedMessage>, Failure> {
        let after = after.cloned();
        self.in_all("reading saved messages", move |client| async move {
            run_rows::saved_messages(&client, after.as_ref(), limit).await
        })
        .await
    }

    async fn objects(&self, filter: &ObjectFilter) -> Result<Vec<Object>, Failure> {
        let wanted = filter.clone();
        let list = move |client: Client| async move { objects::list(&client, &wanted).await };
        match &filter.scope {
            Some(scope) => self.in_scope("listing objects", scope, list).await,
            // No caller asks for all scopes: it is the coordinator, which needs budgets, endpoints and policies in order to serve.
            None => self.shared.read_upkeep("listing objects", list).await,
        }
    }

    async fn object_log(&self, filter: &ObjectLogFilter) -> Result<Vec<ObjectChange>, Failure> {
        let wanted = filter.clone();
        let read = move |client: Client| async move { objects::log(&client, &wanted).await };
        match &filter.key {
            Some(key) => self.in_scope("reading the log of objects", &key.scope, read).await,
            None => self.in_all("reading the log of objects", read).await,
        }
    }

    async fn spend(&self, wanted: &[SpendQuery]) -> Result<Vec<Amounts>, Failure> {
        let wanted = wanted.to_vec();
        let read = move |client: Client| async move { spend::sums(&client, &wanted).await };
        self.in_all("adding up what was used", read).await
    }

    async fn spend_rows(
        &self,
        after: Option<&(Scope, Day)>,
        limit: usize,
    ) -> Result<Vec<SpendRow>, Failure> {
        let after = after.cloned();
        let read =
            move |client: Client| async move { spend::rows(&client, after.as_ref(), limit).await };
        self.in_all("reading what was used", read).await
    }

    async fn logs(&self, of: &LogsOf, limit: usize) -> Result<Vec<LogRow>, Failure> {
        let wanted = of.clone();
        let read = move |client: Client| async move { logs::rows(&client, &wanted, limit).await };
        match of {
            LogsOf::Task { key, .. } => self.in_scope("reading a log", &key.scope, read).await,
            LogsOf::All { .. } => self.in_all("reading logs", read).await,
        }
    }

    async fn audit(&self, filter: &AuditFilter) -> Result<Vec<Audited>, Failure> {
        let filter = filter.clone();
        self.in_all("reading the audit", move |client| async move {
            administration::audit(&client, &filter).await
        })
        .await
    }

    async fn record_seals(&self, filter: &SealFilter) -> Result<Vec<RecordSeal>, Failure> {
        let filter = filter.clone();
        self.in_all("reading seals of records", move |client| async move {
            administration::record_seals::seals(&client, &filter).await
        })
        .await
    }

    async fn ended_records(&self, of: &EndedRecords) -> Result<Vec<EndedRecord>, Failure> {
        let of = of.clone();
        self.in_all("reading ended tasks", move |client| async move {
            administration::record_seals::ended(&client, &of).await
        })
        .await
    }

    async fn latest(&self) -> Result<Option<TaskId>, Failure> {
        self.in_all("looking for the last task", |client: Client| async move {
            let sql = "SELECT i.id FROM tenure.inputs i ORDER BY i.id DESC LIMIT 1";
            let rows = client.query_typed(sql, &[]).await?;
            Ok(rows.first().map(|row| Columns::of(row).task_id()).transpose()?)
        })
        .await
    }

    async fn scan(
        &self,
        after: Option<TaskId>,
        limit: usize,
        depth: ScanDepth,
    ) -> Result<Vec<TaskBundle>, Failure> {
        match depth {
            ScanDepth::Task => {
                let found = self.all_tasks(after, limit).await?;
                Ok(found.into_iter().map(TaskBundle::without_rows).collect())
            }
            ScanDepth::AllRows => self.task_bundles(after, limit).await,
        }
    }

    async fn integrity(&self) -> Result<Vec<String>, Failure> {
        self.in_all(
            "checking the database",
            |client| async move { integrity::check(&client).await },
        )
        .await
    }
}
