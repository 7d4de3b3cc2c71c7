//! Reading tasks, inside a batch and beside it. Statements only.
//!
//! In this folder: reads on behalf of callers, lists, whole tasks with their histories, and durable runs: what requests
//! name, the rows, and what a function replays.

pub(super) mod browse;
mod integrity;
pub(super) mod listing;
pub(in crate::postgres) mod objects;
mod overview;
pub(super) mod plan_steps;
pub(super) mod replay;
pub(super) mod run_records;
mod run_rows;
pub(super) mod task_bundles;

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use verdict::{ClosedAttempt, Done, LeaseId, Scope, Span, TaskId, Time};

use super::batch::messages;
use super::batch::pending_writes::LockedRow;
use super::connection::connections::Object;
use super::errors::StepError;
use super::ready::refill;
use super::rows::{
    self, BATCH_SPEC, CLOSED, Columns, LiveRow, done_columns, id_bytes, locked_columns,
};
use super::scopes;
use super::tables::{KeyUse, KeyUseRow};
use crate::failure::{Failure, FailureKind};
use crate::row::{BatchSpec, IdempotencyKey, KeyOwner, PollRef, TaskKey, TaskWithSpec};
use crate::runs::long_waits::LongWaits;
use crate::seam::LockWait;
use crate::tables::select;

pub(super) type Client = Arc<Object>;
pub(super) type Read<T> = Result<T, StepError>;

/// Sets the scopes if they changed. Sent together with the statements that need them.
pub(super) async fn set_scopes(client: &Client, setting: Option<String>) -> Read<()> {
    if let Some(setting) = setting {
        client.query_typed(scopes::SET, &[(&setting, Type::TEXT)]).await?;
    }
    Ok(())
}

/// Keys as three columns.
pub(super) struct Keys {
    tenants: Vec<String>,
    workspaces: Vec<String>,
    ids: Vec<Vec<u8>>,
}

impl Keys {
    pub(super) fn of<'k>(keys: impl Iterator<Item = &'k TaskKey>) -> Self {
        let mut columns = Self { tenants: Vec::new(), workspaces: Vec::new(), ids: Vec::new() };
        for key in keys {
            columns.tenants.push(key.scope.tenant.as_str().to_owned());
            columns.workspaces.push(key.scope.workspace.as_str().to_owned());
            columns.ids.push(id_bytes(key.id).to_vec());
        }
        columns
    }

    pub(super) fn parameters(&self) -> [(&(dyn ToSql + Sync), Type); 3] {
        [
            (&self.tenants, Type::TEXT_ARRAY),
            (&self.workspaces, Type::TEXT_ARRAY),
            (&self.ids, Type::BYTEA_ARRAY),
        ]
    }
}

/// Rows of the keys `u`, each looked up by its own key whatever the planner estimates for the table: a subquery with
/// an offset is not merged into the join. Estimates are often wrong here, since tables swing between empty and full
/// faster than their statistics.
fn by_key(columns: &str, lookups: &str) -> String {
    format!(
        "SELECT {columns} FROM unnest($1::text[], $2::text[], $3::bytea[]) \
         AS u(tenant, workspace, id) {lookups}"
    )
}

const THE_INPUT: &str =
    "CROSS JOIN LATERAL (SELECT * FROM tenure.inputs WHERE id = u.id OFFSET 0) i";

/// Keys are sorted, and rows are locked in that order.
fn locking(manner: &str) -> String {
    let live = format!(
        "CROSS JOIN LATERAL (SELECT * FROM tenure.live WHERE id = u.id AND tenant = u.tenant \
         AND workspace = u.workspace FOR UPDATE {manner}) l {THE_INPUT}"
    );
    by_key(&locked_columns(), &live)
}

static LOCK: LazyLock<String> = LazyLock::new(|| locking(""));
static LOCK_SKIPPING: LazyLock<String> = LazyLock::new(|| locking("SKIP LOCKED"));
static PRESENT: LazyLock<String> = LazyLock::new(|| {
    by_key(
        "l.id",
        "CROSS JOIN LATERAL (SELECT id FROM tenure.live WHERE id = u.id AND tenant = u.tenant \
         AND workspace = u.workspace OFFSET 0) l",
    )
});
static ENDED: LazyLock<String> = LazyLock::new(|| {
    let done = format!(
        "CROSS JOIN LATERAL (SELECT * FROM tenure.done WHERE id = u.id AND tenant = u.tenant \
         AND workspace = u.workspace OFFSET 0) d {THE_INPUT}"
    );
    by_key(&done_columns(), &done)
});

