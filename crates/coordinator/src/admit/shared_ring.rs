//! Signing keys shared by several coordinators. They are in the store, sealed with a key from a file that each
//! machine has a copy of.
//!
//! The file never changes, so it is copied once. A rotation through any coordinator is one administrative act
//! with its audit entry, and the others follow within a second; the next key is always published one rotation
//! ahead, so that no token is refused meanwhile. A coordinator with a different file cannot open the keys in
//! the store and does not start: the tokens it would sign are not accepted elsewhere.

use std::path::Path;

use edge::SigningKey;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use store::{Administration, Browse, CommitFailure, Failure, FailureKind, RingChange, SealedRing};
use store::{Store, Writer};
use verdict::Scope;

use super::keyring::{self, Contents, Keyring, KeyringError};
use crate::ids::{Entropy, OsEntropy};

/// Associated data of the sealed bytes, so that they are not mistaken for anything else.
const CONTEXT: &[u8] = b"tenure signing keys 1";

const PURPOSE: &str = "ring-seal";

/// Seals and opens the keys in a store.
pub(super) struct RingSeal(LessSafeKey);

impl RingSeal {
    /// The first key of the file is the sealing key.
    pub(super) fn of(file: &Contents) -> Self {
        let first: &SigningKey = file.keys.first().expect("a file holds a key");
        let key = UnboundKey::new(&CHACHA20_POLY1305, &first.derive(PURPOSE, &Scope::default()));
        Self(LessSafeKey::new(key.expect("a derived key has the length of one")))
    }

    pub(super) fn seal(&self, contents: &Contents, entropy: &mut dyn Entropy) -> Vec<u8> {
        let mut nonce = [0; NONCE_LEN];
        entropy.fill(&mut nonce);
        let mut text = keyring::text(contents);
        let nonce_of_this = Nonce::assume_unique_for_key(nonce);
        let sealed = self.0.seal_in_place_append_tag(nonce_of_this, Aad::from(CONTEXT), &mut text);
        sealed.expect("a list of keys is short");
        [&nonce[..], &text].concat()
    }

    /// `None` if the bytes were sealed with another key, or are damaged.
    pub(super) fn open(&self, sealed: &[u8]) -> Option<Contents> {
        let (nonce, text) = sealed.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut text = text.to_vec();
        let opened = self.0.open_in_place(nonce, Aad::from(CONTEXT), &mut text).ok()?;
        keyring::contents(opened)
    }
}

impl Keyring {
    /// The keys of a store that several coordinators use; the first coordinator creates them.
    pub async fn share<S: Store>(store: &S, path: &Path) -> Result<Self, KeyringError> {
        let found = store.browse().administration().await?.ring;
        if found.is_some() && !path.exists() {
            return Err(KeyringError::NotCopied { path: path.to_owned() });
        }
        let file = keyring::read_or_create(path)?;
        let seal = RingSeal::of(&file);
        let found = match found {
            Some(found) => found,
            None => begin(store, &seal, file).await?,
        };
        Self::opened(path, seal, &found)
    }

    /// The same for programs that only verify: nothing is created. `None` if the store or this machine has no
    /// keys.
    pub async fn look<B: Browse>(browse: &B, path: &Path) -> Result<Option<Self>, KeyringError> {
        let found = browse.administration().await?.ring;
        let Some(found) = found.filter(|_| path.exists()) else { return Ok(None) };
        let seal = RingSeal::of(&keyring::read_or_create(path)?);
        Self::opened(path, seal, &found).map(Some)
    }

    fn opened(path: &Path, seal: RingSeal, found: &SealedRing) -> Result<Self, KeyringError> {
        let differs = || KeyringError::Differs { path: path.to_owned() };
        let contents = seal.open(&found.sealed).ok_or_else(differs)?;
        Ok(Keyring::shared(path, seal, found.version, contents))
    }

    /// Applies changes by other coordinators, from what the store has now.
    pub fn follow(&self, found: Option<SealedRing>) -> Result<(), KeyringError> {
        let Some((seal, known, path)) = self.in_store() else { return Ok(()) };
        let Some(found) = found.filter(|found| found.version != known) else { return Ok(()) };
        let differs = || KeyringError::Differs { path: path.to_owned() };
        let contents = seal.open(&found.sealed).ok_or_else(differs)?;
        self.replace(contents, found.version);
        Ok(())
    }
}

/// Stores the first keys, unless another coordinator is faster.
async fn begin<S: Store>(
    store: &S,
    seal: &RingSeal,
    file: Contents,
) -> Result<SealedRing, KeyringError> {
    let contents = keyring::with_next(file, &mut OsEntropy);
    let sealed = seal.seal(&contents, &mut OsEntropy);
    let act = Administration {
        ring: Some(RingChange { before: None, sealed }),
        ..Administration::default()
    };
    let written = store.writer().await?.administer(&act).await;
    match written {
        Err(CommitFailure::RolledBack(failure))
            if !matches!(failure.kind, FailureKind::Conflict(_)) =>
        {
            return Err(failure.into());
        }
        // Written here, written by a peer, or unknown: the next read shows what is there.
        Ok(()) | Err(_) => {}
    }
    let gone = || Failure::new(FailureKind::Unavailable, "the signing keys were not written");
    Ok(store.browse().administration().await?.ring.ok_or_else(gone)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::SeededEntropy;

    fn file(first: u8) -> Contents {
        keyring::of_one_key(std::array::from_fn(|at| first.wrapping_add(at as u8)))
    }

    #[test]
    fn only_the_same_file_opens_what_was_sealed() {
        // X07, X11
        let mut entropy = SeededEntropy::new(7);
        let contents = keyring::with_next(file(3), &mut entropy);
        let seal = RingSeal::of(&file(3));
        let sealed = seal.seal(&contents, &mut entropy);
        let opened = seal.open(&sealed).unwrap();
        assert_eq!(keyring::text(&opened), keyring::text(&contents));
        assert!(RingSeal::of(&file(4)).open(&sealed).is_none());
        for at in 0..sealed.len() {
            let mut damaged = sealed.clone();
            damaged[at] ^= 1;
            assert!(seal.open(&damaged).is_none(), "byte {at}");
        }
        assert!(seal.open(&[]).is_none());
        let readable = String::from_utf8_lossy(&sealed).contains("key");
        assert!(!readable, "nothing of it can be read in the database");
    }
}
