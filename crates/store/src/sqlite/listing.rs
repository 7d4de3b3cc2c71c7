//! Lists of one scope's tasks, newest first.
//!
//! Tasks are indexed by kind queue, and a kind queue belongs to one scope, queue and kind. A list merges the kind queues that it
//! is about, reading a little of each at a time, so that it visits no row of another scope. What no index
//! knows (state, label) is looked up row by row, up to a number of rows; the page then ends, and says where
//! the next one goes on.

use std::collections::{BinaryHeap, VecDeque};

use rusqlite::{Connection, OptionalExtension};
use verdict::event::Submitted;
use verdict::{Scope, State, Subject, TaskId};

use super::reads;
use super::rows::{self, Columns, ENTRY, NAMES, id_bytes};
use crate::columns::{self, listed_done, listed_spec};
use crate::row::{Bodies, Entry, Filter, Listed, Listing, Spec, StoredTask};
use crate::row_size::{self, ByteBudget};

type Read<T> = rusqlite::Result<T>;

/// How many tasks of a kind queue are read at once, behind the first.
const RUN: usize = 32;

const WITHOUT_TRACE: &str = "json_remove(d.fault, '$.stack_trace')";

pub(super) fn list(connection: &Connection, scope: &Scope, filter: &Filter) -> Read<Listing> {
    let mut newest =
        Newest::of(connection, kind_queues(connection, scope, filter)?, filter.before)?;
    let mut budget = ByteBudget::new(filter.bytes);
    let (mut tasks, mut last, mut scanned) = (Vec::new(), None, 0);
    while let Some(task) = newest.next()? {
        if tasks.len() == filter.limit || scanned == filter.scan_max {
            return Ok(Listing { tasks, next: last });
        }
        scanned += 1;
        if let Some(listed) = wanted(connection, task.row, filter)? {
            if !budget.takes(row_size::task(&listed.task)) {
                return Ok(Listing { tasks, next: last });
            }
            tasks.push(listed);
        }
        last = Some(task.id);
    }
    Ok(Listing { tasks, next: None })
}

fn kind_queues(connection: &Connection, scope: &Scope, filter: &Filter) -> Read<Vec<i64>> {
    let mut statement = connection.prepare_cached(
        "SELECT n.lane FROM lanes n WHERE n.tenant = ?1 AND n.workspace = ?2
            AND (?3 IS NULL OR n.queue = ?3) AND (?4 IS NULL OR n.kind = ?4)",
    )?;
    let queue = filter.queue.as_ref().map(|name| name.as_str());
    let kind = filter.kind.as_ref().map(|name| name.as_str());
    let names = (scope.tenant.as_str(), scope.workspace.as_str(), queue, kind);
    statement.query_map(names, |row| row.get(0))?.collect()
}

/// A task by its place in the order; its row number comes along.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Numbered {
    id: TaskId,
    row: i64,
}

/// The tasks of several kind queues in one order.
struct Newest<'c> {
    connection: &'c Connection,
    kind_queues: Vec<KindQueueCursor>,
    /// The newest of each kind queue that is not over.
    heads: BinaryHeap<(Numbered, usize)>,
}

struct KindQueueCursor {
    kind_queue: i64,
    behind: VecDeque<Numbered>,
    /// Where to read on; `None` when all is read.
    before: Option<Vec<u8>>,
}

impl<'c> Newest<'c> {
    fn of(connection: &'c Connection, kind_queues: Vec<i64>, before: Option<TaskId>) -> Read<Self> {
        // Without a place to start from, one above every id: so the index is always entered at a place.
        let before = before.map_or(vec![0xff; 17], |id| id_bytes(id).to_vec());
        let kind_queue = |kind_queue| KindQueueCursor {
            kind_queue,
            behind: VecDeque::new(),
            before: Some(before.clone()),
        };
        let kind_queues: Vec<KindQueueCursor> = kind_queues.into_iter().map(kind_queue).collect();
        let mut newest =
            Self { connection, heads: BinaryHeap::with_capacity(kind_queues.len()), kind_queues };
        for kind_queue in 0..newest.kind_queues.len() {
            newest.read_on(kind_queue, 1)?;
            newest.step(kind_queue);
        }
        Ok(newest)
    }

    fn next(&mut self) -> Read<Option<Numbered>> {
        let Some((task, kind_queue)) = self.heads.pop() else { return Ok(None) };
        if self.kind_queues[kind_queue].behind.is_empty() {
            self.read_on(kind_queue, RUN)?;
        }
        self.step(kind_queue);
        Ok(Some(task))
    }

    fn step(&mut self, kind_queue: usize) {
        if let Some(head) = self.kind_queues[kind_queue].behind.pop_front() {
            self.heads.push((head, kind_queue));
        }
    }