/// Locks live tasks; without waiting, it skips rows that another transaction has locked.
pub(super) async fn lock(client: &Client, keys: &Keys, lock_wait: LockWait) -> Read<Vec<LiveRow>> {
    let sql = match lock_wait {
        LockWait::Skip => &*LOCK_SKIPPING,
        LockWait::Wait => &*LOCK,
    };
    let rows = client.query_typed(sql, &keys.parameters()).await?;
    live_rows(&rows)
}

/// Puts the items of long waits into rows that are locked: those that are kept in memory, and reads the others.
pub(super) async fn complete_waits(
    client: &Client,
    rows: &mut [LiveRow],
    long_waits: &LongWaits,
) -> Read<()> {
    for row in rows.iter_mut() {
        let wait = row.incomplete_wait();
        if let Some(items) = wait.and_then(|wait| long_waits.find(row.task.id, wait)) {
            row.complete(items);
        }
    }
    let lacking = rows.iter().filter(|row| row.incomplete_wait().is_some());
    let lacking: Vec<TaskId> = lacking.map(|row| row.task.id).collect();
    if lacking.is_empty() {
        return Ok(());
    }
    let mut items = run_records::items(client, &lacking).await?;
    for row in rows.iter_mut().filter(|row| row.incomplete_wait().is_some()) {
        let found = items.remove(&row.task.id);
        let lost = || {
            let what = "the items of a wait are missing";
            Failure::new(FailureKind::Fatal, what).confined_to(row.task.id)
        };
        let found = found.ok_or_else(lost)?;
        row.complete(found.into());
        if let Some(wait) = row.wait() {
            long_waits.keep(row.task.id, wait);
        }
    }
    Ok(())
}

/// Which of these tasks are live, locked or not.
pub(super) async fn present(client: &Client, keys: &Keys) -> Read<Vec<TaskId>> {
    let rows = client.query_typed(&PRESENT, &keys.parameters()).await?;
    rows.iter().map(|row| Ok(Columns::of(row).task_id()?)).collect()
}

pub(super) async fn ended(client: &Client, keys: &Keys) -> Read<Vec<Done>> {
    let rows = client.query_typed(&ENDED, &keys.parameters()).await?;
    let read = |row: &Row| {
        let id = Columns::of(row).task_id()?;
        Ok(rows::done(&mut Columns::of(row)).map_err(|failure| failure.confined_to(id))?)
    };
    rows.iter().map(read).collect()
}

fn live_rows(rows: &[Row]) -> Read<Vec<LiveRow>> {
    rows.iter().map(|row| Ok(rows::live_row(&mut Columns::of(row))?)).collect()
}

/// Live rows without the excluded tasks, whose rows are not even decoded.
fn live_rows_except(rows: &[Row], excluded: &BTreeSet<TaskId>) -> Read<Vec<LiveRow>> {
    let mut live = Vec::with_capacity(rows.len());
    for row in rows {
        if excluded.is_empty() || !excluded.contains(&rows::id_of(row)?) {
            live.push(rows::live_row(&mut Columns::of(row))?);
        }
    }
    Ok(live)
}

static LOCK_IDS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {} FROM tenure.live l JOIN tenure.inputs i ON i.id = l.id WHERE l.id = ANY ($1) \
         ORDER BY l.id FOR UPDATE OF l",
        locked_columns()
    )
});

/// Locks live tasks by id alone, in order, and waits for rows that are locked.
pub(super) async fn lock_ids(client: &Client, ids: &[TaskId]) -> Read<Vec<LiveRow>> {
    let ids: Vec<Vec<u8>> = ids.iter().map(|id| id_bytes(*id).to_vec()).collect();
    let rows = client.query_typed(&LOCK_IDS, &[(&ids, Type::BYTEA_ARRAY)]).await?;
    live_rows(&rows)
}

const CLOCK: &str = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::int8";

/// The database's clock. Must be read after the locks.
pub(super) async fn clock(client: &Client) -> Read<Time> {
    let rows = client.query_typed(CLOCK, &[]).await?;
    Ok(Columns::of(&rows[0]).time()?)
}

