//! `POST /v1/queues/{queue}/pause` and `…/resume`.
//!
//! Paths have no escapes, and a queue's name may have slashes: in the path each is written as `~`, which no name has.

use axum::Json;
use axum::extract::{Path, State};
use store::QueuePause;
use verdict::{Name, Scope, Text};
use wire::Code;
use wire::pausing::{Pause, PauseQueue, QueueStatus, ResumeQueue};

use super::api_error::ApiError;
use super::app_state::{AppState, RequestId};
use super::body::{API_BYTES_MAX, JsonBody};
use super::queue_limit::check_unreserved;
use super::translate::{scope_or, time};
use crate::admit::AdminPrincipal;
use crate::admit::pausing::{PauseError, Wanted, change};

pub(super) async fn pause(
    State(app): State<AppState>,
    principal: AdminPrincipal,
    Path(queue): Path<String>,
    request: RequestId,
    JsonBody(body): JsonBody<API_BYTES_MAX>,
) -> Result<Json<QueueStatus>, ApiError> {
    let PauseQueue { reason, tenant_id, workspace_id } = wire::parse(&body)?;
    check_unreserved("queue", &named(&queue))?;
    let scope = scope_or(principal.scope(), tenant_id, workspace_id);
    let wanted = Wanted::Paused { reason: reason.map(Text::from) };
    carry_out(&app, &principal, request, (scope, queue), wanted).await
}

pub(super) async fn resume(
    State(app): State<AppState>,
    principal: AdminPrincipal,
    Path(queue): Path<String>,
    request: RequestId,
    JsonBody(body): JsonBody<API_BYTES_MAX>,
) -> Result<Json<QueueStatus>, ApiError> {
    let ResumeQueue { tenant_id, workspace_id } = wire::parse(&body)?;
    let scope = scope_or(principal.scope(), tenant_id, workspace_id);
    carry_out(&app, &principal, request, (scope, queue), Wanted::Resumed).await
}

async fn carry_out(
    app: &AppState,
    principal: &AdminPrincipal,
    RequestId(request): RequestId,
    (scope, queue): (Scope, String),
    wanted: Wanted,
) -> Result<Json<QueueStatus>, ApiError> {
    let queue = named(&queue);
    wire::check_name("queue", &queue)?;
    let (place, request) = ((scope.clone(), Name::from(queue.as_str())), Name::new(request));
    let changing = change(&app.inner.keys, &app.coordinator, principal, request, place, wanted);
    let after = app.decided(changing).await?.map_err(|error| refused(error, principal))?;
    Ok(Json(QueueStatus {
        queue,
        tenant_id: scope.tenant.to_string(),
        workspace_id: scope.workspace.to_string(),
        pause: after.as_ref().map(view),
    }))
}

/// The queue that a path means.
fn named(path: &str) -> String {
    path.replace('~', "/")
}

fn refused(error: PauseError, principal: &AdminPrincipal) -> ApiError {
    let message = error.to_string();
    match error {
        PauseError::OutOfReach => {
            ApiError::new(Code::Forbidden, message).by(principal.key(), principal.scope())
        }
        PauseError::TooMany => ApiError::field("queue", message),
        PauseError::CallerGone => ApiError::new(Code::Unauthenticated, message),
        PauseError::Unreadable => ApiError::new(Code::Unavailable, message),
        PauseError::NotInForce => ApiError::new(Code::UnknownOutcome, message),
        PauseError::Request(error) => error.into(),
    }
}

pub(super) fn view(pause: &QueuePause) -> Pause {
    let QueuePause { scope: _, queue: _, at, by, reason } = pause;
    Pause {
        paused_at: time(*at),
        paused_by: by.to_string(),
        reason: reason.as_ref().map(Text::to_string),
    }
}
