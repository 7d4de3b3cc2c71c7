//! The signing keys: each is 32 random bytes, in a file of the operator; every other key is derived from them.
//!
//! The first key signs. The next one is created one rotation ahead and is already accepted, so every process that has
//! read the file since then knows it before anything is signed with it. Older keys are accepted until they expire. A
//! rotation sets that expiry so late that no token in flight outlives its key; an emergency rotation drops older keys
//! at once. A token that names an unknown key causes one reload of the file before it is refused: another process may
//! have rotated.
//!
//! There is no built-in key and no way to run without one: a missing file is created with fresh randomness, and a file
//! that others can read, or that looks typed, is refused.

mod error;
mod key_file;
mod rotation;
mod sealing_key;

use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use edge::{KEY_BYTES, KID_BYTES, Keys, SigningKey};
use store::RingChange;
use verdict::{Span, Time};

pub use self::error::KeyringError;
pub(super) use self::key_file::{
    Contents, contents, of_one_key, read_or_create, text, with_next, write,
};
pub use self::rotation::Rotation;
pub(super) use self::sealing_key::kid_bytes;
use self::sealing_key::{SealingKey, sealing};
use super::hex;
use super::shared_ring::RingSeal;
use crate::ids::Entropy;

/// How often an unknown key may cause a reload of the file: an attacker can name a new one in every call.
const RELOAD_EVERY: Span = Span::from_secs(1);

/// The keys, shared by the whole process. Cheap to clone.
#[derive(Clone)]
pub struct Keyring {
    source: KeySource,
    ring: Arc<RwLock<Ring>>,
}

/// Where keys are stored.
#[derive(Clone)]
enum KeySource {
    Memory,
    File(PathBuf),
    /// In the store, sealed with a key from the file.
    Store {
        path: PathBuf,
        seal: Arc<RingSeal>,
    },
}

/// New keys that are not yet in force.
pub(crate) struct Rotated {
    contents: Contents,
    /// The change to write to the store, if the keys are stored there.
    pub(crate) change: Option<RingChange>,
}

struct Ring {
    /// The signing key first, then the older ones.
    keys: Vec<Arc<SigningKey>>,
    /// The key of the next rotation; `None` before the first rotation.
    next: Option<Arc<SigningKey>>,
    /// Sealing keys of signing keys that are gone, oldest first.
    sealing: Vec<SealingKey>,
    read_at: Option<Time>,
    /// The version of the keys in the store.
    version: u64,
}

impl Keyring {
    /// Reads the keys at `path`, or creates one there.
    pub fn open(path: &Path) -> Result<Self, KeyringError> {
        Ok(Self::at(KeySource::File(path.to_owned()), read_or_create(path)?, 0))
    }

    /// A keyring from the keys in a store that several coordinators share.
    pub(super) fn shared(path: &Path, seal: RingSeal, version: u64, contents: Contents) -> Self {
        Self::at(
            KeySource::Store { path: path.to_owned(), seal: Arc::new(seal) },
            contents,
            version,
        )
    }

    fn at(source: KeySource, contents: Contents, version: u64) -> Self {
        let Contents { keys, next, sealing } = contents;
        let ring = Ring { keys, next, sealing, read_at: None, version };
        Self { source, ring: Arc::new(RwLock::new(ring)) }
    }

    /// The seal, the known version and the file, if the keys are stored in the store.
    pub(super) fn in_store(&self) -> Option<(&RingSeal, u64, &Path)> {
        let KeySource::Store { path, seal } = &self.source else { return None };
        let ring = self.ring.read().expect("no code panics while it holds the keys");
        Some((seal, ring.version, path))
    }

    /// Puts these keys in force.
    pub(super) fn replace(&self, contents: Contents, version: u64) {
        let mut ring = self.ring.write().expect("no code panics while it holds the keys");
        if version >= ring.version {
            ring.version = version;
            ring.follow(contents);
        }
    }

