//! Serves the HTTP API. It has its own accept loop, so that every wait has a timeout.
//!
//! Nothing here knows a route. Limits of the transport are in [`Limits`]; limits of bodies are with the routes.
//! Without TLS only loopback addresses are accepted, unless the embedder allows others: a token sent in the clear
//! over a network is no secret.

mod accept;
mod answer;
mod connection;
mod monitor;
mod stream;
pub(crate) mod tls;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
pub use delivery::Egress;
use delivery::{Roots, Sender};
use store::{Browse, CommitFailure, Failure, Store};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admit::administer;
use crate::admit::record_seals::{self, RecordSealer};
use crate::admit::seal::{self, Sealer};
use crate::admit::sessions::codes::{CodeFor, LoginCodes};
use crate::admit::sessions::secret_digest;
use crate::admit::{ApiKeys, Keyring, KeyringError, NewKey, refresh};
use crate::budget_alerts;
use crate::coordinator::{Coordinator, Options, StopReason};
use crate::http::{AppState, ConsoleHosts, Timeouts, code_path, router, router_of_metrics};
use crate::ids::OsEntropy;
use crate::outbox::deliverer::{Courier, Deliverer};
use crate::outbox::teller::Teller;
use crate::preparing::Preparer;
use crate::push::dispatcher::Dispatcher;
use crate::recovery::recoverer::Recoverer;
use crate::submit_defaults::SubmitDefaults;
use crate::topologies::roles::Roles;

pub use answer::SlowReaderLimits;
pub(crate) use monitor::ConnectionAuth;
use tls::Certificates;
pub use tls::{TlsError, TlsFiles};

/// How long requests in flight may take to finish when the server stops.
const DRAIN_WITHIN: Duration = Duration::from_secs(10);

pub struct ServeOptions {
    /// Port 0 takes a free one; see [`Server::local_addr`].
    pub listen: SocketAddr,
    /// The base URL that workers are told to call; by default the address listened on. Never taken from a request.
    pub callback_base_url: Option<String>,
    /// The certificate to present; without one, the server speaks plain HTTP.
    pub tls: Option<TlsFiles>,
    pub plaintext: Plaintext,
    /// The address that serves only `/metrics`, without TLS and without a key. At `listen`, `/metrics` needs an
    /// administrator's key, unless `listen` is reachable only from this machine.
    pub metrics_listen: Option<SocketAddr>,
    /// How many queues `/metrics` lists by name, with their tenants; none by default.
    pub metrics_queues: usize,
    /// Whether `/console` is served: the program that shows runs in a browser.
    pub has_console: bool,
    /// Whether the records of ended tasks are sealed. Each costs some ten microseconds of processor time.
    pub seal_records: bool,
    /// The path of the signing key; created if it is missing.
    pub keyring_path: PathBuf,
    /// Keys to store before the first request. A store may allow a single writer, which the coordinator holds while
    /// it runs, so these keys are stored before it starts.
    pub new_keys: Vec<NewKey>,
    pub coordinator: Options,
    pub limits: Limits,
    /// What a submission means where it says nothing. Checked by the caller.
    pub submit_defaults: SubmitDefaults,
    /// Ranges of addresses beyond the public Internet that effects may be sent to, also in plain text. Checked by the
    /// caller with [`parse_receivers`].
    pub receivers: Egress,
}

impl ServeOptions {
    pub fn new(listen: SocketAddr, keyring_path: impl Into<PathBuf>) -> Self {
        Self {
            listen,
            callback_base_url: None,
            tls: None,
            plaintext: Plaintext::OnLoopback,
            metrics_listen: None,
            metrics_queues: 0,
            has_console: true,
            seal_records: false,
            keyring_path: keyring_path.into(),
            new_keys: Vec::new(),
            coordinator: Options::default(),
            limits: Limits::default(),
            submit_defaults: SubmitDefaults::default(),
            receivers: Egress::default(),
        }
    }
}

/// Where plain HTTP is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plaintext {
    /// Only on loopback addresses, where no other machine can read the traffic.
    OnLoopback,
    /// On any address. Requires a proxy in front that encrypts, or a private network.
    Anywhere,
}

