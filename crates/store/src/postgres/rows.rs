//! Decoding of rows that is specific to this engine. The rest is in [`crate::columns`].

use tokio_postgres::types::FromSql;
use verdict::{Task, TaskId, Time};

use crate::codec::inline_history::InlineHistory;
use crate::columns::{self, Row};
pub(super) use crate::columns::{
    CLOSED, ENTRY, QueueAndKind, REFUSED, SPEC, closed, done, entry, id_bytes, refused, spec,
};
use crate::failure::{Failure, FailureKind};

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

    fn int(&self, column: usize) -> Read<i32> {
        get(self, column)
    }

    fn count(&self, column: usize) -> Read<u32> {
        let count: i32 = get(self, column)?;
        u32::try_from(count).map_err(|error| self.unreadable(column, error.into()))
    }

    fn long(&self, column: usize) -> Read<Option<i64>> {
        get(self, column)
    }

    fn flag(&self, column: usize) -> Read<bool> {
        get(self, column)
    }

    fn unreadable(
        &self,
        column: usize,
        error: Box<dyn std::error::Error + Send + Sync>,
    ) -> Failure {
        let column = self.columns().get(column).map_or("?", |column| column.name());
        let what = format!("reading a stored row (column {column})");
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
}

/// Columns of a live task; tables `live l`, `inputs i`.
pub(super) fn task_columns() -> String {
    let head = "l.alarm_at, l.tenant, l.workspace, l.kind, l.queue, l.id, l.priority, i.terms";
    format!("{head}, {}", columns::TASK)
}

/// A live task, and when its alarm in the table fires: never later than the task wakes.
#[derive(Clone)]
pub(super) struct LiveRow {
    pub(super) alarm_at: Option<Time>,
    pub(super) task: Task,
    pub(super) inline_history: InlineHistory,
}

/// The index of the id in [`task_columns`].
const ID: usize = 5;

/// The task of a row of [`task_columns`].
pub(super) fn id_of(row: &tokio_postgres::Row) -> Read<TaskId> {
    Columns { row, next: ID }.task_id()
}

/// Decodes a row. An error names the task, so that only this task is affected.
pub(super) fn live_row(columns: &mut Columns<'_>) -> Read<LiveRow> {
    let id = id_of(columns.row)?;
    read_live(columns).map_err(|failure| failure.confined_to(id))
}

fn read_live(columns: &mut Columns<'_>) -> Read<LiveRow> {
    let alarm_at = columns.optional_time()?;
    let names = QueueAndKind::read(columns)?;
    let (id, priority, policy) = (columns.task_id()?, columns.int()?, columns.packed_policy()?);
    let (task, inline_history) = columns::task(columns, names, id, priority, policy)?;
    Ok(LiveRow { alarm_at, task, inline_history })
}

/// Columns of a task that has ended; tables `done d`, `inputs i`.
pub(super) fn done_columns() -> String {
    format!("i.id, i.tenant, i.workspace, i.kind, i.queue, {}", columns::DONE)
}
