//! Deletes tasks that ended long ago. Write-once rows leave the database in no other way.

use std::collections::HashSet;

use tokio_postgres::types::{ToSql, Type};
use verdict::{ObjectKey, Retention, TaskId, Time};

use crate::failure::Failure;
use crate::objects::names;
use crate::postgres::batch::PostgresBatch;
use crate::postgres::errors::invalid;
use crate::postgres::reads::{Client, Read, as_limit, set_scopes};
use crate::postgres::rows::{Columns, id_bytes};
use crate::row::{EndedPosition, EndedTask};

impl PostgresBatch<'_> {
    pub(in crate::postgres) async fn list_ended(
        &mut self,
        after: Option<EndedPosition>,
        limit: usize,
    ) -> Result<Vec<EndedTask>, Failure> {
        let setting = self.scopes.all();
        // Tasks that this batch deletes are still in the table.
        let enough = limit.saturating_add(self.forgotten.len());
        let work = move |client: Client| async move {
            let (set, ended) = futures_util::join!(
                set_scopes(&client, setting),
                list_ended(&client, after, enough)
            );
            set?;
            ended
        };
        let mut ended = self.transaction().run("looking at ended tasks", work).await?;
        ended.retain(|ended| !self.forgotten.contains(&TaskId::from_u128(ended.position.0)));
        ended.truncate(limit);
        Ok(ended)
    }

    /// Checks now, deletes with the commit.
    pub(in crate::postgres) async fn forget_ended(
        &mut self,
        positions: &[EndedPosition],
    ) -> Result<(), Failure> {
        let now = self.read_clock().await?;
        let ids: Vec<TaskId> =
            positions.iter().map(|position| TaskId::from_u128(position.0)).collect();
        let setting = self.scopes.all();
        let asked = ids.clone();
        let work = move |client: Client| async move {
            let (set, old) =
                futures_util::join!(set_scopes(&client, setting), old(&client, &asked, now));
            set?;
            old
        };
        let old = self.transaction().run("looking at ended tasks", work).await?;
        let is_ours = |id: &TaskId| old.contains(id) && !self.forgotten.contains(id);
        if !ids.iter().all(is_ours) {
            return Err(invalid("only runs that ended at least a day ago can be deleted"));
        }
        self.forgotten.extend(ids);
        Ok(())
    }
}

async fn list_ended(
    client: &Client,
    after: Option<EndedPosition>,
    limit: usize,
) -> Read<Vec<EndedTask>> {
    let after = after.map_or(Vec::new(), |position| position.0.to_be_bytes().to_vec());
    let limit = as_limit(limit);
    let sql = "SELECT d.id, i.created_at, d.completed_at FROM tenure.done d \
        JOIN tenure.inputs i ON i.id = d.id WHERE d.id > $1 AND i.parent IS NULL ORDER BY d.id LIMIT $2";
    let parameters: [(&(dyn ToSql + Sync), Type); 2] =
        [(&after, Type::BYTEA), (&limit, Type::INT8)];
    let rows = client.query_typed(sql, &parameters).await?;
    let read = |row: &tokio_postgres::Row| {
        let mut columns = Columns::of(row);
        Ok(EndedTask {
            position: EndedPosition(columns.u128_bytes()?),
            created_at: columns.time()?,
            completed_at: columns.time()?,
            has_pending_objects: false,
        })
    };
    let ended: Read<Vec<EndedTask>> = rows.iter().map(read).collect();
    with_pending_objects(client, ended?).await
}

/// The same, with what is known of their objects.
async fn with_pending_objects(client: &Client, mut ended: Vec<EndedTask>) -> Read<Vec<EndedTask>> {
    let ids = || ended.iter().map(|ended| TaskId::from_u128(ended.position.0));
    let names: Vec<String> = ids().map(TaskId::run_name).collect();
    let ids = bytes(&ids().collect::<Vec<_>>());
    let sql = "SELECT DISTINCT o.parent FROM tenure.inputs i JOIN tenure.objects o \
        ON o.tenant = i.tenant AND o.workspace = i.workspace AND o.parent = ANY ($2) AND o.pending \
        WHERE i.id = ANY ($1)";
    let parameters: [(&(dyn ToSql + Sync), Type); 2] =
        [(&ids, Type::BYTEA_ARRAY), (&names, Type::TEXT_ARRAY)];
    let mut pending = HashSet::new();
    for row in &client.query_typed(sql, &parameters).await? {
        pending.insert(Columns::of(row).take::<String>()?);
    }
    for (ended, name) in ended.iter_mut().zip(&names) {
        ended.has_pending_objects = pending.contains(name);
    }
    Ok(ended)
}

/// Which of these ended long enough ago.
async fn old(client: &Client, ids: &[TaskId], now: Time) -> Read<HashSet<TaskId>> {
    let ids = bytes(ids);
    let sql = "SELECT d.id, d.completed_at FROM tenure.done d JOIN tenure.inputs i ON i.id = d.id \
        WHERE d.id = ANY ($1) AND i.parent IS NULL";
    let rows = client.query_typed(sql, &[(&ids, Type::BYTEA_ARRAY)]).await?;
    let mut old = HashSet::new();
    for row in &rows {
        let mut columns = Columns::of(row);
        let (id, completed_at) = (columns.task_id()?, columns.time()?);
        if completed_at.plus(Retention::AGE_MIN).has_come(now) {
            old.insert(id);
        }
    }
    Ok(old)
}

