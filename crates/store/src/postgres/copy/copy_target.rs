//! A database that becomes a store when the copy into it is complete.
//!
//! During a copy the schema has one additional table, which marks it as unfinished. Opening the store during the
//! copy, or after it was interrupted, finds that table and is refused. The transaction that raises the epoch drops
//! the table. Discarding a copy drops the schema, and only a schema that has that table.

use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::epoch;
use crate::failure::{Failure, FailureKind};
use crate::moving::{CopyTarget, MoveFailure};
use crate::postgres::connection::connections::Object;
use crate::postgres::errors::{StepError, invalid};
use crate::postgres::failover::durability;
use crate::postgres::rows::Columns;
use crate::postgres::{Missing, Notify, Options, PostgresStore, opening, peers};

/// The name of a copy among the coordinators.
pub(in crate::postgres) const NAME: &str = "migrate";

/// Counts the rows of tables that are empty in an empty store.
const FILLED: &str = "SELECT (SELECT count(*) FROM (SELECT 1 FROM tenure.inputs LIMIT 1) t), \
    (SELECT count(*) FROM tenure.api_keys), (SELECT count(*) FROM tenure.tenant_limits), \
    (SELECT count(*) FROM (SELECT 1 FROM tenure.audit LIMIT 1) t)";

const NAMES: [&str; 4] = ["tasks", "API keys", "limits of tenants", "records of an audit"];

/// A store that is being created by a copy.
pub struct PostgresCopyTarget {
    url: String,
    place: String,
    store: PostgresStore,
}

/// Checks whether a store could be created in this database. Changes nothing. `place` is the database's name in
/// messages.
pub async fn inspect(url: &str, place: &str) -> Result<(), MoveFailure> {
    let client = connect(url).await?;
    let version = opening::stored_version(&client).await.map_err(unanswered)?;
    if version.is_none() {
        return Ok(());
    }
    if opening::is_copy_unfinished(&client).await.map_err(unanswered)? {
        return Err(MoveFailure::Interrupted { place: place.to_owned() });
    }
    refuse_filled(&client, place).await?;
    refuse_used(&client, place).await
}

/// Removes what an unfinished copy left in this database.
pub async fn discard(url: &str) -> Result<(), MoveFailure> {
    let client = connect(url).await?;
    if opening::is_copy_unfinished(&client).await.map_err(unanswered)? {
        refuse_missing_standbys(&client).await?;
        let dropped = client.batch_execute("DROP SCHEMA tenure CASCADE").await;
        dropped.map_err(|error| unanswered(error.into()))?;
    }
    Ok(())
}

/// Refuses while a coordinator works on the database. `place` is the database's name in messages.
pub async fn refuse_served(url: &str, place: &str) -> Result<(), MoveFailure> {
    let client = connect(url).await?;
    refuse_used(&client, place).await
}

/// Refuses to change a database whose commits wait for a standby that is not connected.
async fn refuse_missing_standbys(client: &Client) -> Result<(), MoveFailure> {
    let found = durability::find(client).await.map_err(unanswered)?;
    found.refuse_missing_standbys().map_err(MoveFailure::Destination)
}

async fn connect(url: &str) -> Result<Object, MoveFailure> {
    opening::session(url, &Options::new(NAME)).await.map_err(MoveFailure::Destination)
}

fn unanswered(error: StepError) -> MoveFailure {
    MoveFailure::Destination(error.while_opening("looking at the database"))
}

async fn refuse_filled(client: &Client, place: &str) -> Result<(), MoveFailure> {
    let rows = client.query_typed(FILLED, &[]).await.map_err(|error| unanswered(error.into()))?;
    let mut columns = Columns::of(&rows[0]);
    for name in NAMES {
        let count: i64 = columns.take().map_err(MoveFailure::Destination)?;
        if count > 0 {
            return Err(MoveFailure::Occupied { place: place.to_owned(), what: name.to_owned() });
        }
    }
    Ok(())
}

async fn refuse_used(client: &Client, place: &str) -> Result<(), MoveFailure> {
    let alive = peers::live_names(client, NAME).await.map_err(unanswered)?;
    match alive.into_iter().next() {
        Some(who) => Err(MoveFailure::InUse { place: place.to_owned(), who }),
        None => Ok(()),
    }
}

