//! Lists of one scope's tasks, newest first.
//!
//! A kind queue belongs to one scope, queue and kind, and `lane_blocks` lists the blocks of rows in which it has tasks.
//! A list merges its kind queues block by block. So it visits at most [`BLOCK_ROWS`] rows for each of its tasks,
//! however many tasks other scopes have. Conditions without an index (state, labels, worker, category) are tested row
//! by row, up to a number of rows; then the page ends and names where the next one continues.

use std::collections::BinaryHeap;
use std::ops::RangeInclusive;

use rusqlite::{Connection, OptionalExtension};
use verdict::event::Submitted;
use verdict::{Category, Name, Scope, State, Subject, TaskId};

use super::rows::{self, Columns, ENTRY, NAMES, id_bytes};
use super::{administration, reads};
use crate::columns::{self, listed_done, listed_spec};
use crate::row::{Bodies, Entry, Filter, LabelFilter, Listed, Listing, PageStop, Spec, StoredTask};
use crate::row_size::{self, ByteBudget};

type Read<T> = rusqlite::Result<T>;

/// Rows of a block, as a power of two. Larger blocks cost writers less, and lists of scattered tasks more. At 64 a busy
/// kind queue pays 1/64 of an index entry per submission, and a list reads a page or two of rows per task.
pub(super) const BLOCK_BITS: u32 = 6;
const BLOCK_ROWS: i64 = 1 << BLOCK_BITS;

const WITHOUT_TRACE: &str = "json_remove(d.fault, '$.stack_trace')";

pub(super) fn block_of(row: i64) -> i64 {
    row >> BLOCK_BITS
}

pub(super) fn rows_of(block: i64) -> RangeInclusive<i64> {
    let first = block << BLOCK_BITS;
    first..=first + (BLOCK_ROWS - 1)
}

pub(super) fn list(connection: &Connection, scope: &Scope, filter: &Filter) -> Read<Listing> {
    let mut newest =
        Newest::of(connection, kind_queues(connection, scope, filter)?, filter.before)?;
    let mut budget = ByteBudget::new(filter.bytes);
    let (mut tasks, mut last, mut scanned) = (Vec::new(), None, 0);
    while let Some(task) = newest.next()? {
        if filter.from.is_some_and(|from| task.id < from) {
            break;
        }
        if tasks.len() == filter.limit {
            return Ok(Listing { tasks, next: last, stopped: None });
        }
        if scanned == filter.scan_max {
            return Ok(Listing { tasks, next: last, stopped: Some(PageStop::Scan) });
        }
        scanned += 1;
        if let Some(listed) = wanted(connection, task, filter)? {
            if !budget.takes(row_size::task(&listed.task)) {
                return Ok(Listing { tasks, next: last, stopped: Some(PageStop::Bytes) });
            }
            tasks.push(listed);
        }
        last = Some(task.id);
    }
    Ok(Listing { tasks, next: None, stopped: None })
}

fn kind_queues(connection: &Connection, scope: &Scope, filter: &Filter) -> Read<Vec<i64>> {
    let mut statement = connection.prepare_cached(
        "SELECT n.lane FROM lanes n WHERE n.tenant = ?1 AND n.workspace = ?2
            AND (?3 IS NULL OR n.queue = ?3) AND (?4 IS NULL OR n.kind = ?4)
            AND (?5 IS NULL OR n.queue IN (SELECT value FROM json_each(?5)))",
    )?;
    let queues = filter.queues.as_deref().map(administration::list);
    let queue = filter.queue.as_ref().map(|name| name.as_str());
    let kind = filter.kind.as_ref().map(|name| name.as_str());
    let names = (scope.tenant.as_str(), scope.workspace.as_str(), queue, kind, queues);
    statement.query_map(names, |row| row.get(0))?.collect()
}

/// The tasks of several kind queues in one order: by row, which is the order of submission.
struct Newest<'c> {
    connection: &'c Connection,
    /// Rows from here on were on earlier pages.
    end: i64,
    kind_queues: Vec<KindQueueCursor>,
    heads: BinaryHeap<Head>,
}

struct KindQueueCursor {
    kind_queue: i64,
    /// Tasks of the block that was read last, newest last.
    rows: Vec<Numbered>,
}

#[derive(Clone, Copy)]
struct Numbered {
    row: i64,
    id: TaskId,
    has_parent: bool,
}

/// The next item of a kind queue, ordered by row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    row: i64,
    cursor: usize,
    next: Next,
}