fn bytes(ids: &[TaskId]) -> Vec<Vec<u8>> {
    ids.iter().map(|id| id_bytes(*id).to_vec()).collect()
}

/// Every row of these tasks, the key included if it is still theirs.
const DELETES: [&str; 15] = [
    "DELETE FROM tenure.keys k USING tenure.inputs i WHERE i.id = ANY ($1) AND k.tenant = i.tenant \
        AND k.workspace = i.workspace AND k.key = i.key AND k.task = i.id",
    "DELETE FROM tenure.history WHERE task = ANY ($1)",
    "DELETE FROM tenure.attempts WHERE task = ANY ($1)",
    "DELETE FROM tenure.refused WHERE task = ANY ($1)",
    "DELETE FROM tenure.checkpoints WHERE task = ANY ($1)",
    "DELETE FROM tenure.children WHERE task = ANY ($1)",
    "DELETE FROM tenure.signals WHERE task = ANY ($1)",
    "DELETE FROM tenure.logs WHERE task = ANY ($1)",
    "DELETE FROM tenure.waits WHERE task = ANY ($1)",
    "DELETE FROM tenure.missing_upstreams WHERE task = ANY ($1)",
    "DELETE FROM tenure.edges WHERE task = ANY ($1)",
    "DELETE FROM tenure.steps WHERE task = ANY ($1)",
    "DELETE FROM tenure.messages WHERE addressee = ANY ($1)",
    "DELETE FROM tenure.done WHERE id = ANY ($1)",
    "DELETE FROM tenure.inputs WHERE id = ANY ($1)",
];

/// The objects of these runs. Ids of runs are unique across scopes.
const OBJECT_DELETES: [&str; 2] = [
    "DELETE FROM tenure.object_log WHERE parent = ANY ($1)",
    "DELETE FROM tenure.objects WHERE parent = ANY ($1)",
];

/// These runs and all tasks that belong to them. None of those is live: a task with live children does not end.
async fn with_descendants(client: &Client, ids: &[TaskId]) -> Read<Vec<Vec<u8>>> {
    let mut ids = bytes(ids);
    let sql = "SELECT i.id FROM tenure.inputs i WHERE i.root = ANY ($1)";
    let rows = client.query_typed(sql, &[(&ids, Type::BYTEA_ARRAY)]).await?;
    for row in &rows {
        ids.push(Columns::of(row).take()?);
    }
    Ok(ids)
}

const SHORTEN_LOG: &str = "DELETE FROM tenure.object_log WHERE tenant = $1 AND workspace = $2 \
    AND object_type = $3 AND id = $4 AND revision < $5";

const FORGETTING_ON: &str = "SELECT set_config('tenure.forgetting', 'on', true)";
const FORGETTING_OFF: &str = "SELECT set_config('tenure.forgetting', 'off', true)";

/// Statements that batches with objects repeat, to be prepared on direct connections.
pub(in crate::postgres) fn frequent_statements() -> [&'static str; 3] {
    [FORGETTING_ON, SHORTEN_LOG, FORGETTING_OFF]
}

/// Deletes the entries of an object's log before this revision. The trigger that keeps logs is told so, and told again.
pub(in crate::postgres) async fn shorten_log(
    client: &Client,
    key: &ObjectKey,
    first: u32,
) -> Read<()> {
    let [tenant, workspace, object_type, id] = names(key);
    let first = i32::try_from(first).unwrap_or(i32::MAX);
    let parameters: [(&(dyn ToSql + Sync), Type); 5] = [
        (&tenant, Type::TEXT),
        (&workspace, Type::TEXT),
        (&object_type, Type::TEXT),
        (&id, Type::TEXT),
        (&first, Type::INT4),
    ];
    client.query_typed(FORGETTING_ON, &[]).await?;
    client.execute_typed(SHORTEN_LOG, &parameters).await?;
    client.query_typed(FORGETTING_OFF, &[]).await?;
    Ok(())
}

pub(in crate::postgres) async fn delete(
    client: &Client,
    setting: Option<String>,
    ids: &[TaskId],
) -> Read<()> {
    if ids.is_empty() {
        return Ok(());
    }
    set_scopes(client, setting).await?;
    client.query_typed(FORGETTING_ON, &[]).await?;
    let runs: Vec<String> = ids.iter().map(|id| id.run_name()).collect();
    let ids = with_descendants(client, ids).await?;
    for sql in OBJECT_DELETES {
        client.execute_typed(sql, &[(&runs, Type::TEXT_ARRAY)]).await?;
    }
    for sql in DELETES {
        client.execute_typed(sql, &[(&ids, Type::BYTEA_ARRAY)]).await?;
    }
    Ok(())
}
