//! The signing keys: each 32 random bytes, in a file of the operator's, from which every other key is
//! derived. They never leave this module.
//!
//! The first key signs. The next one is made a rotation ahead and already counts, so that every process
//! that has read the file since knows it before anything is signed with it. Older ones still count until their end, which a rotation sets so far ahead that
//! no token in flight outlives its key; an emergency rotation drops them at once. A token that names an
//! unknown key makes the file be read again before it is refused: another process may have rotated.
//!
//! There is no built-in key and no way to go without one: a missing file is filled with fresh
//! randomness, and a file that others can read, or that somebody typed, is refused.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use store::{Failure, RingChange};
use verdict::{Scope, Span, Time};

use super::shared_ring::RingSeal;
use super::token_keys::TokenKeys;
use super::{hex, token};
use crate::ids::{Entropy, OsEntropy};

pub(super) type HmacSha256 = Hmac<Sha256>;

/// As long as the output of the hash it keys.
const KEY_BYTES: usize = 32;

/// Enough to tell keys apart in a header; not a secret.
pub(super) const KID_BYTES: usize = 8;

/// Rotations within one overlap. Beyond that somebody is in a hurry, and the oldest key goes first.
const KEYS_MAX: usize = 8;

/// Keys that only check old seals: a rotation each month for twenty years. Beyond that the oldest goes.
const SEALING_MAX: usize = 240;

/// Longer files are not ours.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// How often an unknown key may make the file be read: an attacker can name a new one in every call.
const RELOAD_EVERY: Span = Span::from_secs(1);

/// The permission bits of group and others.
const OTHERS: u32 = 0o077;

/// One key. Its name is public, its bytes are not.
#[derive(Clone)]
pub(crate) struct SigningKey {
    kid: String,
    master: [u8; KEY_BYTES],
    /// From this instant on nothing it signed counts; `None` for the one in use.
    not_after: Option<Time>,
    token_keys: Arc<TokenKeys>,
}

/// What a key that signs no more leaves behind: enough to check the seals it made, and to make none but
/// seals.
#[derive(Clone, PartialEq, Eq)]
struct SealingKey {
    kid: String,
    key: [u8; KEY_BYTES],
}

const SEALING: &str = "audit-seal";

/// The keys there are, as everybody in this process sees them. Cheap to clone.
#[derive(Clone)]
pub struct Keyring {
    home: Home,
    ring: Arc<RwLock<Ring>>,
}

/// Where keys are kept.
#[derive(Clone)]
enum Home {
    Nowhere,
    File(PathBuf),
    /// In the store, sealed with what lies in the file.
    Store {
        path: PathBuf,
        seal: Arc<RingSeal>,
    },
}

/// New keys that are not in force yet.
pub(crate) struct Rotated {
    contents: Contents,
    /// What the store must remember for that, if it keeps them.
    pub(crate) change: Option<RingChange>,
}

struct Ring {
    /// The one in use first, then the older ones.
    keys: Vec<Arc<SigningKey>>,
    /// What the next rotation signs with; known once there has been a rotation.
    next: Option<Arc<SigningKey>>,
    /// Of keys that are gone, oldest first.
    sealing: Vec<SealingKey>,
    read_at: Option<Time>,
    /// Of the keys in the store.
    version: u64,
}

/// What becomes of the keys before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotation {
    /// They count for this long, so that work in flight goes on.
    Overlap(Span),
    /// A key has leaked: nothing that was signed before counts.
    Emergency,
}

/// How a key stands in the file once there has been more than one.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Line {
    key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    not_after_ms: Option<i64>,
    /// This is no signing key, but what the one with this name sealed the audit with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seals_of: Option<String>,
    /// Nothing is signed with this key yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next: Option<bool>,
}

/// What a file holds.
pub(super) struct Contents {
    pub(super) keys: Vec<Arc<SigningKey>>,
    next: Option<Arc<SigningKey>>,
    sealing: Vec<SealingKey>,
}