    fn read_on(&mut self, kind_queue: usize, many: usize) -> Read<()> {
        let kind_queue = &mut self.kind_queues[kind_queue];
        let Some(before) = kind_queue.before.take() else { return Ok(()) };
        let mut statement = self.connection.prepare_cached(
            "SELECT i.id, i.row FROM inputs i INDEXED BY inputs_by_lane
             WHERE i.lane = ?1 AND i.id < ?2 ORDER BY i.id DESC LIMIT ?3",
        )?;
        let read = statement.query_map((kind_queue.kind_queue, before, many as i64), |row| {
            let mut columns = Columns::of(row);
            Ok(Numbered { id: columns.task_id()?, row: columns.take()? })
        })?;
        kind_queue.behind.extend(read.collect::<Read<Vec<Numbered>>>()?);
        if kind_queue.behind.len() == many {
            kind_queue.before = kind_queue.behind.back().map(|last| id_bytes(last.id).to_vec());
        }
        Ok(())
    }
}

/// The task in this row, if it passes what no index knows.
fn wanted(connection: &Connection, row: i64, filter: &Filter) -> Read<Option<Listed>> {
    if let Some(state) = filter.state
        && !is_in(connection, row, state)?
    {
        return Ok(None);
    }
    if let Some((name, value)) = &filter.label
        && !is_labelled(connection, row, name, value)?
    {
        return Ok(None);
    }
    listed(connection, row, filter.bodies)
}

fn is_in(connection: &Connection, row: i64, state: State) -> Read<bool> {
    let sql = if state.is_terminal() {
        "SELECT 1 FROM done WHERE row = ?1 AND state = ?2"
    } else {
        "SELECT 1 FROM live WHERE row = ?1 AND state = ?2"
    };
    connection.prepare_cached(sql)?.exists((row, state.name()))
}

fn is_labelled(connection: &Connection, row: i64, name: &str, value: &str) -> Read<bool> {
    connection
        .prepare_cached(
            "SELECT 1 FROM inputs i, json_each(i.labels) j
             WHERE i.row = ?1 AND j.key = ?2 AND j.value = ?3",
        )?
        .exists((row, name, value))
}

/// `None` for a task that is neither live nor done: the integrity check reports it.
fn listed(connection: &Connection, row: i64, bodies: Bodies) -> Read<Option<Listed>> {
    let (id, subject) = match reads::live(connection, row)? {
        Some(live) => (live.task.id, Subject::Live(live.task)),
        None => match ended(connection, row, bodies)? {
            Some(done) => (done.id, Subject::Done(done)),
            None => return Ok(None),
        },
    };
    let (spec, submitted) = submission(connection, row, id, bodies)?;
    Ok(Some(Listed { task: StoredTask { subject, spec }, submitted }))
}

fn ended(connection: &Connection, row: i64, bodies: Bodies) -> Read<Option<verdict::Done>> {
    let from = "done d JOIN inputs i ON i.row = d.row JOIN lanes n ON n.lane = i.lane";
    let columns = format!("i.id, {NAMES}, {}", listed_done(bodies, WITHOUT_TRACE));
    connection
        .prepare_cached(&reads::select(&columns, &format!("{from} WHERE d.row = ?1")))?
        .query_row([row], |row| rows::done(&mut Columns::of(row)))
        .optional()
}

/// What was submitted. Rows from before there were inline histories have the first entry in `history`.
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
    use crate::memory::ManualClock;

    /// Tenants beside the one that asks.
    const OTHERS: i64 = 50;
    /// What the one that asks has: older than everything else.
    const OURS: i64 = 40;

    /// A store in which fifty tenants have ended so many tasks each, and one a few.
    fn crowded(folder: &tempfile::TempDir, each: i64) -> Connection {
        let path = folder.path().join("tenure.db");
        let options = Options::new(Arc::new(ManualClock::default()));
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
                 {count} INSERT INTO done (row, state, completed_at, attempt, failures, lost,
                    claim_version, entries, record)
                 SELECT i, 'cancelled', 0, 0, 0, 0, 0, 1, zeroblob(32) FROM n;
                 COMMIT;"
            ))
            .unwrap();
        connection
    }

    /// What a list gives, and how many steps SQLite's machine takes for it.
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

    fn red() -> Filter {
        let label = Some(("team".to_owned(), "red".to_owned()));
        Filter { limit: 10, label, ..Filter::default() }
    }

    #[test]
    fn a_list_costs_the_same_however_much_other_tenants_have() {
        // F72: what others have ended is not visited, whether the list is filtered or not.
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
    fn a_filter_that_nothing_passes_looks_at_so_many_tasks() {
        // F72: a label that nobody has costs what is looked at, not what there is.
        let folder = tempfile::tempdir().unwrap();
        let mut connection = crowded(&folder, 2_000);
        let label = Some(("team".to_owned(), "blue".to_owned()));
        let steps = |scan_max: usize, connection: &mut Connection| {
            let filter = Filter { limit: 10, scan_max, label: label.clone(), ..Filter::default() };
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
