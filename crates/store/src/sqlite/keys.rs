//! Idempotency keys: short hashes in memory, confirmed in the table, forgotten after their window.
//!
//! A large index over random keys would make stored history expensive, so there is none: the table is
//! append-ordered by hour of use, and a hash in memory leads from a key to its task. Different keys with
//! equal hashes are stored side by side and distinguished by the key's text in `inputs`.
//!
//! Once an hour the oldest buckets are scanned in slices: keys that no longer hold are dropped, the
//! others move to the current hour.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use rusqlite::{Connection, OptionalExtension, params};
use verdict::decide::submit::KEY_WINDOW;
use verdict::{Digest, Time};

use super::rows::Columns;
use super::writes;
use crate::row::{IdempotencyKey, KeyOwner};

const HOUR_MS: i64 = 60 * 60 * 1000;

/// How many keys one batch scans at most: about two milliseconds of its time.
const SLICE_MAX: usize = 500;

/// From hashes of keys to the rows of the tasks that used them.
#[derive(Default)]
pub(super) struct KeyIndex {
    rows: HashMap<u64, i64>,
    /// Further rows with the same hash: a key used again after its window, or, very rarely, two keys
    /// with one hash.
    more: HashMap<u64, Vec<i64>>,
    /// The hour whose expired buckets are known to be cleared.
    cleared: Option<i64>,
}

/// An entry that clearing removed from the index.
pub(super) struct Dropped {
    pub(super) hash: u64,
    pub(super) row: i64,
}

impl KeyIndex {
    pub(super) fn rebuild(connection: &Connection) -> rusqlite::Result<Self> {
        let mut book = Self::default();
        let mut statement = connection.prepare("SELECT hash, task FROM keys")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            book.insert(row.get::<_, i64>(0)? as u64, row.get(1)?);
        }
        Ok(book)
    }

    pub(super) fn insert(&mut self, hash: u64, row: i64) {
        match self.rows.entry(hash) {
            Entry::Vacant(first) => drop(first.insert(row)),
            Entry::Occupied(_) => self.more.entry(hash).or_default().push(row),
        }
    }

    pub(super) fn remove(&mut self, hash: u64, row: i64) {
        let next = self.more.get_mut(&hash).and_then(|more| {
            more.retain(|other| *other != row);
            more.pop()
        });
        match (self.rows.get_mut(&hash), next) {
            (Some(first), Some(next)) if *first == row => *first = next,
            (Some(first), None) if *first == row => drop(self.rows.remove(&hash)),
            (_, Some(next)) => self.more.entry(hash).or_default().push(next),
            (_, None) => {}
        }
        if self.more.get(&hash).is_some_and(Vec::is_empty) {
            self.more.remove(&hash);
        }
    }

    /// The task that used the key last.
    pub(super) fn key_owner(
        &self,
        connection: &Connection,
        key: &IdempotencyKey,
    ) -> rusqlite::Result<Option<KeyOwner>> {
        let hash = hash(key);
        let more = self.more.get(&hash).into_iter().flatten();
        let mut rows: Vec<i64> = self.rows.get(&hash).into_iter().chain(more).copied().collect();
        // Rows are numbered in order of arrival: the largest is the latest use.
        rows.sort_unstable_by_key(|row| std::cmp::Reverse(*row));
        for row in rows {
            if let Some(held) = confirm(connection, key, row)? {
                return Ok(Some(held));
            }
        }
        Ok(None)
    }

    /// Scans a slice of the oldest keys, if that was not finished in the current hour.
    pub(super) fn clear_slice(
        &mut self,
        connection: &Connection,
        now: Time,
    ) -> rusqlite::Result<Vec<Dropped>> {
        let hour = hour(now);
        if self.cleared == Some(hour) {
            return Ok(Vec::new());
        }
        let expired = expired_keys(connection, now)?;
        if expired.len() < SLICE_MAX {
            self.cleared = Some(hour);
        }
        let mut dropped = Vec::new();
        for key in expired {
            connection.prepare_cached("DELETE FROM keys WHERE n = ?1")?.execute([key.n])?;
            if key.still_holds {
                write(connection, now, key.hash, key.row)?;
            } else {
                self.remove(key.hash, key.row);
                dropped.push(Dropped { hash: key.hash, row: key.row });
            }
        }
        Ok(dropped)
    }

    /// The hour that is cleared, to be restored when a batch is rolled back.
    pub(super) fn cleared(&self) -> Option<i64> {
        self.cleared
    }

    pub(super) fn restore_cleared(&mut self, cleared: Option<i64>) {
        self.cleared = cleared;
    }
}

struct OldKey {
    n: i64,
    hash: u64,
    row: i64,
    still_holds: bool,
}

/// The first keys of the table whose hour is entirely before the window.
fn expired_keys(connection: &Connection, now: Time) -> rusqlite::Result<Vec<OldKey>> {
    let window = KEY_WINDOW.millis() as i64;
    let last_hour = hour(now) - window / HOUR_MS - 1;
    let mut statement = connection.prepare_cached(
        "SELECT k.n, k.hash, k.task, k.hour, d.completed_at,
                EXISTS (SELECT 1 FROM live l WHERE l.row = k.task)
         FROM keys k LEFT JOIN done d ON d.row = k.task ORDER BY k.n LIMIT ?1",
    )?;
    let rows = statement.query_map([SLICE_MAX as i64], |row| {
        let completed_at: Option<i64> = row.get(4)?;
        // A task that is neither live nor done was deleted long after its key expired.
        let still_holds = match completed_at {
            Some(at) => !Time::from_millis(at).plus(KEY_WINDOW).has_come(now),
            None => row.get(5)?,
        };
        let key = OldKey {
            n: row.get(0)?,
            hash: row.get::<_, i64>(1)? as u64,
            row: row.get(2)?,
            still_holds,
        };
        Ok((key, row.get::<_, i64>(3)?))
    })?;
    let rows: rusqlite::Result<Vec<(OldKey, i64)>> = rows.collect();
    let old = rows?.into_iter().take_while(|(_, hour)| *hour <= last_hour);
    Ok(old.map(|(key, _)| key).collect())
}

pub(super) fn write(
    connection: &Connection,
    now: Time,
    hash: u64,
    row: i64,
) -> rusqlite::Result<()> {
    writes::key(connection, hour(now), hash, row)
}

pub(super) fn hash(key: &IdempotencyKey) -> u64 {
    let fields = [&key.scope.tenant, &key.scope.workspace].map(|name| name.as_str().as_bytes());
    let digest = Digest::of(&[fields[0], fields[1], key.text.as_str().as_bytes()]);
    let mut head = [0; 8];
    head.copy_from_slice(&digest.bytes()[..8]);
    u64::from_be_bytes(head)
}

fn hour(now: Time) -> i64 {
    now.millis().div_euclid(HOUR_MS)
}

fn confirm(
    connection: &Connection,
    key: &IdempotencyKey,
    row: i64,
) -> rusqlite::Result<Option<KeyOwner>> {
    connection
        .prepare_cached(
            "SELECT i.id, i.fingerprint FROM inputs i JOIN lanes n ON n.lane = i.lane
             WHERE i.row = ?1 AND i.key = ?2 AND n.tenant = ?3 AND n.workspace = ?4",
        )?
        .query_row(
            params![
                row,
                key.text.as_str(),
                key.scope.tenant.as_str(),
                key.scope.workspace.as_str()
            ],
            |row| {
                let mut columns = Columns::of(row);
                Ok(KeyOwner { task: columns.task_id()?, fingerprint: columns.digest()? })
            },
        )
        .optional()
}
