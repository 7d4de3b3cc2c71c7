//! The columns of the tables that hold tasks, listed once for both engines.
//!
//! A group is a list of columns that are written together. Each line has the name of a column, its type, and the value
//! that is written to it. From a group follow the lists in statements, the order of parameters, the reader, and what
//! `moving` and `verify` compare. The engines add their keys and compose the groups of each table
//! (`sqlite/tables.rs`, `postgres/tables.rs`).
//!
//! A new column is one line here and a migration. The reader does not compile until it uses the column, and a test
//! compares the tables with the schemas of both databases.
//!
//! Not here: which rows are read or written, and when. Nothing here decides anything.
//!
//! Invariants: a group is written and read in the order of its lines. Debug builds compare the name of every column
//! that is written or read with the statement.

mod cell;
mod objects;
mod runs;
mod text;

use std::collections::BTreeMap;

use verdict::flow::{Hold, Rate};
use verdict::{
    AttemptOutcome, CancelRequest, ClosedAttempt, Digest, Done, Fault, Fence, Json, LeaseId, Name,
    Progress, ProgressMark, Reason, Request, Span, State, Task, Text, Time, WorkerVerdict,
};

pub(crate) use self::cell::{ColumnValue, Kind};
#[cfg(feature = "postgres")]
pub(crate) use self::objects::UniqueKeyColumns;
pub(crate) use self::objects::{
    OBJECT, OBJECT_LOG, ObjectColumns, ObjectKeyColumns, ObjectLogColumns, object, object_change,
};
pub(crate) use self::runs::{
    CheckpointColumns, CheckpointRow, ChildColumns, ChildRow, CountColumns, Descent, DoneRun,
    DoneRunRow, EdgeColumns, LiveRun, LiveRunRow, MessageColumns, MessageKeyColumns, MessageKeyRow,
    MessageRow, SignalColumns, SignalRow, StepColumns, StepColumnsRow, WaitColumns, long_wait,
    present_policy, result_of, with_items, with_result, with_stages,
};
pub(crate) use self::text::{list_len, list_text, names};
use crate::cells::TaskIdentity;
use crate::codec::inline_history::InlineHistory;
use crate::codec::{delta, outcome_word, packed_terms};
use crate::row::{Entry, Refused, Renewals, Resources, Spec};

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) nullable: bool,
}

impl Column {
    /// The column that holds values of this type.
    pub(crate) const fn of<T: ColumnValue>(name: &'static str) -> Self {
        Self { name, kind: T::KIND, nullable: T::NULLABLE }
    }
}

/// The columns of several groups, in order.
pub(crate) type ColumnList = &'static [&'static [Column]];

/// A table of one engine.
#[derive(Clone, Copy)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    /// What an INSERT writes.
    pub(crate) written: ColumnList,
    /// Columns that no INSERT names: numbered by the database, or left from an older format.
    #[cfg_attr(not(feature = "testing"), expect(dead_code, reason = "only the schema test asks"))]
    pub(crate) unwritten: &'static [Column],
}

/// Checks in debug builds that a column is the next one of a list.
pub(crate) fn expect_next(list: ColumnList, position: usize, name: &str) {
    if cfg!(debug_assertions) {
        let next = list.iter().copied().flatten().nth(position).map(|column| column.name);
        assert!(next.is_none_or(|next| next == name), "{name} is written as {next:?}");
    }
}

