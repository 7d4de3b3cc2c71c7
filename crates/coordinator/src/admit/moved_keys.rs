//! Signing keys that move with their store, into another file or another database.
//!
//! The keys stay the same ones, so that a token from before is known and answered CANCELLED instead of refused as
//! a stranger's, and every seal of the audit can still be checked. Only where they lie differs: beside a store in
//! a file they are a file; in a database they are sealed with what lies in the file of its coordinators.
//! Nothing is ever written over.

use std::fs;
use std::io;
use std::path::Path;

use store::{Browse, RingChange};

use super::keyring::{self, Keyring, KeyringError};
use super::seal::anchor_path;
use super::shared_ring::RingSeal;
use crate::ids::OsEntropy;

impl Keyring {
    /// The keys that a server of this store would use; nothing is made. `None` if it would make new ones.
    pub async fn of_store<B: Browse>(
        browse: &B,
        path: &Path,
    ) -> Result<Option<Self>, KeyringError> {
        match (browse.ring().await?, path.exists()) {
            (Some(_), false) => Err(KeyringError::NotCopied { path: path.to_owned() }),
            (Some(_), true) => Self::look(browse, path).await,
            (None, true) => Self::open(path).map(Some),
            (None, false) => Ok(None),
        }
    }

    /// Refuses if other keys lie where these shall be.
    pub fn check_room(&self, path: &Path) -> Result<(), KeyringError> {
        if path.exists() && keyring::text(&keyring::read_or_create(path)?) != self.text() {
            return Err(KeyringError::Occupied { path: path.to_owned() });
        }
        Ok(())
    }

    /// Writes these keys to the file of another store, unless they lie there already.
    pub fn lay_down(&self, path: &Path) -> Result<(), KeyringError> {
        self.check_room(path)?;
        if !path.exists() {
            let failed = |source| KeyringError::Io { path: path.to_owned(), source };
            keyring::write(path, &self.contents()).map_err(failed)?;
        }
        Ok(())
    }

    /// These keys as a database keeps them, sealed with what lies in the file of its coordinators. Where there is
    /// no such file yet, it is made of these keys.
    pub fn sealed_for(&self, path: &Path) -> Result<RingChange, KeyringError> {
        if !path.exists() {
            self.lay_down(path)?;
        }
        let seal = RingSeal::of(&keyring::read_or_create(path)?);
        let contents = keyring::with_next(self.contents(), &mut OsEntropy);
        Ok(RingChange { before: None, sealed: seal.seal(&contents, &mut OsEntropy) })
    }

    fn text(&self) -> Vec<u8> {
        keyring::text(&self.contents())
    }
}

/// The note of where the audit ends goes along, unless there is one.
pub fn carry_anchor(from: &Path, to: &Path) -> io::Result<()> {
    let (from, to) = (anchor_path(from), anchor_path(to));
    if from.exists() && !to.exists() {
        fs::copy(from, to)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admit::Rotation;
    use crate::ids::SeededEntropy;
    use verdict::{Span, Time};

    const NOW: Time = Time::from_millis(1_000_000);

    /// Keys after a rotation: the one that signs, the one before, and the next.
    fn rotated(path: &Path) -> Keyring {
        let keys = Keyring::open(path).unwrap();
        let overlap = Rotation::Overlap(Span::from_secs(60));
        keys.rotate(&mut SeededEntropy::new(3), overlap, NOW).unwrap();
        keys
    }

    #[test]
    fn keys_are_laid_down_whole_and_never_over_others() {
        // X11: whoever follows the file of a moved store knows every token from before.
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let keys = rotated(&at("old.key"));
        keys.lay_down(&at("new.key")).unwrap();
        keys.lay_down(&at("new.key")).unwrap();
        assert_eq!(Keyring::open(&at("new.key")).unwrap().text(), keys.text());
        let other = Keyring::open(&at("other.key")).unwrap();
        let refused = other.lay_down(&at("new.key")).unwrap_err();
        assert!(matches!(refused, KeyringError::Occupied { .. }), "{refused:?}");
        assert_eq!(Keyring::open(&at("new.key")).unwrap().text(), keys.text());
    }

    #[test]
    fn a_database_gets_the_same_keys_whatever_file_seals_them() {
        // X07: with a file of its own, and with one that coordinators of another store made before.
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
}
