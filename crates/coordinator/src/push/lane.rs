//! The work of one endpoint: leases as its worker while it has room, and hands each lease over.
//!
//! How many leases the endpoint holds is read from the store before each poll: it counts what another coordinator pushed before,
//! and what workers that answered 2xx still work on. While a failure is fresh, one task at a time finds out whether the
//! endpoint is back.

use std::sync::Arc;
use std::time::Duration;

use store::effects::StoredEndpoint;
use store::{Browse, Failure};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use verdict::effect::EndpointStatus;
use verdict::push::{self, PushClaim};
use verdict::reserved::is_served_outside;
use verdict::{Name, Rate, RateUsage, Scope, Span, Time};

use super::call::{Call, Handed};
use super::claim;
use super::under_way::Place;
use crate::http::AppState;
use crate::item::{Granted, Poll, RequestError};
use crate::outbox::administer::{EndpointChange, change};

/// How long one poll waits for work. A claim that is good lasts longer.
const POLL: Duration = Duration::from_secs(5);

/// The pause where there is nothing to do: no room, no claim, a refusal of the store.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The pause before another try to take a claim that another coordinator has.
const CLAIM_AGAIN: Duration = Duration::from_secs(1);

/// Tasks leased by one poll.
const GRANTS_MAX: usize = 64;

/// Pairs of worker and queue that are read to count leases: an endpoint has at most this many queues.
const HELD_MAX: usize = 64;

/// The audit names this as the one who disabled an endpoint whose receiver is gone.
const GONE: &str = "push";

pub(super) struct Lane {
    app: AppState,
    place: (Scope, Name),
    /// This coordinator, as claims name it.
    holder: Name,
    claim: Option<PushClaim>,
    calls: JoinSet<Handed>,
    failures: u32,
    paused_until: Option<Time>,
    spent: RateUsage,
}

/// Whether work is pushed to an endpoint.
pub(super) fn is_pushed_to(stored: &StoredEndpoint) -> bool {
    stored.endpoint.status == EndpointStatus::Enabled && !served(&stored.endpoint.queues).is_empty()
}

/// Those of the queues that workers may serve at all: an endpoint is a worker like any other.
fn served(queues: &[Name]) -> Vec<Name> {
    queues.iter().filter(|queue| is_served_outside(queue.as_str())).cloned().collect()
}

impl Lane {
    pub(super) fn new(app: AppState, place: (Scope, Name)) -> Self {
        let holder = app.process_name();
        let (calls, spent) = (JoinSet::new(), RateUsage::default());
        Self { app, place, holder, claim: None, calls, failures: 0, paused_until: None, spent }
    }

    /// Pushes until the endpoint is no longer pushed to, or `closing` is cancelled. Then it waits for the calls under way.
    pub(super) async fn run(mut self, closing: CancellationToken) {
        while let Some(stored) = self.endpoint().filter(|_| !closing.is_cancelled()) {
            let pause = self.turn(&stored, &closing).await;
            while let Some(ended) = self.calls.try_join_next() {
                self.note(ended).await;
            }
            let Some(pause) = pause else { continue };
            let ended = tokio::select! {
                biased;
                () = closing.cancelled() => None,
                Some(ended) = self.calls.join_next() => Some(ended),
                () = tokio::time::sleep(pause) => None,
            };
            if let Some(ended) = ended {
                self.note(ended).await;
            }
        }
        while self.calls.join_next().await.is_some() {}
    }

    /// The endpoint, while work is pushed to it.
    fn endpoint(&self) -> Option<Arc<StoredEndpoint>> {
        let (scope, name) = &self.place;
        let endpoints = self.app.coordinator.endpoints().snapshot();
        endpoints.get(scope)?.get(name).filter(|stored| is_pushed_to(stored)).cloned()
    }

    /// One poll, if there is room for what it may bring. Returns a pause if there is not.
    async fn turn(
        &mut self,
        stored: &StoredEndpoint,
        closing: &CancellationToken,
    ) -> Option<Duration> {
        if self.paused_until.is_some_and(|until| !until.has_come(self.app.coordinator.now())) {
            return Some(LOOK_AGAIN);
        }
        if !self.holds_claim().await {
            return Some(CLAIM_AGAIN);
        }
        let max = match self.room(stored).await {
            Ok(room) => room.min(GRANTS_MAX),
            Err(failure) => {
                tracing::warn!(error = %failure, "cannot count what an endpoint works on");
                return Some(CLAIM_AGAIN);
            }
        };
        if max == 0 {
            return Some(LOOK_AGAIN);
        }
        match self.lease(self.poll(stored, max), closing).await {
            None => Some(LOOK_AGAIN),
            Some(Ok(granted)) => {
                self.hand_over(granted);
                None
            }
            Some(Err(error)) => {
                tracing::debug!(%error, "cannot lease for an endpoint");
                Some(CLAIM_AGAIN)
            }
        }
    }

