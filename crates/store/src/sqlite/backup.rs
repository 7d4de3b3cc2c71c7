//! A copy of a store that is in use, and a store made from such a copy.
//!
//! A backup is one snapshot of committed state in one file, on disk and checked before it gets its
//! name. It is taken beside a running server: readers do not stop the writer.
//!
//! A restore makes a *new life* of the store. What happened after the backup is forgotten here but
//! not in the world, so every lease from before must lose its authority, and every fence given from
//! now on must be larger than any that was ever given (S3-24). Both follow from a larger epoch.
//!
//! Neither looks at tasks: `verify` does that.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use verdict::Time;

use super::lock::Lock;
use super::opening::{self, APPLICATION_ID};
use super::{Options, browse, trouble};
use crate::epoch;
use crate::failure::{Failure, FailureKind};

/// What becomes of a file that is already there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    Keep,
    Replace,
}

/// What was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    pub bytes: u64,
    pub live: u64,
    pub done: u64,
    pub epoch: u32,
    /// The last commit in it: what happened later is not.
    pub last_commit_at: Option<Time>,
}

/// What was restored: the copy, and which life of the store begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    pub copied: Copied,
    pub epoch: u32,
}

/// Copies the store at `source`, which may be in use, to the file `target`.
pub fn back_up(
    source: &Path,
    target: &Path,
    existing: Existing,
    options: &Options,
) -> Result<Copied, Failure> {
    let from = open_store(source, options)?;
    refuse_existing(target, existing)?;
    refuse_same(source, target)?;
    let draft = Draft::beside(target, "partial");
    copy(&from, &draft.path)?;
    faultpoint::point!("backup.copied");
    let copied = check(&draft.path, options)?;
    faultpoint::point!("backup.checked");
    draft.publish(target, existing)?;
    faultpoint::point!("backup.named");
    Ok(copied)
}

/// Puts a backup in the place of the store at `target`, which nobody may have open.
pub fn restore(
    backup: &Path,
    target: &Path,
    existing: Existing,
    options: &Options,
) -> Result<Restored, Failure> {
    opening::create_folder(target)?;
    refuse_existing(target, existing)?;
    refuse_same(backup, target)?;
    let _lock = Lock::take(&super::absolute(target)?)?;
    let from = open_store(backup, options)?;
    let draft = Draft::beside(target, "restoring");
    copy(&from, &draft.path)?;
    faultpoint::point!("restore.copied");
    let replaced = if target.exists() { epoch_of(target, options) } else { None };
    let epoch = raise_epoch(&draft.path, replaced, options)?;
    faultpoint::point!("restore.raised");
    let copied = check(&draft.path, options)?;
    forget_log(target)?;
    faultpoint::point!("restore.log_gone");
    draft.publish(target, existing)?;
    faultpoint::point!("restore.named");
    Ok(Restored { copied, epoch })
}

/// Begins a new epoch in a store whose file was brought back by other means than [`restore`]. Nobody may have
/// it open. Returns the epoch before, and the new one.
pub fn begin_epoch(path: &Path, options: &Options) -> Result<(u32, u32), Failure> {
    let _lock = Lock::take(&super::absolute(path)?)?;
    let connection = open_store(path, options)?;
    let before = opening::header(&connection)
        .map_err(trouble::while_doing("reading the store's header"))?
        .epoch;
    drop(connection);
    Ok((before, raise_epoch(path, None, options)?))
}

/// A database of ours, open for reading, whose snapshot begins with the first read.
fn open_store(path: &Path, options: &Options) -> Result<Connection, Failure> {
    if !path.is_file() {
        let what = format!("there is no store at {}; check the path", path.display());
        return Err(Failure::new(FailureKind::Closed, what));
    }
    let connection = opening::connect_reader(path, options)?;
    opening::refuse_foreign(&connection, path)?;
    let id: i64 = connection
        .pragma_query_value(None, "application_id", |row| row.get(0))
        .map_err(|error| opening::unreadable(path, error))?;
    if id != APPLICATION_ID {
        let what = format!("{} is not a store of Tenure; check the path", path.display());
        return Err(Failure::new(FailureKind::Closed, what));
    }
    Ok(connection)
}

/// All pages in one step, hence of one snapshot; then one file without a log of its own.
fn copy(from: &Connection, target: &Path) -> Result<(), Failure> {
    create_private(target)?;
    let copied = || -> rusqlite::Result<StepResult> {
        let mut to = Connection::open(target)?;
        let step = Backup::new(from, &mut to)?.step(-1)?;
        to.pragma_update(None, "journal_mode", "DELETE")?;
        Ok(step)
    };
    match copied().map_err(trouble::while_doing("copying the store"))? {
        StepResult::Done => Ok(()),
        _ => Err(Failure::new(FailureKind::Unavailable, "the store was too busy to be copied")),
    }
}

