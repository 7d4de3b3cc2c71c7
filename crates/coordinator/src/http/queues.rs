//! `GET /v1/queues`: waiting and running tasks.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use store::{Browse, QueueDepth, Store};
use wire::answers::{QueueView, Queues};

use super::api_error::ApiError;
use super::app_state::AppState;
use super::translate::time;
use crate::admit::ReaderPrincipal;
use crate::admit::principals::Principal;

pub(super) async fn queues<S: Store>(
    State(app): State<AppState<S>>,
    principal: ReaderPrincipal,
) -> Result<Json<Queues>, ApiError> {
    let reading = app.coordinator.browse().queues(Some(principal.scope()));
    let mut queues = app.read(Duration::ZERO, reading).await?;
    queues.retain(|depth| principal.may_use(depth.queue.as_str()));
    let queues = queues.into_iter().map(view).collect();
    Ok(Json(Queues { queues }))
}

fn view(depth: QueueDepth) -> QueueView {
    let QueueDepth { scope: _, queue, ready, delayed, running, unfinished: _, oldest_ready_at } =
        depth;
    let oldest_ready_at = oldest_ready_at.map(time);
    QueueView { queue: queue.to_string(), ready, delayed, running, oldest_ready_at }
}
