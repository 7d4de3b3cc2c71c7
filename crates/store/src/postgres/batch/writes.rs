//! Writing rows. Statements only; the batch decides which rows are written, and in which order.

use std::sync::LazyLock;

use verdict::{ClosedAttempt, Done, Scope, Task, TaskId, Time};

use super::column_batch::ColumnType::{Bool, Bytes, Int, Long, Text};
use super::column_batch::{ColumnBatch, ColumnDefs, Rows, Statement, names};
use super::commit;
pub(in crate::postgres) use crate::cells::TaskIdentity;
use crate::cells::{self, Cells};
use crate::codec::inline_history::InlineHistory;
use crate::columns::id_bytes;
use crate::postgres::ready::queue_position::QueuePosition;
use crate::row::{Entry, IdempotencyKey, KeyOwner, Refused, Spec};

pub(in crate::postgres) const INPUTS: ColumnDefs = &[
    ("id", Bytes),
    ("tenant", Text),
    ("workspace", Text),
    ("queue", Text),
    ("kind", Text),
    ("priority", Int),
    ("created_at", Long),
    ("terms", Bytes),
    ("fingerprint", Bytes),
    ("key", Text),
    ("goal", Text),
    ("task_key", Text),
    ("asset_id", Text),
    ("resources", Text),
    ("labels", Text),
    ("traceparent", Text),
    ("input", Text),
    ("tale", Bytes),
];

/// The columns that change during the life of a task, after those that name it.
const LIVE: ColumnDefs = &[
    ("id", Bytes),
    ("tenant", Text),
    ("workspace", Text),
    ("state", Text),
    ("revision", Int),
    ("due", Long),
    ("wakes_at", Long),
    ("started_at", Long),
    ("attempt", Int),
    ("failures", Int),
    ("lost", Int),
    ("undelivered", Int),
    ("claim_version", Int),
    ("decided_at", Long),
    ("entries", Int),
    ("chain", Bytes),
    ("cancel", Text),
    ("lease", Bytes),
    ("owner", Text),
    ("poll", Text),
    ("fence", Long),
    ("acquired_at", Long),
    ("heartbeat_at", Long),
    ("expires_at", Long),
    ("attempt_at", Long),
    ("heard", Bool),
    ("progress", Text),
    ("tale", Bytes),
    ("delayed", Bool),
    ("alarm_at", Long),
    // The queue position of a new task, then the guard of a changed one.
    ("queue", Text),
    ("kind", Text),
    ("place", Bytes),
    ("priority", Int),
    ("lease_ms", Long),
    ("before", Int),
    ("entries_before", Int),
];

/// How many of [`LIVE`]'s columns name the task, and how many an update sets after those.
const NAMING: usize = 3;
const CHANGING: usize = 27;
/// How many columns a new row has: all but the two of the guard.
const INSERTED: usize = LIVE.len() - 2;

const ENDED: ColumnDefs = &[
    ("id", Bytes),
    ("tenant", Text),
    ("workspace", Text),
    ("before", Int),
    ("entries_before", Int),
];

const DONE: ColumnDefs = &[
    ("id", Bytes),
    ("tenant", Text),
    ("workspace", Text),
    ("state", Text),
    ("reason", Text),
    ("started_at", Long),
    ("completed_at", Long),
    ("attempt", Int),
    ("failures", Int),
    ("lost", Int),
    ("claim_version", Int),
    ("entries", Int),
    ("record", Bytes),
    ("cancel", Text),
    ("fault", Text),
    ("output", Text),
    ("tale", Bytes),
];

const ATTEMPTS: ColumnDefs = &[
    ("task", Bytes),
    ("tenant", Text),
    ("workspace", Text),
    ("attempt", Int),
    ("lease", Bytes),
    ("fence", Long),
    ("owner", Text),
    ("granted_at", Long),
    ("started_at", Long),
    ("closed_at", Long),
    ("outcome", Text),
    ("reason", Text),
    ("report", Bytes),
    ("fault", Text),
    ("claims", Text),
];

const HISTORY: ColumnDefs = &[
    ("task", Bytes),
    ("tenant", Text),
    ("workspace", Text),
    ("n", Int),
    ("at", Long),
    ("epoch", Int),
    ("rules", Int),
    ("request", Text),
    ("loaded", Text),
    ("events", Text),
];

const REFUSED: ColumnDefs = &[
    ("task", Bytes),
    ("tenant", Text),
    ("workspace", Text),
    ("lease", Bytes),
    ("call", Text),
    ("code", Text),
    ("attempt", Int),
    ("worker", Text),
    ("stamp", Text),
    ("digest", Bytes),
    ("at", Long),
];

const KEYS: ColumnDefs = &[
    ("tenant", Text),
    ("workspace", Text),
    ("key", Text),
    ("task", Bytes),
    ("fingerprint", Bytes),
    ("seen", Bytes),
];

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
}

