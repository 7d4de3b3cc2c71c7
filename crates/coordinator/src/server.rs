//! Serves the HTTP door: our own accept loop, so that every wait has an end.
//!
//! Nothing here knows a route. Limits of the transport are in [`Limits`]; limits of bodies are with
//! the routes. Without TLS only loopback addresses are taken, unless the embedder insists: a token sent
//! in the clear over a network is no secret.

mod accept;
mod connection;
mod stream;
pub(crate) mod tls;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use store::{CommitFailure, Failure, Store};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admit::administer;
use crate::admit::seal::{self, Sealer};
use crate::admit::{ApiKeys, Keyring, KeyringError, NewKey};
use crate::coordinator::{Coordinator, Ended, Options};
use crate::http::{Door, Patience, router};
use crate::ids::OsEntropy;

use tls::Certificates;
pub use tls::{TlsError, TlsFiles};

/// How long requests in flight may take to finish when the server stops.
const DRAIN_WITHIN: Duration = Duration::from_secs(10);

pub struct ServeOptions {
    /// Port 0 takes a free one; see [`Server::local_addr`].
    pub listen: SocketAddr,
    /// What workers are told to call; the address listened on when absent. Never taken from a
    /// request.
    pub callback_base_url: Option<String>,
    /// The certificate to show; without one, plain HTTP is spoken.
    pub tls: Option<TlsFiles>,
    pub plaintext: Plaintext,
    /// Where the signing key lies; made there when missing.
    pub keyring_path: PathBuf,
    /// Keys to remember before the first request. A store may allow a single writer, which the
    /// coordinator holds while it runs, so that keys are made before it starts.
    pub new_keys: Vec<NewKey>,
    pub coordinator: Options,
    pub limits: Limits,
}

impl ServeOptions {
    pub fn new(listen: SocketAddr, keyring_path: impl Into<PathBuf>) -> Self {
        Self {
            listen,
            callback_base_url: None,
            tls: None,
            plaintext: Plaintext::OnLoopback,
            keyring_path: keyring_path.into(),
            new_keys: Vec::new(),
            coordinator: Options::default(),
            limits: Limits::default(),
        }
    }
}

/// Where plain HTTP may be spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plaintext {
    /// Nobody but this machine can listen in.
    OnLoopback,
    /// Whoever says this has something in front that encrypts, or a network that nobody else is on.
    Anywhere,
}

/// What one connection, one peer and all together may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// From a connection's first byte to the end of its TLS handshake.
    pub handshake_within: Duration,
    /// From a request's first byte to the end of its head.
    pub head_within: Duration,
    /// How long no byte may move in either direction. Longer than any long poll.
    pub idle: Duration,
    pub patience: Patience,
    pub connections: usize,
    /// All local processes share one address, so that a limit per peer means nothing on loopback:
    /// it is the limit of all.
    pub connections_per_peer: usize,
}

