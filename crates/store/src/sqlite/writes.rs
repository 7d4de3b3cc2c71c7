//! Writing rows. Only statements: the batch chooses which ones, and in which order.

use rusqlite::{Connection, Statement, ToSql, params};
use verdict::{ClosedAttempt, Done, Task};

use super::ready_index::KindQueueId;
use super::rows::LiveRow;
use super::statements::{BatchStatement, Statements};
pub(super) use crate::cells::TaskIdentity;
use crate::cells::{self, Cells};
use crate::codec::inline_history::InlineHistory;
use crate::row::{Entry, Refused, Spec};

type Written<T> = rusqlite::Result<T>;

/// Binds cells as parameters of one statement, which is executed at the end.
struct Binding<'s, 'c> {
    statement: &'s mut Statement<'c>,
    bound: usize,
    /// The first error; after it no further parameter is bound.
    refused: Written<()>,
}

impl<'s, 'c> Binding<'s, 'c> {
    fn of(statement: &'s mut Statement<'c>) -> Self {
        Self { statement, bound: 0, refused: Ok(()) }
    }

    fn bind(&mut self, value: impl ToSql) -> &mut Self {
        self.bound += 1;
        if self.refused.is_ok() {
            self.refused = self.statement.raw_bind_parameter(self.bound, value);
        }
        self
    }

    fn execute(self) -> Written<usize> {
        self.refused?;
        self.statement.raw_execute()
    }
}

impl Cells for Binding<'_, '_> {
    fn text(&mut self, value: Option<&str>) -> &mut Self {
        self.bind(value)
    }

    fn bytes(&mut self, value: Option<&[u8]>) -> &mut Self {
        self.bind(value)
    }

    fn int(&mut self, value: i32) -> &mut Self {
        self.bind(value)
    }

    fn count(&mut self, value: u32) -> &mut Self {
        self.bind(value)
    }

    fn long(&mut self, value: Option<i64>) -> &mut Self {
        self.bind(value)
    }

    fn flag(&mut self, value: Option<bool>) -> &mut Self {
        self.bind(value)
    }
}

/// Numbers a new kind queue: the largest number plus one.
pub(super) fn kind_queue(connection: &Connection, task: TaskIdentity<'_>) -> Written<KindQueueId> {
    connection
        .prepare_cached(
            "INSERT INTO lanes (lane, tenant, workspace, queue, kind)
             VALUES ((SELECT coalesce(max(lane) + 1, 0) FROM lanes), ?1, ?2, ?3, ?4)
             RETURNING lane",
        )?
        .query_row(
            params![
                task.scope.tenant.as_str(),
                task.scope.workspace.as_str(),
                task.queue.as_str(),
                task.kind.as_str(),
            ],
            |row| row.get(0).map(KindQueueId),
        )
}

/// Records that the kind queue has tasks in this block of rows.
pub(super) fn block(connection: &Connection, kind_queue: KindQueueId, block: i64) -> Written<()> {
    let sql = "INSERT INTO lane_blocks (lane, block) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    connection.prepare_cached(sql)?.execute(params![kind_queue.0, block]).map(drop)
}

/// A row of `inputs`.
#[derive(Clone, Copy)]
pub(super) struct Input<'a> {
    pub(super) row: i64,
    pub(super) kind_queue: KindQueueId,
    pub(super) task: TaskIdentity<'a>,
    pub(super) policy: Option<&'a verdict::Policy>,
    pub(super) spec: &'a Spec,
    pub(super) inline_history: &'a InlineHistory,
}

pub(super) fn input(statements: &mut Statements<'_>, input: Input<'_>) -> Written<()> {
    let Input { row, kind_queue, task, policy, spec, inline_history } = input;
    let statement = statements.get(
        BatchStatement::Input,
        "INSERT INTO inputs (row, id, lane, priority, created_at, terms, fingerprint, key,
            goal, task_key, asset_id, resources, labels, traceparent, input, tale)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
    )?;
    let mut cells = Binding::of(statement);
    cells.long(Some(row)).id(task.id).long(Some(kind_queue.0.into()));
    cells::input(&mut cells, task, policy, spec, inline_history);
    cells.execute().map(drop)
}

