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

use super::api_error::ApiError;
use super::body::SlowBodyLimits;
use super::health::Probes;
use super::queue_counts::QueueCountCache;
use super::token_grace::GraceLookups;
use super::translate::time;
use crate::admit::api_key::Verified;
use crate::admit::denials::DenialLog;
use crate::admit::{ApiKeys, Keyring};
use crate::coordinator::Coordinator;
use crate::ids::Entropy;
use crate::metrics::LimitKind;
use crate::server::tls::Certificates;

/// How long to wait for what.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// For an answer, beyond what the request asked to wait. A batch takes milliseconds; after this
    /// the store is stuck and the client is better told so.
    pub answer: Duration,
    /// For one round of the carrier, before it is said to be stuck.
    pub progress: Duration,
    /// For counts of tasks that are newer than the last known ones, before a scraper gets those. Much shorter than
    /// scrapers wait.
    pub queue_counts: Duration,
    pub body: SlowBodyLimits,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(10),
            progress: Duration::from_secs(5),
            queue_counts: Duration::from_secs(1),
            body: SlowBodyLimits::default(),
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

impl<S: Store> FromRequestParts<AppState<S>> for RequestId {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &AppState<S>) -> Result<Self, Infallible> {
        let known = parts.extensions.get::<RequestId>().cloned();
        Ok(known.unwrap_or_else(|| RequestId(app.request_id())))
    }
}

/// Shared by all requests; cheap to clone.
pub struct AppState<S: Store> {
    /// Shared, because every route clones its state several times.
    pub(crate) coordinator: Arc<Coordinator<S>>,
    pub(crate) inner: Arc<Inner>,
    /// Whether whoever reaches the listener may read `/metrics`.
    pub(super) has_open_metrics: bool,
}

pub(crate) struct Inner {
    pub(crate) keyring: Keyring,
    pub(crate) keys: ApiKeys,
    pub(crate) denials: DenialLog,
    /// Where workers call back: from configuration, never from what a request says (X18).
    pub(crate) callback_base_url: String,
    pub(crate) timeouts: Timeouts,
    /// What the listener shows, if it speaks TLS.
    pub(crate) certificates: Option<Certificates>,
    /// What goes on after its answer; a server that stops waits for it, because it holds the store.
    pub(crate) background: TaskTracker,
    /// Where the end of the audit is noted, outside of the store.
    pub(crate) anchor: Option<PathBuf>,
    /// What those who ask for health wait for.
    pub(crate) probes: Probes,
    /// How full the queues are, as last read.
    pub(crate) queue_counts: Arc<QueueCountCache>,
    /// What tenants have asked about tokens that are past their end.
    pub(crate) grace_lookups: GraceLookups,
    /// Where new secrets come from.
    entropy: Mutex<Box<dyn Entropy>>,
    process: u32,
    requests: AtomicU64,
}

impl<S: Store> Clone for AppState<S> {
    fn clone(&self) -> Self {
        let (coordinator, inner) = (self.coordinator.clone(), self.inner.clone());
        Self { coordinator, inner, has_open_metrics: self.has_open_metrics }
    }
}

impl<S: Store> AppState<S> {
    pub fn new(
        coordinator: Coordinator<S>,
        keyring: Keyring,
        keys: ApiKeys,
        callback_base_url: String,
        timeouts: Timeouts,
        mut entropy: impl Entropy,
    ) -> Self {
        let mut process = [0; 4];
        entropy.fill(&mut process);
        let inner = Inner {
            keyring,
            keys,
            denials: DenialLog::default(),
            callback_base_url: callback_base_url.trim_end_matches('/').to_owned(),
            timeouts,
            certificates: None,
            background: TaskTracker::new(),
            anchor: None,
            probes: Probes::default(),
            queue_counts: Arc::default(),
            grace_lookups: GraceLookups::default(),
            entropy: Mutex::new(Box::new(entropy)),
            process: u32::from_be_bytes(process),
            requests: AtomicU64::new(0),
        };
        let (coordinator, inner) = (Arc::new(coordinator), Arc::new(inner));
        Self { coordinator, inner, has_open_metrics: false }
    }

