//! Tasks by id, and lists of tasks: first their ids and sizes, then the rows of those that fit.
//!
//! A list enters the index of its scope at its cursor, and visits no row of another scope. Filters that the index
//! does not cover (queue, kind, state, labels, worker, category) are checked row by row, up to a maximum number of
//! rows. The page then ends, and its cursor says where the next one continues.

use std::collections::HashMap;
use std::sync::LazyLock;

use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use verdict::{Category, Scope, State, Subject, TaskId};

use super::{Client, Read, as_limit};
use crate::columns::{listed_done, listed_spec, submitted};
use crate::postgres::rows::{self, Columns, SPEC, done_columns, id_bytes, task_columns};
use crate::row::{Bodies, Filter, LabelFilter, Listed, Listing, PageStop, StoredTask};
use crate::row_size::{ByteBudget, ROW_BYTES};

const WITHOUT_TRACE: &str = "(d.fault::jsonb - 'stack_trace')::text";
/// Size of a fault without its stack trace: its message is no longer.
const FAULT_BYTES_MAX: usize = 4_096;
const ALL: Bodies = Bodies { input: true, output: true, stack_trace: true };

/// The worker of a list's task: it holds the lease, or had the latest attempt. A read by id leaves it out.
const WORKER: &str = "coalesce((SELECT l.owner FROM tenure.live l WHERE l.id = i.id), \
    (SELECT a.owner FROM tenure.attempts a WHERE a.task = i.id ORDER BY a.attempt DESC LIMIT 1))";
const NO_WORKER: &str = "NULL::text";

static FOUND_LIVE: LazyLock<String> = LazyLock::new(|| live_statement(SPEC, NO_WORKER));
static FOUND_DONE: LazyLock<String> =
    LazyLock::new(|| done_statement(&done_columns(), SPEC, NO_WORKER));

/// Statements that read single tasks often, to be prepared on direct connections.
pub(in crate::postgres) fn frequent_statements() -> impl Iterator<Item = &'static str> {
    [FOUND_LIVE.as_str(), FOUND_DONE.as_str()].into_iter()
}

fn live_statement(spec: &str, worker: &str) -> String {
    format!(
        "SELECT {}, {spec}, i.tale, {worker} FROM tenure.live l JOIN tenure.inputs i ON i.id = l.id \
         WHERE l.id = ANY ($1)",
        task_columns()
    )
}

fn done_statement(columns: &str, spec: &str, worker: &str) -> String {
    format!(
        "SELECT {columns}, {spec}, i.tale, {worker} \
         FROM tenure.done d JOIN tenure.inputs i ON i.id = d.id WHERE d.id = ANY ($1)"
    )
}

/// The tasks with these ids, in this order. A task that is neither live nor done is left out: the integrity check
/// reports it.
pub(in crate::postgres) async fn found(client: &Client, ids: &[Vec<u8>]) -> Read<Vec<StoredTask>> {
    let listed = read(client, &FOUND_LIVE, &FOUND_DONE, ids).await?;
    Ok(listed.into_iter().map(|listed| listed.task).collect())
}

async fn read(client: &Client, live: &str, done: &str, ids: &[Vec<u8>]) -> Read<Vec<Listed>> {
    let parameters: [(&(dyn ToSql + Sync), Type); 1] = [(&ids, Type::BYTEA_ARRAY)];
    let (live, done) = futures_util::join!(
        client.query_typed(live, &parameters),
        client.query_typed(done, &parameters)
    );
    let mut found: HashMap<TaskId, Listed> = HashMap::new();
    for row in &live? {
        let mut columns = Columns::of(row);
        let task = rows::live_row(&mut columns)?.task;
        found.insert(task.id, listed(&mut columns, task.id, Subject::Live(task))?);
    }
    for row in &done? {
        let mut columns = Columns::of(row);
        let done = rows::done(&mut columns)?;
        found.insert(done.id, listed(&mut columns, done.id, Subject::Done(done))?);
    }
    Ok(ids.iter().filter_map(|id| found.remove(&task_id(id)?)).collect())
}

fn listed(columns: &mut Columns<'_>, id: TaskId, subject: Subject) -> Read<Listed> {
    let (spec, inline_history) = (rows::spec(columns)?, columns.inline_history()?);
    let entries = inline_history.entries(id).map_err(|error| columns.unreadable(error))?;
    let worker = columns.optional_name()?;
    Ok(Listed { task: StoredTask { subject, spec }, submitted: submitted(entries), worker })
}

fn task_id(bytes: &[u8]) -> Option<TaskId> {
    let id: [u8; 16] = bytes.try_into().ok()?;
    Some(TaskId::from_u128(u128::from_be_bytes(id)))
}

/// A task that may be listed, and its size.
struct Candidate {
    id: Vec<u8>,
    bytes: usize,
}