    /// All keys, in the form in which they are stored.
    pub(super) fn contents(&self) -> Contents {
        let ring = self.ring.read().expect("no code panics while it holds the keys");
        let Ring { keys, next, sealing, .. } = &*ring;
        Contents { keys: keys.clone(), next: next.clone(), sealing: sealing.clone() }
    }

    /// A single key that is in no file.
    pub fn from_bytes(master: [u8; KEY_BYTES]) -> Self {
        Self::at(KeySource::Memory, of_one_key(master), 0)
    }

    /// The public name of the signing key.
    pub fn kid(&self) -> String {
        self.current().kid().to_owned()
    }

    /// The public name of the oldest signing key that is remembered. It outlives rotations, so it names the installation.
    pub(crate) fn first_kid(&self) -> String {
        let ring = self.ring.read().expect("no code panics while it holds the keys");
        let oldest = ring.keys.last().expect("a ring is never empty").kid();
        ring.sealing.first().map_or(oldest, |key| &key.kid).to_owned()
    }

    /// The key that seals the audit now, with its name.
    pub(crate) fn sealing_key(&self) -> ([u8; KID_BYTES], [u8; KEY_BYTES]) {
        let current = self.current();
        (kid_bytes(current.kid()), sealing(&current))
    }

    /// The key that sealed the audit under this name, even if it no longer signs.
    pub(crate) fn sealing_key_of(&self, kid: &[u8]) -> Option<[u8; KEY_BYTES]> {
        let name = hex(kid);
        let ring = self.ring.read().expect("no code panics while it holds the keys");
        let signs = ring.named().find(|key| key.kid() == name).map(|key| sealing(key));
        signs.or_else(|| ring.sealing.iter().find(|key| key.kid == name).map(|key| key.key))
    }

    fn reload_if_due(&self, now: Time) {
        let mut ring = self.ring.write().expect("no code panics while it holds the keys");
        let is_due = ring.read_at.is_none_or(|at| now.since(at) >= RELOAD_EVERY);
        let KeySource::File(path) = &self.source else { return };
        if !is_due {
            return;
        }
        ring.read_at = Some(now);
        match key_file::read(path) {
            Ok(contents) => ring.follow(contents),
            Err(error) => {
                tracing::error!(%error, "cannot read the signing keys again; the old ones stay")
            }
        }
    }

    /// Reads the file again and puts its keys in force. Keys in the store are followed anyway.
    pub fn reload(&self) -> Result<(), KeyringError> {
        let path = match &self.source {
            KeySource::Memory => return Err(KeyringError::NoFile),
            KeySource::Store { .. } => return Ok(()),
            KeySource::File(path) => path,
        };
        let contents = key_file::read(path)?;
        self.ring.write().expect("no code panics while it holds the keys").follow(contents);
        Ok(())
    }

    /// Creates a new key, writes the file, and signs with the new key from then on.
    #[cfg(test)]
    pub(crate) fn rotate(
        &self,
        entropy: &mut dyn Entropy,
        rotation: Rotation,
        now: Time,
    ) -> Result<(), KeyringError> {
        self.apply(self.rotated(entropy, rotation, now)?)
    }

    /// The keys after a rotation, and the change to write to the store before they are in force.
    pub(crate) fn rotated(
        &self,
        entropy: &mut dyn Entropy,
        rotation: Rotation,
        now: Time,
    ) -> Result<Rotated, KeyringError> {
        if matches!(self.source, KeySource::Memory) {
            return Err(KeyringError::NoFile);
        }
        let ring = self.ring.read().expect("no code panics while it holds the keys");
        let contents = ring.after(entropy, rotation, now);
        let change = match &self.source {
            KeySource::Store { seal, .. } => {
                let sealed = seal.seal(&contents, entropy);
                Some(RingChange { before: Some(ring.version), sealed })
            }
            KeySource::Memory | KeySource::File(_) => None,
        };
        Ok(Rotated { contents, change })
    }

