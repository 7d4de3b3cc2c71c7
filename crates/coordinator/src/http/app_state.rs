//! The state shared by all routes, and their timeouts.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use store::{Administration, Failure};
use tokio_util::task::TaskTracker;
use verdict::{Name, Time, requests_for};
use wire::Code;

use super::api_error::ApiError;
use super::body::SlowBodyLimits;
use super::byte_budget::ByteBudget;
use super::health::Probes;
use super::plans_at_hand::PlansAtHand;
use super::queue_counts::QueueCountCache;
use super::queue_depths::QueueDepths;
use super::read_share::ReadShare;
use super::same_origin::ConsoleHosts;
use super::token_grace::GraceLookups;
use super::translate::time;
use crate::admit::api_key::Verified;
use crate::admit::denials::DenialLog;
use crate::admit::sessions::Session;
use crate::admit::sessions::codes::LoginCodes;
use crate::admit::sessions::ledger::SessionLedger;
use crate::admit::{ApiKeys, Keyring};
use crate::announcements::Announcements;
use crate::coordinator::Coordinator;
use crate::ids::Entropy;
use crate::item::{Item, Submission};
use crate::metrics::LimitKind;
use crate::push::under_way::CallsUnderWay;
use crate::server::tls::Certificates;
use crate::submit_defaults::SubmitDefaults;
use crate::weight;

/// Timeouts of a route.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// For an answer, beyond the time that the request asked to wait. A batch takes milliseconds; after this
    /// timeout the store is stuck, and the client gets an error.
    pub answer: Duration,
    /// For one round of the carrier, before it counts as stuck.
    pub progress: Duration,
    /// For fresh counts of tasks, before a scraper gets the last known ones. Much shorter than a scraper's
    /// timeout.
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

/// How many different retry times are handed out to clients that are refused at the same time.
const SPREAD: u32 = 64;

/// The largest spread of retry times, where the wait itself is longer.
const SPREAD_MAX: Duration = Duration::from_secs(1);

/// A request's id, assigned before it is answered, so that audit entries can quote it.
#[derive(Clone, Debug)]
pub(super) struct RequestId(pub(super) Arc<str>);

impl FromRequestParts<AppState> for RequestId {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, Infallible> {
        let known = parts.extensions.get::<RequestId>().cloned();
        Ok(known.unwrap_or_else(|| RequestId(app.request_id())))
    }
}

/// Shared by all requests; cheap to clone.
pub struct AppState {
    /// Shared, because every route clones its state several times.
    pub(crate) coordinator: Arc<Coordinator>,
    pub(crate) inner: Arc<Inner>,
    /// Whether `/metrics` needs no key at this listener.
    pub(super) has_open_metrics: bool,
}

pub(crate) struct Inner {
    pub(crate) keyring: Keyring,
    pub(crate) keys: ApiKeys,
    pub(crate) denials: DenialLog,
    /// The base URL for callbacks of workers: from configuration, never from a request (X18).
    pub(crate) callback_base_url: String,
    pub(crate) timeouts: Timeouts,
    pub(crate) submit_defaults: SubmitDefaults,
    /// The certificate of the listener, if it uses TLS.
    pub(crate) certificates: Option<Certificates>,
    /// Tasks that continue after their answer; a stopping server waits for them, because they hold the store.
    pub(crate) background: TaskTracker,
    /// The path of the audit's anchor, outside of the store.
    pub(crate) anchor: Option<PathBuf>,
    /// The health check under way, which concurrent probes share.
    pub(crate) probes: Probes,
    /// The last known task counts of the queues.
    pub(crate) queue_counts: Arc<QueueCountCache>,
    /// How many queues `/metrics` lists by name.
    pub(crate) metrics_queues: usize,
    /// Whether the console is served beside the API.
    pub(crate) has_console: bool,
    /// Under which names the console may be opened.
    pub(crate) console_hosts: ConsoleHosts,
    /// The sessions of the console, and the one-time codes for them.
    pub(crate) sessions: SessionLedger,
    pub(crate) codes: Arc<LoginCodes>,
    /// Makes calls to receivers, and knows which addresses they may have.
    pub(crate) sender: delivery::Sender,
    /// Rate limits of lookups for expired tokens, by tenant.
    pub(crate) grace_lookups: GraceLookups,
    pub(super) read_share: ReadShare,
    /// The bodies of calls that are not answered yet.
    pub(super) bodies: ByteBudget,
    /// The answers that are not read yet.
    pub(super) answers: ByteBudget,
    /// What calls that wait keep of the runs that they wait for.
    pub(super) waits: ByteBudget,
    /// The calls to endpoints that work is pushed to.
    pub(crate) pushes: CallsUnderWay,
    pub(super) queue_depths: QueueDepths,
    /// The plans whose next stages are likely to be asked for.
    pub(crate) plans_at_hand: PlansAtHand,
    /// What workers announced that they can do.
    pub(crate) announcements: Announcements,
    /// The source of randomness for new secrets.
    entropy: Mutex<Box<dyn Entropy>>,
    process: u32,
    requests: AtomicU64,
}