/// A block is read only when the merge reaches it: of a thousand kind queues most are never read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    Block(i64),
    Task,
}

impl<'c> Newest<'c> {
    fn of(connection: &'c Connection, kind_queues: Vec<i64>, before: Option<TaskId>) -> Read<Self> {
        let end = before.map_or(Ok(i64::MAX), |id| row_before(connection, id))?;
        let cursor = |kind_queue| KindQueueCursor { kind_queue, rows: Vec::new() };
        let kind_queues: Vec<KindQueueCursor> = kind_queues.into_iter().map(cursor).collect();
        let heads = BinaryHeap::with_capacity(kind_queues.len());
        let mut newest = Self { connection, end, kind_queues, heads };
        for cursor in 0..newest.kind_queues.len() {
            newest.push_block(cursor, block_of(end) + 1)?;
        }
        Ok(newest)
    }

    fn next(&mut self) -> Read<Option<Numbered>> {
        while let Some(head) = self.heads.pop() {
            let cursor = head.cursor;
            match head.next {
                Next::Block(block) => self.read_block(cursor, block)?,
                Next::Task => {
                    let task = self.kind_queues[cursor].rows.pop();
                    self.push_task(cursor, block_of(head.row))?;
                    return Ok(task);
                }
            }
        }
        Ok(None)
    }

    fn read_block(&mut self, cursor: usize, block: i64) -> Read<()> {
        let rows = rows_of(block);
        let mut statement = self.connection.prepare_cached(
            "SELECT row, id, root IS NOT NULL FROM inputs
             WHERE row BETWEEN ?1 AND ?2 AND lane = ?3 ORDER BY row",
        )?;
        let last = (*rows.end()).min(self.end - 1);
        let kind_queue = &mut self.kind_queues[cursor];
        let read = statement.query_map((*rows.start(), last, kind_queue.kind_queue), |row| {
            let mut columns = Columns::of(row);
            let (row, id) = (columns.take()?, columns.task_id()?);
            Ok(Numbered { row, id, has_parent: columns.take()? })
        })?;
        kind_queue.rows = read.collect::<Read<_>>()?;
        self.push_task(cursor, block)
    }

    /// Pushes the next task of the block, or else the next block.
    fn push_task(&mut self, cursor: usize, block: i64) -> Read<()> {
        match self.kind_queues[cursor].rows.last() {
            Some(task) => self.heads.push(Head { row: task.row, cursor, next: Next::Task }),
            None => self.push_block(cursor, block)?,
        }
        Ok(())
    }

    /// Pushes the newest block of the kind queue before this one.
    fn push_block(&mut self, cursor: usize, before: i64) -> Read<()> {
        let mut statement = self.connection.prepare_cached(
            "SELECT block FROM lane_blocks WHERE lane = ?1 AND block < ?2
             ORDER BY block DESC LIMIT 1",
        )?;
        let key = (self.kind_queues[cursor].kind_queue, before);
        let block: Option<i64> = statement.query_row(key, |row| row.get(0)).optional()?;
        let head = |block| Head { row: *rows_of(block).end(), cursor, next: Next::Block(block) };
        self.heads.extend(block.map(head));
        Ok(())
    }
}

/// The row of the task at which the previous page ended; if that task was deleted, the row of the next one by id. Ids
/// grow with rows, except for coordinators that once shared a database and submitted within milliseconds of each
/// other.
fn row_before(connection: &Connection, id: TaskId) -> Read<i64> {
    let sql = "SELECT row FROM inputs WHERE id >= ?1 ORDER BY id LIMIT 1";
    let row = connection.prepare_cached(sql)?.query_row([id_bytes(id)], |row| row.get(0));
    Ok(row.optional()?.unwrap_or(i64::MAX))
}

/// The task, if it passes the conditions that have no index.
fn wanted(connection: &Connection, task: Numbered, filter: &Filter) -> Read<Option<Listed>> {
    if task.has_parent && !filter.children {
        return Ok(None);
    }
    let row = task.row;
    if let Some(state) = filter.state
        && !is_in(connection, row, state)?
    {
        return Ok(None);
    }
    if let Some(category) = filter.category
        && !has_failed_with(connection, row, category)?
    {
        return Ok(None);
    }
    for label in &filter.labels {
        if !is_labelled(connection, row, label)? {
            return Ok(None);
        }
    }
    let worker = worker(connection, row)?;
    if filter.worker.is_some() && filter.worker != worker {
        return Ok(None);
    }
    listed(connection, row, filter.bodies, worker)
}

