//! Temporary databases on an existing PostgreSQL server.
//!
//! Also measures what that server uses, if it runs on this machine: all of its processes together,
//! because it is not known which of them serves which client.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::Client;

use crate::error::BenchError;
use crate::process::{ProcessTree, Usage};

/// The minimum number of commits for a meaningful median.
const COMMITS_MIN: usize = 20;

pub(crate) struct Databases {
    url: Address,
    client: Arc<Client>,
    server: Engine,
    last: RefCell<Option<String>>,
    /// Whether the role that stores create existed before.
    had_role: bool,
}

/// The database server, as far as it can be watched.
#[derive(Clone)]
pub(crate) struct Engine {
    client: Arc<Client>,
    /// Its processes, if they are on this machine.
    process_tree: Option<ProcessTree>,
}

impl Databases {
    pub(crate) async fn of(url: &str) -> Result<Self, BenchError> {
        let client = Arc::new(connect(url).await?);
        let sql = "SELECT pg_backend_pid(), EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'tenure_rows'), \
            rolcreatedb OR rolsuper FROM pg_roles WHERE rolname = current_user";
        let row = client.query_one(sql, &[]).await?;
        let (pid, had_role): (i32, bool) = (row.try_get(0)?, row.try_get(1)?);
        if !row.try_get::<_, bool>(2)? {
            return Err(BenchError::MayNotCreate);
        }
        let process_tree = ProcessTree::of_child(pid.unsigned_abs(), "postgres");
        let server = Engine { client: client.clone(), process_tree };
        let url = Address::parse(url);
        Ok(Self { url, client, server, last: RefCell::default(), had_role })
    }

    pub(crate) fn server(&self) -> Engine {
        self.server.clone()
    }

    /// Creates an empty database and drops the last one.
    pub(crate) async fn create(&self, number: u32) -> Result<String, BenchError> {
        self.remove().await?;
        let name = format!("tenure_bench_{}_{number}", std::process::id());
        self.client.batch_execute(&format!("CREATE DATABASE {name}")).await?;
        self.last.replace(Some(name.clone()));
        Ok(self.url.naming(&name))
    }

    pub(crate) async fn remove(&self) -> Result<(), BenchError> {
        let last = self.last.take();
        if let Some(name) = last {
            self.client
                .batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"))
                .await?;
        }
        Ok(())
    }

    /// Restores the server to its initial state.
    pub(crate) async fn clean_up(&self) -> Result<(), BenchError> {
        self.remove().await?;
        if !self.had_role {
            // A store that was created meanwhile keeps the role.
            let _ = self.client.batch_execute("DROP ROLE IF EXISTS tenure_rows").await;
        }
        Ok(())
    }

    /// How long this server takes to commit one row, one commit after the other: the minimum cost
    /// of a store.
    pub(crate) async fn commits(&self, url: &str, span: Duration) -> Result<Vec<u64>, BenchError> {
        let client = connect(url).await?;
        client.batch_execute("CREATE TABLE commits (n bigint)").await?;
        let (end, mut micros) = (Instant::now() + span, Vec::new());
        while Instant::now() < end || micros.len() < COMMITS_MIN {
            let begun = Instant::now();
            client.batch_execute("INSERT INTO commits VALUES (1)").await?;
            micros.push(begun.elapsed().as_micros() as u64);
        }
        client.batch_execute("DROP TABLE commits").await?;
        Ok(micros)
    }
}

impl Engine {
    /// CPU time of all its processes, and the bytes of its WAL.
    pub(crate) async fn usage(&self) -> Result<Usage, BenchError> {
        let sql = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8";
        let written_bytes: f64 = self.client.query_one(sql, &[]).await?.try_get(0)?;
        let cpu_micros = self.process_tree.as_ref().map_or(0.0, ProcessTree::cpu_micros);
        Ok(Usage { cpu_micros, written_bytes })
    }

    pub(crate) fn is_here(&self) -> bool {
        self.process_tree.is_some()
    }
}

/// An idle transaction with an old snapshot: the server must keep every row version that the
/// snapshot can see.
pub(crate) struct OldSnapshot {
    _client: Client,
}

impl OldSnapshot {
    pub(crate) async fn take(url: &str) -> Result<Self, BenchError> {
        let client = connect(url).await?;
        client
            .batch_execute(
                "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_catalog.pg_class",
            )
            .await?;
        Ok(Self { _client: client })
    }
}

/// Connects as a coordinator does, with the same TLS options in the address.
async fn connect(url: &str) -> Result<Client, BenchError> {
    Ok(store::postgres::connect(url, "bench").await?)
}

/// A `postgres://` address, split around the name of its database.
struct Address {
    before: String,
    after: String,
}

impl Address {
    fn parse(url: &str) -> Self {
        let (scheme, rest) = url.split_once("://").unwrap_or(("postgres", url));
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let authority = path.split_once('/').map_or(path, |(authority, _)| authority);
        let members = query.split('&').filter(|member| !member.starts_with("dbname="));
        let query: Vec<&str> = members.filter(|member| !member.is_empty()).collect();
        let after = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
        Self { before: format!("{scheme}://{authority}/"), after }
    }

    fn naming(&self, database: &str) -> String {
        format!("{}{database}{}", self.before, self.after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_keeps_all_but_its_database() {
        let named = |url| Address::parse(url).naming("x");
        assert_eq!(named("postgres://u:p@h:5/db"), "postgres://u:p@h:5/x");
        assert_eq!(named("postgres://u@a,b"), "postgres://u@a,b/x");
        assert_eq!(
            named("postgres:///db?host=/run&dbname=db&user=u"),
            "postgres:///x?host=/run&user=u"
        );
    }
}
