//! The table of starts of flow keys with a rate. They are written with the grants, by a transaction that holds the key's lock.

use tokio_postgres::types::{ToSql, Type};
use verdict::Time;

use crate::flow_starts::FlowStart;
use crate::postgres::reads::{Client, Read};
use crate::postgres::rows::id_bytes;

/// How many old starts are deleted with a new one: more than one, so that a burst is gone soon after its window.
const PRUNED_PER_START: i64 = 8;

/// A task that is moved again to the same store brings the same rows.
const INSERT: &str = "INSERT INTO tenure.flow_starts \
        (tenant, workspace, flow_key, at, task, entry, until) \
    SELECT u.tenant, u.workspace, u.flow_key, u.at, u.task, u.entry, u.until \
    FROM unnest($1::text[], $2::text[], $3::text[], $4::int8[], $5::bytea[], $6::int4[], $7::int8[]) \
        AS u(tenant, workspace, flow_key, at, task, entry, until) ON CONFLICT DO NOTHING";

/// Rows that another transaction deletes are left to it.
const PRUNE: &str = "DELETE FROM tenure.flow_starts d USING \
        (SELECT s.tenant, s.workspace, s.flow_key, s.at, s.task, s.entry FROM tenure.flow_starts s \
        WHERE s.until <= $1 ORDER BY s.until LIMIT $2 FOR UPDATE SKIP LOCKED) o \
    WHERE (d.tenant, d.workspace, d.flow_key, d.at, d.task, d.entry) \
        = (o.tenant, o.workspace, o.flow_key, o.at, o.task, o.entry)";

/// Statements that batches with rates repeat, to be prepared on direct connections.
pub(super) fn frequent_statements() -> [&'static str; 2] {
    [INSERT, PRUNE]
}

/// The starts of a batch, ready to be sent.
#[derive(Clone, Debug, Default)]
pub(in crate::postgres) struct StartRows {
    tenants: Vec<String>,
    workspaces: Vec<String>,
    keys: Vec<String>,
    at: Vec<i64>,
    tasks: Vec<Vec<u8>>,
    entries: Vec<i32>,
    until: Vec<i64>,
}

impl StartRows {
    pub(in crate::postgres) fn of(starts: &[FlowStart]) -> Self {
        let mut rows = Self::default();
        for FlowStart { flow, task, entry, at, until } in starts {
            rows.tenants.push(flow.scope.tenant.as_str().to_owned());
            rows.workspaces.push(flow.scope.workspace.as_str().to_owned());
            rows.keys.push(flow.key.as_str().to_owned());
            rows.at.push(at.millis());
            rows.tasks.push(id_bytes(*task).to_vec());
            rows.entries.push(i32::try_from(*entry).unwrap_or(i32::MAX));
            rows.until.push(until.millis());
        }
        rows
    }

    pub(in crate::postgres) fn is_empty(&self) -> bool {
        self.at.is_empty()
    }

    pub(in crate::postgres) async fn insert(&self, client: &Client) -> Read<()> {
        if self.is_empty() {
            return Ok(());
        }
        let parameters: [(&(dyn ToSql + Sync), Type); 7] = [
            (&self.tenants, Type::TEXT_ARRAY),
            (&self.workspaces, Type::TEXT_ARRAY),
            (&self.keys, Type::TEXT_ARRAY),
            (&self.at, Type::INT8_ARRAY),
            (&self.tasks, Type::BYTEA_ARRAY),
            (&self.entries, Type::INT4_ARRAY),
            (&self.until, Type::INT8_ARRAY),
        ];
        client.query_typed(INSERT, &parameters).await?;
        Ok(())
    }

    /// Deletes old starts of the scopes of the batch.
    pub(in crate::postgres) async fn prune(&self, client: &Client, now: Time) -> Read<()> {
        if self.is_empty() {
            return Ok(());
        }
        let (now, most) = (now.millis(), PRUNED_PER_START.saturating_mul(self.at.len() as i64));
        client.query_typed(PRUNE, &[(&now, Type::INT8), (&most, Type::INT8)]).await?;
        Ok(())
    }
}
