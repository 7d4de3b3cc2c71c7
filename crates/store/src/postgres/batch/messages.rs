//! Messages between tasks that were saved, because their addressee could not be locked in the batch of the sender.
//!
//! They are written when they are saved, not with the commit, so that later reads of the same batch see them; most batches
//! have none. A message is read under its own lock as well as the addressee's: the addressee of one that spawns does not
//! exist yet. Rows that another writer has locked are passed over, so no statement here waits for another transaction.
//!
//! Any coordinator finds messages that another one has left: at the next wake-up, or at the latest [`MESSAGE_REST`] after
//! the last read that found none.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use verdict::{Name, Scope, Span, TaskId, Time};

use super::PostgresBatch;
use super::column_batch::{ColumnBatch, Statement};
use super::writes::inserting;
use crate::failure::Failure;
use crate::postgres::connection::session::{WITH_SORTS, WITHOUT_SORTS};
use crate::postgres::errors::{conflict, invalid};
use crate::postgres::reads::{Client, Keys, Read, as_limit, set_scopes};
use crate::postgres::rows::{Columns, id_bytes};
use crate::postgres::tables::{MESSAGES, MESSAGES_DECIDED, MESSAGES_KEPT, MessageFate};
use crate::row::TaskKey;
use crate::run_columns::{self, MESSAGE};
use crate::runs::{MESSAGES_MAX, MessageChanges, MessageKey, SavedMessage};
use crate::tables::{MessageColumns, MessageKeyColumns};

/// After a read has found no message that is due, how long none is looked for, unless this process saves one. Short
/// compared with the time that a run waits for a worker, and long compared with a batch.
const MESSAGE_REST: Span = Span::from_millis(250);

/// Whether an earlier message of the same pair of sender and addressee cannot be decided.
const BLOCKED: &str = "EXISTS (SELECT 1 FROM tenure.messages p WHERE p.addressee = m.addressee AND p.sender = m.sender \
    AND (p.entry, p.place) < (m.entry, m.place) AND p.parked IS NOT NULL)";

static OF_ADDRESSEES: LazyLock<String> = LazyLock::new(|| {
    let columns = MESSAGE.join(", ");
    format!(
        "SELECT {columns} FROM unnest($1::text[], $2::text[], $3::bytea[]) AS u(tenant, workspace, id) \
         CROSS JOIN LATERAL (SELECT * FROM tenure.messages m WHERE m.addressee = u.id AND m.tenant = u.tenant \
            AND m.workspace = u.workspace AND m.parked IS NULL AND NOT {BLOCKED} \
            ORDER BY m.addressee, m.sender, m.entry, m.place LIMIT {MESSAGES_MAX} FOR UPDATE SKIP LOCKED) m \
         LIMIT {MESSAGES_MAX}"
    )
});

/// Reads more than the limit, because one addressee may have many messages.
pub(in crate::postgres) static ADDRESSEES: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT m.tenant, m.workspace, m.addressee, m.due FROM tenure.messages m \
         WHERE m.parked IS NULL AND m.due <= $1 AND m.addressee <> ALL ($3) AND NOT {BLOCKED} \
         ORDER BY m.due, m.addressee LIMIT $2"
    )
});

/// The first addressee of other tenants, going round from a tenant: each step finds the next one in the index.
pub(in crate::postgres) static OF_OTHER_TENANTS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "WITH RECURSIVE turns (tenant, n) AS ( \
            SELECT $2::text, 0 UNION ALL SELECT coalesce( \
                (SELECT m.tenant FROM tenure.messages m WHERE m.parked IS NULL AND m.tenant > t.tenant \
                    ORDER BY m.tenant LIMIT 1), \
                (SELECT m.tenant FROM tenure.messages m WHERE m.parked IS NULL ORDER BY m.tenant LIMIT 1)), t.n + 1 \
            FROM turns t WHERE t.n < {TENANTS_MAX} AND (t.n = 0 OR t.tenant <> $2)) \
         SELECT d.tenant, d.workspace, d.addressee, d.due FROM turns t CROSS JOIN LATERAL ( \
            SELECT m.tenant, m.workspace, m.addressee, m.due FROM tenure.messages m \
            WHERE m.tenant = t.tenant AND m.parked IS NULL AND m.due <= $1 AND m.addressee <> ALL ($3) \
                AND NOT {BLOCKED} ORDER BY m.due, m.addressee LIMIT 1) d \
         WHERE t.n > 0 AND t.tenant <> $2"
    )
});