impl Limits {
    /// For an address that many machines reach: none of them may take all the connections.
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
            patience: Patience::default(),
            connections: 4096,
            connections_per_peer: 4096,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(
        "{0} is not a loopback address and there is no certificate, so keys could be read on the way; \
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

/// A coordinator that is being served. Dropping it does not stop it; [`Server::shutdown`] does.
pub struct Server<S: Store> {
    coordinator: Coordinator<S>,
    local_addr: SocketAddr,
    keys: ApiKeys,
    keyring: Keyring,
    certificates: Option<Certificates>,
    /// Cancelled first: no new connections, none kept alive.
    closing: CancellationToken,
    /// Cancelled last: connections that did not finish are cut.
    cutting: CancellationToken,
    connections: TaskTracker,
    /// What goes on after its answer.
    beside: TaskTracker,
    accepting: JoinHandle<()>,
}

/// Starts a coordinator over `store` and serves it.
pub async fn serve<S: Store>(store: S, options: ServeOptions) -> Result<Server<S>, ServeError> {
    let ServeOptions { listen, callback_base_url, tls, plaintext, .. } = options;
    let ServeOptions { keyring_path, new_keys, coordinator, limits, .. } = options;
    let is_readable = tls.is_none() && !listen.ip().is_loopback();
    if is_readable && plaintext == Plaintext::OnLoopback {
        return Err(ServeError::NotLoopback(listen.ip()));
    }
    let certificates = tls.map(Certificates::open).transpose()?;
    let cannot_listen = |source| ServeError::Listen { address: listen, source };
    let listener = TcpListener::bind(listen).await.map_err(cannot_listen)?;
    let local_addr = listener.local_addr().map_err(cannot_listen)?;
    let keyring = match store.opened().writers {
        1 => Keyring::open(&keyring_path)?,
        _ => Keyring::share(&store, &keyring_path).await?,
    };
    let sealer = Sealer::open(store.browse(), keyring.clone(), &keyring_path).await?;
    remember(&store, &new_keys, &sealer).await?;
    faultpoint::point!("keys.founded");
    let keys = ApiKeys::load(&store).await?;
    let coordinator = Coordinator::start(store, coordinator).await?;
    faultpoint::point!("serve.listening");
    coordinator.seal_with(sealer);
    let stale = coordinator.metrics().certificate_stale.clone();
    let certificates = certificates.map(|certificates| certificates.reporting(stale));
    let scheme = if certificates.is_some() { "https" } else { "http" };
    let callback_base_url = callback_base_url.unwrap_or_else(|| format!("{scheme}://{local_addr}"));
    let door = Door::new(
        coordinator.clone(),
        keyring.clone(),
        keys.clone(),
        callback_base_url,
        limits.patience,
        OsEntropy,
    )
    .showing(certificates.clone())
    .anchored(seal::anchor_path(&keyring_path));
    let beside = door.inner.beside.clone();
    let (closing, cutting) = (CancellationToken::new(), CancellationToken::new());
    if coordinator.store().opened().writers > 1 {
        let following = follow_others(coordinator.clone(), keys.clone(), keyring.clone());
        let closing = closing.clone();
        // Dropped wherever it waits: it only reads.
        beside.spawn(async move { closing.run_until_cancelled(following).await });
    }
    let connections = TaskTracker::new();
    let accepting = tokio::spawn(accept::accept(accept::Listening {
        listener,
        routes: router(door),
        limits,
        certificates: certificates.clone(),
        closing: closing.clone(),
        cutting: cutting.clone(),
        connections: connections.clone(),
    }));
    Ok(Server {
        coordinator,
        local_addr,
        keys,
        keyring,
        certificates,
        closing,
        cutting,
        connections,
        beside,
        accepting,
    })
}

/// How long a key that another coordinator made is unknown here, and one that it revoked still good.
const FOLLOW_EVERY: Duration = Duration::from_secs(1);

/// Keys and limits may be changed through any coordinator of a store: each reads them again and again.
async fn follow_others<S: Store>(coordinator: Coordinator<S>, keys: ApiKeys, keyring: Keyring) {
    loop {
        tokio::time::sleep(FOLLOW_EVERY).await;
        let store = coordinator.store();
        if let Err(error) = keyring.follow(store.browse()).await {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "the signing keys are as before"
            );
        }
        match store.coordinators().await {
            Ok(there) => coordinator.allowances().share_among(there),
            Err(failure) => tracing::warn!(error = %failure, "coordinators could not be counted"),
        }
        let read = match keys.reload(store).await {
            Ok(()) => coordinator.allowances().reload(store).await,
            Err(failure) => Err(failure),
        };
        if let Err(failure) = read {
            tracing::warn!(error = %failure, "keys and limits could not be read again");
        }
    }
}

/// Keeps new keys, with a writer that is gone before the coordinator takes its own.
async fn remember<S: Store>(
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
    let mut act = administer::founding(keys, now);
    let written = sealer.write(store, &mut writer, &mut act).await;
    written
        .map_err(|(CommitFailure::RolledBack(failure) | CommitFailure::Unknown(failure))| failure)
}

impl<S: Store> Server<S> {
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    pub fn coordinator(&self) -> &Coordinator<S> {
        &self.coordinator
    }

    /// Reads API keys and limits again, after another process has changed them.
    pub async fn reload_api_keys(&self) -> Result<(), Failure> {
        self.keys.reload(self.coordinator.store()).await?;
        self.coordinator.allowances().reload(self.coordinator.store()).await
    }

    /// Reads the certificate again; one that cannot be used leaves the one in use as it is.
    pub fn reload_certificate(&self) -> Result<(), TlsError> {
        self.certificates.as_ref().map_or(Ok(()), Certificates::reload)
    }

    /// Reads the signing keys again; a file that cannot be used leaves the keys in use as they are.
    pub fn reload_signing_keys(&self) -> Result<(), KeyringError> {
        self.keyring.reload()
    }

    /// Refuses new work, answers waiting polls, lets requests in flight finish, and stops.
    pub async fn shutdown(self) -> Ended {
        self.closing.cancel();
        faultpoint::point!("stop.asked");
        self.coordinator.drain();
        // The accept loop ends by the token; a panic in it was logged by the runtime.
        let _ = self.accepting.await;
        self.connections.close();
        if tokio::time::timeout(DRAIN_WITHIN, self.connections.wait()).await.is_err() {
            tracing::warn!("connections are cut because they did not finish in time");
            self.cutting.cancel();
            self.connections.wait().await;
        }
        faultpoint::point!("stop.drained");
        let ended = self.coordinator.stop().await;
        // Nothing waits longer than the carrier lived, and afterwards nobody holds the store.
        self.beside.close();
        self.beside.wait().await;
        self.coordinator.store().settle().await;
        faultpoint::point!("stop.finished");
        ended
    }

    /// Resolves when the coordinator has ended by itself, because its store failed.
    pub async fn wait(&self) -> Ended {
        self.coordinator.ended().await
    }
}