impl Clone for AppState {
    fn clone(&self) -> Self {
        let (coordinator, inner) = (self.coordinator.clone(), self.inner.clone());
        Self { coordinator, inner, has_open_metrics: self.has_open_metrics }
    }
}

impl AppState {
    pub fn new(
        coordinator: Coordinator,
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
            submit_defaults: SubmitDefaults::default(),
            certificates: None,
            background: TaskTracker::new(),
            anchor: None,
            probes: Probes::default(),
            queue_counts: Arc::default(),
            metrics_queues: 0,
            has_console: false,
            console_hosts: ConsoleHosts::Any,
            sessions: SessionLedger::default(),
            codes: Arc::default(),
            sender: no_receivers(),
            grace_lookups: GraceLookups::default(),
            read_share: ReadShare::default(),
            bodies: ByteBudget::default(),
            answers: ByteBudget::default(),
            waits: ByteBudget::default(),
            pushes: CallsUnderWay::default(),
            queue_depths: QueueDepths::default(),
            plans_at_hand: PlansAtHand::default(),
            announcements: Announcements::default(),
            entropy: Mutex::new(Box::new(entropy)),
            process: u32::from_be_bytes(process),
            requests: AtomicU64::new(0),
        };
        let (coordinator, inner) = (Arc::new(coordinator), Arc::new(inner));
        Self { coordinator, inner, has_open_metrics: false }
    }

    /// Sets the listener's certificates, so that readiness can report their errors. Call it before sharing the
    /// state.
    #[must_use]
    pub(crate) fn with_certificates(mut self, certificates: Option<Certificates>) -> Self {
        let inner = Arc::get_mut(&mut self.inner).expect("a new state has no clones");
        inner.certificates = certificates;
        self
    }

    /// Sets what a submission means where it says nothing. Call it before sharing the state.
    #[must_use]
    pub fn with_submit_defaults(mut self, submit_defaults: SubmitDefaults) -> Self {
        let inner = Arc::get_mut(&mut self.inner).expect("a new state has no clones");
        inner.submit_defaults = submit_defaults;
        self
    }

    /// Sets the path of the audit's anchor. Call it before sharing the state.
    #[must_use]
    pub(crate) fn with_anchor(mut self, anchor: PathBuf) -> Self {
        let inner = Arc::get_mut(&mut self.inner).expect("a new state has no clones");
        inner.anchor = Some(anchor);
        self
    }

    /// Sets who makes calls to receivers. Call it before sharing the state.
    #[must_use]
    pub(crate) fn with_sender(mut self, sender: delivery::Sender) -> Self {
        let inner = Arc::get_mut(&mut self.inner).expect("a new state has no clones");
        inner.sender = sender;
        self
    }

    /// Sets how many queues `/metrics` lists by name. Call it before sharing the state.
    #[must_use]
    pub(crate) fn with_metrics_queues(mut self, metrics_queues: usize) -> Self {
        let inner = Arc::get_mut(&mut self.inner).expect("a new state has no clones");
        inner.metrics_queues = metrics_queues;
        self
    }

    /// Sets whether the console is served, and under which names. Call it before sharing the state.
    #[must_use]
    pub(crate) fn with_console(mut self, has_console: bool, hosts: ConsoleHosts) -> Self {
        let inner = Arc::get_mut(&mut self.inner).expect("a new state has no clones");
        (inner.has_console, inner.console_hosts) = (has_console, hosts);
        self
    }

    /// Sets whether `/metrics` needs no key at the listener of this state.
    #[must_use]
    pub(crate) fn with_open_metrics(self, has_open_metrics: bool) -> Self {
        Self { has_open_metrics, ..self }
    }

    /// An id for a request, unique across the processes of an installation.
    pub(super) fn request_id(&self) -> Arc<str> {
        const PREFIX: &[u8] = b"req_";
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        /// The width of the number: enough for a thousand years of requests.
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

    /// Takes one request from the tenant's rate, or returns when to retry.
    pub(super) fn check_rate(&self, tenant: &Name, now: Time) -> Result<(), ApiError> {
        self.coordinator.allowances().try_acquire(tenant, now).map_err(|wait| {
            self.coordinator.metrics().count_limited(LimitKind::Requests, 1);
            let message = "the tenant exceeded its request rate; wait for the time in Retry-After";
            let wait = Some(Duration::from_millis(wait.millis()));
            ApiError { retry_after: wait, ..ApiError::new(Code::TooManyRequests, message) }
        })
    }

    /// Takes one read from the rate of a session of the console. It is apart from the rate of the tenant.
    pub(super) fn check_rate_of_session(
        &self,
        session: &Session,
        now: Time,
    ) -> Result<(), ApiError> {
        self.inner.sessions.read(session, now).map_err(|wait| {
            let message =
                "this session reads faster than the console does; wait for the time in Retry-After";
            let wait = Some(Duration::from_millis(wait.millis()));
            ApiError { retry_after: wait, ..ApiError::new(Code::TooManyRequests, message) }
        })
    }

    /// Takes one request from the rate for a call under a lease that creates tasks, and what many of them stand for. Others are
    /// exempt, because they release load.
    pub(super) fn check_rate_of_children(&self, item: &Item) -> Result<(), ApiError> {
        let Some(scope) = item.creates_in() else { return Ok(()) };
        self.check_rate(&scope.tenant, self.coordinator.now())?;
        if let Item::WithChildren { children, .. } = item {
            let tasks: usize = children.iter().map(weight::tasks).sum();
            self.charge(&scope.tenant, requests_for(tasks as u64));
        }
        Ok(())
    }

    /// Takes what a call stands for that was let in as one request: it may create many tasks.
    pub(super) fn charge(&self, tenant: &Name, requests: u64) {
        let (allowances, now) = (self.coordinator.allowances(), self.coordinator.now());
        allowances.charge(tenant, requests.saturating_sub(1), now);
    }

    /// The same for submissions.
    pub(super) fn charge_submissions(&self, submissions: &[Submission]) {
        let Some(first) = submissions.first() else { return };
        let tasks: usize = submissions.iter().map(weight::tasks).sum();
        self.charge(&first.scope.tenant, requests_for(tasks as u64));
    }

    /// The wait plus a varying part of it: up to as much again, but no more than [`SPREAD_MAX`].
    pub(super) fn spread(&self, wait: Duration) -> Duration {
        let turn = self.inner.requests.load(Ordering::Relaxed) % u64::from(SPREAD);
        wait + wait.min(SPREAD_MAX) * turn as u32 / SPREAD
    }

    /// Records, once an hour, that a key is in use. No request waits for it.
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

    /// Refuses to answer a call whose key became invalid while the call waited.
    pub(super) fn check_still_valid(&self, key: &Name) -> Result<(), ApiError> {
        if self.inner.keys.is_usable(key.as_str(), self.coordinator.now()) {
            return Ok(());
        }
        let message = "the API key became invalid while this call waited";
        Err(ApiError::new(Code::Unauthenticated, message))
    }

    /// A name for this process, among those that share a database.
    pub(crate) fn process_name(&self) -> verdict::Name {
        verdict::Name::from(format!("{:08x}", self.inner.process))
    }

    /// Calls `make` with the source of randomness.
    pub(super) fn with_entropy<T>(&self, make: impl FnOnce(&mut dyn Entropy) -> T) -> T {
        make(self.inner.entropy.lock().expect("no code panics while it draws").as_mut())
    }

    pub(super) fn server_time(&self) -> wire::Time {
        time(self.coordinator.now())
    }

    /// Waits for a decision. After a timeout the decision may still happen.
    pub(super) async fn decided<T>(&self, asked: impl Future<Output = T>) -> Result<T, ApiError> {
        self.decided_after(Duration::ZERO, asked).await
    }

    /// The same for a request that asked to wait.
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

    /// Waits for a read, in a place of its tenant's share.
    pub(super) async fn read<T>(
        &self,
        reading: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, ApiError> {
        self.read_for(Duration::ZERO, reading).await
    }

    /// The same for a read that takes so much longer than others.
    pub(super) async fn read_for<T>(
        &self,
        wait: Duration,
        reading: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, ApiError> {
        let in_turn = async {
            let _place = self.inner.read_share.place().await;
            reading.await
        };
        self.within(wait, in_turn).await
    }

    /// Waits for what reads now and then, for the `wait` that the client asked for and the time of an answer. It holds no place
    /// while it waits: each of its looks takes one, by [`AppState::look`].
    pub(super) async fn within<T>(
        &self,
        wait: Duration,
        reading: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, ApiError> {
        match tokio::time::timeout(self.inner.timeouts.answer + wait, reading).await {
            Ok(read) => read.map_err(ApiError::from),
            Err(_) => Err(ApiError::new(Code::Unavailable, "the store did not answer in time")),
        }
    }

    /// One look at the store between waits, in a place of the tenant's share.
    pub(crate) async fn look<T>(&self, tenant: &Name, reading: impl Future<Output = T>) -> T {
        let _place = self.inner.read_share.place_of(tenant).await;
        reading.await
    }
}

/// A sender that trusts no certificate: no call can succeed until another one is set.
fn no_receivers() -> delivery::Sender {
    let (egress, roots) = (delivery::Egress::default(), delivery::Roots::Pem(Vec::new()));
    delivery::Sender::new(egress, &roots).expect("no certificates are a valid list")
}