/// Other tenants whose first addressee is named, where the messages of one could fill every place.
const TENANTS_MAX: usize = 32;

/// The earliest time at which a message is due, for the computation of the next wake-up.
pub(in crate::postgres) static NEXT_DUE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "(SELECT m.due FROM tenure.messages m WHERE m.parked IS NULL AND NOT {BLOCKED} \
         ORDER BY m.due, m.addressee LIMIT 1)"
    )
});

static MESSAGES_INSERT: LazyLock<Statement> = LazyLock::new(|| inserting(&MESSAGES));

/// Statements that batches with messages repeat, to be prepared on direct connections.
pub(super) fn frequent_statements() -> impl Iterator<Item = &'static str> {
    let built: [&'static LazyLock<Statement>; 3] =
        [&MESSAGES_INSERT, &MESSAGES_DELETE, &MESSAGES_UPDATE];
    let built = built.into_iter().flat_map(|statement| statement.texts());
    built.chain([OF_ADDRESSEES.as_str(), ADDRESSEES.as_str(), OF_OTHER_TENANTS.as_str()])
}

const NAMED: &str = "m.addressee = u.addressee AND m.sender = u.sender AND m.entry = u.entry \
    AND m.place = u.place AND m.tenant = u.tenant AND m.workspace = u.workspace";

static MESSAGES_DELETE: LazyLock<Statement> = LazyLock::new(|| {
    Statement::over(MESSAGES_DECIDED, |rows| {
        format!("DELETE FROM tenure.messages m USING {} WHERE {NAMED}", rows.table("u"))
    })
});

static MESSAGES_UPDATE: LazyLock<Statement> = LazyLock::new(|| {
    Statement::over(MESSAGES_KEPT, |rows| {
        format!(
            "UPDATE tenure.messages m SET due = coalesce(u.due, m.due), parked = coalesce(u.parked, m.parked) \
             FROM {} WHERE {NAMED} AND m.parked IS NULL",
            rows.table("u")
        )
    })
});

