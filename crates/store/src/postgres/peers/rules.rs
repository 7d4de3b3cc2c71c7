//! Which version of the rules is in force for the store, and how a newer one is activated.
//!
//! The version is one row that all coordinators share. This process only caches it: the marker of every batch names
//! the version that decided the batch, and the batch commits only if that version is in force. The marker is written
//! after the locks of all tasks of the batch, so no older version decides about a task after a newer one.
//!
//! Activating a version and registering a coordinator both lock that row. So a coordinator that registers is either
//! seen by the activation, or sees its result. A coordinator that was silent for so long that it was not counted
//! finds out with its next batch.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio_postgres::types::Type;
use verdict::rules::{to_activate, to_join};
use verdict::{Rules, SupportedRules, TaskId, Time};

use super::{PEER_TIMEOUT, supported_rules};
use crate::failure::{CommitFailure, Failure, FailureKind};
use crate::postgres::administration::pauses;
use crate::postgres::reads::{Client, Read};
use crate::postgres::rows::Columns;
use crate::postgres::{Shared, earlier};
use crate::rules;

/// The versions that this process supports, and the one in force, as last read.
pub(in crate::postgres) struct InForce {
    known: SupportedRules,
    number: AtomicU32,
}

impl InForce {
    pub(in crate::postgres) fn new(known: SupportedRules, number: u32) -> Self {
        Self { known, number: AtomicU32::new(number) }
    }

    pub(in crate::postgres) fn number(&self) -> u32 {
        self.number.load(Ordering::SeqCst)
    }

    pub(in crate::postgres) fn known(&self) -> SupportedRules {
        self.known
    }

    /// The version to decide by. Fails if this process does not support it.
    pub(in crate::postgres) fn rules(&self) -> Result<Rules, Failure> {
        rules::known(self.number(), self.known)
    }

    /// Records the version in force. It may be lower than before: a failover that lost the activation also lost
    /// everything that was decided by it.
    pub(in crate::postgres) fn observe(&self, number: u32) {
        let before = self.number.swap(number, Ordering::SeqCst);
        if before != number {
            tracing::info!(before, rules = number, "another version of the rules is in force");
        }
    }
}

/// The failure of a batch whose marker was refused, because other rules are in force than those that decided it, or
/// other queues are paused or endpoints known than those it was given. Reads rules and pauses first.
pub(in crate::postgres) async fn superseded(shared: &Shared) -> Failure {
    let look = |client: Client| async move {
        let (number, pauses) = futures_util::join!(read(&client), pauses::read(&client));
        Ok((number?, pauses?))
    };
    match shared.read_for_writer("reading the rules in force", look).await {
        Ok((number, known)) => {
            shared.rules.observe(number);
            shared.pauses.observe(known);
            let kind = FailureKind::Conflict(TaskId::from_u128(0));
            Failure::new(
                kind,
                "the rules in force, the paused queues or the endpoints have changed",
            )
        }
        Err(failure) => failure,
    }
}

async fn read(client: &tokio_postgres::Client) -> Read<u32> {
    let rows = client.query_typed("SELECT rules FROM tenure.meta", &[]).await?;
    Ok(Columns::of(&rows[0]).count()?)
}

/// Reads the version in force under a row lock: it cannot change, and no coordinator can register, until this
/// transaction ends.
async fn lock(client: &tokio_postgres::Client) -> Read<u32> {
    let rows = client.query_typed("SELECT rules FROM tenure.meta FOR UPDATE", &[]).await?;
    Ok(Columns::of(&rows[0]).count()?)
}

/// The versions that live coordinators support. A coordinator is live if it recently recorded its presence or
/// committed a batch.
async fn live_rules(client: &tokio_postgres::Client, now: Time) -> Read<Vec<SupportedRules>> {
    let sql = "SELECT c.oldest_rules, c.rules FROM tenure.committers c \
        WHERE c.stopped_at IS NULL AND greatest(c.seen_at, (SELECT b.at FROM tenure.batches b \
            WHERE b.committer = c.committer ORDER BY b.n DESC LIMIT 1)) > $1";
    let since = earlier(now, PEER_TIMEOUT).millis();
    let rows = client.query_typed(sql, &[(&since, Type::INT8)]).await?;
    rows.iter().map(|row| Ok(supported_rules(&mut Columns::of(row))?)).collect()
}

async fn activate(client: &tokio_postgres::Client, before: u32, number: u32) -> Read<()> {
    if number == before {
        return Ok(());
    }
    let sql = "UPDATE tenure.meta SET rules = $1";
    client.execute_typed(sql, &[(&(number as i32), Type::INT4)]).await?;
    Ok(())
}

/// Checks a coordinator that registers, in the same transaction: refused if it does not support the version in force.
pub(in crate::postgres) async fn join(
    client: &tokio_postgres::Client,
    newcomer: SupportedRules,
    now: Time,
) -> Read<u32> {
    let in_force = lock(client).await?;
    let live_rules = live_rules(client, now).await?;
    let number = to_join(in_force, newcomer, &live_rules);
    let number = number.ok_or_else(|| rules::unknown(in_force, newcomer))?;
    activate(client, in_force, number).await?;
    Ok(number)
}

/// Runs [`agree`]. A failure is logged; the next run tries again.
pub(in crate::postgres) async fn try_agree(client: &tokio_postgres::Client, shared: &Arc<Shared>) {
    if let Err(error) = agree(client, shared).await {
        let error = error.while_doing("agreeing on a version of the rules");
        tracing::debug!(%error, "cannot check whether newer rules may come into force; retrying later");
    }
}

/// Reads the version in force, and activates a newer one if all live coordinators support it.
pub(in crate::postgres) async fn agree(
    client: &tokio_postgres::Client,
    shared: &Arc<Shared>,
) -> Read<u32> {
    let now = shared.clock.now();
    let in_force = read(client).await?;
    let mut number = to_activate(in_force, &live_rules(client, now).await?);
    if number != in_force {
        let work = move |client: Client| async move {
            let in_force = lock(&client).await?;
            let number = to_activate(in_force, &live_rules(&client, now).await?);
            activate(&client, in_force, number).await?;
            Ok(number)
        };
        let activated = shared.in_own_transaction("activating a version of the rules", work).await;
        number = activated.map_err(|failure| match failure {
            CommitFailure::RolledBack(failure) | CommitFailure::Unknown(failure) => failure,
        })?;
    }
    shared.rules.observe(number);
    Ok(number)
}