static ATTEMPTS_BY_LEASE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT a.task, {CLOSED} FROM unnest($1::bytea[], $2::bytea[]) AS u(task, lease) \
         CROSS JOIN LATERAL (SELECT * FROM tenure.attempts \
            WHERE task = u.task AND lease = u.lease OFFSET 0) a"
    )
});

pub(super) async fn closed(
    client: &Client,
    leases: &[(TaskId, LeaseId)],
) -> Read<Vec<ClosedAttempt>> {
    let tasks: Vec<Vec<u8>> = leases.iter().map(|(task, _)| id_bytes(*task).to_vec()).collect();
    let leases: Vec<Vec<u8>> =
        leases.iter().map(|(_, lease)| lease.as_u128().to_be_bytes().to_vec()).collect();
    let parameters: [(&(dyn ToSql + Sync), Type); 2] =
        [(&tasks, Type::BYTEA_ARRAY), (&leases, Type::BYTEA_ARRAY)];
    let rows = client.query_typed(&ATTEMPTS_BY_LEASE, &parameters).await?;
    let read = |row: &Row| {
        let mut columns = Columns::of(row);
        let task = columns.task_id()?;
        Ok(rows::closed(task, &mut columns).map_err(|failure| failure.confined_to(task))?)
    };
    rows.iter().map(read).collect()
}

static KEY_OWNERS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {} FROM unnest($1::text[], $2::text[], $3::text[]) AS u(tenant, workspace, key) \
         CROSS JOIN LATERAL (SELECT * FROM tenure.keys WHERE tenant = u.tenant \
            AND workspace = u.workspace AND key = u.key OFFSET 0) k",
        select!("k", KeyUse)
    )
});

pub(super) async fn key_owners(
    client: &Client,
    keys: &[IdempotencyKey],
) -> Read<Vec<(IdempotencyKey, KeyOwner)>> {
    let tenants: Vec<&str> = keys.iter().map(|key| key.scope.tenant.as_str()).collect();
    let workspaces: Vec<&str> = keys.iter().map(|key| key.scope.workspace.as_str()).collect();
    let texts: Vec<&str> = keys.iter().map(|key| key.text.as_str()).collect();
    let parameters: [(&(dyn ToSql + Sync), Type); 3] =
        [(&tenants, Type::TEXT_ARRAY), (&workspaces, Type::TEXT_ARRAY), (&texts, Type::TEXT_ARRAY)];
    let rows = client.query_typed(&KEY_OWNERS, &parameters).await?;
    let read = |row: &Row| {
        let KeyUseRow { tenant, workspace, key, task, fingerprint } =
            KeyUse::read(&mut Columns::of(row))?;
        let key = IdempotencyKey { scope: Scope { tenant, workspace }, text: key };
        Ok((key, KeyOwner { task, fingerprint }))
    };
    rows.iter().map(read).collect()
}

static POLLED: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {}, {} FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) \
            AS u(tenant, workspace, owner, poll) \
         CROSS JOIN LATERAL (SELECT * FROM tenure.live WHERE poll = u.poll AND owner = u.owner \
            AND tenant = u.tenant AND workspace = u.workspace OFFSET 0) l \
         CROSS JOIN LATERAL (SELECT * FROM tenure.inputs WHERE id = l.id OFFSET 0) i",
        locked_columns(),
        *BATCH_SPEC
    )
});

const COUNT_POLLED: &str = "SELECT u.number, l.leases FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) \
        WITH ORDINALITY AS u(tenant, workspace, owner, poll, number) \
     CROSS JOIN LATERAL (SELECT count(*) AS leases FROM tenure.live WHERE poll = u.poll \
        AND owner = u.owner AND tenant = u.tenant AND workspace = u.workspace OFFSET 0) l \
     WHERE l.leases > 0";

/// How many leases each of these polls has, in their order.
pub(super) async fn count_polled(client: &Client, polls: &[PollRef]) -> Read<Vec<usize>> {
    let names = PollNames::of(polls);
    let rows = client.query_typed(COUNT_POLLED, &names.parameters()).await?;
    let mut counts = vec![0; polls.len()];
    for row in &rows {
        let mut columns = Columns::of(row);
        let (number, leases) = (columns.long()?, columns.long()?);
        // Ordinals begin with 1.
        counts[number as usize - 1] = leases as usize;
    }
    Ok(counts)
}

