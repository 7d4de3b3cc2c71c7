//! Reading concurrently with the writer, each call in one snapshot.

use std::sync::Arc;

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension};
use verdict::scope_budget::Day;
use verdict::{Amounts, ClosedAttempt, End, Name, Object, Scope, Subject, TaskId, Time};

use super::parked::NEEDS_NO_SLOT;
use super::readers::{Read, Reader, Readers};
use super::rows::{self, Columns, ENTRY, QUEUE, REFUSED, id_bytes};
use super::run_reads::{self, RunRowsAfter, Signals};
use super::{
    Shared, administration, flow_keys, integrity, listing, logs, messages, objects, overview,
    parked, pauses, reads, record_seals, spend,
};
use crate::administration::{AdministrationRows, AuditFilter, Audited};
use crate::browse::{self, Browse, RowsAfter, ScanDepth};
use crate::codec::payload_digest::{self, Payloads};
use crate::failure::Failure;
use crate::logs::{LogRow, LogsOf};
use crate::objects::{ObjectChange, ObjectFilter, ObjectLogFilter, PendingObjects};
use crate::overview::TaskOverview;
use crate::pauses::PausedQueues;
use crate::record_seals::{EndedRecord, EndedRecords, RecordSeal, SealFilter};
use crate::row::{
    Ahead, Entry, Filter, FlowFilter, FlowKeyRow, HeldLeases, Listing, QueueDepth, Refused,
    StoredTask, TaskBundle, TaskKey, TaskRows,
};
use crate::row_size::{self, ByteBudget};
use crate::runs::{MessageKey, SavedMessage};
use crate::spend::{SpendQuery, SpendRow};

#[derive(Clone)]
pub struct SqliteBrowse {
    pub(super) readers: Arc<Readers>,
    shared: Arc<Shared>,
}

impl SqliteBrowse {
    pub(super) fn open(shared: Arc<Shared>) -> Result<Self, Failure> {
        Ok(Self { readers: Arc::new(Readers::open(shared.clone())?), shared })
    }

    async fn read<T: Send + 'static>(
        &self,
        what: &'static str,
        work: impl FnOnce(&Connection) -> Read<T> + Send + 'static,
    ) -> Result<T, Failure> {
        self.readers.read(Reader::Guest, what, work).await
    }

    /// For reads that the coordinator needs to serve: they do not queue behind the reads of its callers.
    async fn read_own<T: Send + 'static>(
        &self,
        what: &'static str,
        work: impl FnOnce(&Connection) -> Read<T> + Send + 'static,
    ) -> Result<T, Failure> {
        self.readers.read(Reader::Own, what, work).await
    }

    async fn history(
        &self,
        key: &TaskKey,
        after: u32,
        limit: usize,
    ) -> Result<Vec<Entry>, Failure> {
        let key = key.clone();
        self.read("reading a history", move |connection| history(connection, &key, after, limit))
            .await
    }

    async fn attempts(
        &self,
        key: &TaskKey,
        after: u32,
        limit: usize,
    ) -> Result<Vec<ClosedAttempt>, Failure> {
        let key = key.clone();
        self.read("reading attempts", move |connection| attempts(connection, &key, after, limit))
            .await
    }

    async fn refused(
        &self,
        key: &TaskKey,
        after: Option<&Refused>,
        limit: usize,
    ) -> Result<Vec<Refused>, Failure> {
        let (key, after) = (key.clone(), after.cloned());
        self.read("reading refusals", move |connection| {
            refused(connection, &key, after.as_ref(), limit)
        })
        .await
    }

    async fn run_rows(
        &self,
        key: &TaskKey,
        after: RowsAfter<'_>,
        limit: usize,
    ) -> Result<TaskRows, Failure> {
        let (key, wanted) = (key.clone(), RunRowsAfter::of(after));
        self.read("reading a durable run", move |connection| {
            match row_in_scope(connection, &key)? {
                Some(row) => wanted.read(connection, row, limit),
                None => Ok(TaskRows::default()),
            }
        })
        .await
    }

    async fn all_tasks(
        &self,
        after: Option<TaskId>,
        limit: usize,
    ) -> Result<Vec<StoredTask>, Failure> {
        self.read("reading all tasks", move |connection| all_tasks(connection, after, limit)).await
    }

    async fn task_bundles(
        &self,
        after: Option<TaskId>,
        limit: usize,
    ) -> Result<Vec<TaskBundle>, Failure> {
        self.read("reading all tasks", move |connection| {
            let found = browse::fitting_one_read(all_tasks(connection, after, limit)?);
            found.into_iter().map(|found| bundle(connection, found)).collect()
        })
        .await
    }
}

