//! The one writer: a connection, and the order of live tasks in memory.

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use verdict::{Span, Time};

use super::backup::with_suffix;
use super::batch::SqliteBatch;
use super::checkpoints::Checkpoints;
use super::keys::KeyIndex;
use super::live_index::{IndexedTask, LiveIndex};
use super::log_space::LogSpace;
use super::ready_index::KindQueueId;
use super::rows::{self, Columns, QueueAndKind};
use super::running::RunningTasks;
use super::{
    Durability, Options, Shared, administration, errors, flow_starts, listing, messages, objects,
    opening, pauses, reads, writes,
};
use crate::administration::Administration;
use crate::failure::{CommitFailure, Failure, FailureKind};
use crate::flow_starts::FlowStart;
use crate::pauses::PausedQueues;
use crate::row::FlowRef;
use crate::seam::Writer;

pub struct SqliteWriter {
    pub(super) connection: Connection,
    checkpoints: Checkpoints,
    /// `None` where commits do not wait for the disk, or where the log is no file of this machine.
    log_space: Option<LogSpace>,
    pub(super) memory: Memory,
    /// As committed.
    pub(super) paused: PausedQueues,
    pub(super) shared: Arc<Shared>,
}

/// The writer's in-memory state. It changes with each save and is undone when the batch is rolled back,
/// so between batches it equals what is committed.
pub(super) struct Memory {
    pub(super) index: LiveIndex,
    pub(super) keys: KeyIndex,
    pub(super) running: RunningTasks,
    pub(super) next_row: i64,
    /// Saved messages that are not parked.
    pub(super) messages: u64,
    /// When the next object is due.
    pub(super) object_due: Option<Time>,
    undo: Vec<Undo>,
    batch_start: BatchStart,
}

/// The state at the beginning of the current batch.
#[derive(Clone, Copy)]
struct BatchStart {
    next_row: i64,
    keys_cleared: Option<i64>,
    messages: u64,
    object_due: Option<Time>,
}

enum Undo {
    Moved { before: Option<IndexedTask>, after: Option<IndexedTask> },
    KindQueueAdded(KindQueueId),
    BlockEntered(KindQueueId),
    KindQueueGone(KindQueueId, QueueAndKind),
    KeyAdded { hash: u64, row: i64 },
    KeyDropped { hash: u64, row: i64 },
    Started { flow: FlowRef, at: Time },
}

impl Memory {
    fn rebuild(connection: &Connection, now: Time) -> rusqlite::Result<Self> {
        let mut index = LiveIndex::new();
        index.promote(now);
        flow_starts::all(connection, now, |flow, at, until| index.start(flow, at, until))?;
        let mut statement = connection.prepare(&reads::select(&rows::index_columns(), "live l"))?;
        let mut live = statement.query([])?;
        while let Some(row) = live.next()? {
            let kind_queue = rows::kind_queue_of_indexed(row)?;
            if !index.ready.contains(kind_queue) {
                let QueueAndKind { scope, kind, queue } =
                    reads::kind_queue(connection, kind_queue)?;
                index.ready.add(kind_queue, &scope, &queue, &kind);
            }
            let indexed = rows::indexed(&mut Columns::of(row), &index.ready)?;
            index.insert(&indexed);
            index.note_unseen(&indexed);
        }
        let next_row =
            connection
                .query_row("SELECT coalesce(max(row), 0) + 1 FROM inputs", [], |row| row.get(0))?;
        let keys = KeyIndex::rebuild(connection)?;
        let messages = messages::count(connection)?;
        let object_due = objects::next_due(connection)?;
        let keys_cleared = keys.cleared();
        let batch_start = BatchStart { next_row, keys_cleared, messages, object_due };
        let running = RunningTasks::default();
        let undo = Vec::new();
        Ok(Self { index, keys, running, next_row, messages, object_due, undo, batch_start })
    }

    pub(super) fn begin(&mut self) {
        self.undo.clear();
        let Self { next_row, messages, object_due, .. } = *self;
        let keys_cleared = self.keys.cleared();
        self.batch_start = BatchStart { next_row, keys_cleared, messages, object_due };
    }

    pub(super) fn rollback(&mut self) {
        self.running.clear();
        for step in std::mem::take(&mut self.undo).into_iter().rev() {
            match step {
                Undo::Moved { before, after } => {
                    after.iter().for_each(|indexed| self.index.remove(indexed));
                    before.iter().for_each(|indexed| self.index.insert(indexed));
                }
                Undo::KindQueueAdded(kind_queue) => self.index.ready.forget(kind_queue),
                Undo::BlockEntered(kind_queue) => self.index.ready.forget_block(kind_queue),
                Undo::KindQueueGone(kind_queue, QueueAndKind { scope, kind, queue }) => {
                    self.index.ready.add(kind_queue, &scope, &queue, &kind);
                }
                Undo::KeyAdded { hash, row } => self.keys.remove(hash, row),
                Undo::KeyDropped { hash, row } => self.keys.insert(hash, row),
                Undo::Started { flow, at } => self.index.take_back(&flow, at),
            }
        }
        self.keys.restore_cleared(self.batch_start.keys_cleared);
        self.next_row = self.batch_start.next_row;
        self.messages = self.batch_start.messages;
        self.object_due = self.batch_start.object_due;
    }

