//! The connections of a pool, and the prepared statements of each.
//!
//! A prepared statement, parsed and planned once, costs the server a fraction of one that is sent as text: for one
//! task in an idle system, parsing and planning are most of the database's work. But a prepared statement belongs to
//! a server session. Behind a pooler that assigns sessions per transaction, the next transaction may get a session in
//! which the same name means another statement or none. So prepared statements are used only on direct connections
//! ([`super::direct`]); elsewhere the same statements are sent as text, with the same meaning.
//!
//! All statements are prepared when a connection is made, never in a transaction: statements that are sent together
//! keep their order, and reading the clock after the locks depends on that order.

use std::collections::HashMap;
#[cfg(feature = "testing")]
use std::collections::{BTreeSet, HashSet};
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::Arc;
#[cfg(feature = "testing")]
use std::sync::Mutex;
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
use crate::postgres::errors::StepError;
use crate::postgres::reads::{self, browse, plan_steps, run_records};
use crate::postgres::{batch, flows, scopes};

pub(in crate::postgres) type Pool = managed::Pool<Connections>;
pub(in crate::postgres) type Object = managed::Object<Connections>;
pub(in crate::postgres) type PoolError = managed::PoolError<Error>;

/// What a pool's connections are used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::postgres) enum PoolPurpose {
    /// Batches, and the reads of a writer between them: a few statements, repeated often.
    Batches,
    /// Keys, limits and other coordinators: small tables, read periodically.
    Upkeep,
    Reading,
}

/// Creates connections.
pub(in crate::postgres) struct Connections {
    servers: ServerList,
    purpose: PoolPurpose,
    /// Incremented when prepared statements turn out to be outdated. Every connection made before that is outdated
    /// too.
    outdated: Arc<AtomicU64>,
    #[cfg(feature = "testing")]
    planned_again: PlannedAgain,
}

impl Connections {
    pub(in crate::postgres) fn new(servers: ServerList, purpose: PoolPurpose) -> Self {
        Self {
            servers,
            purpose,
            outdated: Arc::default(),
            #[cfg(feature = "testing")]
            planned_again: PlannedAgain::default(),
        }
    }

    /// Statements that one connection with prepared statements has sent as text more than once.
    #[cfg(feature = "testing")]
    pub(in crate::postgres) fn planned_again(&self) -> BTreeSet<String> {
        self.planned_again.lock().expect("nothing panics with the set in hand").clone()
    }
}

/// Statements that the database had to plan again, of all connections of a pool.
#[cfg(feature = "testing")]
type PlannedAgain = Arc<Mutex<BTreeSet<String>>>;

/// Statements that one connection has sent as text.
#[cfg(feature = "testing")]
#[derive(Default)]
struct SentTexts {
    texts: Mutex<HashSet<String>>,
    planned_again: PlannedAgain,
}

#[cfg(feature = "testing")]
impl SentTexts {
    fn note(&self, sql: &str) {
        let mut texts = self.texts.lock().expect("nothing panics with the set in hand");
        if !texts.insert(sql.to_owned()) {
            let mut again = self.planned_again.lock().expect("nothing panics with the set in hand");
            again.insert(sql.to_owned());
        }
    }
}

/// A statement on its way. The driver's future takes about a kilobyte, and a step of a batch has many of them: boxed here,
/// none is copied with the futures that it becomes a part of.
pub(in crate::postgres) type Sent<'s, T> =
    Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 's>>;

/// One connection. It behaves like the driver's client, but uses prepared statements where it has them.
pub(in crate::postgres) struct Connection {
    client: Client,
    purpose: PoolPurpose,
    /// Whether no pooler is in between, as far as this was asked.
    leads_to_server: bool,
    /// By their text.
    prepared: HashMap<&'static str, Statement>,
    /// The counter that all connections of the pool share, and its value when this one was made.
    outdated: Arc<AtomicU64>,
    made_at: u64,
    /// The last COMMIT did not wait for its standby to the end.
    is_standby_wait_cancelled: Arc<AtomicBool>,
    /// The task that reads and writes the socket. Aborted when the connection is dropped.
    driver: AbortHandle,
    /// For the connection on which a cancel request is sent.
    connector: Connector,
    #[cfg(feature = "testing")]
    sent_texts: SentTexts,
}

impl Connection {
    /// Whether the connection is direct (no pooler in between), so that it has prepared statements.
    pub(in crate::postgres) fn is_direct(&self) -> bool {
        !self.prepared.is_empty()
    }

    /// Whether it could have prepared statements and has none. It would keep sending text for as long as it lives, so
    /// no such connection may stay in a pool.
    pub(in crate::postgres) fn lacks_statements(&self) -> bool {
        self.leads_to_server && self.prepared.is_empty()
    }

    /// Sends this COMMIT statement. A success that the server reported without its standby's confirmation is an
    /// error.
    pub(in crate::postgres) async fn commit(&self, words: &str) -> Result<(), StepError> {
        self.is_standby_wait_cancelled.store(false, Ordering::SeqCst);
        self.client.batch_execute(words).await?;
        if self.is_standby_wait_cancelled.load(Ordering::SeqCst) {
            Err(StepError::StandbyWaitCancelled)
        } else {
            Ok(())
        }
    }