    /// Puts the new keys in force; if they are stored in a file, the file is written first.
    pub(crate) fn apply(&self, rotated: Rotated) -> Result<(), KeyringError> {
        let Rotated { contents, change } = rotated;
        if let KeySource::File(path) = &self.source {
            let failed = |source| KeyringError::Io { path: path.clone(), source };
            write(path, &contents).map_err(failed)?;
        }
        let before = change.and_then(|change| change.before);
        self.replace(contents, before.map_or(0, |before| before + 1));
        Ok(())
    }
}

impl Keys for Keyring {
    fn current(&self) -> Arc<SigningKey> {
        let ring = self.ring.read().expect("no code panics while it holds the keys");
        ring.keys.first().expect("a ring is never empty").clone()
    }

    /// All keys whose signatures are accepted now.
    fn accepted(&self, now: Time) -> Vec<Arc<SigningKey>> {
        let ring = self.ring.read().expect("no code panics while it holds the keys");
        ring.named().filter(|key| key.is_valid_at(now)).cloned().collect()
    }

    /// The key that a signature names, if it is accepted. An unknown one causes a reload of the file first.
    fn find(&self, is_named: impl Fn(&SigningKey) -> bool, now: Time) -> Option<Arc<SigningKey>> {
        let known = |ring: &Ring| ring.named().find(|key| is_named(key)).cloned();
        let found = known(&self.ring.read().expect("no code panics while it holds the keys"));
        let found = found.or_else(|| {
            self.reload_if_due(now);
            known(&self.ring.read().expect("no code panics while it holds the keys"))
        });
        found.filter(|key| key.is_valid_at(now))
    }
}

impl Ring {
    fn follow(&mut self, contents: Contents) {
        let Contents { keys, next, sealing } = contents;
        (self.keys, self.next, self.sealing) = (keys, next, sealing);
    }

    /// All keys that a signature may name, the signing key first.
    fn named(&self) -> impl Iterator<Item = &Arc<SigningKey>> {
        self.keys.iter().chain(&self.next)
    }
}