fn create_private(path: &Path) -> Result<(), Failure> {
    let created = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    created.map(drop).map_err(|error| not_written(path, error))
}

/// Nothing is a backup before it was read: the engine's own check, and that rows belong together.
fn check(path: &Path, options: &Options) -> Result<Copied, Failure> {
    let connection = opening::connect_reader(path, options)?;
    let doing = || trouble::while_doing("checking the copy");
    let wrong = browse::integrity(&connection).map_err(doing())?;
    if let Some(first) = wrong.first() {
        let what = format!(
            "the copy of the store is damaged ({first}); run `tenure verify` on the original"
        );
        return Err(Failure::new(FailureKind::Closed, what));
    }
    let header = opening::header(&connection).map_err(doing())?;
    let count = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    let live = count("SELECT count(*) FROM live").map_err(doing())?;
    let done = count("SELECT count(*) FROM done").map_err(doing())?;
    let bytes = fs::metadata(path).map_err(|error| not_written(path, error))?.len();
    Ok(Copied {
        bytes,
        live: live.unsigned_abs(),
        done: done.unsigned_abs(),
        epoch: header.epoch,
        last_commit_at: header.last_commit_at,
    })
}

/// The epoch of a store that will be replaced; a store that cannot be read any more has none.
fn epoch_of(path: &Path, options: &Options) -> Option<u32> {
    let connection = opening::connect_reader(path, options).ok()?;
    Some(opening::header(&connection).ok()?.epoch)
}

/// Above the backup's epoch, above that of the store it replaces, and above what a restore of the
/// same backup elsewhere may have chosen before.
fn raise_epoch(path: &Path, replaced: Option<u32>, options: &Options) -> Result<u32, Failure> {
    let doing = || trouble::while_doing("raising the store's epoch");
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = opening::open_with(path, flags, options)?;
    let backup = opening::header(&connection).map_err(doing())?.epoch;
    let raised = epoch::above(&[backup, replaced.unwrap_or(0)], options.clock.wall())?;
    connection.execute("UPDATE meta SET epoch = ?1", [raised]).map_err(doing())?;
    Ok(raised)
}

/// A log that stayed behind would be folded into the restored database and destroy it.
pub(super) fn forget_log(target: &Path) -> Result<(), Failure> {
    for suffix in ["-wal", "-shm"] {
        let path = with_suffix(target, suffix);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(not_written(&path, error));
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

fn refuse_existing(target: &Path, existing: Existing) -> Result<(), Failure> {
    if existing == Existing::Keep && target.exists() {
        return Err(is_there(target));
    }
    Ok(())
}

fn is_there(target: &Path) -> Failure {
    let what = format!(
        "{} is already there; choose another path, or replace it with --force",
        target.display()
    );
    Failure::new(FailureKind::Closed, what)
}

fn refuse_same(source: &Path, target: &Path) -> Result<(), Failure> {
    match (source.canonicalize(), target.canonicalize()) {
        (Ok(source), Ok(target)) if source == target => {
            let what = format!("{} cannot be copied onto itself; name two files", source.display());
            Err(Failure::new(FailureKind::Closed, what))
        }
        _ => Ok(()),
    }
}

/// A file that gets its name only when it is whole and on disk; it vanishes if that does not come.
pub(super) struct Draft {
    pub(super) path: PathBuf,
}

impl Draft {
    pub(super) fn beside(target: &Path, what: &str) -> Draft {
        Draft { path: with_suffix(target, &format!(".{what}-{}", std::process::id())) }
    }

    pub(super) fn publish(self, target: &Path, existing: Existing) -> Result<(), Failure> {
        let flags = match existing {
            Existing::Keep => RenameFlags::NOREPLACE,
            Existing::Replace => RenameFlags::empty(),
        };
        let named = || -> io::Result<()> {
            File::open(&self.path)?.sync_all()?;
            renameat_with(CWD, &self.path, CWD, target, flags)?;
            File::open(folder_of(target))?.sync_all()
        };
        named().map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => is_there(target),
            _ => not_written(target, error),
        })
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // Published, it has another name and nothing is left to remove.
        for suffix in ["", "-journal", "-wal", "-shm", ".lock"] {
            let _ = fs::remove_file(with_suffix(&self.path, suffix));
        }
    }
}

pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

fn not_written(path: &Path, error: io::Error) -> Failure {
    let kind = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => FailureKind::Full,
        _ => FailureKind::Closed,
    };
    let what = format!(
        "{} cannot be written; check that its folder exists, is yours and has room",
        path.display()
    );
    Failure::new(kind, what).because(error)
}
