//! Opening a database: checks that the file is ours, migrates it, and makes sure it is synced.

use std::fs::OpenOptions;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use refinery::{Migration, Runner};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension};
use verdict::rules::to_join;
use verdict::{Rules, SupportedRules, Time};

use super::{Durability, Options, errors};
use crate::failure::{Failure, FailureKind};
use crate::rules;
use crate::schema::{Schema, UNRELEASED};

/// "TNRE", in the file's header: identifies the file as ours before any table is read.
pub(super) const APPLICATION_ID: i64 = 0x544e_5245;

/// Before this version, SQLite could lose commits when a checkpoint ran while the log restarted.
const SQLITE_MIN: i32 = 3_051_003;

/// Log size at which connections checkpoint that have nobody to do it for them: all but the writer's.
const CHECKPOINT_PAGES: i64 = 16_000;

/// The writer's page cache: the ends of all tables, the rows in flight and a usual batch. A larger cache
/// costs more than its memory, because SQLite scans all of it at nearly every commit.
const CACHE_KIB: i64 = 16 * 1024;

/// How long to wait for a lock that another program (a shell, a backup) holds on the file.
const BUSY_MS: u64 = 5_000;

/// More prepared statements than the engine has.
const STATEMENTS_MAX: usize = 96;

/// In order; a released step is never edited.
const MIGRATIONS: &[(&str, &str)] =
    &[("V1__store", include_str!("../../migrations/V1__store.sql"))];

/// A further step, planted so that tests can upgrade a store and meet one that is newer.
#[cfg(feature = "testing")]
const PLANTED: &[(&str, &str)] =
    &[MIGRATIONS[0], ("V2__planted", include_str!("../../migrations/planted/V2__planted.sql"))];

/// What the database header says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) epoch: u32,
    pub(super) last_commit_at: Option<Time>,
}

/// Migrates the file to this version and checkpoints its log: an answer that comes from recovered pages of the log
/// alone would not be durable. Returns the header and the rules in force.
pub(super) fn prepare(path: &Path, options: &Options) -> Result<(Header, Rules), Failure> {
    assert!(rusqlite::version_number() >= SQLITE_MIN, "the bundled SQLite is too old");
    stop_counting_memory();
    create_private(path)?;
    faultpoint::point!("open.created");
    let mut connection = connect(path, options)?;
    let migrations = migrations(options)?;
    refuse_foreign(&connection, path, &migrations)?;
    migrate(&mut connection, path, &migrations)?;
    faultpoint::point!("open.migrated");
    let rules = activate(&connection, options.rules)?;
    checkpoint(&connection)?;
    faultpoint::point!("open.folded");
    let header = header(&connection).map_err(errors::while_doing("reading the store's header"))?;
    Ok((header, rules))
}

/// SQLite counts its memory under a process-wide lock, at every value it handles, and this program never reads
/// the count. Counting can be turned off only before the first connection.
#[expect(unsafe_code, reason = "the library offers this switch nowhere else")]
fn stop_counting_memory() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        // SAFETY: this option takes one int; once a connection was opened the call is refused.
        let _ = unsafe { rusqlite::ffi::sqlite3_config(rusqlite::ffi::SQLITE_CONFIG_MEMSTATUS, 0) };
    });
}

/// A connection that may write.
pub(super) fn connect(path: &Path, options: &Options) -> Result<Connection, Failure> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = open_with(path, flags, options)?;
    let configure = || -> rusqlite::Result<()> {
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", options.durability.pragma())?;
        connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
        connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
        connection.pragma_update(None, "mmap_size", 0)
    };
    configure().map_err(|error| unreadable(path, error))?;
    Ok(connection)
}

/// A read-only connection.
pub(super) fn connect_reader(path: &Path, options: &Options) -> Result<Connection, Failure> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = open_with(path, flags, options)?;
    connection
        .pragma_update(None, "mmap_size", 0)
        .map_err(errors::while_doing("opening the store for reading"))?;
    Ok(connection)
}

pub(super) fn open_with(
    path: &Path,
    flags: OpenFlags,
    options: &Options,
) -> Result<Connection, Failure> {
    let opened = match &options.vfs {
        Some(vfs) => Connection::open_with_flags_and_vfs(path, flags, vfs.as_str()),
        None => Connection::open_with_flags(path, flags),
    };
    let connection = opened.map_err(|error| unreadable(path, error))?;
    let timeout = std::time::Duration::from_millis(BUSY_MS);
    // Plans do not depend on values here. Without this setting SQLite plans again for each new value,
    // which costs more than the statements themselves.
    let stable = DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG;
    connection
        .busy_timeout(timeout)
        .and_then(|()| connection.set_db_config(stable, true))
        .map_err(errors::while_doing("opening the store"))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(connection)
}

pub(super) fn create_folder(path: &Path) -> Result<(), Failure> {
    let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) else {
        return Ok(());
    };
    let created = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    created.map_err(|error| {
        let what = format!("the folder {} cannot be created", folder.display());
        Failure::new(FailureKind::Closed, what).because(error)
    })
}

/// Payloads may be secret: only the file's owner may read it.
fn create_private(path: &Path) -> Result<(), Failure> {
    let create = || -> std::io::Result<()> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        file.set_permissions(std::fs::Permissions::from_mode(0o600))
    };
    create().map_err(|error| {
        let what =
            format!("{} cannot be opened for writing; check path and permissions", path.display());
        Failure::new(FailureKind::Closed, what).because(error)
    })
}

