//! Reading beside the writer: a few connections of their own, each call in one snapshot.

use std::sync::{Arc, Mutex};

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, ToSql};
use tokio::sync::Semaphore;
use verdict::{Closed, Scope, State, Subject, TaskId, Time};

use super::rows::{self, Columns, ENTRY, REFUSED, id_bytes};
use super::{Shared, administration, opening, reads, trouble};
use crate::administration::{ApiKey, AuditFilter, Audited, TenantLimits};
use crate::browse::Browse;
use crate::codec::abridge::{self, Payloads};
use crate::failure::{Failure, FailureKind};
use crate::row::{Dossier, Entry, Filter, Found, QueueDepth, Refused, TaskKey};

/// How many reads run at once; more would only take the writer's share of the disk.
const READERS_MAX: usize = 4;

/// How many findings of the engine's own check are reported; one is enough to know.
const INTEGRITY_MAX: usize = 100;

#[derive(Clone)]
pub struct SqliteBrowse {
    pool: Arc<Pool>,
    /// After the pool, so that its connections are closed before the file is unlocked.
    shared: Arc<Shared>,
}

struct Pool {
    permits: Semaphore,
    idle: Mutex<Vec<Connection>>,
}

type Read<T> = rusqlite::Result<T>;

impl SqliteBrowse {
    pub(super) fn open(shared: Arc<Shared>) -> Result<Self, Failure> {
        let first = opening::connect_reader(&shared.path, &shared.options)?;
        let pool = Pool { permits: Semaphore::new(READERS_MAX), idle: Mutex::new(vec![first]) };
        Ok(Self { pool: Arc::new(pool), shared })
    }

    /// Reads in one snapshot, on a thread that may wait for the disk.
    async fn read<T: Send + 'static>(
        &self,
        what: &'static str,
        work: impl FnOnce(&Connection) -> Read<T> + Send + 'static,
    ) -> Result<T, Failure> {
        let _permit = self.pool.permits.acquire().await.expect("the pool is never closed");
        let (shared, pool) = (self.shared.clone(), self.pool.clone());
        let read = move || read_once(&shared, &pool, what, work);
        match tokio::runtime::Handle::try_current() {
            Err(_) => read(),
            Ok(runtime) => runtime.spawn_blocking(read).await.unwrap_or_else(|error| {
                Err(Failure::new(FailureKind::Unavailable, what).because(error))
            }),
        }
    }
}

fn read_once<T>(
    shared: &Shared,
    pool: &Pool,
    what: &'static str,
    work: impl FnOnce(&Connection) -> Read<T>,
) -> Result<T, Failure> {
    let idle = pool.idle.lock().expect("nothing panics with the pool in hand").pop();
    let connection = match idle {
        Some(connection) => connection,
        None => opening::connect_reader(&shared.path, &shared.options)?,
    };
    let result = in_snapshot(&connection, work).map_err(trouble::while_doing(what))?;
    pool.idle.lock().expect("nothing panics with the pool in hand").push(connection);
    Ok(result)
}