#[derive(Debug, thiserror::Error)]
pub enum KeyringError {
    #[error("the key file {path} cannot be read or created")]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "the key file {path} has {found} bytes, but a key has {KEY_BYTES}; \
         restore it, or remove it to get a new key"
    )]
    Length { path: PathBuf, found: usize },
    #[error("the key file {path} is neither one key nor a list of keys; restore it from a backup")]
    Format { path: PathBuf },
    #[error(
        "the signing keys in the database cannot be opened with the key file {path}: it is another \
         installation's, or was made anew; copy the file of a coordinator that runs"
    )]
    Differs { path: PathBuf },
    #[error(
        "other coordinators have put their signing keys into the database, and the key file that opens \
         them is not here; copy theirs to {path}"
    )]
    NotCopied { path: PathBuf },
    #[error("{path} holds other signing keys")]
    Occupied { path: PathBuf },
    #[error("the signing keys in the store cannot be read or written")]
    Store(#[from] Failure),
    #[error("the keys are not in a file, so they cannot be rotated")]
    NoFile,
    #[error("the key file {path} may be read by others (mode {mode:o}); run `chmod 600 {path}`")]
    Readable { path: PathBuf, mode: u32 },
    #[error(
        "the key file {path} holds typed text or a sample, not random bytes; remove it to get a new key"
    )]
    Guessable { path: PathBuf },
}

impl Keyring {
    /// Reads the keys of `path`, or makes one there.
    pub fn open(path: &Path) -> Result<Self, KeyringError> {
        Ok(Self::at(Home::File(path.to_owned()), read_or_create(path)?, 0))
    }

    /// What was found in a store that several coordinators share.
    pub(super) fn shared(path: &Path, seal: RingSeal, version: u64, contents: Contents) -> Self {
        Self::at(Home::Store { path: path.to_owned(), seal: Arc::new(seal) }, contents, version)
    }

    fn at(home: Home, contents: Contents, version: u64) -> Self {
        let Contents { keys, next, sealing } = contents;
        let ring = Ring { keys, next, sealing, read_at: None, version };
        Self { home, ring: Arc::new(RwLock::new(ring)) }
    }

    /// What opens the keys of the store, and which of them are known, where they are kept there.
    pub(super) fn in_store(&self) -> Option<(&RingSeal, u64, &Path)> {
        let Home::Store { path, seal } = &self.home else { return None };
        let ring = self.ring.read().expect("no code panics while it holds the keys");
        Some((seal, ring.version, path))
    }

    /// From now on these count.
    pub(super) fn take_in(&self, contents: Contents, version: u64) {
        let mut ring = self.ring.write().expect("no code panics while it holds the keys");
        if version >= ring.version {
            ring.version = version;
            ring.follow(contents);
        }
    }

    /// Every key there is, as it is written down.
    pub(super) fn contents(&self) -> Contents {
        let ring = self.ring.read().expect("no code panics while it holds the keys");
        let Ring { keys, next, sealing, .. } = &*ring;
        Contents { keys: keys.clone(), next: next.clone(), sealing: sealing.clone() }
    }

    /// One key that is in no file.
    pub fn from_bytes(master: [u8; KEY_BYTES]) -> Self {
        Self::at(Home::Nowhere, of_one_key(master), 0)
    }

    /// The public name of the key in use.
    pub fn kid(&self) -> String {
        self.current().kid.clone()
    }

    /// What seals the audit now, with its name.
    pub(super) fn sealing_key(&self) -> ([u8; KID_BYTES], [u8; KEY_BYTES]) {
        let current = self.current();
        (kid_bytes(&current.kid), current.sealing())
    }

    /// What sealed the audit under this name, also if it signs no more.
    pub(super) fn sealing_key_of(&self, kid: &[u8]) -> Option<[u8; KEY_BYTES]> {
        let name = hex(kid);
        let ring = self.ring.read().expect("no code panics while it holds the keys");
        let signs = ring.named().find(|key| key.kid == name).map(|key| key.sealing());
        signs.or_else(|| ring.sealing.iter().find(|key| key.kid == name).map(|key| key.key))
    }

    pub(super) fn current(&self) -> Arc<SigningKey> {
        let ring = self.ring.read().expect("no code panics while it holds the keys");
        ring.keys.first().expect("a ring is never empty").clone()
    }

    /// Every key whose signatures count now.
    pub(super) fn accepted(&self, now: Time) -> Vec<Arc<SigningKey>> {
        let ring = self.ring.read().expect("no code panics while it holds the keys");
        ring.named().filter(|key| key.counts(now)).cloned().collect()
    }

