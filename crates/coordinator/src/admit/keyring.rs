//! The master key: 32 random bytes in a file of the operator's, from which every other key is
//! derived. It never leaves this module.
//!
//! There is no built-in key and no way to go without one: a missing file is filled with fresh
//! randomness, and a file that others can read, or that somebody typed, is refused.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use verdict::Scope;

use super::hex;
use crate::ids::{Entropy, OsEntropy};

pub(super) type HmacSha256 = Hmac<Sha256>;

/// As long as the output of the hash it keys.
const KEY_BYTES: usize = 32;

/// Enough to tell keys apart in a header; not a secret.
const KID_BYTES: usize = 8;

/// The permission bits of group and others.
const OTHERS: u32 = 0o077;

#[derive(Clone)]
pub struct Keyring {
    kid: String,
    master: [u8; KEY_BYTES],
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
    #[error("the key file {path} may be read by others (mode {mode:o}); run `chmod 600 {path}`")]
    Readable { path: PathBuf, mode: u32 },
    #[error(
        "the key file {path} holds typed text or a sample, not random bytes; remove it to get a new key"
    )]
    Guessable { path: PathBuf },
}

impl Keyring {
    /// Reads the key of `path`, or makes one there.
    pub fn open(path: &Path) -> Result<Self, KeyringError> {
        let failed = |source| KeyringError::Io { path: path.to_owned(), source };
        if !path.try_exists().map_err(failed)? {
            create(path).map_err(failed)?;
        }
        let mut file = File::open(path).map_err(failed)?;
        let mode = file.metadata().map_err(failed)?.mode() & 0o777;
        if mode & OTHERS != 0 {
            return Err(KeyringError::Readable { path: path.to_owned(), mode });
        }
        let mut bytes = Vec::new();
        // One byte more than a key is enough to know that it is none.
        (&mut file).take(KEY_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
        let found = bytes.len();
        let master = <[u8; KEY_BYTES]>::try_from(bytes)
            .map_err(|_| KeyringError::Length { path: path.to_owned(), found })?;
        if is_guessable(&master) {
            return Err(KeyringError::Guessable { path: path.to_owned() });
        }
        Ok(Self::from_bytes(master))
    }

    pub fn from_bytes(master: [u8; KEY_BYTES]) -> Self {
        let digest = Sha256::new().chain_update(b"tenure kid").chain_update(master).finalize();
        Self { kid: hex(&digest[..KID_BYTES]), master }
    }

    /// The public name of the key in use.
    pub fn kid(&self) -> &str {
        &self.kid
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

impl std::fmt::Debug for Keyring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keyring({})", self.kid)
    }
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

    #[test]
    fn purposes_and_scopes_have_keys_of_their_own() {
        let ring = Keyring::from_bytes([9; 32]);
        let scopes = [Scope::new("a", "bc"), Scope::new("ab", "c"), Scope::default()];
        let mut keys: Vec<[u8; 32]> = Vec::new();
        for scope in &scopes {
            keys.push(ring.derive("task-token", scope));
            keys.push(ring.derive("cursor", scope));
        }
        let distinct: std::collections::BTreeSet<_> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len());
    }
}
