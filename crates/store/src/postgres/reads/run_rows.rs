//! Rows of durable runs for readers: checkpoints with their results, children, signals, and saved messages.

use std::collections::HashMap;
use std::sync::LazyLock;

use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use verdict::TaskId;
use verdict::run::Checkpoint;

use super::browse::{numbered, until_page_full};
use super::{Client, Read, as_limit};
use crate::browse::RowsAfter;
use crate::codec::payload_digest;
use crate::failure::Failure;
use crate::postgres::batch::messages;
use crate::postgres::rows::{Columns, id_bytes};
use crate::row::{Entry, PAGE_BYTES_MAX, TaskRows};
use crate::row_size::{self, ByteBudget};
use crate::run_columns::{self, CHECKPOINT, CHILD, MESSAGE, SIGNAL, STEP};
use crate::runs::{MessageKey, SavedMessage};

/// Which rows to read: the part of [`RowsAfter`] that concerns durable runs, owned.
pub(super) enum RunRowsAfter {
    Checkpoint(u32),
    Child(String),
    Started(u32),
    Keys(Vec<String>),
    Step(u32),
    StepKey(String),
    Signal(u32),
    PendingSignal(u32),
}

impl RunRowsAfter {
    pub(super) fn of(after: RowsAfter<'_>) -> Self {
        match after {
            RowsAfter::Checkpoint(n) => RunRowsAfter::Checkpoint(n),
            RowsAfter::Child(key) => {
                RunRowsAfter::Child(key.map_or("", |key| key.as_str()).to_owned())
            }
            RowsAfter::Started(n) => RunRowsAfter::Started(n),
            RowsAfter::Keys(keys) => {
                RunRowsAfter::Keys(keys.iter().map(|key| key.as_str().to_owned()).collect())
            }
            RowsAfter::Step(place) => RunRowsAfter::Step(place),
            RowsAfter::StepKey(key) => RunRowsAfter::StepKey(key.as_str().to_owned()),
            RowsAfter::Signal(n) => RunRowsAfter::Signal(n),
            RowsAfter::PendingSignal(n) => RunRowsAfter::PendingSignal(n),
            RowsAfter::Entry(_) | RowsAfter::Attempt(_) | RowsAfter::Refusal(_) => {
                unreachable!("every task has these rows")
            }
        }
    }
}

pub(super) async fn read(
    client: &Client,
    id: TaskId,
    after: &RunRowsAfter,
    limit: usize,
) -> Read<TaskRows> {
    match after {
        RunRowsAfter::Checkpoint(n) => {
            let rows = numbered(client, &CHECKPOINTS, id, *n, limit).await?;
            Ok(fitting(all(&rows, run_columns::checkpoint)?).into())
        }
        RunRowsAfter::Child(key) => children(client, id, key, limit).await,
        RunRowsAfter::Started(n) => {
            let rows = numbered(client, &STARTED, id, *n, limit).await?;
            Ok(all(&rows, run_columns::child)?.into())
        }
        RunRowsAfter::Keys(keys) => by_keys(client, id, keys, limit).await,
        RunRowsAfter::Step(place) => {
            let rows = numbered(client, &STEPS, id, *place, limit).await?;
            let steps = all(&rows, run_columns::step)?;
            Ok(row_size::take_fitting(steps, ByteBudget::page(), row_size::step).into())
        }
        RunRowsAfter::StepKey(key) => {
            let id = id_bytes(id);
            let parameters: [(&(dyn ToSql + Sync), Type); 2] =
                [(&&id[..], Type::BYTEA), (key, Type::TEXT)];
            let rows = client.query_typed(&STEP_BY_KEY, &parameters).await?;
            Ok(all(&rows, run_columns::step)?.into())
        }
        RunRowsAfter::Signal(n) => signals(client, &SIGNALS, id, *n, limit).await,
        RunRowsAfter::PendingSignal(n) => signals(client, &PENDING, id, *n, limit).await,
    }
}

async fn signals(client: &Client, sql: &str, id: TaskId, n: u32, limit: usize) -> Read<TaskRows> {
    let rows = numbered(client, sql, id, n, limit).await?;
    let signals = all(&rows, run_columns::signal)?;
    Ok(row_size::take_fitting(signals, ByteBudget::page(), row_size::signal).into())
}

async fn children(client: &Client, id: TaskId, after: &str, limit: usize) -> Read<TaskRows> {
    let (id, limit) = (id_bytes(id), as_limit(limit));
    let parameters: [(&(dyn ToSql + Sync), Type); 3] =
        [(&&id[..], Type::BYTEA), (&after, Type::TEXT), (&limit, Type::INT8)];
    let rows = client.query_typed(&CHILDREN, &parameters).await?;
    Ok(all(&rows, run_columns::child)?.into())
}