    /// The number of a task's kind queue in the table; a new kind queue is numbered and inserted.
    pub(super) fn kind_queue(
        &mut self,
        connection: &Connection,
        task: &writes::TaskIdentity<'_>,
    ) -> rusqlite::Result<KindQueueId> {
        if let Some(kind_queue) = self.index.ready.find(task.scope, &task.queue, task.kind) {
            return Ok(kind_queue);
        }
        let known = reads::find_kind_queue(connection, task)?;
        let kind_queue = match known {
            Some(kind_queue) => kind_queue,
            None => writes::kind_queue(connection, task)?,
        };
        self.index.ready.add(kind_queue, task.scope, &task.queue, task.kind);
        self.undo.push(Undo::KindQueueAdded(kind_queue));
        Ok(kind_queue)
    }

    /// Lists the block of this row for the kind queue, unless it is already listed.
    pub(super) fn enter_block(
        &mut self,
        connection: &Connection,
        kind_queue: KindQueueId,
        row: i64,
    ) -> rusqlite::Result<()> {
        let block = listing::block_of(row);
        if self.index.ready.enters_block(kind_queue, block) {
            writes::block(connection, kind_queue, block)?;
            self.undo.push(Undo::BlockEntered(kind_queue));
        }
        Ok(())
    }

    /// Removes a kind queue that was deleted from the table with the last of its tasks.
    pub(super) fn kind_queue_gone(&mut self, kind_queue: KindQueueId) {
        if let Some(names) = self.index.ready.names(kind_queue) {
            self.index.ready.forget(kind_queue);
            self.undo.push(Undo::KindQueueGone(kind_queue, names));
        }
    }

    pub(super) fn moved(&mut self, before: Option<IndexedTask>, after: Option<IndexedTask>) {
        before.iter().for_each(|indexed| self.index.remove(indexed));
        after.iter().for_each(|indexed| self.index.insert(indexed));
        self.undo.push(Undo::Moved { before, after });
    }

    /// A task whose flow key has a rate was granted.
    pub(super) fn started(&mut self, start: &FlowStart) {
        let FlowStart { flow, at, until, .. } = start;
        self.index.start(flow, *at, *until);
        self.undo.push(Undo::Started { flow: flow.clone(), at: *at });
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
        let mut connection = opening::connect(&shared.path, &shared.options)?;
        let memory = Memory::rebuild(&connection, shared.clock.now())
            .map_err(errors::while_doing("reading the live tasks"))?;
        let paused =
            pauses::read(&connection).map_err(errors::while_doing("reading the paused queues"))?;
        // The reads above opened the log.
        let log = with_suffix(&shared.path, "-wal");
        shared.in_place.follow_log(&log)?;
        let checkpoints = Checkpoints::begin(&shared, &mut connection)?;
        let log_space = log_space(&shared.options, &log)?;
        faultpoint::point!("open.rebuilt");
        Ok(Self { connection, checkpoints, log_space, memory, paused, shared })
    }

    fn check_health(&self) -> Result<(), Failure> {
        self.shared.check_health()
    }

    /// Before a commit, within its transaction: sees to it that the log has room for it.
    pub(super) fn prepare_log(&mut self) {
        let pages = self.checkpoints.log_pages();
        self.log_space.iter_mut().for_each(|space| space.prepare(pages));
    }
}

fn log_space(options: &Options, log: &Path) -> Result<Option<LogSpace>, Failure> {
    if options.vfs.is_some() || options.durability == Durability::Relaxed {
        return Ok(None);
    }
    let opened = LogSpace::of(log).map_err(|error| {
        let what = format!("{} cannot be opened for writing", log.display());
        Failure::new(FailureKind::Unavailable, what).because(error)
    });
    opened.map(Some)
}

impl Writer for SqliteWriter {
    type Batch<'w> = SqliteBatch<'w>;

    async fn begin(&mut self) -> Result<SqliteBatch<'_>, Failure> {
        self.check_health()?;
        self.checkpoints.complete(&self.connection);
        SqliteBatch::begin(self)
    }

    async fn next_wake(&mut self) -> Result<Option<Time>, Failure> {
        self.check_health()?;
        let known =
            [self.memory.index.next_wake(), self.memory.object_due].into_iter().flatten().min();
        if self.memory.messages == 0 {
            return Ok(known);
        }
        let of_messages = messages::next_due(&self.connection)
            .map_err(errors::while_doing("looking for saved messages"))?;
        Ok([known, of_messages].into_iter().flatten().min())
    }

    fn shortest_lease(&self) -> Option<Span> {
        self.memory.index.shortest_lease()
    }

    async fn administer(&mut self, act: &Administration) -> Result<(), CommitFailure> {
        self.check_health().map_err(CommitFailure::RolledBack)?;
        administration::write(self, act)
    }
}

impl Drop for SqliteWriter {
    fn drop(&mut self) {
        self.checkpoints.end();
        self.shared.in_place.forget_log();
        self.shared.release_writer();
    }
}

impl Shared {
    pub(super) fn check_health(&self) -> Result<(), Failure> {
        if self.is_poisoned() {
            let what = "a commit of this store has an unknown outcome; open the store again";
            return Err(Failure::new(FailureKind::Fatal, what));
        }
        self.in_place.check()
    }
}
