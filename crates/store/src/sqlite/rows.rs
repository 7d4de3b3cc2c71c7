//! Rows to values: the part that is specific to SQLite. The rest is in [`crate::columns`].

use rusqlite::types::{FromSql, FromSqlError, ValueRef};
use verdict::flow::Rate;
use verdict::{Name, Span, State, Task, TaskId, Time};

use super::flow_index::IndexedFlow;
use super::live_index::IndexedTask;
use super::ready_index::{KindQueueId, ReadyIndex};
use super::tables::{Key, KeyRow};
use crate::codec::inline_history::InlineHistory;
use crate::codec::packed_terms;
use crate::columns::{self, Row, TaskHead};
pub(super) use crate::columns::{
    BATCH_SPEC, CLOSED, ENTRY, QueueAndKind, REFUSED, SPEC, batch_spec, closed, done, entry,
    id_bytes, refused, spec,
};
use crate::row::{FlowRef, PollRef};
use crate::tables::{Names, Priority, PriorityRow, Terms, TermsRow, columns, select};

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

    fn int(&self, column: usize) -> Read<Option<i32>> {
        self.get(column)
    }

    fn count(&self, column: usize) -> Read<Option<u32>> {
        self.get(column)
    }

    fn long(&self, column: usize) -> Read<Option<i64>> {
        self.get(column)
    }

    fn flag(&self, column: usize) -> Read<Option<bool>> {
        self.get(column)
    }

    fn column_name(&self, column: usize) -> &str {
        self.as_ref().column_name(column).unwrap_or("?")
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

    /// Never NULL for a live task: only one that ended in the commit that created it has none.
    fn terms(&mut self) -> Read<packed_terms::Terms> {
        let TermsRow { terms } = Terms::read(self)?;
        terms.ok_or_else(|| self.unreadable("it is null"))
    }
}

/// The queue that a live task was submitted to, for people; table `lanes n`.
pub(super) const QUEUE: &str = "substr(n.queue, 1, instr(n.queue || '@', '@') - 1)";

/// The names of a kind queue; table `lanes n`.
pub(super) const NAMES: &str = select!("n", Names);

/// Columns of a live task, in three parts; tables `live l`, `lanes n`, and `live l`, `inputs i`.
/// A reader that knows the names of kind queues leaves out the second part, [`NAMES`].
pub(super) const KEY: &str = select!("l", Key);

/// The items of a long wait. A plain task costs no search.
const ITEMS: &str = "CASE WHEN l.waiting IS NOT NULL
    THEN (SELECT w.items FROM waits w WHERE w.task = l.row) END AS items";

pub(super) fn task_columns() -> String {
    let (priority, terms) = (select!("l", Priority), select!("i", Terms));
    format!("{priority}, {terms}, {}", columns::task_columns(ITEMS))
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
    let KeyRow { row, id, lane } = Key::read(columns)?;
    let kind_queue = KindQueueId(lane);
    let names = names(columns, kind_queue)?;
    let PriorityRow { priority } = Priority::read(columns)?;
    let terms = columns.terms()?;
    let (task, inline_history) = columns::task(columns, TaskHead { names, id, priority, terms })?;
    Ok(LiveRow { row, kind_queue, task, inline_history })
}

columns! {
    /// What the index of live tasks is built from; table `live l`.
    Indexed reads IndexedRow {
        lane: u32,
        id: TaskId,
        priority: i32,
        claimable_at: Option<Time>,
        wakes_at: Option<Time>,
        lease_ms: Span,
        owner: Option<Name>,
        poll: Option<Name>,
        flow_key: Option<Name>,
        flow_limit: Option<u32>,
        flow_rate: Option<Rate>,
        attempt: u32,
        flow_life: Option<bool>,
    }
}

/// The columns of [`Indexed`], and the state. A state that this build does not know must not prevent the store from
/// opening, so the state is only compared.
pub(super) fn index_columns() -> String {
    format!("{}, l.state", select!("l", Indexed))
}

pub(super) fn kind_queue_of_indexed(row: &rusqlite::Row<'_>) -> Read<KindQueueId> {
    row.get(0).map(KindQueueId)
}

/// The kind queue must already be in memory.
pub(super) fn indexed(columns: &mut Columns<'_>, kind_queues: &ReadyIndex) -> Read<IndexedTask> {
    let row = Indexed::read(columns)?;
    let IndexedRow { lane, id, priority, claimable_at, wakes_at, lease_ms, .. } = row;
    let is_running = columns.str()? == State::Running.name();
    let kind_queue = KindQueueId(lane);
    let scope = || match kind_queues.names(kind_queue) {
        Some(QueueAndKind { scope, .. }) => Ok(scope),
        None => Err(columns.unknown_value("lane")),
    };
    let poll = match row.owner.zip(row.poll) {
        None => None,
        Some((owner, poll)) => Some(PollRef { scope: scope()?, owner, poll }),
    };
    let flow = match row.flow_key.zip(row.flow_limit) {
        None => None,
        Some((key, limit)) => {
            let terms = verdict::flow::Terms { limit, rate: row.flow_rate };
            let keeps = row.flow_life == Some(true) && row.attempt > 0;
            let holds = keeps || is_running;
            let flow = FlowRef { scope: scope()?, key };
            Some(Box::new(IndexedFlow { flow, terms, holds, keeps }))
        }
    };
    let lease = is_running.then_some(lease_ms);
    Ok(IndexedTask { id, kind_queue, priority, claimable_at, wakes_at, lease, poll, flow })
}

/// Columns of an ended task; tables `done d`, `inputs i`, `lanes n`.
pub(super) fn done_columns() -> String {
    format!("i.id, {NAMES}, {}", columns::done_columns())
}
