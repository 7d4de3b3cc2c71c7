//! The anchor: a file beside the key file that holds the number and the seal of the newest entry of the audit.
//!
//! It is written after each entry is durable, so it never names an entry that its log does not hold. If it does, the
//! log lost entries: the database was deleted, or replaced by an older or another one. Such an anchor is the only
//! evidence, and it is never overwritten: an operator removes it on purpose. An empty log beside an anchor is refused
//! altogether, because nothing of the old store is left in it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use edge::hex;
use store::{AuditFilter, Browse, Failure, FailureKind, Seal};

use super::{Head, end_of};

/// The anchor of an open log.
#[derive(Default)]
pub(super) struct Anchor {
    path: PathBuf,
    /// Whether it names an entry that the log does not hold.
    is_evidence: bool,
}

impl Anchor {
    /// Compares the anchor with the log, which ends at `head`.
    pub(super) async fn open<B: Browse>(
        browse: &B,
        path: PathBuf,
        head: Head,
    ) -> Result<Self, Failure> {
        // An anchor that cannot be read proves nothing; `verify` reports it until it is written again.
        let Ok(Some(anchor)) = read_anchor(&path) else {
            return Ok(Self { path, is_evidence: false });
        };
        // Another coordinator may have written the first entry since the end of the log was read.
        if head.n == 0 && end_of(browse).await?.n == 0 {
            return Err(lost(&path, anchor.n));
        }
        let is_evidence = !is_anchored(browse, &path).await?;
        if is_evidence {
            tracing::error!(
                anchor = %path.display(),
                entry = anchor.n,
                "the audit does not hold the entry that its anchor names: entries are missing or were exchanged; \
                 run `tenure audit verify`, and remove the anchor once you know why"
            );
        }
        Ok(Self { path, is_evidence })
    }

    /// Records the new end of the log.
    pub(super) fn follow(&self, head: Head) {
        if self.is_evidence {
            return;
        }
        if let Err(error) = write_anchor(&self.path, head) {
            tracing::warn!(%error, "cannot write the anchor of the audit beside the key file");
        }
    }
}

fn lost(path: &Path, entries: u64) -> Failure {
    let what = format!(
        "the store is empty, but {} says that its audit held {entries} entries; restore a backup, \
         or remove that file if the store is meant to be empty",
        path.display()
    );
    Failure::new(FailureKind::Closed, what)
}

/// The anchor's path, beside the key file.
pub fn anchor_path(keyring_path: &Path) -> PathBuf {
    keyring_path.with_extension("anchor")
}

fn write_anchor(path: &Path, head: Head) -> io::Result<()> {
    let Head { n, seal: Some(seal) } = head else { return Ok(()) };
    // Coordinators on one machine share the file, and each renames only its own draft.
    let draft = path.with_extension(format!("anchor.{}.new", std::process::id()));
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    writeln!(file, "{n} {}", hex(&seal.0))?;
    fs::rename(&draft, path)
}

/// The end of the log according to the anchor; `None` if there is no anchor.
pub fn read_anchor(path: &Path) -> io::Result<Option<Head>> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let parsed = text.trim().split_once(' ').and_then(|(n, seal)| {
        let seal: Option<Vec<u8>> = (0..Seal::BYTES)
            .map(|at| u8::from_str_radix(seal.get(2 * at..2 * at + 2)?, 16).ok())
            .collect();
        Some(Head { n: n.parse().ok()?, seal: Some(Seal(seal?.try_into().ok()?)) })
    });
    let broken = || io::Error::new(io::ErrorKind::InvalidData, "it is not an anchor");
    parsed.map(Some).ok_or_else(broken)
}

/// Whether the anchor names an entry of this log, and not of another store's.
pub(in crate::admit) async fn is_anchored<B: Browse>(
    browse: &B,
    path: &Path,
) -> Result<bool, Failure> {
    let Ok(Some(Head { n, seal })) = read_anchor(path) else { return Ok(false) };
    let before = Some(n.saturating_add(1));
    let page = browse.audit(&AuditFilter { limit: 1, before, ..AuditFilter::default() }).await?;
    Ok(page.first().is_some_and(|entry| entry.n == n && entry.audit.seal == seal))
}
