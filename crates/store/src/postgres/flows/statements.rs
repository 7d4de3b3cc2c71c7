//! The statements about flow keys. Statements only.
//!
//! Every one of them reads by an index that only tasks with a key are in, and none walks over parked tasks: kinds and
//! queues of a key are found by skipping from one to the next.

use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use verdict::flow::rate::RATE_COUNT_MAX;
use verdict::flow::{Rate, Starts};
use verdict::{Digest, Scope, TaskId, Time};

use crate::lookup::LockWait;
use crate::postgres::reads::{Client, Read};
use crate::postgres::ready::candidates::Candidate;
use crate::postgres::ready::queue_position::{POSITION_BYTES, QueuePosition};
use crate::postgres::rows::{Columns, id_bytes};
use crate::row::FlowRef;

/// That the row `l` holds a slot of its key, in the words of the index of holders: leased, or leased before and held for life.
macro_rules! holds {
    () => {
        "(l.lease IS NOT NULL OR (l.flow_life AND l.attempt > 0))"
    };
}

/// That the row `l` needs a slot to be leased.
macro_rules! wants {
    () => {
        "(l.flow_life IS NULL OR l.attempt = 0)"
    };
}

pub(super) use {holds, wants};

/// A key as the tables have it.
#[derive(Clone, Debug, Default)]
pub(in crate::postgres) struct KeyCounts {
    /// The smallest limit of its live tasks; `None` without any.
    pub(super) limit: Option<u32>,
    pub(super) held: u32,
    /// Tasks in the ready order.
    pub(super) offered: u32,
    pub(super) has_parked: bool,
    /// The rate that counts, of its live tasks.
    pub(super) rate: Option<Rate>,
    /// The starts that may matter to it.
    pub(super) starts: Starts,
}

/// Keys as three columns.
pub(in crate::postgres) struct KeyColumns {
    tenants: Vec<String>,
    workspaces: Vec<String>,
    keys: Vec<String>,
}

impl KeyColumns {
    pub(in crate::postgres) fn of<'a>(flows: impl Iterator<Item = &'a FlowRef> + Clone) -> Self {
        Self {
            tenants: flows.clone().map(|it| it.scope.tenant.as_str().to_owned()).collect(),
            workspaces: flows.clone().map(|it| it.scope.workspace.as_str().to_owned()).collect(),
            keys: flows.map(|it| it.key.as_str().to_owned()).collect(),
        }
    }

    pub(in crate::postgres) fn parameters(&self) -> [(&(dyn ToSql + Sync), Type); 3] {
        [
            (&self.tenants, Type::TEXT_ARRAY),
            (&self.workspaces, Type::TEXT_ARRAY),
            (&self.keys, Type::TEXT_ARRAY),
        ]
    }
}

/// Takes the locks that are free. They end with the transaction.
const LOCK: &str = "SELECT pg_try_advisory_xact_lock(u.hash) \
    FROM unnest($1::int8[]) WITH ORDINALITY AS u(hash, n) ORDER BY u.n";

/// Waits for locks, with the time limit of the session.
const LOCK_WAITING: &str = "SELECT pg_advisory_xact_lock(u.hash) IS NOT NULL \
    FROM unnest($1::int8[]) WITH ORDINALITY AS u(hash, n) ORDER BY u.n";

/// Statements that batches with flow keys repeat, to be prepared on direct connections.
pub(super) fn frequent_statements() -> [&'static str; 8] {
    [LOCK, LOCK_WAITING, COUNT, PARK, CHOOSE, UNPARK, RATES, PARKED]
}

/// Two keys with the same hash share a lock, which costs time and nothing else.
fn hash(flow: &FlowRef) -> i64 {
    hash_for(b"tenure flow key", flow)
}

/// The number of the lock of a key for one purpose.
pub(in crate::postgres) fn hash_for(purpose: &[u8], flow: &FlowRef) -> i64 {
    let Scope { tenant, workspace } = &flow.scope;
    let names = [tenant.as_str(), workspace.as_str(), flow.key.as_str()].map(str::as_bytes);
    let digest = Digest::of(&[purpose, names[0], names[1], names[2]]);
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&digest.bytes()[..8]);
    i64::from_be_bytes(bytes)
}

/// Whether each lock was free.
pub(super) async fn lock(client: &Client, flows: &[FlowRef]) -> Read<Vec<bool>> {
    let hashes: Vec<i64> = flows.iter().map(hash).collect();
    lock_all(client, &hashes, LockWait::Skip).await
}

