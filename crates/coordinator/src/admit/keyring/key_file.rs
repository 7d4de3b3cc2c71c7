//! The text form of signing keys, in the operator's file or, sealed, in a store.
//!
//! A file holds 32 raw random bytes or, once there has been more than one key, a list. It is created and replaced
//! atomically, and refused if other users could read it or it looks typed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use edge::{KEY_BYTES, KID_BYTES, SigningKey, hex};
use serde::{Deserialize, Serialize};
use verdict::Time;

use super::error::KeyringError;
use super::sealing_key::SealingKey;
use crate::ids::{Entropy, OsEntropy};

/// Longer files are no key files.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// The permission bits of group and others.
const OTHERS: u32 = 0o077;

/// One key in the file, once there has been more than one.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct KeyLine {
    key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    not_after_ms: Option<i64>,
    /// Set if this is no signing key, but the sealing key of the signing key with this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seals_of: Option<String>,
    /// Set if nothing is signed with this key yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next: Option<bool>,
}

/// The keys of a file.
pub(in crate::admit) struct Contents {
    pub(in crate::admit) keys: Vec<Arc<SigningKey>>,
    pub(super) next: Option<Arc<SigningKey>>,
    pub(super) sealing: Vec<SealingKey>,
}

pub(in crate::admit) fn of_one_key(master: [u8; KEY_BYTES]) -> Contents {
    let keys = vec![Arc::new(SigningKey::new(master, None))];
    Contents { keys, next: None, sealing: Vec::new() }
}

pub(super) fn fresh(entropy: &mut dyn Entropy) -> Arc<SigningKey> {
    let mut master = [0; KEY_BYTES];
    entropy.fill(&mut master);
    Arc::new(SigningKey::new(master, None))
}

/// Adds the key that the next rotation will sign with.
pub(in crate::admit) fn with_next(contents: Contents, entropy: &mut dyn Entropy) -> Contents {
    let next = contents.next.unwrap_or_else(|| fresh(entropy));
    Contents { next: Some(next), ..contents }
}

pub(in crate::admit) fn read_or_create(path: &Path) -> Result<Contents, KeyringError> {
    let failed = |source| KeyringError::Io { path: path.to_owned(), source };
    if !path.try_exists().map_err(failed)? {
        create(path).map_err(failed)?;
    }
    read(path)
}

/// Parses a list that [`text`] wrote.
pub(in crate::admit) fn contents(text: &[u8]) -> Option<Contents> {
    listed(Path::new(""), text).ok().map(Contents::from)
}

/// Reads the keys of a file: 32 raw bytes, or a list with the expiries of the older ones.
pub(super) fn read(path: &Path) -> Result<Contents, KeyringError> {
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

type ParsedKey = ([u8; KEY_BYTES], Option<Time>);

#[derive(Default)]
struct Listed {
    keys: Vec<ParsedKey>,
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
    let lines: Vec<KeyLine> = serde_json::from_slice(bytes).map_err(|_| format())?;
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

/// The text form of the keys.
pub(in crate::admit) fn text(contents: &Contents) -> Vec<u8> {
    let Contents { keys, next, sealing } = contents;
    let line = |key: &[u8; KEY_BYTES]| KeyLine {
        key: hex(key),
        not_after_ms: None,
        seals_of: None,
        next: None,
    };
    let signing = keys.iter().map(|key| KeyLine {
        not_after_ms: key.not_after().map(Time::millis),
        ..line(key.master())
    });
    let next = next.iter().map(|key| KeyLine { next: Some(true), ..line(key.master()) });
    let sealing =
        sealing.iter().map(|key| KeyLine { seals_of: Some(key.kid.clone()), ..line(&key.key) });
    let lines: Vec<KeyLine> = signing.chain(next).chain(sealing).collect();
    serde_json::to_vec_pretty(&lines).expect("keys are text and numbers")
}

/// Writes a draft and renames it, so that a reader finds the old file or the new one and never half of one.
pub(in crate::admit) fn write(path: &Path, contents: &Contents) -> io::Result<()> {
    let text = text(contents);
    let draft = path.with_extension(format!("{}.new", contents.keys[0].kid()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    let written = file.write_all(&text).and_then(|()| file.sync_all());
    if let Err(error) = written.and_then(|()| fs::rename(&draft, path)) {
        // The returned error matters; a draft that remains is only clutter.
        let _ = fs::remove_file(&draft);
        return Err(error);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Random bytes are never all equal, and all 32 are printable once in 10^13 keys.
fn is_guessable(key: &[u8; KEY_BYTES]) -> bool {
    let printable = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    key.iter().all(|byte| *byte == key[0]) || key.iter().all(printable)
}

/// Writes a draft and links it into place, so that no reader sees half a key, and two concurrent creators agree on one.
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
    use std::path::PathBuf;

    use super::*;
    use crate::admit::Keyring;

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
        // X11: short, sample and typed secrets, and files that other users can read.
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
}
