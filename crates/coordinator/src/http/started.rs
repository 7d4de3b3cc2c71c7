//! `POST /v1/tasks/{taskId}/started`.

use axum::Json;
use axum::extract::{Path, State};
use store::Store;
use verdict::{Answer, request};
use wire::answers::StartedAck;
use wire::requests::Started;

use super::body::{HEARTBEAT_BYTES_MAX, JsonBody};
use super::caller::caller;
use super::declined::Declined;
use super::door::Door;
use super::submit::unexpected;
use super::translate::time;
use crate::admit::TaskPrincipal;

pub(super) async fn started<S: Store>(
    State(door): State<Door<S>>,
    principal: TaskPrincipal,
    Path(task): Path<String>,
    JsonBody(body): JsonBody<HEARTBEAT_BYTES_MAX>,
) -> Result<Json<StartedAck>, Declined> {
    // The worker's own time decides nothing and the lease row has no place for it.
    let Started { attempt, worker_id, started_at: _ } = wire::parse(&body)?;
    let (key, caller) = caller(&principal, &task, attempt, &worker_id)?;
    let asked = door.coordinator.started(key, request::Started { caller });
    let answered = door.decided(asked).await??;
    match answered.answer {
        Answer::Acknowledged => Ok(Json(StartedAck {
            acknowledged: true,
            verdict: wire::Verdict::Committed,
            server_time: time(answered.at),
        })),
        Answer::Refused(refusal) => Err(refusal.into()),
        other => Err(unexpected(&other)),
    }
}
