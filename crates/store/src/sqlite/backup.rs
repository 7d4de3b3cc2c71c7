//! Backup and restore: a copy of a store that is in use, and a store made from such a copy.
//!
//! A backup is one snapshot of committed state in one file, synced and checked before it gets its
//! name. It runs beside a live server: readers do not block the writer.
//!
//! A restore begins a *new epoch* of the store. What happened after the backup is missing here but not
//! in the outside world, so every earlier lease must lose its authority, and every new fence must be
//! larger than all fences before it (S3-24). Both follow from a larger epoch.
//!
//! Neither checks tasks: `verify` does that.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use verdict::Time;

use super::lock::Lock;
use super::opening::{self, APPLICATION_ID};
use super::{Options, errors, integrity};
use crate::epoch;
use crate::failure::{Failure, FailureKind};

/// The files that SQLite keeps beside a database. Without them, or with those of another database, the data changes.
const LOGS: [&str; 3] = ["-wal", "-journal", "-shm"];

/// Suffix for the log of a replaced store, until the new store is in its place.
const ASIDE: &str = ".replaced";

/// What to do with a file that already exists.
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
    /// The last commit in the copy: later ones are missing.
    pub last_commit_at: Option<Time>,
}

/// What was restored: the copy, and the epoch that begins.
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

/// Replaces the store at `target` with a backup. No process may have that store open.
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
    let replacing = Replacing { draft, target, existing, options };
    STEPS.iter().try_for_each(|step| step(&replacing))?;
    Ok(Restored { copied, epoch })
}

/// A checked copy that replaces a store.
struct Replacing<'a> {
    draft: Draft,
    target: &'a Path,
    existing: Existing,
    options: &'a Options,
}

type Step = fn(&Replacing) -> Result<(), Failure>;

/// A process that ends between two steps leaves the old store with every acknowledged commit, or the new store.
const STEPS: [Step; 4] = [fold_log, set_log_aside, publish, forget_aside];

/// Begins a new epoch in a store whose file was recovered by other means than [`restore`]. No process may have
/// it open. Returns the old epoch and the new one.
pub fn begin_epoch(path: &Path, options: &Options) -> Result<(u32, u32), Failure> {
    let _lock = Lock::take(&super::absolute(path)?)?;
    let connection = open_store(path, options)?;
    let before = opening::header(&connection)
        .map_err(errors::while_doing("reading the store's header"))?
        .epoch;
    drop(connection);
    Ok((before, raise_epoch(path, None, options)?))
}

/// Opens a Tenure database for reading; its snapshot begins with the first read.
fn open_store(path: &Path, options: &Options) -> Result<Connection, Failure> {
    if !path.is_file() {
        let what = format!("there is no store at {}; check the path", path.display());
        return Err(Failure::new(FailureKind::Closed, what));
    }
    let connection = opening::connect_reader(path, options)?;
    opening::refuse_foreign(&connection, path, &opening::migrations(options)?)?;
    let id: i64 = connection
        .pragma_query_value(None, "application_id", |row| row.get(0))
        .map_err(|error| opening::unreadable(path, error))?;
    if id != APPLICATION_ID {
        let what = format!("{} is not a store of Tenure; check the path", path.display());
        return Err(Failure::new(FailureKind::Closed, what));
    }
    Ok(connection)
}

/// Copies all pages in one step, hence from one snapshot, into one file without a log.
fn copy(from: &Connection, target: &Path) -> Result<(), Failure> {
    create_private(target)?;
    let copied = || -> rusqlite::Result<StepResult> {
        let mut to = Connection::open(target)?;
        let step = Backup::new(from, &mut to)?.step(-1)?;
        to.pragma_update(None, "journal_mode", "DELETE")?;
        Ok(step)
    };
    match copied().map_err(errors::while_doing("copying the store"))? {
        StepResult::Done => Ok(()),
        _ => Err(Failure::new(FailureKind::Unavailable, "the store was too busy to be copied")),
    }
}

fn create_private(path: &Path) -> Result<(), Failure> {
    let created = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    created.map(drop).map_err(|error| not_written(path, error))
}

