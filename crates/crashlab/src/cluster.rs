//! Two PostgreSQL servers on this machine: one takes writes, the other follows and takes over.
//!
//! Nothing here judges.

use anyhow::{Context, Result};
use pgserver::Server;

use crate::waits;

/// Which acknowledgements a failover may lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replication {
    /// A commit waits until the standby has it: none.
    Synchronous,
    /// The standby follows when it can: the last ones.
    Asynchronous,
}

/// The name under which a standby follows.
const STANDBY: &str = "standby";

/// Where coordinators keep what they decide. The one that every server has: another one would be hundreds of files
/// more to copy for each new standby.
const DATABASE: &str = "postgres";

pub(crate) struct Cluster {
    primary: Server,
    standby: Server,
    /// Both, in the order in which they were made: the address does not change with who takes writes.
    hosts: [String; 2],
    replication: Replication,
}

impl Cluster {
    /// One server and a standby that has all of it. The disk is waited for as in production.
    pub(crate) fn start(replication: Replication) -> Result<Cluster> {
        let primary = Server::builder()
            .set("max_connections", "120")
            .set("wal_keep_size", "256MB")
            .set("wal_retrieve_retry_interval", "100ms")
            .start()?;
        let standby = primary.standby(STANDBY)?;
        let hosts = [primary.host(), standby.host()];
        let cluster = Cluster { primary, standby, hosts, replication };
        cluster.wait_for_standby()?;
        Ok(cluster)
    }

    /// The address that names both: whoever connects takes the one that takes writes.
    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@{}/{DATABASE}", self.hosts.join(","))
    }

    /// A fresh standby of the server that takes writes; returns when commits wait for it, if they shall.
    pub(crate) fn follow(&mut self) -> Result<()> {
        self.standby.follow(&self.primary, STANDBY)?;
        self.wait_for_standby()
    }

    fn wait_for_standby(&self) -> Result<()> {
        let state = match self.replication {
            Replication::Synchronous => {
                self.primary.set("synchronous_standby_names", STANDBY)?;
                "sync"
            }
            Replication::Asynchronous => "async",
        };
        Ok(self.primary.until_followed(state)?)
    }

    /// Coordinators notice within seconds that commits wait for a standby again; until then a failover would
    /// void every lease, to be on the safe side.
    pub(crate) fn wait_until_noticed(&self) -> Result<()> {
        // A look is a program that starts; it rests first, so that those who are waited for have the processor.
        let look = "SELECT pg_sleep(0.1); SELECT waits FROM tenure.meta";
        let noticed = || Ok((self.primary.sql(DATABASE, look)? == "t").then_some(()));
        waits::until(noticed)?.context("waited in vain for coordinators to notice")
    }

    /// The standby hears nothing more, as behind a broken network.
    pub(crate) fn cut(&self) -> Result<()> {
        let nowhere = format!("host={}", self.standby.folder().join("nowhere").display());
        self.standby.set("primary_conninfo", &nowhere)?;
        Ok(self.primary.until_alone()?)
    }

    /// Every process of the server that takes writes dies in the same moment, as with its machine.
    pub(crate) fn kill_primary(&self) -> Result<()> {
        Ok(self.primary.kill()?)
    }

    /// The same for the server that took writes before somebody took over.
    pub(crate) fn kill_former(&self) -> Result<()> {
        Ok(self.standby.kill()?)
    }

    /// Every commit that waits for a standby there is cancelled, as by somebody who is tired of waiting. The server
    /// says to each that it is done, and warns.
    pub(crate) fn cancel_waiting_on_former(&self) -> Result<()> {
        let cancel = "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity \
            WHERE wait_event = 'SyncRep'";
        self.standby.sql(DATABASE, cancel)?;
        Ok(())
    }

    /// The standby takes over. Commits wait for nobody until there is a standby again.
    pub(crate) fn promote(&mut self) -> Result<()> {
        self.standby.promote()?;
        std::mem::swap(&mut self.primary, &mut self.standby);
        Ok(())
    }
}