impl PostgresCopyTarget {
    pub async fn begin(url: &str, place: &str, from: &str) -> Result<Self, MoveFailure> {
        inspect(url, place).await?;
        let options =
            Options { notify: Notify::Off, missing: Missing::Create, ..Options::new(NAME) };
        let store = PostgresStore::open(url, options).await.map_err(MoveFailure::Destination)?;
        faultpoint::point!("move.opened");
        let mut client = connect(url).await?;
        mark(&mut client, place, from).await?;
        Ok(Self { url: url.to_owned(), place: place.to_owned(), store })
    }
}

/// Marks the start of a copy, unless another copy has started. No writer can register in the meantime.
async fn mark(client: &mut Client, place: &str, from: &str) -> Result<(), MoveFailure> {
    let failed = |error: tokio_postgres::Error| unanswered(error.into());
    let transaction = client.transaction().await.map_err(failed)?;
    transaction
        .batch_execute(
            "LOCK TABLE tenure.committers IN SHARE ROW EXCLUSIVE MODE; \
             CREATE TABLE tenure.arriving (source text NOT NULL, began_at timestamptz NOT NULL \
                DEFAULT now())",
        )
        .await
        .map_err(failed)?;
    refuse_filled(transaction.client(), place).await?;
    refuse_used(transaction.client(), place).await?;
    let insert = "INSERT INTO tenure.arriving (source) VALUES ($1)";
    transaction.execute_typed(insert, &[(&from, Type::TEXT)]).await.map_err(failed)?;
    transaction.commit().await.map_err(failed)
}

impl CopyTarget for PostgresCopyTarget {
    type Store = PostgresStore;

    fn store(&self) -> &PostgresStore {
        &self.store
    }

    async fn finish(self, epoch: u32) -> Result<(), MoveFailure> {
        let mut client = connect(&self.url).await?;
        refuse_used(&client, &self.place).await?;
        let finished = finish(&mut client, epoch).await;
        finished
            .map_err(|error| MoveFailure::Destination(error.while_doing("making the copy a store")))
    }
}

/// Completes the copy. From here on the database is a store without a coordinator.
async fn finish(client: &mut Client, epoch: u32) -> Result<(), StepError> {
    let transaction = client.transaction().await?;
    set_epoch(transaction.client(), epoch).await?;
    let left = "UPDATE tenure.committers SET stopped_at = seen_at \
        WHERE name = $1 AND stopped_at IS NULL";
    transaction.execute_typed(left, &[(&NAME, Type::TEXT)]).await?;
    transaction.batch_execute("DROP TABLE tenure.arriving").await?;
    faultpoint::point!("move.raised");
    transaction.commit().await?;
    Ok(())
}

async fn set_epoch(client: &Client, epoch: u32) -> Result<(), StepError> {
    let update = "UPDATE tenure.meta SET epoch = $1";
    let epoch = i32::try_from(epoch).map_err(|_| invalid("the epoch is larger than its column"))?;
    client.execute_typed(update, &[(&epoch, Type::INT4)]).await?;
    Ok(())
}

/// Begins a new epoch in a database that was restored with its own tools. No coordinator may work on it. Returns the
/// previous epoch and the new one.
pub async fn raise_epoch(url: &str, place: &str) -> Result<(u32, u32), MoveFailure> {
    let mut client = connect(url).await?;
    if opening::stored_version(&client).await.map_err(unanswered)?.is_none() {
        let failure = Failure::new(FailureKind::Closed, opening::NO_STORE);
        return Err(MoveFailure::Source(failure));
    }
    if opening::is_copy_unfinished(&client).await.map_err(unanswered)? {
        return Err(MoveFailure::Interrupted { place: place.to_owned() });
    }
    refuse_used(&client, place).await?;
    refuse_missing_standbys(&client).await?;
    raise(&mut client)
        .await
        .map_err(|error| MoveFailure::Destination(error.while_doing("raising the store's epoch")))
}

async fn raise(client: &mut Client) -> Result<(u32, u32), StepError> {
    let transaction = client.transaction().await?;
    let sql = "SELECT epoch, floor(extract(epoch FROM clock_timestamp()) * 1000)::int8 \
        FROM tenure.meta FOR UPDATE";
    let rows = transaction.query_typed(sql, &[]).await?;
    let mut columns = Columns::of(&rows[0]);
    let (before, wall) = (columns.count()?, columns.time()?);
    let after = epoch::above(&[before], wall)?;
    set_epoch(transaction.client(), after).await?;
    transaction.commit().await?;
    Ok((before, after))
}
