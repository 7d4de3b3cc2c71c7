//! Counts the unfinished runs and children of a tenant under a lock, so that no other coordinator counts at the same time.
//!
//! The row of the tenant's limits is the lock, taken before any task's row lock. Its holder sees every submission
//! that was accepted under it before. Tasks that end in the meantime only reduce the count. Tenants without a quota
//! are not counted, so they never wait for this lock.

use std::collections::HashMap;

use tokio_postgres::types::Type;
use verdict::Name;

use super::PostgresBatch;
use crate::failure::Failure;
use crate::postgres::reads::{Client, Read, set_scopes};
use crate::postgres::rows::Columns;
use crate::row::Unfinished;

const LOCK: &str = "SELECT l.tenant FROM tenure.tenant_limits l WHERE l.tenant = ANY ($1) \
    ORDER BY l.tenant COLLATE \"C\" FOR UPDATE";

/// Counts each part with the index that holds nothing else. The fourth part has the tasks of every other state. Tasks with a
/// parent are counted apart.
const COUNT: &str = "SELECT u.tenant, \
    (SELECT count(*) FROM tenure.live l WHERE l.tenant = u.tenant \
        AND l.claimable_at IS NOT NULL AND NOT l.delayed) \
    + (SELECT count(*) FROM tenure.live l WHERE l.tenant = u.tenant AND l.delayed) \
    + (SELECT count(*) FROM tenure.live l WHERE l.tenant = u.tenant AND l.state = 'running') \
    + (SELECT count(*) FROM tenure.live l WHERE l.tenant = u.tenant \
        AND l.claimable_at IS NULL AND l.state <> 'running'), \
    (SELECT count(*) FROM tenure.live l WHERE l.tenant = u.tenant AND l.parent IS NOT NULL) \
    FROM unnest($1::text[]) AS u(tenant)";

/// Statements of batches that count unfinished runs, to be prepared on direct connections.
pub(super) fn frequent_statements() -> [&'static str; 2] {
    [LOCK, COUNT]
}

impl PostgresBatch<'_> {
    pub(in crate::postgres) async fn count_unfinished(
        &mut self,
        tenants: &[Name],
    ) -> Result<Vec<Unfinished>, Failure> {
        let setting = self.scopes.all();
        let asked: Vec<String> = tenants.iter().map(|name| name.as_str().to_owned()).collect();
        let work = move |client: Client| async move {
            set_scopes(&client, setting).await?;
            client.query_typed(LOCK, &[(&asked, Type::TEXT_ARRAY)]).await?;
            // Not sent together with the lock: the count must see commits that happened while the lock was awaited.
            counted(&client, &asked).await
        };
        let counted = self.transaction().run("counting unfinished runs", work).await?;
        Ok(tenants.iter().map(|name| counted.get(name).copied().unwrap_or_default()).collect())
    }
}

pub(in crate::postgres) async fn counted(
    client: &Client,
    tenants: &[String],
) -> Read<HashMap<Name, Unfinished>> {
    let rows = client.query_typed(COUNT, &[(&tenants, Type::TEXT_ARRAY)]).await?;
    let read = |row: &tokio_postgres::Row| {
        let mut columns = Columns::of(row);
        let tenant = columns.name()?;
        let tasks = columns.take::<i64>()?.unsigned_abs();
        let children = columns.take::<i64>()?.unsigned_abs();
        Ok((tenant, Unfinished { runs: tasks.saturating_sub(children), children }))
    };
    rows.iter().map(read).collect()
}
