//! Lists of flow keys for people.

use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use verdict::flow::rate::RATE_COUNT_MAX;
use verdict::flow::{Rate, Starts};
use verdict::{Name, TaskId, Time};

use super::statements::{holds, wants};
use crate::postgres::connection::session;
use crate::postgres::reads::{Client, Read, as_limit};
use crate::postgres::rows::Columns;
use crate::row::{FlowFilter, FlowKeyRow};

const LIST: &str = concat!(
    "SELECT k.*, \
        ARRAY(SELECT s.at FROM tenure.flow_starts s WHERE s.tenant = $1 AND s.workspace = $2 \
        AND s.flow_key = k.flow_key AND k.flow_rate IS NOT NULL ORDER BY s.at DESC LIMIT $8), \
        ARRAY(SELECT l.id FROM tenure.live l WHERE l.tenant = $1 \
        AND l.workspace = $2 AND l.flow_key = k.flow_key \
        AND ",
    holds!(),
    " \
        ORDER BY l.id LIMIT $7) \
    FROM (SELECT l.flow_key, min(l.flow_limit), count(*) FILTER (WHERE ",
    holds!(),
    "), \
            count(*) FILTER (WHERE l.claimable_at <= $5 AND ",
    wants!(),
    "), \
            count(*), max(l.flow_rate) AS flow_rate \
        FROM tenure.live l WHERE l.tenant = $1 AND l.workspace = $2 AND l.flow_key IS NOT NULL \
            AND ($3::text IS NULL OR l.flow_key = $3) AND ($4::text IS NULL OR l.flow_key > $4) \
        GROUP BY l.flow_key ORDER BY l.flow_key LIMIT $6) k ORDER BY k.flow_key"
);

pub(in crate::postgres) async fn list(
    client: &Client,
    filter: &FlowFilter,
    now: Time,
) -> Read<Vec<FlowKeyRow>> {
    let FlowFilter { scope, key, after, limit, holders } = filter;
    let (tenant, workspace) = (scope.tenant.as_str(), scope.workspace.as_str());
    let (key, after) = (key.as_ref().map(Name::as_str), after.as_ref().map(Name::as_str));
    let (at, limit, holders) = (now.millis(), as_limit(*limit), as_limit(*holders));
    let most = i64::from(RATE_COUNT_MAX);
    let parameters: [(&(dyn ToSql + Sync), Type); 8] = [
        (&tenant, Type::TEXT),
        (&workspace, Type::TEXT),
        (&key, Type::TEXT),
        (&after, Type::TEXT),
        (&at, Type::INT8),
        (&limit, Type::INT8),
        (&holders, Type::INT8),
        (&most, Type::INT8),
    ];
    let (allowed, rows) = futures_util::join!(
        client.batch_execute(session::WHOLE_TABLES),
        client.query_typed(LIST, &parameters)
    );
    allowed?;
    rows?.iter().map(|row| read(row, now)).collect()
}

fn read(row: &Row, now: Time) -> Read<FlowKeyRow> {
    let mut columns = Columns::of(row);
    let (key, limit) = (columns.name()?, columns.optional_count()?.unwrap_or(0));
    let count = |columns: &mut Columns<'_>| columns.take::<i64>().map(i64::unsigned_abs);
    let (held, ready) = (count(&mut columns)?, count(&mut columns)?);
    let live = count(&mut columns)?;
    let (rank, starts): (Option<i64>, Vec<i64>) = (columns.take()?, columns.take()?);
    let rate = rank.map(|rank| Rate::of_rank(rank.unsigned_abs()));
    let starts: Starts = starts.into_iter().map(Time::from_millis).collect();
    let holders: Vec<Vec<u8>> = columns.take()?;
    let id = |bytes: Vec<u8>| <[u8; 16]>::try_from(bytes).ok().map(u128::from_be_bytes);
    let holders = holders.into_iter().filter_map(id).map(TaskId::from_u128).collect();
    let row = FlowKeyRow { key, limit, held, ready, live, holders, rate: None, opens_at: None };
    Ok(row.with_rate(rate, &starts, now))
}
