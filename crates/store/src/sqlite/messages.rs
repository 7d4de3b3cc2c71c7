//! Saved messages. The table is nearly always empty, and the writer knows how many it holds: a batch of a store without
//! messages executes nothing here.

use std::sync::LazyLock;

use rusqlite::{Connection, OptionalExtension, params};
use verdict::{Scope, Time};

use super::batch::SqliteBatch;
use super::ids::Ids;
use super::reads::select;
use super::rows::{Columns, id_bytes};
use super::tables::MESSAGES;
use super::work::{StepError, Work, conflict, invalid};
use super::writes::{Binding, insert};
use crate::failure::Failure;
use crate::row::TaskKey;
use crate::run_columns::{self, MESSAGE};
use crate::runs::{MESSAGES_MAX, MessageChanges, MessageKey, SavedMessage};
use crate::tables::{MessageColumns, MessageKeyColumns};

type Read<T> = rusqlite::Result<T>;

/// A message that is not parked, and that no parked message of the same pair precedes.
const UNBLOCKED: &str = "m.parked IS NULL AND NOT EXISTS (
    SELECT 1 FROM messages p WHERE p.addressee = m.addressee AND p.sender = m.sender
        AND p.parked IS NOT NULL AND (p.entry, p.place) < (m.entry, m.place))";

/// How many messages are saved and not parked.
pub(super) fn count(connection: &Connection) -> Read<u64> {
    let sql = "SELECT count(*) FROM messages WHERE parked IS NULL";
    Ok(connection.query_row(sql, [], |row| row.get::<_, i64>(0))?.unsigned_abs())
}

/// When the next message is due.
pub(super) fn next_due(connection: &Connection) -> Read<Option<Time>> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        format!("SELECT m.due FROM messages m WHERE {UNBLOCKED} ORDER BY m.due LIMIT 1")
    });
    let due = connection.prepare_cached(&SQL)?.query_row([], |row| row.get(0)).optional()?;
    Ok(due.map(Time::from_millis))
}

impl SqliteBatch<'_> {
    pub(super) fn saved_messages(
        &mut self,
        of: &[TaskKey],
        excluded: &Ids,
    ) -> Result<Vec<Vec<SavedMessage>>, Failure> {
        if of.is_empty() {
            return Ok(Vec::new());
        }
        self.step("reading saved messages", |work| {
            if work.memory.messages == 0 {
                return Ok(vec![Vec::new(); of.len()]);
            }
            let mut left = MESSAGES_MAX;
            let read = |key: &TaskKey| {
                let limit = if excluded.contains(&key.id) { 0 } else { left };
                let found = of_addressee(work.connection, key, limit)?;
                left -= found.len();
                Ok(found)
            };
            of.iter().map(read).collect()
        })
    }

    pub(super) fn due_addressees(
        &mut self,
        now: Time,
        limit: usize,
        excluded: &Ids,
    ) -> Result<Vec<TaskKey>, Failure> {
        let enough = limit.saturating_add(excluded.len());
        self.step("looking for saved messages", |work| {
            if work.memory.messages == 0 {
                return Ok(Vec::new());
            }
            let mut found = addressees(work.connection, now, enough)?;
            found.retain(|key| !excluded.contains(&key.id));
            found.truncate(limit);
            Ok(found)
        })
    }
}

impl Work<'_> {
    pub(super) fn save_messages(&mut self, changes: &MessageChanges) -> Result<(), StepError> {
        let MessageChanges { saved, decided, deferred, parked } = changes;
        for message in saved {
            insert_message(self.connection, message)?;
            self.memory.messages += u64::from(message.parked.is_none());
        }
        for key in decided {
            let is_parked = delete(self.connection, key)?.ok_or_else(|| conflict(key.to.id))?;
            self.memory.messages -= u64::from(!is_parked);
        }
        for message in deferred {
            let due = message.due.millis();
            let sql = "UPDATE messages SET due = ?5 WHERE addressee = ?1 AND sender = ?2
                AND entry = ?3 AND place = ?4 AND parked IS NULL";
            changed_one(self.connection, sql, &message.key, due)?;
        }
        for message in parked {
            let sql = "UPDATE messages SET parked = ?5 WHERE addressee = ?1 AND sender = ?2
                AND entry = ?3 AND place = ?4 AND parked IS NULL";
            changed_one(self.connection, sql, &message.key, message.reason.as_str())?;
            self.memory.messages -= 1;
        }
        Ok(())
    }
}

