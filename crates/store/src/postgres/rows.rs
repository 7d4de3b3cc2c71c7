//! Decoding of rows that is specific to this engine. The rest is in [`crate::columns`].

use tokio_postgres::types::FromSql;
use verdict::run::{Items, Wait, Waiting};
use verdict::{Digest, Phase, Task, TaskId, Time};

use super::tables::{Alarm, AlarmRow, Id, IdRow};
use crate::codec::inline_history::InlineHistory;
use crate::columns::{self, Row, TaskHead};
pub(super) use crate::columns::{
    BATCH_SPEC, CLOSED, ENTRY, QueueAndKind, REFUSED, SPEC, batch_spec, closed, done, entry,
    id_bytes, refused, spec,
};
use crate::failure::{Failure, FailureKind};
use crate::tables::{Names, Priority, PriorityRow, Terms, TermsRow, select};

/// Reads a row's columns one after the other.
pub(super) type Columns<'a> = columns::Columns<'a, tokio_postgres::Row>;

type Read<T> = Result<T, Failure>;

impl Row for tokio_postgres::Row {
    type Error = Failure;

    fn text(&self, column: usize) -> Read<Option<&str>> {
        get(self, column)
    }

    fn blob(&self, column: usize) -> Read<Option<&[u8]>> {
        get(self, column)
    }

    fn int(&self, column: usize) -> Read<Option<i32>> {
        get(self, column)
    }

    fn count(&self, column: usize) -> Read<Option<u32>> {
        let count: Option<i32> = get(self, column)?;
        let count = count.map(u32::try_from).transpose();
        count.map_err(|error| self.unreadable(column, error.into()))
    }

    fn long(&self, column: usize) -> Read<Option<i64>> {
        get(self, column)
    }

    fn flag(&self, column: usize) -> Read<Option<bool>> {
        get(self, column)
    }

    fn column_name(&self, column: usize) -> &str {
        self.columns().get(column).map_or("?", |column| column.name())
    }

    fn unreadable(
        &self,
        column: usize,
        error: Box<dyn std::error::Error + Send + Sync>,
    ) -> Failure {
        let what = format!("reading a stored row (column {})", self.column_name(column));
        Failure::new(FailureKind::Fatal, what).because(error)
    }
}

fn get<'a, T: FromSql<'a>>(row: &'a tokio_postgres::Row, column: usize) -> Read<T> {
    row.try_get(column).map_err(|error| row.unreadable(column, error.into()))
}

impl<'a> Columns<'a> {
    pub(super) fn take<T: FromSql<'a>>(&mut self) -> Read<T> {
        self.skip(1);
        get(self.row, self.next - 1)
    }

    pub(super) fn count(&mut self) -> Read<u32> {
        self.optional_count()?.ok_or_else(|| self.unreadable("it is null"))
    }

    pub(super) fn optional_digest(&mut self) -> Read<Option<Digest>> {
        Ok(self.optional_fixed()?.map(Digest::from_bytes))
    }
}

/// The items of a long wait, for reads of one snapshot.
const ITEMS: &str = "CASE WHEN l.waiting IS NOT NULL THEN \
    (SELECT w.items FROM tenure.waits w WHERE w.task = l.id) END AS items";

/// Left out where rows are locked: a statement that locks returns the newest version of a row, and everything else as of
/// its beginning. Items are read after the locks.
const NO_ITEMS: &str = "NULL::text AS items";

/// Columns of a live task; tables `live l`, `inputs i`.
pub(super) fn task_columns() -> String {
    columns_with(ITEMS)
}

/// The same for statements that lock.
pub(super) fn locked_columns() -> String {
    columns_with(NO_ITEMS)
}

fn columns_with(items: &str) -> String {
    let (id, names) = (select!("l", Id), select!("l", Names));
    let (priority, alarm, terms) =
        (select!("l", Priority), select!("l", Alarm), select!("i", Terms));
    format!("{id}, {names}, {priority}, {alarm}, {terms}, {}", columns::task_columns(items))
}

/// A live task, and when its alarm in the table fires: never later than the task wakes.
#[derive(Clone)]
pub(super) struct LiveRow {
    pub(super) alarm_at: Option<Time>,
    pub(super) task: Task,
    pub(super) inline_history: InlineHistory,
}

impl LiveRow {
    /// The wait whose items are in a separate row, and were not read with it.
    pub(super) fn incomplete_wait(&self) -> Option<&Wait> {
        self.wait().filter(|wait| wait.items.is_empty())
    }

    pub(super) fn wait(&self) -> Option<&Wait> {
        waiting_for(&self.task)
    }

    /// Adds the items of its wait.
    pub(super) fn complete(&mut self, items: Items) {
        if let Phase::Waiting(waiting) = &mut self.task.phase
            && let Waiting::For(wait) = &mut **waiting
        {
            wait.items = items;
        }
    }
}

fn waiting_for(task: &Task) -> Option<&Wait> {
    let Phase::Waiting(waiting) = &task.phase else { return None };
    match &**waiting {
        Waiting::For(wait) => Some(wait),
        Waiting::Ready { .. }
        | Waiting::Diverged(_)
        | Waiting::Closing(_)
        | Waiting::Blocked { .. }
        | Waiting::Steps => None,
    }
}

/// The task of a row of [`task_columns`], which begins with its id.
pub(super) fn id_of(row: &tokio_postgres::Row) -> Read<TaskId> {
    Columns::of(row).task_id()
}

/// Decodes a row. An error names the task, so that only this task is affected.
pub(super) fn live_row(columns: &mut Columns<'_>) -> Read<LiveRow> {
    let id = id_of(columns.row)?;
    read_live(columns).map_err(|failure| failure.confined_to(id))
}

fn read_live(columns: &mut Columns<'_>) -> Read<LiveRow> {
    let IdRow { id } = Id::read(columns)?;
    let names = QueueAndKind::read(columns)?;
    let PriorityRow { priority } = Priority::read(columns)?;
    let AlarmRow { alarm_at } = Alarm::read(columns)?;
    let TermsRow { terms } = Terms::read(columns)?;
    let terms = terms.ok_or_else(|| columns.unreadable("it is null"))?;
    let (task, inline_history) = columns::task(columns, TaskHead { names, id, priority, terms })?;
    Ok(LiveRow { alarm_at, task, inline_history })
}

/// The id and the names of a task that has ended; table `inputs i`.
pub(super) fn ended_head() -> String {
    format!("{}, {}", select!("i", Id), select!("i", Names))
}

/// Columns of a task that has ended; tables `done d`, `inputs i`.
pub(super) fn done_columns() -> String {
    format!("{}, {}", ended_head(), columns::done_columns())
}