/// Checks a copy before it counts as a backup: the engine's own check, and that rows belong together.
fn check(path: &Path, options: &Options) -> Result<Copied, Failure> {
    let connection = opening::connect_reader(path, options)?;
    let doing = || errors::while_doing("checking the copy");
    let wrong = integrity::integrity(&connection).map_err(doing())?;
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

/// The epoch of the store that will be replaced; `None` for a store that can no longer be read.
fn epoch_of(path: &Path, options: &Options) -> Option<u32> {
    let connection = opening::connect_reader(path, options).ok()?;
    Some(opening::header(&connection).ok()?.epoch)
}

/// Raises the epoch above the backup's, above that of the store it replaces, and above what a restore of
/// the same backup elsewhere may have chosen.
fn raise_epoch(path: &Path, replaced: Option<u32>, options: &Options) -> Result<u32, Failure> {
    let doing = || errors::while_doing("raising the store's epoch");
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = opening::open_with(path, flags, options)?;
    let backup = opening::header(&connection).map_err(doing())?.epoch;
    let raised = epoch::above(&[backup, replaced.unwrap_or(0)], options.clock.wall())?;
    connection.execute("UPDATE meta SET epoch = ?1", [raised]).map_err(doing())?;
    Ok(raised)
}

/// Checkpoints the log of the old store into its file. From here on the file alone is the old store, so its log may
/// be moved before the file is replaced. Does nothing if there is no store, or a damaged one.
fn fold_log(replacing: &Replacing) -> Result<(), Failure> {
    let Replacing { target, options, .. } = *replacing;
    if target.exists() {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = opening::open_with(target, flags, options)?;
        // If the file has a rollback journal instead, the first read makes SQLite roll the unfinished transaction back.
        match connection.query_row("SELECT count(*) FROM sqlite_master", [], |_| Ok(())) {
            Ok(()) => opening::checkpoint(&connection)?,
            // A damaged database cannot be checkpointed, and restoring over one is a common reason to restore.
            Err(error) if is_ruined(&error) => {}
            Err(error) => return Err(opening::unreadable(target, error)),
        }
    }
    faultpoint::point!("restore.log_folded");
    Ok(())
}

fn is_ruined(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt))
}

/// Moves the old log aside: under its name SQLite would replay it into the restored database and destroy that. It is
/// renamed, not removed: the log of a damaged store may be its best remaining data.
fn set_log_aside(replacing: &Replacing) -> Result<(), Failure> {
    let target = replacing.target;
    for suffix in LOGS {
        let path = with_suffix(target, suffix);
        let aside = with_suffix(&path, ASIDE);
        unless_missing(fs::rename(&path, &aside)).map_err(|error| not_written(&path, error))?;
    }
    // Synced before the new file gets its name: a power cut must not leave the new file with the old log.
    sync_folder(target).map_err(|error| not_written(target, error))?;
    faultpoint::point!("restore.log_gone");
    Ok(())
}

fn publish(replacing: &Replacing) -> Result<(), Failure> {
    replacing.draft.publish(replacing.target, replacing.existing)?;
    faultpoint::point!("restore.named");
    Ok(())
}

fn forget_aside(replacing: &Replacing) -> Result<(), Failure> {
    remove(replacing.target, &LOGS.map(|suffix| format!("{suffix}{ASIDE}")))
}

/// Removes the log of a file that no longer needs one.
pub(super) fn forget_log(target: &Path) -> Result<(), Failure> {
    remove(target, &LOGS.map(str::to_owned))
}

fn remove(target: &Path, suffixes: &[String]) -> Result<(), Failure> {
    for suffix in suffixes {
        let path = with_suffix(target, suffix);
        unless_missing(fs::remove_file(&path)).map_err(|error| not_written(&path, error))?;
    }
    Ok(())
}