const LIVE_INSERT: &str = "INSERT INTO live (state, revision, due, wakes_at, started_at, attempt,
        failures, lost, undelivered, claim_version, decided_at, entries, chain, cancel, lease,
        owner, poll, fence, acquired_at, heartbeat_at, expires_at, attempt_at, heard, progress,
        tale, row, id, lane, priority, lease_ms)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19,
        ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30)";

const LIVE_UPDATE: &str = "UPDATE live SET state = ?1, revision = ?2, due = ?3, wakes_at = ?4,
        started_at = ?5, attempt = ?6, failures = ?7, lost = ?8, undelivered = ?9,
        claim_version = ?10, decided_at = ?11, entries = ?12, chain = ?13, cancel = ?14,
        lease = ?15, owner = ?16, poll = ?17, fence = ?18, acquired_at = ?19, heartbeat_at = ?20,
        expires_at = ?21, attempt_at = ?22, heard = ?23, progress = ?24, tale = ?25
    WHERE row = ?26 AND revision = ?27";

pub(super) fn live_insert(statements: &mut Statements<'_>, live: &LiveRow) -> Written<()> {
    let LiveRow { row, kind_queue, task, inline_history } = live;
    let mut cells = Binding::of(statements.get(BatchStatement::LiveInsert, LIVE_INSERT)?);
    cells::changing(&mut cells, task, inline_history);
    cells.long(Some(*row)).id(task.id).long(Some(kind_queue.0.into())).int(task.priority);
    cells.long(Some(task.policy.lease.millis() as i64));
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
    let mut cells = Binding::of(statements.get(BatchStatement::LiveUpdate, LIVE_UPDATE)?);
    cells::changing(&mut cells, task, inline_history);
    cells.long(Some(row)).count(before);
    cells.execute()
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
    let statement = statements.get(
        BatchStatement::Done,
        "INSERT INTO done (row, state, reason, started_at, completed_at, attempt, failures,
            lost, claim_version, entries, record, cancel, fault, output, tale)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
    )?;
    let mut cells = Binding::of(statement);
    cells.long(Some(row));
    cells::done(&mut cells, done, inline_history);
    cells.execute().map(drop)
}

pub(super) fn attempt(
    statements: &mut Statements<'_>,
    row: i64,
    closed: &ClosedAttempt,
) -> Written<()> {
    let statement = statements.get(
        BatchStatement::Attempt,
        "INSERT INTO attempts (task, attempt, lease, fence, owner, granted_at, started_at,
            closed_at, outcome, reason, report, fault, claims)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
    )?;
    let mut cells = Binding::of(statement);
    cells.long(Some(row));
    cells::attempt(&mut cells, closed);
    cells.execute().map(drop)
}

pub(super) fn entry(connection: &Connection, row: i64, entry: &Entry) -> Written<()> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO history (task, n, at, epoch, rules, request, loaded, events)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    let mut cells = Binding::of(&mut statement);
    cells.long(Some(row));
    cells::entry(&mut cells, entry);
    cells.execute().map(drop)
}

/// Stores the first refusal of its kind under a lease; later ones add nothing.
pub(super) fn refused(connection: &Connection, row: i64, refused: &Refused) -> Written<()> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO refused (task, lease, call, code, attempt, worker, stamp, digest, at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
         ON CONFLICT (task, lease, call, code) DO NOTHING",
    )?;
    let mut cells = Binding::of(&mut statement);
    cells.long(Some(row));
    cells::refused(&mut cells, refused);
    cells.execute().map(drop)
}

pub(super) fn clock(connection: &Connection, now: verdict::Time) -> Written<()> {
    connection
        .prepare_cached("UPDATE meta SET clock = max(coalesce(clock, ?1), ?1)")?
        .execute([now.millis()])?;
    Ok(())
}
