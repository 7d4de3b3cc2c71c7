//! Writing rows. Only statements: the batch chooses which ones, and in which order.

use std::sync::LazyLock;

use rusqlite::{Connection, Statement, ToSql, params};
use verdict::{ClosedAttempt, Done, Subject, Task};

use super::ready_index::KindQueueId;
use super::rows::LiveRow;
use super::statements::{BatchStatement, Statements};
use super::tables::{
    ATTEMPTS, DONE, DoneKey, HISTORY, INPUTS, KEYS, Key, KeyUse, LANES, LIVE, LIVE_CHANGING,
    REFUSED, TaskRow,
};
use crate::cells::Cells;
pub(super) use crate::cells::TaskIdentity;
use crate::codec::inline_history::InlineHistory;
use crate::codec::packed_terms;
use crate::codec::payload_digest::digest_payloads;
use crate::row::{Entry, Refused, Spec};
use crate::tables::{
    self, Attempt, ColumnList, Created, Descent, DoneRun, DoneState, HistoryEntry, LeaseLength,
    LiveFlow, LiveLease, LiveRun, LiveState, LiveWake, Names, Priority, Refusal, Specification,
    Table, Tale, Terms, names,
};

type Written<T> = rusqlite::Result<T>;

/// Binds cells as parameters of one statement, which is executed at the end.
pub(super) struct Binding<'s, 'c> {
    statement: &'s mut Statement<'c>,
    columns: ColumnList,
    bound: usize,
    /// The first error; after it no further parameter is bound.
    refused: Written<()>,
}

impl<'s, 'c> Binding<'s, 'c> {
    pub(super) fn of(statement: &'s mut Statement<'c>, columns: ColumnList) -> Self {
        Self { statement, columns, bound: 0, refused: Ok(()) }
    }

    fn bind(&mut self, value: impl ToSql) -> &mut Self {
        self.bound += 1;
        if self.refused.is_ok() {
            self.refused = self.statement.raw_bind_parameter(self.bound, value);
        }
        self
    }

    pub(super) fn execute(self) -> Written<usize> {
        self.refused?;
        self.statement.raw_execute()
    }
}

impl Cells for Binding<'_, '_> {
    fn begin(&mut self, column: &'static str) {
        tables::expect_next(self.columns, self.bound, column);
    }

    fn text(&mut self, value: Option<&str>) -> &mut Self {
        self.bind(value)
    }

    fn bytes(&mut self, value: Option<&[u8]>) -> &mut Self {
        self.bind(value)
    }

    fn int(&mut self, value: Option<i32>) -> &mut Self {
        self.bind(value)
    }

    fn count(&mut self, value: Option<u32>) -> &mut Self {
        self.bind(value)
    }

    fn long(&mut self, value: Option<i64>) -> &mut Self {
        self.bind(value)
    }

    fn flag(&mut self, value: Option<bool>) -> &mut Self {
        self.bind(value)
    }
}

/// The INSERT of a row, with a parameter for each column.
pub(super) fn insert(table: &Table) -> String {
    let (columns, parameters) = (names(table.written, ""), parameters(table.written));
    format!("INSERT INTO {} ({columns}) VALUES ({parameters})", table.name)
}

fn parameters(columns: ColumnList) -> String {
    vec!["?"; columns.iter().map(|group| group.len()).sum()].join(", ")
}

/// Numbers a new kind queue: the largest number plus one.
pub(super) fn kind_queue(connection: &Connection, task: &TaskIdentity<'_>) -> Written<KindQueueId> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        let (columns, parameters) = (names(LANES.written, ""), parameters(LANES.written));
        format!(
            "INSERT INTO lanes ({columns}, lane)
             VALUES ({parameters}, (SELECT coalesce(max(lane) + 1, 0) FROM lanes)) RETURNING lane"
        )
    });
    let mut statement = connection.prepare_cached(&SQL)?;
    let mut cells = Binding::of(&mut statement, LANES.written);
    Names::write(&mut cells, task);
    cells.refused?;
    let mut rows = statement.raw_query();
    let row = rows.next()?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    row.get(0).map(KindQueueId)
}

/// Records that the kind queue has tasks in this block of rows.
pub(super) fn block(connection: &Connection, kind_queue: KindQueueId, block: i64) -> Written<()> {
    let sql = "INSERT INTO lane_blocks (lane, block) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    connection.prepare_cached(sql)?.execute(params![kind_queue.0, block]).map(drop)
}

/// A row of `inputs`.
pub(super) struct Input<'a> {
    pub(super) row: i64,
    pub(super) kind_queue: KindQueueId,
    pub(super) task: &'a TaskIdentity<'a>,
    pub(super) terms: Option<&'a packed_terms::Terms>,
    pub(super) spec: &'a Spec,
    pub(super) inline_history: &'a InlineHistory,
    pub(super) after: &'a Subject,
}

pub(super) fn input(statements: &mut Statements<'_>, input: Input<'_>) -> Written<()> {
    static SQL: LazyLock<String> = LazyLock::new(|| insert(&INPUTS));
    let Input { row, kind_queue, task, terms, spec, inline_history, after } = input;
    let statement = statements.get(BatchStatement::Input, &SQL)?;
    let mut cells = Binding::of(statement, INPUTS.written);
    Key::write(&mut cells, row, task.id, kind_queue);
    Priority::write(&mut cells, task.priority);
    Created::write(&mut cells, task.created_at);
    Terms::write(&mut cells, terms);
    Specification::write(&mut cells, spec);
    Tale::write(&mut cells, inline_history);
    Descent::write(&mut cells, after);
    cells.execute().map(drop)
}

