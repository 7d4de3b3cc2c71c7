//! How a carrier waits: for requests, and for the earliest time at which something becomes due.
//!
//! No timer collects requests: everything that waits when a batch ends goes into the next one. An idle carrier sleeps
//! until a lease expires, a retry is due or a poll times out. It wakes more often only while leases are alive, to
//! notice a stall, and while a task is set aside.

use std::time::Duration;

use store::{PeerHint, Store, Writer};
use tokio::sync::oneshot;
use tokio::time::Instant;
use verdict::{Time, stall};

use super::administer::Act;
use super::object_calls::ObjectCall;
use super::role::CarrierRole;
use super::{Carrier, duration};
use crate::intake::Arrival;
use crate::item::{Group, UnavailableReason};

/// The longest sleep; a later wake-up time is computed again after it. It bounds the effect of a wrong clock.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// Sleep limit while a task is set aside: the store returns only the earliest wake-up time, and that may be the one of
/// the set-aside task.
const SET_ASIDE_POLL_INTERVAL: Duration = Duration::from_millis(500);

/// What arrived while the last batch was being carried.
#[derive(Default)]
pub(super) struct Arrivals {
    /// The number of arrivals of any kind.
    count: usize,
    weight: usize,
    pub(super) groups: Vec<Group>,
    pub(super) acts: Vec<Act>,
    pub(super) object_calls: Vec<ObjectCall>,
    pub(super) pings: Vec<oneshot::Sender<()>>,
    pub(super) close: bool,
}

impl Arrivals {
    pub(super) fn is_any(&self) -> bool {
        self.weight > 0 || !self.pings.is_empty()
    }
}

/// Whether anything happened while the carrier waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IdleWait {
    Elapsed,
    Interrupted,
}

impl<S: Store> Carrier<S> {
    /// Waits for work and returns it.
    pub(super) async fn wait(&mut self) -> Arrivals {
        let mut arrivals = Arrivals::default();
        // A request that is already waiting must not wait for the `next_wake` query.
        self.drain_intake(&mut arrivals);
        if arrivals.count > 0 || self.has_own_items() {
            return arrivals;
        }
        let idle_delay = if self.more_due { Duration::ZERO } else { S::IDLE_DELAY };
        let quiet_at = tokio::time::Instant::now() + idle_delay;
        let is_quiet = idle_delay.is_zero()
            || self.receive_until(quiet_at, &mut arrivals).await == IdleWait::Elapsed;
        if is_quiet {
            let wake = self.next_wake().await;
            self.receive_until(wake, &mut arrivals).await;
        }
        arrivals
    }

    /// Waits for the next arrival, at most until `until`.
    async fn receive_until(&mut self, until: Instant, arrivals: &mut Arrivals) -> IdleWait {
        let (draining, receiver) = (self.receiver.draining.clone(), &mut self.receiver);
        // A priority class without senders means that every handle was dropped: no more requests can arrive.
        let first = tokio::select! {
            biased;
            arrival = receiver.next() => Some(arrival.unwrap_or(Arrival::Close)),
            () = draining.cancelled(), if !self.polls.is_empty() => None,
            () = tokio::time::sleep_until(until) => return IdleWait::Elapsed,
            () = changed_elsewhere(&self.store, &self.role) => None,
        };
        first.into_iter().for_each(|arrival| self.accept(arrival, arrivals));
        self.drain_intake(arrivals);
        IdleWait::Interrupted
    }

    /// Takes everything else that waits, up to one batch.
    pub(super) fn drain_intake(&mut self, arrivals: &mut Arrivals) {
        let endpoints = self.endpoints.snapshot();
        let weigh = |arrival: &Arrival| arrival.weight(&endpoints);
        for arrival in self.receiver.take_batch(arrivals.weight, weigh) {
            self.accept(arrival, arrivals);
        }
    }

