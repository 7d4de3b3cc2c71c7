//! Saved messages. The table is nearly always empty, and the writer knows how many it holds: a batch of a store without
//! messages executes nothing here.
//!
//! What a batch reads costs in proportion to what it decides, however many messages wait: due ones are read from an index, in
//! its order, as far as the limit.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use rusqlite::{Connection, OptionalExtension, Rows, params};
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

/// Other tenants whose first addressee is named, where the messages of one could fill every place. Finding each is two searches
/// in an index.
const TENANTS_MAX: usize = 32;

/// A message that is not parked, and that no parked message of the same pair precedes.
const UNBLOCKED: &str = "m.parked IS NULL AND NOT EXISTS (
    SELECT 1 FROM messages p INDEXED BY messages_parked WHERE p.addressee = m.addressee AND p.sender = m.sender
        AND p.parked IS NOT NULL AND (p.entry, p.place) < (m.entry, m.place))";

/// How many messages are saved and not parked.
pub(super) fn count(connection: &Connection) -> Read<u64> {
    let sql = "SELECT count(*) FROM messages WHERE parked IS NULL";
    Ok(connection.query_row(sql, [], |row| row.get::<_, i64>(0))?.unsigned_abs())
}

/// When the next message is due.
pub(super) fn next_due(connection: &Connection) -> Read<Option<Time>> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        format!(
            "SELECT m.due FROM messages m INDEXED BY messages_by_due
             WHERE {UNBLOCKED} ORDER BY m.due LIMIT 1"
        )
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
        self.step("looking for saved messages", |work| {
            if work.memory.messages == 0 {
                return Ok(Vec::new());
            }
            Ok(addressees(work.connection, now, limit, excluded)?)
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

/// Addressees of the earliest messages. If there are more than the limit, the first ones of other tenants have up to half of the
/// places.
fn addressees(
    connection: &Connection,
    now: Time,
    limit: usize,
    excluded: &Ids,
) -> Read<Vec<TaskKey>> {
    let mut statement = connection.prepare_cached(&DUE)?;
    let (mut found, is_cut) = first(statement.query(params![now.millis()])?, limit, excluded)?;
    if is_cut {
        let others = of_other_tenants(connection, now, &found, excluded, limit / 2)?;
        found.truncate(limit - others.len());
        found.extend(others);
    }
    Ok(found)
}

/// The first addressee of each tenant that is not among these, going round from the tenant of the first.
fn of_other_tenants(
    connection: &Connection,
    now: Time,
    known: &[TaskKey],
    excluded: &Ids,
    limit: usize,
) -> Read<Vec<TaskKey>> {
    let Some(start) = known.first().map(|key| key.scope.tenant.as_str()) else {
        return Ok(Vec::new());
    };
    let known: BTreeSet<&str> = known.iter().map(|key| key.scope.tenant.as_str()).collect();
    let mut statement = connection.prepare_cached(&DUE_OF_TENANT)?;
    let mut found = Vec::new();
    for tenant in tenants_after(connection, start)? {
        if found.len() == limit {
            break;
        }
        if !known.contains(tenant.as_str()) {
            let rows = statement.query(params![now.millis(), tenant])?;
            found.extend(first(rows, 1, excluded)?.0);
        }
    }
    Ok(found)
}

/// Other tenants with messages, from this one on and round.
fn tenants_after(connection: &Connection, start: &str) -> Read<Vec<String>> {
    let mut statement = connection.prepare_cached(NEXT_TENANT)?;
    let mut next =
        |after: &str| statement.query_row([after], |row| row.get::<_, String>(0)).optional();
    let mut tenants: Vec<String> = Vec::new();
    while tenants.len() < TENANTS_MAX {
        let after = tenants.last().map_or(start, String::as_str);
        let found = match next(after)? {
            Some(tenant) => Some(tenant),
            None => next("")?,
        };
        match found {
            Some(tenant) if tenant != start && !tenants.contains(&tenant) => tenants.push(tenant),
            _ => break,
        }
    }
    Ok(tenants)
}

/// So many addressees, each once, and whether there may be more. One addressee may have many messages: so many are passed over
/// as one batch decides.
fn first(mut rows: Rows<'_>, limit: usize, excluded: &Ids) -> Read<(Vec<TaskKey>, bool)> {
    let (mut seen, mut found, mut again) = (Ids::default(), Vec::new(), 0);
    while found.len() < limit && again < MESSAGES_MAX {
        let Some(row) = rows.next()? else { return Ok((found, false)) };
        let mut columns = Columns::of(row);
        let key = TaskKey { scope: columns.scope()?, id: columns.task_id()? };
        if excluded.contains(&key.id) {
            continue;
        }
        if seen.insert(key.id) {
            found.push(key);
        } else {
            again += 1;
        }
    }
    Ok((found, true))
}

/// Read as far as the limit. Without the name of the index, the planner reads and sorts the whole table.
static DUE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT m.tenant, m.workspace, m.addressee FROM messages m INDEXED BY messages_by_due
         WHERE m.due <= ?1 AND {UNBLOCKED} ORDER BY m.due, m.addressee"
    )
});

