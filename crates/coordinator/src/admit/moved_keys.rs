//! Signing keys that move with their store, to another file or another database.
//!
//! The keys stay the same, so that an earlier token is recognised and answered CANCELLED instead of being refused
//! as unknown, and every seal of the audit can still be verified. Only their location differs: beside a store in a
//! file they are a file; in a database they are sealed with a key from the file of its coordinators. Nothing is
//! ever overwritten.

use std::fs;
use std::io;
use std::path::Path;

use store::{Browse, RingChange};

use super::keyring::{self, Keyring, KeyringError};
use super::record_seals;
use super::seal::{self, anchor_path};
use super::shared_ring::RingSeal;
use crate::ids::OsEntropy;

impl Keyring {
    /// The keys that a server of this store would use; nothing is created. `None` if a server would create new
    /// ones.
    pub async fn of_store<B: Browse>(
        browse: &B,
        path: &Path,
    ) -> Result<Option<Self>, KeyringError> {
        match (browse.administration().await?.ring, path.exists()) {
            (Some(_), false) => Err(KeyringError::NotCopied { path: path.to_owned() }),
            (Some(_), true) => Self::look(browse, path).await,
            (None, true) => Self::open(path).map(Some),
            (None, false) => Ok(None),
        }
    }

    /// Fails if other keys are already at the destination.
    pub fn check_unoccupied(&self, path: &Path) -> Result<(), KeyringError> {
        if path.exists() && keyring::text(&keyring::read_or_create(path)?) != self.text() {
            return Err(KeyringError::Occupied { path: path.to_owned() });
        }
        Ok(())
    }

    /// Writes these keys to the file of another store, unless they are already there.
    pub fn write_to(&self, path: &Path) -> Result<(), KeyringError> {
        self.check_unoccupied(path)?;
        if !path.exists() {
            let failed = |source| KeyringError::Io { path: path.to_owned(), source };
            keyring::write(path, &self.contents()).map_err(failed)?;
        }
        faultpoint::point!("move.keys");
        Ok(())
    }

    /// These keys in the form of a database, sealed with a key from the file of its coordinators. If there is no
    /// such file yet, it is created from these keys.
    pub fn sealed_for(&self, path: &Path) -> Result<RingChange, KeyringError> {
        if !path.exists() {
            self.write_to(path)?;
        }
        let seal = RingSeal::of(&keyring::read_or_create(path)?);
        let contents = keyring::with_next(self.contents(), &mut OsEntropy);
        Ok(RingChange { before: None, sealed: seal.seal(&contents, &mut OsEntropy) })
    }

    fn text(&self) -> Vec<u8> {
        keyring::text(&self.contents())
    }
}

/// Adopts the key file and the anchor that all databases of a machine once shared under one name, if they belong to
/// this store. The originals stay: another database may need them.
pub async fn adopt<B: Browse>(browse: &B, old: &Path, new: &Path) -> Result<(), KeyringError> {
    if new.exists() || !old.exists() {
        return Ok(());
    }
    match Keyring::look(browse, old).await {
        Ok(Some(_)) => {}
        Ok(None) | Err(KeyringError::Differs { .. }) => return Ok(()),
        Err(error) => return Err(error),
    }
    let failed = |source| KeyringError::Io { path: new.to_owned(), source };
    // The anchor first: a start that finds the key file does not search for older files.
    if seal::is_anchored(browse, &anchor_path(old)).await? {
        copy_anchor(old, new).map_err(failed)?;
    }
    match fs::hard_link(old, new) {
        // Another coordinator on this machine was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked.map_err(failed),
    }
}