/// Whether each of these locks is taken. One that is not free is waited for or left, as the batch does with its tasks.
pub(in crate::postgres) async fn lock_all(
    client: &Client,
    hashes: &[i64],
    wait: LockWait,
) -> Read<Vec<bool>> {
    let sql = match wait {
        LockWait::Skip => LOCK,
        LockWait::Wait => LOCK_WAITING,
    };
    let rows = client.query_typed(sql, &[(&hashes, Type::INT8_ARRAY)]).await?;
    rows.iter().map(|row| Ok(Columns::of(row).take()?)).collect()
}

/// Starts are read whatever the live tasks say: the first task with a rate may come with this batch. A key without one has none.
const COUNT: &str = concat!(
    "SELECT m.flow_limit, h.held, o.offered, \
        EXISTS (SELECT 1 FROM tenure.live l WHERE l.tenant = u.tenant \
            AND l.workspace = u.workspace AND l.flow_key = u.flow_key AND l.parked), \
        r.flow_rate, ARRAY(SELECT s.at FROM tenure.flow_starts s WHERE s.tenant = u.tenant \
            AND s.workspace = u.workspace AND s.flow_key = u.flow_key \
            ORDER BY s.at DESC LIMIT $4) \
    FROM unnest($1::text[], $2::text[], $3::text[]) \
        WITH ORDINALITY AS u(tenant, workspace, flow_key, n) \
    LEFT JOIN LATERAL (SELECT l.flow_limit FROM tenure.live l WHERE l.tenant = u.tenant \
        AND l.workspace = u.workspace AND l.flow_key = u.flow_key \
        ORDER BY l.flow_limit LIMIT 1) m ON true \
    LEFT JOIN LATERAL (SELECT l.flow_rate FROM tenure.live l WHERE l.tenant = u.tenant \
        AND l.workspace = u.workspace AND l.flow_key = u.flow_key AND l.flow_rate IS NOT NULL \
        ORDER BY l.flow_rate DESC LIMIT 1) r ON true \
    CROSS JOIN LATERAL (SELECT count(*) AS held FROM tenure.live l WHERE l.tenant = u.tenant \
        AND l.workspace = u.workspace AND l.flow_key = u.flow_key AND ",
    holds!(),
    ") h \
    CROSS JOIN LATERAL (SELECT count(*) AS offered FROM tenure.live l WHERE l.tenant = u.tenant \
        AND l.workspace = u.workspace AND l.flow_key = u.flow_key \
        AND l.claimable_at IS NOT NULL AND NOT l.delayed \
        AND ",
    wants!(),
    ") o ORDER BY u.n"
);

pub(super) async fn count(client: &Client, flows: &[FlowRef]) -> Read<Vec<KeyCounts>> {
    let columns = KeyColumns::of(flows.iter());
    let [tenants, workspaces, keys] = columns.parameters();
    let most = i64::from(RATE_COUNT_MAX);
    let parameters = [tenants, workspaces, keys, (&most, Type::INT8)];
    let rows = client.query_typed(COUNT, &parameters).await?;
    let read = |row: &Row| {
        let mut columns = Columns::of(row);
        let limit = columns.optional_count()?;
        let (held, offered): (i64, i64) = (columns.take()?, columns.take()?);
        let few = |count: i64| u32::try_from(count).unwrap_or(u32::MAX);
        let has_parked = columns.take()?;
        let (rank, starts): (Option<i64>, Vec<i64>) = (columns.take()?, columns.take()?);
        let rate = rank.map(|rank| Rate::of_rank(rank.unsigned_abs()));
        let starts = starts.into_iter().map(Time::from_millis).collect();
        let (held, offered) = (few(held), few(offered));
        Ok(KeyCounts { limit, held, offered, has_parked, rate, starts })
    };
    rows.iter().map(read).collect()
}

const PARK: &str = "UPDATE tenure.live SET parked = true, delayed = true \
    WHERE id = ANY ($1) AND claimable_at IS NOT NULL AND flow_key IS NOT NULL";

/// Takes locked tasks out of the ready order.
pub(super) async fn park(client: &Client, tasks: &[TaskId]) -> Read<()> {
    let ids: Vec<Vec<u8>> = tasks.iter().map(|id| id_bytes(*id).to_vec()).collect();
    client.query_typed(PARK, &[(&ids, Type::BYTEA_ARRAY)]).await?;
    Ok(())
}