    /// The key a signature names, if it counts. An unknown one is looked for in the file first.
    pub(super) fn find(
        &self,
        is_named: impl Fn(&SigningKey) -> bool,
        now: Time,
    ) -> Option<Arc<SigningKey>> {
        let known = |ring: &Ring| ring.named().find(|key| is_named(key)).cloned();
        let found = known(&self.ring.read().expect("no code panics while it holds the keys"));
        let found = found.or_else(|| {
            self.reload_if_due(now);
            known(&self.ring.read().expect("no code panics while it holds the keys"))
        });
        found.filter(|key| key.counts(now))
    }

    fn reload_if_due(&self, now: Time) {
        let mut ring = self.ring.write().expect("no code panics while it holds the keys");
        let is_due = ring.read_at.is_none_or(|at| now.since(at) >= RELOAD_EVERY);
        let Home::File(path) = &self.home else { return };
        if !is_due {
            return;
        }
        ring.read_at = Some(now);
        match read(path) {
            Ok(contents) => ring.follow(contents),
            Err(error) => tracing::error!(%error, "the signing keys cannot be read again"),
        }
    }

    /// Reads the file again: what it says counts from now on. Keys in the store are followed anyway.
    pub fn reload(&self) -> Result<(), KeyringError> {
        let path = match &self.home {
            Home::Nowhere => return Err(KeyringError::NoFile),
            Home::Store { .. } => return Ok(()),
            Home::File(path) => path,
        };
        let contents = read(path)?;
        self.ring.write().expect("no code panics while it holds the keys").follow(contents);
        Ok(())
    }

    /// Makes a new key, writes the file, and signs with the new key from then on.
    #[cfg(test)]
    pub(crate) fn rotate(
        &self,
        entropy: &mut dyn Entropy,
        rotation: Rotation,
        now: Time,
    ) -> Result<(), KeyringError> {
        self.turn(self.rotated(entropy, rotation, now)?)
    }

    /// The keys after a rotation, with what the store must remember before they count.
    pub(crate) fn rotated(
        &self,
        entropy: &mut dyn Entropy,
        rotation: Rotation,
        now: Time,
    ) -> Result<Rotated, KeyringError> {
        if matches!(self.home, Home::Nowhere) {
            return Err(KeyringError::NoFile);
        }
        let ring = self.ring.read().expect("no code panics while it holds the keys");
        let contents = ring.after(entropy, rotation, now);
        let change = match &self.home {
            Home::Store { seal, .. } => {
                let sealed = seal.seal(&contents, entropy);
                Some(RingChange { before: Some(ring.version), sealed })
            }
            Home::Nowhere | Home::File(_) => None,
        };
        Ok(Rotated { contents, change })
    }

    /// Signs with the new keys from now on; what lies in a file is written first.
    pub(crate) fn turn(&self, rotated: Rotated) -> Result<(), KeyringError> {
        let Rotated { contents, change } = rotated;
        if let Home::File(path) = &self.home {
            let failed = |source| KeyringError::Io { path: path.clone(), source };
            write(path, &contents).map_err(failed)?;
        }
        let before = change.and_then(|change| change.before);
        self.take_in(contents, before.map_or(0, |before| before + 1));
        Ok(())
    }
}

impl Ring {
    /// The keys after a rotation.
    fn after(&self, entropy: &mut dyn Entropy, rotation: Rotation, now: Time) -> Contents {
        let ring = self;
        // Whoever read the leaked file has the next key as well.
        let published = ring.next.clone().filter(|_| rotation != Rotation::Emergency);
        let mut keys = vec![published.unwrap_or_else(|| fresh(entropy))];
        let next = fresh(entropy);
        if let Rotation::Overlap(overlap) = rotation {
            let end = now.plus(overlap);
            let older = ring.keys.iter().filter(|key| key.counts(now));
            keys.extend(older.map(|key| {
                let not_after = Some(key.not_after.map_or(end, |before| before.min(end)));
                Arc::new(SigningKey { not_after, ..SigningKey::clone(key) })
            }));
        }
        keys.truncate(KEYS_MAX);
        let sealing = ring.sealing_after(&keys);
        Contents { keys, next: Some(next), sealing }
    }

    fn follow(&mut self, contents: Contents) {
        let Contents { keys, next, sealing } = contents;
        (self.keys, self.next, self.sealing) = (keys, next, sealing);
    }

    /// Every key that a signature may name, the one in use first.
    fn named(&self) -> impl Iterator<Item = &Arc<SigningKey>> {
        self.keys.iter().chain(&self.next)
    }

