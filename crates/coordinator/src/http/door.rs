//! What every route needs, and how long a route may wait.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use store::{Administration, Failure, Store};
use tokio_util::task::TaskTracker;
use verdict::{Name, Time};
use wire::Code;

use super::body::BodyPatience;
use super::declined::Declined;
use super::figures::Figures;
use super::health::Probes;
use super::overdue::Latecomers;
use super::translate::time;
use crate::admit::api_key::Verified;
use crate::admit::refusals::Refusals;
use crate::admit::{ApiKeys, Keyring};
use crate::coordinator::Coordinator;
use crate::ids::Entropy;
use crate::metrics::Limited;
use crate::server::tls::Certificates;

/// How long to wait for what.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For an answer, beyond what the request asked to wait. A batch takes milliseconds; after this
    /// the store is stuck and the client is better told so.
    pub answer: Duration,
    /// For one round of the carrier, before it is said to be stuck.
    pub progress: Duration,
    /// For counts of tasks that are newer than the last known ones, before a scraper gets those. Much shorter than
    /// scrapers wait.
    pub figures: Duration,
    pub body: BodyPatience,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(10),
            progress: Duration::from_secs(5),
            figures: Duration::from_secs(1),
            body: BodyPatience::default(),
        }
    }
}

/// Who are refused at the same time are told to come back at different times, in so many steps.
const SPREAD: u32 = 64;

/// How far apart they come back at most, where the wait itself is longer.
const SPREAD_MAX: Duration = Duration::from_secs(1);

/// A request's name, known before it is answered, so that records can quote it.
#[derive(Clone, Debug)]
pub(super) struct RequestId(pub(super) Arc<str>);

impl<S: Store> FromRequestParts<Door<S>> for RequestId {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, door: &Door<S>) -> Result<Self, Infallible> {
        let known = parts.extensions.get::<RequestId>().cloned();
        Ok(known.unwrap_or_else(|| RequestId(door.request_id())))
    }
}

/// Shared by all requests; cheap to clone.
pub struct Door<S: Store> {
    /// Shared, because every route clones its door several times.
    pub(crate) coordinator: Arc<Coordinator<S>>,
    pub(crate) inner: Arc<Inner>,
    /// Whether whoever reaches the listener may read `/metrics`.
    pub(super) has_open_metrics: bool,
}

pub(crate) struct Inner {
    pub(crate) keyring: Keyring,
    pub(crate) keys: ApiKeys,
    pub(crate) refusals: Refusals,
    /// Where workers call back: from configuration, never from what a request says (X18).
    pub(crate) callback_base_url: String,
    pub(crate) patience: Patience,
    /// What the listener shows, if it speaks TLS.
    pub(crate) certificates: Option<Certificates>,
    /// What goes on after its answer; a server that stops waits for it, because it holds the store.
    pub(crate) beside: TaskTracker,
    /// Where the end of the audit is noted, outside of the store.
    pub(crate) anchor: Option<PathBuf>,
    /// What those who ask for health wait for.
    pub(crate) probes: Probes,
    /// How full the queues are, as last read.
    pub(crate) figures: Arc<Figures>,
    /// What tenants have asked about tokens that are past their end.
    pub(crate) latecomers: Latecomers,
    /// Where new secrets come from.
    entropy: Mutex<Box<dyn Entropy>>,
    process: u32,
    requests: AtomicU64,
}

impl<S: Store> Clone for Door<S> {
    fn clone(&self) -> Self {
        let (coordinator, inner) = (self.coordinator.clone(), self.inner.clone());
        Self { coordinator, inner, has_open_metrics: self.has_open_metrics }
    }
}

impl<S: Store> Door<S> {
    pub fn new(
        coordinator: Coordinator<S>,
        keyring: Keyring,
        keys: ApiKeys,
        callback_base_url: String,
        patience: Patience,
        mut entropy: impl Entropy,
    ) -> Self {
        let mut process = [0; 4];
        entropy.fill(&mut process);
        let inner = Inner {
            keyring,
            keys,
            refusals: Refusals::default(),
            callback_base_url: callback_base_url.trim_end_matches('/').to_owned(),
            patience,
            certificates: None,
            beside: TaskTracker::new(),
            anchor: None,
            probes: Probes::default(),
            figures: Arc::default(),
            latecomers: Latecomers::default(),
            entropy: Mutex::new(Box::new(entropy)),
            process: u32::from_be_bytes(process),
            requests: AtomicU64::new(0),
        };
        let (coordinator, inner) = (Arc::new(coordinator), Arc::new(inner));
        Self { coordinator, inner, has_open_metrics: false }
    }

