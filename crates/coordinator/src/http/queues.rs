//! `GET /v1/queues`: waiting and running tasks, and pauses.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use store::{Browse, QueueDepth, QueuePause};
use wire::answers::{QueueView, Queues};

use super::api_error::ApiError;
use super::app_state::AppState;
use super::pauses;
use super::translate::time;
use crate::admit::ReaderPrincipal;
use crate::admit::principals::Principal;

pub(super) async fn queues(
    State(app): State<AppState>,
    principal: ReaderPrincipal,
) -> Result<Json<Queues>, ApiError> {
    let (browse, scope) = (app.coordinator.browse(), principal.scope());
    let depths = app.read(Duration::ZERO, app.inner.queue_depths.of(browse, scope)).await?;
    let paused = app.read(Duration::ZERO, browse.paused_queues()).await?;
    let mut queues: BTreeMap<String, QueueView> =
        depths.into_iter().map(|depth| (depth.queue.to_string(), view(depth))).collect();
    for pause in paused.iter().filter(|pause| pause.scope == *scope) {
        let name = pause.queue.to_string();
        queues.entry(name).or_insert_with(|| empty(pause)).pause = Some(pauses::view(pause));
    }
    queues.retain(|name, _| principal.may_use(name));
    Ok(Json(Queues { queues: queues.into_values().collect() }))
}

fn view(depth: QueueDepth) -> QueueView {
    let QueueDepth {
        scope: _,
        queue,
        ready,
        parked,
        delayed,
        running,
        unfinished: _,
        runs: _,
        oldest_ready_at,
    } = depth;
    let oldest_ready_at = oldest_ready_at.map(time);
    let queue = queue.to_string();
    QueueView { queue, ready, parked, delayed, running, oldest_ready_at, pause: None }
}

/// A paused queue is shown even if it holds no task.
fn empty(pause: &QueuePause) -> QueueView {
    let queue = pause.queue.to_string();
    QueueView {
        queue,
        ready: 0,
        parked: 0,
        delayed: 0,
        running: 0,
        oldest_ready_at: None,
        pause: None,
    }
}
