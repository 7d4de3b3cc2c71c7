//! The certificate of a listener, read from two files and reloaded when they change.
//!
//! There is no file watcher: a new connection checks at most once a second whether the files changed, and
//! an operator can force a reload. If the files are unusable, the certificate in use stays, and the error
//! is reported until they are repaired. Only TLS 1.3 is supported: every maintained client supports it.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig, crypto::ring, version::TLS13};

use prometheus_client::metrics::gauge::Gauge;

/// How often connections may cause a check of the files, which is two system calls.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// In order of preference; a client that offers only others is refused.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The permission bit that lets all users read.
const EVERYBODY_READS: u32 = 0o004;

/// The paths of the certificate chain and its private key, both PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{path} cannot be read: {source}")]
    Unreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path} is not PEM with a {what} in it: {source}")]
    NotPem {
        path: PathBuf,
        what: &'static str,
        #[source]
        source: pem::Error,
    },
    #[error(
        "the private key {path} can be read by everyone (mode {mode:o}); run `chmod o= {path}`"
    )]
    Exposed { path: PathBuf, mode: u32 },
    #[error("certificate and key cannot be used together: {0}")]
    Unusable(#[from] rustls::Error),
}

/// The certificate in use, shared by all connections. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Certificates {
    files: Arc<TlsFiles>,
    state: Arc<Mutex<State>>,
    /// 1 while the files are unusable.
    stale: Gauge,
}

struct State {
    config: Arc<ServerConfig>,
    /// The file versions at the last read, usable or not.
    read: FileVersions,
    checked_at: Instant,
    /// Why the files are unusable, if they are.
    error: Option<String>,
}

/// Enough to notice that a file was written or replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FileVersions([Option<(u64, u64, i64, i64)>; 2]);

impl FileVersions {
    fn of(files: &TlsFiles) -> Self {
        let version = |path: &Path| {
            let meta = fs::metadata(path).ok()?;
            Some((meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec()))
        };
        FileVersions([version(&files.certificate), version(&files.key)])
    }
}

impl Certificates {
    pub(super) fn open(files: TlsFiles) -> Result<Self, TlsError> {
        let read = FileVersions::of(&files);
        let config = read_config(&files)?;
        let checked_at = tokio::time::Instant::now();
        let state = State { config, read, checked_at, error: None };
        let (files, state) = (Arc::new(files), Arc::new(Mutex::new(state)));
        Ok(Self { files, state, stale: Gauge::default() })
    }

    /// Sets the gauge that shows operators that the files are unusable. Call it before sharing.
    #[must_use]
    pub(super) fn reporting(self, stale: Gauge) -> Self {
        Self { stale, ..self }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no code panics while it holds the certificate")
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.state().config.clone())
    }

    /// Why the files are unusable, if they are.
    pub(crate) fn error(&self) -> Option<String> {
        self.state().error.clone()
    }

    /// Reads the files if they changed, unless they were checked just now.
    pub(super) async fn check_files(&self) {
        {
            let mut state = self.state();
            let now = tokio::time::Instant::now();
            if now.duration_since(state.checked_at) < CHECK_EVERY {
                return;
            }
            state.checked_at = now;
        }
        let certificates = self.clone();
        let looked = tokio::task::spawn_blocking(move || {
            let seen = FileVersions::of(&certificates.files);
            if seen == certificates.state().read {
                return;
            }
            // The error was logged and stored.
            let _ = certificates.reload();
        });
        if let Err(error) = looked.await {
            tracing::error!(%error, "cannot check the certificate files");
        }
    }

    /// Reads the files. If they are unusable, the certificate in use stays.
    pub(super) fn reload(&self) -> Result<(), TlsError> {
        // Before reading, so that the next check finds what is written meanwhile.
        let read = FileVersions::of(&self.files);
        let config = read_config(&self.files);
        let mut state = self.state();
        state.read = read;
        match config {
            Ok(config) => {
                state.config = config;
                state.error = None;
                self.stale.set(0);
                let path = self.files.certificate.display();
                tracing::info!(certificate = %path, "loaded the certificate for new connections");
                Ok(())
            }
            Err(error) => {
                state.error = Some(error.to_string());
                self.stale.set(1);
                tracing::error!(%error, "cannot use the new certificate; the old one stays");
                Err(error)
            }
        }
    }
}

fn read_config(files: &TlsFiles) -> Result<Arc<ServerConfig>, TlsError> {
    let chain = read_chain(&files.certificate)?;
    let key = read_key(&files.key)?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    Ok(Arc::new(config))
}

fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bytes = read(path)?;
    let not_pem = |source| TlsError::NotPem { path: path.to_owned(), what: "certificate", source };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match chain {
        Ok(chain) if chain.is_empty() => Err(not_pem(pem::Error::NoItemsFound)),
        Ok(chain) => Ok(chain),
        Err(error) => Err(not_pem(error)),
    }
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let mode = fs::metadata(path).map_err(unreadable(path))?.mode() & 0o777;
    if mode & EVERYBODY_READS != 0 {
        return Err(TlsError::Exposed { path: path.to_owned(), mode });
    }
    let bytes = read(path)?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|source| TlsError::NotPem {
        path: path.to_owned(),
        what: "private key",
        source,
    })
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(unreadable(path))
}

fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> TlsError {
    let path = path.to_owned();
    move |source| TlsError::Unreadable { path, source }
}
