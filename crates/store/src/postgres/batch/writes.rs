//! Writing rows. Statements only; the batch decides which rows are written, and in which order.

use std::sync::LazyLock;

use verdict::{ClosedAttempt, Done, Scope, Subject, Task, TaskId, Time};

use super::column_batch::{ColumnBatch, Rows, Statement};
use super::commit;
use super::run_writes::RunColumnBatches;
pub(in crate::postgres) use crate::cells::TaskIdentity;
use crate::codec::inline_history::InlineHistory;
use crate::codec::packed_terms;
use crate::codec::payload_digest::digest_payloads;
use crate::postgres::tables::{
    ATTEMPTS, Alarm, DONE, Delayed, Guarded, HISTORY, INPUTS, Id, KEYS, KEYS_TAKEN, KeyUse, LIVE,
    LIVE_CHANGED, LIVE_ENDED, LiveParent, Place, REFUSED, ScopedId, Seen, TaskRef,
};
use crate::row::{Entry, IdempotencyKey, KeyOwner, Refused, Spec};
use crate::tables::{
    Attempt, Column, Created, Descent, DoneRun, DoneState, HistoryEntry, LeaseLength, LiveFlow,
    LiveLease, LiveRun, LiveState, LiveWake, Names, Priority, Refusal, Specification, Table, Tale,
    Terms, names,
};

/// Everything that one batch writes: one column batch per statement, in the order in which they are sent.
pub(in crate::postgres) struct ColumnBatches {
    pub(in crate::postgres) inputs: ColumnBatch,
    pub(in crate::postgres) new_live: ColumnBatch,
    pub(in crate::postgres) changed: ColumnBatch,
    pub(in crate::postgres) ended: ColumnBatch,
    pub(in crate::postgres) done: ColumnBatch,
    pub(in crate::postgres) attempts: ColumnBatch,
    pub(in crate::postgres) history: ColumnBatch,
    pub(in crate::postgres) refused: ColumnBatch,
    pub(in crate::postgres) keys: ColumnBatch,
    /// Rows of durable runs.
    pub(in crate::postgres) runs: RunColumnBatches,
}

impl ColumnBatches {
    /// Whether every value fits its column.
    pub(in crate::postgres) fn all_fit(&self) -> bool {
        let Self { inputs, new_live, changed, ended, done, attempts, history, refused, keys, runs } =
            self;
        [inputs, new_live, changed, ended, done, attempts, history, refused, keys]
            .iter()
            .all(|column_batch| column_batch.fits_columns())
            && runs.all_fit()
    }

    /// The statements that have rows, in the order in which they are sent before the marker. Only keys are written after it.
    pub(super) fn before_marker(&self) -> impl Iterator<Item = (&'static Statement, &ColumnBatch)> {
        let fixed: [(&'static Statement, &ColumnBatch); 8] = [
            (&INPUTS_INSERT, &self.inputs),
            (&LIVE_INSERT, &self.new_live),
            (&LIVE_UPDATE, &self.changed),
            (&LIVE_DELETE, &self.ended),
            (&DONE_INSERT, &self.done),
            (&ATTEMPTS_INSERT, &self.attempts),
            (&HISTORY_INSERT, &self.history),
            (&REFUSED_INSERT, &self.refused),
        ];
        let all = fixed.into_iter().chain(self.runs.statements());
        all.filter(|(_, rows)| !rows.is_empty())
    }

    pub(in crate::postgres) fn new() -> Self {
        Self {
            inputs: ColumnBatch::new(INPUTS.written),
            new_live: ColumnBatch::new(LIVE.written),
            changed: ColumnBatch::new(LIVE_CHANGED),
            ended: ColumnBatch::new(LIVE_ENDED),
            done: ColumnBatch::new(DONE.written),
            attempts: ColumnBatch::new(ATTEMPTS.written),
            history: ColumnBatch::new(HISTORY.written),
            refused: ColumnBatch::new(REFUSED.written),
            keys: ColumnBatch::new(KEYS_TAKEN),
            runs: RunColumnBatches::default(),
        }
    }
}

/// The guard of a change: the revision and the number of history entries that were loaded.
#[derive(Clone, Copy)]
pub(in crate::postgres) struct Guard {
    pub(in crate::postgres) before: u32,
    pub(in crate::postgres) entries_before: Option<u32>,
}

pub(in crate::postgres) fn input(
    column_batch: &mut ColumnBatch,
    (task, subject): (&TaskIdentity<'_>, &Subject),
    spec: &Spec,
    inline_history: &InlineHistory,
) {
    let terms = subject.live().map(packed_terms::Terms::of);
    let cells = column_batch.row();
    Id::write(cells, task.id);
    Names::write(cells, task);
    Priority::write(cells, task.priority);
    Created::write(cells, task.created_at);
    Terms::write(cells, terms.as_ref());
    Specification::write(cells, spec);
    Descent::write(cells, subject);
    Tale::write(cells, inline_history);
}

/// A live task as it is written: with its inline history, the time of the batch, and its alarm.
#[derive(Clone, Copy)]
pub(in crate::postgres) struct LiveTask<'a> {
    pub(in crate::postgres) task: &'a Task,
    pub(in crate::postgres) inline_history: &'a InlineHistory,
    pub(in crate::postgres) now: Time,
    pub(in crate::postgres) alarm_at: Option<Time>,
    /// Whether it is out of the ready order, because its flow key is full.
    pub(in crate::postgres) is_parked: bool,
}

impl LiveTask<'_> {
    /// Adds the columns that decisions change.
    fn write_changing(self, cells: &mut ColumnBatch) {
        let Self { task, inline_history, now, alarm_at, is_parked } = self;
        LiveState::write(cells, task);
        LiveLease::write(cells, task);
        LiveRun::write(cells, task);
        Tale::write(cells, inline_history);
        LiveWake::write(cells, task);
        Alarm::write(cells, alarm_at);
        Delayed::write(cells, task, now, is_parked);
    }
}