fn in_snapshot<T>(connection: &Connection, work: impl FnOnce(&Connection) -> Read<T>) -> Read<T> {
    let snapshot = connection.unchecked_transaction()?;
    let result = work(&snapshot)?;
    snapshot.finish()?;
    Ok(result)
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

fn found(connection: &Connection, row: i64) -> Read<Found> {
    Ok(Found { subject: reads::subject(connection, row)?, spec: reads::spec(connection, row)? })
}

fn find(connection: &Connection, key: &TaskKey) -> Read<Option<Found>> {
    let found = row_in_scope(connection, key)?.map(|row| found(connection, row)).transpose()?;
    Ok(found.filter(|found| found.subject != Subject::Absent))
}

/// The tasks that a list of row numbers names.
fn found_all(
    connection: &Connection,
    sql: &str,
    parameters: rows::Parameters<'_>,
) -> Read<Vec<Found>> {
    let mut statement = connection.prepare_cached(sql)?;
    let numbers: Read<Vec<i64>> = statement.query_map(parameters, |row| row.get(0))?.collect();
    let found = numbers?.into_iter().map(|row| found(connection, row));
    // A task that is neither live nor done is reported by the integrity check.
    found.filter(|found| !matches!(found, Ok(found) if found.subject == Subject::Absent)).collect()
}

fn list(connection: &Connection, scope: &Scope, filter: &Filter) -> Read<Vec<Found>> {
    // Without a place to start from, one above every id: so the index is always entered at a place.
    let before = filter.before.map_or(vec![0xff; 17], |id| id_bytes(id).to_vec());
    let (tenant, workspace) = (scope.tenant.as_str(), scope.workspace.as_str());
    let queue = filter.queue.as_ref().map(|name| name.as_str());
    let kind = filter.kind.as_ref().map(|name| name.as_str());
    let label = filter.label.as_ref().map(|(name, _)| name.as_str());
    let value = filter.label.as_ref().map(|(_, value)| value.as_str());
    let state = filter.state.map(State::name);
    let limit = i64::try_from(filter.limit).unwrap_or(i64::MAX);
    let parameters: [&dyn ToSql; 9] =
        [&before, &tenant, &workspace, &queue, &kind, &label, &value, &state, &limit];
    found_all(connection, &list_statement(filter.state), &parameters)
}

/// Newest first. A filter by state reads only the table that state is in.
fn list_statement(state: Option<State>) -> String {
    let states = match state {
        // Every statement takes the same parameters.
        None => "AND ?8 IS NULL",
        Some(state) if state.is_terminal() => "JOIN done s ON s.row = i.row AND s.state = ?8",
        Some(_) => "JOIN live s ON s.row = i.row AND s.state = ?8",
    };
    format!(
        "SELECT i.row FROM inputs i JOIN lanes n ON n.lane = i.lane {states}
         WHERE i.id < ?1 AND n.tenant = ?2 AND n.workspace = ?3
           AND (?4 IS NULL OR n.queue = ?4) AND (?5 IS NULL OR n.kind = ?5)
           AND (?6 IS NULL OR EXISTS
                (SELECT 1 FROM json_each(i.labels) j WHERE j.key = ?6 AND j.value = ?7))
         ORDER BY i.id DESC LIMIT ?9"
    )
}

/// What the task's rows tell, then what the table adds, in order.
fn history(connection: &Connection, key: &TaskKey, after: u32, limit: usize) -> Read<Vec<Entry>> {
    let Some(row) = row_in_scope(connection, key)? else { return Ok(Vec::new()) };
    let mut entries = told(connection, key.id, row)?;
    entries.retain(|entry| entry.n > after);
    let sql =
        reads::select(ENTRY, "history h WHERE h.task = ?1 AND h.n > ?2 ORDER BY h.n LIMIT ?3");
    let mut statement = connection.prepare_cached(&sql)?;
    let most = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = statement
        .query_map((row, after, most), |row| rows::entry(key.id, &mut Columns::of(row)))?;
    entries.extend(rows.collect::<Read<Vec<Entry>>>()?);
    entries.sort_by_key(|entry| entry.n);
    entries.truncate(limit);
    let attempts = reads::attempts(connection, key.id, row)?;
    let done = reads::done(connection, row)?;
    let end = done.as_ref().map(|done| &done.end);
    let payloads = Payloads { attempts: &attempts, end };
    Ok(entries.into_iter().map(|entry| abridge::restore(entry, payloads)).collect())
}

fn told(connection: &Connection, task: TaskId, row: i64) -> Read<Vec<Entry>> {
    let mut entries = Vec::new();
    for tale in reads::tales(connection, row)? {
        let told = tale.entries(task).map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(0, Type::Blob, error.into())
        })?;
        entries.extend(told);
    }
    Ok(entries)
}

fn refused(connection: &Connection, key: &TaskKey) -> Read<Vec<Refused>> {
    let Some(row) = row_in_scope(connection, key)? else { return Ok(Vec::new()) };
    let sql = reads::select(REFUSED, "refused r WHERE r.task = ?1 ORDER BY r.n");
    let mut statement = connection.prepare_cached(&sql)?;
    statement.query_map([row], |row| rows::refused(key, &mut Columns::of(row)))?.collect()
}