    /// Keys that go leave behind what checks their seals.
    fn sealing_after(&self, staying: &[Arc<SigningKey>]) -> Vec<SealingKey> {
        let stays = |kid: &str| staying.iter().any(|key| key.kid == kid);
        let going = self.keys.iter().rev().filter(|key| !stays(&key.kid));
        let going = going.map(|key| SealingKey { kid: key.kid.clone(), key: key.sealing() });
        let mut sealing: Vec<SealingKey> = self.sealing.iter().cloned().chain(going).collect();
        sealing.drain(..sealing.len().saturating_sub(SEALING_MAX));
        sealing
    }
}

fn kid_bytes(kid: &str) -> [u8; KID_BYTES] {
    std::array::from_fn(|at| {
        let pair = kid.get(2 * at..2 * at + 2).expect("a key's name has two digits for each byte");
        u8::from_str_radix(pair, 16).expect("a key's name is hexadecimal")
    })
}

impl SigningKey {
    pub(super) fn new(master: [u8; KEY_BYTES], not_after: Option<Time>) -> Self {
        let digest = Sha256::new().chain_update(b"tenure kid").chain_update(master).finalize();
        let kid = hex(&digest[..KID_BYTES]);
        let token_keys = Arc::new(TokenKeys::new(token::header(&kid)));
        Self { kid, master, not_after, token_keys }
    }

    pub(super) fn token_keys(&self) -> &TokenKeys {
        &self.token_keys
    }

    /// All tenants' entries are one log, so that their scope is nobody's.
    fn sealing(&self) -> [u8; KEY_BYTES] {
        self.derive(SEALING, &Scope::default())
    }

    fn counts(&self, now: Time) -> bool {
        self.not_after.is_none_or(|end| !end.has_come(now))
    }

    /// A key of its own for each purpose and scope: what is moved to another tenant fails in
    /// cryptography before it fails in logic.
    pub(super) fn derive(&self, purpose: &str, scope: &Scope) -> [u8; KEY_BYTES] {
        let (tenant, workspace) = (scope.tenant.as_str(), scope.workspace.as_str());
        // HKDF-SHA-256: extract with an empty salt, expand to one block.
        let pseudorandom = mac(&[0; 32]).chain_update(self.master).finalize().into_bytes();
        let mut expand = mac(&pseudorandom.into());
        for part in [purpose, tenant, workspace] {
            // The length in front keeps `a`, `bc` and `ab`, `c` apart.
            expand.update(&(part.len() as u32).to_be_bytes());
            expand.update(part.as_bytes());
        }
        expand.chain_update([1]).finalize().into_bytes().into()
    }
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SigningKey({})", self.kid)
    }
}

impl std::fmt::Debug for Keyring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keyring({})", self.kid())
    }
}

fn fresh(entropy: &mut dyn Entropy) -> Arc<SigningKey> {
    let mut master = [0; KEY_BYTES];
    entropy.fill(&mut master);
    Arc::new(SigningKey::new(master, None))
}

pub(super) fn of_one_key(master: [u8; KEY_BYTES]) -> Contents {
    let keys = vec![Arc::new(SigningKey::new(master, None))];
    Contents { keys, next: None, sealing: Vec::new() }
}

/// The same with a key that the next rotation will sign with.
pub(super) fn with_next(contents: Contents, entropy: &mut dyn Entropy) -> Contents {
    let next = contents.next.unwrap_or_else(|| fresh(entropy));
    Contents { next: Some(next), ..contents }
}

pub(super) fn read_or_create(path: &Path) -> Result<Contents, KeyringError> {
    let failed = |source| KeyringError::Io { path: path.to_owned(), source };
    if !path.try_exists().map_err(failed)? {
        create(path).map_err(failed)?;
    }
    read(path)
}

/// A list as [`text`] writes it.
pub(super) fn contents(text: &[u8]) -> Option<Contents> {
    listed(Path::new(""), text).ok().map(Contents::from)
}

