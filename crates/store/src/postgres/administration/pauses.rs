//! Paused queues in the database, which coordinators share.
//!
//! Each process caches them with their version, a number that grows with every change, of an endpoint too: what a
//! coordinator knows of endpoints belongs to the same version ([`crate::Batch::settings_version`]). The marker of every batch names
//! the version that the batch was given, and the batch commits only if it is the current one
//! ([`crate::postgres::batch::commit`]). That costs a busy store nothing.
//!
//! The check alone does not order a commit after a pause: a batch may pass it just before the pause is committed, and
//! commit just after. So a pause is in force after the batches that may have passed the check have ended
//! ([`wait_for_batches`]).

use std::collections::HashSet;
use std::sync::RwLock;
use std::time::Duration;

use tokio_postgres::types::{ToSql, Type};

use super::Parameter;
use crate::failure::{Failure, FailureKind};
use crate::pauses::{PauseChange, PausedQueues, QueuePause};
use crate::postgres::Shared;
use crate::postgres::reads::{Client, Read};
use crate::postgres::rows::Columns;

/// The paused queues and their version, as last read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::postgres) struct Known {
    pub(in crate::postgres) version: i64,
    pub(in crate::postgres) paused: PausedQueues,
}

#[derive(Default)]
pub(in crate::postgres) struct PauseCache {
    known: RwLock<Known>,
}

impl PauseCache {
    pub(in crate::postgres) fn get(&self) -> Known {
        self.known.read().expect("no code panics while it holds the pauses").clone()
    }

    /// Records what was read. The version may be lower than before: a failover that lost a change of pauses also lost
    /// its version. Returns whether anything changed.
    pub(in crate::postgres) fn observe(&self, read: Known) -> bool {
        let mut known = self.known.write().expect("no code panics while it holds the pauses");
        let is_new = *known != read;
        *known = read;
        is_new
    }

    /// Records that a batch of this process has raised the version that it was given.
    pub(in crate::postgres) fn raised(&self, given: i64) {
        let mut known = self.known.write().expect("no code panics while it holds the pauses");
        if known.version == given {
            known.version += 1;
        }
    }
}

pub(super) async fn write(client: &Client, changes: &[PauseChange]) -> Read<()> {
    if changes.is_empty() {
        return Ok(());
    }
    for change in changes {
        match change {
            PauseChange::Pause(pause) => insert(client, pause).await?,
            PauseChange::Resume { scope, queue } => {
                let sql = "DELETE FROM tenure.paused_queues \
                    WHERE tenant = $1 AND workspace = $2 AND queue = $3";
                let names = [scope.tenant.as_str(), scope.workspace.as_str(), queue.as_str()];
                let parameters: [Parameter<'_>; 3] =
                    names.each_ref().map(|name| (name as &(dyn ToSql + Sync), Type::TEXT));
                client.execute_typed(sql, &parameters).await?;
            }
        }
    }
    raise(client).await
}

/// Raises the version, in the transaction of a change. Waits for another one that does the same.
pub(in crate::postgres) async fn raise(client: &Client) -> Read<()> {
    client.execute_typed("UPDATE tenure.meta SET pauses = pauses + 1", &[]).await?;
    Ok(())
}

async fn insert(client: &Client, pause: &QueuePause) -> Read<()> {
    let sql = "INSERT INTO tenure.paused_queues (tenant, workspace, queue, at, by, reason) \
        VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (tenant, workspace, queue) DO UPDATE \
        SET at = excluded.at, by = excluded.by, reason = excluded.reason";
    let QueuePause { scope, queue, at, by, reason } = pause;
    let (tenant, workspace) = (scope.tenant.as_str(), scope.workspace.as_str());
    let (queue, at, by) = (queue.as_str(), at.millis(), by.as_str());
    let reason = reason.as_ref().map(|reason| reason.as_str());
    let parameters: [Parameter<'_>; 6] = [
        (&tenant, Type::TEXT),
        (&workspace, Type::TEXT),
        (&queue, Type::TEXT),
        (&at, Type::INT8),
        (&by, Type::TEXT),
        (&reason, Type::TEXT),
    ];
    client.execute_typed(sql, &parameters).await?;
    Ok(())
}

/// One statement, so that the rows belong to the version.
const READ: &str = "SELECT m.pauses, p.tenant, p.workspace, p.queue, p.at, p.by, p.reason \
    FROM tenure.meta m LEFT JOIN tenure.paused_queues p ON true";

pub(in crate::postgres) async fn read(client: &tokio_postgres::Client) -> Read<Known> {
    let rows = client.query_typed(READ, &[]).await?;
    let mut version = 0;
    let mut pauses = Vec::new();
    for row in &rows {
        let mut columns = Columns::of(row);
        version = columns.take()?;
        let Some(tenant) = columns.optional_name()? else { continue };
        pauses.push(QueuePause {
            scope: verdict::Scope { tenant, workspace: columns.name()? },
            queue: columns.name()?,
            at: columns.time()?,
            by: columns.name()?,
            reason: columns.optional_text()?,
        });
    }
    Ok(Known { version, paused: pauses.into_iter().collect() })
}

/// Reads the paused queues, for the batches of this process. Wakes the writer that grants if they changed.
pub(in crate::postgres) async fn refresh(shared: &Shared) -> Result<PausedQueues, Failure> {
    let look = |client: Client| async move { read(&client).await };
    let known = shared.read_upkeep("reading the paused queues", look).await?;
    let paused = known.paused.clone();
    if shared.pauses.observe(known) {
        shared.hints.notify_local();
    }
    Ok(paused)
}

/// Transactions that hold the lock of a writing batch on the table of markers. A batch takes it with its marker, before it
/// looks at the version, and holds it until it ends.
const BATCHES_UNDER_WAY: &str = "SELECT l.virtualtransaction FROM pg_locks l \
    JOIN pg_database d ON d.oid = l.database AND d.datname = current_database() \
    WHERE l.relation = 'tenure.batches'::regclass AND l.mode = 'RowExclusiveLock' AND l.granted";

/// How often to look whether they have ended. A batch takes milliseconds.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// How often at most: six seconds, longer than any batch that makes progress. A caller that learns that this was not
/// enough repeats the call, and waits again.
const LOOKS_MAX: usize = 300;

/// Waits until every batch that may have been given another version than the one now stored has ended. No batch waits for this:
/// the transactions under way are listed once, and only those are looked for again. A batch that is not among them takes
/// its lock later, looks at the version after that, and so sees the new one.
pub(in crate::postgres) async fn wait_for_batches(shared: &Shared) -> Result<(), Failure> {
    let mut waited_for = batches_under_way(shared).await?;
    for _ in 0..LOOKS_MAX {
        if waited_for.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
        let under_way = batches_under_way(shared).await?;
        waited_for.retain(|batch| under_way.contains(batch));
    }
    let what =
        format!("{} batches that began before the change are still under way", waited_for.len());
    Err(Failure::new(FailureKind::Unavailable, what))
}

async fn batches_under_way(shared: &Shared) -> Result<HashSet<String>, Failure> {
    let look = |client: Client| async move {
        let rows = client.query_typed(BATCHES_UNDER_WAY, &[]).await?;
        let holders = rows.iter().map(|row| Ok(Columns::of(row).take::<String>()?));
        holders.collect()
    };
    shared.read_upkeep("looking for batches under way", look).await
}