/// Defines a group of columns: `Group(arguments) { column: Type = value, }`. With `reads Row`, the group can also be
/// read, into a struct of that name with a field for each column. Without values it can only be read.
macro_rules! columns {
    ($(#[$doc:meta])* $group:ident($($argument:ident: $of:ty),*) {
        $($column:ident: $type:ty = $value:expr,)*
    }) => {
        $(#[$doc])*
        pub(crate) struct $group;

        impl $group {
            pub(crate) const COLUMNS: &'static [$crate::tables::Column] =
                &[$($crate::tables::Column::of::<$type>(stringify!($column)),)*];

            pub(crate) fn write<C: $crate::cells::Cells>(cells: &mut C, $($argument: $of),*) {
                $(
                    cells.begin(stringify!($column));
                    <$type as $crate::tables::ColumnValue>::write($value, cells);
                )*
            }
        }
    };
    ($(#[$doc:meta])* $group:ident($($argument:ident: $of:ty),*) reads $row:ident {
        $($column:ident: $type:ty = $value:expr,)*
    }) => {
        $crate::tables::columns! {
            $(#[$doc])*
            $group($($argument: $of),*) { $($column: $type = $value,)* }
        }
        $crate::tables::columns! { @reader $group $row { $($column: $type,)* } }
    };
    ($(#[$doc:meta])* $group:ident reads $row:ident { $($column:ident: $type:ty,)* }) => {
        $(#[$doc])*
        pub(crate) struct $group;

        impl $group {
            pub(crate) const COLUMNS: &'static [$crate::tables::Column] =
                &[$($crate::tables::Column::of::<$type>(stringify!($column)),)*];
        }
        $crate::tables::columns! { @reader $group $row { $($column: $type,)* } }
    };
    (@reader $group:ident $row:ident { $($column:ident: $type:ty,)* }) => {
        pub(crate) struct $row {
            $(pub(crate) $column: $type,)*
        }

        impl $group {
            pub(crate) fn read<R: $crate::columns::Row>(
                columns: &mut $crate::columns::Columns<'_, R>,
            ) -> Result<$row, R::Error> {
                Ok($row { $($column: columns.column(stringify!($column))?,)* })
            }
        }
    };
}
pub(crate) use columns;

/// The columns of a group as a SELECT lists them, each after the letter of its table. A constant.
macro_rules! select {
    ($letter:literal, $group:ty) => {{
        const COLUMNS: &[$crate::tables::Column] = <$group>::COLUMNS;
        const BYTES: [u8; $crate::tables::list_len($letter, COLUMNS)] =
            $crate::tables::list_text($letter, COLUMNS);
        const TEXT: &str = match std::str::from_utf8(&BYTES) {
            Ok(text) => text,
            Err(_) => panic!("names of columns are text"),
        };
        TEXT
    }};
}
pub(crate) use select;

columns! {
    /// What a task is found by and offered under.
    Names(task: &TaskIdentity<'_>) reads NamesRow {
        tenant: Name = &task.scope.tenant,
        workspace: Name = &task.scope.workspace,
        queue: Name = &task.queue,
        kind: Name = task.kind,
    }
}

columns! {
    Priority(priority: i32) reads PriorityRow {
        priority: i32 = &priority,
    }
}

columns! {
    Created(created_at: Time) reads CreatedRow {
        created_at: Time = &created_at,
    }
}

columns! {
    /// The packed policy and stages; absent if the task ended in the commit that created it.
    Terms(terms: Option<&packed_terms::Terms>) reads TermsRow {
        terms: Option<packed_terms::Terms> = terms,
    }
}

columns! {
    /// The parts of a submission that no rule reads.
    Specification(spec: &Spec) reads SpecificationRow {
        fingerprint: Digest = &spec.fingerprint,
        key: Option<Text> = spec.key.as_ref(),
        goal: Option<Text> = spec.goal.as_ref(),
        task_key: Option<Name> = spec.task_key.as_ref(),
        asset_id: Option<Text> = spec.asset_id.as_ref(),
        resources: Option<Resources> = spec.resources.as_ref(),
        labels: BTreeMap<String, String> = &spec.labels,
        traceparent: Option<Text> = spec.traceparent.as_ref(),
        input: Json = &spec.input,
    }
}

columns! {
    /// The inline history: of the submission in `inputs`, of what follows in `live`, and then in `done`.
    Tale(inline_history: &InlineHistory) reads TaleRow {
        tale: InlineHistory = inline_history,
    }
}

columns! {
    /// What every decision about a live task may change.
    LiveState(task: &Task) reads LiveStateRow {
        state: State = &task.state(),
        revision: u32 = &task.revision,
        claimable_at: Option<Time> = task.claimable_at().as_ref(),
        started_at: Option<Time> = task.started_at.as_ref(),
        attempt: u32 = &task.attempt,
        failures: u32 = &task.failures,
        lost: u32 = &task.lost,
        undelivered: u32 = &task.undelivered,
        claim_version: u32 = &task.claim_version,
        decided_at: Time = &task.decided_at,
        entries: u32 = &task.entries,
        chain: Digest = &task.chain,
        cancel: Option<CancelRequest> = task.cancel.as_ref(),
    }
}

columns! {
    /// The lease of a running task; absent in every other state.
    LiveLease(task: &Task) reads LiveLeaseRow {
        lease: Option<LeaseId> = task.lease().map(|lease| &lease.id),
        owner: Option<Name> = task.lease().map(|lease| &lease.owner),
        poll: Option<Name> = task.lease().and_then(|lease| lease.poll.as_ref()),
        fence: Option<Fence> = task.lease().map(|lease| &lease.fence),
        acquired_at: Option<Time> = task.lease().map(|lease| &lease.acquired_at),
        heartbeat_at: Option<Time> = task.lease().map(|lease| &lease.heartbeat_at),
        expires_at: Option<Time> = task.lease().map(|lease| &lease.expires_at),
        attempt_at: Option<Time> = task.lease().and_then(|lease| lease.started_at.as_ref()),
        heard: Option<bool> = task.lease().map(|lease| &lease.heard),
        progress: Option<Progress> = task.lease().and_then(|lease| lease.progress.as_ref()),
        progressed_at: Option<Time> = progress_mark(task).map(|mark| &mark.at),
        stalled_at: Option<Time> = progress_mark(task).and_then(|mark| mark.stalled_at.as_ref()),
    }
}

fn progress_mark(task: &Task) -> Option<&ProgressMark> {
    task.lease().and_then(|lease| lease.progress_mark.as_ref())
}

columns! {
    /// When time alone changes a task. Derived by the rules, and read only to order tasks.
    LiveWake(task: &Task) {
        wakes_at: Option<Time> = task.wakes_at().as_ref(),
    }
}

columns! {
    /// The shortest silence of a coordinator that matters to an attempt of the task: usually the length of its lease.
    LeaseLength(task: &Task) {
        lease_ms: Span = &task.policy.shortest_silence(),
    }
}

columns! {
    /// The flow key of the task. Derived from its state, and read only to order tasks and to list keys.
    LiveFlow(task: &Task) {
        flow_key: Option<Name> = task.flow().map(|flow| &flow.name),
        flow_limit: Option<u32> = task.flow().map(|flow| &flow.limit),
        flow_rate: Option<Rate> = task.flow().and_then(|flow| flow.rate.as_ref()),
        debounced_until: Option<Time> = debounced_until(task).as_ref(),
        flow_life: Option<bool> = is_held_for_life(task).as_ref(),
    }
}

/// Whether the task holds its slot until it has ended; `None` if it does not.
fn is_held_for_life(task: &Task) -> Option<bool> {
    task.flow().filter(|flow| flow.hold == Hold::Life).map(|_| true)
}

/// Until when a newer submission may replace the task, as it was submitted.
fn debounced_until(task: &Task) -> Option<Time> {
    Some(task.flow()?.debounce?.until(task.created_at))
}

columns! {
    /// An ended task.
    DoneState(done: &Done) reads DoneStateRow {
        state: State = &done.end.state,
        reason: Option<Reason> = done.end.reason.as_ref(),
        started_at: Option<Time> = done.started_at.as_ref(),
        completed_at: Time = &done.completed_at,
        attempt: u32 = &done.attempt,
        failures: u32 = &done.failures,
        lost: u32 = &done.lost,
        claim_version: u32 = &done.claim_version,
        entries: u32 = &done.entries,
        record: Digest = &done.record,
        cancel: Option<CancelRequest> = done.cancel.as_ref(),
        fault: Option<Fault> = done.end.fault.as_ref(),
        output: Option<Json> = done.end.output.as_ref(),
    }
}

columns! {
    /// A closed attempt.
    Attempt(closed: &ClosedAttempt) reads AttemptRow {
        attempt: u32 = &closed.attempt,
        lease: LeaseId = &closed.lease,
        fence: Fence = &closed.fence,
        owner: Name = &closed.owner,
        granted_at: Time = &closed.granted_at,
        started_at: Option<Time> = closed.started_at.as_ref(),
        closed_at: Time = &closed.closed_at,
        outcome: AttemptOutcome = &outcome_word::stored(closed.outcome),
        reason: Option<Reason> = closed.reason.as_ref(),
        report: Option<Digest> = closed.report.as_ref(),
        fault: Option<Fault> = closed.fault.as_ref(),
        claims: Option<Json> = closed.claims.as_ref(),
    }
}

columns! {
    /// An entry of the history, without its payloads, which other rows have.
    HistoryEntry(entry: &Entry) reads HistoryEntryRow {
        n: u32 = &entry.n,
        at: Time = &entry.at,
        epoch: u32 = &entry.epoch,
        rules: u32 = &entry.rules,
        request: Request = &entry.request,
        loaded: Option<Renewals> = entry.loaded.as_ref(),
        events: String = &delta::write(&entry.request, &entry.events),
    }
}

columns! {
    /// A refused call.
    Refusal(refused: &Refused) reads RefusalRow {
        lease: LeaseId = &refused.lease,
        call: Name = &refused.call,
        code: Name = &refused.code,
        attempt: u32 = &refused.attempt,
        worker: Name = &refused.worker,
        stamp: WorkerVerdict = &refused.worker_verdict,
        digest: Option<Digest> = refused.digest.as_ref(),
        at: Time = &refused.at,
    }
}

/// The columns of a table, for the test that compares them with the schema.
#[cfg(feature = "testing")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableColumns {
    pub table: &'static str,
    /// Name, the database's name of the type, and whether NULL is allowed; sorted.
    pub columns: Vec<(&'static str, &'static str, bool)>,
}

#[cfg(feature = "testing")]
impl TableColumns {
    /// The engine passes how its database names a type.
    pub(crate) fn of(table: &Table, type_name: fn(Kind) -> &'static str) -> Self {
        let all = table.written.iter().copied().flatten().chain(table.unwritten);
        let mut columns: Vec<_> =
            all.map(|column| (column.name, type_name(column.kind), column.nullable)).collect();
        columns.sort_unstable();
        Self { table: table.name, columns }
    }
}