impl ColumnBatches {
    /// Whether every value fits its column.
    pub(in crate::postgres) fn all_fit(&self) -> bool {
        let Self { inputs, new_live, changed, ended, done, attempts, history, refused, keys } =
            self;
        [inputs, new_live, changed, ended, done, attempts, history, refused, keys]
            .iter()
            .all(|column_batch| column_batch.fits_columns())
    }

    pub(in crate::postgres) fn new() -> Self {
        Self {
            inputs: ColumnBatch::new(INPUTS),
            new_live: ColumnBatch::new(LIVE),
            changed: ColumnBatch::new(LIVE),
            ended: ColumnBatch::new(ENDED),
            done: ColumnBatch::new(DONE),
            attempts: ColumnBatch::new(ATTEMPTS),
            history: ColumnBatch::new(HISTORY),
            refused: ColumnBatch::new(REFUSED),
            keys: ColumnBatch::new(KEYS),
        }
    }
}

/// The guard of a change: the revision and the number of history entries that were loaded.
#[derive(Clone, Copy)]
pub(in crate::postgres) struct Guard {
    pub(in crate::postgres) before: u32,
    pub(in crate::postgres) entries_before: Option<u32>,
}

fn begin_row<'s>(
    column_batch: &'s mut ColumnBatch,
    id: TaskId,
    scope: &Scope,
) -> &'s mut ColumnBatch {
    column_batch.row().id(id).name(&scope.tenant).name(&scope.workspace)
}

pub(in crate::postgres) fn input(
    column_batch: &mut ColumnBatch,
    task: TaskIdentity<'_>,
    policy: Option<&verdict::Policy>,
    spec: &Spec,
    inline_history: &InlineHistory,
) {
    let column_batch =
        begin_row(column_batch, task.id, task.scope).name(task.queue).name(task.kind);
    cells::input(column_batch, task, policy, spec, inline_history);
}

/// Adds a live task, new or changed.
pub(in crate::postgres) fn live(
    column_batch: &mut ColumnBatch,
    task: &Task,
    inline_history: &InlineHistory,
    now: Time,
    alarm_at: Option<Time>,
    guard: Option<Guard>,
) {
    let column_batch = begin_row(column_batch, task.id, &task.scope);
    cells::changing(column_batch, task, inline_history);
    column_batch
        .flag(Some(task.claimable_at().is_some_and(|due| !due.has_come(now))))
        .optional_time(alarm_at)
        .name(&task.queue)
        .name(&task.kind)
        .bytes(Some(QueuePosition::new(task.priority, task.id).bytes()))
        .int(task.priority)
        .long(Some(task.policy.lease.millis() as i64))
        .optional_count(guard.map(|guard| guard.before))
        .optional_count(guard.and_then(|guard| guard.entries_before));
}

pub(in crate::postgres) fn ended(
    column_batch: &mut ColumnBatch,
    id: TaskId,
    scope: &Scope,
    guard: Guard,
) {
    begin_row(column_batch, id, scope).count(guard.before).optional_count(guard.entries_before);
}

pub(in crate::postgres) fn done(
    column_batch: &mut ColumnBatch,
    done: &Done,
    inline_history: &InlineHistory,
) {
    cells::done(begin_row(column_batch, done.id, &done.scope), done, inline_history);
}

pub(in crate::postgres) fn attempt(
    column_batch: &mut ColumnBatch,
    scope: &Scope,
    closed: &ClosedAttempt,
) {
    cells::attempt(begin_row(column_batch, closed.task, scope), closed);
}

pub(in crate::postgres) fn entry(
    column_batch: &mut ColumnBatch,
    id: TaskId,
    scope: &Scope,
    entry: &Entry,
) {
    cells::entry(begin_row(column_batch, id, scope), entry);
}

pub(in crate::postgres) fn refused(column_batch: &mut ColumnBatch, refused: &Refused) {
    cells::refused(begin_row(column_batch, refused.task.id, &refused.task.scope), refused);
}

/// Adds a key with the task that owns it from now on, and the task that owned it when it was read.
pub(in crate::postgres) fn key(
    column_batch: &mut ColumnBatch,
    key: &IdempotencyKey,
    held: &KeyOwner,
    seen: Option<TaskId>,
) {
    column_batch
        .row()
        .name(&key.scope.tenant)
        .name(&key.scope.workspace)
        .text(Some(key.text.as_str()))
        .id(held.task)
        .bytes(Some(held.fingerprint.bytes()))
        .bytes(seen.map(id_bytes).as_ref().map(|id| &id[..]));
}

fn insert(table: &str, column_defs: ColumnDefs, rows: &Rows, tail: &str) -> String {
    format!(
        "INSERT INTO tenure.{table} ({}) SELECT {} FROM {} ORDER BY u.ord {tail}",
        names(column_defs, "").join(", "),
        names(column_defs, "u.").join(", "),
        rows.table("u")
    )
}