/// The keys of a file: 32 bytes as they are, or a list with the ends of the older ones.
fn read(path: &Path) -> Result<Contents, KeyringError> {
    let failed = |source| KeyringError::Io { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.mode() & 0o777;
    if mode & OTHERS != 0 {
        return Err(KeyringError::Readable { path: path.to_owned(), mode });
    }
    let mut bytes = Vec::new();
    (&mut file).take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(failed)?;
    let listed = match bytes.strip_prefix(b"[") {
        None => Listed { keys: vec![(one_key(path, &bytes)?, None)], ..Listed::default() },
        Some(_) => listed(path, &bytes)?,
    };
    if listed.keys.iter().any(|(master, _)| is_guessable(master)) {
        return Err(KeyringError::Guessable { path: path.to_owned() });
    }
    Ok(Contents::from(listed))
}

impl From<Listed> for Contents {
    fn from(listed: Listed) -> Self {
        let Listed { keys, next, sealing } = listed;
        let keys = keys.into_iter().map(|(master, end)| Arc::new(SigningKey::new(master, end)));
        let next = next.map(|master| Arc::new(SigningKey::new(master, None)));
        Contents { keys: keys.collect(), next, sealing }
    }
}

type Found = ([u8; KEY_BYTES], Option<Time>);

#[derive(Default)]
struct Listed {
    keys: Vec<Found>,
    next: Option<[u8; KEY_BYTES]>,
    sealing: Vec<SealingKey>,
}

fn one_key(path: &Path, bytes: &[u8]) -> Result<[u8; KEY_BYTES], KeyringError> {
    let length = |_| KeyringError::Length { path: path.to_owned(), found: bytes.len() };
    <[u8; KEY_BYTES]>::try_from(bytes).map_err(length)
}

fn listed(path: &Path, bytes: &[u8]) -> Result<Listed, KeyringError> {
    // A single key may begin with any byte.
    if let Ok(master) = <[u8; KEY_BYTES]>::try_from(bytes) {
        return Ok(Listed { keys: vec![(master, None)], ..Listed::default() });
    }
    let format = || KeyringError::Format { path: path.to_owned() };
    let lines: Vec<Line> = serde_json::from_slice(bytes).map_err(|_| format())?;
    let mut listed = Listed::default();
    for line in lines {
        let key = *verdict::Digest::parse(&line.key).ok_or_else(format)?.bytes();
        match (line.seals_of, line.next) {
            (Some(kid), _) => listed.sealing.push(SealingKey { kid, key }),
            (None, Some(true)) => listed.next = Some(key),
            (None, _) => listed.keys.push((key, line.not_after_ms.map(Time::from_millis))),
        }
    }
    if listed.keys.is_empty() {
        return Err(format());
    }
    Ok(listed)
}

/// The keys as they stand in a file or, sealed, in a store.
pub(super) fn text(contents: &Contents) -> Vec<u8> {
    let Contents { keys, next, sealing } = contents;
    let line = |key: &[u8; KEY_BYTES]| Line {
        key: hex(key),
        not_after_ms: None,
        seals_of: None,
        next: None,
    };
    let signing = keys
        .iter()
        .map(|key| Line { not_after_ms: key.not_after.map(Time::millis), ..line(&key.master) });
    let next = next.iter().map(|key| Line { next: Some(true), ..line(&key.master) });
    let sealing =
        sealing.iter().map(|key| Line { seals_of: Some(key.kid.clone()), ..line(&key.key) });
    let lines: Vec<Line> = signing.chain(next).chain(sealing).collect();
    serde_json::to_vec_pretty(&lines).expect("keys are text and numbers")
}

/// Beside its place first, so that a reader finds the old file or the new one and never half of one.
pub(super) fn write(path: &Path, contents: &Contents) -> io::Result<()> {
    let text = text(contents);
    let draft = path.with_extension(format!("{}.new", contents.keys[0].kid));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    let written = file.write_all(&text).and_then(|()| file.sync_all());
    if let Err(error) = written.and_then(|()| fs::rename(&draft, path)) {
        // The error says what matters; a draft that stays is only clutter.
        let _ = fs::remove_file(&draft);
        return Err(error);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

pub(super) fn mac(key: &[u8; KEY_BYTES]) -> HmacSha256 {
    HmacSha256::new_from_slice(key).expect("HMAC takes keys of any length")
}

/// Random bytes are never all alike, and all 32 printable once in 10^13 keys.
fn is_guessable(key: &[u8; KEY_BYTES]) -> bool {
    let printable = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    key.iter().all(|byte| *byte == key[0]) || key.iter().all(printable)
}

/// Written beside its place and linked into it, so that no reader ever sees half a key and two
/// makers agree on one.
fn create(path: &Path) -> io::Result<()> {
    let mut bytes = [0; KEY_BYTES + KID_BYTES];
    OsEntropy.fill(&mut bytes);
    let (key, suffix) = bytes.split_at(KEY_BYTES);
    let draft = path.with_extension(format!("{}.new", hex(suffix)));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    let written = file.write_all(key).and_then(|()| file.sync_all());
    let linked = written.and_then(|()| match fs::hard_link(&draft, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    });
    fs::remove_file(&draft)?;
    linked
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn key_file(bytes: &[u8], mode: u32) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        (folder, path)
    }

    #[test]
    fn a_missing_key_is_made_once_and_kept_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let first = Keyring::open(&path).unwrap();
        let second = Keyring::open(&path).unwrap();
        assert_eq!(first.kid(), second.kid());
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left behind");
    }

    #[test]
    fn weak_keys_refuse_to_start() {
        // X11: short, sample and typed secrets, and files that others can read.
        let (_folder, path) = key_file(&[7; 31], 0o600);
        assert!(matches!(Keyring::open(&path), Err(KeyringError::Length { found: 31, .. })));
        let (_folder, path) = key_file(&[0; 32], 0o600);
        assert!(matches!(Keyring::open(&path), Err(KeyringError::Guessable { .. })));
        let (_folder, path) = key_file(b"change-me-change-me-change-me-00", 0o600);
        assert!(matches!(Keyring::open(&path), Err(KeyringError::Guessable { .. })));
        let random: Vec<u8> = (0..32).map(|n: u8| n.wrapping_mul(37)).collect();
        let (_folder, path) = key_file(&random, 0o640);
        assert!(matches!(Keyring::open(&path), Err(KeyringError::Readable { mode: 0o640, .. })));
        let (_folder, path) = key_file(&random, 0o600);
        assert!(Keyring::open(&path).is_ok());
    }

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
        ring.find(|key| key.kid == kid, now).is_some()
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
        // Another rotation lengthens nobody's life, and forgets who is retired.
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
        // X07: a process that read the file after one rotation needs not read it for the next one.
        let (_folder, path, ring) = file();
        let mut entropy = crate::ids::SeededEntropy::new(5);
        ring.rotate(&mut entropy, Rotation::Overlap(OVERLAP), time(1)).unwrap();
        let (other, signing) = (Keyring::open(&path).unwrap(), ring.kid());
        ring.rotate(&mut entropy, Rotation::Overlap(OVERLAP), time(2)).unwrap();
        assert_ne!(ring.kid(), signing);
        fs::remove_file(&path).unwrap();
        assert!(accepts(&other, &ring.kid(), time(2)));
        assert_eq!(other.kid(), signing, "and signs as before until it reads the file");
        // After an emergency nothing counts that stood in the file before.
        let published: Vec<String> =
            ring.accepted(time(2)).iter().map(|key| key.kid.clone()).collect();
        ring.rotate(&mut entropy, Rotation::Emergency, time(3)).unwrap();
        assert!(published.iter().all(|kid| !accepts(&ring, kid, time(3))));
    }

    #[test]
    fn what_a_key_sealed_can_be_checked_after_it_is_gone() {
        // X45: a rotation, also in an emergency, leaves old entries of the audit checkable.
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
        // X07: another process rotated; naming made-up keys does not read the disk in every call.
        let (_folder, path, ring) = file();
        let other = Keyring::open(&path).unwrap();
        let mut entropy = crate::ids::SeededEntropy::new(3);
        assert!(!accepts(&ring, "made up", time(10)));
        other.rotate(&mut entropy, Rotation::Overlap(OVERLAP), time(10)).unwrap();
        let new = other.kid();
        assert!(!accepts(&ring, &new, time(10)), "it has just looked");
        assert!(accepts(&ring, &new, time(11)));
        assert_eq!(ring.kid(), new, "and signs with it from now on");
        // A file that broke keeps the keys that are known.
        fs::write(&path, "[{\"key\":1}]").unwrap();
        assert!(!accepts(&ring, "made up", time(20)));
        assert!(accepts(&ring, &new, time(20)));
        assert!(matches!(ring.reload(), Err(KeyringError::Format { .. })));
    }

    #[test]
    fn purposes_and_scopes_have_keys_of_their_own() {
        let ring = Keyring::from_bytes([9; 32]);
        let scopes = [Scope::new("a", "bc"), Scope::new("ab", "c"), Scope::default()];
        let mut keys: Vec<[u8; 32]> = Vec::new();
        for scope in &scopes {
            keys.push(ring.current().derive("task-token", scope));
            keys.push(ring.current().derive("cursor", scope));
        }
        let distinct: std::collections::BTreeSet<_> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len());
    }
}
