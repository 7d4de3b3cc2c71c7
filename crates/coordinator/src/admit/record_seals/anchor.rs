//! The anchor of the chains of record seals: a file beside the key file with the newest value of each tenant's chain.
//!
//! It is written after a seal is durable, so it never names a seal that the store does not hold, unless the store lost it.
//! A line that names a later seal than the store has is evidence: it is kept until an operator removes the file, and
//! `tenure prove` reports it. One line for each tenant with ended tasks: number, value of the chain, name of the tenant.
//! Anyone may copy the file; it holds no secret.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use store::prove::AnchoredSeal;
use verdict::{Digest, Name};

/// The newest seal of each tenant, as the file names it.
pub type AnchoredSeals = BTreeMap<Name, AnchoredSeal>;

/// The anchor's path, beside the key file.
pub fn path(keyring_path: &Path) -> PathBuf {
    keyring_path.with_extension("seals")
}

/// What the file says; nothing if there is none.
pub fn read(path: &Path) -> io::Result<AnchoredSeals> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(error),
    };
    let broken = || io::Error::new(io::ErrorKind::InvalidData, "it is not an anchor of seals");
    text.lines().map(|line| parsed(line).ok_or_else(broken)).collect()
}

fn parsed(line: &str) -> Option<(Name, AnchoredSeal)> {
    let (n, rest) = line.split_once(' ')?;
    let (chain, tenant) = rest.split_once(' ')?;
    Some((tenant.into(), AnchoredSeal { n: n.parse().ok()?, chain: Digest::parse(chain)? }))
}

pub(super) struct RecordAnchor {
    path: PathBuf,
}

impl RecordAnchor {
    pub(super) fn open(path: PathBuf) -> Self {
        Self { path }
    }

    /// Records the new end of a tenant's chain, unless the file names a later one.
    pub(super) fn follow(&mut self, tenant: &Name, n: u64, chain: Digest) {
        if let Err(error) = self.write(tenant, AnchoredSeal { n, chain }) {
            tracing::warn!(%error, "cannot write the anchor of record seals beside the key file");
        }
    }

    /// Coordinators on one machine share the file, so it is read again before each change.
    fn write(&self, tenant: &Name, newest: AnchoredSeal) -> io::Result<()> {
        let mut seals = read(&self.path)?;
        if seals.get(tenant).is_some_and(|known| known.n >= newest.n) {
            return Ok(());
        }
        seals.insert(tenant.clone(), newest);
        let draft = self.path.with_extension(format!("seals.{}.new", std::process::id()));
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        for (tenant, AnchoredSeal { n, chain }) in &seals {
            writeln!(file, "{n} {chain} {tenant}")?;
        }
        fs::rename(&draft, &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_anchor_only_grows_and_keeps_its_tenants_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = path(&folder.path().join("tenure.key"));
        assert_eq!(read(&path).unwrap(), BTreeMap::new());
        let mut anchor = RecordAnchor::open(path.clone());
        let chain = |n: u64| Digest::of(&[&n.to_be_bytes()]);
        for (tenant, n) in [("acme", 1), ("a b", 7), ("acme", 2), ("acme", 1)] {
            anchor.follow(&tenant.into(), n, chain(n));
        }
        let seal = |n| AnchoredSeal { n, chain: chain(n) };
        let expected = [("a b".into(), seal(7)), ("acme".into(), seal(2))];
        assert_eq!(read(&path).unwrap(), BTreeMap::from(expected));
        fs::write(&path, "1 nonsense acme\n").unwrap();
        assert!(read(&path).is_err());
    }
}
