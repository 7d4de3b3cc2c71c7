//! A private PostgreSQL server without a standby, with the durability of production. It can be cut off, locked and
//! restarted.

use anyhow::Result;
use pgserver::{Server, Stop};

/// The sessions of coordinators, under any application name.
const SESSIONS: &str =
    "FROM pg_stat_activity WHERE application_name LIKE 'tenure %' AND pid <> pg_backend_pid()";

/// The database that holds the store.
const DATABASE: &str = "postgres";

pub struct SingleDatabase {
    server: Server,
}

impl SingleDatabase {
    pub fn start() -> Result<SingleDatabase> {
        // Three coordinators, their readers, and the lab's connections.
        let server = Server::builder().set("max_connections", "100").set("shared_buffers", "64MB");
        Ok(SingleDatabase { server: server.start()? })
    }

    /// The URL, as `--store` takes it.
    pub fn url(&self) -> String {
        self.server.url(DATABASE)
    }

    pub fn restart(&self) -> Result<()> {
        Ok(self.server.start()?)
    }

    /// Kills every process of the server at once; no unwritten data is flushed.
    pub fn crash(&self) -> Result<()> {
        Ok(self.server.stop(Stop::Immediate)?)
    }

    /// Terminates every session of every coordinator.
    pub fn cut_connections(&self) -> Result<()> {
        self.tell(&format!("SELECT count(pg_terminate_backend(pid)) {SESSIONS}"))
    }

    /// Cancels every running statement, as a statement timeout would.
    pub fn time_statements_out(&self) -> Result<()> {
        self.tell(&format!("SELECT count(pg_cancel_backend(pid)) {SESSIONS} AND state = 'active'"))
    }

    /// Locks the table of live tasks for this many seconds, so that writers wait for the lock.
    pub fn hold_table(&self, seconds: u32) -> Result<()> {
        self.tell(&format!(
            "BEGIN; LOCK TABLE tenure.live IN SHARE MODE; SELECT pg_sleep({seconds}); COMMIT"
        ))
    }

    fn tell(&self, text: &str) -> Result<()> {
        self.server.sql(DATABASE, text)?;
        Ok(())
    }
}
