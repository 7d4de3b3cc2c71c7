//! Fetches work: as much as there are free places, in one long poll at a time.
//!
//! A poll keeps its id until it is answered, so that leases granted in an answer that got lost are
//! handed out again instead of running out.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use wire::answers::Leases;
use wire::limits::{LEASES_PER_POLL, WAIT_MS};
use wire::requests::LeaseRequest;

use super::attempt::{Granted, Shop, carry};
use super::clock::Moment;
use super::event::WorkerEvent;
use super::pause::Pause;
use crate::client::random_hex;
use crate::{Error, Retries};

/// Where and how to ask.
pub(crate) struct Polling {
    pub(crate) shop: Arc<Shop>,
    pub(crate) queues: Vec<String>,
    pub(crate) places: Arc<Semaphore>,
    pub(crate) retries: Retries,
}

impl Polling {
    /// Asks for ever and lets granted attempts run in `running`; ends only by a refusal.
    pub(crate) async fn run(&self, running: &mut JoinSet<()>) -> Error {
        loop {
            // Ended attempts are taken out here, so that the set holds at most what was granted since.
            while running.try_join_next().is_some() {}
            let permits = self.free_places().await;
            let polled = self.shop.clock.now();
            match self.poll(permits.len()).await {
                Ok(leases) => self.begin(running, leases, permits, polled),
                Err(refusal) => return refusal,
            }
        }
    }

    /// At least one place, and every other that is free.
    async fn free_places(&self) -> Vec<OwnedSemaphorePermit> {
        let first = Arc::clone(&self.places).acquire_owned().await;
        let mut permits = vec![first.expect("nobody closes the semaphore of places")];
        let most = usize::try_from(*LEASES_PER_POLL.end()).unwrap_or(usize::MAX);
        while permits.len() < most {
            match Arc::clone(&self.places).try_acquire_owned() {
                Ok(permit) => permits.push(permit),
                Err(_) => break,
            }
        }
        permits
    }

    /// One poll, repeated with the same body until it is answered.
    async fn poll(&self, places: usize) -> Result<Leases, Error> {
        let request = LeaseRequest {
            worker_id: self.shop.worker_id.clone(),
            queues: self.queues.clone(),
            kinds: self.shop.tasks.kinds(),
            max: u32::try_from(places).unwrap_or(u32::MAX),
            wait_ms: Some(*WAIT_MS.end()),
            poll_id: Some(random_hex()?),
        };
        let mut pause = Pause::new(self.retries);
        loop {
            match self.shop.client.lease(&request).await {
                Ok(leases) => return Ok(leases),
                Err(error) if is_refusal(&error) => return Err(error),
                Err(error) => {
                    let why = error.to_string();
                    self.shop.events.emit(WorkerEvent::Unreachable { why });
                    pause.wait().await;
                }
            }
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
            tracing::warn!("more leases than were asked for; the rest is left to run out");
        }
        for (envelope, permit) in leases.leases.into_iter().zip(permits) {
            match Granted::new(&self.shop, envelope, polled, permit) {
                Some(granted) => drop(running.spawn(carry(granted))),
                None => tracing::warn!("a lease was handed out twice; it is being carried already"),
            }
        }
    }
}

/// A decision against this worker, such as a wrong key. Anything else may pass.
fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Refused(_) | Error::Setup(_)) && !error.may_repeat()
}
