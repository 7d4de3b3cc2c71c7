//! Looking for a primary that has taken over while nobody here met it.
//!
//! An old primary that lives on answers as before, and says nothing of the one that took over: a coordinator whose
//! connections still lead there would read old keys for as long as it has no reason to connect anew. So each server
//! of the address is asked every second, on a connection beside the pools, whether it takes writes and on which
//! timeline. Where a later one is seen, the old one is neither read nor written any more ([`super::primary`]), and
//! new connections try the later one first ([`crate::postgres::connection::server_list`]).
//!
//! The address may also come to lead to another server. So the connection is made anew now and then.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio_postgres::{Client, Error};

use super::primary::{self, Identity};
use crate::postgres::Shared;
use crate::postgres::connection::server_list::{CONNECT_TIMEOUT, ServerList};

/// How often to look: as often as coordinators read their keys again, since one that was revoked on the new primary is
/// good here until that primary was seen.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// How often one connection is used to look. To make a new one costs the server more than a look.
const PROBES_MAX: u32 = 10;

/// Begins to look at every server of the address. It ends with the store.
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
        // Also where no batch would do it soon.
        if let Err(failure) = primary::settle_failover(&shared).await {
            tracing::warn!(error = %failure, "cannot determine the current primary yet");
        }
    }
}

/// A connection to look through.
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

/// What a server is, if it takes writes, and the connection if it may be used again.
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
                // Whoever uses the client learns of its end there.
                let _ = driver.await;
            });
            Session { client, driver: driver.abort_handle(), probes: 0 }
        }
    };
    session.probes += 1;
    let seen = primary::read_identity(&session.client).await?;
    Ok((seen, Some(session).filter(|session| session.probes < PROBES_MAX)))
}