pub(in crate::postgres) fn new_live(column_batch: &mut ColumnBatch, live: LiveTask<'_>) {
    let (cells, task) = (column_batch.row(), live.task);
    Id::write(cells, task.id);
    Names::write(cells, &TaskIdentity::live(task));
    Priority::write(cells, task.priority);
    Place::write(cells, task);
    LeaseLength::write(cells, task);
    LiveParent::write(cells, task);
    LiveFlow::write(cells, task);
    live.write_changing(cells);
}

pub(in crate::postgres) fn changed(
    column_batch: &mut ColumnBatch,
    live: LiveTask<'_>,
    guard: Guard,
) {
    let cells = column_batch.row();
    ScopedId::write(cells, live.task.id, &live.task.scope);
    live.write_changing(cells);
    Guarded::write(cells, Some(guard));
}

pub(in crate::postgres) fn ended(
    column_batch: &mut ColumnBatch,
    id: TaskId,
    scope: &Scope,
    guard: Guard,
) {
    let cells = column_batch.row();
    ScopedId::write(cells, id, scope);
    Guarded::write(cells, Some(guard));
}

pub(in crate::postgres) fn done(
    column_batch: &mut ColumnBatch,
    done: &Done,
    inline_history: &InlineHistory,
) {
    let cells = column_batch.row();
    ScopedId::write(cells, done.id, &done.scope);
    DoneState::write(cells, done);
    DoneRun::write(cells, done.run.as_deref());
    Tale::write(cells, inline_history);
}

pub(in crate::postgres) fn attempt(
    column_batch: &mut ColumnBatch,
    scope: &Scope,
    closed: &ClosedAttempt,
) {
    let cells = column_batch.row();
    TaskRef::write(cells, closed.task, scope);
    Attempt::write(cells, closed);
}

pub(in crate::postgres) fn entry(
    column_batch: &mut ColumnBatch,
    id: TaskId,
    scope: &Scope,
    entry: &Entry,
) {
    let cells = column_batch.row();
    TaskRef::write(cells, id, scope);
    HistoryEntry::write(cells, &digest_payloads(entry));
}

pub(in crate::postgres) fn refused(column_batch: &mut ColumnBatch, refused: &Refused) {
    let cells = column_batch.row();
    TaskRef::write(cells, refused.task.id, &refused.task.scope);
    Refusal::write(cells, refused);
}

/// Adds a key with the task that owns it from now on, and the task that owned it when it was read.
pub(in crate::postgres) fn key(
    column_batch: &mut ColumnBatch,
    key: &IdempotencyKey,
    held: &KeyOwner,
    seen: Option<TaskId>,
) {
    let cells = column_batch.row();
    KeyUse::write(cells, key, held);
    Seen::write(cells, seen);
}

pub(super) fn insert(table: &Table, rows: &Rows) -> String {
    format!(
        "INSERT INTO tenure.{} ({}) SELECT {} FROM {} ORDER BY u.ord",
        table.name,
        names(table.written, ""),
        names(table.written, "u."),
        rows.table("u")
    )
}

/// Guards an update. If the row is no longer what was loaded, the statement fails by dividing by zero, and COMMIT,
/// which is sent without waiting for any answer, rolls back. Changed tasks were locked before, so their rows exist.
const UNCHANGED: &str = "1 / CASE WHEN l.revision = u.before \
    AND (u.entries_before IS NULL OR l.entries = u.entries_before) THEN 1 ELSE 0 END";