/// The parked tasks that fit: those among the first of their line, offered or parked, by priority and then age, as many as
/// slots of the key are free and may start now (a rate is `per * 1024 + 1024 - count`). Rows that another transaction has
/// locked are left out.
const CHOOSE: &str = concat!(
    "WITH RECURSIVE room AS ( \
        SELECT u.tenant, u.workspace, u.flow_key, \
            least(m.flow_limit - h.held, coalesce(r.starts, 2147483647)) AS free \
        FROM unnest($1::text[], $2::text[], $3::text[]) AS u(tenant, workspace, flow_key) \
        CROSS JOIN LATERAL (SELECT l.flow_limit FROM tenure.live l WHERE l.tenant = u.tenant \
            AND l.workspace = u.workspace AND l.flow_key = u.flow_key \
            ORDER BY l.flow_limit LIMIT 1) m \
        CROSS JOIN LATERAL (SELECT count(*) AS held FROM tenure.live l WHERE l.tenant = u.tenant \
            AND l.workspace = u.workspace AND l.flow_key = u.flow_key AND ",
    holds!(),
    ") h \
        LEFT JOIN LATERAL (SELECT 1024 - q.flow_rate % 1024 - (SELECT count(*) \
                FROM tenure.flow_starts s WHERE s.tenant = u.tenant AND s.workspace = u.workspace \
                AND s.flow_key = u.flow_key AND s.at > $4 - q.flow_rate / 1024) AS starts \
            FROM (SELECT l.flow_rate FROM tenure.live l WHERE l.tenant = u.tenant \
                AND l.workspace = u.workspace AND l.flow_key = u.flow_key \
                AND l.flow_rate IS NOT NULL ORDER BY l.flow_rate DESC LIMIT 1) q) r ON true \
        WHERE m.flow_limit > h.held AND coalesce(r.starts, 1) > 0), \
    lines AS ( \
        SELECT r.tenant, r.workspace, r.flow_key, r.free, n.queue, n.kind FROM room r \
        CROSS JOIN LATERAL (SELECT l.queue, l.kind FROM tenure.live l WHERE l.tenant = r.tenant \
            AND l.workspace = r.workspace AND l.flow_key = r.flow_key AND l.parked \
            ORDER BY l.queue, l.kind LIMIT 1) n \
        UNION ALL \
        SELECT p.tenant, p.workspace, p.flow_key, p.free, n.queue, n.kind FROM lines p \
        CROSS JOIN LATERAL (SELECT l.queue, l.kind FROM tenure.live l WHERE l.tenant = p.tenant \
            AND l.workspace = p.workspace AND l.flow_key = p.flow_key AND l.parked \
            AND (l.queue, l.kind) > (p.queue, p.kind) \
            ORDER BY l.queue, l.kind LIMIT 1) n) \
    SELECT c.id FROM lines s CROSS JOIN LATERAL \
        (SELECT q.id, q.is_parked, row_number() OVER (ORDER BY q.place) AS rank FROM \
            (SELECT p.id, p.place, true AS is_parked FROM \
                (SELECT l.id, l.place FROM tenure.live l WHERE l.tenant = s.tenant \
                AND l.workspace = s.workspace AND l.flow_key = s.flow_key AND l.queue = s.queue \
                AND l.kind = s.kind AND l.parked ORDER BY l.place \
                LIMIT s.free FOR UPDATE SKIP LOCKED) p \
            UNION ALL SELECT l.id, l.place, false FROM tenure.live l WHERE l.tenant = s.tenant \
                AND l.workspace = s.workspace AND l.flow_key = s.flow_key AND l.queue = s.queue \
                AND l.kind = s.kind AND l.claimable_at IS NOT NULL AND NOT l.delayed \
                AND ",
    wants!(),
    ") q) c \
    WHERE c.is_parked AND c.rank <= s.free"
);

const UNPARK: &str = "UPDATE tenure.live SET parked = false, delayed = false \
    WHERE id = ANY ($1) AND parked RETURNING tenant, workspace, queue, kind, place";

/// Brings parked tasks of these keys back into the ready order, as many as fit.
pub(super) async fn unpark(client: &Client, flows: &[FlowRef], now: Time) -> Read<Vec<Candidate>> {
    let columns = KeyColumns::of(flows.iter());
    let [tenants, workspaces, keys] = columns.parameters();
    let now = now.millis();
    let parameters = [tenants, workspaces, keys, (&now, Type::INT8)];
    let chosen = client.query_typed(CHOOSE, &parameters).await?;
    if chosen.is_empty() {
        return Ok(Vec::new());
    }
    let ids = chosen.iter().map(|row| Ok(id_bytes(Columns::of(row).task_id()?).to_vec()));
    let ids: Vec<Vec<u8>> = ids.collect::<Read<_>>()?;
    let rows = client.query_typed(UNPARK, &[(&ids, Type::BYTEA_ARRAY)]).await?;
    let read = |row: &Row| {
        let mut columns = Columns::of(row);
        let (scope, queue, kind) = (columns.scope()?, columns.name()?, columns.name()?);
        let position = QueuePosition::from_bytes(columns.fixed::<POSITION_BYTES>()?);
        Ok(Candidate { scope, queue, kind, position })
    };
    rows.iter().map(read).collect()
}