async fn by_keys(client: &Client, id: TaskId, keys: &[String], limit: usize) -> Read<TaskRows> {
    let (id, limit) = (id_bytes(id), as_limit(limit));
    let parameters: [(&(dyn ToSql + Sync), Type); 3] =
        [(&&id[..], Type::BYTEA), (&keys, Type::TEXT_ARRAY), (&limit, Type::INT8)];
    let (checkpoints, children) = futures_util::join!(
        client.query_typed(&CHECKPOINTS_BY_KEY, &parameters),
        client.query_typed(&CHILDREN_BY_KEY, &parameters),
    );
    let checkpoints = fitting(all(&checkpoints?, run_columns::checkpoint)?);
    let children = all(&children?, run_columns::child)?;
    Ok(TaskRows { checkpoints, children, ..TaskRows::default() })
}

/// The checkpoints with what these entries leave out. Entries that do not fit into one page together with their results
/// are removed, except the first.
pub(super) async fn digested(
    client: &Client,
    id: TaskId,
    entries: &mut Vec<Entry>,
) -> Read<Vec<Checkpoint>> {
    let keys_of = |entry: &Entry| -> Vec<String> {
        payload_digest::digested_steps(entry).iter().map(|key| key.as_str().to_owned()).collect()
    };
    let keys: Vec<String> = entries.iter().flat_map(keys_of).collect();
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let bytes = id_bytes(id);
    let parameters: [(&(dyn ToSql + Sync), Type); 2] =
        [(&&bytes[..], Type::BYTEA), (&keys, Type::TEXT_ARRAY)];
    let rows = client.query_typed(&SIZES, &parameters).await?;
    let sizes = rows.iter().map(|row| {
        let mut columns = Columns::of(row);
        Ok((columns.take::<String>()?, usize::try_from(columns.take::<i32>()?).unwrap_or(0)))
    });
    let sizes: HashMap<String, usize> = sizes.collect::<Read<_>>()?;
    let size_of =
        |entry: &Entry| -> usize { keys_of(entry).iter().filter_map(|key| sizes.get(key)).sum() };
    *entries = row_size::take_fitting(std::mem::take(entries), ByteBudget::page(), size_of);
    let keys: Vec<String> = entries.iter().flat_map(keys_of).collect();
    let parameters: [(&(dyn ToSql + Sync), Type); 2] =
        [(&&bytes[..], Type::BYTEA), (&keys, Type::TEXT_ARRAY)];
    let rows = client.query_typed(&DIGESTED, &parameters).await?;
    all(&rows, run_columns::checkpoint)
}

fn fitting(checkpoints: Vec<Checkpoint>) -> Vec<Checkpoint> {
    row_size::take_fitting(checkpoints, ByteBudget::page(), row_size::checkpoint)
}

fn all<T>(rows: &[Row], read: impl Fn(&mut Columns<'_>) -> Result<T, Failure>) -> Read<Vec<T>> {
    rows.iter().map(|row| Ok(read(&mut Columns::of(row))?)).collect()
}

const CHECKPOINT_WEIGHT: &str = "octet_length(c.recorded) + coalesce(octet_length(c.result), 0)";

static CHECKPOINTS: LazyLock<String> = LazyLock::new(|| {
    let rows = "tenure.checkpoints WHERE task = $1 AND number > $2 ORDER BY number";
    until_page_full(CHECKPOINT, "c", rows, CHECKPOINT_WEIGHT, "number")
});
static CHECKPOINTS_BY_KEY: LazyLock<String> = LazyLock::new(|| {
    let rows =
        "tenure.checkpoints WHERE task = $1 AND key = ANY ($2 COLLATE \"C\") ORDER BY number";
    until_page_full(CHECKPOINT, "c", rows, CHECKPOINT_WEIGHT, "number")
});
static SIZES: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT c.key, {CHECKPOINT_WEIGHT} FROM tenure.checkpoints c \
         WHERE c.task = $1 AND c.key = ANY ($2 COLLATE \"C\")"
    )
});
static DIGESTED: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {CHECKPOINT} FROM tenure.checkpoints c WHERE c.task = $1 AND c.key = ANY ($2 COLLATE \"C\") \
         ORDER BY c.number"
    )
});
static STARTED: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {CHILD} FROM tenure.children k WHERE k.task = $1 AND k.number > $2 ORDER BY k.number LIMIT $3"
    )
});
static CHILDREN: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {CHILD} FROM tenure.children k WHERE k.task = $1 AND k.key > $2 COLLATE \"C\" \
         ORDER BY k.key LIMIT $3"
    )
});
static CHILDREN_BY_KEY: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {CHILD} FROM tenure.children k WHERE k.task = $1 AND k.key = ANY ($2 COLLATE \"C\") \
         ORDER BY k.number LIMIT $3"
    )
});
static STEPS: LazyLock<String> = LazyLock::new(|| steps("place >= $2 ORDER BY place LIMIT $3"));
static STEP_BY_KEY: LazyLock<String> = LazyLock::new(|| steps("key = $2 COLLATE \"C\""));