/// The row of a task, if it is of this scope.
fn row_in_scope(connection: &Connection, key: &TaskKey) -> Read<Option<i64>> {
    connection
        .prepare_cached(
            "SELECT i.row FROM inputs i JOIN lanes n ON n.lane = i.lane
             WHERE i.id = ?1 AND n.tenant = ?2 AND n.workspace = ?3",
        )?
        .query_row(
            (id_bytes(key.id), key.scope.tenant.as_str(), key.scope.workspace.as_str()),
            |row| row.get(0),
        )
        .optional()
}

fn found(connection: &Connection, row: i64) -> Read<StoredTask> {
    Ok(StoredTask {
        subject: reads::subject(connection, row)?,
        spec: reads::spec(connection, row)?,
    })
}

pub(super) fn find(connection: &Connection, key: &TaskKey) -> Read<Option<StoredTask>> {
    let found = row_in_scope(connection, key)?.map(|row| found(connection, row)).transpose()?;
    Ok(found.filter(|found| found.subject != Subject::Absent))
}

/// The entries packed in the task's rows, then those in the table, in order, up to the limits.
pub(super) fn history(
    connection: &Connection,
    key: &TaskKey,
    after: u32,
    limit: usize,
) -> Read<Vec<Entry>> {
    let Some(row) = row_in_scope(connection, key)? else { return Ok(Vec::new()) };
    let mut page = Decisions::of(connection, key.id, row, limit, ByteBudget::page());
    page.read_after(after)?;
    Ok(page.entries)
}

/// Reads the entries of one history, with their payloads restored.
struct Decisions<'c> {
    connection: &'c Connection,
    task: TaskId,
    row: i64,
    limit: usize,
    budget: ByteBudget,
    end: Option<End>,
    entries: Vec<Entry>,
}

impl<'c> Decisions<'c> {
    fn of(
        connection: &'c Connection,
        task: TaskId,
        row: i64,
        limit: usize,
        budget: ByteBudget,
    ) -> Self {
        Self { connection, task, row, limit, budget, end: None, entries: Vec::new() }
    }

    /// Adds an entry with the payloads that other tables keep, if there is room.
    fn takes(&mut self, entry: Entry) -> Read<bool> {
        let mut attempts = Vec::new();
        for attempt in payload_digest::closed_attempts(&entry) {
            attempts.extend(reads::numbered_attempt(
                self.connection,
                self.task,
                self.row,
                attempt,
            )?);
        }
        if payload_digest::ends_task(&entry) && self.end.is_none() {
            let subject = reads::subject(self.connection, self.row)?;
            self.end = payload_digest::decided_end(&subject).cloned();
        }
        let mut checkpoints = Vec::new();
        for key in payload_digest::digested_steps(&entry) {
            checkpoints.extend(run_reads::checkpoint(self.connection, self.row, key)?);
        }
        let (end, checkpoints) = (self.end.as_ref(), &checkpoints[..]);
        let payloads = Payloads { attempts: &attempts, end, checkpoints };
        let entry = payload_digest::restore(entry, payloads);
        if self.entries.len() == self.limit || !self.budget.takes(row_size::entry(&entry)) {
            return Ok(false);
        }
        self.entries.push(entry);
        Ok(true)
    }

