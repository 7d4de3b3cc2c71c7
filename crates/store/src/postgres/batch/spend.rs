//! What runs used, by workspace and day.
//!
//! A batch adds to the rows of its committer's slot, in its last round trip and in the order of keys. Two committers of one slot
//! wait for each other there, and hold nothing that a third one waits for except what follows in the same order.

use std::collections::BTreeMap;

use tokio_postgres::types::{ToSql, Type};
use verdict::scope_budget::Day;
use verdict::{Amounts, Scope};

use super::PostgresBatch;
use crate::failure::Failure;
use crate::postgres::reads::{Client, Read, as_limit, set_scopes};
use crate::postgres::rows::Columns;
use crate::spend::{SpendQuery, SpendRow, add, amounts, cells};

/// Rows per scope and day: more than the committers of most installations, few enough to be added up at every submission.
const SLOTS: u8 = 16;

/// A sum that does not fit stays at the largest number.
const ADD: &str = "INSERT INTO tenure.spend AS s (tenant, workspace, day, slot, cost_micros, tokens, steps, tool_calls) \
    SELECT u.tenant, u.workspace, u.day, $8::int2, u.cost_micros, u.tokens, u.steps, u.tool_calls \
    FROM unnest($1::text[], $2::text[], $3::int4[], $4::int8[], $5::int8[], $6::int8[], $7::int8[]) \
        AS u(tenant, workspace, day, cost_micros, tokens, steps, tool_calls) \
    ORDER BY u.tenant COLLATE \"C\", u.workspace COLLATE \"C\", u.day \
    ON CONFLICT (tenant, workspace, day, slot) DO UPDATE SET \
        cost_micros = least(s.cost_micros::numeric + excluded.cost_micros, 9223372036854775807)::int8, \
        tokens = least(s.tokens::numeric + excluded.tokens, 9223372036854775807)::int8, \
        steps = least(s.steps::numeric + excluded.steps, 9223372036854775807)::int8, \
        tool_calls = least(s.tool_calls::numeric + excluded.tool_calls, 9223372036854775807)::int8";

const SUMS: &str = "SELECT \
    least(coalesce(sum(s.cost_micros), 0), 9223372036854775807)::int8, \
    least(coalesce(sum(s.tokens), 0), 9223372036854775807)::int8, \
    least(coalesce(sum(s.steps), 0), 9223372036854775807)::int8, \
    least(coalesce(sum(s.tool_calls), 0), 9223372036854775807)::int8 \
    FROM unnest($1::text[], $2::text[], $3::int4[]) WITH ORDINALITY AS u(tenant, workspace, since, n) \
    LEFT JOIN tenure.spend s ON s.tenant = u.tenant AND s.workspace = u.workspace AND s.day >= u.since \
    GROUP BY u.n ORDER BY u.n";

const ROWS: &str = "SELECT s.tenant, s.workspace, s.day, \
    least(sum(s.cost_micros), 9223372036854775807)::int8, least(sum(s.tokens), 9223372036854775807)::int8, \
    least(sum(s.steps), 9223372036854775807)::int8, least(sum(s.tool_calls), 9223372036854775807)::int8 \
    FROM tenure.spend s WHERE (s.tenant, s.workspace, s.day) > ($1, $2, $3) \
    GROUP BY s.tenant, s.workspace, s.day ORDER BY s.tenant, s.workspace, s.day LIMIT $4";

/// Statements of batches that add up what runs used, to be prepared on direct connections.
pub(super) fn frequent_statements() -> [&'static str; 2] {
    [ADD, SUMS]
}

/// What a batch adds, ready to be sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Additions {
    tenants: Vec<String>,
    workspaces: Vec<String>,
    days: Vec<i32>,
    amounts: [Vec<i64>; 4],
    slot: i16,
}