fn unless_missing(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

fn sync_folder(of: &Path) -> io::Result<()> {
    File::open(folder_of(of))?.sync_all()
}

fn refuse_existing(target: &Path, existing: Existing) -> Result<(), Failure> {
    if existing == Existing::Keep && target.exists() {
        return Err(is_there(target));
    }
    Ok(())
}

fn is_there(target: &Path) -> Failure {
    let what = format!(
        "{} already exists; choose another path, or replace it with --force",
        target.display()
    );
    Failure::new(FailureKind::Exists, what)
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

/// A file that gets its name only when it is complete and synced; otherwise it is removed.
pub(super) struct Draft {
    pub(super) path: PathBuf,
}

impl Draft {
    pub(super) fn beside(target: &Path, what: &str) -> Draft {
        Draft { path: with_suffix(target, &format!(".{what}-{}", std::process::id())) }
    }

    pub(super) fn publish(&self, target: &Path, existing: Existing) -> Result<(), Failure> {
        let flags = match existing {
            Existing::Keep => RenameFlags::NOREPLACE,
            Existing::Replace => RenameFlags::empty(),
        };
        let named = || -> io::Result<()> {
            File::open(&self.path)?.sync_all()?;
            renameat_with(CWD, &self.path, CWD, target, flags)?;
            sync_folder(target)
        };
        named().map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => is_there(target),
            _ => not_written(target, error),
        })
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // After publishing, the draft has another name and nothing is left to remove.
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
        "{} cannot be written; check that its folder exists, belongs to you and has free space",
        path.display()
    );
    Failure::new(kind, what).because(error)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::clock::SystemClock;
    use crate::sqlite::SqliteStore;

    fn options() -> Options {
        Options::new(Arc::new(SystemClock::start()))
    }

    /// A store whose process was killed: its last commit, which says `word`, is in the log but not in the file.
    fn killed_store(path: &Path, word: &str) {
        drop(SqliteStore::open(path, options()).unwrap());
        let running = path.with_extension("running");
        fs::rename(path, &running).unwrap();
        let connection = opening::connect(&running, &options()).unwrap();
        let said = format!("CREATE TABLE said (word TEXT); INSERT INTO said VALUES ('{word}')");
        connection.execute_batch(&said).unwrap();
        fs::copy(with_suffix(&running, "-wal"), with_suffix(path, "-wal")).unwrap();
        fs::copy(&running, path).unwrap();
    }

    /// What the next opener reads from the file.
    fn said(path: &Path) -> String {
        let connection = opening::connect(path, &options()).unwrap();
        let wrong = integrity::integrity(&connection).unwrap();
        assert!(wrong.is_empty(), "{wrong:?}");
        connection.query_row("SELECT word FROM said", [], |row| row.get(0)).unwrap()
    }

    /// Runs the first steps, then the process dies.
    fn killed_after(steps: usize, backup: &Path, target: &Path) {
        let options = options();
        let draft = Draft::beside(target, "restoring");
        copy(&open_store(backup, &options).unwrap(), &draft.path).unwrap();
        let replacing = Replacing { draft, target, existing: Existing::Replace, options: &options };
        STEPS[..steps].iter().try_for_each(|step| step(&replacing)).unwrap();
        std::mem::forget(replacing);
    }

    #[test]
    fn a_restore_that_is_cut_short_leaves_the_old_store_whole_or_the_new_one() {
        // C1: the last acknowledged commit of the old store is only in its log.
        for steps in 0..=STEPS.len() {
            let folder = tempfile::tempdir().unwrap();
            let (target, backup) = (folder.path().join("tenure.db"), folder.path().join("copy.db"));
            killed_store(&target, "old");
            killed_store(&backup, "new");
            killed_after(steps, &backup, &target);
            let expected = if steps < 3 { "old" } else { "new" };
            assert_eq!(said(&target), expected, "after {steps} steps");
            // A second try succeeds and leaves no files of the first one.
            restore(&backup, &target, Existing::Replace, &options()).unwrap();
            assert_eq!(said(&target), "new", "after {steps} steps and a second try");
            let aside = with_suffix(&target, &format!("-wal{ASIDE}"));
            assert!(!aside.exists(), "after {steps} steps");
        }
    }

    #[test]
    fn the_log_of_a_damaged_store_goes_only_when_the_new_store_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let (target, backup) = (folder.path().join("tenure.db"), folder.path().join("copy.db"));
        killed_store(&target, "old");
        killed_store(&backup, "new");
        let log = fs::read(with_suffix(&target, "-wal")).unwrap();
        fs::write(&target, "this was a store once").unwrap();
        killed_after(2, &backup, &target);
        let aside = with_suffix(&target, &format!("-wal{ASIDE}"));
        assert_eq!(fs::read(&aside).unwrap(), log);
        restore(&backup, &target, Existing::Replace, &options()).unwrap();
        assert_eq!(said(&target), "new");
        assert!(!aside.exists());
    }
}
