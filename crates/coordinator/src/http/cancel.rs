//! `POST /v1/runs/{runId}/cancel`.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use store::TaskKey;
use verdict::request::{Cancel, CancelMode};
use verdict::{Answer, Refusal, Text};
use wire::answers::CancelAccepted;
use wire::requests::CancelRun;

use super::api_error::ApiError;
use super::app_state::AppState;
use super::body::{API_BYTES_MAX, JsonBody};
use super::caller::RunPath;
use super::submit::unexpected;
use super::translate::{state, time};
use crate::admit::ClientPrincipal;

pub(super) async fn cancel(
    State(app): State<AppState>,
    principal: ClientPrincipal,
    RunPath(run): RunPath,
    JsonBody(body): JsonBody<API_BYTES_MAX>,
) -> Result<Response, ApiError> {
    let CancelRun { reason, force } = wire::parse(&body)?;
    let mode = match force {
        Some(true) => CancelMode::Immediate,
        Some(false) | None => CancelMode::Graceful,
    };
    let key = TaskKey { scope: principal.scope().clone(), id: run };
    let asked = app.coordinator.cancel(key, Cancel { reason: reason.map(Text::from), mode });
    match app.decided(asked).await??.answer {
        Answer::CancelAccepted { state: now, requested_at } => {
            let accepted = CancelAccepted {
                run_id: run.run_name(),
                state: state(now),
                cancel_requested_at: time(requested_at),
            };
            Ok((StatusCode::ACCEPTED, Json(accepted)).into_response())
        }
        Answer::Refused(Refusal::TaskNotFound) => Err(ApiError::run_not_found()),
        Answer::Refused(refusal) => Err(refusal.into()),
        other => Err(unexpected(&other)),
    }
}
