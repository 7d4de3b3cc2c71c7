//! Fetches work: as many tasks as there are free slots, with one long poll at a time.
//!
//! A poll keeps its id until it is answered, so that leases whose answer was lost are returned
//! again instead of expiring. A poll also brings word that a running task has a signal; a worker
//! without a free slot polls for that alone.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use wire::answers::Leases;
use wire::limits::{LEASES_PER_POLL, WAIT_MS};
use wire::requests::LeaseRequest;

use super::announcement::Announcement;
use super::attempt::{GrantedAttempt, SharedState, hand_back, run_attempt};
use super::backoff::Backoff;
use super::clock::Moment;
use super::event::WorkerEvent;
use super::lease_state::locked;
use crate::client::random_hex;
use crate::{Error, Retries};

/// How long every slot must be taken before the worker polls for signals alone. Short tasks free a
/// slot sooner, and then each such poll would only cost a connection.
const LISTEN_AFTER: Duration = Duration::from_secs(1);

/// How long a free slot waits for others that may be polled for together. Short against the time of a
/// poll, so that a worker with long tasks notices nothing.
const REFILL_WITHIN: Duration = Duration::from_millis(1);

/// How often a poll is repeated before the worker says that nothing answers: enough for a restart or for another
/// coordinator, some two seconds in all.
const SILENT_RETRIES_MAX: usize = 4;

/// How long a shutdown waits for the answer to a poll that does not wait: a process without a coordinator should end soon.
const END_POLL_WITHIN: Duration = Duration::from_secs(2);

/// How often the worker says so while it lasts.
const REMIND_AFTER: Duration = Duration::from_secs(60);

/// The queues to poll and the state that attempts share.
pub(crate) struct Poller {
    pub(crate) shared: Arc<SharedState>,
    pub(crate) queues: Vec<String>,
    pub(crate) slots: Arc<Semaphore>,
    /// How many slots there are.
    pub(crate) concurrency: u32,
    pub(crate) retries: Retries,
    pub(crate) announcement: Announcement,
    /// The poll that has no answer yet.
    pub(crate) open: Mutex<Option<LeaseRequest>>,
}