/// Keys with a rate, and their starts.
const RATES: &str = "SELECT u.n, r.flow_rate, ARRAY(SELECT s.at FROM tenure.flow_starts s \
        WHERE s.tenant = u.tenant AND s.workspace = u.workspace AND s.flow_key = u.flow_key \
        ORDER BY s.at DESC LIMIT $4) \
    FROM unnest($1::text[], $2::text[], $3::text[]) \
        WITH ORDINALITY AS u(tenant, workspace, flow_key, n) \
    JOIN LATERAL (SELECT l.flow_rate FROM tenure.live l WHERE l.tenant = u.tenant \
        AND l.workspace = u.workspace AND l.flow_key = u.flow_key AND l.flow_rate IS NOT NULL \
        ORDER BY l.flow_rate DESC LIMIT 1) r ON true";

/// When the keys among these open whose rate allows no start now.
pub(super) async fn openings(
    client: &Client,
    flows: &[FlowRef],
    now: Time,
) -> Read<Vec<(Time, FlowRef)>> {
    let columns = KeyColumns::of(flows.iter());
    let [tenants, workspaces, keys] = columns.parameters();
    let most = i64::from(RATE_COUNT_MAX);
    let parameters = [tenants, workspaces, keys, (&most, Type::INT8)];
    let rows = client.query_typed(RATES, &parameters).await?;
    let mut openings = Vec::new();
    for row in &rows {
        let mut columns = Columns::of(row);
        let (n, rank): (i64, i64) = (columns.take()?, columns.take()?);
        let starts: Vec<i64> = columns.take()?;
        let starts: Starts = starts.into_iter().map(Time::from_millis).collect();
        let opens_at = starts.opens_at(Rate::of_rank(rank.unsigned_abs()), now);
        let flow = usize::try_from(n - 1).ok().and_then(|n| flows.get(n));
        openings.extend(opens_at.zip(flow.cloned()));
    }
    Ok(openings)
}

/// Keys with parked tasks, of all scopes, after one, by skipping from one to the next.
const PARKED: &str = "WITH RECURSIVE k AS ( \
        (SELECT l.tenant, l.workspace, l.flow_key FROM tenure.live l WHERE l.parked \
            AND (l.tenant, l.workspace, l.flow_key) > ($1::text, $2::text, $3::text) \
            ORDER BY l.tenant, l.workspace, l.flow_key LIMIT 1) \
        UNION ALL \
        SELECT n.tenant, n.workspace, n.flow_key FROM k CROSS JOIN LATERAL \
            (SELECT l.tenant, l.workspace, l.flow_key FROM tenure.live l WHERE l.parked \
            AND (l.tenant, l.workspace, l.flow_key) > (k.tenant, k.workspace, k.flow_key) \
            ORDER BY l.tenant, l.workspace, l.flow_key LIMIT 1) n) \
    SELECT k.tenant, k.workspace, k.flow_key FROM k LIMIT $4";

pub(super) async fn parked(
    client: &Client,
    after: Option<FlowRef>,
    limit: i64,
) -> Read<Vec<FlowRef>> {
    let text = |name: Option<&verdict::Name>| name.map_or("", verdict::Name::as_str).to_owned();
    let tenant = text(after.as_ref().map(|it| &it.scope.tenant));
    let workspace = text(after.as_ref().map(|it| &it.scope.workspace));
    let key = text(after.as_ref().map(|it| &it.key));
    let parameters: [(&(dyn ToSql + Sync), Type); 4] =
        [(&tenant, Type::TEXT), (&workspace, Type::TEXT), (&key, Type::TEXT), (&limit, Type::INT8)];
    let rows = client.query_typed(PARKED, &parameters).await?;
    let read = |row: &Row| {
        let mut columns = Columns::of(row);
        Ok(FlowRef { scope: columns.scope()?, key: columns.name()? })
    };
    rows.iter().map(read).collect()
}