/// Binds the columns that decisions change.
fn changing(cells: &mut Binding<'_, '_>, task: &Task, inline_history: &InlineHistory) {
    LiveState::write(cells, task);
    LiveLease::write(cells, task);
    LiveRun::write(cells, task);
    Tale::write(cells, inline_history);
    LiveWake::write(cells, task);
}

pub(super) fn live_insert(statements: &mut Statements<'_>, live: &LiveRow) -> Written<()> {
    static SQL: LazyLock<String> = LazyLock::new(|| insert(&LIVE));
    let LiveRow { row, kind_queue, task, inline_history } = live;
    let statement = statements.get(BatchStatement::LiveInsert, &SQL)?;
    let mut cells = Binding::of(statement, LIVE.written);
    changing(&mut cells, task, inline_history);
    Key::write(&mut cells, *row, task.id, *kind_queue);
    Priority::write(&mut cells, task.priority);
    LeaseLength::write(&mut cells, task);
    LiveFlow::write(&mut cells, task);
    cells.execute().map(drop)
}

/// How many rows had this revision: one, or none if another writer changed the task first.
pub(super) fn live_update(
    statements: &mut Statements<'_>,
    row: i64,
    before: u32,
    task: &Task,
    inline_history: &InlineHistory,
) -> Written<usize> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        let set = names(LIVE_CHANGING, "").replace(", ", " = ?, ");
        format!("UPDATE live SET {set} = ? WHERE row = ? AND revision = ?")
    });
    let statement = statements.get(BatchStatement::LiveUpdate, &SQL)?;
    let mut cells = Binding::of(statement, LIVE_CHANGING);
    changing(&mut cells, task, inline_history);
    cells.long(Some(row)).count(Some(before));
    cells.execute()
}

/// Puts a task that is in another stage, or that is or was pinned to a build, into its kind queue. The run of the row is not
/// NULL: a trigger asks for it.
pub(super) fn live_move(
    connection: &Connection,
    row: i64,
    kind_queue: KindQueueId,
    task: &Task,
) -> Written<()> {
    let lease_ms = i64::try_from(task.policy.lease.millis()).unwrap_or(i64::MAX);
    connection
        .prepare_cached("UPDATE live SET lane = ?2, lease_ms = ?3 WHERE row = ?1")?
        .execute(params![row, kind_queue.0, lease_ms])
        .map(drop)
}

pub(super) fn live_delete(
    statements: &mut Statements<'_>,
    row: i64,
    before: u32,
) -> Written<usize> {
    statements
        .get(BatchStatement::LiveDelete, "DELETE FROM live WHERE row = ?1 AND revision = ?2")?
        .execute(params![row, before])
}

pub(super) fn done_insert(
    statements: &mut Statements<'_>,
    row: i64,
    done: &Done,
    inline_history: &InlineHistory,
) -> Written<()> {
    static SQL: LazyLock<String> = LazyLock::new(|| insert(&DONE));
    let mut cells = Binding::of(statements.get(BatchStatement::Done, &SQL)?, DONE.written);
    DoneKey::write(&mut cells, row);
    DoneState::write(&mut cells, done);
    DoneRun::write(&mut cells, done.run.as_deref());
    Tale::write(&mut cells, inline_history);
    cells.execute().map(drop)
}

pub(super) fn attempt(
    statements: &mut Statements<'_>,
    row: i64,
    closed: &ClosedAttempt,
) -> Written<()> {
    static SQL: LazyLock<String> = LazyLock::new(|| insert(&ATTEMPTS));
    let mut cells = Binding::of(statements.get(BatchStatement::Attempt, &SQL)?, ATTEMPTS.written);
    TaskRow::write(&mut cells, row);
    Attempt::write(&mut cells, closed);
    cells.execute().map(drop)
}

pub(super) fn entry(statements: &mut Statements<'_>, row: i64, entry: &Entry) -> Written<()> {
    static SQL: LazyLock<String> = LazyLock::new(|| insert(&HISTORY));
    let mut cells = Binding::of(statements.get(BatchStatement::Entry, &SQL)?, HISTORY.written);
    TaskRow::write(&mut cells, row);
    HistoryEntry::write(&mut cells, &digest_payloads(entry));
    cells.execute().map(drop)
}

/// Stores the first refusal of its kind under a lease; later ones add nothing.
pub(super) fn refused(connection: &Connection, row: i64, refused: &Refused) -> Written<()> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        format!("{} ON CONFLICT (task, lease, call, code) DO NOTHING", insert(&REFUSED))
    });
    let mut statement = connection.prepare_cached(&SQL)?;
    let mut cells = Binding::of(&mut statement, REFUSED.written);
    TaskRow::write(&mut cells, row);
    Refusal::write(&mut cells, refused);
    cells.execute().map(drop)
}

/// Deletes the items of a long wait with the end of its task: the history has them.
pub(super) fn wait_delete(connection: &Connection, row: i64) -> Written<()> {
    connection.prepare_cached("DELETE FROM waits WHERE task = ?1")?.execute([row]).map(drop)
}

/// Records the use of an idempotency key.
pub(super) fn key(connection: &Connection, hour: i64, hash: u64, row: i64) -> Written<()> {
    static SQL: LazyLock<String> = LazyLock::new(|| insert(&KEYS));
    let mut statement = connection.prepare_cached(&SQL)?;
    let mut cells = Binding::of(&mut statement, KEYS.written);
    KeyUse::write(&mut cells, hour, hash, row);
    cells.execute().map(drop)
}

pub(super) fn clock(connection: &Connection, now: verdict::Time) -> Written<()> {
    connection
        .prepare_cached("UPDATE meta SET clock = max(coalesce(clock, ?1), ?1)")?
        .execute([now.millis()])?;
    Ok(())
}
