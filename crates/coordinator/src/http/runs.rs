//! `GET /v1/runs` and `GET /v1/runs/{runId}`.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use store::{Bodies, Browse, Filter, LabelFilter, TaskKey};
use wire::answers::{PageStop, Run, RunList};
use wire::limits::PAGE_ITEMS_DEFAULT;
use wire::requests::{GetRun, Included, LabelQuery, ListRuns};

use super::api_error::ApiError;
use super::app_state::AppState;
use super::caller::RunPath;
use super::children::tree;
use super::ends::{REFUSED_MAX, complete_view, ended_run};
use super::queue_limit::check_queue;
use super::run_view::list_view;
use super::sight::{SeenPage, Sight};
use super::translate::{category_filter, instant, query, query_with_repeated, state_filter, time};
use crate::admit::principals::Principal;
use crate::admit::{Cursors, ReaderPrincipal};
use crate::ids;

pub(super) async fn show(
    State(app): State<AppState>,
    principal: ReaderPrincipal,
    RunPath(run): RunPath,
    uri: Uri,
) -> Result<Json<Run>, ApiError> {
    let GetRun { wait_ms, tree: descendants } = query(&uri)?;
    let wait = Duration::from_millis(wait_ms.unwrap_or(0));
    let key = TaskKey { scope: principal.scope().clone(), id: run };
    let run =
        find(&app, &key, Sight::of(&principal), wait).await?.ok_or_else(ApiError::run_not_found)?;
    let max = descendants.unwrap_or(0) as usize;
    if max == 0 || run.durable.is_none() {
        return Ok(Json(run));
    }
    let reading = tree(app.coordinator.browse(), &key, max);
    let children = app.read(reading).await?;
    Ok(Json(Run { children, ..run }))
}

/// The run when it has ended, or its state when the wait is over. Does not wait for a missing run.
async fn find(
    app: &AppState,
    key: &TaskKey,
    sight: Sight<'_>,
    wait: Duration,
) -> Result<Option<Run>, ApiError> {
    let ended = if wait.is_zero() { None } else { ended_run(app, key, sight, wait).await? };
    if ended.is_some() {
        return Ok(ended);
    }
    let reading = async {
        let browse = app.coordinator.browse();
        let found = browse.overview(key, REFUSED_MAX).await?;
        match found {
            Some(overview) if sight.sees(browse, &overview.task.subject).await? => {
                complete_view(app, key, overview).await
            }
            Some(_) | None => Ok(None),
        }
    };
    app.read(reading).await
}

pub(super) async fn list(
    State(app): State<AppState>,
    principal: ReaderPrincipal,
    uri: Uri,
) -> Result<Json<RunList>, ApiError> {
    let scope = principal.scope();
    let cursors = Cursors { keyring: &app.inner.keyring, scope, now: app.coordinator.now() };
    let filter = narrow(&principal, filter(&cursors, list_query(&uri)?)?)?;
    let (bodies, scan_max) = (filter.bodies, filter.scan_max as u64);
    let reading = Sight::of(&principal).list(app.coordinator.browse(), scope, filter);
    let SeenPage { listing, looked_at } = app.read(reading).await?;
    let now = app.server_time();
    let shown = listing.tasks.iter().filter_map(|listed| list_view(listed, bodies, now));
    let next_cursor = listing.next.map(|last| cursors.write(last));
    let stopped = listing.stopped.map(page_stop);
    let searched = (stopped == Some(PageStop::Scan)).then_some(looked_at.unwrap_or(scan_max));
    let searched_to = stopped.and(listing.next).map(|last| time(ids::submitted_at(last)));
    Ok(Json(RunList { runs: shown.collect(), next_cursor, stopped, searched, searched_to }))
}

fn page_stop(stop: store::PageStop) -> PageStop {
    match stop {
        store::PageStop::Bytes => PageStop::Bytes,
        store::PageStop::Scan => PageStop::Scan,
    }
}

/// The parameter `label` may be repeated; every other one may not.
fn list_query(uri: &Uri) -> Result<ListRuns, ApiError> {
    query_with_repeated(uri, "label", |query: &mut ListRuns, label| query.label = label)
}

fn label_filter(label: LabelQuery<'_>) -> LabelFilter {
    let LabelQuery { name, value } = label;
    LabelFilter { name: name.to_owned(), value: value.map(str::to_owned) }
}

/// A limited key lists the runs of its queues.
fn narrow(principal: &ReaderPrincipal, filter: Filter) -> Result<Filter, ApiError> {
    if let Some(queue) = &filter.queue {
        check_queue(principal, "read", queue.as_str())?;
    }
    Ok(Filter { queues: principal.queues().map(<[_]>::to_vec), ..filter })
}

fn filter(cursors: &Cursors<'_>, query: ListRuns) -> Result<Filter, ApiError> {
    let ListRuns {
        state,
        queue,
        kind,
        label,
        since,
        until,
        worker,
        category,
        children,
        limit,
        cursor,
        include,
    } = query;
    let before = match cursor {
        None => None,
        Some(cursor) => Some(cursors.read(&cursor).ok_or_else(|| {
            ApiError::field(
                "cursor",
                "is not a valid cursor; use `nextCursor` of the previous page",
            )
        })?),
    };
    let until = until.map(|until| ids::first_task_at(instant(until)));
    let labels = label.iter().map(|text| LabelQuery::of(text));
    Ok(Filter {
        state: state.map(state_filter),
        queue: queue.map(Into::into),
        kind: kind.map(Into::into),
        labels: labels.map(label_filter).collect(),
        worker: worker.map(Into::into),
        category: category.and_then(category_filter),
        children: children.unwrap_or(false),
        before: [before, until].into_iter().flatten().min(),
        from: since.map(|since| ids::first_task_at(instant(since))),
        limit: limit.unwrap_or(PAGE_ITEMS_DEFAULT) as usize,
        bodies: include.as_deref().and_then(Included::read).map(bodies).unwrap_or_default(),
        ..Filter::default()
    })
}

fn bodies(included: Included) -> Bodies {
    let Included { input, output, stack_trace } = included;
    Bodies { input, output, stack_trace }
}