/// The names of polls, column by column.
struct PollNames<'a>([Vec<&'a str>; 4]);

impl<'a> PollNames<'a> {
    fn of(polls: &'a [PollRef]) -> Self {
        Self([
            polls.iter().map(|poll| poll.scope.tenant.as_str()).collect(),
            polls.iter().map(|poll| poll.scope.workspace.as_str()).collect(),
            polls.iter().map(|poll| poll.owner.as_str()).collect(),
            polls.iter().map(|poll| poll.poll.as_str()).collect(),
        ])
    }

    fn parameters(&self) -> [(&(dyn ToSql + Sync), Type); 4] {
        let Self([tenants, workspaces, owners, names]) = self;
        [
            (tenants, Type::TEXT_ARRAY),
            (workspaces, Type::TEXT_ARRAY),
            (owners, Type::TEXT_ARRAY),
            (names, Type::TEXT_ARRAY),
        ]
    }
}

pub(super) async fn polled(
    client: &Client,
    polls: &[PollRef],
    excluded: &BTreeSet<TaskId>,
) -> Read<Vec<TaskWithSpec>> {
    let names = PollNames::of(polls);
    let rows = client.query_typed(&POLLED, &names.parameters()).await?;
    let mut ready = Vec::with_capacity(rows.len());
    for row in &rows {
        if excluded.is_empty() || !excluded.contains(&rows::id_of(row)?) {
            ready.push(ready_row(row)?.1);
        }
    }
    Ok(ready)
}

fn ready_row(row: &Row) -> Read<(LockedRow, TaskWithSpec)> {
    let mut columns = Columns::of(row);
    let live = rows::live_row(&mut columns)?;
    let spec = rows::batch_spec(&mut columns);
    let spec = spec.map_err(|failure| failure.confined_to(live.task.id))?;
    let locked = LockedRow::of(&live);
    Ok((locked, TaskWithSpec { task: live.task, spec }))
}

static LOCK_WAITING: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {}, {} FROM unnest($1::bytea[]) AS u(id) \
         CROSS JOIN LATERAL (SELECT * FROM tenure.live WHERE id = u.id \
            AND claimable_at IS NOT NULL FOR UPDATE SKIP LOCKED) l {THE_INPUT}",
        locked_columns(),
        *BATCH_SPEC
    )
});

/// Locks candidates that still wait, by key, and returns their rows.
pub(super) async fn lock_waiting(
    client: &Client,
    ids: &[TaskId],
) -> Read<Vec<(LockedRow, TaskWithSpec)>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<Vec<u8>> = ids.iter().map(|id| id_bytes(*id).to_vec()).collect();
    let rows = client.query_typed(&LOCK_WAITING, &[(&ids, Type::BYTEA_ARRAY)]).await?;
    rows.iter().map(ready_row).collect()
}

static SPECS: LazyLock<String> = LazyLock::new(|| {
    format!("SELECT i.id, {} FROM tenure.inputs i WHERE i.id = ANY ($1)", *BATCH_SPEC)
});

pub(super) async fn specs(client: &Client, ids: &[TaskId]) -> Read<Vec<(TaskId, BatchSpec)>> {
    let ids: Vec<Vec<u8>> = ids.iter().map(|id| id_bytes(*id).to_vec()).collect();
    let rows = client.query_typed(&SPECS, &[(&ids, Type::BYTEA_ARRAY)]).await?;
    let read = |row: &Row| {
        let mut columns = Columns::of(row);
        Ok((columns.task_id()?, rows::batch_spec(&mut columns)?))
    };
    rows.iter().map(read).collect()
}

static DUE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {} FROM tenure.live l \
         CROSS JOIN LATERAL (SELECT * FROM tenure.inputs WHERE id = l.id OFFSET 0) i \
         WHERE l.alarm_at > $1 AND l.alarm_at <= $2 ORDER BY l.alarm_at, l.id LIMIT $3 \
         FOR UPDATE OF l SKIP LOCKED",
        locked_columns()
    )
});

/// Locks and returns tasks whose alarm fired since `from`. Some of them may wake later.
pub(super) async fn fired_alarms(
    client: &Client,
    from: Option<Time>,
    now: Time,
    limit: usize,
    excluded: &BTreeSet<TaskId>,
) -> Read<Vec<LiveRow>> {
    let (from, now) = (from.map_or(i64::MIN, Time::millis), now.millis());
    let limit = as_limit(limit.saturating_add(excluded.len()));
    let parameters: [(&(dyn ToSql + Sync), Type); 3] =
        [(&from, Type::INT8), (&now, Type::INT8), (&limit, Type::INT8)];
    let rows = client.query_typed(&DUE, &parameters).await?;
    live_rows_except(&rows, excluded)
}