/// The steps from an empty file to this version.
pub(super) fn migrations(options: &Options) -> Result<Vec<Migration>, Failure> {
    let steps = match options.schema {
        Schema::Current => MIGRATIONS,
        #[cfg(feature = "testing")]
        Schema::Planted => PLANTED,
    };
    let steps = steps.iter().map(|(name, sql)| Migration::unapplied(name, sql));
    steps.collect::<Result<_, _>>().map_err(|error| {
        Failure::new(FailureKind::Closed, "a migration of this build is unreadable").because(error)
    })
}

/// Refuses a file that this build must not write to: of another program, of an unreleased build, of a newer Tenure.
pub(super) fn refuse_foreign(
    connection: &Connection,
    path: &Path,
    migrations: &[Migration],
) -> Result<(), Failure> {
    let read = || -> rusqlite::Result<(i64, i64, Vec<Applied>)> {
        let id = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
        let tables =
            connection.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0))?;
        Ok((id, tables, applied(connection)?))
    };
    let (id, tables, applied) = read().map_err(|error| unreadable(path, error))?;
    let refuse = |what: String| Err(Failure::new(FailureKind::Closed, what));
    let path = path.display();
    if id != APPLICATION_ID && (id != 0 || tables > 0) {
        return refuse(format!(
            "{path} is a database of another program; give Tenure a separate file"
        ));
    }
    if migrations.iter().zip(&applied).any(|(ours, theirs)| !theirs.is(ours)) {
        return refuse(format!("{path} {UNRELEASED}"));
    }
    if applied.len() > migrations.len() {
        let (theirs, ours) = (applied.len(), migrations.len());
        return refuse(format!(
            "{path} has format {theirs} and this Tenure knows formats up to {ours}; \
             start the newer Tenure that wrote it"
        ));
    }
    Ok(())
}

/// A step that was applied to the file.
struct Applied {
    name: String,
    /// Of its text.
    checksum: String,
}

impl Applied {
    fn is(&self, step: &Migration) -> bool {
        self.name == step.name() && self.checksum == step.checksum().to_string()
    }
}

/// In order; empty for a new file.
fn applied(connection: &Connection) -> rusqlite::Result<Vec<Applied>> {
    let sql = "SELECT 1 FROM sqlite_master WHERE name = 'refinery_schema_history'";
    if connection.query_row(sql, [], |_| Ok(())).optional()?.is_none() {
        return Ok(Vec::new());
    }
    let sql = "SELECT name, checksum FROM refinery_schema_history ORDER BY version";
    let mut statement = connection.prepare(sql)?;
    let rows =
        statement.query_map([], |row| Ok(Applied { name: row.get(0)?, checksum: row.get(1)? }))?;
    rows.collect()
}

/// Applies all missing migrations in one transaction, so that a process killed midway leaves none of them.
fn migrate(
    connection: &mut Connection,
    path: &Path,
    migrations: &[Migration],
) -> Result<(), Failure> {
    let failed = |error: Box<dyn std::error::Error + Send + Sync>| {
        let what = format!("{} cannot be migrated to this version", path.display());
        Failure::new(FailureKind::Closed, what).because(error)
    };
    connection
        .pragma_update(None, "application_id", APPLICATION_ID)
        .map_err(|error| failed(error.into()))?;
    let runner = Runner::new(migrations).set_grouped(true);
    runner.run(connection).map_err(|error| failed(error.into()))?;
    Ok(())
}

pub(super) fn checkpoint(connection: &Connection) -> Result<(), Failure> {
    let failed = errors::while_doing("checkpointing the log of the database");
    let busy: i64 = connection
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
        .map_err(failed)?;
    if busy != 0 {
        let what = "another program reads the database, so its log cannot be checkpointed; stop it";
        return Err(Failure::new(FailureKind::Closed, what));
    }
    Ok(())
}

/// The opener has the file alone, so the newest version of the rules that it knows is in force from now on.
fn activate(connection: &Connection, known: SupportedRules) -> Result<Rules, Failure> {
    let failed = || errors::while_doing("activating the newest rules");
    let in_force: u32 =
        connection.query_row("SELECT rules FROM meta", [], |row| row.get(0)).map_err(failed())?;
    let number = to_join(in_force, known, &[]).ok_or_else(|| rules::unknown(in_force, known))?;
    if number != in_force {
        connection.execute("UPDATE meta SET rules = ?1", [number]).map_err(failed())?;
    }
    rules::known(number, known)
}

pub(super) fn header(connection: &Connection) -> rusqlite::Result<Header> {
    connection.query_row("SELECT epoch, clock FROM meta", [], |row| {
        let clock: Option<i64> = row.get(1)?;
        Ok(Header { epoch: row.get(0)?, last_commit_at: clock.map(Time::from_millis) })
    })
}

pub(super) fn unreadable(path: &Path, error: rusqlite::Error) -> Failure {
    let what = match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase) => {
            format!("{} is not a database; give Tenure a separate file", path.display())
        }
        _ => format!("{} cannot be opened as a database", path.display()),
    };
    Failure::new(FailureKind::Closed, what).because(error)
}

impl Durability {
    fn pragma(self) -> &'static str {
        match self {
            Durability::Full if faultpoint::mutant(35) => "NORMAL",
            Durability::Full => "FULL",
            Durability::Relaxed => "NORMAL",
        }
    }
}
