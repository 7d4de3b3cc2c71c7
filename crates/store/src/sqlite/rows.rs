//! Rows to values: the part that is specific to SQLite. The rest is in [`crate::columns`].

use rusqlite::types::{FromSql, FromSqlError, ValueRef};
use verdict::{Policy, Span, Task};

use super::live_index::IndexedTask;
use super::ready_index::{KindQueueId, ReadyIndex};
use crate::codec::inline_history::InlineHistory;
use crate::codec::packed_policy;
use crate::columns::{self, Row};
pub(super) use crate::columns::{
    CLOSED, ENTRY, QueueAndKind, REFUSED, SPEC, closed, done, entry, id_bytes, refused, spec,
};
use crate::row::PollRef;

/// Reads a row's columns one after the other.
pub(super) type Columns<'a> = columns::Columns<'a, rusqlite::Row<'a>>;

type Read<T> = rusqlite::Result<T>;

impl Row for rusqlite::Row<'_> {
    type Error = rusqlite::Error;

    fn text(&self, column: usize) -> Read<Option<&str>> {
        let text = self.get_ref(column)?.as_str_or_null();
        text.map_err(|error: FromSqlError| self.unreadable(column, error.into()))
    }

    fn blob(&self, column: usize) -> Read<Option<&[u8]>> {
        let bytes = self.get_ref(column)?.as_blob_or_null();
        bytes.map_err(|error: FromSqlError| self.unreadable(column, error.into()))
    }

    fn int(&self, column: usize) -> Read<i32> {
        self.get(column)
    }

    fn count(&self, column: usize) -> Read<u32> {
        self.get(column)
    }

    fn long(&self, column: usize) -> Read<Option<i64>> {
        self.get(column)
    }

    fn flag(&self, column: usize) -> Read<bool> {
        self.get(column)
    }

    fn unreadable(
        &self,
        column: usize,
        error: Box<dyn std::error::Error + Send + Sync>,
    ) -> rusqlite::Error {
        let kind = self.get_ref(column).map_or(rusqlite::types::Type::Null, |it| it.data_type());
        rusqlite::Error::FromSqlConversionFailure(column, kind, error)
    }
}

impl<'a> Columns<'a> {
    pub(super) fn take<T: FromSql>(&mut self) -> Read<T> {
        self.skip(1);
        self.row.get(self.next - 1)
    }

    /// Whether the next column is NULL.
    pub(super) fn is_next_null(&self) -> Read<bool> {
        Ok(self.row.get_ref(self.next)? == ValueRef::Null)
    }

    /// Packed, or text in rows from before policies were packed.
    fn policy(&mut self) -> Read<Policy> {
        match self.optional_bytes()? {
            None => self.stored(),
            Some(bytes) => {
                self.skip(1);
                packed_policy::read(bytes).map_err(|error| self.unreadable(error))
            }
        }
    }
}

/// Columns of a live task, in three parts; tables `live l`, `lanes n`, and `live l`, `inputs i`.
/// A reader that knows the names of kind queues leaves out the second part.
pub(super) const WHERE: &str = "l.row, l.lane";
pub(super) const NAMES: &str = "n.tenant, n.workspace, n.kind, n.queue";
pub(super) fn task_columns() -> String {
    format!("l.id, l.priority, i.terms, i.policy, {}", columns::TASK)
}

/// A live task with its position in the tables.
#[derive(Clone)]
pub(super) struct LiveRow {
    pub(super) row: i64,
    pub(super) kind_queue: KindQueueId,
    pub(super) task: Task,
    pub(super) inline_history: InlineHistory,
}

pub(super) fn live_row(
    columns: &mut Columns<'_>,
    names: impl FnOnce(&mut Columns<'_>, KindQueueId) -> Read<QueueAndKind>,
) -> Read<LiveRow> {
    let (row, kind_queue) = (columns.long()?, KindQueueId(columns.take()?));
    let names = names(columns, kind_queue)?;
    let (id, priority, policy) = (columns.task_id()?, columns.int()?, columns.policy()?);
    let (task, inline_history) = columns::task(columns, names, id, priority, policy)?;
    Ok(LiveRow { row, kind_queue, task, inline_history })
}

/// Columns that the index of live tasks needs; table `live l`.
pub(super) const INDEX_COLUMNS: &str = "l.id, l.lane, l.priority, l.due, l.wakes_at, l.lease_ms, \
    l.owner, l.poll";

pub(super) fn kind_queue_of_indexed(row: &rusqlite::Row<'_>) -> Read<KindQueueId> {
    row.get(1).map(KindQueueId)
}

/// The kind queue must already be in memory.
pub(super) fn indexed(columns: &mut Columns<'_>, kind_queues: &ReadyIndex) -> Read<IndexedTask> {
    let id = columns.task_id()?;
    let kind_queue = KindQueueId(columns.take()?);
    let priority = columns.take()?;
    let claimable_at = columns.optional_time()?;
    let wakes_at = columns.optional_time()?;
    if claimable_at.is_some() {
        let (lease, poll) = (None, None);
        return Ok(IndexedTask { id, kind_queue, priority, claimable_at, wakes_at, lease, poll });
    }
    let lease = Some(Span::from_millis(columns.take::<i64>()? as u64));
    let QueueAndKind { scope, .. } =
        kind_queues.names(kind_queue).ok_or_else(|| columns.unknown_value("lane"))?;
    let owner = columns.name()?;
    let poll = columns.optional_name()?.map(|poll| PollRef { scope, owner, poll });
    Ok(IndexedTask { id, kind_queue, priority, claimable_at, wakes_at, lease, poll })
}

/// Columns of an ended task; tables `done d`, `inputs i`, `lanes n`.
pub(super) fn done_columns() -> String {
    format!("i.id, {NAMES}, {}", columns::DONE)
}