fn queues(connection: &Connection, scope: Option<&Scope>, now: Time) -> Read<Vec<QueueDepth>> {
    let mut statement = connection.prepare_cached(
        "SELECT n.tenant, n.workspace, n.queue,
            count(*) FILTER (WHERE l.due <= ?1), count(*) FILTER (WHERE l.due > ?1),
            count(*) FILTER (WHERE l.due IS NULL), min(l.due) FILTER (WHERE l.due <= ?1)
         FROM live l JOIN lanes n ON n.lane = l.lane
         WHERE (?2 IS NULL OR n.tenant = ?2) AND (?3 IS NULL OR n.workspace = ?3)
         GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
    )?;
    let tenant = scope.map(|scope| scope.tenant.as_str());
    let workspace = scope.map(|scope| scope.workspace.as_str());
    let depths = statement.query_map((now.millis(), tenant, workspace), |row| {
        let mut columns = Columns::of(row);
        Ok(QueueDepth {
            scope: columns.scope()?,
            queue: columns.name()?,
            ready: columns.take::<i64>()? as u64,
            delayed: columns.take::<i64>()? as u64,
            running: columns.take::<i64>()? as u64,
            oldest_ready_at: columns.take::<Option<i64>>()?.map(Time::from_millis),
        })
    })?;
    depths.collect()
}

fn ahead(connection: &Connection, key: &TaskKey, now: Time, limit: usize) -> Read<usize> {
    let Some(row) = row_in_scope(connection, key)? else { return Ok(0) };
    let mut statement = connection.prepare_cached(
        "SELECT count(*) FROM (
            SELECT 1 FROM live mine JOIN lanes n ON n.lane = mine.lane
            JOIN lanes o ON (o.tenant, o.workspace, o.queue) = (n.tenant, n.workspace, n.queue)
            JOIN live l ON l.lane = o.lane
            WHERE mine.row = ?1 AND l.due <= ?2
              AND (l.priority > mine.priority OR (l.priority = mine.priority AND l.id < mine.id))
            LIMIT ?3)",
    )?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let count: i64 = statement.query_row((row, now.millis(), limit), |row| row.get(0))?;
    Ok(usize::try_from(count).unwrap_or(0))
}

fn latest(connection: &Connection) -> Read<Option<TaskId>> {
    let sql = "SELECT i.id FROM inputs i ORDER BY i.id DESC LIMIT 1";
    let id: Option<[u8; 16]> =
        connection.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?;
    Ok(id.map(|id| TaskId::from_u128(u128::from_be_bytes(id))))
}

fn everything(connection: &Connection, after: Option<TaskId>, limit: usize) -> Read<Vec<Found>> {
    let after = after.map_or(Vec::new(), |id| id_bytes(id).to_vec());
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    found_all(
        connection,
        "SELECT i.row FROM inputs i WHERE i.id > ?1
            AND (EXISTS (SELECT 1 FROM live l WHERE l.row = i.row)
                OR EXISTS (SELECT 1 FROM done d WHERE d.row = i.row))
         ORDER BY i.id LIMIT ?2",
        &[&after, &limit],
    )
}

fn dossier(connection: &Connection, found: Found) -> Read<Dossier> {
    let key = found.key();
    let history = history(connection, &key, 0, usize::MAX)?;
    let attempts = match row_in_scope(connection, &key)? {
        Some(row) => reads::attempts(connection, key.id, row)?,
        None => Vec::new(),
    };
    let refused = refused(connection, &key)?;
    Ok(Dossier { found, history, attempts, refused })
}

pub(super) fn integrity(connection: &Connection) -> Read<Vec<String>> {
    let sql = format!("PRAGMA integrity_check({INTEGRITY_MAX})");
    let mut statement = connection.prepare(&sql)?;
    let lines: Read<Vec<String>> = statement.query_map([], |row| row.get(0))?.collect();
    let mut lines: Vec<String> = lines?.into_iter().filter(|line| line != "ok").collect();
    for (what, sql) in STRAYS {
        let count: i64 = connection.query_row(sql, [], |row| row.get(0))?;
        if count > 0 {
            lines.push(format!("{count} {what}"));
        }
    }
    Ok(lines)
}

