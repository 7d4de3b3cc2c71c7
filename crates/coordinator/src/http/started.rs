//! `POST /v1/tasks/{taskId}/started`.

use axum::Json;
use axum::extract::{Path, State};
use verdict::{Answer, request};
use wire::answers::StartedAck;
use wire::requests::Started;

use super::api_error::ApiError;
use super::app_state::AppState;
use super::body::{HEARTBEAT_BYTES_MAX, JsonBody};
use super::caller::caller;
use super::submit::unexpected;
use super::translate::{instant, time};
use crate::admit::TaskPrincipal;
use crate::item::Reply;

pub(super) async fn started(
    State(app): State<AppState>,
    principal: TaskPrincipal,
    Path(task): Path<String>,
    JsonBody(body): JsonBody<HEARTBEAT_BYTES_MAX>,
) -> Result<Json<StartedAck>, ApiError> {
    let Started { attempt, worker_id, started_at } = wire::parse(&body)?;
    let (key, caller) = caller(&principal, &task, attempt, &worker_id)?;
    let claimed_at = started_at.map(instant);
    let asked = app.coordinator.started(key, request::Started { caller, claimed_at });
    acknowledge(app.decided(asked).await?).map(Json)
}

pub(super) fn acknowledge(reply: Reply) -> Result<StartedAck, ApiError> {
    let answered = reply?;
    match answered.answer {
        Answer::Acknowledged => Ok(StartedAck {
            acknowledged: true,
            verdict: wire::Verdict::Committed,
            server_time: time(answered.at),
        }),
        Answer::Refused(refusal) => Err(refusal.into()),
        other => Err(unexpected(&other)),
    }
}