impl std::fmt::Debug for Keyring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keyring({})", self.kid())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    const OVERLAP: Span = Span::from_secs(7230);

    fn time(seconds: u64) -> Time {
        Time::default().plus(Span::from_secs(seconds))
    }

    fn file() -> (tempfile::TempDir, PathBuf, Keyring) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let ring = Keyring::open(&path).unwrap();
        (folder, path, ring)
    }

    fn accepts(ring: &Keyring, kid: &str, now: Time) -> bool {
        ring.find(|key| key.kid() == kid, now).is_some()
    }

    #[test]
    fn a_key_is_accepted_exactly_inside_its_window() {
        // X07: current, previous, retired; the file says the same after a restart.
        let (folder, path, ring) = file();
        let first = ring.kid();
        let mut entropy = crate::ids::SeededEntropy::new(1);
        ring.rotate(&mut entropy, Rotation::Overlap(OVERLAP), time(100)).unwrap();
        let second = ring.kid();
        assert_ne!(first, second);
        for ring in [ring.clone(), Keyring::open(&path).unwrap()] {
            assert_eq!(ring.kid(), second);
            for (now, expected) in [(100, true), (7329, true), (7330, false), (9999, false)] {
                assert_eq!(accepts(&ring, &first, time(now)), expected, "at {now}");
                assert!(accepts(&ring, &second, time(now)));
            }
        }
        // Another rotation extends no key's life, and forgets retired keys.
        ring.rotate(&mut entropy, Rotation::Overlap(OVERLAP), time(7000)).unwrap();
        assert!(accepts(&ring, &first, time(7329)) && !accepts(&ring, &first, time(7330)));
        ring.rotate(&mut entropy, Rotation::Overlap(OVERLAP), time(8000)).unwrap();
        assert_eq!(ring.accepted(time(8000)).len(), 4, "three that signed, and the next one");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left behind");
    }

    #[test]
    fn an_emergency_leaves_nothing_of_before() {
        // X07
        let (_folder, path, ring) = file();
        let first = ring.kid();
        let mut entropy = crate::ids::SeededEntropy::new(2);
        ring.rotate(&mut entropy, Rotation::Overlap(OVERLAP), time(1)).unwrap();
        let second = ring.kid();
        ring.rotate(&mut entropy, Rotation::Emergency, time(2)).unwrap();
        for ring in [ring, Keyring::open(&path).unwrap()] {
            assert!(!accepts(&ring, &first, time(2)) && !accepts(&ring, &second, time(2)));
            assert_eq!(ring.accepted(time(2)).len(), 2, "the new one and the one after it");
        }
    }

    #[test]
    fn the_next_key_is_known_before_anything_is_signed_with_it() {
        // X07: a process that read the file after one rotation needs no reload for the next one.
        let (_folder, path, ring) = file();
        let mut entropy = crate::ids::SeededEntropy::new(5);
        ring.rotate(&mut entropy, Rotation::Overlap(OVERLAP), time(1)).unwrap();
        let (other, signing) = (Keyring::open(&path).unwrap(), ring.kid());
        ring.rotate(&mut entropy, Rotation::Overlap(OVERLAP), time(2)).unwrap();
        assert_ne!(ring.kid(), signing);
        fs::remove_file(&path).unwrap();
        assert!(accepts(&other, &ring.kid(), time(2)));
        assert_eq!(other.kid(), signing, "and signs as before until it reads the file");
        // After an emergency nothing in the old file is accepted.
        let published: Vec<String> =
            ring.accepted(time(2)).iter().map(|key| key.kid().to_owned()).collect();
        ring.rotate(&mut entropy, Rotation::Emergency, time(3)).unwrap();
        assert!(published.iter().all(|kid| !accepts(&ring, kid, time(3))));
    }

    #[test]
    fn what_a_key_sealed_can_be_checked_after_it_is_gone() {
        // X45: a rotation, also in an emergency, leaves old audit entries verifiable.
        let (_folder, path, ring) = file();
        let mut entropy = crate::ids::SeededEntropy::new(4);
        let mut sealed = vec![ring.sealing_key()];
        for n in 0..4 {
            let rotation = if n == 2 { Rotation::Emergency } else { Rotation::Overlap(OVERLAP) };
            ring.rotate(&mut entropy, rotation, time(10_000 * (n + 1))).unwrap();
            sealed.push(ring.sealing_key());
        }
        for ring in [ring, Keyring::open(&path).unwrap()] {
            for (kid, key) in &sealed {
                assert_eq!(ring.sealing_key_of(kid), Some(*key));
            }
            assert_eq!(ring.sealing_key_of(&[0; KID_BYTES]), None);
            assert!(ring.accepted(time(50_000)).len() < sealed.len(), "most sign no more");
        }
    }

    #[test]
    fn an_unknown_key_is_looked_for_in_the_file_once_in_a_while() {
        // X07: another process rotated; made-up key names do not cause a read of the disk in every call.
        let (_folder, path, ring) = file();
        let other = Keyring::open(&path).unwrap();
        let mut entropy = crate::ids::SeededEntropy::new(3);
        assert!(!accepts(&ring, "made up", time(10)));
        other.rotate(&mut entropy, Rotation::Overlap(OVERLAP), time(10)).unwrap();
        let new = other.kid();
        assert!(!accepts(&ring, &new, time(10)), "it has just looked");
        assert!(accepts(&ring, &new, time(11)));
        assert_eq!(ring.kid(), new, "and signs with it from now on");
        // If the file is damaged, the known keys stay.
        fs::write(&path, "[{\"key\":1}]").unwrap();
        assert!(!accepts(&ring, "made up", time(20)));
        assert!(accepts(&ring, &new, time(20)));
        assert!(matches!(ring.reload(), Err(KeyringError::Format { .. })));
    }
}
