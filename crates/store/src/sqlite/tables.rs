//! The tables of this engine: its keys, and the shared groups of columns after them.
//!
//! Rows are numbered in the order of arrival, and the names of a task are in `lanes`. Everything else is in
//! [`crate::tables`].

use verdict::TaskId;

use super::ready_index::KindQueueId;
use crate::tables::{
    Attempt, CheckpointColumns, ChildColumns, Column, CountColumns, Created, Descent, DoneRun,
    DoneState, EdgeColumns, HistoryEntry, LeaseLength, LiveFlow, LiveLease, LiveRun, LiveState,
    LiveWake, MessageColumns, MessageKeyColumns, Names, ObjectColumns, ObjectKeyColumns,
    ObjectLogColumns, Priority, Refusal, SignalColumns, Specification, StepColumns, Table, Tale,
    Terms, WaitColumns, columns,
};

columns! {
    /// The key of `inputs` and of `live`.
    Key(row: i64, id: TaskId, kind_queue: KindQueueId) reads KeyRow {
        row: i64 = &row,
        id: TaskId = &id,
        lane: u32 = &kind_queue.0,
    }
}

columns! {
    DoneKey(row: i64) {
        row: i64 = &row,
    }
}

columns! {
    /// The task of a row that belongs to it, by its row.
    TaskRow(row: i64) {
        task: i64 = &row,
    }
}

columns! {
    /// An idempotency key by its hash, and the hour of its use.
    KeyUse(hour: i64, hash: u64, row: i64) {
        hour: i64 = &hour,
        hash: i64 = &(hash as i64),
        task: i64 = &row,
    }
}

/// Numbered by the database.
const NUMBER: Column = Column::of::<i64>("n");

pub(super) const LANES: Table =
    Table { name: "lanes", written: &[Names::COLUMNS], unwritten: &[Column::of::<u32>("lane")] };

pub(super) const INPUTS: Table = Table {
    name: "inputs",
    written: &[
        Key::COLUMNS,
        Priority::COLUMNS,
        Created::COLUMNS,
        Terms::COLUMNS,
        Specification::COLUMNS,
        Tale::COLUMNS,
        Descent::COLUMNS,
    ],
    unwritten: &[],
};

pub(super) const LIVE: Table = Table {
    name: "live",
    written: &[
        LiveState::COLUMNS,
        LiveLease::COLUMNS,
        LiveRun::COLUMNS,
        Tale::COLUMNS,
        LiveWake::COLUMNS,
        Key::COLUMNS,
        Priority::COLUMNS,
        LeaseLength::COLUMNS,
        LiveFlow::COLUMNS,
    ],
    unwritten: &[],
};

/// The columns of `live` that decisions change.
pub(super) const LIVE_CHANGING: &[&[Column]] =
    &[LiveState::COLUMNS, LiveLease::COLUMNS, LiveRun::COLUMNS, Tale::COLUMNS, LiveWake::COLUMNS];

pub(super) const DONE: Table = Table {
    name: "done",
    written: &[DoneKey::COLUMNS, DoneState::COLUMNS, DoneRun::COLUMNS, Tale::COLUMNS],
    unwritten: &[],
};

pub(super) const ATTEMPTS: Table =
    Table { name: "attempts", written: &[TaskRow::COLUMNS, Attempt::COLUMNS], unwritten: &[] };

pub(super) const HISTORY: Table =
    Table { name: "history", written: &[TaskRow::COLUMNS, HistoryEntry::COLUMNS], unwritten: &[] };

pub(super) const REFUSED: Table =
    Table { name: "refused", written: &[TaskRow::COLUMNS, Refusal::COLUMNS], unwritten: &[NUMBER] };

pub(super) const CHECKPOINTS: Table = Table {
    name: "checkpoints",
    written: &[TaskRow::COLUMNS, CheckpointColumns::COLUMNS],
    unwritten: &[],
};

pub(super) const CHILDREN: Table =
    Table { name: "children", written: &[TaskRow::COLUMNS, ChildColumns::COLUMNS], unwritten: &[] };

pub(super) const SIGNALS: Table =
    Table { name: "signals", written: &[TaskRow::COLUMNS, SignalColumns::COLUMNS], unwritten: &[] };

pub(super) const STEPS: Table =
    Table { name: "steps", written: &[TaskRow::COLUMNS, StepColumns::COLUMNS], unwritten: &[] };

pub(super) const EDGES: Table =
    Table { name: "edges", written: &[TaskRow::COLUMNS, EdgeColumns::COLUMNS], unwritten: &[] };

pub(super) const MISSING_UPSTREAMS: Table = Table {
    name: "missing_upstreams",
    written: &[TaskRow::COLUMNS, CountColumns::COLUMNS],
    unwritten: &[],
};

pub(super) const WAITS: Table =
    Table { name: "waits", written: &[TaskRow::COLUMNS, WaitColumns::COLUMNS], unwritten: &[] };

pub(super) const MESSAGES: Table = Table {
    name: "messages",
    written: &[MessageKeyColumns::COLUMNS, MessageColumns::COLUMNS],
    unwritten: &[],
};

pub(super) const OBJECTS: Table = Table {
    name: "objects",
    written: &[ObjectKeyColumns::COLUMNS, ObjectColumns::COLUMNS],
    unwritten: &[],
};

pub(super) const OBJECT_LOG: Table = Table {
    name: "object_log",
    written: &[ObjectKeyColumns::COLUMNS, ObjectColumns::COLUMNS, ObjectLogColumns::COLUMNS],
    unwritten: &[],
};

pub(super) const KEYS: Table =
    Table { name: "keys", written: &[KeyUse::COLUMNS], unwritten: &[NUMBER] };

/// The tables, for the test that compares them with the schema.
#[cfg(feature = "testing")]
#[must_use]
pub fn table_columns() -> Vec<crate::tables::TableColumns> {
    use crate::tables::{Kind, TableColumns};

    let type_name = |kind| match kind {
        Kind::Text => "TEXT",
        Kind::Bytes => "BLOB",
        Kind::Int | Kind::Long | Kind::Bool => "INTEGER",
    };
    let tables = [
        LANES,
        INPUTS,
        LIVE,
        DONE,
        ATTEMPTS,
        HISTORY,
        REFUSED,
        KEYS,
        CHECKPOINTS,
        CHILDREN,
        SIGNALS,
        STEPS,
        EDGES,
        MISSING_UPSTREAMS,
        WAITS,
        MESSAGES,
        OBJECTS,
        OBJECT_LOG,
    ];
    tables.iter().map(|table| TableColumns::of(table, type_name)).collect()
}