impl Poller {
    /// Polls without end and spawns granted attempts in `running`; returns only after a refusal.
    pub(crate) async fn run(&self, running: &mut JoinSet<()>) -> Error {
        loop {
            // Removes ended attempts, so that the set holds at most those granted since.
            while running.try_join_next().is_some() {}
            let permits = tokio::select! {
                biased;
                permits = free_slots(&self.slots, self.concurrency) => permits,
                () = self.listen() => continue,
            };
            let polled = self.shared.clock.now();
            let answer = self.poll(permits.num_permits()).await;
            *locked(&self.open) = None;
            match answer {
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
            let request = self.announcement.added_to(self.request(0, None));
            self.shared.events.metrics.count_poll();
            match self.shared.client.lease(&request).await {
                Ok(leases) if self.announcement.is_wanted(&request, &leases) => {}
                Err(error) if self.announcement.is_refused(&request, &error) => {}
                Ok(leases) => self.shared.lease_table.hurry(&leases.signals),
                // An older coordinator has no polls for signals: heartbeats alone bring them.
                Err(error) if is_refusal(&error) => std::future::pending().await,
                Err(_) => backoff.wait().await,
            }
        }
    }

    /// One poll, repeated under the same id until it is answered. A coordinator that only asks for the announcement has not
    /// answered it.
    async fn poll(&self, slots: usize) -> Result<Leases, Error> {
        let request = self.request(slots, Some(random_hex()?));
        *locked(&self.open) = Some(request.clone());
        let mut backoff = Backoff::new(self.retries);
        let times = self.retries.times.min(SILENT_RETRIES_MAX);
        let client = self.shared.client.clone().with_retries(Retries { times, ..self.retries });
        let mut said_at: Option<Instant> = None;
        loop {
            let announcing = self.announcement.added_to(request.clone());
            self.shared.events.metrics.count_poll();
            match client.lease(&announcing).await {
                Ok(leases) if self.announcement.is_wanted(&announcing, &leases) => {
                    // One that still does not know it should not be asked without a pause.
                    if announcing.announce.is_some() {
                        backoff.wait().await;
                    }
                }
                Ok(leases) => return Ok(leases),
                Err(error) if self.announcement.is_refused(&announcing, &error) => {}
                Err(error) if is_refusal(&error) => return Err(error),
                Err(error) => {
                    if said_at.is_none_or(|said_at| said_at.elapsed() >= REMIND_AFTER) {
                        said_at = Some(Instant::now());
                        let why = error.to_string();
                        self.shared.events.emit(WorkerEvent::Unreachable { why });
                    }
                    backoff.wait().await;
                }
            }
        }
    }

    /// Ends the poll that a shutdown interrupted: repeated once without waiting, it tells what was granted in between, and
    /// that is handed back. Without this, such a lease would wait until it expires.
    pub(crate) fn end_open_poll(&self) -> impl Future<Output = ()> + Send + use<> {
        let open = locked(&self.open).take();
        let shared = Arc::clone(&self.shared);
        async move {
            let Some(request) = open else { return };
            let request = LeaseRequest { wait_ms: Some(0), ..request };
            let client = shared.client.clone().with_retries(Retries::NONE);
            match timeout(END_POLL_WITHIN, client.lease(&request)).await {
                Ok(Ok(leases)) => {
                    for envelope in leases.leases {
                        hand_back(&shared, envelope).await;
                    }
                }
                Ok(Err(_)) | Err(_) => {
                    tracing::debug!("the open poll was not ended; a lease that it got will expire");
                }
            }
        }
    }

    fn request(&self, slots: usize, poll_id: Option<String>) -> LeaseRequest {
        LeaseRequest {
            worker_id: self.shared.worker_id.to_string(),
            queues: self.queues.clone(),
            kinds: self.shared.tasks.kinds(),
            max: u32::try_from(slots).unwrap_or(u32::MAX),
            wait_ms: Some(*WAIT_MS.end()),
            poll_id,
            ..LeaseRequest::default()
        }
    }

    fn begin(
        &self,
        running: &mut JoinSet<()>,
        leases: Leases,
        mut permits: OwnedSemaphorePermit,
        polled: Moment,
    ) {
        for envelope in leases.leases {
            let Some(permit) = permits.split(1) else {
                tracing::warn!("got more leases than requested; the rest will expire");
                break;
            };
            match GrantedAttempt::new(&self.shared, envelope, polled, permit) {
                Some(granted) => drop(running.spawn(run_attempt(granted))),
                None => tracing::warn!("got a lease twice; it is already in progress"),
            }
        }
    }
}

/// Waits for free slots: for one, and a moment for a good part of all of them. While tasks are short,
/// a poll then fetches many; while they are long, hardly any time is lost.
async fn free_slots(slots: &Arc<Semaphore>, concurrency: u32) -> OwnedSemaphorePermit {
    let most = u32::try_from(*LEASES_PER_POLL.end()).unwrap_or(u32::MAX);
    let good_part = (concurrency / 2).clamp(1, most);
    let mut permits = acquire(slots, 1).await;
    if let Ok(part) = timeout(REFILL_WITHIN, acquire(slots, good_part - 1)).await {
        permits.merge(part);
    }
    let taken = u32::try_from(permits.num_permits()).unwrap_or(u32::MAX);
    let free = u32::try_from(slots.available_permits()).unwrap_or(u32::MAX);
    let rest = free.min(most.saturating_sub(taken));
    if let Ok(rest) = Arc::clone(slots).try_acquire_many_owned(rest) {
        permits.merge(rest);
    }
    permits
}

async fn acquire(slots: &Arc<Semaphore>, count: u32) -> OwnedSemaphorePermit {
    let acquired = Arc::clone(slots).acquire_many_owned(count).await;
    acquired.expect("nobody closes the semaphore of slots")
}

/// Whether the coordinator refused this worker, for example because of a wrong key. Other errors
/// may be transient.
fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Refused(_) | Error::Setup(_)) && !error.is_retryable()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_idle_worker_polls_for_every_slot_at_once() {
        for (concurrency, polled) in [(1, 1), (8, 8), (1_000, 256)] {
            let slots = Arc::new(Semaphore::new(concurrency as usize));
            let begun = Instant::now();
            assert_eq!(free_slots(&slots, concurrency).await.num_permits(), polled);
            assert_eq!(begun.elapsed(), Duration::ZERO);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_free_slot_waits_only_a_moment_for_others() {
        let slots = Arc::new(Semaphore::new(8));
        let taken = acquire(&slots, 7).await;
        let begun = Instant::now();
        assert_eq!(free_slots(&slots, 8).await.num_permits(), 1);
        assert_eq!(begun.elapsed(), REFILL_WITHIN);
        drop(taken);
        assert_eq!(slots.available_permits(), 8);
    }

    #[tokio::test(start_paused = true)]
    async fn slots_that_become_free_meanwhile_are_polled_for_together() {
        let slots = Arc::new(Semaphore::new(8));
        let mut taken = acquire(&slots, 7).await;
        let begun = Instant::now();
        let ending = async {
            tokio::task::yield_now().await;
            drop(taken.split(4));
        };
        let (polled, ()) = tokio::join!(free_slots(&slots, 8), ending);
        assert_eq!(polled.num_permits(), 5);
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