impl PostgresBatch<'_> {
    /// The saved messages of these tasks, locked. A task that another writer has locked has none.
    pub(super) async fn saved_messages(
        &mut self,
        addressees: &[TaskKey],
        locked_out: &HashSet<TaskId>,
    ) -> Result<Vec<Vec<SavedMessage>>, Failure> {
        let is_asked =
            |key: &&TaskKey| !locked_out.contains(&key.id) && !self.excluded.contains(&key.id);
        let asked: Vec<&TaskKey> = addressees.iter().filter(is_asked).collect();
        let mut found = HashMap::new();
        if !asked.is_empty() {
            let keys = Keys::of(asked.iter().copied());
            let setting = self.scopes.add(asked.iter().map(|key| &key.scope));
            found = self.read_messages(setting, keys).await?;
        }
        Ok(addressees.iter().map(|key| found.remove(&key.id).unwrap_or_default()).collect())
    }

    async fn read_messages(
        &self,
        setting: Option<String>,
        keys: Keys,
    ) -> Result<HashMap<TaskId, Vec<SavedMessage>>, Failure> {
        let work = move |client: Client| async move {
            let parameters = keys.parameters();
            let (set, rows) = futures_util::join!(
                set_scopes(&client, setting),
                client.query_typed(&OF_ADDRESSEES, &parameters)
            );
            set?;
            read(&rows?)
        };
        let saved = self.transaction().run("loading saved messages", work).await?;
        let mut found: HashMap<TaskId, Vec<SavedMessage>> = HashMap::new();
        for message in saved {
            found.entry(message.message.to).or_default().push(message);
        }
        Ok(found)
    }

    /// Tasks with messages that are due. If there are more than the limit, the first of other tenants have up to half of the
    /// places.
    pub(super) async fn list_addressees(
        &mut self,
        now: Time,
        limit: usize,
    ) -> Result<Vec<TaskKey>, Failure> {
        if self.writer.shared.memory().has_no_message(now) {
            return Ok(Vec::new());
        }
        let until = now.plus(MESSAGE_REST);
        let excluded = self.excluded.iter().map(|id| id_bytes(*id).to_vec()).collect();
        let search = Search { now, until, limit, excluded };
        let setting = self.scopes.all();
        let work = move |client: Client| async move {
            let (set, found) =
                futures_util::join!(set_scopes(&client, setting), search.find(&client));
            set?;
            found
        };
        let (found, others) = self.transaction().run("looking for saved messages", work).await?;
        let (came, later): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|(_, due)| due.has_come(now));
        if came.is_empty() {
            let next = later.first().map_or(until, |(_, due)| *due);
            self.writer.shared.memory().no_message_until = Some(next);
        }
        Ok(in_limit(keys_of(came), keys_of(others), limit))
    }

    /// Writes what became of messages. Fails if another writer has decided one of them.
    pub(super) async fn change_messages(&mut self, changes: MessageChanges) -> Result<(), Failure> {
        if changes.saved.iter().any(|saved| saved.is_spawn() != saved.spec.is_some()) {
            return Err(invalid("a specification comes with a message that spawns and only then"));
        }
        self.has_changed_messages = true;
        self.writer.shared.memory().no_message_until = None;
        let setting = self.scopes.add(scopes_of(&changes));
        let known = first_of(&changes);
        let (saved, decided, kept) = column_batches(&changes);
        let kept_count = changes.deferred.len() + changes.parked.len();
        let guarded = [(decided, changes.decided.len()), (kept, kept_count)];
        let work = move |client: Client| async move {
            set_scopes(&client, setting).await?;
            write(&client, &MESSAGES_INSERT, &saved).await?;
            let mut is_whole = true;
            for (statement, (rows, count)) in
                [&*MESSAGES_DELETE, &*MESSAGES_UPDATE].iter().zip(&guarded)
            {
                is_whole &= write(&client, statement, rows).await? == *count as u64;
            }
            Ok(is_whole)
        };
        let is_whole = self.transaction().run("writing messages", work).await?;
        if is_whole { Ok(()) } else { Err(conflict(known)) }
    }
}

type Due = (TaskKey, Time);

/// A search for messages that are due.
struct Search {
    now: Time,
    until: Time,
    limit: usize,
    /// Ids of addressees.
    excluded: Vec<Vec<u8>>,
}

impl Search {
    /// Addressees of the earliest messages until the end of the rest, and the first one of other tenants if there are more.
    async fn find(&self, client: &Client) -> Read<(Vec<Due>, Vec<Due>)> {
        let found = without_sorts(client, self.earliest(client)).await?;
        let is_cut = found.len() >= self.most();
        let others = match found.first().filter(|_| is_cut) {
            Some((first, _)) => {
                without_sorts(client, self.of_other_tenants(client, &first.scope)).await?
            }
            None => Vec::new(),
        };
        Ok((found, others))
    }

    fn most(&self) -> usize {
        self.limit.saturating_add(MESSAGES_MAX)
    }

    async fn earliest(&self, client: &Client) -> Read<Vec<Due>> {
        let (until, most) = (self.until.millis(), as_limit(self.most()));
        let parameters: [(&(dyn ToSql + Sync), Type); 3] =
            [(&until, Type::INT8), (&most, Type::INT8), (&self.excluded, Type::BYTEA_ARRAY)];
        due(&client.query_typed(&ADDRESSEES, &parameters).await?)
    }

    async fn of_other_tenants(&self, client: &Client, scope: &Scope) -> Read<Vec<Due>> {
        let (now, tenant) = (self.now.millis(), scope.tenant.as_str());
        let parameters: [(&(dyn ToSql + Sync), Type); 3] =
            [(&now, Type::INT8), (&tenant, Type::TEXT), (&self.excluded, Type::BYTEA_ARRAY)];
        due(&client.query_typed(&OF_OTHER_TENANTS, &parameters).await?)
    }
}

/// Sends a query between the settings that it needs, all at once.
async fn without_sorts<T>(client: &Client, query: impl Future<Output = Read<T>>) -> Read<T> {
    let (before, found, after) = futures_util::join!(
        client.batch_execute(WITHOUT_SORTS),
        query,
        client.batch_execute(WITH_SORTS)
    );
    before?;
    let found = found?;
    after?;
    Ok(found)
}