/// Rows that do not belong together, which no look at a single task would show.
const STRAYS: [(&str, &str); 7] = [
    (
        "submitted tasks are neither live nor done",
        "SELECT count(*) FROM inputs i WHERE NOT EXISTS (SELECT 1 FROM live WHERE row = i.row)
            AND NOT EXISTS (SELECT 1 FROM done WHERE row = i.row)",
    ),
    ("tasks are both live and done", "SELECT count(*) FROM live JOIN done USING (row)"),
    (
        "live tasks were never submitted under their id",
        "SELECT count(*) FROM live l
         WHERE NOT EXISTS (SELECT 1 FROM inputs i WHERE i.row = l.row AND i.id = l.id)",
    ),
    (
        "ended tasks were never submitted",
        "SELECT count(*) FROM done d WHERE NOT EXISTS (SELECT 1 FROM inputs WHERE row = d.row)",
    ),
    (
        "history entries belong to no task",
        "SELECT count(*) FROM history h WHERE NOT EXISTS (SELECT 1 FROM inputs WHERE row = h.task)",
    ),
    (
        "attempts belong to no task",
        "SELECT count(*) FROM attempts a WHERE NOT EXISTS (SELECT 1 FROM inputs WHERE row = a.task)",
    ),
    (
        "tasks wait in a lane that does not exist",
        "SELECT count(*) FROM inputs i WHERE NOT EXISTS (SELECT 1 FROM lanes WHERE lane = i.lane)",
    ),
];

impl Browse for SqliteBrowse {
    async fn find(&self, key: &TaskKey) -> Result<Option<Found>, Failure> {
        let key = key.clone();
        self.read("finding a task", move |connection| find(connection, &key)).await
    }

    async fn list(&self, scope: &Scope, filter: &Filter) -> Result<Vec<Found>, Failure> {
        let (scope, filter) = (scope.clone(), filter.clone());
        self.read("listing tasks", move |connection| list(connection, &scope, &filter)).await
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

    async fn attempts(&self, key: &TaskKey) -> Result<Vec<Closed>, Failure> {
        let key = key.clone();
        self.read("reading attempts", move |connection| match row_in_scope(connection, &key)? {
            Some(row) => reads::attempts(connection, key.id, row),
            None => Ok(Vec::new()),
        })
        .await
    }

    async fn refused(&self, key: &TaskKey) -> Result<Vec<Refused>, Failure> {
        let key = key.clone();
        self.read("reading refusals", move |connection| refused(connection, &key)).await
    }

    async fn queues(&self, scope: Option<&Scope>) -> Result<Vec<QueueDepth>, Failure> {
        let (scope, now) = (scope.cloned(), self.shared.reading.now());
        self.read("counting queues", move |connection| queues(connection, scope.as_ref(), now))
            .await
    }

    async fn ahead(&self, key: &TaskKey, limit: usize) -> Result<usize, Failure> {
        let (key, now) = (key.clone(), self.shared.reading.now());
        self.read("counting what is ahead", move |connection| ahead(connection, &key, now, limit))
            .await
    }

    async fn api_keys(&self) -> Result<Vec<ApiKey>, Failure> {
        self.read("reading API keys", administration::api_keys).await
    }

    async fn tenant_limits(&self) -> Result<Vec<TenantLimits>, Failure> {
        self.read("reading the limits of tenants", administration::tenant_limits).await
    }

    async fn audit(&self, filter: &AuditFilter) -> Result<Vec<Audited>, Failure> {
        let filter = filter.clone();
        self.read("reading the audit", move |connection| administration::audit(connection, &filter))
            .await
    }

    async fn latest(&self) -> Result<Option<TaskId>, Failure> {
        self.read("looking for the last task", latest).await
    }

    async fn everything(&self, after: Option<TaskId>, limit: usize) -> Result<Vec<Found>, Failure> {
        self.read("reading all tasks", move |connection| everything(connection, after, limit)).await
    }

    async fn dossiers(&self, after: Option<TaskId>, limit: usize) -> Result<Vec<Dossier>, Failure> {
        self.read("reading all tasks", move |connection| {
            let found = everything(connection, after, limit)?;
            found.into_iter().map(|found| dossier(connection, found)).collect()
        })
        .await
    }

    async fn integrity(&self) -> Result<Vec<String>, Failure> {
        self.read("checking the database", integrity).await
    }
}