    /// Says what the listener shows, so that its troubles can be told. Before the door is shared.
    #[must_use]
    pub(crate) fn showing(mut self, certificates: Option<Certificates>) -> Self {
        let inner = Arc::get_mut(&mut self.inner).expect("a new door has no clones");
        inner.certificates = certificates;
        self
    }

    /// Says where the end of the audit is noted. Before the door is shared.
    #[must_use]
    pub(crate) fn anchored(mut self, anchor: PathBuf) -> Self {
        let inner = Arc::get_mut(&mut self.inner).expect("a new door has no clones");
        inner.anchor = Some(anchor);
        self
    }

    /// Says whether `/metrics` needs no key at the listener that this door is for.
    #[must_use]
    pub(crate) fn opening_metrics(self, has_open_metrics: bool) -> Self {
        Self { has_open_metrics, ..self }
    }

    /// A name for a request, unique among the processes of an installation.
    pub(super) fn request_id(&self) -> Arc<str> {
        const PREFIX: &[u8] = b"req_";
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        /// Of the number: enough for a thousand years of requests.
        const BITS: u32 = 48;
        let number = self.inner.requests.fetch_add(1, Ordering::Relaxed);
        let name = u128::from(self.inner.process) << BITS | u128::from(number);
        let mut text = [0; PREFIX.len() + (u32::BITS + BITS) as usize / 4];
        text[..PREFIX.len()].copy_from_slice(PREFIX);
        for (place, digit) in text[PREFIX.len()..].iter_mut().rev().enumerate() {
            *digit = DIGITS[(name >> (4 * place)) as usize & 15];
        }
        std::str::from_utf8(&text).expect("hexadecimal digits are ASCII").into()
    }

    /// Takes one request of the tenant's rate, or says when to come back.
    pub(super) fn meter(&self, tenant: &Name, now: Time) -> Result<(), Declined> {
        self.coordinator.allowances().ask(tenant, now).map_err(|wait| {
            self.coordinator.metrics().count_limited(Limited::Requests, 1);
            let message = "this tenant asks more often than it may; wait as told";
            let wait = Some(Duration::from_millis(wait.millis()));
            Declined { retry_after: wait, ..Declined::new(Code::TooManyRequests, message) }
        })
    }

    /// A wait, and up to as much again but no more than [`SPREAD_MAX`], by whose turn it is.
    pub(super) fn spread(&self, wait: Duration) -> Duration {
        let turn = self.inner.requests.load(Ordering::Relaxed) % u64::from(SPREAD);
        wait + wait.min(SPREAD_MAX) * turn as u32 / SPREAD
    }

    /// Writes down, once in an hour, that a key is in use. Nobody waits for it.
    pub(super) fn note_use(&self, verified: &Verified, now: Time) {
        if !self.inner.keys.is_use_news(verified, now) {
            return;
        }
        let (coordinator, id) = (self.coordinator.clone(), verified.key().id.clone());
        self.inner.beside.spawn(async move {
            let act = Administration { uses: vec![(id, now)], ..Administration::default() };
            if let Err(trouble) = coordinator.administer(act).await {
                tracing::debug!(%trouble, "that a key is in use was not written down");
            }
        });
    }

    /// Makes something that needs randomness.
    pub(super) fn draw<T>(&self, make: impl FnOnce(&mut dyn Entropy) -> T) -> T {
        make(self.inner.entropy.lock().expect("no code panics while it draws").as_mut())
    }

    pub(super) fn server_time(&self) -> wire::Time {
        time(self.coordinator.now())
    }

    /// Waits for a decision. One that does not come in time may still happen.
    pub(super) async fn decided<T>(&self, asked: impl Future<Output = T>) -> Result<T, Declined> {
        self.decided_after(Duration::ZERO, asked).await
    }

    /// The same for a request that asked to wait itself.
    pub(super) async fn decided_after<T>(
        &self,
        wait: Duration,
        asked: impl Future<Output = T>,
    ) -> Result<T, Declined> {
        let patience = self.inner.patience.answer + wait;
        tokio::time::timeout(patience, asked).await.map_err(|_| {
            Declined::new(Code::UnknownOutcome, "no decision came in time; asking again is safe")
        })
    }

    /// Waits for something to be read, after `wait` that the client asked for.
    pub(super) async fn read<T>(
        &self,
        wait: Duration,
        reading: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Declined> {
        match tokio::time::timeout(self.inner.patience.answer + wait, reading).await {
            Ok(read) => read.map_err(Declined::from),
            Err(_) => Err(Declined::new(Code::Unavailable, "the store did not answer in time")),
        }
    }
}
