//! The tables of this engine: its keys, and the shared groups of columns after them.
//!
//! Every row has the scope of its task, for row-level security. Everything else is in [`crate::tables`].

use verdict::{Digest, Name, Scope, State, Task, TaskId, Text, Time};

use super::batch::writes::Guard;
use super::ready::queue_position::{POSITION_BYTES, QueuePosition};
use crate::row::{IdempotencyKey, KeyOwner};
use crate::tables::{
    Attempt, CheckpointColumns, ChildColumns, Column, ColumnList, CountColumns, Created, Descent,
    DoneRun, DoneState, EdgeColumns, HistoryEntry, LeaseLength, LiveFlow, LiveLease, LiveRun,
    LiveState, LiveWake, MessageColumns, MessageKeyColumns, Names, ObjectColumns, ObjectKeyColumns,
    ObjectLogColumns, Priority, Refusal, SignalColumns, Specification, StepColumns, Table, Tale,
    Terms, UniqueKeyColumns, WaitColumns, columns,
};

columns! {
    /// The key of `inputs` and of `live`.
    Id(id: TaskId) reads IdRow {
        id: TaskId = &id,
    }
}

columns! {
    /// A task in its scope.
    ScopedId(id: TaskId, scope: &Scope) {
        id: TaskId = &id,
        tenant: Name = &scope.tenant,
        workspace: Name = &scope.workspace,
    }
}

columns! {
    /// The task of a row that belongs to it.
    TaskRef(task: TaskId, scope: &Scope) {
        task: TaskId = &task,
        tenant: Name = &scope.tenant,
        workspace: Name = &scope.workspace,
    }
}

columns! {
    /// When the alarm of a task fires: never later than the task wakes.
    Alarm(alarm_at: Option<Time>) reads AlarmRow {
        alarm_at: Option<Time> = alarm_at.as_ref(),
    }
}

columns! {
    /// Whether a task was not yet claimable when it was written, or is parked, because its flow key is full.
    Delayed(task: &Task, now: Time, is_parked: bool) {
        delayed: bool = &(is_parked || task.claimable_at().is_some_and(|due| !due.has_come(now))),
        parked: bool = &is_parked,
    }
}

columns! {
    /// The parent of a live task, for the count of runs. Written once.
    LiveParent(task: &Task) {
        parent: Option<TaskId> = parent_of(task).as_ref(),
    }
}

columns! {
    /// Priority and age, as bytes that sort.
    Place(task: &Task) {
        place: [u8; POSITION_BYTES] = QueuePosition::new(task.priority, task.id).bytes(),
    }
}

columns! {
    /// The last use of an idempotency key.
    KeyUse(key: &IdempotencyKey, owner: &KeyOwner) reads KeyUseRow {
        tenant: Name = &key.scope.tenant,
        workspace: Name = &key.scope.workspace,
        key: Text = &key.text,
        task: TaskId = &owner.task,
        fingerprint: Digest = &owner.fingerprint,
    }
}

columns! {
    /// What a changed row must still be. Parameters of statements, not columns of a table.
    Guarded(guard: Option<Guard>) {
        before: Option<u32> = guard.as_ref().map(|guard| &guard.before),
        entries_before: Option<u32> = guard.as_ref().and_then(|guard| guard.entries_before.as_ref()),
    }
}

columns! {
    /// A child that has ended, under its key. Parameters of a statement.
    ChildEnd(key: &Name, state: State) {
        key: Name = key,
        ended: State = &state,
    }
}

columns! {
    /// A signal that was taken. A parameter of a statement.
    TakenSignal(number: u32) {
        number: u32 = &number,
    }
}

columns! {
    /// When a message is due from now on, or why it cannot be decided. Parameters of a statement.
    MessageFate(due: Option<Time>, parked: Option<&Text>) {
        due: Option<Time> = due.as_ref(),
        parked: Option<Text> = parked,
    }
}

columns! {
    /// The task that owned a key when it was read. A parameter, not a column of a table.
    Seen(seen: Option<TaskId>) {
        seen: Option<TaskId> = seen.as_ref(),
    }
}

columns! {
    /// Where a task waits that entered another stage, or that is or was pinned to a build.
    KindAndQueue(task: &Task) {
        queue: Name = &*task.offered_in(),
        kind: Name = &task.kind,
    }
}

pub(super) const INPUTS: Table = Table {
    name: "inputs",
    written: &[
        Id::COLUMNS,
        Names::COLUMNS,
        Priority::COLUMNS,
        Created::COLUMNS,
        Terms::COLUMNS,
        Specification::COLUMNS,
        Descent::COLUMNS,
        Tale::COLUMNS,
    ],
    unwritten: &[],
};

pub(super) const LIVE: Table = Table {
    name: "live",
    written: &[
        Id::COLUMNS,
        Names::COLUMNS,
        Priority::COLUMNS,
        Place::COLUMNS,
        LeaseLength::COLUMNS,
        LiveParent::COLUMNS,
        LiveFlow::COLUMNS,
        LiveState::COLUMNS,
        LiveLease::COLUMNS,
        LiveRun::COLUMNS,
        Tale::COLUMNS,
        LiveWake::COLUMNS,
        Alarm::COLUMNS,
        Delayed::COLUMNS,
    ],
    unwritten: &[],
};

