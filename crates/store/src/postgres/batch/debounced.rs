//! Submissions with a debounce between coordinators: one at a time for each key, and each sees whom the one before left waiting.
//!
//! The lock of a key is an advisory lock of the transaction, taken after the locks of the tasks that requests name. It is not the
//! one that grants need: a grant is kept from a task by the task's own lock. Who waits is read after the lock, so it is whom
//! the last commit left. That task is locked only by whoever has the key: otherwise two batches would keep each other from it.

use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use verdict::{Scope, TaskId};

use super::PostgresBatch;
use crate::failure::Failure;
use crate::lookup::{DebounceQuery, DebouncedKey, Loaded, LockWait};
use crate::postgres::flows::statements::{KeyColumns, hash_for, lock_all};
use crate::postgres::reads::{self, Client, Read};
use crate::postgres::rows::Columns;
use crate::row::TaskKey;

/// There is one at most; the order only makes the answer the same each time.
const WAITING: &str = "SELECT w.id \
    FROM unnest($1::text[], $2::text[], $3::text[], $4::int8[]) \
        WITH ORDINALITY AS u(tenant, workspace, flow_key, now, n) \
    LEFT JOIN LATERAL (SELECT l.id FROM tenure.live l WHERE l.tenant = u.tenant \
        AND l.workspace = u.workspace AND l.flow_key = u.flow_key \
        AND l.debounced_until > u.now ORDER BY l.debounced_until DESC, l.id DESC LIMIT 1) w ON true \
    ORDER BY u.n";

/// Statements of batches that debounce submissions, to be prepared on direct connections.
pub(super) fn frequent_statements() -> [&'static str; 1] {
    [WAITING]
}

impl PostgresBatch<'_> {
    /// Locks the keys of submissions with a debounce, and loads the tasks that wait.
    pub(super) async fn load_debounced(
        &mut self,
        queries: &[DebounceQuery],
        lock_wait: LockWait,
    ) -> Result<Vec<DebouncedKey>, Failure> {
        if queries.is_empty() {
            return Ok(Vec::new());
        }
        let setting = self.scopes.add(queries.iter().map(|query| &query.flow.scope));
        let asked = queries.to_vec();
        let work = move |client: Client| async move {
            // In this order: who waits is read after the locks.
            let (set, locks, waiting) = futures_util::join!(
                reads::set_scopes(&client, setting),
                lock(&client, &asked, lock_wait),
                waiting(&client, &asked)
            );
            set?;
            Ok((locks?, waiting?))
        };
        let (locks, mut waiting) = self.transaction().run("locking debounced keys", work).await?;
        for (_, id) in locks.iter().zip(&mut waiting).filter(|(is_ours, _)| !**is_ours) {
            *id = None;
        }
        let key = |(query, id): (&DebounceQuery, &Option<TaskId>)| task_key(query, *id);
        let tasks: Vec<TaskKey> = queries.iter().zip(&waiting).filter_map(key).collect();
        let (loaded, _) = self.load(&tasks, lock_wait, self.run_reads(&[])).await?;
        let mut loaded = loaded.into_iter();
        let mut found = |(is_ours, id): (bool, Option<TaskId>)| {
            let task = id.map(|id| (id, loaded.next().unwrap_or(Loaded::Locked)));
            match (is_ours, task) {
                (false, _) => DebouncedKey::Locked,
                (true, None) => DebouncedKey::Nobody,
                (true, Some((id, loaded))) => DebouncedKey::Waits(id, loaded),
            }
        };
        Ok(locks.into_iter().zip(waiting).map(&mut found).collect())
    }
}

fn task_key(query: &DebounceQuery, id: Option<TaskId>) -> Option<TaskKey> {
    let scope: &Scope = &query.flow.scope;
    Some(TaskKey { scope: scope.clone(), id: id? })
}

/// Whether each lock is this batch's.
async fn lock(client: &Client, queries: &[DebounceQuery], wait: LockWait) -> Read<Vec<bool>> {
    let hash = |query: &DebounceQuery| hash_for(b"tenure debounced key", &query.flow);
    let hashes: Vec<i64> = queries.iter().map(hash).collect();
    lock_all(client, &hashes, wait).await
}

async fn waiting(client: &Client, queries: &[DebounceQuery]) -> Read<Vec<Option<TaskId>>> {
    let columns = KeyColumns::of(queries.iter().map(|query| &query.flow));
    let [tenants, workspaces, keys] = columns.parameters();
    let times: Vec<i64> = queries.iter().map(|query| query.now.millis()).collect();
    let times: (&(dyn ToSql + Sync), Type) = (&times, Type::INT8_ARRAY);
    let rows = client.query_typed(WAITING, &[tenants, workspaces, keys, times]).await?;
    let read = |row: &Row| -> Read<Option<TaskId>> {
        let bytes: Option<Vec<u8>> = Columns::of(row).take()?;
        let id = bytes.and_then(|bytes| <[u8; 16]>::try_from(bytes).ok());
        Ok(id.map(|bytes| TaskId::from_u128(u128::from_be_bytes(bytes))))
    };
    rows.iter().map(read).collect()
}
