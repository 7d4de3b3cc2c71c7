//! The prepared statements of every lifecycle and of every step of a durable run, each looked up once per batch.
//!
//! The library finds a prepared statement by its text, which costs as much as a search in a table.

use rusqlite::{CachedStatement, Connection};

/// Statements that a batch executes for each of its tasks.
#[derive(Clone, Copy)]
pub(super) enum BatchStatement {
    Input,
    LiveInsert,
    LiveUpdate,
    LiveDelete,
    Done,
    Attempt,
    Ready,
    Entry,
    Checkpoint,
    CheckpointByKey,
    Child,
    ChildByKey,
    ChildEnded,
}

const COUNT: usize = BatchStatement::ChildEnded as usize + 1;

pub(super) struct Statements<'c> {
    connection: &'c Connection,
    found: [Option<CachedStatement<'c>>; COUNT],
}

impl<'c> Statements<'c> {
    pub(super) fn new(connection: &'c Connection) -> Self {
        Self { connection, found: std::array::from_fn(|_| None) }
    }

    /// The statement, which always has the same text.
    pub(super) fn get(
        &mut self,
        which: BatchStatement,
        sql: &str,
    ) -> rusqlite::Result<&mut CachedStatement<'c>> {
        match &mut self.found[which as usize] {
            Some(statement) => Ok(statement),
            slot => Ok(slot.insert(self.connection.prepare_cached(sql)?)),
        }
    }
}
