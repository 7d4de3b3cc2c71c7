//! Stores of either kind: a SQLite file, or a PostgreSQL database that several coordinators share.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use coordinator::admit::moved_keys;
use store::postgres::{self, PostgresStore};
use store::sqlite::{Options, SqliteStore, copy_target};
use store::{ClockAhead, Failure, FailureKind, Store, SystemClock};

use crate::exit::{CliError, Exit};
use crate::{lost_store, profile, serve};

/// An open store.
pub(crate) enum OpenStore {
    Sqlite(SqliteStore),
    Postgres(PostgresStore),
}

pub(crate) async fn open(
    address: &StoreAddress,
    ahead: ClockAhead,
    listen: SocketAddr,
) -> Result<OpenStore, CliError> {
    match address {
        StoreAddress::Sqlite(path) => {
            // An interrupted copy leaves a key file without a database, and has its own remedy.
            copy_target::refuse_unfinished(path).map_err(|f| serve::store_error(&f))?;
            lost_store::refuse(path)?;
            let options = Options::new(Arc::new(SystemClock::start())).with_ahead(ahead);
            let store = SqliteStore::open(path, options).map_err(|f| serve::store_error(&f))?;
            Ok(OpenStore::Sqlite(store))
        }
        StoreAddress::Postgres(url) => {
            let options = postgres::Options { ahead, ..postgres::Options::new(peer_name(listen)) };
            let opened = PostgresStore::open(url, options).await;
            let store = opened.map_err(|failure| database_error(&failure))?;
            log_durability(store.durability());
            if let Some(warning) = store.link().warning() {
                tracing::warn!("{warning}");
            }
            Ok(OpenStore::Postgres(store))
        }
    }
}

/// The name by which other coordinators list this one.
fn peer_name(listen: SocketAddr) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{} {listen}", host.trim()).trim().to_owned()
}

fn log_durability(found: &postgres::Durability) {
    tracing::info!(
        server = found.server,
        fsync = found.fsync,
        full_page_writes = found.full_page_writes,
        synchronous_commit = found.synchronous_commit,
        synchronous_standbys = found.synchronous_standbys,
        failover = found.failover(),
        "durability settings of the database"
    );
    for warning in found.warnings() {
        tracing::warn!("{warning}");
    }
}

/// Beside the file; for a database, in the state directory, shared by all its coordinators on this
/// machine.
pub(crate) async fn signing_key_path(opened: &OpenStore) -> Result<PathBuf, CliError> {
    match opened {
        OpenStore::Sqlite(store) => Ok(store.path().with_extension("key")),
        OpenStore::Postgres(store) => shared_signing_key(store).await,
    }
}

/// The file that decrypts a database's signing keys, for all coordinators of that database on this
/// machine; the anchor of its audit is beside it. Each database has a separate file, named after
/// its store; on several machines the file is the same.
pub(crate) async fn shared_signing_key(store: &PostgresStore) -> Result<PathBuf, CliError> {
    let path = shared_signing_key_of(store.id())?;
    if let Some(folder) = path.parent() {
        profile::make_folder(folder)?;
    }
    let old = path.with_file_name("postgres.key");
    let adopted = moved_keys::adopt(store.browse(), &old, &path).await;
    adopted.map_err(serve::keyring_error)?;
    Ok(path)
}

/// The same by the name of the store, without checking what exists.
pub(crate) fn shared_signing_key_of(store: &str) -> Result<PathBuf, CliError> {
    Ok(profile::default_store()?.with_file_name(format!("postgres-{store}.key")))
}

/// The address of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoreAddress {
    Sqlite(PathBuf),
    Postgres(String),
}

impl StoreAddress {
    /// How errors of such a store are translated.
    pub(crate) fn error_mapper(&self) -> fn(&Failure) -> CliError {
        match self {
            StoreAddress::Sqlite(_) => serve::store_error,
            StoreAddress::Postgres(_) => database_error,
        }
    }

    pub(crate) fn display_name(&self, opened: &OpenStore) -> String {
        match (self, opened) {
            (_, OpenStore::Sqlite(store)) => format!("sqlite:{}", store.path().display()),
            (StoreAddress::Postgres(url), _) => redact_password(url),
            (StoreAddress::Sqlite(path), _) => format!("sqlite:{}", path.display()),
        }
    }
}

pub(crate) fn is_postgres(address: &str) -> bool {
    address.starts_with("postgres://") || address.starts_with("postgresql://")
}

