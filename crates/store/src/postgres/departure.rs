//! A database that is copied elsewhere. No coordinator may work on it, and none may have worked on it when
//! the copy is whole: a database cannot be locked like a file, so both are looked at.

use tokio_postgres::Client;

use super::arrival::{self, NAME};
use super::rows::Columns;
use super::trouble::Trouble;
use super::{Missing, Notify, Options, PostgresStore, opening};
use crate::clock::Ahead;
use crate::moving::{Departure, MoveFailure};

pub struct PostgresDeparture {
    url: String,
    place: String,
    store: PostgresStore,
    signs: Signs,
}

/// What every change of a store moves.
#[derive(Debug, PartialEq, Eq)]
struct Signs {
    last_commit_at: Option<i64>,
    records: i64,
    committers: i64,
}

impl PostgresDeparture {
    /// `place` is what the database is called.
    pub async fn begin(url: &str, place: &str) -> Result<Self, MoveFailure> {
        let options = Options {
            // Nothing is decided here, so a clock that was once wrong is no reason not to copy.
            ahead: Ahead::Accept,
            notify: Notify::Off,
            missing: Missing::Refuse,
            ..Options::new(NAME)
        };
        let store = PostgresStore::open(url, options).await.map_err(MoveFailure::Source)?;
        // Where it goes to, rules would be in force that are older than what decided here.
        store.shared.rules.rules().map_err(MoveFailure::Source)?;
        arrival::refuse_served(url, place).await?;
        let signs = look(url).await?;
        Ok(Self { url: url.to_owned(), place: place.to_owned(), store, signs })
    }
}

impl Departure for PostgresDeparture {
    type Store = PostgresStore;

    fn store(&self) -> &PostgresStore {
        &self.store
    }

    async fn check_unchanged(&self) -> Result<(), MoveFailure> {
        arrival::refuse_served(&self.url, &self.place).await?;
        if look(&self.url).await? == self.signs { Ok(()) } else { Err(MoveFailure::Changed) }
    }
}

async fn look(url: &str) -> Result<Signs, MoveFailure> {
    let client = opening::session(url, &Options::new(NAME)).await.map_err(MoveFailure::Source)?;
    let signs = signs(&client).await;
    signs.map_err(|trouble| MoveFailure::Source(trouble.while_opening("looking at the database")))
}

async fn signs(client: &Client) -> Result<Signs, Trouble> {
    let sql = "SELECT (SELECT max(at) FROM tenure.batches), \
        (SELECT coalesce(max(n), 0) FROM tenure.audit), (SELECT count(*) FROM tenure.committers)";
    let rows = client.query_typed(sql, &[]).await?;
    let mut columns = Columns::of(&rows[0]);
    Ok(Signs {
        last_commit_at: columns.take()?,
        records: columns.take()?,
        committers: columns.take()?,
    })
}
