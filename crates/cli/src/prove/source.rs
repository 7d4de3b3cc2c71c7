//! Where a proof reads from: a SQLite file, a snapshot of one that a server uses, a database, or a bundle.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use coordinator::admit::Keyring;
use coordinator::admit::record_seals::anchor::{self, AnchoredSeals};
use store::sqlite::{Options, SqliteStore};
use store::{ClockAhead, Failure, FailureKind, PostgresStore, Store, SystemClock};

use crate::exit::{CliError, Exit};
use crate::open_store::{self, StoreAddress};
use crate::verify::private_copy::PrivateCopy;
use crate::{backup, output, serve};

pub(super) enum Source {
    Sqlite {
        store: SqliteStore,
        place: String,
        /// `None` for a bundle, which has none.
        key_file: Option<PathBuf>,
        anchors: AnchoredSeals,
        /// Dropped after the store, which has it open.
        _copy: Option<PrivateCopy>,
    },
    Postgres {
        store: PostgresStore,
        place: String,
        key_file: PathBuf,
        anchors: AnchoredSeals,
    },
}

/// Reads the anchor. A server may add seals at any time, so this comes before anything is read of the store: an anchor that
/// is newer than what was read would look like seals that are missing.
fn anchors(path: &Path) -> Result<AnchoredSeals, CliError> {
    anchor::read(path).map_err(|error| {
        let message = format!("the anchor {} cannot be read: {error}", path.display());
        CliError::new(Exit::Failed, "file_unusable", message).hint("check its permissions")
    })
}

impl Source {
    /// A store, with the given anchor or the one beside its key file.
    pub(super) async fn store(
        address: &StoreAddress,
        anchor: Option<&Path>,
    ) -> Result<Self, CliError> {
        match address {
            StoreAddress::Sqlite(path) => Self::file(path, anchor),
            StoreAddress::Postgres(url) => {
                let store = open_store::open_read_only(url).await?;
                let key_file = open_store::shared_signing_key(&store).await?;
                let anchors = anchors(anchor.unwrap_or(&anchor::path(&key_file)))?;
                let place = open_store::redact_password(url);
                Ok(Self::Postgres { store, place, key_file, anchors })
            }
        }
    }

    /// A bundle comes from elsewhere: a copy of it is opened, so that it stays as it was received.
    pub(super) fn bundle(path: &Path, anchor: Option<&Path>) -> Result<Self, CliError> {
        if !path.exists() {
            let message = format!("there is no bundle at {}", path.display());
            return Err(CliError::new(Exit::NotFound, "bundle_missing", message)
                .hint("name the file that `tenure prove RUN --export FILE` wrote"));
        }
        let copy = PrivateCopy::of(path)?;
        let store = open(copy.path()).map_err(|failure| {
            let message = format!("{} is not a bundle: {failure}", path.display());
            CliError::new(Exit::Failed, "bundle_invalid", message)
                .hint("get the file again; `tenure prove RUN --export FILE` writes one")
        })?;
        let place = path.display().to_string();
        let anchors = anchor.map(anchors).transpose()?.unwrap_or_default();
        Ok(Self::Sqlite { store, place, key_file: None, anchors, _copy: Some(copy) })
    }

    fn file(path: &Path, anchor: Option<&Path>) -> Result<Self, CliError> {
        if !path.exists() {
            return Err(backup::missing(path));
        }
        let key_file = path.with_extension("key");
        let anchors = anchors(anchor.unwrap_or(&anchor::path(&key_file)))?;
        let key_file = Some(key_file);
        let place = path.display().to_string();
        let copy = PrivateCopy::of_read_only(path)?;
        let opened = open(copy.as_ref().map_or(path, PrivateCopy::path));
        match opened {
            Ok(store) => Ok(Self::Sqlite { store, place, key_file, anchors, _copy: copy }),
            Err(failure) if failure.kind == FailureKind::InUse => {
                output::note(format_args!("a server uses {place}; proving a snapshot of it"));
                let copy = PrivateCopy::snapshot(path)?;
                let store = open(copy.path()).map_err(|failure| serve::store_error(&failure))?;
                Ok(Self::Sqlite { store, place, key_file, anchors, _copy: Some(copy) })
            }
            Err(failure) => Err(serve::store_error(&failure)),
        }
    }

    pub(super) fn place(&self) -> &str {
        match self {
            Self::Sqlite { place, .. } | Self::Postgres { place, .. } => place,
        }
    }

    /// The newest seal of each tenant, as it is kept outside of the store.
    pub(super) fn anchors(&self) -> &AnchoredSeals {
        match self {
            Self::Sqlite { anchors, .. } | Self::Postgres { anchors, .. } => anchors,
        }
    }

    pub(super) fn error(&self, failure: &Failure) -> CliError {
        match self {
            Self::Sqlite { .. } => serve::store_error(failure),
            Self::Postgres { .. } => open_store::database_error(failure),
        }
    }

    /// The keys that check seals: those of the given file, else those of the store. `None` if there is no such file.
    pub(super) async fn keyring(&self, given: Option<&Path>) -> Result<Option<Keyring>, CliError> {
        if let Some(path) = given.filter(|path| !path.exists()) {
            let message = format!("there is no key file at {}", path.display());
            return Err(CliError::new(Exit::NotFound, "key_file_missing", message).hint(
                "name the key file of the store: it lies beside the SQLite file and ends in .key",
            ));
        }
        let opened = match self {
            Self::Postgres { store, key_file, .. } => {
                let path = given.unwrap_or(key_file);
                Keyring::look(store.browse(), path).await
            }
            Self::Sqlite { key_file, .. } => match given.or(key_file.as_deref()) {
                Some(path) if path.exists() => Keyring::open(path).map(Some),
                _ => Ok(None),
            },
        };
        opened.map_err(serve::keyring_error)
    }
}

fn open(path: &Path) -> Result<SqliteStore, Failure> {
    // Nothing is decided here, so a clock that was once wrong does not prevent the proof.
    let options = Options::new(Arc::new(SystemClock::start())).with_ahead(ClockAhead::Accept);
    SqliteStore::open(path, options)
}