const NEXT_ALARM: &str =
    "SELECT min(alarm_at) FROM tenure.live WHERE alarm_at > $1 AND alarm_at <= $2";

/// The first alarm after `after` and up to `until`. The range is short, so that the scan does not walk over the dead
/// entries beyond it.
pub(super) async fn next_alarm(client: &Client, after: Time, until: Time) -> Read<Option<Time>> {
    let (after, until) = (after.millis(), until.millis());
    let parameters: [(&(dyn ToSql + Sync), Type); 2] = [(&after, Type::INT8), (&until, Type::INT8)];
    let rows = client.query_typed(NEXT_ALARM, &parameters).await?;
    Ok(Columns::of(&rows[0]).optional_time()?)
}

const POSTPONE: &str = "UPDATE tenure.live SET alarm_at = wakes_at WHERE id = ANY ($1)";

/// Postpones alarms that fired too early to when their task wakes.
pub(super) async fn postpone_alarms(client: &Client, ids: &[TaskId]) -> Read<()> {
    let ids: Vec<Vec<u8>> = ids.iter().map(|id| id_bytes(*id).to_vec()).collect();
    client.query_typed(POSTPONE, &[(&ids, Type::BYTEA_ARRAY)]).await?;
    Ok(())
}

/// Waits for rows that another transaction has locked, such as one whose coordinator is dead: no lease may be left
/// out. This statement waits in order of id, and no other statement waits for a row while its transaction holds locks
/// on others.
static RUNNING: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {} FROM tenure.live l \
         CROSS JOIN LATERAL (SELECT * FROM tenure.inputs WHERE id = l.id OFFSET 0) i \
         WHERE l.state = 'running' AND l.id > $1 ORDER BY l.id LIMIT $2 FOR UPDATE OF l",
        locked_columns()
    )
});

pub(super) async fn running(
    client: &Client,
    after: Option<TaskId>,
    limit: usize,
    excluded: &BTreeSet<TaskId>,
) -> Read<Vec<LiveRow>> {
    let after = after.map_or(Vec::new(), |id| id_bytes(id).to_vec());
    let limit = as_limit(limit.saturating_add(excluded.len()));
    let rows = client.query_typed(&RUNNING, &[(&after, Type::BYTEA), (&limit, Type::INT8)]).await?;
    live_rows_except(&rows, excluded)
}

/// Statements that batches repeat, to be prepared on direct connections.
pub(super) fn frequent_statements() -> impl Iterator<Item = &'static str> {
    let built: [&'static LazyLock<String>; 11] = [
        &LOCK,
        &LOCK_SKIPPING,
        &LOCK_IDS,
        &ENDED,
        &PRESENT,
        &ATTEMPTS_BY_LEASE,
        &POLLED,
        &LOCK_WAITING,
        &DUE,
        &SPECS,
        &KEY_OWNERS,
    ];
    let built = built.into_iter().map(|text| text.as_str());
    built.chain([scopes::SET, CLOCK, refill::REFILL, NEXT_ALARM, POSTPONE, COUNT_POLLED])
}

/// The statements of every lifecycle, for tests of the rows that they visit.
#[cfg(feature = "testing")]
pub(super) fn hot_statements() -> HotStatements {
    HotStatements {
        begin: super::connection::session::BEGIN,
        lock: &LOCK_SKIPPING,
        ended: &ENDED,
        refill: refill::REFILL,
        objects: super::batch::objects::by_key(),
        without_sorts: super::connection::session::WITHOUT_SORTS,
        addressees: &messages::ADDRESSEES,
        of_other_tenants: &messages::OF_OTHER_TENANTS,
    }
}

