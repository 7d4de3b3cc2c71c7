//! One opener per file: a lock file held with `flock`, and a list of the files this process has open.
//!
//! The kernel releases the lock with the process, so a crash leaves nothing to clean up. The list is
//! needed where `flock` is emulated per process and would admit the same process twice.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rustix::fs::{FlockOperation, flock};

use crate::failure::{Failure, FailureKind};

static OPEN_HERE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Held as long as the store is open.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    _file: File,
}

impl Lock {
    /// Fails at once, naming the owner's process, if another opener has the store.
    pub(super) fn take(database: &Path) -> Result<Self, Failure> {
        let path = lock_path(database);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(|error| unusable(&path).because(error))?;
        // The list stays locked while the file is locked, so that two threads cannot both pass.
        let mut open_here = OPEN_HERE.lock().expect("nothing panics with the list in hand");
        if faultpoint::mutant(30) {
            return Ok(Self { path, _file: file });
        }
        if open_here.contains(&path) {
            return Err(taken(database, &std::process::id().to_string()));
        }
        if let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
            let mut owner = String::new();
            let read = file.read_to_string(&mut owner);
            let owner = if read.is_ok() { owner.trim() } else { "" };
            return Err(taken(database, owner).because(error));
        }
        write_pid(&mut file).map_err(|error| unusable(&path).because(error))?;
        open_here.insert(path.clone());
        Ok(Self { path, _file: file })
    }
}

impl Lock {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        OPEN_HERE.lock().expect("nothing panics with the list in hand").remove(&self.path);
    }
}

fn lock_path(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

fn write_pid(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    write!(file, "{}", std::process::id())
}

fn taken(database: &Path, owner: &str) -> Failure {
    let owner = if owner.is_empty() { "unknown" } else { owner };
    let what = format!(
        "{} is already open in process {owner}; stop that process, or name another file with --store",
        database.display()
    );
    Failure::new(FailureKind::InUse, what)
}

fn unusable(path: &Path) -> Failure {
    let what = format!("the lock file {} cannot be used; check its permissions", path.display());
    Failure::new(FailureKind::Closed, what)
}