fn is_in(connection: &Connection, row: i64, state: State) -> Read<bool> {
    let sql = if state.is_terminal() {
        "SELECT 1 FROM done WHERE row = ?1 AND state = ?2"
    } else {
        "SELECT 1 FROM live WHERE row = ?1 AND state = ?2"
    };
    connection.prepare_cached(sql)?.exists((row, state.name()))
}

fn has_failed_with(connection: &Connection, row: i64, category: Category) -> Read<bool> {
    connection
        .prepare_cached("SELECT 1 FROM done WHERE row = ?1 AND fault ->> '$.category' = ?2")?
        .exists((row, category.name()))
}

fn is_labelled(connection: &Connection, row: i64, label: &LabelFilter) -> Read<bool> {
    connection
        .prepare_cached(
            "SELECT 1 FROM inputs i, json_each(i.labels) j
             WHERE i.row = ?1 AND j.key = ?2 AND (?3 IS NULL OR j.value = ?3)",
        )?
        .exists((row, &label.name, &label.value))
}

/// The worker that holds the lease, or had the latest attempt.
fn worker(connection: &Connection, row: i64) -> Read<Option<Name>> {
    let sql = "SELECT coalesce((SELECT owner FROM live WHERE row = ?1),
        (SELECT owner FROM attempts WHERE task = ?1 ORDER BY attempt DESC LIMIT 1))";
    connection
        .prepare_cached(sql)?
        .query_row([row], |row| Ok(row.get::<_, Option<String>>(0)?.map(Name::from)))
}

/// `None` for a task that is neither live nor done: the integrity check reports it.
fn listed(
    connection: &Connection,
    row: i64,
    bodies: Bodies,
    worker: Option<Name>,
) -> Read<Option<Listed>> {
    let (id, subject) = match reads::live(connection, row)? {
        Some(live) => (live.task.id, Subject::Live(live.task)),
        None => match ended(connection, row, bodies)? {
            Some(done) => (done.id, Subject::Done(done)),
            None => return Ok(None),
        },
    };
    let (spec, submitted) = submission(connection, row, id, bodies)?;
    Ok(Some(Listed { task: StoredTask { subject, spec }, submitted, worker }))
}

fn ended(connection: &Connection, row: i64, bodies: Bodies) -> Read<Option<verdict::Done>> {
    let from = "done d JOIN inputs i ON i.row = d.row JOIN lanes n ON n.lane = i.lane";
    let columns = format!("i.id, {NAMES}, {}", listed_done(bodies, WITHOUT_TRACE));
    connection
        .prepare_cached(&reads::select(&columns, &format!("{from} WHERE d.row = ?1")))?
        .query_row([row], |row| rows::done(&mut Columns::of(row)))
        .optional()
}

