//! `GET /v1/runs` and `GET /v1/runs/{runId}`.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use store::{Browse, Failure, Filter, Found, Store, TaskKey};
use verdict::{State as TaskState, Subject};
use wire::answers::{Run, RunList};
use wire::limits::PAGE_ITEMS_DEFAULT;
use wire::requests::{ListRuns, WaitMs};

use super::caller::RunPath;
use super::declined::Declined;
use super::door::Door;
use super::run_view::{refused_calls, submitted, view};
use super::translate::{query, state_filter};
use crate::admit::{ClientPrincipal, Cursors};

pub(super) async fn show<S: Store>(
    State(door): State<Door<S>>,
    principal: ClientPrincipal,
    RunPath(run): RunPath,
    uri: Uri,
) -> Result<Json<Run>, Declined> {
    let WaitMs { wait_ms } = query(&uri)?;
    let wait = Duration::from_millis(wait_ms.unwrap_or(0));
    let key = TaskKey { scope: principal.scope().clone(), id: run };
    let run = door.read(wait, find(&door, &key, wait)).await?;
    run.map(Json).ok_or_else(Declined::run_not_found)
}

/// The run when it has ended, or as it is when the wait is over. A missing run is not waited for.
async fn find<S: Store>(
    door: &Door<S>,
    key: &TaskKey,
    wait: Duration,
) -> Result<Option<Run>, Failure> {
    let browse = door.coordinator.browse();
    let look = || async {
        let found = browse.find(key).await?;
        Ok((wait.is_zero() || is_settled(found.as_ref())).then_some(found))
    };
    let found = match door.coordinator.watch_until(key.id, wait, look).await? {
        Some(found) => found,
        None => browse.find(key).await?,
    };
    let Some(found) = found else { return Ok(None) };
    let refused = refused_calls(browse.refused(key).await?);
    Ok(run(door, key, &found).await?.map(|run| Run { refused, ..run }))
}

fn is_settled(found: Option<&Found>) -> bool {
    found.is_none_or(|found| found.subject.state().is_none_or(TaskState::is_terminal))
}

async fn run<S: Store>(
    door: &Door<S>,
    key: &TaskKey,
    found: &Found,
) -> Result<Option<Run>, Failure> {
    let submitted = submitted(door, key).await?;
    Ok(view(found, submitted.as_ref(), door.server_time()))
}

pub(super) async fn list<S: Store>(
    State(door): State<Door<S>>,
    principal: ClientPrincipal,
    uri: Uri,
) -> Result<Json<RunList>, Declined> {
    let scope = principal.scope();
    let cursors = Cursors { keyring: &door.inner.keyring, scope, now: door.coordinator.now() };
    let filter = filter(&cursors, query(&uri)?)?;
    let limit = filter.limit;
    // One more than asked tells whether there is a next page.
    let filter = Filter { limit: limit + 1, ..filter };
    let mut found =
        door.read(Duration::ZERO, door.coordinator.browse().list(scope, &filter)).await?;
    let is_last = found.len() <= limit;
    found.truncate(limit);
    let last = found.last().and_then(|found| id(&found.subject));
    let next_cursor = last.filter(|_| !is_last).map(|last| cursors.write(last));
    let mut runs = Vec::with_capacity(found.len());
    for found in &found {
        let Some(id) = id(&found.subject) else { continue };
        let key = TaskKey { scope: scope.clone(), id };
        runs.extend(door.read(Duration::ZERO, run(&door, &key, found)).await?);
    }
    Ok(Json(RunList { runs, next_cursor }))
}

fn filter(cursors: &Cursors<'_>, query: ListRuns) -> Result<Filter, Declined> {
    let ListRuns { state, queue, kind, label, limit, cursor } = query;
    let before = match cursor {
        None => None,
        Some(cursor) => Some(cursors.read(&cursor).ok_or_else(|| {
            Declined::field(
                "cursor",
                "is not a cursor of ours; take `nextCursor` of the page before",
            )
        })?),
    };
    let label = label.as_deref().and_then(|label| label.split_once('='));
    Ok(Filter {
        state: state.map(state_filter),
        queue: queue.map(Into::into),
        kind: kind.map(Into::into),
        label: label.map(|(name, value)| (name.to_owned(), value.to_owned())),
        before,
        limit: limit.unwrap_or(PAGE_ITEMS_DEFAULT) as usize,
    })
}

fn id(subject: &Subject) -> Option<verdict::TaskId> {
    match subject {
        Subject::Absent => None,
        Subject::Live(task) => Some(task.id),
        Subject::Done(done) => Some(done.id),
    }
}