pub(in crate::postgres) async fn list(
    client: &Client,
    scope: &Scope,
    filter: &Filter,
) -> Read<Listing> {
    let candidates = candidates(client, scope, filter).await?;
    let chosen = fitting(&candidates, filter.limit, filter.bytes);
    let (next, stopped) = if chosen.len() < candidates.len() {
        let is_full = chosen.len() == filter.limit;
        (chosen.last().and_then(|id| task_id(id)), (!is_full).then_some(PageStop::Bytes))
    } else {
        let last = scanned_to(client, scope, filter).await?;
        (last, last.filter(|_| chosen.len() < filter.limit).map(|_| PageStop::Scan))
    };
    let spec = listed_spec(filter.bodies);
    let columns = format!("{}, {}", rows::ended_head(), listed_done(filter.bodies, WITHOUT_TRACE));
    let (live, done) = (live_statement(&spec, WORKER), done_statement(&columns, &spec, WORKER));
    Ok(Listing { tasks: read(client, &live, &done, &chosen).await?, next, stopped })
}

fn fitting(candidates: &[Candidate], limit: usize, bytes: usize) -> Vec<Vec<u8>> {
    let mut budget = ByteBudget::new(bytes);
    let fits = candidates.iter().take(limit).take_while(|it| budget.takes(it.bytes));
    fits.map(|candidate| candidate.id.clone()).collect()
}

/// The columns that determine the size of a task of `inputs i`.
fn weight(bodies: Bodies) -> String {
    let input = if bodies.input { "octet_length(i.input)" } else { "0" };
    let output = if bodies.output { "octet_length(d.output)" } else { "0" };
    let fault = if bodies.stack_trace {
        "octet_length(d.fault)".to_owned()
    } else {
        format!("least(octet_length(d.fault), {FAULT_BYTES_MAX})")
    };
    format!(
        "({ROW_BYTES} + {input} + coalesce(octet_length(i.goal), 0) \
            + coalesce(octet_length(i.asset_id), 0) + coalesce(octet_length(i.labels), 0) \
            + coalesce((SELECT coalesce({output}, 0) + coalesce({fault}, 0) \
                FROM tenure.done d WHERE d.id = i.id), 0))::bigint"
    )
}

/// Written as one row comparison on the index of scopes. Three separate conditions would also fit the index of ids,
/// and a generic plan would choose that one: it scans the tasks of all scopes. Runs have an index of their own.
fn of_scope(filter: &Filter) -> String {
    let roots = if filter.children { "" } else { "AND parent IS NULL" };
    format!(
        "tenure.inputs WHERE (tenant, workspace, id) < ($2, $3, $1) \
         AND (tenant, workspace, id) >= ($2, $3, $4) {roots} \
         ORDER BY tenant DESC, workspace DESC, id DESC"
    )
}

/// Newest first. A filter by state reads only the table that holds that state.
pub(in crate::postgres) fn list_statement(filter: &Filter) -> String {
    let state = match filter.state {
        None => "CROSS JOIN (SELECT $9::text) s".to_owned(),
        Some(state) => {
            let table = if state.is_terminal() { "done" } else { "live" };
            format!(
                "CROSS JOIN LATERAL (SELECT 1 FROM tenure.{table} WHERE id = i.id AND state = $9 \
                 OFFSET 0) s"
            )
        }
    };
    format!(
        "SELECT i.id, {} FROM (SELECT * FROM {} LIMIT $13) i {state} \
         WHERE ($5::text IS NULL OR i.queue = $5) AND ($6::text IS NULL OR i.kind = $6) \
            AND ($7::text[] IS NULL OR i.labels::jsonb @> ALL ($7::jsonb[])) \
            AND ($8::text[] IS NULL OR i.labels::jsonb ?& $8) \
            AND ($10::text IS NULL OR {CATEGORY} = $10) AND ($11::text IS NULL OR {WORKER} = $11) \
            AND ($14::text[] IS NULL OR i.queue = ANY ($14)) \
         ORDER BY i.tenant DESC, i.workspace DESC, i.id DESC LIMIT $12",
        weight(filter.bodies),
        of_scope(filter)
    )
}

/// The category of the failure that ended a task.
const CATEGORY: &str =
    "(SELECT d.fault::jsonb ->> 'category' FROM tenure.done d WHERE d.id = i.id)";

