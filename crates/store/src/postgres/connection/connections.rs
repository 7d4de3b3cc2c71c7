//! The connections of a pool, and the statements that each of them knows by name.
//!
//! A statement that the server has parsed and planned once costs it a fraction of one that comes as text: for one
//! task in an idle system that is most of what the database does. But a name belongs to a session of the
//! server, and behind a pooler that lends its sessions for single transactions nobody knows whose session it is
//! next, and what the same name means there. So names are given only where nobody stands in between
//! ([`super::direct`]); everywhere else the same statements go as text, and mean the same.
//!
//! All names are given when a connection is made, never in a transaction: statements that are sent together keep
//! their order, on which reading the clock behind the locks depends.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use deadpool::managed::{self, Metrics, RecycleError, RecycleResult};
use futures_util::future::try_join_all;
use tokio::task::AbortHandle;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row, Statement};

use super::server_list::{CONNECT_TIMEOUT, ServerList};
use super::tls::Connector;
use super::{direct, notices, session};
use crate::postgres::batch::writes;
use crate::postgres::errors::StepError;
use crate::postgres::reads::{self, browse};
use crate::postgres::scopes;

pub(in crate::postgres) type Pool = managed::Pool<Connections>;
pub(in crate::postgres) type Object = managed::Object<Connections>;
pub(in crate::postgres) type PoolError = managed::PoolError<Error>;

/// What a pool's connections are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::postgres) enum PoolPurpose {
    /// Batches, and what a writer asks between them: the same few statements again and again.
    Batches,
    /// Keys, limits and other coordinators: small tables, read now and then.
    Upkeep,
    Reading,
}

/// Makes connections.
pub(in crate::postgres) struct Connections {
    servers: ServerList,
    purpose: PoolPurpose,
    /// How often names were found to mean nothing any more. What was connected before knows them all wrong.
    outdated: Arc<AtomicU64>,
}

impl Connections {
    pub(in crate::postgres) fn new(servers: ServerList, purpose: PoolPurpose) -> Self {
        Self { servers, purpose, outdated: Arc::default() }
    }
}

/// One connection. It stands for the driver's own, but for statements that it knows by name.
pub(in crate::postgres) struct Connection {
    client: Client,
    purpose: PoolPurpose,
    /// By their text.
    prepared: HashMap<&'static str, Statement>,
    /// Of all connections of its pool, and what that was when this one was made.
    outdated: Arc<AtomicU64>,
    made_at: u64,
    /// A COMMIT did not wait for its standby to the end.
    is_standby_wait_cancelled: Arc<AtomicBool>,
    /// Reads and writes the socket, until nobody needs it any more.
    driver: AbortHandle,
    /// For the way on which a statement is cancelled.
    connector: Connector,
}

impl Connection {
    /// Whether nobody stands in between, so that statements have names.
    pub(in crate::postgres) fn is_direct(&self) -> bool {
        !self.prepared.is_empty()
    }

    /// Sends COMMIT, as these words say it. A success that the server gave without its standby's word is none.
    pub(in crate::postgres) async fn commit(&self, words: &str) -> Result<(), StepError> {
        self.is_standby_wait_cancelled.store(false, Ordering::SeqCst);
        self.client.batch_execute(words).await?;
        if self.is_standby_wait_cancelled.load(Ordering::SeqCst) {
            Err(StepError::StandbyWaitCancelled)
        } else {
            Ok(())
        }
    }