    /// Reads the entries after `after`, up to the limit and the budget. A store that began with an older format may
    /// have the first entries of a history in the table and later ones packed in other rows; the current format has
    /// them the other way round.
    fn read_after(&mut self, after: u32) -> Read<()> {
        let mut told = inline_entries(self.connection, self.task, self.row)?;
        told.retain(|entry| entry.n > after);
        told.sort_by_key(|entry| entry.n);
        let mut told = told.into_iter().peekable();
        let sql = reads::select(ENTRY, "history h WHERE h.task = ?1 AND h.n > ?2 ORDER BY h.n");
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut rows = statement.query((self.row, after))?;
        while self.entries.len() < self.limit {
            let row = rows.next()?;
            let row = row.map(|row| rows::entry(self.task, &mut Columns::of(row))).transpose()?;
            let before = row.as_ref().map_or(u32::MAX, |entry| entry.n);
            while let Some(entry) = told.next_if(|entry| entry.n < before) {
                if !self.takes(entry)? {
                    return Ok(());
                }
            }
            let Some(entry) = row else { return Ok(()) };
            if !self.takes(entry)? {
                return Ok(());
            }
        }
        Ok(())
    }
}

fn inline_entries(connection: &Connection, task: TaskId, row: i64) -> Read<Vec<Entry>> {
    let mut entries = Vec::new();
    for inline_history in reads::inline_histories(connection, row)? {
        let told = inline_history.entries(task).map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(0, Type::Blob, error.into())
        })?;
        entries.extend(told);
    }
    Ok(entries)
}

pub(super) fn attempts(
    connection: &Connection,
    key: &TaskKey,
    after: u32,
    limit: usize,
) -> Read<Vec<ClosedAttempt>> {
    match row_in_scope(connection, key)? {
        Some(row) => reads::attempts(connection, key.id, row, after, limit, ByteBudget::page()),
        None => Ok(Vec::new()),
    }
}

pub(super) fn refused(
    connection: &Connection,
    key: &TaskKey,
    after: Option<&Refused>,
    limit: usize,
) -> Read<Vec<Refused>> {
    let Some(row) = row_in_scope(connection, key)? else { return Ok(Vec::new()) };
    let after = match after {
        Some(after) => refusal_number(connection, row, after)?,
        None => 0,
    };
    let sql =
        reads::select(REFUSED, "refused r WHERE r.task = ?1 AND r.n > ?2 ORDER BY r.n LIMIT ?3");
    let mut statement = connection.prepare_cached(&sql)?;
    let refused = statement
        .query_map((row, after, most(limit)), |row| rows::refused(key, &mut Columns::of(row)))?;
    refused.collect()
}

/// The refusal's number; beyond the last one if it no longer exists.
fn refusal_number(connection: &Connection, row: i64, refused: &Refused) -> Read<i64> {
    let sql = "SELECT n FROM refused WHERE task = ?1 AND lease = ?2 AND call = ?3 AND code = ?4";
    let lease = refused.lease.as_u128().to_be_bytes();
    let parameters = (row, lease, refused.call.as_str(), refused.code.as_str());
    let n = connection.prepare_cached(sql)?.query_row(parameters, |row| row.get(0));
    Ok(n.optional()?.unwrap_or(i64::MAX))
}

