//! Whether the files that a store has open are still the ones at its path.
//!
//! A database or a log that is deleted, moved or replaced while it is open stays writable: the commits go to a file
//! that has no name any more and are lost when the process ends. Deleting the lock file lets a second process open the
//! same database. All are noticed here, by device and inode, before a batch begins and before it commits. The check
//! costs three `stat` calls, against a commit that syncs the disk.
//!
//! This reads no content and closes nothing: a store that is put back at its path is in service again.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use crate::failure::{Failure, FailureKind};

/// The files by which a store is found, as they were when it was opened.
#[derive(Debug)]
pub(super) struct InPlace {
    files: Vec<OpenedFile>,
    /// The log, which SQLite creates with the first connection and keeps while one is open.
    log: Mutex<Option<OpenedFile>>,
}

#[derive(Debug)]
struct OpenedFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl InPlace {
    /// Remembers which files these paths name now. The caller has them open.
    pub(super) fn of(paths: &[&Path]) -> Result<Self, Failure> {
        let files = paths.iter().map(|path| OpenedFile::at(path)).collect::<Result<_, _>>()?;
        Ok(Self { files, log: Mutex::default() })
    }

    /// Remembers nothing, for a store whose files are not files of this machine.
    pub(super) fn unchecked() -> Self {
        Self { files: Vec::new(), log: Mutex::default() }
    }

    /// Remembers the log of the writer's connection, for as long as that is open.
    pub(super) fn follow_log(&self, path: &Path) -> Result<(), Failure> {
        if !self.files.is_empty() {
            *self.log() = Some(OpenedFile::at(path)?);
        }
        Ok(())
    }

    /// Forgets the log: SQLite deletes it with the last connection.
    pub(super) fn forget_log(&self) {
        *self.log() = None;
    }

    pub(super) fn check(&self) -> Result<(), Failure> {
        self.files.iter().try_for_each(OpenedFile::check)?;
        self.log().as_ref().map_or(Ok(()), OpenedFile::check)
    }

    fn log(&self) -> MutexGuard<'_, Option<OpenedFile>> {
        self.log.lock().expect("no code panics while it looks at the log")
    }
}

impl OpenedFile {
    fn at(path: &Path) -> Result<Self, Failure> {
        let found = std::fs::metadata(path).map_err(|error| gone(path).because(error))?;
        Ok(Self { path: path.to_owned(), device: found.dev(), inode: found.ino() })
    }

    fn check(&self) -> Result<(), Failure> {
        match std::fs::metadata(&self.path) {
            Ok(found) if self.is(&found) => Ok(()),
            Ok(_) => Err(replaced(&self.path)),
            Err(error) => Err(gone(&self.path).because(error)),
        }
    }

    fn is(&self, found: &Metadata) -> bool {
        (found.dev(), found.ino()) == (self.device, self.inode)
    }
}

fn gone(path: &Path) -> Failure {
    let what = format!(
        "{} was deleted or moved while the store was open; put the same file back, \
         or stop this process and restore a backup",
        path.display()
    );
    Failure::new(FailureKind::Missing, what)
}

fn replaced(path: &Path) -> Failure {
    let what = format!(
        "another file took the place of {} while the store was open; put the old file back, \
         or stop this process and start it on the new file",
        path.display()
    );
    Failure::new(FailureKind::Missing, what)
}