    /// What a batch begins with on this connection.
    pub(in crate::postgres) fn begin(&self) -> &'static str {
        if self.is_direct() { session::BEGIN_DIRECT } else { session::BEGIN }
    }

    /// What reading begins with on this connection.
    pub(in crate::postgres) fn begin_reading(&self) -> &'static str {
        match self.purpose {
            PoolPurpose::Upkeep => session::BEGIN_UPKEEP,
            _ if self.is_direct() => session::BEGIN_READING_DIRECT,
            _ => session::BEGIN_READING,
        }
    }

    /// Asks the server to end what runs on this connection. It may come too late and end what runs next, so that
    /// nobody may use the connection afterwards.
    pub(in crate::postgres) async fn cancel(&self) {
        let token = self.client.cancel_token();
        let cancelling = token.cancel_query(self.connector.clone());
        match tokio::time::timeout(CONNECT_TIMEOUT, cancelling).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "cannot cancel a statement"),
            Err(_) => tracing::debug!("cannot cancel a statement in time"),
        }
    }

    /// As the driver's own, by name where there is one.
    pub(in crate::postgres) async fn query_typed(
        &self,
        sql: &str,
        parameters: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>, Error> {
        match self.prepared.get(sql) {
            Some(statement) => {
                self.note_outdated(self.client.query(statement, &values(parameters)).await)
            }
            None => self.client.query_typed(sql, parameters).await,
        }
    }

    /// As the driver's own, by name where there is one.
    pub(in crate::postgres) async fn execute_typed(
        &self,
        sql: &str,
        parameters: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<u64, Error> {
        match self.prepared.get(sql) {
            Some(statement) => {
                self.note_outdated(self.client.execute(statement, &values(parameters)).await)
            }
            None => self.client.execute_typed(sql, parameters).await,
        }
    }

    /// A name that means nothing any more, or something else, since the tables changed: all who know it go, and the next
    /// connection will know better.
    fn note_outdated<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        let outdated = [SqlState::FEATURE_NOT_SUPPORTED, SqlState::INVALID_SQL_STATEMENT_NAME];
        let code = result.as_ref().err().and_then(Error::code);
        if code.is_some_and(|code| outdated.contains(code)) {
            self.outdated.fetch_max(self.made_at + 1, Ordering::Relaxed);
        }
        result
    }

    /// Gives names to what is done again and again, where names are safe and there is a store to do it in.
    async fn name_statements(&mut self) -> Result<(), Error> {
        let Some((settings, texts)) = statements_to_prepare(self.purpose) else { return Ok(()) };
        if !direct::is_direct(&self.client).await? {
            return Ok(());
        }
        self.client.batch_execute(settings).await?;
        let statements = try_join_all(texts.iter().map(|text| self.client.prepare(text))).await;
        match statements {
            Ok(statements) => self.prepared = texts.into_iter().zip(statements).collect(),
            // No store yet, or one of another version: its own statements say what is wrong.
            Err(error) if error.as_db_error().is_some() => {
                tracing::debug!(%error, "cannot prepare statements; sending them as text");
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// What is said once to the server itself, and what is then called by its name.
fn statements_to_prepare(purpose: PoolPurpose) -> Option<(&'static str, Vec<&'static str>)> {
    match purpose {
        PoolPurpose::Batches => {
            let texts = reads::frequent_statements()
                .chain(writes::frequent_statements())
                .chain(reads::idle_statements());
            Some((session::DIRECT, texts.collect()))
        }
        PoolPurpose::Reading => Some((
            session::DIRECT_READING,
            browse::frequent_statements().chain([scopes::SET]).collect(),
        )),
        PoolPurpose::Upkeep => None,
    }
}

fn values<'v>(parameters: &[(&'v (dyn ToSql + Sync), Type)]) -> Vec<&'v (dyn ToSql + Sync)> {
    parameters.iter().map(|(value, _)| *value).collect()
}

impl Deref for Connection {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl DerefMut for Connection {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl managed::Manager for Connections {
    type Type = Connection;
    type Error = Error;

    async fn create(&self) -> Result<Connection, Error> {
        let (client, driver) = self.servers.connect().await?;
        let is_standby_wait_cancelled = Arc::new(AtomicBool::new(false));
        let driver =
            tokio::spawn(notices::drive(driver, is_standby_wait_cancelled.clone())).abort_handle();
        let mut connection = Connection {
            client,
            purpose: self.purpose,
            prepared: HashMap::new(),
            outdated: self.outdated.clone(),
            made_at: self.outdated.load(Ordering::Relaxed),
            is_standby_wait_cancelled,
            driver,
            connector: self.servers.connector.clone(),
        };
        connection.name_statements().await?;
        Ok(connection)
    }

    /// A connection comes back only after its transaction has ended, so that being open is enough.
    async fn recycle(&self, connection: &mut Connection, _: &Metrics) -> RecycleResult<Error> {
        let is_outdated = connection.made_at < self.outdated.load(Ordering::Relaxed);
        if connection.client.is_closed() || is_outdated {
            return Err(RecycleError::message("the connection is closed or outdated"));
        }
        Ok(())
    }
}