/// Copies the anchors of the audit and of record seals, unless they are there already.
pub fn copy_anchor(from: &Path, to: &Path) -> io::Result<()> {
    for path in [anchor_path, record_seals::anchor::path] {
        let (from, to) = (path(from), path(to));
        if from.exists() && !to.exists() {
            fs::copy(from, to)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use store::{Administration, Audit, Store};
    use storetest::{ManualClock, MemoryStore, Writers};
    use verdict::{Name, Scope, Span, Text, Time};

    use crate::admit::Rotation;
    use crate::admit::seal::Sealer;
    use crate::ids::SeededEntropy;

    const NOW: Time = Time::from_millis(1_000_000);

    /// Keys after a rotation: the signing key, the previous one, and the next.
    fn rotated(path: &Path) -> Keyring {
        let keys = Keyring::open(path).unwrap();
        let overlap = Rotation::Overlap(Span::from_secs(60));
        keys.rotate(&mut SeededEntropy::new(3), overlap, NOW).unwrap();
        keys
    }

    #[test]
    fn keys_are_laid_down_whole_and_never_over_others() {
        // X11: a server with the file of a moved store accepts every earlier token.
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let keys = rotated(&at("old.key"));
        keys.write_to(&at("new.key")).unwrap();
        keys.write_to(&at("new.key")).unwrap();
        assert_eq!(Keyring::open(&at("new.key")).unwrap().text(), keys.text());
        let other = Keyring::open(&at("other.key")).unwrap();
        let refused = other.write_to(&at("new.key")).unwrap_err();
        assert!(matches!(refused, KeyringError::Occupied { .. }), "{refused:?}");
        assert_eq!(Keyring::open(&at("new.key")).unwrap().text(), keys.text());
    }

    #[test]
    fn a_database_gets_the_same_keys_whatever_file_seals_them() {
        // X07: with a new file, and with one that coordinators of another store created before.
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let keys = rotated(&at("old.key"));
        Keyring::open(&at("there.key")).unwrap();
        for file in ["none.key", "there.key"] {
            let change = keys.sealed_for(&at(file)).unwrap();
            let seal = RingSeal::of(&keyring::read_or_create(&at(file)).unwrap());
            let opened = seal.open(&change.sealed).expect("the file opens what it sealed");
            assert_eq!((keyring::text(&opened), change.before), (keys.text(), None), "{file}");
        }
    }

    /// A store whose keys are sealed with a file, with one act in its audit.
    async fn sealed_with(path: &Path, actor: &str) -> MemoryStore {
        let store = MemoryStore::with_writers(Arc::new(ManualClock::default()), Writers::Two);
        let keyring = Keyring::share(&store, path).await.unwrap();
        let sealer = Sealer::open(store.browse(), keyring, path).await.unwrap();
        let audit = Audit {
            at: NOW,
            scope: Scope::default(),
            actor: Name::from(actor),
            action: Name::from("key.made"),
            object: Text::from("key"),
            code: None,
            times: 1,
            before: None,
            after: None,
            request: None,
            seal: None,
        };
        let mut act = Administration { audit: vec![audit], ..Administration::default() };
        let mut writer = store.writer().await.unwrap();
        sealer.write(&store, &mut writer, &mut act).await.unwrap();
        store
    }

    #[tokio::test]
    async fn what_databases_of_one_machine_shared_is_taken_over_by_whom_it_belongs_to() {
        // X11, X45: two databases once shared one key file and one anchor, which only the last one wrote.
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let earlier = sealed_with(&at("postgres.key"), "earlier").await;
        // The version that shared them did not look at the anchor before it wrote.
        std::fs::remove_file(anchor_path(&at("postgres.key"))).unwrap();
        let later = sealed_with(&at("postgres.key"), "later").await;
        let stranger = sealed_with(&at("elsewhere.key"), "stranger").await;
        let fresh = MemoryStore::new(Arc::new(ManualClock::default()));
        let stores =
            [("earlier", &earlier), ("later", &later), ("stranger", &stranger), ("fresh", &fresh)];
        for (name, store) in stores {
            let path = at(&format!("{name}.key"));
            adopt(store.browse(), &at("postgres.key"), &path).await.unwrap();
            adopt(store.browse(), &at("postgres.key"), &path).await.unwrap();
            let is_its = matches!(name, "earlier" | "later");
            assert_eq!(path.exists(), is_its, "the key file of {name}");
            assert_eq!(anchor_path(&path).exists(), name == "later", "the anchor of {name}");
        }
        let keys = Keyring::look(earlier.browse(), &at("earlier.key")).await.unwrap();
        let keys = keys.expect("the file opens what is in the store");
        let report = seal::verify(earlier.browse(), &keys, None).await.unwrap();
        assert_eq!((report.sealed, report.findings.len()), (1, 0));
    }
}