fn most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn queues(connection: &Connection, scope: Option<&Scope>, now: Time) -> Read<Vec<QueueDepth>> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT n.tenant, n.workspace, {QUEUE},
            count(*) FILTER (WHERE l.claimable_at <= ?1 AND {NEEDS_NO_SLOT}),
            count(*) FILTER (WHERE l.claimable_at > ?1),
            count(*) FILTER (WHERE l.state = 'running'), count(*),
            count(*) FILTER (WHERE l.run ->> '$.lineage.child' IS NULL),
            min(l.claimable_at) FILTER (WHERE l.claimable_at <= ?1 AND {NEEDS_NO_SLOT})
         FROM live l JOIN lanes n ON n.lane = l.lane
         WHERE (?2 IS NULL OR n.tenant = ?2) AND (?3 IS NULL OR n.workspace = ?3)
         GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
    ))?;
    let tenant = scope.map(|scope| scope.tenant.as_str());
    let workspace = scope.map(|scope| scope.workspace.as_str());
    let depths = statement.query_map((now.millis(), tenant, workspace), |row| {
        let mut columns = Columns::of(row);
        Ok(QueueDepth {
            scope: columns.scope()?,
            queue: columns.name()?,
            ready: columns.take::<i64>()? as u64,
            parked: 0,
            delayed: columns.take::<i64>()? as u64,
            running: columns.take::<i64>()? as u64,
            unfinished: columns.take::<i64>()? as u64,
            runs: columns.take::<i64>()? as u64,
            oldest_ready_at: columns.take::<Option<i64>>()?.map(Time::from_millis),
        })
    })?;
    let mut depths = depths.collect::<Read<Vec<_>>>()?;
    parked::count(connection, scope, now, &mut depths)?;
    Ok(depths)
}

fn leaves_queues(connection: &Connection, root: &TaskKey, queues: &[Name]) -> Read<bool> {
    let Some(row) = row_in_scope(connection, root)? else { return Ok(false) };
    let sql = format!(
        "SELECT EXISTS (SELECT 1 FROM inputs i JOIN lanes n ON n.lane = i.lane
            WHERE i.root = ?1 AND {QUEUE} NOT IN (SELECT value FROM json_each(?3)))
         OR EXISTS (SELECT 1 FROM steps p WHERE p.task = ?2
            AND json_extract(p.step, '$.child.submit.queue') NOT IN (SELECT value FROM json_each(?3)))"
    );
    let parameters = (id_bytes(root.id), row, administration::list(queues));
    connection.prepare_cached(&sql)?.query_row(parameters, |row| row.get(0))
}

fn held_leases(
    connection: &Connection,
    scope: &Scope,
    queues: Option<&[Name]>,
    after: Option<&Name>,
    limit: usize,
) -> Read<Vec<HeldLeases>> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT l.owner, {QUEUE}, count(*), min(l.acquired_at), max(l.heartbeat_at), min(l.expires_at)
         FROM live l JOIN lanes n ON n.lane = l.lane
         WHERE n.tenant = ?1 AND n.workspace = ?2 AND l.state = 'running'
            AND (?3 IS NULL OR l.owner > ?3)
            AND (?4 IS NULL OR {QUEUE} IN (SELECT value FROM json_each(?4)))
         GROUP BY 1, 2 ORDER BY 1, 2 LIMIT ?5"
    ))?;
    let (after, queues) = (after.map(Name::as_str), queues.map(administration::list));
    let (tenant, workspace) = (scope.tenant.as_str(), scope.workspace.as_str());
    let parameters = (tenant, workspace, after, queues, most(limit));
    let held = statement.query_map(parameters, |row| {
        let mut columns = Columns::of(row);
        Ok(HeldLeases {
            worker: columns.name()?,
            queue: columns.name()?,
            count: columns.take::<i64>()? as u64,
            oldest_acquired_at: columns.time()?,
            latest_heartbeat_at: columns.time()?,
            next_expires_at: columns.time()?,
        })
    })?;
    held.collect()
}

fn ahead(connection: &Connection, key: &TaskKey, now: Time, limit: usize) -> Read<Ahead> {
    let Some(row) = row_in_scope(connection, key)? else { return Ok(Ahead::default()) };
    let mut statement = connection.prepare_cached(
        "SELECT count(*) FILTER (WHERE is_kind), count(*) FILTER (WHERE NOT is_kind) FROM (
            SELECT o.lane = n.lane AS is_kind FROM live mine JOIN lanes n ON n.lane = mine.lane
            JOIN lanes o ON (o.tenant, o.workspace, o.queue) = (n.tenant, n.workspace, n.queue)
            JOIN live l ON l.lane = o.lane
            WHERE mine.row = ?1 AND l.claimable_at <= ?2
              AND (l.priority > mine.priority OR (l.priority = mine.priority AND l.id < mine.id))
            LIMIT ?3)",
    )?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let number = |count: i64| usize::try_from(count).unwrap_or(0);
    statement.query_row((row, now.millis(), limit), |row| {
        Ok(Ahead { of_kind: number(row.get(0)?), of_others: number(row.get(1)?) })
    })
}

