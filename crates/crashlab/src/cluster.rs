//! Two PostgreSQL servers on this machine: a primary and a standby that can take over.
//!
//! This module starts, breaks and waits; it does not judge.

use anyhow::{Context, Result};
use pgserver::Server;

use crate::waits;

/// Which acknowledgements a failover may lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replication {
    /// A commit waits for the standby: a failover loses none.
    Synchronous,
    /// Commits do not wait for the standby: a failover may lose the last ones.
    Asynchronous,
}

/// The application name under which the standby replicates.
const STANDBY: &str = "standby";

/// The database that holds the store. It is the default one: another database would add hundreds of files to copy for
/// each new standby.
const DATABASE: &str = "postgres";

pub(crate) struct Cluster {
    primary: Server,
    standby: Server,
    /// Both servers in the order of their creation: the URL does not change with a failover.
    hosts: [String; 2],
    replication: Replication,
}

impl Cluster {
    /// Starts a primary and a standby that has caught up. Commits wait for the disk as in production.
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

    /// The URL that names both servers: a client connects to the one that accepts writes.
    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@{}/{DATABASE}", self.hosts.join(","))
    }

    /// Creates a new standby of the primary; returns when it has caught up and, with synchronous replication, commits
    /// wait for it.
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

    /// Waits until coordinators have noticed that commits wait for a standby again, which takes seconds. A failover
    /// before that voids every lease, as a precaution.
    pub(crate) fn wait_until_noticed(&self) -> Result<()> {
        // Each query starts a process. It sleeps first, to leave the processor to the coordinators.
        let look = "SELECT pg_sleep(0.1); SELECT waits FROM tenure.meta";
        let noticed = || Ok((self.primary.sql(DATABASE, look)? == "t").then_some(()));
        waits::until(noticed)?.context("waited in vain for coordinators to notice")
    }

    /// Stops replication to the standby, as a network failure would.
    pub(crate) fn cut(&self) -> Result<()> {
        let nowhere = format!("host={}", self.standby.folder().join("nowhere").display());
        self.standby.set("primary_conninfo", &nowhere)?;
        Ok(self.primary.until_alone()?)
    }

    /// Kills every process of the primary at once, as a machine failure would.
    pub(crate) fn kill_primary(&self) -> Result<()> {
        Ok(self.primary.kill()?)
    }

    /// Kills the former primary after a failover.
    pub(crate) fn kill_former(&self) -> Result<()> {
        Ok(self.standby.kill()?)
    }

    /// Cancels every commit on the former primary that waits for a standby, as an impatient operator would. The
    /// server reports each as committed, with a warning.
    pub(crate) fn cancel_waiting_on_former(&self) -> Result<()> {
        let cancel = "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity \
            WHERE wait_event = 'SyncRep'";
        self.standby.sql(DATABASE, cancel)?;
        Ok(())
    }

    /// Promotes the standby. Commits do not wait for replication until there is a standby again.
    pub(crate) fn promote(&mut self) -> Result<()> {
        self.standby.promote()?;
        std::mem::swap(&mut self.primary, &mut self.standby);
        Ok(())
    }
}