fn due(rows: &[Row]) -> Read<Vec<Due>> {
    let read = |row: &Row| {
        let mut columns = Columns::of(row);
        let (scope, id) = (columns.scope()?, columns.task_id()?);
        Ok((TaskKey { scope, id }, columns.time()?))
    };
    rows.iter().map(read).collect()
}

/// Each once.
fn keys_of(due: Vec<Due>) -> Vec<TaskKey> {
    let mut seen = HashSet::new();
    due.into_iter().map(|(key, _)| key).filter(|key| seen.insert(key.id)).collect()
}

/// The earliest addressees, and the first ones of tenants that have none among them.
fn in_limit(mut found: Vec<TaskKey>, others: Vec<TaskKey>, limit: usize) -> Vec<TaskKey> {
    let rest = found.split_off(limit.min(found.len()));
    let mut known: HashSet<Name> = found.iter().map(|key| key.scope.tenant.clone()).collect();
    let is_first = |key: &TaskKey| known.insert(key.scope.tenant.clone());
    let most = TENANTS_MAX.min(limit / 2);
    let others: Vec<TaskKey> = rest.into_iter().chain(others).filter(is_first).take(most).collect();
    found.truncate(limit - others.len());
    found.extend(others);
    found
}

/// Reads rows of messages. One that cannot be read names its addressee, so that only that task is affected.
pub(in crate::postgres) fn read(rows: &[Row]) -> Read<Vec<SavedMessage>> {
    let read = |row: &Row| {
        let addressee = Columns::of(row).task_id()?;
        let message = run_columns::message(&mut Columns::of(row));
        Ok(message.map_err(|failure| failure.confined_to(addressee))?)
    };
    rows.iter().map(read).collect()
}

/// Runs a statement over rows; returns how many it found.
async fn write(client: &Client, statement: &Statement, rows: &ColumnBatch) -> Read<u64> {
    if rows.is_empty() {
        return Ok(0);
    }
    Ok(client.execute_typed(statement.text_for(rows), &rows.parameters()).await?)
}

/// The rows of saved messages, of decided ones, and of those that are deferred or parked.
fn column_batches(changes: &MessageChanges) -> (ColumnBatch, ColumnBatch, ColumnBatch) {
    let mut saved = ColumnBatch::new(MESSAGES.written);
    for message in &changes.saved {
        let cells = saved.row();
        write_key(cells, &message.key());
        MessageColumns::write(cells, message);
    }
    let mut decided = ColumnBatch::new(MESSAGES_DECIDED);
    changes.decided.iter().for_each(|key| write_key(decided.row(), key));
    let mut kept = ColumnBatch::new(MESSAGES_KEPT);
    for deferred in &changes.deferred {
        let cells = kept.row();
        write_key(cells, &deferred.key);
        MessageFate::write(cells, Some(deferred.due), None);
    }
    for parked in &changes.parked {
        let cells = kept.row();
        write_key(cells, &parked.key);
        MessageFate::write(cells, None, Some(&parked.reason));
    }
    (saved, decided, kept)
}

fn write_key(cells: &mut ColumnBatch, key: &MessageKey) {
    MessageKeyColumns::write(cells, &key.to, key.from, key.number.entry, key.number.index);
}

fn scopes_of(changes: &MessageChanges) -> impl Iterator<Item = &Scope> {
    let saved = changes.saved.iter().map(|message| &message.scope);
    let decided = changes.decided.iter().map(|key| &key.to.scope);
    let deferred = changes.deferred.iter().map(|it| &it.key.to.scope);
    let parked = changes.parked.iter().map(|it| &it.key.to.scope);
    saved.chain(decided).chain(deferred).chain(parked)
}

/// The addressee that a conflict names.
fn first_of(changes: &MessageChanges) -> TaskId {
    let decided = changes.decided.first().map(|key| key.to.id);
    let kept = changes.deferred.iter().map(|it| it.key.to.id);
    let mut kept = kept.chain(changes.parked.iter().map(|it| it.key.to.id));
    decided.or_else(|| kept.next()).unwrap_or(TaskId::from_u128(0))
}