fn insert_message(connection: &Connection, saved: &SavedMessage) -> Result<(), StepError> {
    static SQL: LazyLock<String> = LazyLock::new(|| insert(&MESSAGES));
    if saved.is_spawn() != saved.spec.is_some() {
        return Err(invalid("a specification comes with a message that spawns and only then"));
    }
    let MessageKey { to, from, number } = saved.key();
    let mut statement = connection.prepare_cached(&SQL)?;
    let mut cells = Binding::of(&mut statement, MESSAGES.written);
    MessageKeyColumns::write(&mut cells, &to, from, number.entry, number.index);
    MessageColumns::write(&mut cells, saved);
    cells.execute()?;
    Ok(())
}

/// Whether the message was parked; `None` if there is none.
fn delete(connection: &Connection, key: &MessageKey) -> Read<Option<bool>> {
    let sql = "DELETE FROM messages WHERE addressee = ?1 AND sender = ?2 AND entry = ?3
        AND place = ?4 RETURNING parked IS NOT NULL";
    let MessageKey { to, from, number } = key;
    let parameters = params![id_bytes(to.id), id_bytes(*from), number.entry, number.index];
    connection.prepare_cached(sql)?.query_row(parameters, |row| row.get(0)).optional()
}

fn changed_one(
    connection: &Connection,
    sql: &str,
    key: &MessageKey,
    value: impl rusqlite::ToSql,
) -> Result<(), StepError> {
    let MessageKey { to, from, number } = key;
    let parameters = params![id_bytes(to.id), id_bytes(*from), number.entry, number.index, value];
    match connection.prepare_cached(sql)?.execute(parameters)? {
        1 => Ok(()),
        _ => Err(conflict(to.id)),
    }
}

fn of_addressee(connection: &Connection, key: &TaskKey, limit: usize) -> Read<Vec<SavedMessage>> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        let from = format!(
            "messages m WHERE m.addressee = ?1 AND m.tenant = ?2 AND m.workspace = ?3
             AND {UNBLOCKED} ORDER BY m.sender, m.entry, m.place LIMIT ?4"
        );
        select(&MESSAGE.join(", "), &from)
    });
    let Scope { tenant, workspace } = &key.scope;
    let parameters = params![id_bytes(key.id), tenant.as_str(), workspace.as_str(), limit as i64];
    let mut statement = connection.prepare_cached(&SQL)?;
    let found =
        statement.query_map(parameters, |row| run_columns::message(&mut Columns::of(row)))?;
    found.collect()
}

fn addressees(connection: &Connection, now: Time, limit: usize) -> Read<Vec<TaskKey>> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        format!(
            "SELECT m.tenant, m.workspace, m.addressee FROM messages m
             WHERE m.due <= ?1 AND {UNBLOCKED}
             GROUP BY 3 ORDER BY min(m.due), 3 LIMIT ?2"
        )
    });
    let mut statement = connection.prepare_cached(&SQL)?;
    let found = statement.query_map(params![now.millis(), limit as i64], |row| {
        let mut columns = Columns::of(row);
        Ok(TaskKey { scope: columns.scope()?, id: columns.task_id()? })
    })?;
    found.collect()
}

/// All messages after this one, in the order of their keys.
pub(super) fn all(
    connection: &Connection,
    after: Option<&MessageKey>,
    limit: usize,
) -> Read<Vec<SavedMessage>> {
    let from = "messages m WHERE (m.addressee, m.sender, m.entry, m.place) > (?1, ?2, ?3, ?4)
        ORDER BY m.addressee, m.sender, m.entry, m.place LIMIT ?5";
    let sql = select(&MESSAGE.join(", "), from);
    let (to, sender) = after.map_or_else(
        || (Vec::new(), Vec::new()),
        |key| (id_bytes(key.to.id).to_vec(), id_bytes(key.from).to_vec()),
    );
    let (entry, place) = after.map_or((0, 0), |key| (key.number.entry, key.number.index));
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(&sql)?;
    let found = statement.query_map(params![to, sender, entry, place, limit], |row| {
        run_columns::message(&mut Columns::of(row))
    })?;
    found.collect()
}
