//! The thread that sends heartbeats and checkpoint calls for running attempts, and reports that their own runtime does not
//! send. It has a separate runtime and separate connections, so that a task that blocks its runtime loses no lease and hardly
//! delays the report of another task.

use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::checkpoints::{self, PendingCall};
use super::heartbeats::send_heartbeats;
use super::lease_state::StopReason;
use super::lease_table::LeaseTable;
use super::outbox::Outbox;
#[cfg(not(feature = "museum"))]
use crate::faultpoint;
use crate::{Client, Error, Retries};

/// What attempts file for delivery.
pub(crate) struct Pending {
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) calls: mpsc::Receiver<PendingCall>,
}

pub(crate) struct HeartbeatThread {
    thread: JoinHandle<()>,
    stop: CancellationToken,
}

impl HeartbeatThread {
    /// Heartbeats have their own retry schedule; starts, checkpoint calls and reports are repeated as `retries` says.
    pub(crate) fn start(
        client: &Client,
        retries: Retries,
        lease_table: Arc<LeaseTable>,
        pending: Pending,
    ) -> Result<HeartbeatThread, Error> {
        let failed = |why| Error::Setup(format!("cannot start the heartbeat thread: {why}"));
        let client = client.with_new_connections()?;
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let stop = CancellationToken::new();
        let until = stop.clone();
        let thread = std::thread::Builder::new()
            .name("tenure-heartbeat".to_owned())
            .spawn(move || {
                let _end = LoseLeasesOnDrop(Arc::clone(&lease_table));
                let Pending { outbox, calls } = pending;
                let beats = send_heartbeats(
                    client.clone().with_retries(Retries::NONE),
                    retries,
                    lease_table,
                    &outbox,
                    until.clone(),
                );
                let beats = async {
                    if faultpoint::mutant(3) {
                        until.cancelled().await;
                    }
                    beats.await;
                };
                let once = client.clone().with_retries(Retries::NONE);
                let calls = checkpoints::deliver(once, retries, calls, until.clone());
                let reports = outbox.deliver_orphans(client.with_retries(retries), until.clone());
                runtime.block_on(async { tokio::join!(beats, calls, reports) });
            })
            .map_err(failed)?;
        Ok(HeartbeatThread { thread, stop })
    }

    /// Stops the heartbeats; the thread ends when every filed report was delivered.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// Stops the heartbeats and waits until every filed report was delivered.
    pub(crate) async fn end(self) {
        self.stop.cancel();
        let joined = tokio::task::spawn_blocking(move || self.thread.join()).await;
        if !matches!(joined, Ok(Ok(()))) {
            tracing::error!("the thread for heartbeats and reports did not end cleanly");
        }
    }
}

/// Marks all leases as lost when heartbeats end for any reason: without them no attempt may
/// continue.
struct LoseLeasesOnDrop(Arc<LeaseTable>);

impl Drop for LoseLeasesOnDrop {
    fn drop(&mut self) {
        let why = "its worker no longer sends heartbeats".to_owned();
        self.0.stop_all(&StopReason::LeaseLost { why });
    }
}