    /// Polls, and gives up as soon as a call says that the endpoint takes nothing now: a poll that is given up hands back what
    /// it was granted.
    async fn lease(
        &mut self,
        poll: Poll,
        closing: &CancellationToken,
    ) -> Option<Result<Vec<Granted>, RequestError>> {
        let coordinator = self.app.coordinator.clone();
        let polling = coordinator.lease(poll);
        tokio::pin!(polling);
        loop {
            let ended = tokio::select! {
                biased;
                () = closing.cancelled() => return None,
                Some(ended) = self.calls.join_next() => ended,
                granted = &mut polling => return Some(granted),
            };
            if !self.note(ended).await {
                return None;
            }
        }
    }

    /// Whether this coordinator may push for the time of another poll. One that is alone with its store always may.
    async fn holds_claim(&mut self) -> bool {
        let coordinator = &self.app.coordinator;
        if coordinator.store().status().writers <= 1 {
            return true;
        }
        if self.claim.as_ref().is_some_and(|claim| claim.is_good(coordinator.now())) {
            return true;
        }
        let (scope, name) = &self.place;
        let taken = claim::take(coordinator, (scope, name), &self.holder).await;
        self.claim = taken.ok().flatten();
        self.claim.is_some()
    }

    /// How many tasks may be leased now.
    async fn room(&mut self, stored: &StoredEndpoint) -> Result<usize, Failure> {
        let (scope, name) = &self.place;
        let worker = push::worker(name);
        // Names that come before the worker's are left out by beginning right before it.
        let before = Name::from(name_before(worker.as_str()));
        let browse = self.app.coordinator.browse();
        let queues = Some(&stored.endpoint.queues[..]);
        let counting = browse.held_leases(scope, queues, Some(&before), HELD_MAX);
        // A tenant with hundreds of endpoints counts in its own share of the readers.
        let held = self.app.look(&scope.tenant, counting).await?;
        let held: u64 = held.iter().filter(|it| it.worker == worker).map(|it| it.count).sum();
        // Calls under way hold a lease each; those that were handed back a moment ago may not be gone from the store.
        let calls = self.calls.len();
        let held = held.max(calls as u64);
        let room = push::room(stored.endpoint.concurrency, held, calls, self.failures);
        let room = room.min(self.app.inner.pushes.room(&scope.tenant));
        Ok(self.within_rate(stored, room))
    }

    /// Spends as much of the rate as there is room for.
    fn within_rate(&mut self, stored: &StoredEndpoint, room: usize) -> usize {
        let Some(rate) = stored.endpoint.rate else { return room };
        let (rate, now) = (Rate::new(rate, None), self.app.coordinator.now());
        // One at a time: what a poll does not bring would be spent for nothing.
        match rate.try_acquire(self.spent, now) {
            Ok(spent) if room > 0 => {
                self.spent = spent;
                1
            }
            _ => 0,
        }
    }

    fn poll(&self, stored: &StoredEndpoint, max: usize) -> Poll {
        let (scope, name) = &self.place;
        Poll {
            scope: scope.clone(),
            worker: push::worker(name),
            queues: served(&stored.endpoint.queues),
            kinds: None,
            max,
            until: tokio::time::Instant::now() + POLL,
            poll: None,
            build: None,
        }
    }

    /// Begins a call for each grant. The grants go back if the endpoint has changed while the poll waited, and those for which
    /// there is no room any more.
    fn hand_over(&mut self, granted: Vec<Granted>) {
        let stored = self.endpoint();
        let mut back = Vec::new();
        for granted in granted {
            let begun = stored.clone().zip(self.app.inner.pushes.begin(&self.place.0.tenant));
            match begun {
                Some((endpoint, place)) => self.call(endpoint, granted, place),
                None => back.push((granted.key(), granted.lease())),
            }
        }
        if !back.is_empty() {
            self.app.coordinator.release(back);
        }
    }

    fn call(&mut self, endpoint: Arc<StoredEndpoint>, granted: Granted, place: Place) {
        let call = Call { app: self.app.clone(), endpoint, granted };
        self.calls.spawn(async move {
            let _place = place;
            call.hand_over().await
        });
    }

    /// Notes what came of a call. Returns whether the endpoint took it.
    async fn note(&mut self, ended: Result<Handed, JoinError>) -> bool {
        match ended {
            Ok(Handed::Over) => {
                (self.failures, self.paused_until) = (0, None);
                return true;
            }
            Ok(Handed::Gone) => self.disable().await,
            Ok(Handed::Back { asked }) => self.pause(asked),
            Err(_) => self.pause(None),
        }
        false
    }

    fn pause(&mut self, asked: Option<Span>) {
        self.failures = self.failures.saturating_add(1);
        let pause = push::pause(&self.place.1, self.failures, asked);
        let until = self.app.coordinator.now().plus(pause);
        self.paused_until = Some(self.paused_until.map_or(until, |before| before.max(until)));
    }

    /// The receiver said that it is gone for ever.
    async fn disable(&mut self) {
        let place = self.place.clone();
        let disabled =
            change(&self.app.coordinator, place, EndpointChange::Gone, GONE.into()).await;
        if !matches!(disabled, Ok(Ok(_))) {
            self.pause(None);
        }
    }
}

/// A name that sorts before this one, and after all others that do.
fn name_before(name: &str) -> String {
    let mut before = name.to_owned();
    match before.pop() {
        Some(last) if last > ' ' => {
            before.push(char::from_u32(u32::from(last) - 1).unwrap_or(' '));
            before.push('~');
        }
        _ => {}
    }
    before
}
