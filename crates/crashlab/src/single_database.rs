//! One PostgreSQL server of the lab's own, without a standby, with the durability of production, that can be cut, locked and restarted.

use anyhow::Result;
use pgserver::{Server, Stop};

/// Sessions of coordinators, whatever each is called.
const SESSIONS: &str =
    "FROM pg_stat_activity WHERE application_name LIKE 'tenure %' AND pid <> pg_backend_pid()";

/// Where coordinators keep what they decide.
const DATABASE: &str = "postgres";

pub struct SingleDatabase {
    server: Server,
}

impl SingleDatabase {
    pub fn start() -> Result<SingleDatabase> {
        // Three coordinators, their readers, and whoever looks.
        let server = Server::builder().set("max_connections", "100").set("shared_buffers", "64MB");
        Ok(SingleDatabase { server: server.start()? })
    }

    /// As `--store` takes it.
    pub fn url(&self) -> String {
        self.server.url(DATABASE)
    }

    pub fn restart(&self) -> Result<()> {
        Ok(self.server.start()?)
    }

    /// Every process of it dies at once; nothing is written that was not written before.
    pub fn crash(&self) -> Result<()> {
        Ok(self.server.stop(Stop::Immediate)?)
    }

    /// Every session of every coordinator ends.
    pub fn cut_connections(&self) -> Result<()> {
        self.tell(&format!("SELECT count(pg_terminate_backend(pid)) {SESSIONS}"))
    }

    /// Every statement that runs is ended as one that took too long.
    pub fn time_statements_out(&self) -> Result<()> {
        self.tell(&format!("SELECT count(pg_cancel_backend(pid)) {SESSIONS} AND state = 'active'"))
    }

    /// Holds the table of live tasks for so many seconds, so that whoever wants to write waits for its lock.
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
