//! A SQLite store that is gone while the files beside it are still there.
//!
//! The first start of a server creates the database before the key file and the anchor of the audit. If one of
//! these exists and the database does not, the database was deleted or moved. A server that created an empty store
//! there would hide the loss, so it refuses, and `verify` reports what the anchor says. This decides nothing about a
//! database that exists: [`coordinator::admit::seal`] compares that one with its anchor.

use std::path::{Path, PathBuf};

use coordinator::admit::seal::{self, SealFinding, SealReport};

use crate::exit::{CliError, Exit};

/// Refuses to create an empty store where another one was.
pub(crate) fn refuse(store: &Path) -> Result<(), CliError> {
    let left: Vec<String> = left_behind(store).map(|path| path.display().to_string()).collect();
    if left.is_empty() || !is_gone(store) {
        return Ok(());
    }
    let left = left.join(" and ");
    let message = format!(
        "{} is gone, but {left} from its time {} still there",
        store.display(),
        if left.contains(" and ") { "are" } else { "is" }
    );
    let hint = format!(
        "put the file back or `tenure restore` a backup; for an empty store, first move {left} away"
    );
    Err(CliError::new(Exit::Conflict, "store_gone", message).hint(hint))
}

/// Whether the database is missing, or was cut to nothing.
fn is_gone(store: &Path) -> bool {
    std::fs::metadata(store).map_or(true, |found| found.len() == 0)
}

fn left_behind(store: &Path) -> impl Iterator<Item = PathBuf> {
    [store.with_extension("key"), anchor(store)].into_iter().filter(|path| path.exists())
}

fn anchor(store: &Path) -> PathBuf {
    seal::anchor_path(&store.with_extension("key"))
}

pub(crate) fn has_anchor(store: &Path) -> bool {
    anchor(store).exists()
}

/// What is missing according to the anchor, if the database is gone and its anchor is not.
pub(crate) fn findings(store: &Path) -> Result<Option<SealReport>, CliError> {
    if !is_gone(store) {
        return Ok(None);
    }
    let path = anchor(store);
    let head = seal::read_anchor(&path).map_err(|error| {
        let message = format!("the anchor {} cannot be read: {error}", path.display());
        CliError::new(Exit::Failed, "file_unusable", message).hint("check its permissions")
    })?;
    Ok(head.map(|head| {
        let (last, gone) = (head.entries(), store.display());
        let what = format!(
            "{gone} is gone: entries 1 to {last} were written and are missing, and all runs with them"
        );
        SealReport { findings: vec![SealFinding { n: 1, what }], ..SealReport::default() }
    }))
}