/// Guards an update. If the row is no longer what was loaded, the statement fails by dividing by zero, and COMMIT,
/// which is sent without waiting for any answer, rolls back. Changed tasks were locked before, so their rows exist.
const UNCHANGED: &str = "1 / CASE WHEN l.revision = u.before \
    AND (u.entries_before IS NULL OR l.entries = u.entries_before) THEN 1 ELSE 0 END";

const NAMED: &str = "l.id = u.id AND l.tenant = u.tenant AND l.workspace = u.workspace";

/// Statements that batches repeat, to be prepared on direct connections.
pub(in crate::postgres) fn frequent_statements() -> impl Iterator<Item = &'static str> {
    let built: [&'static LazyLock<Statement>; 7] = [
        &INPUTS_INSERT,
        &LIVE_INSERT,
        &LIVE_UPDATE,
        &LIVE_DELETE,
        &DONE_INSERT,
        &ATTEMPTS_INSERT,
        &KEYS_WRITE,
    ];
    built.into_iter().flat_map(|statement| statement.texts()).chain([commit::MARK_BY])
}

pub(in crate::postgres) static INPUTS_INSERT: LazyLock<Statement> =
    LazyLock::new(|| inserting("inputs", INPUTS));

pub(in crate::postgres) static LIVE_INSERT: LazyLock<Statement> =
    LazyLock::new(|| Statement::over(LIVE, |rows| insert("live", &LIVE[..INSERTED], rows, "")));

pub(in crate::postgres) static LIVE_UPDATE: LazyLock<Statement> = LazyLock::new(|| {
    let set = |(name, _): &(&str, _)| match *name {
        "revision" => format!("revision = u.revision * ({UNCHANGED})"),
        name => format!("{name} = u.{name}"),
    };
    let set: Vec<String> = LIVE[NAMING..NAMING + CHANGING].iter().map(set).collect();
    let set = set.join(", ");
    Statement::over(LIVE, |rows| {
        format!("UPDATE tenure.live l SET {set} FROM {} WHERE {NAMED}", rows.table("u"))
    })
});

pub(in crate::postgres) static LIVE_DELETE: LazyLock<Statement> = LazyLock::new(|| {
    Statement::over(ENDED, |rows| {
        let table = rows.table("u");
        format!("DELETE FROM tenure.live l USING {table} WHERE {NAMED} RETURNING {UNCHANGED}")
    })
});

pub(in crate::postgres) static DONE_INSERT: LazyLock<Statement> =
    LazyLock::new(|| inserting("done", DONE));

pub(in crate::postgres) static ATTEMPTS_INSERT: LazyLock<Statement> =
    LazyLock::new(|| inserting("attempts", ATTEMPTS));

pub(in crate::postgres) static HISTORY_INSERT: LazyLock<Statement> =
    LazyLock::new(|| inserting("history", HISTORY));

fn inserting(table: &str, column_defs: ColumnDefs) -> Statement {
    Statement::over(column_defs, |rows| insert(table, column_defs, rows, ""))
}

/// Inserts the first refusal of its kind under a lease; later ones add no information. Calls about unknown tasks
/// leave no row. Rows are inserted in key order, so that two batches with the same refusals cannot deadlock; `ord` is
/// the order in which the calls arrived.
pub(in crate::postgres) static REFUSED_INSERT: LazyLock<Statement> = LazyLock::new(|| {
    Statement::over(REFUSED, |rows| {
        format!(
            "INSERT INTO tenure.refused ({}, ord) SELECT {}, u.ord FROM {} JOIN tenure.inputs i \
             ON i.id = u.task AND i.tenant = u.tenant AND i.workspace = u.workspace \
             ORDER BY u.task, u.lease, u.call, u.code, u.ord \
             ON CONFLICT (task, lease, call, code) DO NOTHING",
            names(REFUSED, "").join(", "),
            names(REFUSED, "u.").join(", "),
            rows.table("u")
        )
    })
});

/// Takes a key that has no owner, or whose owner is still the one that was read; otherwise it fails, as above. In key
/// order, so that two batches cannot deadlock.
pub(in crate::postgres) static KEYS_WRITE: LazyLock<Statement> = LazyLock::new(|| {
    Statement::over(KEYS, |rows| {
        format!(
            "INSERT INTO tenure.keys AS k (tenant, workspace, key, task, fingerprint) \
             SELECT u.tenant, u.workspace, u.key, u.task, u.fingerprint FROM {} ORDER BY u.ord \
             ON CONFLICT (tenant, workspace, key) DO UPDATE SET task = excluded.task, \
                fingerprint = CASE 1 / CASE WHEN (k.tenant, k.workspace, k.key, k.task) IN \
                    (SELECT v.tenant, v.workspace, v.key, v.seen FROM {}) THEN 1 ELSE 0 END \
                    WHEN 1 THEN excluded.fingerprint END",
            rows.table("u"),
            rows.table("v")
        )
    })
});