const NAMED: &str = "l.id = u.id AND l.tenant = u.tenant AND l.workspace = u.workspace";

/// Statements that batches repeat, to be prepared on direct connections.
pub(super) fn frequent_statements() -> impl Iterator<Item = &'static str> {
    let built: [&'static LazyLock<Statement>; 9] = [
        &INPUTS_INSERT,
        &LIVE_INSERT,
        &LIVE_UPDATE,
        &LIVE_DELETE,
        &DONE_INSERT,
        &ATTEMPTS_INSERT,
        &HISTORY_INSERT,
        &REFUSED_INSERT,
        &KEYS_WRITE,
    ];
    built.into_iter().flat_map(|statement| statement.texts()).chain([commit::MARK_BY])
}

pub(in crate::postgres) static INPUTS_INSERT: LazyLock<Statement> =
    LazyLock::new(|| inserting(&INPUTS));

pub(in crate::postgres) static LIVE_INSERT: LazyLock<Statement> =
    LazyLock::new(|| inserting(&LIVE));

pub(in crate::postgres) static LIVE_UPDATE: LazyLock<Statement> = LazyLock::new(|| {
    let set = |column: &Column| match column.name {
        "revision" => format!("revision = u.revision * ({UNCHANGED})"),
        name => format!("{name} = u.{name}"),
    };
    let [_key, changing @ .., _guard] = LIVE_CHANGED else {
        unreachable!("a changed row has a key and a guard")
    };
    let set: Vec<String> = changing.iter().copied().flatten().map(set).collect();
    let set = set.join(", ");
    Statement::over(LIVE_CHANGED, |rows| {
        format!("UPDATE tenure.live l SET {set} FROM {} WHERE {NAMED}", rows.table("u"))
    })
});

pub(in crate::postgres) static LIVE_DELETE: LazyLock<Statement> = LazyLock::new(|| {
    Statement::over(LIVE_ENDED, |rows| {
        let table = rows.table("u");
        format!("DELETE FROM tenure.live l USING {table} WHERE {NAMED} RETURNING {UNCHANGED}")
    })
});

pub(in crate::postgres) static DONE_INSERT: LazyLock<Statement> =
    LazyLock::new(|| inserting(&DONE));

pub(in crate::postgres) static ATTEMPTS_INSERT: LazyLock<Statement> =
    LazyLock::new(|| inserting(&ATTEMPTS));

pub(in crate::postgres) static HISTORY_INSERT: LazyLock<Statement> =
    LazyLock::new(|| inserting(&HISTORY));

pub(super) fn inserting(table: &Table) -> Statement {
    Statement::over(table.written, |rows| insert(table, rows))
}

/// Inserts the first refusal of its kind under a lease; later ones add no information. Calls about unknown tasks
/// leave no row. Rows are inserted in key order, so that two batches with the same refusals cannot deadlock; `ord` is
/// the order in which the calls arrived.
pub(in crate::postgres) static REFUSED_INSERT: LazyLock<Statement> = LazyLock::new(|| {
    let written = REFUSED.written;
    Statement::over(written, |rows| {
        format!(
            "INSERT INTO tenure.refused ({}, ord) SELECT {}, u.ord FROM {} JOIN tenure.inputs i \
             ON i.id = u.task AND i.tenant = u.tenant AND i.workspace = u.workspace \
             ORDER BY u.task, u.lease, u.call, u.code, u.ord \
             ON CONFLICT (task, lease, call, code) DO NOTHING",
            names(written, ""),
            names(written, "u."),
            rows.table("u")
        )
    })
});

/// Takes a key that has no owner, or whose owner is still the one that was read; otherwise it fails, as above. In key
/// order, so that two batches cannot deadlock.
pub(in crate::postgres) static KEYS_WRITE: LazyLock<Statement> = LazyLock::new(|| {
    let (columns, values) = (names(KEYS.written, ""), names(KEYS.written, "u."));
    Statement::over(KEYS_TAKEN, |rows| {
        format!(
            "INSERT INTO tenure.keys AS k ({columns}) SELECT {values} FROM {} ORDER BY u.ord \
             ON CONFLICT (tenant, workspace, key) DO UPDATE SET task = excluded.task, \
                fingerprint = CASE 1 / CASE WHEN (k.tenant, k.workspace, k.key, k.task) IN \
                    (SELECT v.tenant, v.workspace, v.key, v.seen FROM {}) THEN 1 ELSE 0 END \
                    WHEN 1 THEN excluded.fingerprint END",
            rows.table("u"),
            rows.table("v")
        )
    })
});