    pub(super) fn accept(&mut self, arrival: Arrival, arrivals: &mut Arrivals) {
        arrivals.count += 1;
        arrivals.weight += arrival.weight(&self.endpoints.snapshot());
        match arrival {
            Arrival::Group(group) => arrivals.groups.push(group),
            Arrival::Poll(poll) => self.polls.add(poll),
            Arrival::Administer { act, reply } => arrivals.acts.push(Act { act, reply }),
            Arrival::Objects(call) => arrivals.object_calls.push(call),
            Arrival::Ping(ping) => arrivals.pings.push(ping),
            Arrival::CountPolls(asked) => self.polls.answer_count(asked),
            Arrival::ListPolls(asked) => self.polls.answer_list(asked),
            Arrival::TasksEnded { created, at } => self.retention_state.note_ends(&created, at),
            Arrival::Close => arrivals.close = true,
        }
    }

    /// The earliest of: a task becomes due, a poll times out, a stall check is due.
    async fn next_wake(&mut self) -> Instant {
        let here = tokio::time::Instant::now();
        let (by_store, to_forget) = match self.backoff.until() {
            None if self.more_due => (Some(here), None),
            // For this carrier time only makes tasks ready, and no poll waits for one.
            None if !self.role.handles_leases() && self.polls.is_empty() => (None, None),
            None => {
                let to_forget = self.retention_state.wake(here, self.store.now());
                (self.wake_by_store(here).await, to_forget)
            }
            until => (until, None),
        };
        let hidden = (!self.set_aside.is_empty()).then(|| here + SET_ASIDE_POLL_INTERVAL);
        [by_store, to_forget, self.wake_for_stall_check(here), self.polls.next_wake(), hidden]
            .into_iter()
            .flatten()
            .fold(here + SLEEP_MAX, Instant::min)
    }

    async fn wake_by_store(&mut self, here: Instant) -> Option<Instant> {
        let now = self.store.now();
        match self.writer.next_wake().await {
            Ok(wake) => {
                // Bug 13 of the museum: tasks that did not fit into one sweep are forgotten.
                let is_forgotten = |at: &Time| faultpoint::mutant(13) && *at <= self.swept_at;
                let wake = wake.filter(|at| !is_forgotten(at));
                let pause = self.pause_for(wake);
                wake.map(|wake| here + duration(wake.since(now)).max(pause))
            }
            Err(failure) => {
                tracing::warn!(error = %failure, "cannot read from the store when to wake up");
                self.enter_outage(UnavailableReason::of(&failure));
                self.backoff.until()
            }
        }
    }

    /// A task that was due at the last batch and is still due was added by that batch, after its sweep: the next batch
    /// follows at once. If it is still due after that, another writer has it locked. It is then retried at intervals,
    /// so that it does not delay tasks that are due later.
    fn pause_for(&mut self, wake: Option<Time>) -> Duration {
        let left_over = wake.filter(|wake| *wake <= self.swept_at);
        let stays = left_over.is_some() && self.left_over == left_over;
        self.left_over = left_over;
        if stays { S::PEER_POLL_INTERVAL } else { Duration::ZERO }
    }

    /// While the store refuses, the stall is already known, so no check is needed until the store is tried again.
    fn wake_for_stall_check(&self, here: Instant) -> Option<Instant> {
        if self.stall.is_refused() || !self.role.handles_leases() {
            return None;
        }
        stall::check_period(self.writer.shortest_lease()).map(|period| here + duration(period))
    }
}

/// Resolves when another coordinator may have changed something. A carrier that grants listens for hints; polling is
/// enough for one that only sweeps.
async fn changed_elsewhere<S: Store>(store: &S, role: &CarrierRole) {
    match role {
        CarrierRole::Everything | CarrierRole::NewWork(_) => {
            store.peer_hint(PeerHint::Changed).await;
        }
        CarrierRole::Leased => tokio::time::sleep(S::PEER_POLL_INTERVAL).await,
    }
}
