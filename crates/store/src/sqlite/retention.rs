//! Forgetting tasks that ended long ago, whole: what went in, every attempt, every decision, the end.
//!
//! The database itself refuses to delete any of this. Here that guard is lifted inside the very
//! transaction that deletes, and stands again, to the letter, before it commits; nobody else can
//! write in between, and a crash brings the guard back with the rows. Only a store that nobody
//! serves from is pruned, so no memory of a writer can disagree with it.
//!
//! Nothing that can still be asked about goes: not before an idempotency key has lost its hold and
//! the last token of an attempt is long expired ([`AGE_MIN`]).

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior, params};
use verdict::decide::submit::KEY_WINDOW;
use verdict::{Span, Time};

use super::lock::Lock;
use super::{Options, opening, trouble};
use crate::clock::Reading;
use crate::failure::{Failure, FailureKind};

/// The youngest end that may be forgotten: as long as its idempotency key counts, which is twelve
/// times the longest life of a token.
pub const AGE_MIN: Span = KEY_WINDOW;

/// Tasks per transaction: a crash loses at most this much work, and the log stays small.
const SLICE: u64 = 1_000;

/// The guards that stand before deleting.
const GUARDS: &str = "type = 'trigger' AND name LIKE '%\\_no\\_delete' ESCAPE '\\'";

/// What belongs to a task, in the order in which it goes: nothing is ever left without its task.
const FORGET: [&str; 6] = [
    "DELETE FROM keys WHERE task IN (SELECT row FROM temp.leaving)",
    "DELETE FROM refused WHERE task IN (SELECT row FROM temp.leaving)",
    "DELETE FROM history WHERE task IN (SELECT row FROM temp.leaving)",
    "DELETE FROM attempts WHERE task IN (SELECT row FROM temp.leaving)",
    "DELETE FROM done WHERE row IN (SELECT row FROM temp.leaving)",
    "DELETE FROM inputs WHERE row IN (SELECT row FROM temp.leaving)",
];

/// Which ended tasks may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Only what ended longer ago than this.
    pub older_than: Span,
    /// At least so many of the latest ends stay, however old they are.
    pub keep: u64,
}

impl Rule {
    pub const fn of_millis(older_than: u64, keep: u64) -> Self {
        Self { older_than: Span::from_millis(older_than), keep }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Only says how many would go.
    Count,
    Remove,
}

/// What went, or would go, and what is left of ended tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pruned {
    pub tasks: u64,
    pub left: u64,
    /// Ends at or after this stayed.
    pub before: Time,
}

/// Forgets what a rule allows, oldest ends first. Nobody else may have the store open.
pub fn prune(path: &Path, rule: Rule, mode: Mode, options: &Options) -> Result<Pruned, Failure> {
    if rule.older_than < AGE_MIN {
        let what =
            "what ended less than a day ago may still be asked about; keep it for 24h at least";
        return Err(Failure::new(FailureKind::Invalid, what));
    }
    let _lock = Lock::take(&super::absolute(path)?)?;
    let header = opening::prepare(path, options)?;
    let now = Reading::open(options.clock.clone(), header.last_commit_at, options.ahead)?.now();
    let age = i64::try_from(rule.older_than.millis()).unwrap_or(i64::MAX);
    let before = Time::from_millis(now.millis().saturating_sub(age));
    let mut connection = opening::connect(path, options)?;
    let doing = || trouble::while_doing("forgetting ended tasks");
    let (old, all) = count(&connection, before).map_err(doing())?;
    let tasks = old.min(all.saturating_sub(rule.keep));
    if mode == Mode::Remove {
        let mut left = tasks;
        while left > 0 {
            let slice = left.min(SLICE);
            forget(&mut connection, before, slice).map_err(doing())?;
            left -= slice;
        }
    }
    Ok(Pruned { tasks, left: all - tasks, before })
}

/// How many ended tasks are old enough, and how many there are. The latest submission always stays:
/// numbers of rows grow from it and must not be given twice.
fn count(connection: &Connection, before: Time) -> rusqlite::Result<(u64, u64)> {
    connection.query_row(
        "SELECT count(*) FILTER (WHERE completed_at < ?1
                                   AND row < (SELECT max(row) FROM inputs)), count(*) FROM done",
        [before.millis()],
        |row| Ok((row.get::<_, i64>(0)?.unsigned_abs(), row.get::<_, i64>(1)?.unsigned_abs())),
    )
}

fn forget(connection: &mut Connection, before: Time, slice: u64) -> rusqlite::Result<()> {
    let batch = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    batch.execute_batch("CREATE TEMP TABLE IF NOT EXISTS leaving (row INTEGER PRIMARY KEY)")?;
    batch.execute("DELETE FROM temp.leaving", [])?;
    batch.execute(
        "INSERT INTO temp.leaving
         SELECT row FROM done WHERE completed_at < ?1 AND row < (SELECT max(row) FROM inputs)
         ORDER BY completed_at, row LIMIT ?2",
        params![before.millis(), i64::try_from(slice).unwrap_or(i64::MAX)],
    )?;
    let guards = guards(&batch)?;
    for (name, _) in &guards {
        batch.execute_batch(&format!("DROP TRIGGER \"{name}\""))?;
    }
    for sql in FORGET {
        batch.execute(sql, [])?;
    }
    for (_, sql) in &guards {
        batch.execute_batch(sql)?;
    }
    assert_eq!(self::guards(&batch)?, guards, "what was taken down stands again");
    batch.commit()
}

/// Names and texts of the guards.
fn guards(connection: &Connection) -> rusqlite::Result<Vec<(String, String)>> {
    let sql = format!("SELECT name, sql FROM main.sqlite_master WHERE {GUARDS} ORDER BY name");
    let mut statement = connection.prepare(&sql)?;
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}