fn latest(connection: &Connection) -> Read<Option<TaskId>> {
    let sql = "SELECT i.id FROM inputs i ORDER BY i.id DESC LIMIT 1";
    let id: Option<[u8; 16]> =
        connection.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?;
    Ok(id.map(|id| TaskId::from_u128(u128::from_be_bytes(id))))
}

/// Tasks in order of id, up to the limits. A task that is neither live nor done is left out: the integrity
/// check reports it.
fn all_tasks(
    connection: &Connection,
    after: Option<TaskId>,
    limit: usize,
) -> Read<Vec<StoredTask>> {
    let after = after.map_or(Vec::new(), |id| id_bytes(id).to_vec());
    let mut statement =
        connection.prepare_cached("SELECT i.row FROM inputs i WHERE i.id > ?1 ORDER BY i.id")?;
    let (mut rows, mut budget) = (statement.query([after])?, ByteBudget::page());
    let mut all = Vec::new();
    while all.len() < limit
        && let Some(row) = rows.next()?
    {
        let found = found(connection, row.get(0)?)?;
        if found.subject == Subject::Absent {
            continue;
        }
        if !budget.takes(row_size::task(&found)) {
            break;
        }
        all.push(found);
    }
    Ok(all)
}

/// The task with all its rows, whatever their size, unless it is a task that is read in parts.
fn bundle(connection: &Connection, found: StoredTask) -> Read<TaskBundle> {
    let key = found.key();
    let Some(row) = row_in_scope(connection, &key)?.filter(|_| row_size::fits_one_read(&found))
    else {
        return Ok(TaskBundle::without_rows(found));
    };
    let mut decisions =
        Decisions::of(connection, key.id, row, usize::MAX, ByteBudget::new(usize::MAX));
    decisions.read_after(0)?;
    let history = decisions.entries;
    let all = ByteBudget::new(usize::MAX);
    let attempts = reads::attempts(connection, key.id, row, 0, usize::MAX, all)?;
    let refused = refused(connection, &key, None, usize::MAX)?;
    let mut rows = TaskRows { history, attempts, refused, ..TaskRows::default() };
    if found.record_count() > 0 {
        let all = || ByteBudget::new(usize::MAX);
        rows.checkpoints = run_reads::checkpoints(connection, row, 0, usize::MAX, all())?;
        rows.children = run_reads::children(connection, row, None, usize::MAX)?;
        rows.signals = run_reads::signals(connection, row, Signals::All, 0, usize::MAX, all())?;
    }
    Ok(TaskBundle { task: found, rows: Some(rows) })
}

impl Browse for SqliteBrowse {
    async fn find(&self, key: &TaskKey) -> Result<Option<StoredTask>, Failure> {
        let key = key.clone();
        self.read("finding a task", move |connection| find(connection, &key)).await
    }

    async fn overview(
        &self,
        key: &TaskKey,
        refused_max: usize,
    ) -> Result<Option<TaskOverview>, Failure> {
        let key = key.clone();
        self.read("reading a task", move |connection| {
            overview::overview(connection, &key, refused_max)
        })
        .await
    }

    async fn list(&self, scope: &Scope, filter: &Filter) -> Result<Listing, Failure> {
        let (scope, filter) = (scope.clone(), filter.clone());
        self.read("listing tasks", move |connection| listing::list(connection, &scope, &filter))
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
        let (scope, now) = (scope.cloned(), self.shared.clock.now());
        self.read("counting queues", move |connection| queues(connection, scope.as_ref(), now))
            .await
    }

    async fn leaves_queues(&self, root: &TaskKey, queues: &[Name]) -> Result<bool, Failure> {
        let (root, queues) = (root.clone(), queues.to_vec());
        self.read("reading the queues of a run", move |connection| {
            leaves_queues(connection, &root, &queues)
        })
        .await
    }

