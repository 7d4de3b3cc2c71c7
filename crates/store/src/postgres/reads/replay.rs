//! What a durable run recorded, as its function replays it: a page of checkpoints and started children in one order, with
//! the signals that waits took and the ends of children.
//!
//! A page is three round trips, however many records it has: which records fit, their rows, and what belongs to those.

use std::collections::HashMap;
use std::sync::LazyLock;

use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use verdict::run::{Checkpoint, Recorded};
use verdict::{End, TaskId};

use super::{Client, Read, as_limit};
use crate::postgres::rows::{Columns, id_bytes};
use crate::row_size::ByteBudget;
use crate::run_columns::{self, CHECKPOINT, CHILD, SIGNAL};
use crate::runs::{RecordsOf, RunRecord, StoredSignal};

/// [`RecordsOf`], owned.
pub(super) enum Wanted {
    After(u32),
    Keys(Vec<String>),
}

impl Wanted {
    pub(super) fn of(records: RecordsOf<'_>) -> Self {
        match records {
            RecordsOf::After(n) => Wanted::After(n),
            RecordsOf::Keys(keys) => {
                Wanted::Keys(keys.iter().map(|key| key.as_str().to_owned()).collect())
            }
        }
    }
}

pub(super) async fn read(
    client: &Client,
    id: TaskId,
    wanted: &Wanted,
    limit: usize,
) -> Read<Vec<RunRecord>> {
    let numbers = fitting(client, id, wanted, limit).await?;
    if numbers.is_empty() {
        return Ok(Vec::new());
    }
    let bytes = id_bytes(id);
    let parameters: [(&(dyn ToSql + Sync), Type); 2] =
        [(&&bytes[..], Type::BYTEA), (&numbers, Type::INT4_ARRAY)];
    let (checkpoints, started) = futures_util::join!(
        client.query_typed(&CHECKPOINTS, &parameters),
        client.query_typed(&STARTED, &parameters),
    );
    let checkpoints = checkpoints?;
    let read = |row: &Row| Ok(run_columns::checkpoint(&mut Columns::of(row))?);
    let checkpoints: Vec<Checkpoint> = checkpoints.iter().map(read).collect::<Read<_>>()?;
    let (signals, ends) =
        futures_util::join!(signals(client, id, &checkpoints), ends(client, &checkpoints));
    let (signals, ends) = (signals?, ends?);
    let mut records: Vec<RunRecord> =
        checkpoints.into_iter().map(|it| complete(it, &signals, &ends)).collect();
    for row in &started? {
        records.push(RunRecord::Started(run_columns::child(&mut Columns::of(row))?));
    }
    records.sort_by_key(RunRecord::number);
    Ok(records)
}

/// The numbers of the records that one page holds: at least one, if there is one.
async fn fitting(client: &Client, id: TaskId, wanted: &Wanted, limit: usize) -> Read<Vec<i32>> {
    let (bytes, limit) = (id_bytes(id), as_limit(limit));
    let task: (&(dyn ToSql + Sync), Type) = (&&bytes[..], Type::BYTEA);
    let rows = match wanted {
        // Numbers are far below the column's maximum; a value above it is after all of them.
        Wanted::After(n) => {
            let after = i32::try_from(*n).unwrap_or(i32::MAX);
            let parameters = [task, (&after, Type::INT4), (&limit, Type::INT8)];
            client.query_typed(&PAGE_AFTER, &parameters).await?
        }
        Wanted::Keys(keys) => {
            let parameters = [task, (keys, Type::TEXT_ARRAY), (&limit, Type::INT8)];
            client.query_typed(&PAGE_OF_KEYS, &parameters).await?
        }
    };
    let mut budget = ByteBudget::page();
    let sized = rows.iter().map(|row| {
        let mut columns = Columns::of(row);
        Ok((columns.take::<i32>()?, usize::try_from(columns.take::<i64>()?).unwrap_or(0)))
    });
    let sized: Vec<(i32, usize)> = sized.collect::<Read<_>>()?;
    Ok(sized.into_iter().take_while(|(_, size)| budget.takes(*size)).map(|it| it.0).collect())
}

fn complete(
    checkpoint: Checkpoint,
    signals: &HashMap<u32, StoredSignal>,
    ends: &HashMap<TaskId, End>,
) -> RunRecord {
    let (mut taken, mut end) = (Vec::new(), None);
    match &checkpoint.recorded {
        Recorded::Step(_) => {}
        Recorded::Wait(wait) => {
            let found = wait
                .taken
                .iter()
                .filter_map(|it| Some((it.item.clone(), signals.get(&it.signal)?.clone())));
            taken.extend(found);
        }
        Recorded::Child(ended) => end = ends.get(&ended.child).cloned(),
    }
    RunRecord::Checkpoint { checkpoint, taken, end }
}

