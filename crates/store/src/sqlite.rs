//! The embedded engine: one SQLite file, one writer, a few readers.
//!
//! Live and ended tasks are in separate tables. The table of ended tasks is insert-only, and triggers
//! enforce that. The order of ready, due and expiring tasks is in memory ([`live_index`]), rebuilt from
//! the table of live tasks when the writer is opened. Every acknowledged commit has been synced to disk.
//!
//! The engine decides nothing: states, times and positions come with the tasks that are saved.

mod administration;
pub mod backup;
mod batch;
mod browse;
mod checkpoints;
pub mod copy_target;
mod created_tasks;
mod errors;
mod flow_index;
mod flow_keys;
mod flow_starts;
mod ids;
mod in_place;
mod integrity;
mod keys;
mod listing;
mod live_index;
mod lock;
mod log_space;
mod logs;
mod lookup;
mod messages;
mod objects;
mod opening;
mod overview;
mod parked;
mod pauses;
mod pruning;
mod readers;
mod reads;
mod ready_index;
mod record_seals;
pub mod retention;
mod rows;
mod run_reads;
mod run_rows;
mod running;
mod saving;
mod spend;
mod statements;
mod steps;
mod tables;
mod work;
mod writer;
mod writes;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use verdict::{Rules, SupportedRules, Time};

pub use self::batch::SqliteBatch;
pub use self::browse::SqliteBrowse;
use self::in_place::InPlace;
use self::lock::Lock;
#[cfg(feature = "testing")]
pub use self::tables::table_columns;
pub use self::writer::SqliteWriter;
use crate::clock::{Clock, ClockAhead, MonotonicClock};
use crate::failure::{Failure, FailureKind};
use crate::schema::Schema;
use crate::seam::{RunsOn, Store, StoreStatus};

/// Options for opening a store.
#[derive(Clone)]
pub struct Options {
    clock: Arc<dyn Clock>,
    ahead: ClockAhead,
    durability: Durability,
    /// The virtual file system to use; `None` for the default one.
    vfs: Option<String>,
    /// The supported versions of the rules; tests of an upgrade pass fewer than all.
    rules: SupportedRules,
    schema: Schema,
}

impl Options {
    /// The default options.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            ahead: ClockAhead::Refuse,
            durability: Durability::Full,
            vfs: None,
            rules: SupportedRules::OURS,
            schema: Schema::Current,
        }
    }

    /// What to do when the stored time is far ahead of wall time.
    #[must_use]
    pub fn with_ahead(self, ahead: ClockAhead) -> Self {
        Self { ahead, ..self }
    }
}

/// For tests. These change how the engine opens its file, which other crates cannot do.
#[cfg(feature = "testing")]
impl Options {
    /// Commits survive the end of the process, but not a power loss.
    #[doc(hidden)]
    #[must_use]
    pub fn without_sync(self) -> Self {
        Self { durability: Durability::Relaxed, ..self }
    }

    /// Opens files through this virtual file system.
    #[doc(hidden)]
    #[must_use]
    pub fn with_vfs(self, name: impl Into<String>) -> Self {
        Self { vfs: Some(name.into()), ..self }
    }

    /// Restricts the store to these versions of the rules.
    #[doc(hidden)]
    #[must_use]
    pub fn with_rules(self, rules: SupportedRules) -> Self {
        Self { rules, ..self }
    }

    /// Opens the file as a later version would.
    #[doc(hidden)]
    #[must_use]
    pub fn with_planted_schema(self) -> Self {
        Self { schema: Schema::Planted, ..self }
    }
}

/// What an acknowledged commit survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Durability {
    /// A power loss.
    Full,
    /// The end of the process, but not a power loss: enough for a copy that is synced once it is complete.
    Relaxed,
}

#[derive(Clone)]
pub struct SqliteStore {
    shared: Arc<Shared>,
    browse: SqliteBrowse,
    status: StoreStatus,
}

/// State that the store, its writer and its readers share.
struct Shared {
    path: PathBuf,
    options: Options,
    clock: MonotonicClock,
    epoch: u32,
    rules: Rules,
    writer_taken: AtomicBool,
    poisoned: AtomicBool,
    in_place: InPlace,
    /// The last field, so that it is released after everything else.
    _lock: Lock,
}

impl SqliteStore {
    /// Opens or creates the store. Returns once everything that the store will show is durable.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self, Failure> {
        let path = absolute(path.as_ref())?;
        copy_target::refuse_unfinished(&path)?;
        let lock = Lock::take(&path)?;
        let (header, rules) = opening::prepare(&path, &options)?;
        let clock =
            MonotonicClock::open(options.clock.clone(), header.last_commit_at, options.ahead)?;
        let status = StoreStatus {
            epoch: header.epoch,
            rules: rules.number(),
            last_commit_at: header.last_commit_at,
            writers: 1,
            committers: 1,
            promises: [("fsync", options.durability == Durability::Full)].into(),
        };
        let in_place = match &options.vfs {
            None => InPlace::of(&[&path, lock.path()])?,
            Some(_) => InPlace::unchecked(),
        };
        let shared = Arc::new(Shared {
            path,
            options,
            clock,
            epoch: header.epoch,
            rules,
            writer_taken: AtomicBool::new(false),
            poisoned: AtomicBool::new(false),
            in_place,
            _lock: lock,
        });
        let browse = SqliteBrowse::open(shared.clone())?;
        Ok(Self { shared, browse, status })
    }

    pub fn path(&self) -> &Path {
        &self.shared.path
    }
}

/// One canonical name per file, so that a second opener is detected however it spells the path.
///
/// Does not open the file: closing it again would drop the locks that this process may already hold
/// on it.
fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    opening::create_folder(path)?;
    let resolved = path.canonicalize().or_else(|_| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize()?;
        let name = path.file_name().ok_or(std::io::ErrorKind::InvalidFilename)?;
        Ok(folder.join(name))
    });
    resolved.map_err(|error: std::io::Error| {
        let what = format!("{} is not the path of a file", path.display());
        Failure::new(FailureKind::Closed, what).because(error)
    })
}

impl Shared {
    fn poison(&self) {
        self.poisoned.store(true, Ordering::SeqCst);
    }

    fn is_poisoned(&self) -> bool {
        self.poisoned.load(Ordering::SeqCst)
    }

    fn release_writer(&self) {
        self.writer_taken.store(false, Ordering::SeqCst);
    }
}

impl Store for SqliteStore {
    type Writer = SqliteWriter;
    type Browse = SqliteBrowse;

    const RUNS_ON: RunsOn = RunsOn::OwnThread;

    async fn writer(&self) -> Result<SqliteWriter, Failure> {
        self.shared.check_health()?;
        if self.shared.writer_taken.swap(true, Ordering::SeqCst) {
            return Err(Failure::new(FailureKind::Closed, "the store's only writer is taken"));
        }
        SqliteWriter::open(self.shared.clone()).inspect_err(|_| self.shared.release_writer())
    }

    fn browse(&self) -> &SqliteBrowse {
        &self.browse
    }

    fn now(&self) -> Time {
        self.shared.clock.now()
    }

    fn status(&self) -> StoreStatus {
        self.status.clone()
    }
}