    async fn flow_keys(&self, filter: &FlowFilter) -> Result<Vec<FlowKeyRow>, Failure> {
        let (filter, now) = (filter.clone(), self.shared.clock.now());
        self.read("reading flow keys", move |connection| flow_keys::list(connection, &filter, now))
            .await
    }

    async fn held_leases(
        &self,
        scope: &Scope,
        queues: Option<&[Name]>,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<HeldLeases>, Failure> {
        let (scope, queues, after) = (scope.clone(), queues.map(<[Name]>::to_vec), after.cloned());
        self.read("reading held leases", move |connection| {
            held_leases(connection, &scope, queues.as_deref(), after.as_ref(), limit)
        })
        .await
    }

    async fn count_pending_objects(&self) -> Result<Vec<PendingObjects>, Failure> {
        self.read("counting objects", objects::count_pending).await
    }

    async fn count_ahead(&self, key: &TaskKey, limit: usize) -> Result<Ahead, Failure> {
        let (key, now) = (key.clone(), self.shared.clock.now());
        self.read("counting what is ahead", move |connection| ahead(connection, &key, now, limit))
            .await
    }

    async fn administration(&self) -> Result<AdministrationRows, Failure> {
        self.read_own("reading keys and limits", administration::rows).await
    }

    async fn paused_queues(&self) -> Result<PausedQueues, Failure> {
        self.read_own("reading the paused queues", pauses::read).await
    }

    async fn saved_messages(
        &self,
        after: Option<&MessageKey>,
        limit: usize,
    ) -> Result<Vec<SavedMessage>, Failure> {
        let after = after.cloned();
        self.read("reading saved messages", move |connection| {
            messages::all(connection, after.as_ref(), limit)
        })
        .await
    }

    async fn objects(&self, filter: &ObjectFilter) -> Result<Vec<Object>, Failure> {
        let filter = filter.clone();
        self.read("listing objects", move |connection| objects::list(connection, &filter)).await
    }

    async fn object_log(&self, filter: &ObjectLogFilter) -> Result<Vec<ObjectChange>, Failure> {
        let filter = filter.clone();
        self.read("reading the log of objects", move |connection| objects::log(connection, &filter))
            .await
    }

    async fn spend(&self, wanted: &[SpendQuery]) -> Result<Vec<Amounts>, Failure> {
        let wanted = wanted.to_vec();
        self.read("adding up what was used", move |connection| spend::sums(connection, &wanted))
            .await
    }

    async fn spend_rows(
        &self,
        after: Option<&(Scope, Day)>,
        limit: usize,
    ) -> Result<Vec<SpendRow>, Failure> {
        let after = after.cloned();
        self.read("reading what was used", move |connection| {
            spend::rows(connection, after.as_ref(), limit)
        })
        .await
    }

    async fn logs(&self, of: &LogsOf, limit: usize) -> Result<Vec<LogRow>, Failure> {
        let of = of.clone();
        self.read("reading logs", move |connection| logs::rows(connection, &of, limit)).await
    }

    async fn audit(&self, filter: &AuditFilter) -> Result<Vec<Audited>, Failure> {
        let filter = filter.clone();
        self.read("reading the audit", move |connection| administration::audit(connection, &filter))
            .await
    }

    async fn record_seals(&self, filter: &SealFilter) -> Result<Vec<RecordSeal>, Failure> {
        let filter = filter.clone();
        self.read("reading seals of records", move |connection| {
            record_seals::seals(connection, &filter)
        })
        .await
    }

    async fn ended_records(&self, of: &EndedRecords) -> Result<Vec<EndedRecord>, Failure> {
        let of = of.clone();
        self.read("reading ended tasks", move |connection| record_seals::ended(connection, &of))
            .await
    }

    async fn latest(&self) -> Result<Option<TaskId>, Failure> {
        self.read("looking for the last task", latest).await
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
        self.read("checking the database", integrity::integrity).await
    }
}
