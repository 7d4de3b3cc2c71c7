//! A file that becomes a store when the copy is complete.
//!
//! Until then it has another name beside its final one, so that no process takes it for a store. A failed
//! copy removes it; the leftover of a killed process is recognised by that name.

use std::path::{Path, PathBuf};

use rusqlite::OpenFlags;

use super::backup::{Draft, Existing, forget_log, with_suffix};
use super::{Durability, Options, SqliteStore, errors, opening};
use crate::failure::{Failure, FailureKind};
use crate::moving::{CopyTarget, MoveFailure};

/// The suffix of an unfinished copy.
const UNFINISHED: &str = ".arriving";

/// A store that is being written.
pub struct SqliteCopyTarget {
    /// Before the draft, so that the file is closed before it is removed.
    store: SqliteStore,
    draft: Draft,
    target: PathBuf,
    options: Options,
}

/// Checks whether a store could be created at this path. Changes nothing.
pub fn inspect(target: &Path) -> Result<(), MoveFailure> {
    let place = target.display().to_string();
    if target.exists() {
        return Err(MoveFailure::Occupied { place, what: "other data".to_owned() });
    }
    if with_suffix(target, UNFINISHED).exists() {
        return Err(MoveFailure::Interrupted { place });
    }
    Ok(())
}

/// Refuses a path with an unfinished copy, so that an empty store is not created and taken for the copied one.
pub fn refuse_unfinished(path: &Path) -> Result<(), Failure> {
    if path.exists() || !with_suffix(path, UNFINISHED).exists() {
        return Ok(());
    }
    let what = format!(
        "{} is the destination of a copy that was not finished; run the same `tenure migrate` again with --discard",
        path.display()
    );
    Err(Failure::new(FailureKind::Unfinished, what))
}

/// Removes an unfinished copy for this path. Fails while a copy is running.
pub fn discard(target: &Path, options: &Options) -> Result<(), MoveFailure> {
    let path = with_suffix(target, UNFINISHED);
    if !path.exists() {
        return Ok(());
    }
    // Opening takes the lock, which a running copy holds.
    drop(SqliteStore::open(&path, options.clone()).map_err(MoveFailure::Destination)?);
    drop(Draft { path });
    Ok(())
}

impl SqliteCopyTarget {
    pub fn begin(target: &Path, options: &Options) -> Result<Self, MoveFailure> {
        inspect(target)?;
        let draft = Draft { path: with_suffix(target, UNFINISHED) };
        // The whole file is synced before it gets its name, and is not a store before.
        let relaxed = Options { durability: Durability::Relaxed, ..options.clone() };
        let store = SqliteStore::open(&draft.path, relaxed).map_err(MoveFailure::Destination)?;
        Ok(Self { store, draft, target: target.to_owned(), options: options.clone() })
    }
}

impl CopyTarget for SqliteCopyTarget {
    type Store = SqliteStore;

    fn store(&self) -> &SqliteStore {
        &self.store
    }

    async fn finish(self, epoch: u32) -> Result<(), MoveFailure> {
        let Self { store, draft, target, options } = self;
        drop(store);
        let path = draft.path.clone();
        seal(&path, epoch, &options).map_err(MoveFailure::Destination)?;
        forget_log(&path).map_err(MoveFailure::Destination)?;
        faultpoint::point!("move.sealed");
        draft.publish(&target, Existing::Keep).map_err(MoveFailure::Destination)?;
        Ok(())
    }
}

/// Turns the copy into one file without a log, in its new epoch.
fn seal(path: &Path, epoch: u32, options: &Options) -> Result<(), Failure> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = opening::open_with(path, flags, options)?;
    let sealed = || -> rusqlite::Result<()> {
        connection.pragma_update(None, "journal_mode", "DELETE")?;
        connection.execute("UPDATE meta SET epoch = ?1", [epoch]).map(drop)
    };
    sealed().map_err(errors::while_doing("raising the store's epoch"))
}
