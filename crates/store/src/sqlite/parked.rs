//! How many tasks of each queue wait for a slot or a start of their flow key and for nothing else, for lists and metrics.
//!
//! The writer knows this from its own order in memory ([`super::flow_index`]). Readers have only the tables, and compute it by
//! the same rule: of each line (a kind of a queue), as many tasks are offered as the key has free slots. Only tasks with a key
//! are read here.

use std::collections::HashMap;

use rusqlite::Connection;
use verdict::flow::{KeyUse, Rate, RateUse};
use verdict::{Name, Scope, Time};

use super::flow_keys::HOLDS;
use super::flow_starts;
use super::readers::Read;
use super::rows::{Columns, QUEUE};
use crate::row::{FlowRef, QueueDepth};

/// The tasks that wait for no slot: without a key, or with the slot that they keep for life.
pub(super) const NEEDS_NO_SLOT: &str =
    "(l.flow_key IS NULL OR (l.flow_life IS NOT NULL AND l.attempt > 0))";

/// Claimable tasks of one line that need a slot of one key.
struct Line {
    scope: Scope,
    queue: Name,
    key: Name,
    claimable: u64,
    oldest_at: Time,
}

/// Adds the tasks that need a slot to the queues, as ready or parked.
pub(super) fn count(
    connection: &Connection,
    scope: Option<&Scope>,
    now: Time,
    depths: &mut [QueueDepth],
) -> Read<()> {
    let lines = lines(connection, scope, now)?;
    if lines.is_empty() {
        return Ok(());
    }
    let uses = uses(connection, scope, now)?;
    for Line { scope, queue, key, claimable, oldest_at } in lines {
        let free = uses.get(&FlowRef { scope: scope.clone(), key }).map_or(0, |use_| use_.free());
        let offered = claimable.min(u64::from(free));
        let is_it = |depth: &&mut QueueDepth| depth.scope == scope && depth.queue == queue;
        let Some(depth) = depths.iter_mut().find(is_it) else { continue };
        depth.ready += offered;
        depth.parked += claimable - offered;
        if offered > 0 {
            let oldest = depth.oldest_ready_at;
            depth.oldest_ready_at = Some(oldest.map_or(oldest_at, |at| at.min(oldest_at)));
        }
    }
    Ok(())
}

fn lines(connection: &Connection, scope: Option<&Scope>, now: Time) -> Read<Vec<Line>> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT n.tenant, n.workspace, {QUEUE}, l.flow_key, count(*), min(l.claimable_at)
         FROM live l JOIN lanes n ON n.lane = l.lane
         WHERE l.flow_key IS NOT NULL AND l.claimable_at <= ?1 AND NOT {HOLDS}
           AND (?2 IS NULL OR n.tenant = ?2) AND (?3 IS NULL OR n.workspace = ?3)
         GROUP BY l.lane, l.flow_key"
    ))?;
    let tenant = scope.map(|scope| scope.tenant.as_str());
    let workspace = scope.map(|scope| scope.workspace.as_str());
    let lines = statement.query_map((now.millis(), tenant, workspace), |row| {
        let mut columns = Columns::of(row);
        Ok(Line {
            scope: columns.scope()?,
            queue: columns.name()?,
            key: columns.name()?,
            claimable: columns.take::<i64>()?.unsigned_abs(),
            oldest_at: columns.take().map(Time::from_millis)?,
        })
    })?;
    lines.collect()
}

fn uses(
    connection: &Connection,
    scope: Option<&Scope>,
    now: Time,
) -> Read<HashMap<FlowRef, KeyUse>> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT n.tenant, n.workspace, l.flow_key, min(l.flow_limit), count(*) FILTER (WHERE {HOLDS}),
            max(l.flow_rate)
         FROM live l JOIN lanes n ON n.lane = l.lane
         WHERE l.flow_key IS NOT NULL
           AND (?1 IS NULL OR n.tenant = ?1) AND (?2 IS NULL OR n.workspace = ?2)
         GROUP BY 1, 2, 3"
    ))?;
    let tenant = scope.map(|scope| scope.tenant.as_str());
    let workspace = scope.map(|scope| scope.workspace.as_str());
    let mut rows = statement.query((tenant, workspace))?;
    let mut uses = HashMap::new();
    while let Some(row) = rows.next()? {
        let mut columns = Columns::of(row);
        let flow = FlowRef { scope: columns.scope()?, key: columns.name()? };
        let (limit, held) = (columns.take()?, columns.take()?);
        let rate: Option<i64> = columns.take()?;
        let rate = match rate.map(|rank| Rate::of_rank(rank.unsigned_abs())) {
            Some(rate) => Some(RateUse::of(rate, &flow_starts::of_key(connection, &flow)?, now)),
            None => None,
        };
        uses.insert(flow, KeyUse { limit, held, rate });
    }
    Ok(uses)
}
