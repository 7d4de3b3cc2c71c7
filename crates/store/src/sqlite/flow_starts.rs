//! The table of starts of flow keys with a rate. The writer decides by its own order in memory ([`super::flow_index`]), which is
//! built from this table when it opens.

use rusqlite::{Connection, params};
use verdict::flow::Starts;
use verdict::{Scope, Time};

use super::readers::Read;
use super::rows::{Columns, id_bytes};
use super::work::{StepError, Work};
use crate::flow_starts::FlowStart;
use crate::row::FlowRef;

/// How many old starts are deleted with a new one: more than one, so that a burst is gone soon after its window.
const PRUNED_PER_START: i64 = 8;

impl Work<'_> {
    pub(super) fn save_starts(&mut self, starts: &[FlowStart], now: Time) -> Result<(), StepError> {
        for start in starts {
            write(self.connection, start)?;
            prune(self.connection, now)?;
            self.memory.started(start);
        }
        Ok(())
    }
}

fn write(connection: &Connection, start: &FlowStart) -> Read<()> {
    let FlowStart { flow: FlowRef { scope, key }, task, entry, at, until } = start;
    let sql = "INSERT INTO flow_starts (tenant, workspace, flow_key, at, task, entry, until)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let (tenant, workspace) = (scope.tenant.as_str(), scope.workspace.as_str());
    let (at, until, task) = (at.millis(), until.millis(), id_bytes(*task));
    let parameters = params![tenant, workspace, key.as_str(), at, task, entry, until];
    connection.prepare_cached(sql)?.execute(parameters)?;
    Ok(())
}

fn prune(connection: &Connection, now: Time) -> Read<()> {
    let sql = "DELETE FROM flow_starts WHERE (tenant, workspace, flow_key, at, task, entry) IN
        (SELECT tenant, workspace, flow_key, at, task, entry FROM flow_starts
         WHERE until <= ?1 ORDER BY until LIMIT ?2)";
    connection.prepare_cached(sql)?.execute(params![now.millis(), PRUNED_PER_START])?;
    Ok(())
}

/// All starts that are still in their window: the key, the instant and the end of the window.
pub(super) fn all(
    connection: &Connection,
    now: Time,
    mut found: impl FnMut(&FlowRef, Time, Time),
) -> Read<()> {
    let sql = "SELECT tenant, workspace, flow_key, at, until FROM flow_starts WHERE until > ?1";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([now.millis()])?;
    while let Some(row) = rows.next()? {
        let mut columns = Columns::of(row);
        let scope = Scope { tenant: columns.name()?, workspace: columns.name()? };
        let flow = FlowRef { scope, key: columns.name()? };
        let (at, until) = (columns.take()?, columns.take()?);
        found(&flow, Time::from_millis(at), Time::from_millis(until));
    }
    Ok(())
}

/// The starts of one key.
pub(super) fn of_key(connection: &Connection, flow: &FlowRef) -> Read<Starts> {
    let FlowRef { scope, key } = flow;
    let sql = "SELECT at FROM flow_starts WHERE tenant = ?1 AND workspace = ?2 AND flow_key = ?3";
    let mut statement = connection.prepare_cached(sql)?;
    let parameters = (scope.tenant.as_str(), scope.workspace.as_str(), key.as_str());
    let starts = statement.query_map(parameters, |row| row.get(0).map(Time::from_millis))?;
    starts.collect()
}