/// An address in printable form.
pub(crate) fn redact_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let shown = match authority.rsplit_once('@') {
        Some((user, host)) => format!("{}@{host}", user.split(':').next().unwrap_or_default()),
        None => authority.to_owned(),
    };
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    format!("{scheme}://{shown}{path}")
}

/// Whether this is meant as a database but not written as its address: as a path it would become a
/// file.
pub(crate) fn looks_like_postgres(said: &str) -> bool {
    let said = said.to_ascii_lowercase();
    let is_word = |word: &str| word.starts_with("host=") || word.starts_with("dbname=");
    ["postgres:", "postgresql:"].iter().any(|scheme| said.starts_with(scheme))
        || said.split_whitespace().any(is_word)
}

/// The store's address, of either kind, by the same rules as a path.
pub(crate) fn store_address(given: Option<&str>) -> Result<StoreAddress, CliError> {
    address_of(serve::configured_store(given, None)?)
}

fn address_of(configured: Option<String>) -> Result<StoreAddress, CliError> {
    match configured {
        Some(said) if is_postgres(&said) => Ok(StoreAddress::Postgres(said)),
        configured => serve::sqlite_path(configured).map(StoreAddress::Sqlite),
    }
}

/// The config file of a command that works on the store of a server.
#[derive(Debug, clap::Args)]
pub(crate) struct ConfigArgument {
    /// Config file of the server, which names its store [default: TENURE_CONFIG, else /etc/tenure/tenure.toml if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ConfigArgument {
    /// The store of either kind: the given one, else that of the environment, else that of the config file.
    pub(crate) fn store_address(&self, given: Option<&str>) -> Result<StoreAddress, CliError> {
        address_of(serve::configured_store(given, self.config.as_deref())?)
    }

    /// The same for a command that works on SQLite stores only.
    pub(crate) fn store_path(&self, given: Option<&str>) -> Result<PathBuf, CliError> {
        serve::sqlite_path(serve::configured_store(given, self.config.as_deref())?)
    }
}

/// Reads the certificate, the signing keys and the API keys again.
pub(crate) async fn reload(serving: &coordinator::Server) {
    // A certificate that cannot be used reports its own error.
    let certificate = serving.reload_certificate().is_ok();
    let signing = serving.reload_signing_keys();
    if let Err(error) = &signing {
        tracing::error!(
            error = error as &dyn std::error::Error,
            "cannot read the signing keys again; the old ones stay"
        );
    }
    let keys = serving.reload_api_keys().await;
    if let Err(failure) = &keys {
        tracing::error!(
            error = failure as &dyn std::error::Error,
            "cannot read the API keys again; the old ones stay"
        );
    }
    let (signing, keys) = (signing.is_ok(), keys.is_ok());
    tracing::info!(certificate, signing, keys, "reloaded certificate and keys");
}

/// An error of a database. Messages and remedies are those of any store, but advice about files
/// does not apply.
pub(crate) fn database_error(failure: &Failure) -> CliError {
    // The intermediate causes only say that there is another one below.
    let mut last = std::error::Error::source(failure);
    while let Some(cause) = last.and_then(std::error::Error::source) {
        last = Some(cause);
    }
    let text =
        last.map(|cause| format!(": {}", strip_severity(&cause.to_string()))).unwrap_or_default();
    let (message, remedy) = failure.what.split_once("; ").unwrap_or((
        failure.what.as_str(),
        "check that the database runs and that the address in --store is correct",
    ));
    let code = match failure.kind {
        FailureKind::Unfinished => "copy_interrupted",
        FailureKind::Untrusted => "database_untrusted",
        FailureKind::UnknownRules => "rules_unknown",
        _ => "store_closed",
    };
    CliError::new(Exit::Conflict, code, format!("{message}{text}")).hint(remedy)
}

/// The database's message without its severity, and without the lines after the first.
fn strip_severity(said: &str) -> &str {
    let first = said.lines().next().unwrap_or_default();
    ["FATAL: ", "ERROR: ", "PANIC: "]
        .iter()
        .find_map(|word| first.strip_prefix(word))
        .unwrap_or(first)
}

/// Opens a database for reading: creates nothing in it and does not register as a coordinator.
pub(crate) async fn open_read_only(url: &str) -> Result<PostgresStore, CliError> {
    let options = postgres::Options {
        // Nothing is decided here, so a clock that was once wrong does not prevent reading.
        ahead: ClockAhead::Accept,
        notify: postgres::Notify::Off,
        missing: postgres::Missing::Refuse,
        ..postgres::Options::new("look")
    };
    PostgresStore::open(url, options).await.map_err(|failure| database_error(&failure))
}