impl Additions {
    /// One row per scope and day: a statement may not change a row twice.
    pub(super) fn of(rows: &[SpendRow], committer: &[u8; 16]) -> Self {
        let mut sums: BTreeMap<(&Scope, Day), Amounts> = BTreeMap::new();
        for SpendRow { scope, day, amounts } in rows {
            let sum = sums.entry((scope, *day)).or_default();
            *sum = add(*sum, *amounts);
        }
        let mut additions = Self { slot: i16::from(committer[0] % SLOTS), ..Self::default() };
        for ((scope, day), amounts) in sums {
            additions.tenants.push(scope.tenant.as_str().to_owned());
            additions.workspaces.push(scope.workspace.as_str().to_owned());
            additions.days.push(i32::try_from(day.0).unwrap_or(i32::MAX));
            let columns = additions.amounts.iter_mut().zip(cells(amounts));
            columns.for_each(|(column, cell)| column.push(cell));
        }
        additions
    }

    pub(super) fn is_empty(&self) -> bool {
        self.days.is_empty()
    }

    /// There must be some.
    pub(super) async fn write(&self, client: &Client) -> Read<()> {
        let [cost, tokens, steps, tools] = &self.amounts;
        let parameters: [(&(dyn ToSql + Sync), Type); 8] = [
            (&self.tenants, Type::TEXT_ARRAY),
            (&self.workspaces, Type::TEXT_ARRAY),
            (&self.days, Type::INT4_ARRAY),
            (cost, Type::INT8_ARRAY),
            (tokens, Type::INT8_ARRAY),
            (steps, Type::INT8_ARRAY),
            (tools, Type::INT8_ARRAY),
            (&self.slot, Type::INT2),
        ];
        client.query_typed(ADD, &parameters).await?;
        Ok(())
    }
}

impl PostgresBatch<'_> {
    /// What was committed, by any writer. What this batch saved is not in it yet.
    pub(super) async fn load_spend(
        &mut self,
        wanted: &[SpendQuery],
    ) -> Result<Vec<Amounts>, Failure> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let setting = self.scopes.add(wanted.iter().map(|query| &query.scope));
        let wanted = wanted.to_vec();
        let work = move |client: Client| async move {
            let (set, sums) =
                futures_util::join!(set_scopes(&client, setting), sums(&client, &wanted));
            set?;
            sums
        };
        self.transaction().run("adding up what was used", work).await
    }
}

pub(in crate::postgres) async fn sums(
    client: &Client,
    wanted: &[SpendQuery],
) -> Read<Vec<Amounts>> {
    let tenants: Vec<&str> = wanted.iter().map(|query| query.scope.tenant.as_str()).collect();
    let workspaces: Vec<&str> = wanted.iter().map(|query| query.scope.workspace.as_str()).collect();
    let since = wanted.iter().map(|query| i32::try_from(query.since.0).unwrap_or(i32::MAX));
    let since: Vec<i32> = since.collect();
    let parameters: [(&(dyn ToSql + Sync), Type); 3] =
        [(&tenants, Type::TEXT_ARRAY), (&workspaces, Type::TEXT_ARRAY), (&since, Type::INT4_ARRAY)];
    let rows = client.query_typed(SUMS, &parameters).await?;
    rows.iter().map(|row| read(&mut Columns::of(row))).collect()
}

fn read(columns: &mut Columns<'_>) -> Read<Amounts> {
    Ok(amounts([columns.take()?, columns.take()?, columns.take()?, columns.take()?]))
}

/// A page of all sums, in the order of scopes and days.
pub(in crate::postgres) async fn rows(
    client: &Client,
    after: Option<&(Scope, Day)>,
    limit: usize,
) -> Read<Vec<SpendRow>> {
    let (tenant, workspace, day) = after.map_or(("", "", -1), |(scope, day)| {
        let day = i32::try_from(day.0).unwrap_or(i32::MAX);
        (scope.tenant.as_str(), scope.workspace.as_str(), day)
    });
    let limit = as_limit(limit);
    let parameters: [(&(dyn ToSql + Sync), Type); 4] =
        [(&tenant, Type::TEXT), (&workspace, Type::TEXT), (&day, Type::INT4), (&limit, Type::INT8)];
    let found = client.query_typed(ROWS, &parameters).await?;
    let row = |row: &tokio_postgres::Row| {
        let mut columns = Columns::of(row);
        let scope = columns.scope()?;
        let day = Day(columns.take::<i32>()?.unsigned_abs());
        Ok(SpendRow { scope, day, amounts: read(&mut columns)? })
    };
    found.iter().map(row).collect()
}
