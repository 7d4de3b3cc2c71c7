//! Fetches work: as many tasks as there are free slots, with one long poll at a time.
//!
//! A poll keeps its id until it is answered, so that leases whose answer was lost are returned
//! again instead of expiring. A poll also brings word that a running task has a signal; a worker
//! without a free slot polls for that alone.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use wire::answers::Leases;
use wire::limits::{LEASES_PER_POLL, WAIT_MS};
use wire::requests::LeaseRequest;

use super::attempt::{GrantedAttempt, SharedState, run_attempt};
use super::backoff::Backoff;
use super::clock::Moment;
use super::event::WorkerEvent;
use crate::client::random_hex;
use crate::{Error, Retries};

/// How long every slot must be taken before the worker polls for signals alone. Short tasks free a
/// slot sooner, and then each such poll would only cost a connection.
const LISTEN_AFTER: Duration = Duration::from_secs(1);

/// The queues to poll and the state that attempts share.
pub(crate) struct Poller {
    pub(crate) shared: Arc<SharedState>,
    pub(crate) queues: Vec<String>,
    pub(crate) slots: Arc<Semaphore>,
    pub(crate) retries: Retries,
}

impl Poller {
    /// Polls without end and spawns granted attempts in `running`; returns only after a refusal.
    pub(crate) async fn run(&self, running: &mut JoinSet<()>) -> Error {
        loop {
            // Removes ended attempts, so that the set holds at most those granted since.
            while running.try_join_next().is_some() {}
            let permits = tokio::select! {
                biased;
                permits = self.free_slots() => permits,
                () = self.listen() => continue,
            };
            let polled = self.shared.clock.now();
            match self.poll(permits.len()).await {
                Ok(leases) => {
                    self.shared.lease_table.hurry(&leases.signals);
                    self.begin(running, leases, permits, polled);
                }
                Err(refusal) => return refusal,
            }
        }
    }

    /// Listens for signals while every slot is taken. Ends only when the caller drops it.
    async fn listen(&self) {
        let mut backoff = Backoff::new(self.retries);
        loop {
            tokio::time::sleep(LISTEN_AFTER).await;
            match self.shared.client.lease(&self.request(0, None)).await {
                Ok(leases) => self.shared.lease_table.hurry(&leases.signals),
                // An older coordinator has no polls for signals: heartbeats alone bring them.
                Err(error) if is_refusal(&error) => std::future::pending().await,
                Err(_) => backoff.wait().await,
            }
        }
    }

    /// Waits for one slot and takes every other free one.
    async fn free_slots(&self) -> Vec<OwnedSemaphorePermit> {
        let first = Arc::clone(&self.slots).acquire_owned().await;
        let mut permits = vec![first.expect("nobody closes the semaphore of slots")];
        let most = usize::try_from(*LEASES_PER_POLL.end()).unwrap_or(usize::MAX);
        while permits.len() < most {
            match Arc::clone(&self.slots).try_acquire_owned() {
                Ok(permit) => permits.push(permit),
                Err(_) => break,
            }
        }
        permits
    }

    /// One poll, repeated with the same body until it is answered.
    async fn poll(&self, slots: usize) -> Result<Leases, Error> {
        let request = self.request(slots, Some(random_hex()?));
        let mut backoff = Backoff::new(self.retries);
        loop {
            match self.shared.client.lease(&request).await {
                Ok(leases) => return Ok(leases),
                Err(error) if is_refusal(&error) => return Err(error),
                Err(error) => {
                    let why = error.to_string();
                    self.shared.events.emit(WorkerEvent::Unreachable { why });
                    backoff.wait().await;
                }
            }
        }
    }

    fn request(&self, slots: usize, poll_id: Option<String>) -> LeaseRequest {
        LeaseRequest {
            worker_id: self.shared.worker_id.clone(),
            queues: self.queues.clone(),
            kinds: self.shared.tasks.kinds(),
            max: u32::try_from(slots).unwrap_or(u32::MAX),
            wait_ms: Some(*WAIT_MS.end()),
            poll_id,
        }
    }

    fn begin(
        &self,
        running: &mut JoinSet<()>,
        leases: Leases,
        permits: Vec<OwnedSemaphorePermit>,
        polled: Moment,
    ) {
        if leases.leases.len() > permits.len() {
            tracing::warn!("got more leases than requested; the rest will expire");
        }
        for (envelope, permit) in leases.leases.into_iter().zip(permits) {
            match GrantedAttempt::new(&self.shared, envelope, polled, permit) {
                Some(granted) => drop(running.spawn(run_attempt(granted))),
                None => tracing::warn!("got a lease twice; it is already in progress"),
            }
        }
    }
}

/// Whether the coordinator refused this worker, for example because of a wrong key. Other errors
/// may be transient.
fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Refused(_) | Error::Setup(_)) && !error.is_retryable()
}