    /// The statements that begin a batch on this connection.
    pub(in crate::postgres) fn begin(&self) -> &'static str {
        if self.is_direct() { session::BEGIN_DIRECT } else { session::BEGIN }
    }

    /// The statements that begin a read on this connection.
    pub(in crate::postgres) fn begin_reading(&self) -> &'static str {
        match self.purpose {
            PoolPurpose::Upkeep => session::BEGIN_UPKEEP,
            _ if self.is_direct() => session::BEGIN_READING_DIRECT,
            _ => session::BEGIN_READING,
        }
    }

    /// Asks the server to cancel the statement that runs on this connection. The request may arrive late and cancel
    /// the next statement, so the connection must not be used afterwards.
    pub(in crate::postgres) async fn cancel(&self) {
        let token = self.client.cancel_token();
        let cancelling = token.cancel_query(self.connector.clone());
        match tokio::time::timeout(CONNECT_TIMEOUT, cancelling).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "cannot cancel a statement"),
            Err(_) => tracing::debug!("cannot cancel a statement in time"),
        }
    }

    /// Like the driver's method, with a prepared statement if there is one.
    pub(in crate::postgres) fn query_typed<'s>(
        &'s self,
        sql: &'s str,
        parameters: &'s [(&'s (dyn ToSql + Sync), Type)],
    ) -> Sent<'s, Vec<Row>> {
        match self.prepared.get(sql) {
            Some(statement) => Box::pin(async move {
                self.note_outdated(self.client.query(statement, &values(parameters)).await)
            }),
            None => {
                self.note_text(sql);
                Box::pin(self.client.query_typed(sql, parameters))
            }
        }
    }

    /// Like the driver's method, with a prepared statement if there is one.
    pub(in crate::postgres) fn execute_typed<'s>(
        &'s self,
        sql: &'s str,
        parameters: &'s [(&'s (dyn ToSql + Sync), Type)],
    ) -> Sent<'s, u64> {
        match self.prepared.get(sql) {
            Some(statement) => Box::pin(async move {
                self.note_outdated(self.client.execute(statement, &values(parameters)).await)
            }),
            None => {
                self.note_text(sql);
                Box::pin(self.client.execute_typed(sql, parameters))
            }
        }
    }

    /// Counts what is planned at each use, for the test of it.
    #[cfg(feature = "testing")]
    fn note_text(&self, sql: &str) {
        if self.is_direct() {
            self.sent_texts.note(sql);
        }
    }

    #[cfg(not(feature = "testing"))]
    fn note_text(&self, _: &str) {}

    /// Detects a prepared statement that a schema change has made invalid. Then all connections that have it are
    /// replaced, and the new ones prepare it again.
    fn note_outdated<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        let outdated = [SqlState::FEATURE_NOT_SUPPORTED, SqlState::INVALID_SQL_STATEMENT_NAME];
        let code = result.as_ref().err().and_then(Error::code);
        if code.is_some_and(|code| outdated.contains(code)) {
            self.outdated.fetch_max(self.made_at + 1, Ordering::Relaxed);
        }
        result
    }

    /// Prepares frequent statements, if the connection is direct and the database has a store.
    async fn name_statements(&mut self) -> Result<(), Error> {
        let Some((settings, texts)) = statements_to_prepare(self.purpose) else { return Ok(()) };
        self.leads_to_server = direct::is_direct(&self.client).await?;
        if !self.leads_to_server {
            return Ok(());
        }
        self.client.batch_execute(settings).await?;
        let statements = try_join_all(texts.iter().map(|text| self.client.prepare(text))).await;
        match statements {
            Ok(statements) => self.prepared = texts.into_iter().zip(statements).collect(),
            // There is no store yet, or one of another version; the statements themselves report what is wrong.
            Err(error) if error.as_db_error().is_some() => {
                tracing::debug!(%error, "cannot prepare statements; sending them as text");
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// The settings for a direct connection of this purpose, and the statements to prepare on it.
fn statements_to_prepare(purpose: PoolPurpose) -> Option<(&'static str, Vec<&'static str>)> {
    match purpose {
        PoolPurpose::Batches => {
            let texts = reads::frequent_statements()
                .chain(run_records::frequent_statements())
                .chain(plan_steps::frequent_statements())
                .chain(batch::frequent_statements())
                .chain(flows::frequent_statements())
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

    /// Boxed: the future of every use of the pool would have room for a connection that is being made.
    async fn create(&self) -> Result<Connection, Error> {
        Box::pin(self.connect()).await
    }

    /// A connection returns only after its transaction has ended, so it is enough that it is open.
    async fn recycle(&self, connection: &mut Connection, _: &Metrics) -> RecycleResult<Error> {
        let is_outdated = connection.made_at < self.outdated.load(Ordering::Relaxed);
        if connection.client.is_closed() || is_outdated {
            return Err(RecycleError::message("the connection is closed or outdated"));
        }
        Ok(())
    }
}

impl Connections {
    async fn connect(&self) -> Result<Connection, Error> {
        let (client, driver) = self.servers.connect().await?;
        let is_standby_wait_cancelled = Arc::new(AtomicBool::new(false));
        let driver =
            tokio::spawn(notices::drive(driver, is_standby_wait_cancelled.clone())).abort_handle();
        let mut connection = Connection {
            client,
            purpose: self.purpose,
            leads_to_server: false,
            prepared: HashMap::new(),
            outdated: self.outdated.clone(),
            made_at: self.outdated.load(Ordering::Relaxed),
            is_standby_wait_cancelled,
            driver,
            connector: self.servers.connector.clone(),
            #[cfg(feature = "testing")]
            sent_texts: SentTexts {
                planned_again: self.planned_again.clone(),
                ..SentTexts::default()
            },
        };
        connection.name_statements().await?;
        Ok(connection)
    }
}
