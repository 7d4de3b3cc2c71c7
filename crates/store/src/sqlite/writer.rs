//! The one writer: a connection, and the order of live tasks in memory.

use std::sync::Arc;

use rusqlite::Connection;
use verdict::{Span, Time};

use super::batch::SqliteBatch;
use super::keys::KeyBook;
use super::lanes::LaneId;
use super::order::{Marks, Order};
use super::rows::{self, Columns, MARKS, Names};
use super::running::RunningTasks;
use super::{Shared, administration, opening, reads, trouble, writes};
use crate::administration::Administration;
use crate::failure::{CommitFailure, Failure, FailureKind};
use crate::seam::Writer;

pub struct SqliteWriter {
    pub(super) connection: Connection,
    pub(super) memory: Memory,
    pub(super) shared: Arc<Shared>,
}

/// What the writer knows without asking the database. It changes with each save and is undone when
/// the batch is rolled back, so between batches it says what is committed.
pub(super) struct Memory {
    pub(super) order: Order,
    pub(super) keys: KeyBook,
    pub(super) running: RunningTasks,
    pub(super) next_row: i64,
    undo: Vec<Undo>,
    mark: Mark,
}

/// Where the current batch began.
#[derive(Clone, Copy)]
struct Mark {
    next_row: i64,
    keys_cleared: Option<i64>,
}

enum Undo {
    Moved { before: Option<Marks>, after: Option<Marks> },
    LaneAdded(LaneId),
    LaneGone(LaneId, Names),
    KeyAdded { hash: u64, row: i64 },
    KeyDropped { hash: u64, row: i64 },
}

impl Memory {
    fn rebuild(connection: &Connection, now: Time) -> rusqlite::Result<Self> {
        let mut order = Order::new();
        order.promote(now);
        let mut statement = connection.prepare(&reads::select(MARKS, "live l"))?;
        let mut live = statement.query([])?;
        while let Some(row) = live.next()? {
            let lane = rows::lane_of_marks(row)?;
            if !order.lanes.contains(lane) {
                let Names { scope, kind, queue } = reads::lane(connection, lane)?;
                order.lanes.add(lane, &scope, &queue, &kind);
            }
            let marks = rows::marks(&mut Columns::of(row), &order.lanes)?;
            order.insert(&marks);
            order.overlooked(&marks);
        }
        let next_row =
            connection
                .query_row("SELECT coalesce(max(row), 0) + 1 FROM inputs", [], |row| row.get(0))?;
        let keys = KeyBook::rebuild(connection)?;
        let mark = Mark { next_row, keys_cleared: keys.cleared() };
        let running = RunningTasks::default();
        Ok(Self { order, keys, running, next_row, undo: Vec::new(), mark })
    }

    pub(super) fn begin(&mut self) {
        self.undo.clear();
        self.mark = Mark { next_row: self.next_row, keys_cleared: self.keys.cleared() };
    }

    pub(super) fn rollback(&mut self) {
        self.running.clear();
        for step in std::mem::take(&mut self.undo).into_iter().rev() {
            match step {
                Undo::Moved { before, after } => {
                    after.iter().for_each(|marks| self.order.remove(marks));
                    before.iter().for_each(|marks| self.order.insert(marks));
                }
                Undo::LaneAdded(lane) => self.order.lanes.forget(lane),
                Undo::LaneGone(lane, Names { scope, kind, queue }) => {
                    self.order.lanes.add(lane, &scope, &queue, &kind);
                }
                Undo::KeyAdded { hash, row } => self.keys.remove(hash, row),
                Undo::KeyDropped { hash, row } => self.keys.insert(hash, row),
            }
        }
        self.keys.restore_cleared(self.mark.keys_cleared);
        self.next_row = self.mark.next_row;
    }

    /// The lane of a task, as the table has it; numbered and written down when it is new.
    pub(super) fn lane(
        &mut self,
        connection: &Connection,
        task: writes::Named<'_>,
    ) -> rusqlite::Result<LaneId> {
        if let Some(lane) = self.order.lanes.find(task.scope, task.queue, task.kind) {
            return Ok(lane);
        }
        let known = reads::lane_named(connection, task)?;
        let lane = match known {
            Some(lane) => lane,
            None => writes::lane(connection, task)?,
        };
        self.order.lanes.add(lane, task.scope, task.queue, task.kind);
        self.undo.push(Undo::LaneAdded(lane));
        Ok(lane)
    }

    /// A lane has left the table, with the last of what was submitted to it.
    pub(super) fn lane_gone(&mut self, lane: LaneId) {
        if let Some(names) = self.order.lanes.names(lane) {
            self.order.lanes.forget(lane);
            self.undo.push(Undo::LaneGone(lane, names));
        }
    }

    pub(super) fn moved(&mut self, before: Option<Marks>, after: Option<Marks>) {
        before.iter().for_each(|marks| self.order.remove(marks));
        after.iter().for_each(|marks| self.order.insert(marks));
        self.undo.push(Undo::Moved { before, after });
    }

    pub(super) fn key_added(&mut self, hash: u64, row: i64) {
        self.keys.insert(hash, row);
        self.undo.push(Undo::KeyAdded { hash, row });
    }

    pub(super) fn clear_keys(
        &mut self,
        connection: &Connection,
        now: Time,
    ) -> rusqlite::Result<()> {
        let dropped = self.keys.clear_slice(connection, now)?;
        let steps =
            dropped.into_iter().map(|key| Undo::KeyDropped { hash: key.hash, row: key.row });
        self.undo.extend(steps);
        Ok(())
    }
}

impl SqliteWriter {
    pub(super) fn open(shared: Arc<Shared>) -> Result<Self, Failure> {
        let connection = opening::connect(&shared.path, &shared.options)?;
        let memory = Memory::rebuild(&connection, shared.reading.now())
            .map_err(trouble::while_doing("reading the live tasks"))?;
        faultpoint::point!("open.rebuilt");
        Ok(Self { connection, memory, shared })
    }

    fn check_health(&self) -> Result<(), Failure> {
        self.shared.check_health()
    }
}

impl Writer for SqliteWriter {
    type Batch<'w> = SqliteBatch<'w>;

    async fn begin(&mut self) -> Result<SqliteBatch<'_>, Failure> {
        self.check_health()?;
        SqliteBatch::begin(self)
    }

    async fn next_wake(&mut self) -> Result<Option<Time>, Failure> {
        self.check_health()?;
        Ok(self.memory.order.next_wake())
    }

    fn shortest_lease(&self) -> Option<Span> {
        self.memory.order.shortest_lease()
    }

    async fn administer(&mut self, act: &Administration) -> Result<(), CommitFailure> {
        self.check_health().map_err(CommitFailure::RolledBack)?;
        administration::write(self, act)
    }
}

impl Drop for SqliteWriter {
    fn drop(&mut self) {
        self.shared.release_writer();
    }
}

impl Shared {
    pub(super) fn check_health(&self) -> Result<(), Failure> {
        if self.is_poisoned() {
            let what = "a commit of this store has an unknown outcome; open the store again";
            return Err(Failure::new(FailureKind::Fatal, what));
        }
        Ok(())
    }
}
