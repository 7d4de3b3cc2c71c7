//! Lists of flow keys for people. The writer decides by its own order in memory ([`super::flow_index`]).

use rusqlite::Connection;
use verdict::flow::Rate;
use verdict::{Name, Scope, Time};

use super::flow_starts;
use super::rows::Columns;
use crate::row::{FlowFilter, FlowKeyRow, FlowRef};

type Read<T> = rusqlite::Result<T>;

/// Live tasks with a key, in one scope. A plain task is not in the index that this reads.
const OF_SCOPE: &str = "FROM live l JOIN lanes n ON n.lane = l.lane
    WHERE n.tenant = ?1 AND n.workspace = ?2 AND l.flow_key IS NOT NULL";

/// The tasks that hold a slot: leased, or leased before and held for life.
pub(super) const HOLDS: &str =
    "(l.state = 'running' OR (l.flow_life IS NOT NULL AND l.attempt > 0))";

pub(super) fn list(
    connection: &Connection,
    filter: &FlowFilter,
    now: Time,
) -> Read<Vec<FlowKeyRow>> {
    let FlowFilter { scope, key, after, limit, holders } = filter;
    let mut statement = connection.prepare_cached(&format!(
        "SELECT l.flow_key, min(l.flow_limit), count(*) FILTER (WHERE {HOLDS}),
            count(*) FILTER (WHERE l.claimable_at <= ?5 AND NOT {HOLDS}), count(*), max(l.flow_rate) {OF_SCOPE}
            AND (?3 IS NULL OR l.flow_key = ?3) AND (?4 IS NULL OR l.flow_key > ?4)
         GROUP BY 1 ORDER BY 1 LIMIT ?6"
    ))?;
    let (tenant, workspace) = (scope.tenant.as_str(), scope.workspace.as_str());
    let (key, after) = (key.as_ref().map(Name::as_str), after.as_ref().map(Name::as_str));
    let limit = i64::try_from(*limit).unwrap_or(i64::MAX);
    let parameters = (tenant, workspace, key, after, now.millis(), limit);
    let mut rows = statement.query(parameters)?;
    let mut keys = Vec::new();
    while let Some(row) = rows.next()? {
        let mut columns = Columns::of(row);
        let mut found = FlowKeyRow {
            key: columns.name()?,
            limit: columns.take()?,
            held: columns.take::<i64>()?.unsigned_abs(),
            ready: columns.take::<i64>()?.unsigned_abs(),
            live: columns.take::<i64>()?.unsigned_abs(),
            holders: Vec::new(),
            rate: None,
            opens_at: None,
        };
        found.holders = holders_of(connection, scope, &found.key, *holders)?;
        let rate: Option<i64> = columns.take()?;
        if let Some(rate) = rate.map(|rank| Rate::of_rank(rank.unsigned_abs())) {
            let flow = FlowRef { scope: scope.clone(), key: found.key.clone() };
            found = found.with_rate(Some(rate), &flow_starts::of_key(connection, &flow)?, now);
        }
        keys.push(found);
    }
    Ok(keys)
}

fn holders_of(
    connection: &Connection,
    scope: &Scope,
    key: &Name,
    limit: usize,
) -> Read<Vec<verdict::TaskId>> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT l.id {OF_SCOPE} AND l.flow_key = ?3 AND {HOLDS}
         ORDER BY l.id LIMIT ?4"
    ))?;
    let (tenant, workspace) = (scope.tenant.as_str(), scope.workspace.as_str());
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let holders = statement
        .query_map((tenant, workspace, key.as_str(), limit), |row| Columns::of(row).task_id())?;
    holders.collect()
}
