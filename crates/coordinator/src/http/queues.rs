//! `GET /v1/queues`: what waits and runs.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use store::{Browse, QueueDepth, Store};
use wire::answers::{QueueView, Queues};

use super::declined::Declined;
use super::door::Door;
use super::translate::time;
use crate::admit::ClientPrincipal;

pub(super) async fn queues<S: Store>(
    State(door): State<Door<S>>,
    principal: ClientPrincipal,
) -> Result<Json<Queues>, Declined> {
    let reading = door.coordinator.browse().queues(Some(principal.scope()));
    let queues = door.read(Duration::ZERO, reading).await?.into_iter().map(view).collect();
    Ok(Json(Queues { queues }))
}

fn view(depth: QueueDepth) -> QueueView {
    let QueueDepth { scope: _, queue, ready, delayed, running, oldest_ready_at } = depth;
    let oldest_ready_at = oldest_ready_at.map(time);
    QueueView { queue: queue.to_string(), ready, delayed, running, oldest_ready_at }
}
