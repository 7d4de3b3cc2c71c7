//! What runs used, by workspace and day. There is one writer, so a sum is one row.

use rusqlite::{Connection, OptionalExtension, params};
use verdict::scope_budget::Day;
use verdict::{Amounts, Scope};

use super::batch::SqliteBatch;
use super::readers::Read;
use super::work::{StepError, Work};
use crate::failure::Failure;
use crate::spend::{SpendQuery, SpendRow, add, amounts, cells};

impl SqliteBatch<'_> {
    pub(super) fn load_spend(&mut self, wanted: &[SpendQuery]) -> Result<Vec<Amounts>, Failure> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        self.step("adding up what was used", |work| Ok(sums(work.connection, wanted)?))
    }
}

impl Work<'_> {
    pub(super) fn save_spend(&mut self, rows: &[SpendRow]) -> Result<(), StepError> {
        for SpendRow { scope, day, amounts: more } in rows {
            let sum = add(on_day(self.connection, scope, *day)?, *more);
            write(self.connection, scope, *day, sum)?;
        }
        Ok(())
    }
}

fn write(connection: &Connection, scope: &Scope, day: Day, sum: Amounts) -> Read<()> {
    let sql = "INSERT INTO spend (tenant, workspace, day, cost_micros, tokens, steps, tool_calls)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
        ON CONFLICT (tenant, workspace, day) DO UPDATE SET cost_micros = excluded.cost_micros,
            tokens = excluded.tokens, steps = excluded.steps, tool_calls = excluded.tool_calls";
    let [cost, tokens, steps, tools] = cells(sum);
    let (tenant, workspace) = (scope.tenant.as_str(), scope.workspace.as_str());
    let parameters = params![tenant, workspace, day.0, cost, tokens, steps, tools];
    connection.prepare_cached(sql)?.execute(parameters)?;
    Ok(())
}

fn on_day(connection: &Connection, scope: &Scope, day: Day) -> Read<Amounts> {
    let sql = "SELECT cost_micros, tokens, steps, tool_calls FROM spend
        WHERE tenant = ?1 AND workspace = ?2 AND day = ?3";
    let parameters = params![scope.tenant.as_str(), scope.workspace.as_str(), day.0];
    let found = connection.prepare_cached(sql)?.query_row(parameters, |row| read(row, 0));
    Ok(found.optional()?.unwrap_or_default())
}

fn read(row: &rusqlite::Row<'_>, first: usize) -> Read<Amounts> {
    Ok(amounts([row.get(first)?, row.get(first + 1)?, row.get(first + 2)?, row.get(first + 3)?]))
}

/// The sum of each scope. Added up here, because the database's sum fails where it does not fit.
pub(super) fn sums(connection: &Connection, wanted: &[SpendQuery]) -> Read<Vec<Amounts>> {
    let sql = "SELECT cost_micros, tokens, steps, tool_calls FROM spend
        WHERE tenant = ?1 AND workspace = ?2 AND day >= ?3";
    let mut statement = connection.prepare_cached(sql)?;
    let mut sums = Vec::with_capacity(wanted.len());
    for SpendQuery { scope, since } in wanted {
        let parameters = params![scope.tenant.as_str(), scope.workspace.as_str(), since.0];
        let mut sum = Amounts::default();
        for row in statement.query_map(parameters, |row| read(row, 0))? {
            sum = add(sum, row?);
        }
        sums.push(sum);
    }
    Ok(sums)
}

/// A page of all rows, in the order of scopes and days.
pub(super) fn rows(
    connection: &Connection,
    after: Option<&(Scope, Day)>,
    limit: usize,
) -> Read<Vec<SpendRow>> {
    let sql = "SELECT tenant, workspace, day, cost_micros, tokens, steps, tool_calls FROM spend
        WHERE (tenant, workspace, day) > (?1, ?2, ?3) ORDER BY tenant, workspace, day LIMIT ?4";
    let (tenant, workspace, day) = after.map_or(("", "", -1), |(scope, day)| {
        (scope.tenant.as_str(), scope.workspace.as_str(), i64::from(day.0))
    });
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_map(params![tenant, workspace, day, limit], |row| {
        let scope = Scope::new(row.get::<_, String>(0)?, row.get::<_, String>(1)?);
        Ok(SpendRow { scope, day: Day(row.get(2)?), amounts: read(row, 3)? })
    })?;
    found.collect()
}