/// The tasks that pass the filter, at most one more than the page may have.
async fn candidates(client: &Client, scope: &Scope, filter: &Filter) -> Read<Vec<Candidate>> {
    let (before, from) = (before(filter), from(filter));
    let (tenant, workspace) = (scope.tenant.as_str(), scope.workspace.as_str());
    let queue = filter.queue.as_ref().map(|name| name.as_str());
    let kind = filter.kind.as_ref().map(|name| name.as_str());
    let (values, names) = label_parameters(&filter.labels);
    let state = filter.state.map(State::name);
    let category = filter.category.map(Category::name);
    let worker = filter.worker.as_ref().map(|name| name.as_str());
    let (limit, scan_max) = (as_limit(filter.limit.saturating_add(1)), as_limit(filter.scan_max));
    let queues: Option<Vec<&str>> =
        filter.queues.as_ref().map(|queues| queues.iter().map(|name| name.as_str()).collect());
    let parameters: [(&(dyn ToSql + Sync), Type); 14] = [
        (&before, Type::BYTEA),
        (&tenant, Type::TEXT),
        (&workspace, Type::TEXT),
        (&from, Type::BYTEA),
        (&queue, Type::TEXT),
        (&kind, Type::TEXT),
        (&values, Type::TEXT_ARRAY),
        (&names, Type::TEXT_ARRAY),
        (&state, Type::TEXT),
        (&category, Type::TEXT),
        (&worker, Type::TEXT),
        (&limit, Type::INT8),
        (&scan_max, Type::INT8),
        (&queues, Type::TEXT_ARRAY),
    ];
    let rows = client.query_typed(&list_statement(filter), &parameters).await?;
    rows.iter().map(candidate).collect()
}

/// Labels with their values, each as a JSON object, and the names of labels that may have any value.
fn label_parameters(labels: &[LabelFilter]) -> (Option<Vec<String>>, Option<Vec<&str>>) {
    let with_value = labels.iter().filter_map(|label| {
        let value = label.value.as_deref()?;
        Some(serde_json::json!({ &label.name: value }).to_string())
    });
    let without = labels.iter().filter(|label| label.value.is_none());
    let values: Vec<String> = with_value.collect();
    let names: Vec<&str> = without.map(|label| label.name.as_str()).collect();
    ((!values.is_empty()).then_some(values), (!names.is_empty()).then_some(names))
}

/// The cursor; without one, a value above every id, so that the index is always entered at a position.
fn before(filter: &Filter) -> Vec<u8> {
    filter.before.map_or(vec![0xff; 17], |id| id_bytes(id).to_vec())
}

/// The oldest id of the list; without one, a value below every id.
fn from(filter: &Filter) -> Vec<u8> {
    filter.from.map_or(Vec::new(), |id| id_bytes(id).to_vec())
}

fn candidate(row: &Row) -> Read<Candidate> {
    let mut columns = Columns::of(row);
    let id = columns.take()?;
    let bytes = usize::try_from(columns.take::<i64>()?).unwrap_or(usize::MAX);
    Ok(Candidate { id, bytes })
}

/// The last task that was scanned, if there are more behind it.
async fn scanned_to(client: &Client, scope: &Scope, filter: &Filter) -> Read<Option<TaskId>> {
    let (before, from) = (before(filter), from(filter));
    let scan_max = as_limit(filter.scan_max.saturating_sub(1));
    let (tenant, workspace) = (scope.tenant.as_str(), scope.workspace.as_str());
    let parameters: [(&(dyn ToSql + Sync), Type); 5] = [
        (&before, Type::BYTEA),
        (&tenant, Type::TEXT),
        (&workspace, Type::TEXT),
        (&from, Type::BYTEA),
        (&scan_max, Type::INT8),
    ];
    let sql = format!("SELECT id FROM {} OFFSET $5 LIMIT 2", of_scope(filter));
    let rows = client.query_typed(&sql, &parameters).await?;
    match rows.as_slice() {
        [last, _] => Ok(Some(Columns::of(last).task_id()?)),
        _ => Ok(None),
    }
}

/// Tasks of all scopes in order of id, as many as fit.
pub(in crate::postgres) async fn all_tasks(
    client: &Client,
    after: Option<TaskId>,
    limit: usize,
) -> Read<Vec<StoredTask>> {
    let after = after.map_or(Vec::new(), |id| id_bytes(id).to_vec());
    let sql = format!(
        "SELECT i.id, {} FROM tenure.inputs i WHERE i.id > $1 \
            AND (EXISTS (SELECT 1 FROM tenure.live l WHERE l.id = i.id) \
                OR EXISTS (SELECT 1 FROM tenure.done d WHERE d.id = i.id)) ORDER BY i.id LIMIT $2",
        weight(ALL)
    );
    let most = as_limit(limit);
    let rows = client.query_typed(&sql, &[(&after, Type::BYTEA), (&most, Type::INT8)]).await?;
    let candidates: Vec<Candidate> = rows.iter().map(candidate).collect::<Read<_>>()?;
    found(client, &fitting(&candidates, limit, crate::row::PAGE_BYTES_MAX)).await
}