/// See [`super::hot_statements`].
#[cfg(feature = "testing")]
#[derive(Clone, Copy, Debug)]
pub struct HotStatements {
    pub begin: &'static str,
    /// Parameters: tenants, workspaces and ids.
    pub lock: &'static str,
    pub ended: &'static str,
    /// Parameters: tenants, workspaces, queues, kinds, the positions after which to read, whether from the head, and
    /// how many.
    pub refill: &'static str,
    /// Parameters: tenants, workspaces, types and ids.
    pub objects: &'static str,
    /// Executed before the reads of addressees.
    pub without_sorts: &'static str,
    /// Parameters: until when messages are due, how many, and the addressees that are excluded.
    pub addressees: &'static str,
    /// Parameters: when messages are due, the tenant to begin after, and the addressees that are excluded.
    pub of_other_tenants: &'static str,
}

pub(super) fn as_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// The shortest running lease, the next wake-up, the next due time, the next message and the next object, to compute how long to sleep.
pub(super) struct WakeTimes {
    pub(super) wakes_at: Option<Time>,
    pub(super) due: Option<Time>,
    pub(super) shortest_lease_ms: Option<i64>,
    pub(super) message_due: Option<Time>,
    pub(super) object_due: Option<Time>,
}

/// Number of alarms per read in the search for the earliest wake-up.
const ALARMS_PAGE: i64 = 256;

static WAKE_TIMES: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT (SELECT min(claimable_at) FROM tenure.live WHERE delayed AND claimable_at > $1), \
            (SELECT min(lease_ms) FROM tenure.live WHERE state = 'running'), {}, {}",
        *messages::NEXT_DUE,
        super::batch::objects::NEXT_DUE
    )
});

pub(super) async fn wake_times(client: &Client, after: Time) -> Read<WakeTimes> {
    let after = after.millis();
    let parameters: [(&(dyn ToSql + Sync), Type); 1] = [(&after, Type::INT8)];
    let (rows, wakes_at) =
        futures_util::join!(client.query_typed(&WAKE_TIMES, &parameters), earliest_wake(client));
    let (rows, wakes_at) = (rows?, wakes_at?);
    let mut columns = Columns::of(&rows[0]);
    let (due, shortest_lease_ms) = (columns.optional_time()?, columns.take()?);
    let (message_due, object_due) = (columns.optional_time()?, columns.optional_time()?);
    Ok(WakeTimes { wakes_at, due, shortest_lease_ms, message_due, object_due })
}

const SHORTEST_LEASE: &str = "SELECT min(lease_ms) FROM tenure.live WHERE state = 'running'";

/// The shortest lease of all running tasks, whichever coordinator granted them.
pub(super) async fn shortest_lease(client: &Client) -> Read<Option<Span>> {
    let rows = client.query_typed(SHORTEST_LEASE, &[]).await?;
    let millis: Option<i64> = Columns::of(&rows[0]).take()?;
    Ok(millis.map(|millis| Span::from_millis(millis.unsigned_abs())))
}

const ALARMS: &str = "SELECT l.alarm_at, l.wakes_at FROM tenure.live l WHERE l.alarm_at IS NOT NULL \
    AND l.alarm_at >= $1 ORDER BY l.alarm_at, l.id LIMIT $2 OFFSET $3";

/// Statements that a coordinator runs before it sleeps, to be prepared on direct connections.
pub(super) fn idle_statements() -> impl Iterator<Item = &'static str> {
    [WAKE_TIMES.as_str(), ALARMS, SHORTEST_LEASE].into_iter()
}

/// An alarm fires no later than its task wakes, so the search ends at the first alarm after the earliest wake-up
/// found.
async fn earliest_wake(client: &Client) -> Read<Option<Time>> {
    let (mut earliest, mut from, mut offset) = (None::<Time>, i64::MIN, 0_i64);
    loop {
        let parameters: [(&(dyn ToSql + Sync), Type); 3] =
            [(&from, Type::INT8), (&ALARMS_PAGE, Type::INT8), (&offset, Type::INT8)];
        let rows = client.query_typed(ALARMS, &parameters).await?;
        let mut last = from;
        for row in &rows {
            let mut columns = Columns::of(row);
            let (alarm_at, wakes_at) = (columns.time()?, columns.time()?);
            if earliest.is_some_and(|earliest| earliest <= alarm_at) {
                return Ok(earliest);
            }
            earliest = Some(earliest.map_or(wakes_at, |earliest| earliest.min(wakes_at)));
            last = alarm_at.millis();
        }
        if (rows.len() as i64) < ALARMS_PAGE {
            return Ok(earliest);
        }
        offset = if last == from { offset + ALARMS_PAGE } else { 0 };
        from = last;
    }
}