/// A changed row of `live`: its key first, then what decisions change, then its guard.
pub(super) const LIVE_CHANGED: ColumnList = &[
    ScopedId::COLUMNS,
    LiveState::COLUMNS,
    LiveLease::COLUMNS,
    LiveRun::COLUMNS,
    Tale::COLUMNS,
    LiveWake::COLUMNS,
    Alarm::COLUMNS,
    Delayed::COLUMNS,
    Guarded::COLUMNS,
];

/// A row of `live` whose task entered another stage.
pub(super) const LIVE_MOVED: ColumnList =
    &[TaskRef::COLUMNS, KindAndQueue::COLUMNS, LeaseLength::COLUMNS];

/// A row of `live` that is removed, with its guard.
pub(super) const LIVE_ENDED: ColumnList = &[ScopedId::COLUMNS, Guarded::COLUMNS];

pub(super) const DONE: Table = Table {
    name: "done",
    written: &[ScopedId::COLUMNS, DoneState::COLUMNS, DoneRun::COLUMNS, Tale::COLUMNS],
    unwritten: &[],
};

pub(super) const ATTEMPTS: Table =
    Table { name: "attempts", written: &[TaskRef::COLUMNS, Attempt::COLUMNS], unwritten: &[] };

pub(super) const HISTORY: Table =
    Table { name: "history", written: &[TaskRef::COLUMNS, HistoryEntry::COLUMNS], unwritten: &[] };

pub(super) const REFUSED: Table = Table {
    name: "refused",
    written: &[TaskRef::COLUMNS, Refusal::COLUMNS],
    // The position among the refusals of one commit, which the statement numbers.
    unwritten: &[Column::of::<i64>("ord")],
};

pub(super) const KEYS: Table = Table { name: "keys", written: &[KeyUse::COLUMNS], unwritten: &[] };

/// A used key with the owner that was read.
pub(super) const KEYS_TAKEN: ColumnList = &[KeyUse::COLUMNS, Seen::COLUMNS];

pub(super) const CHECKPOINTS: Table = Table {
    name: "checkpoints",
    written: &[TaskRef::COLUMNS, CheckpointColumns::COLUMNS],
    unwritten: &[],
};

pub(super) const CHILDREN: Table =
    Table { name: "children", written: &[TaskRef::COLUMNS, ChildColumns::COLUMNS], unwritten: &[] };

pub(super) const STEPS: Table =
    Table { name: "steps", written: &[TaskRef::COLUMNS, StepColumns::COLUMNS], unwritten: &[] };

pub(super) const EDGES: Table =
    Table { name: "edges", written: &[TaskRef::COLUMNS, EdgeColumns::COLUMNS], unwritten: &[] };

/// Also the steps of which an upstream has ended, each under its key.
pub(super) const MISSING_UPSTREAMS: Table = Table {
    name: "missing_upstreams",
    written: &[TaskRef::COLUMNS, CountColumns::COLUMNS],
    unwritten: &[],
};

/// Children that have ended, each under its key.
pub(super) const CHILDREN_ENDED: ColumnList = &[TaskRef::COLUMNS, ChildEnd::COLUMNS];

pub(super) const SIGNALS: Table =
    Table { name: "signals", written: &[TaskRef::COLUMNS, SignalColumns::COLUMNS], unwritten: &[] };

/// Signals that were taken, each by its number.
pub(super) const SIGNALS_TAKEN: ColumnList = &[TaskRef::COLUMNS, TakenSignal::COLUMNS];

pub(super) const WAITS: Table =
    Table { name: "waits", written: &[TaskRef::COLUMNS, WaitColumns::COLUMNS], unwritten: &[] };

/// Tasks whose long wait is over.
pub(super) const WAITS_OVER: ColumnList = &[TaskRef::COLUMNS];

pub(super) const MESSAGES: Table = Table {
    name: "messages",
    written: &[MessageKeyColumns::COLUMNS, MessageColumns::COLUMNS],
    unwritten: &[],
};

/// Saved messages that are deleted.
pub(super) const MESSAGES_DECIDED: ColumnList = &[MessageKeyColumns::COLUMNS];

/// Saved messages that are deferred or parked.
pub(super) const MESSAGES_KEPT: ColumnList = &[MessageKeyColumns::COLUMNS, MessageFate::COLUMNS];

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

/// Objects that are looked up.
pub(super) const OBJECT_KEYS: ColumnList = &[ObjectKeyColumns::COLUMNS];

/// Objects that are looked up by their unique keys.
pub(super) const UNIQUE_KEYS: ColumnList = &[UniqueKeyColumns::COLUMNS];

fn parent_of(task: &Task) -> Option<TaskId> {
    task.run.as_ref()?.lineage.as_ref()?.parent().map(|(parent, _)| parent)
}

/// The tables, for the test that compares them with the schema.
#[cfg(feature = "testing")]
#[must_use]
pub fn table_columns() -> Vec<crate::tables::TableColumns> {
    use super::batch::column_batch::type_name;
    use crate::tables::TableColumns;

    let tables = [
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
