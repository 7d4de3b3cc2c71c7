//! `GET /v1/runs/{runId}/children`, and the tree of a run's descendants, as far as a reader asks for it.

use std::collections::VecDeque;

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use store::{Browse, Failure, RowsAfter, StoredChild, TaskKey};
use verdict::{Scope, State as TaskState, Subject};
use wire::answers::{ChildView, Children};
use wire::limits::PAGE_ITEMS_DEFAULT;
use wire::requests::RecordsQuery;

use super::api_error::ApiError;
use super::app_state::AppState;
use super::caller::RunPath;
use super::translate::{query, state, time};
use crate::admit::ReaderPrincipal;

/// How deep a tree is shown: deeper ones are rare, and a reader opens a child instead.
const DEPTH_MAX: usize = 16;

pub(super) async fn children(
    State(app): State<AppState>,
    principal: ReaderPrincipal,
    RunPath(run): RunPath,
    uri: Uri,
) -> Result<Json<Children>, ApiError> {
    let RecordsQuery { after, limit } = query(&uri)?;
    let key = TaskKey { scope: principal.scope().clone(), id: run };
    let browse = app.coordinator.browse();
    let limit = limit.unwrap_or(PAGE_ITEMS_DEFAULT) as usize;
    let reading = async {
        if browse.find(&key).await?.is_none() {
            return Ok(None);
        }
        page(browse, &key, after.unwrap_or(0), limit).await.map(Some)
    };
    let page = app.read(reading).await?;
    page.map(Json).ok_or_else(ApiError::run_not_found)
}

async fn page<B: Browse>(
    browse: &B,
    key: &TaskKey,
    after: u32,
    limit: usize,
) -> Result<Children, Failure> {
    let started = browse.rows(key, RowsAfter::Started(after), limit).await?.children;
    let next_after = started.last().map(|last| last.number);
    let mut children = Vec::with_capacity(started.len());
    for child in started {
        children.push(view(browse, &key.scope, child).await?.0);
    }
    Ok(Children { children, next_after })
}

/// A child as it is now, and whether it has children itself.
async fn view<B: Browse>(
    browse: &B,
    scope: &Scope,
    started: StoredChild,
) -> Result<(ChildView, bool), Failure> {
    let StoredChild { number: _, at, child } = started;
    let key = TaskKey { scope: scope.clone(), id: child.id };
    let subject = browse.find(&key).await?.map_or(Subject::Absent, |found| found.subject);
    let (kind, queue, run) = match &subject {
        Subject::Live(task) => (task.kind.to_string(), task.queue.to_string(), &task.run),
        Subject::Done(done) => (done.kind.to_string(), done.queue.to_string(), &done.run),
        // Its message is still saved, or retention has removed a detached one.
        Subject::Absent => (String::new(), String::new(), &None),
    };
    let has_children = run.as_ref().is_some_and(|run| run.children > 0);
    let now = subject.state().or(child.end).unwrap_or(TaskState::Queued);
    let view = ChildView {
        key: child.key.to_string(),
        task_id: child.id.to_string(),
        kind,
        queue,
        state: state(now),
        detached: child.is_detached,
        started_at: Some(time(at)),
        children: Vec::new(),
    };
    Ok((view, has_children))
}

/// The descendants of a task, level by level, at most `max` of them.
pub(super) async fn tree<B: Browse>(
    browse: &B,
    root: &TaskKey,
    max: usize,
) -> Result<Vec<ChildView>, Failure> {
    let (mut top, mut left) = (Vec::new(), max);
    // A path of positions leads to the task whose children come next.
    let mut open: VecDeque<(TaskKey, Vec<usize>)> = VecDeque::from([(root.clone(), Vec::new())]);
    while let Some((key, path)) = open.pop_front() {
        let started = browse.rows(&key, RowsAfter::Started(0), left).await?.children;
        left = left.saturating_sub(started.len());
        for child in started {
            let id = child.child.id;
            let (view, has_children) = view(browse, &key.scope, child).await?;
            let siblings = at(&mut top, &path);
            siblings.push(view);
            if has_children && path.len() + 1 < DEPTH_MAX {
                let inner = path.iter().copied().chain([siblings.len() - 1]).collect();
                open.push_back((TaskKey { scope: key.scope.clone(), id }, inner));
            }
        }
        if left == 0 {
            break;
        }
    }
    Ok(top)
}

fn at<'a>(top: &'a mut Vec<ChildView>, path: &[usize]) -> &'a mut Vec<ChildView> {
    path.iter().fold(top, |children, position| &mut children[*position].children)
}