fn steps(which: &str) -> String {
    format!(
        "SELECT {} FROM (SELECT * FROM tenure.steps WHERE task = $1 AND {which}) p \
         LEFT JOIN LATERAL (SELECT missing, blame FROM tenure.missing_upstreams \
            WHERE task = p.task AND key = p.key OFFSET 0) m ON true ORDER BY p.place",
        STEP.join(", ")
    )
}
static SIGNALS: LazyLock<String> = LazyLock::new(|| {
    let rows = "tenure.signals WHERE task = $1 AND number > $2 ORDER BY number";
    until_page_full(SIGNAL, "s", rows, "coalesce(octet_length(s.payload), 0)", "number")
});
static PENDING: LazyLock<String> = LazyLock::new(|| {
    let rows = "tenure.signals WHERE task = $1 AND number > $2 AND NOT taken ORDER BY number";
    until_page_full(SIGNAL, "s", rows, "coalesce(octet_length(s.payload), 0)", "number")
});

/// Messages of all scopes in the order of their keys: at least one, and as many as fit one page. An input may be large.
static SAVED_MESSAGES: LazyLock<String> = LazyLock::new(|| {
    let place = "m.addressee, m.sender, m.entry, m.place";
    format!(
        "SELECT {} FROM (SELECT m.*, sum(octet_length(m.body) + coalesce(octet_length(m.spec), 0)) \
            OVER (ORDER BY {place}) - octet_length(m.body) - coalesce(octet_length(m.spec), 0) AS weight_before \
            FROM (SELECT * FROM tenure.messages m WHERE ({place}) > ($1, $2, $3, $4) ORDER BY {place} LIMIT $5) m) m \
         WHERE m.weight_before < {PAGE_BYTES_MAX} ORDER BY {place}",
        MESSAGE.join(", ")
    )
});

/// All rows of durable runs of these tasks, for reads of whole tasks.
pub(super) struct WholeRuns {
    pub(super) checkpoints: Vec<Row>,
    pub(super) children: Vec<Row>,
    pub(super) signals: Vec<Row>,
}

/// Reads them; nothing is sent if no task has any.
pub(super) async fn whole(client: &Client, ids: &[Vec<u8>]) -> Read<WholeRuns> {
    if ids.is_empty() {
        let none = Vec::new;
        return Ok(WholeRuns { checkpoints: none(), children: none(), signals: none() });
    }
    let parameters: [(&(dyn ToSql + Sync), Type); 1] = [(&ids, Type::BYTEA_ARRAY)];
    let of = |columns: &str, table: &str, letter: &str, order: &str| {
        format!(
            "SELECT {letter}.task, {columns} FROM tenure.{table} {letter} WHERE {letter}.task = ANY ($1) \
             ORDER BY {letter}.task, {letter}.{order}"
        )
    };
    let checkpoints = of(CHECKPOINT, "checkpoints", "c", "number");
    let children = of(CHILD, "children", "k", "key");
    let signals = of(SIGNAL, "signals", "s", "number");
    let (checkpoints, children, signals) = futures_util::join!(
        client.query_typed(&checkpoints, &parameters),
        client.query_typed(&children, &parameters),
        client.query_typed(&signals, &parameters),
    );
    Ok(WholeRuns { checkpoints: checkpoints?, children: children?, signals: signals? })
}

pub(super) async fn saved_messages(
    client: &Client,
    after: Option<&MessageKey>,
    limit: usize,
) -> Read<Vec<SavedMessage>> {
    let bytes = |id: Option<TaskId>| id.map_or(Vec::new(), |id| id_bytes(id).to_vec());
    let (to, from) = (bytes(after.map(|key| key.to.id)), bytes(after.map(|key| key.from)));
    // Numbers are far below the column's maximum; a value above it is after all of them.
    let place = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
    let (entry, index) =
        after.map_or((0, 0), |key| (place(key.number.entry), place(key.number.index)));
    let limit = as_limit(limit);
    let parameters: [(&(dyn ToSql + Sync), Type); 5] = [
        (&to, Type::BYTEA),
        (&from, Type::BYTEA),
        (&entry, Type::INT4),
        (&index, Type::INT4),
        (&limit, Type::INT8),
    ];
    let rows = client.query_typed(&SAVED_MESSAGES, &parameters).await?;
    messages::read(&rows)
}