    /// Says what the listener shows, so that its errors can be told. Before the state is shared.
    #[must_use]
    pub(crate) fn with_certificates(mut self, certificates: Option<Certificates>) -> Self {
        let inner = Arc::get_mut(&mut self.inner).expect("a new state has no clones");
        inner.certificates = certificates;
        self
    }

    /// Says where the end of the audit is noted. Before the state is shared.
    #[must_use]
    pub(crate) fn with_anchor(mut self, anchor: PathBuf) -> Self {
        let inner = Arc::get_mut(&mut self.inner).expect("a new state has no clones");
        inner.anchor = Some(anchor);
        self
    }

    /// Says whether `/metrics` needs no key at the listener that this state is for.
    #[must_use]
    pub(crate) fn with_open_metrics(self, has_open_metrics: bool) -> Self {
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
    pub(super) fn check_rate(&self, tenant: &Name, now: Time) -> Result<(), ApiError> {
        self.coordinator.allowances().try_acquire(tenant, now).map_err(|wait| {
            self.coordinator.metrics().count_limited(LimitKind::Requests, 1);
            let message = "the tenant exceeded its request rate; wait for the time in Retry-After";
            let wait = Some(Duration::from_millis(wait.millis()));
            ApiError { retry_after: wait, ..ApiError::new(Code::TooManyRequests, message) }
        })
    }

    /// A wait, and up to as much again but no more than [`SPREAD_MAX`], by whose turn it is.
    pub(super) fn spread(&self, wait: Duration) -> Duration {
        let turn = self.inner.requests.load(Ordering::Relaxed) % u64::from(SPREAD);
        wait + wait.min(SPREAD_MAX) * turn as u32 / SPREAD
    }

    /// Writes down, once in an hour, that a key is in use. Nobody waits for it.
    pub(super) fn note_use(&self, verified: &Verified, now: Time) {
        if !self.inner.keys.should_record_use(verified, now) {
            return;
        }
        let (coordinator, id) = (self.coordinator.clone(), verified.key().id.clone());
        self.inner.background.spawn(async move {
            let act = Administration { uses: vec![(id, now)], ..Administration::default() };
            if let Err(error) = coordinator.administer(act).await {
                tracing::debug!(%error, "cannot record the use of a key");
            }
        });
    }

    /// Makes something that needs randomness.
    pub(super) fn with_entropy<T>(&self, make: impl FnOnce(&mut dyn Entropy) -> T) -> T {
        make(self.inner.entropy.lock().expect("no code panics while it draws").as_mut())
    }

    pub(super) fn server_time(&self) -> wire::Time {
        time(self.coordinator.now())
    }

    /// Waits for a decision. One that does not come in time may still happen.
    pub(super) async fn decided<T>(&self, asked: impl Future<Output = T>) -> Result<T, ApiError> {
        self.decided_after(Duration::ZERO, asked).await
    }

    /// The same for a request that asked to wait itself.
    pub(super) async fn decided_after<T>(
        &self,
        wait: Duration,
        asked: impl Future<Output = T>,
    ) -> Result<T, ApiError> {
        let timeout = self.inner.timeouts.answer + wait;
        tokio::time::timeout(timeout, asked).await.map_err(|_| {
            ApiError::new(
                Code::UnknownOutcome,
                "no decision came in time; the request may still take effect, and is safe to repeat",
            )
        })
    }

    /// Waits for something to be read, after `wait` that the client asked for.
    pub(super) async fn read<T>(
        &self,
        wait: Duration,
        reading: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, ApiError> {
        match tokio::time::timeout(self.inner.timeouts.answer + wait, reading).await {
            Ok(read) => read.map_err(ApiError::from),
            Err(_) => Err(ApiError::new(Code::Unavailable, "the store did not answer in time")),
        }
    }
}