/// The submission. Rows from before inline histories have the first entry in `history`.
fn submission(
    connection: &Connection,
    row: i64,
    id: TaskId,
    bodies: Bodies,
) -> Read<(Spec, Option<Submitted>)> {
    let sql = reads::select(
        &format!("{}, i.tale, {ENTRY}", listed_spec(bodies)),
        "inputs i LEFT JOIN history h ON i.tale IS NULL AND h.task = i.row AND h.n = 1
         WHERE i.row = ?1",
    );
    connection.prepare_cached(&sql)?.query_row([row], |row| {
        let mut columns = Columns::of(row);
        let (spec, inline_history) = (rows::spec(&mut columns)?, columns.inline_history()?);
        let entries: Vec<Entry> = if inline_history.bytes().is_some() {
            inline_history.entries(id).map_err(|error| columns.unreadable(error))?
        } else if columns.is_next_null()? {
            Vec::new()
        } else {
            vec![rows::entry(id, &mut columns)?]
        };
        Ok((spec, columns::submitted(entries)))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::super::{Options, SqliteStore};
    use super::*;
    use crate::clock::SystemClock;

    /// Tenants other than the one that lists.
    const OTHERS: i64 = 50;
    /// Tasks of the tenant that lists: older than all others.
    const OURS: i64 = 40;

    /// A store in which fifty tenants have ended this many tasks each, and one tenant a few.
    fn crowded(folder: &tempfile::TempDir, each: i64) -> Connection {
        let path = folder.path().join("tenure.db");
        let options = Options::new(Arc::new(SystemClock::start()));
        drop(SqliteStore::open(&path, options).unwrap());
        let connection = Connection::open(&path).unwrap();
        let count = format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {})",
            OURS + OTHERS * each
        );
        connection
            .execute_batch(&format!(
                "BEGIN;
                 INSERT INTO lanes VALUES (0, 'small', 'default', 'images', 'resize');
                 WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {OTHERS})
                 INSERT INTO lanes SELECT i, 'tenant' || i, 'default', 'images', 'resize' FROM n;
                 {count} INSERT INTO inputs (row, id, lane, priority, created_at, fingerprint, labels, input)
                 SELECT i, unhex(format('%032x', i)), iif(i <= {OURS}, 0, 1 + i % {OTHERS}), 0, 0,
                    zeroblob(32), iif(i % 7, NULL, '{{\"team\":\"red\"}}'), '{{}}' FROM n;
                 INSERT INTO lane_blocks SELECT DISTINCT lane, row >> 6 FROM inputs;
                 {count} INSERT INTO done (row, state, completed_at, attempt, failures, lost,
                    claim_version, entries, record)
                 SELECT i, 'cancelled', 0, 0, 0, 0, 0, 1, zeroblob(32) FROM n;
                 COMMIT;"
            ))
            .unwrap();
        connection
    }

    /// A listing, and how many virtual machine steps SQLite takes for it.
    fn measured(connection: &mut Connection, tenant: &str, filter: &Filter) -> (Listing, u64) {
        let steps = Arc::new(AtomicU64::new(0));
        let count = steps.clone();
        let step = move || {
            count.fetch_add(1, Ordering::Relaxed);
            false
        };
        connection.progress_handler(1, Some(step)).unwrap();
        let listing = list(connection, &Scope::new(tenant, "default"), filter).unwrap();
        connection.progress_handler(0, None::<fn() -> bool>).unwrap();
        (listing, steps.load(Ordering::Relaxed))
    }

    fn team(value: &str) -> Vec<LabelFilter> {
        vec![LabelFilter { name: "team".to_owned(), value: Some(value.to_owned()) }]
    }

    fn red() -> Filter {
        Filter { limit: 10, labels: team("red"), ..Filter::default() }
    }

    #[test]
    fn a_list_costs_the_same_however_much_other_tenants_have() {
        // F72: ended tasks of others are not visited, whether the list is filtered or not.
        let plain = Filter { limit: 10, ..Filter::default() };
        let ended = Filter { state: Some(State::Cancelled), ..plain.clone() };
        let elsewhere = Filter { queue: Some("letters".into()), ..plain.clone() };
        for (filter, expected) in [(plain, 10), (red(), 5), (ended, 10), (elsewhere, 0)] {
            let [few, many] = [10, 1_000].map(|each| {
                let folder = tempfile::tempdir().unwrap();
                let (listing, steps) = measured(&mut crowded(&folder, each), "small", &filter);
                assert_eq!(listing.tasks.len(), expected, "{filter:?}");
                steps
            });
            assert!(
                many <= few + few / 10,
                "{many} steps beside many, {few} beside few: {filter:?}"
            );
        }
    }

    #[test]
    fn a_list_of_scattered_tasks_visits_a_block_for_each() {
        // F72: every fiftieth row belongs to this tenant, and all rows in between belong to other tenants.
        let plain = Filter { limit: 10, ..Filter::default() };
        let steps = |each: i64| {
            let folder = tempfile::tempdir().unwrap();
            let (listing, steps) = measured(&mut crowded(&folder, each), "tenant7", &plain);
            assert_eq!(listing.tasks.len(), 10);
            steps
        };
        let (few, many) = (steps(20), steps(1_000));
        assert!(many <= few + few / 10, "{many} steps beside many, {few} beside few");
    }

    #[test]
    fn a_filter_that_nothing_passes_looks_at_so_many_tasks() {
        // F72: a label that no task has costs the bounded scan, not the size of the store.
        let folder = tempfile::tempdir().unwrap();
        let mut connection = crowded(&folder, 2_000);
        let steps = |scan_max: usize, connection: &mut Connection| {
            let labels = team("blue");
            let filter = Filter { limit: 10, scan_max, labels, ..Filter::default() };
            let (listing, steps) = measured(connection, "tenant7", &filter);
            assert!(listing.tasks.is_empty() && listing.next.is_some());
            steps
        };
        let (hundred, thousand) = (steps(100, &mut connection), steps(1_000, &mut connection));
        assert!(
            thousand <= 12 * hundred,
            "{thousand} steps for a thousand, {hundred} for a hundred"
        );
        assert!(thousand >= 5 * hundred, "the count counts");
    }
}