static DUE_OF_TENANT: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT m.tenant, m.workspace, m.addressee FROM messages m INDEXED BY messages_by_tenant
         WHERE m.tenant = ?2 AND m.due <= ?1 AND {UNBLOCKED} ORDER BY m.due, m.addressee"
    )
});

const NEXT_TENANT: &str = "SELECT m.tenant FROM messages m INDEXED BY messages_by_tenant
    WHERE m.parked IS NULL AND m.tenant > ?1 ORDER BY m.tenant LIMIT 1";

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

#[cfg(test)]
mod tests {
    use super::*;

    /// A store in which a tenant has so many messages that are due, each to another task, and another tenant has one.
    fn crowded(count: u32) -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(include_str!("../../migrations/V1__store.sql")).unwrap();
        let save = |tenant: &str, to: u32, due: u32| {
            let (to, from) = (u128::from(to).to_be_bytes(), 7_u128.to_be_bytes());
            let sql = "INSERT INTO messages (addressee, sender, entry, place, tenant, workspace, body, due)
                VALUES (?1, ?2, 1, 0, ?3, 'default', '{}', ?4)";
            connection.execute(sql, params![to, from, tenant, due]).unwrap();
        };
        (1..=count).for_each(|n| save("crowd", n, n));
        save("small", count + 1, count + 1);
        connection
    }

    /// What SQLite does for a statement.
    fn plan(connection: &Connection, sql: &str, parameters: &[&dyn rusqlite::ToSql]) -> String {
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let lines = statement.query_map(parameters, |row| row.get(3)).unwrap();
        lines.collect::<Read<Vec<String>>>().unwrap().join("\n")
    }

    #[test]
    fn messages_that_are_due_are_read_from_an_index_and_not_sorted() {
        // A table of forty thousand was read whole in every batch.
        let connection = crowded(0);
        let asked: [(&str, &[&dyn rusqlite::ToSql]); 3] = [
            (DUE.as_str(), &[&1]),
            (DUE_OF_TENANT.as_str(), &[&1, &"crowd"]),
            (NEXT_TENANT, &[&"crowd"]),
        ];
        for (sql, parameters) in asked {
            let plan = plan(&connection, sql, parameters);
            assert!(plan.contains("SEARCH m USING INDEX messages_by_"), "{plan}");
            assert!(!plan.contains("TEMP B-TREE") && !plan.contains("SCAN"), "{plan}");
        }
    }

    #[test]
    fn a_crowd_of_messages_leaves_places_to_other_tenants() {
        let connection = crowded(100);
        let found = |limit, excluded: &Ids| -> Vec<u128> {
            let found = addressees(&connection, Time::from_millis(1_000), limit, excluded).unwrap();
            found.iter().map(|key| key.id.as_u128()).collect()
        };
        assert_eq!(found(4, &Ids::default()), [1, 2, 3, 101], "the last place is the other's");
        assert_eq!(found(1, &Ids::default()), [1], "the earliest is always named");
        assert_eq!(found(200, &Ids::default()), (1..=101).collect::<Vec<u128>>());
        let excluded: Ids = [1, 2, 101].into_iter().map(verdict::TaskId::from_u128).collect();
        assert_eq!(found(4, &excluded), [3, 4, 5, 6], "what is excluded takes no place");
        let early = addressees(&connection, Time::from_millis(2), 4, &Ids::default()).unwrap();
        assert_eq!(early.len(), 2, "what is not due is not named");
        let sql =
            "UPDATE messages SET addressee = (SELECT min(addressee) FROM messages), place = due
            WHERE tenant = 'crowd'";
        connection.execute(sql, []).unwrap();
        assert_eq!(found(2, &Ids::default()), [1, 101], "one addressee may have many messages");
    }
}
