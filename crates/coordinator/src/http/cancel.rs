//! `POST /v1/runs/{runId}/cancel`.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use store::{Store, TaskKey};
use verdict::request::{Cancel, Manner};
use verdict::{Answer, Refusal, Text};
use wire::answers::CancelAccepted;
use wire::requests::CancelRun;

use super::body::{API_BYTES_MAX, JsonBody};
use super::caller::RunPath;
use super::declined::Declined;
use super::door::Door;
use super::submit::unexpected;
use super::translate::{state, time};
use crate::admit::ClientPrincipal;

pub(super) async fn cancel<S: Store>(
    State(door): State<Door<S>>,
    principal: ClientPrincipal,
    RunPath(run): RunPath,
    JsonBody(body): JsonBody<API_BYTES_MAX>,
) -> Result<Response, Declined> {
    let CancelRun { reason, force } = wire::parse(&body)?;
    let manner = match force {
        Some(true) => Manner::Force,
        Some(false) | None => Manner::Ask,
    };
    let key = TaskKey { scope: principal.scope().clone(), id: run };
    let asked = door.coordinator.cancel(key, Cancel { reason: reason.map(Text::from), manner });
    match door.decided(asked).await??.answer {
        Answer::CancelAccepted { state: now, requested_at } => {
            let accepted = CancelAccepted {
                run_id: run.run_name(),
                state: state(now),
                cancel_requested_at: time(requested_at),
            };
            Ok((StatusCode::ACCEPTED, Json(accepted)).into_response())
        }
        Answer::Refused(Refusal::TaskNotFound) => Err(Declined::run_not_found()),
        Answer::Refused(refusal) => Err(refusal.into()),
        other => Err(unexpected(&other)),
    }
}
