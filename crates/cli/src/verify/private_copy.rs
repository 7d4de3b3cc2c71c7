//! A private copy of a store that lies in a folder where nothing can be written, such as a backup on a read-only disk.
//!
//! Opening a store takes a lock file, recovers the log and may migrate old formats: all of that needs a folder that can be
//! written. A read-only store is therefore copied to the temporary folder, and the copy is checked. Other users
//! cannot read the copy, and it is removed afterwards.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use store::sqlite::backup::Existing;

use crate::exit::{CliError, Exit};
use crate::output;

pub(crate) struct PrivateCopy {
    folder: PathBuf,
    file: PathBuf,
}

impl PrivateCopy {
    /// Copies the store if it cannot be opened where it is.
    pub(crate) fn of_read_only(store: &Path) -> Result<Option<Self>, CliError> {
        let folder = store.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let is_writable = |path: &Path| access(path, Access::WRITE_OK).is_ok();
        if is_writable(folder) && is_writable(store) {
            return Ok(None);
        }
        let copied = Self::make(store).map_err(|error| {
            let message = format!("{} is read-only and cannot be copied: {error}", store.display());
            CliError::new(Exit::Failed, "file_unusable", message)
                .hint("make it readable, and name a temporary folder with enough space in TMPDIR")
        })?;
        let place = copied.folder.display();
        output::note(format_args!("{} is read-only; checking a copy in {place}", store.display()));
        Ok(Some(copied))
    }

    /// Copies a file that must stay as it is.
    pub(crate) fn of(store: &Path) -> Result<Self, CliError> {
        Self::make(store).map_err(|error| {
            let message = format!("{} cannot be copied: {error}", store.display());
            CliError::new(Exit::Failed, "file_unusable", message)
                .hint("make it readable, and name a temporary folder with enough space in TMPDIR")
        })
    }

    /// One snapshot of a store that a server uses.
    pub(crate) fn snapshot(store: &Path) -> Result<Self, CliError> {
        let copy = Self::empty().map_err(|error| {
            let message = format!("a temporary folder cannot be created: {error}");
            CliError::new(Exit::Failed, "file_unusable", message).hint("name another one in TMPDIR")
        })?;
        let options = crate::backup::options();
        store::sqlite::backup::back_up(store, &copy.file, Existing::Keep, &options)
            .map_err(|failure| crate::serve::store_error(&failure))?;
        Ok(copy)
    }

    fn empty() -> io::Result<Self> {
        let folder = std::env::temp_dir().join(format!("tenure-verify-{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&folder)?;
        Ok(Self { file: folder.join("tenure.db"), folder })
    }

    fn make(store: &Path) -> io::Result<Self> {
        let copy = Self::empty()?;
        copy_writable(store, &copy.file)?;
        let log = with_suffix(store, "-wal");
        if log.exists() {
            copy_writable(&log, &with_suffix(&copy.file, "-wal"))?;
        }
        Ok(copy)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.file
    }
}

impl Drop for PrivateCopy {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            output::note(format_args!("cannot remove {}: {error}", self.folder.display()));
        }
    }
}

/// A copy has the permissions of its source, which is read-only.
fn copy_writable(from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from, to)?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o600))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
