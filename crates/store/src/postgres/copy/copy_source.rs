//! A database that is copied elsewhere. No coordinator may work on it, and none may have worked on it by the time the
//! copy is complete. A database cannot be locked like a file, so both are checked.

use tokio_postgres::Client;

use super::copy_target::{self, NAME};
use crate::clock::ClockAhead;
use crate::moving::{CopySource, MoveFailure};
use crate::postgres::errors::StepError;
use crate::postgres::rows::Columns;
use crate::postgres::{Missing, Notify, Options, PostgresStore, opening};

pub struct PostgresCopySource {
    url: String,
    place: String,
    store: PostgresStore,
    markers: ChangeMarkers,
}

/// Values that every change of a store increases.
#[derive(Debug, PartialEq, Eq)]
struct ChangeMarkers {
    last_commit_at: Option<i64>,
    records: i64,
    committers: i64,
}

impl PostgresCopySource {
    /// `place` is the database's name in messages.
    pub async fn begin(url: &str, place: &str) -> Result<Self, MoveFailure> {
        let options = Options {
            // Nothing is decided here, so a clock that was once wrong does not prevent a copy.
            ahead: ClockAhead::Accept,
            notify: Notify::Off,
            missing: Missing::Refuse,
            ..Options::new(NAME)
        };
        let store = PostgresStore::open(url, options).await.map_err(MoveFailure::Source)?;
        // Otherwise the rules in force in the target would be older than those that decided here.
        store.shared.rules.rules().map_err(MoveFailure::Source)?;
        copy_target::refuse_served(url, place).await?;
        let markers = read_markers(url).await?;
        Ok(Self { url: url.to_owned(), place: place.to_owned(), store, markers })
    }
}

impl CopySource for PostgresCopySource {
    type Store = PostgresStore;

    fn store(&self) -> &PostgresStore {
        &self.store
    }

    async fn check_unchanged(&self) -> Result<(), MoveFailure> {
        copy_target::refuse_served(&self.url, &self.place).await?;
        if read_markers(&self.url).await? == self.markers {
            Ok(())
        } else {
            Err(MoveFailure::Changed)
        }
    }
}

async fn read_markers(url: &str) -> Result<ChangeMarkers, MoveFailure> {
    let client = opening::session(url, &Options::new(NAME)).await.map_err(MoveFailure::Source)?;
    let markers = markers(&client).await;
    markers.map_err(|error| MoveFailure::Source(error.while_opening("looking at the database")))
}

async fn markers(client: &Client) -> Result<ChangeMarkers, StepError> {
    let sql = "SELECT (SELECT max(at) FROM tenure.batches), \
        (SELECT coalesce(max(n), 0) FROM tenure.audit), (SELECT count(*) FROM tenure.committers)";
    let rows = client.query_typed(sql, &[]).await?;
    let mut columns = Columns::of(&rows[0]);
    Ok(ChangeMarkers {
        last_commit_at: columns.take()?,
        records: columns.take()?,
        committers: columns.take()?,
    })
}
