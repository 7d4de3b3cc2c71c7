//! Deletes tasks that ended long ago from a store that no coordinator serves.
//!
//! A running coordinator prunes in small slices between its batches ([`crate::seam::Decided::forgotten`]);
//! this does the same in one go, a thousand tasks per transaction. The triggers that guard the database
//! stay in place ([`super::pruning`]).
//!
//! A task stays until its idempotency key no longer holds and the last token of its attempts is long
//! expired ([`AGE_MIN`]).

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior, params};
use verdict::{Retention, Span, TaskId, Time};

use super::lock::Lock;
use super::pruning::WHOLE_RUN;
use super::{Options, errors, opening, pruning};
use crate::clock::MonotonicClock;
use crate::failure::{Failure, FailureKind};

/// The minimum age of an end that may be deleted.
pub const AGE_MIN: Span = Retention::AGE_MIN;

/// Tasks per transaction: a crash loses at most this much work, and the log stays small.
const SLICE: u64 = 1_000;

/// Which ended tasks may be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Only tasks that ended longer ago than this.
    pub older_than: Span,
    /// At least this many of the latest ends stay, however old they are.
    pub keep: u64,
}

impl Rule {
    pub const fn of_millis(older_than: u64, keep: u64) -> Self {
        Self { older_than: Span::from_millis(older_than), keep }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Only counts what would be deleted.
    Count,
    Remove,
}

/// How many tasks were deleted, or would be, and how many ended tasks are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pruned {
    pub tasks: u64,
    pub left: u64,
    /// Tasks that ended at or after this stayed.
    pub before: Time,
}

/// Deletes what a rule allows, oldest ends first. No other process may have the store open.
pub fn prune(path: &Path, rule: Rule, mode: Mode, options: &Options) -> Result<Pruned, Failure> {
    if rule.older_than < AGE_MIN {
        let what = "ended runs are kept for at least 24h; give an age of 24h or more";
        return Err(Failure::new(FailureKind::Invalid, what));
    }
    let _lock = Lock::take(&super::absolute(path)?)?;
    let (header, _) = opening::prepare(path, options)?;
    let now =
        MonotonicClock::open(options.clock.clone(), header.last_commit_at, options.ahead)?.now();
    let age = i64::try_from(rule.older_than.millis()).unwrap_or(i64::MAX);
    let before = Time::from_millis(now.millis().saturating_sub(age));
    let mut connection = opening::connect(path, options)?;
    let doing = || errors::while_doing("forgetting ended tasks");
    hold(&connection).map_err(doing())?;
    let (old, all) = count(&connection, before).map_err(doing())?;
    let tasks = old.min(all.saturating_sub(rule.keep));
    if mode == Mode::Remove {
        let mut left = tasks;
        while left > 0 {
            let slice = left.min(SLICE);
            forget(&mut connection, before, now, slice).map_err(doing())?;
            left -= slice;
        }
    }
    Ok(Pruned { tasks, left: all - tasks, before })
}

/// Runs that stay although they are old: something is still to be done about an object of theirs, an effect that is not
/// delivered. No other process changes objects while the lock is held.
const HELD: &str = "i.id NOT IN (SELECT id FROM temp.held)";

fn hold(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute("CREATE TEMP TABLE held (id BLOB PRIMARY KEY) WITHOUT ROWID", [])?;
    let mut insert = connection.prepare("INSERT INTO temp.held (id) VALUES (?1)")?;
    let mut parents = connection
        .prepare("SELECT DISTINCT parent FROM objects WHERE pending = 1 AND parent IS NOT NULL")?;
    for parent in parents.query_map([], |row| row.get::<_, String>(0))? {
        if let Some(run) = TaskId::parse(&parent?) {
            insert.execute([run.as_u128().to_be_bytes().as_slice()])?;
        }
    }
    Ok(())
}

/// How many ended runs are old enough, and how many there are. The run of the newest submission always stays.
fn count(connection: &Connection, before: Time) -> rusqlite::Result<(u64, u64)> {
    connection.query_row(
        &format!(
            "SELECT count(*) FILTER (WHERE d.completed_at < ?1 AND {WHOLE_RUN} AND {HELD}), count(*)
             FROM done d JOIN inputs i ON i.row = d.row WHERE i.root IS NULL"
        ),
        [before.millis()],
        |row| Ok((row.get::<_, i64>(0)?.unsigned_abs(), row.get::<_, i64>(1)?.unsigned_abs())),
    )
}

fn forget(
    connection: &mut Connection,
    before: Time,
    now: Time,
    slice: u64,
) -> rusqlite::Result<()> {
    let batch = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let rows: Vec<i64> = batch
        .prepare_cached(&format!(
            "SELECT d.row FROM done d JOIN inputs i ON i.row = d.row
             WHERE d.completed_at < ?1 AND {WHOLE_RUN} AND {HELD} ORDER BY d.completed_at, d.row LIMIT ?2"
        ))?
        .query_map(params![before.millis(), i64::try_from(slice).unwrap_or(i64::MAX)], |row| {
            row.get(0)
        })?
        .collect::<rusqlite::Result<_>>()?;
    pruning::forget(&batch, rows.into_iter(), now)?;
    faultpoint::point!("prune.before_commit");
    batch.commit()?;
    faultpoint::point!("prune.after_commit");
    Ok(())
}