/// The signals that these waits took, by their numbers.
async fn signals(
    client: &Client,
    id: TaskId,
    checkpoints: &[Checkpoint],
) -> Read<HashMap<u32, StoredSignal>> {
    let waits = checkpoints.iter().filter_map(|checkpoint| match &checkpoint.recorded {
        Recorded::Wait(wait) => Some(wait),
        Recorded::Step(_) | Recorded::Child(_) => None,
    });
    let taken = waits.flat_map(|wait| &wait.taken);
    let numbers: Vec<i32> = taken.filter_map(|it| i32::try_from(it.signal).ok()).collect();
    if numbers.is_empty() {
        return Ok(HashMap::new());
    }
    let bytes = id_bytes(id);
    let parameters: [(&(dyn ToSql + Sync), Type); 2] =
        [(&&bytes[..], Type::BYTEA), (&numbers, Type::INT4_ARRAY)];
    let rows = client.query_typed(&SIGNALS, &parameters).await?;
    let read = |row: &Row| {
        let stored = run_columns::signal(&mut Columns::of(row))?;
        Ok((stored.signal.number, stored))
    };
    rows.iter().map(read).collect()
}

/// How these children ended, as far as they are still stored.
async fn ends(client: &Client, checkpoints: &[Checkpoint]) -> Read<HashMap<TaskId, End>> {
    let children = checkpoints.iter().filter_map(|checkpoint| match &checkpoint.recorded {
        Recorded::Child(ended) => Some(id_bytes(ended.child).to_vec()),
        Recorded::Step(_) | Recorded::Wait(_) => None,
    });
    let ids: Vec<Vec<u8>> = children.collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = client.query_typed(ENDS, &[(&ids, Type::BYTEA_ARRAY)]).await?;
    let read = |row: &Row| {
        let mut columns = Columns::of(row);
        let id = columns.task_id()?;
        let (state, reason) = (columns.column("state")?, columns.column("reason")?);
        let (output, fault) = (columns.column("output")?, columns.column("fault")?);
        Ok((id, End { state, reason, output, fault }))
    };
    rows.iter().map(read).collect()
}

/// Numbers and sizes of checkpoints, with the end of a child, and of started children.
fn page(which: &str) -> String {
    format!(
        "SELECT r.number, r.size FROM (\
            SELECT c.number, (octet_length(c.recorded) + coalesce(octet_length(c.result), 0) \
                + coalesce(octet_length(d.output), 0) + coalesce(octet_length(d.fault), 0))::int8 AS size \
            FROM (SELECT * FROM tenure.checkpoints WHERE task = $1 AND {which} ORDER BY number LIMIT $3) c \
            LEFT JOIN tenure.children k ON k.task = c.task AND k.key = c.key \
            LEFT JOIN tenure.done d ON d.id = k.child \
            UNION ALL \
            SELECT * FROM (SELECT number, 0::int8 FROM tenure.children WHERE task = $1 AND {which} \
                ORDER BY number LIMIT $3) k\
         ) r ORDER BY r.number LIMIT $3"
    )
}

static PAGE_AFTER: LazyLock<String> = LazyLock::new(|| page("number > $2"));
static PAGE_OF_KEYS: LazyLock<String> = LazyLock::new(|| page("key = ANY ($2 COLLATE \"C\")"));

static CHECKPOINTS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {CHECKPOINT} FROM tenure.checkpoints c WHERE c.task = $1 AND c.number = ANY ($2)"
    )
});
static STARTED: LazyLock<String> = LazyLock::new(|| {
    format!("SELECT {CHILD} FROM tenure.children k WHERE k.task = $1 AND k.number = ANY ($2)")
});
static SIGNALS: LazyLock<String> = LazyLock::new(|| {
    format!("SELECT {SIGNAL} FROM tenure.signals s WHERE s.task = $1 AND s.number = ANY ($2)")
});
const ENDS: &str =
    "SELECT d.id, d.state, d.reason, d.output, d.fault FROM tenure.done d WHERE d.id = ANY ($1)";

/// Statements that a worker's replay repeats, to be prepared on direct connections.
pub(in crate::postgres) fn frequent_statements() -> impl Iterator<Item = &'static str> {
    let built: [&'static LazyLock<String>; 4] = [&PAGE_AFTER, &CHECKPOINTS, &STARTED, &SIGNALS];
    built.into_iter().map(|text| text.as_str()).chain([ENDS])
}
