//! A server that replicates another one and can be promoted.

use std::fs;

use crate::builder::Listen;
use crate::processes::until;
use crate::programs::{USER, run};
use crate::{Error, Result, Server};

/// Pause before each poll: a poll starts a program, and the server that it polls needs the processor more.
const REST: &str = "SELECT pg_sleep(0.05)";

impl Server {
    /// Creates a standby of this server under a name. It has a copy of the data and the same settings.
    pub fn standby(&self, name: &str) -> Result<Server> {
        let mut standby = Server::in_new_folder(Listen::Socket, None)?;
        standby.follow(self, name)?;
        Ok(standby)
    }

    /// Discards its data and replicates another server from now on. It must not be running.
    pub fn follow(&mut self, primary: &Server, name: &str) -> Result<()> {
        for folder in [self.data().to_owned(), self.folder().join("wal")] {
            if folder.exists() {
                fs::remove_dir_all(&folder).map_err(Error::file(&folder))?;
            }
        }
        let (folder, port) = (primary.folder().display(), primary.port());
        let source = format!("host={folder} port={port} user={USER} application_name={name}");
        let mut copy = self.programs().command("pg_basebackup");
        copy.args(["--checkpoint", "fast", "--wal-method", "stream", "--no-sync"]);
        copy.args(["--write-recovery-conf", "--dbname", &source, "--pgdata"]).arg(self.data());
        run(&mut copy)?;
        let settings = self.data().join("postgresql.auto.conf");
        let written = fs::read_to_string(&settings).map_err(Error::file(&settings))?;
        let written = format!("{written}primary_conninfo = '{source}'\n");
        fs::write(&settings, written).map_err(Error::file(&settings))?;
        self.start()
    }

    /// Waits until a standby replicates this server in a state: `sync`, `async` or `quorum`.
    pub fn until_followed(&self, state: &str) -> Result<()> {
        let look = "SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'";
        let look = format!("{REST}; {look}");
        until("a standby to follow", || Ok(self.sql("postgres", &look)? == state))
    }

    /// Waits until all standbys of this server have replayed its WAL.
    pub fn until_caught_up(&self) -> Result<()> {
        let look = format!(
            "{REST}; SELECT bool_and(replay_lsn >= pg_current_wal_flush_lsn()) FROM pg_stat_replication"
        );
        until("a standby to catch up", || Ok(self.sql("postgres", &look)? == "t"))
    }

    /// Waits until no standby replicates this server.
    pub fn until_alone(&self) -> Result<()> {
        let look = format!("{REST}; SELECT count(*) FROM pg_stat_replication");
        until("the standby to be cut off", || Ok(self.sql("postgres", &look)? == "0"))
    }
}
