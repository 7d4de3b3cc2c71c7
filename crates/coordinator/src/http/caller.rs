//! From a task token and the path of a request to a caller of the rules.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use store::TaskKey;
use verdict::request::Caller;
use verdict::{Span, TaskId};
use wire::Code;

use super::api_error::ApiError;
use super::app_state::AppState;
use super::token_grace::TokenGrace;
use crate::admit::{TaskPrincipal, token};

/// The attempt of a task token. Time in which the coordinator could not be reached does not expire it.
pub(super) async fn verify(
    app: &AppState,
    text: &str,
    token_grace: &mut TokenGrace,
) -> Result<TaskPrincipal, ApiError> {
    let now = app.coordinator.now();
    let principal =
        token::authenticate(&app.inner.keyring, text, now).map_err(|_| invalid_token())?;
    if principal.is_expired(now, Span::ZERO) && !token_grace.covers(app, &principal).await? {
        let message = "the task token has expired; adopt the new token of each heartbeat answer";
        return Err(ApiError::new(Code::TokenExpired, message));
    }
    Ok(principal)
}

pub(super) fn invalid_token() -> ApiError {
    ApiError::new(Code::InvalidToken, "send the token of this task as `Authorization: Bearer …`")
}

/// The task id in a call, only in its canonical spelling.
pub(super) fn task_id(text: &str) -> Option<TaskId> {
    TaskId::parse(text).filter(|_| text.starts_with("task_"))
}

/// The run id in a call, only in its canonical spelling.
pub(super) fn run_id(text: &str) -> Option<TaskId> {
    TaskId::parse(text).filter(|_| text.starts_with("run_"))
}

/// The run id in a path. A malformed id, a missing run and another tenant's run get the same answer (X13).
pub(super) struct RunPath(pub(super) TaskId);

impl FromRequestParts<AppState> for RunPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, ApiError> {
        let Ok(Path(text)) = Path::<String>::from_request_parts(parts, app).await else {
            return Err(ApiError::run_not_found());
        };
        run_id(&text).map(RunPath).ok_or_else(ApiError::run_not_found)
    }
}

/// The caller, once the token agrees with the request: with the task of the path and the attempt of the
/// body, not with those of the store.
pub(super) fn caller(
    principal: &TaskPrincipal,
    path_task: &str,
    attempt: u32,
    worker: &str,
) -> Result<(TaskKey, Caller), ApiError> {
    let token = principal.token();
    if task_id(path_task) != Some(token.task) || token.attempt != attempt {
        let message = "the task token belongs to another task or another attempt";
        return Err(ApiError::new(Code::InvalidToken, message));
    }
    let key = TaskKey { scope: token.scope.clone(), id: token.task };
    let caller = Caller { worker: worker.into(), attempt, lease: token.lease, epoch: token.epoch };
    Ok((key, caller))
}