/// Limits per connection, per peer and in total.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// From a connection's first byte to the end of its TLS handshake.
    pub handshake_within: Duration,
    /// From a request's first byte to the end of its head.
    pub head_within: Duration,
    /// How long a connection may be idle in both directions. Longer than any long poll.
    pub idle: Duration,
    /// How long a connection may stay open without a request that has a valid key or token, or that needs none
    /// because the operator opened its route. Bytes alone do not count, nor do HTTP/2's pings. As long as `idle`: a
    /// client that sends requests less often loses nothing by a new connection.
    pub authenticate_within: Duration,
    pub answer: SlowReaderLimits,
    pub timeouts: Timeouts,
    pub connections: usize,
    /// A peer is an IPv4 address or an IPv6 network (/64). All local processes share one address, so a limit per peer
    /// is meaningless on loopback: there it is the total limit.
    pub connections_per_peer: usize,
}

/// Connections of scrapers. There are one or two, and they keep theirs open.
const SCRAPERS_MAX: usize = 64;

impl Limits {
    /// The limits for an address that serves only metrics.
    fn of_metrics(self) -> Self {
        Self { connections: SCRAPERS_MAX, connections_per_peer: SCRAPERS_MAX, ..self }
    }

    /// The limits for an address that many machines reach: no single one may take all connections.
    pub fn beyond_loopback() -> Self {
        Self { connections_per_peer: 256, ..Self::default() }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshake_within: Duration::from_secs(5),
            head_within: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            authenticate_within: Duration::from_secs(60),
            answer: SlowReaderLimits::default(),
            timeouts: Timeouts::default(),
            connections: 4096,
            connections_per_peer: 4096,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(
        "{0} is not a loopback address and there is no certificate, so keys could be read on the network; \
         give a certificate, listen on 127.0.0.1 or [::1], or allow plain HTTP explicitly"
    )]
    NotLoopback(IpAddr),
    #[error("cannot listen on {address}")]
    Listen {
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    #[error("the certificate cannot be used")]
    Tls(#[from] TlsError),
    #[error("the signing key cannot be used")]
    Keyring(#[from] KeyringError),
    #[error("the store cannot be used")]
    Store(#[from] Failure),
}

/// A running server. Dropping it does not stop it; [`Server::shutdown`] does.
pub struct Server {
    coordinator: Coordinator,
    local_addr: SocketAddr,
    metrics_addr: Option<SocketAddr>,
    keys: ApiKeys,
    keyring: Keyring,
    certificates: Option<Certificates>,
    /// One-time codes for the console, if it is served.
    codes: Option<Arc<LoginCodes>>,
    /// Cancelled first: no new connections, and no keep-alive.
    closing: CancellationToken,
    /// Cancelled last: connections that did not finish are closed.
    aborting: CancellationToken,
    connections: TaskTracker,
    /// Tasks that continue after their request was answered.
    background: TaskTracker,
    /// Seals the records of ended tasks, and ends when its token is cancelled.
    /// What seals records, if they are sealed.
    sealing: Option<(CancellationToken, JoinHandle<()>)>,
    /// Delivers effects, and ends when its token is cancelled and what it sent is settled.
    delivering: (CancellationToken, JoinHandle<()>),
    /// Evaluates and carries out recovery, runs the roles of deployments, and ends when its token is cancelled.
    recovering: (CancellationToken, JoinHandle<()>),
    accepting: Vec<JoinHandle<()>>,
}

/// Starts a coordinator over `store` and serves it.
pub async fn serve<S: Store>(store: S, options: ServeOptions) -> Result<Server, ServeError> {
    let ServeOptions { listen, callback_base_url, tls, plaintext, metrics_listen, .. } = options;
    let ServeOptions { keyring_path, new_keys, coordinator, limits, .. } = options;
    let ServeOptions { submit_defaults, metrics_queues, has_console, seal_records, .. } = options;
    let ServeOptions { mut receivers, .. } = options;
    let is_readable = tls.is_none() && !is_loopback(listen);
    if is_readable && plaintext == Plaintext::OnLoopback {
        return Err(ServeError::NotLoopback(listen.ip()));
    }
    let certificates = tls.map(Certificates::open).transpose()?;
    let bound = Bound::at(listen).await?;
    let scraped = match metrics_listen {
        Some(listen) => Some(Bound::at(listen).await?),
        None => None,
    };
    let keyring = match store.status().writers {
        1 => Keyring::open(&keyring_path)?,
        _ => Keyring::share(&store, &keyring_path).await?,
    };
    let sealer = Sealer::open(store.browse(), keyring.clone(), &keyring_path).await?;
    store_new_keys(&store, &new_keys, &sealer).await?;
    faultpoint::point!("keys.founded");
    let keys = ApiKeys::load(store.browse()).await?;
    let coordinator = Coordinator::start(store, coordinator).await?;
    faultpoint::point!("serve.listening");
    coordinator.seal_with(sealer);
    let stale = coordinator.metrics().certificate_stale.clone();
    let certificates = certificates.map(|certificates| certificates.reporting(stale));
    let scheme = if certificates.is_some() { "https" } else { "http" };
    let (local_addr, metrics_addr) = (bound.address, scraped.as_ref().map(|it| it.address));
    let hosts = ConsoleHosts::of(is_loopback(local_addr), callback_base_url.as_deref());
    let callback_base_url = callback_base_url.unwrap_or_else(|| format!("{scheme}://{local_addr}"));
    receivers.own.extend([Some(local_addr), metrics_addr].into_iter().flatten());
    let sender = Sender::new(receivers, &Roots::System);
    let sender = sender.expect("unreadable authorities of the system are left out");
    let app = AppState::new(
        coordinator.clone(),
        keyring.clone(),
        keys.clone(),
        callback_base_url,
        limits.timeouts,
        OsEntropy,
    )
    .with_certificates(certificates.clone())
    .with_submit_defaults(submit_defaults)
    .with_metrics_queues(metrics_queues)
    .with_console(has_console, hosts)
    .with_sender(sender.clone())
    .with_open_metrics(is_loopback(local_addr))
    .with_anchor(seal::anchor_path(&keyring_path));
    let background = app.inner.background.clone();
    let closing = CancellationToken::new();
    background.spawn(budget_alerts::run(coordinator.clone(), closing.clone()));
    let sealing = seal_records.then(|| start_sealing(&coordinator, &keyring, &keyring_path));
    let courier = Courier { coordinator: coordinator.clone(), keyring: keyring.clone(), sender };
    let delivering = start_delivering(courier, Dispatcher::new(app.clone()));
    let recovering = start_recovering(coordinator.clone());
    let mut server = Server {
        coordinator,
        local_addr,
        metrics_addr,
        keys,
        keyring,
        certificates,
        codes: has_console.then(|| app.inner.codes.clone()),
        closing,
        aborting: CancellationToken::new(),
        connections: TaskTracker::new(),
        background,
        sealing,
        delivering,
        recovering,
        accepting: Vec::new(),
    };
    server.follow();
    if let Some(scraped) = scraped {
        let routes = router_of_metrics(app.clone().with_open_metrics(true));
        // Metrics contain no secret, so this listener needs no certificate.
        server.accept(scraped, routes, limits.of_metrics(), None);
    }
    server.accept(bound, router(app), limits, server.certificates.clone());
    Ok(server)
}

/// Seals records beside everything else.
fn start_sealing(
    coordinator: &Coordinator,
    keyring: &Keyring,
    keyring_path: &Path,
) -> (CancellationToken, JoinHandle<()>) {
    let seals = record_seals::anchor::path(keyring_path);
    let sealer = RecordSealer::new(coordinator.clone(), keyring.clone(), seals);
    let closing = CancellationToken::new();
    (closing.clone(), tokio::spawn(sealer.run(closing)))
}

/// Delivers effects, tells those who wait for them, and pushes work, beside everything else.
fn start_delivering(
    courier: Courier,
    dispatcher: Dispatcher,
) -> (CancellationToken, JoinHandle<()>) {
    let (closing, teller) = (CancellationToken::new(), Teller::new(courier.coordinator.clone()));
    let (telling, delivering, pushing) = (closing.clone(), closing.clone(), closing.clone());
    let deliverer = Deliverer::new(courier);
    let all = async move {
        let pushed = dispatcher.run(pushing);
        tokio::join!(deliverer.run(delivering), teller.run(telling), pushed);
    };
    (closing, tokio::spawn(all))
}

/// Evaluates and carries out recovery, runs the roles of deployments, and prepares steps of plans, beside everything else.
fn start_recovering(coordinator: Coordinator) -> (CancellationToken, JoinHandle<()>) {
    let closing = CancellationToken::new();
    let (roles, recoverer) = (Roles::new(coordinator.clone()), Recoverer::new(coordinator.clone()));
    let preparer = Preparer::new(coordinator);
    let (working, recovering, preparing) = (closing.clone(), closing.clone(), closing.clone());
    let all = async move {
        let prepared = preparer.run(preparing);
        tokio::join!(roles.run(working), recoverer.run(recovering), prepared);
    };
    (closing, tokio::spawn(all))
}

/// Ranges that effects may be sent to, each an address with the length of its prefix. The error is the text that is none.
pub fn parse_receivers(ranges: &[String]) -> Result<Egress, String> {
    let parse = |range: &String| range.parse().map_err(|_| range.clone());
    let allowed = ranges.iter().map(parse).collect::<Result<_, _>>()?;
    Ok(Egress { allowed, own: Vec::new() })
}

fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// A bound listener.
struct Bound {
    listener: TcpListener,
    address: SocketAddr,
}

impl Bound {
    async fn at(wanted: SocketAddr) -> Result<Self, ServeError> {
        let cannot_listen = |source| ServeError::Listen { address: wanted, source };
        let listener = TcpListener::bind(wanted).await.map_err(cannot_listen)?;
        let address = listener.local_addr().map_err(cannot_listen)?;
        Ok(Self { listener, address })
    }
}

/// How long a key that another coordinator created stays unknown here, and one that it revoked stays valid.
const REFRESH_EVERY: Duration = Duration::from_secs(1);

/// Keys and limits may be changed through any coordinator of a store, so each coordinator reads them again
/// periodically.
async fn follow_peers(coordinator: Coordinator, keys: ApiKeys, keyring: Keyring) {
    let (browse, allowances) = (coordinator.browse(), coordinator.allowances());
    loop {
        tokio::time::sleep(REFRESH_EVERY).await;
        let ring = match refresh(&keys, allowances, browse.administration()).await {
            Ok(ring) => ring,
            Err(failure) => {
                tracing::warn!(error = %failure, "cannot read the keys and limits again; the old ones stay");
                continue;
            }
        };
        if let Err(error) = keyring.follow(ring) {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "cannot follow the signing keys in the database; the old ones stay"
            );
        }
        if let Err(failure) = allowances.budgets().reload(browse).await {
            tracing::warn!(error = %failure, "cannot read the budgets again; the old ones stay");
        }
        if let Err(failure) = coordinator.endpoints().reload().await {
            tracing::warn!(error = %failure, "cannot read the endpoints again; the old ones stay");
        }
        if let Err(failure) = coordinator.recovery().reload(browse).await {
            tracing::warn!(error = %failure, "cannot read the recovery policies again; the old ones stay");
        }
        if let Err(failure) = coordinator.topologies().reload(browse).await {
            tracing::warn!(error = %failure, "cannot read the deployments again; the old ones stay");
        }
        // Reading them also tells the store's writers, and wakes them when a queue was resumed.
        if let Err(failure) = browse.paused_queues().await {
            tracing::warn!(error = %failure, "cannot read the paused queues again");
        }
    }
}

/// Stores new keys, with a writer that is closed before the coordinator opens its own.
async fn store_new_keys<S: Store>(
    store: &S,
    new_keys: &[NewKey],
    sealer: &Sealer,
) -> Result<(), Failure> {
    if new_keys.is_empty() {
        return Ok(());
    }
    let now = store.now();
    let keys = new_keys.iter().map(|key| key.row(now)).collect();
    let mut writer = store.writer().await?;
    let mut act = administer::initial_keys(keys, now);
    let written = sealer.write(store, &mut writer, &mut act).await;
    written
        .map_err(|(CommitFailure::RolledBack(failure) | CommitFailure::Unknown(failure))| failure)
}

impl Server {
    /// Follows changes by other coordinators of the same store.
    fn follow(&self) {
        if self.coordinator.store().status().writers == 1 {
            return;
        }
        let (keys, keyring) = (self.keys.clone(), self.keyring.clone());
        let following = follow_peers(self.coordinator.clone(), keys, keyring);
        let closing = self.closing.clone();
        // May be dropped at any await: it only reads.
        self.background.spawn(async move { closing.run_until_cancelled(following).await });
    }

    fn accept(
        &mut self,
        bound: Bound,
        routes: Router,
        limits: Limits,
        certificates: Option<Certificates>,
    ) {
        let accepting = accept::accept(accept::Acceptor {
            listener: bound.listener,
            routes,
            limits,
            certificates,
            metrics: self.coordinator.metrics().clone(),
            closing: self.closing.clone(),
            aborting: self.aborting.clone(),
            connections: self.connections.clone(),
        });
        self.accepting.push(tokio::spawn(accepting));
    }

    /// Where a browser logs in to the console once as the holder of `api_key`, below the server's address. `None` if the
    /// console is not served or the key is not valid.
    pub fn console_link(&self, api_key: &str) -> Option<String> {
        let now = self.coordinator.now();
        let verified = self.keys.find(api_key, now).ok()?;
        let (key, tenant) = (verified.key().id.clone(), verified.key().scope.tenant.clone());
        let stands_for = CodeFor { key, tenant, secret: secret_digest(api_key)? };
        let made = self.codes.as_ref()?.make(stands_for, &mut OsEntropy, now);
        made.ok().map(|(code, _)| code_path(&code))
    }

    /// The address that serves only `/metrics`, if there is one.
    pub fn metrics_addr(&self) -> Option<SocketAddr> {
        self.metrics_addr
    }

    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    pub fn coordinator(&self) -> &Coordinator {
        &self.coordinator
    }

    /// Reads API keys and limits again, after another process has changed them.
    pub async fn reload_api_keys(&self) -> Result<(), Failure> {
        let (browse, allowances) = (self.coordinator.browse(), self.coordinator.allowances());
        refresh(&self.keys, allowances, browse.administration()).await?;
        allowances.budgets().reload(browse).await
    }

    /// Reads the certificate again. If the new one is unusable, the one in use stays.
    pub fn reload_certificate(&self) -> Result<(), TlsError> {
        self.certificates.as_ref().map_or(Ok(()), Certificates::reload)
    }

    /// Reads the signing keys again. If the file is unusable, the keys in use stay.
    pub fn reload_signing_keys(&self) -> Result<(), KeyringError> {
        self.keyring.reload()
    }

    /// Refuses new work, answers waiting polls, lets requests in flight finish, and stops.
    pub async fn shutdown(self) -> StopReason {
        self.closing.cancel();
        faultpoint::point!("stop.asked");
        self.coordinator.drain();
        for accepting in self.accepting {
            // The token ends it; the runtime has logged a panic in it.
            let _ = accepting.await;
        }
        self.connections.close();
        if tokio::time::timeout(DRAIN_WITHIN, self.connections.wait()).await.is_err() {
            tracing::warn!("closing connections that did not finish in time");
            self.aborting.cancel();
            self.connections.wait().await;
        }
        faultpoint::point!("stop.drained");
        let (closing, recovering) = self.recovering;
        closing.cancel();
        // It gives up what it does at once; only a panic could make this an error.
        let _ = recovering.await;
        let (closing, mut delivering) = self.delivering;
        closing.cancel();
        if tokio::time::timeout(DRAIN_WITHIN, &mut delivering).await.is_err() {
            // What it sent is settled by whoever finds the claims.
            delivering.abort();
        }
        if let Some((closing, mut sealing)) = self.sealing {
            closing.cancel();
            if tokio::time::timeout(DRAIN_WITHIN, &mut sealing).await.is_err() {
                sealing.abort();
            }
        }
        let ended = self.coordinator.stop().await;
        // No background task waits for longer than the carrier lives. After this, nothing holds the store.
        self.background.close();
        self.background.wait().await;
        self.coordinator.store().wait_for_dropped_writers().await;
        faultpoint::point!("stop.finished");
        ended
    }

    /// Resolves when the coordinator has ended without `shutdown`, because its store failed.
    pub async fn wait(&self) -> StopReason {
        self.coordinator.stopped().await
    }
}
