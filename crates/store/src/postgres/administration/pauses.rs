//! Paused queues in the database, which coordinators share.
//!
//! Each process caches them with their version, a number that grows with every change. The marker of every batch names
//! the version that the batch was given, and the batch commits only if it is the current one
//! ([`crate::postgres::batch::commit`]). That costs a busy store nothing.
//!
//! The check alone does not order a commit after a pause: a batch may pass it just before the pause is committed, and
//! commit just after. So the act that changes pauses ends by waiting for the batches that may have passed the check
//! ([`wait_for_batches`]).

use std::sync::{Arc, RwLock};
use std::time::Duration;

use tokio_postgres::types::{ToSql, Type};

use super::Parameter;
use crate::failure::{CommitFailure, Failure, FailureKind};
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

/// Waits until every batch that may have been given other pauses has ended. A batch that writes holds a lock on the
/// table of markers until it ends, so a lock that excludes it is granted after the last of them. A batch that comes
/// later takes its lock first and looks at the version afterwards, and so sees the new one.
const WAIT_FOR_BATCHES: &str = "LOCK TABLE tenure.batches IN SHARE MODE";

/// Each try waits up to the lock timeout of the session, two seconds, in which no batch can commit. The pause in
/// between lets waiting batches commit. A caller that learns that this was not enough repeats the call, and waits again.
const WAIT_TRIES: usize = 3;
const WAIT_PAUSE: Duration = Duration::from_millis(100);

/// Makes a change of pauses effective for every coordinator, after it is committed.
pub(in crate::postgres) async fn take_effect(shared: &Arc<Shared>) -> Result<(), CommitFailure> {
    let mut tries = 1;
    loop {
        let wait = |client: Client| async move {
            client.execute_typed(WAIT_FOR_BATCHES, &[]).await?;
            Ok(())
        };
        match shared.in_own_transaction("waiting for batches under way", wait).await {
            Ok(()) => break,
            Err(_) if tries < WAIT_TRIES => tries += 1,
            Err(CommitFailure::RolledBack(failure) | CommitFailure::Unknown(failure)) => {
                let what = "the change is stored, but a batch that began before it may still be under way; repeat the call";
                let failure = Failure::new(FailureKind::Unavailable, what).because(failure);
                return Err(CommitFailure::Unknown(failure));
            }
        }
        tokio::time::sleep(WAIT_PAUSE).await;
    }
    // If this fails, the next batch finds the version changed and reads again.
    if let Err(error) = refresh(shared).await {
        tracing::debug!(%error, "cannot read the paused queues yet");
    }
    Ok(())
}
