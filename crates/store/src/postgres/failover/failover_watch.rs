//! Looks for a new primary that no transaction of this process has reached yet.
//!
//! An old primary that keeps running answers as before, and does not report the one that took over. A coordinator
//! whose connections still lead to it would read old keys for as long as it has no reason to reconnect. So each
//! server of the address is probed every second, on a connection outside the pools: does it take writes, and on which
//! timeline? Once a later timeline is seen, the old server is neither read nor written any more ([`super::primary`]),
//! and new connections try the later one first ([`crate::postgres::connection::server_list`]).
//!
//! An address may come to resolve to another server, so the probe reconnects after a number of probes.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio_postgres::{Client, Error};

use super::primary::{self, Identity};
use crate::postgres::Shared;
use crate::postgres::connection::server_list::{CONNECT_TIMEOUT, ServerList};

/// Probe interval. Equal to the interval at which coordinators read their keys: a key that was revoked on the new
/// primary is accepted here until that primary is seen.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// Number of probes per connection. A new connection costs the server more than a probe.
const PROBES_MAX: u32 = 10;

/// Starts a probe for every server of the address. It ends with the store.
pub(in crate::postgres) fn start(shared: &Arc<Shared>, servers: &ServerList) {
    for host in 0..servers.count() {
        shared.runtime.spawn(watch(Arc::downgrade(shared), servers.clone(), host));
    }
}

async fn watch(shared: Weak<Shared>, servers: ServerList, host: usize) {
    let mut session = None;
    loop {
        tokio::time::sleep(PROBE_INTERVAL).await;
        if shared.strong_count() == 0 {
            return;
        }
        let probe = probe(&servers, host, session.take());
        let probed = tokio::time::timeout(CONNECT_TIMEOUT, probe).await;
        let Some(shared) = shared.upgrade() else { return };
        match probed {
            Ok(Ok((seen, again))) => {
                session = again;
                if seen.is_some_and(|seen| shared.primary.observe(&seen)) {
                    servers.prefer(host);
                }
            }
            Ok(Err(error)) => tracing::debug!(host, %error, "cannot check a server"),
            Err(_) => tracing::debug!(host, "cannot check a server in time"),
        }
        // Settles the failover now: there may be no batch soon that would do it.
        if let Err(failure) = primary::settle_failover(&shared).await {
            tracing::warn!(error = %failure, "cannot determine the current primary yet");
        }
    }
}

/// A connection for probes.
struct Session {
    client: Client,
    driver: AbortHandle,
    probes: u32,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// The server's identity, if it takes writes, and the connection, if it can be reused.
async fn probe(
    servers: &ServerList,
    host: usize,
    session: Option<Session>,
) -> Result<(Option<Identity>, Option<Session>), Error> {
    let mut session = match session {
        Some(session) => session,
        None => {
            let (client, driver) = servers.connect_to(host).await?;
            let driver = tokio::spawn(async move {
                // The client reports the end of the connection.
                let _ = driver.await;
            });
            Session { client, driver: driver.abort_handle(), probes: 0 }
        }
    };
    session.probes += 1;
    let seen = primary::read_identity(&session.client).await?;
    Ok((seen, Some(session).filter(|session| session.probes < PROBES_MAX)))
}
