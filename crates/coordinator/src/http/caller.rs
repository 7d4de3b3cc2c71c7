//! From the Authorization header to a principal, and from a task token to a caller of the rules.

use axum::extract::{FromRequestParts, MatchedPath, Path};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use store::{Store, TaskKey};
use verdict::request::Caller;
use verdict::{Span, TaskId};
use wire::Code;

use super::api_error::ApiError;
use super::app_state::AppState;
use super::token_grace::TokenGrace;
use crate::admit::administer::Reach;
use crate::admit::api_key::Principal;
use crate::admit::token;
use crate::admit::{
    AdminPrincipal, ClientPrincipal, KeyError, Role, TaskPrincipal, WorkerPrincipal,
};
use crate::server::ConnectionAuth;

/// The one bearer credential of a request. Two headers are none: who reads which would differ.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next()?;
    if values.next().is_some() {
        return None;
    }
    let (scheme, credential) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(credential)
}

fn admit<S: Store, P: Principal>(parts: &Parts, app: &AppState<S>) -> Result<P, ApiError> {
    let now = app.coordinator.now();
    let text = bearer(&parts.headers).ok_or(KeyError::Unknown);
    let verified = text.and_then(|text| app.inner.keys.find(text, now));
    let verified = verified.map_err(|why| ApiError::new(Code::Unauthenticated, why.to_string()))?;
    mark_authenticated(parts);
    let principal = P::admit(&verified).ok_or_else(|| {
        let message = format!("this needs an API key with the role {}", P::ROLE.name());
        let key = verified.key();
        ApiError::new(Code::Forbidden, message).by(&key.id, &key.scope)
    })?;
    if P::ROLE != Role::Admin && !is_under_lease(parts) {
        app.check_rate(&verified.key().scope.tenant, now)?;
    }
    app.note_use(&verified, now);
    Ok(principal)
}

/// Tells the connection that its caller was recognised. Requests that came without one have none to tell.
fn mark_authenticated(parts: &Parts) {
    if let Some(connection_auth) = parts.extensions.get::<ConnectionAuth>() {
        connection_auth.mark_authenticated();
    }
}

/// Whoever holds a lease may always say so: refusing it would lose work that is being done. Neither is
/// administration limited, or a wrong limit could not be taken back.
fn is_under_lease(parts: &Parts) -> bool {
    let path = parts.extensions.get::<MatchedPath>().map(MatchedPath::as_str);
    matches!(path, Some("/v1/reports" | "/v1/heartbeats"))
}

macro_rules! from_api_key {
    ($($principal:ty),+) => {$(
        impl<S: Store> FromRequestParts<AppState<S>> for $principal {
            type Rejection = ApiError;

            async fn from_request_parts(
                parts: &mut Parts,
                app: &AppState<S>,
            ) -> Result<Self, ApiError> {
                admit(parts, app)
            }
        }
    )+};
}

from_api_key!(ClientPrincipal, WorkerPrincipal, AdminPrincipal);

impl<S: Store> FromRequestParts<AppState<S>> for TaskPrincipal {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &AppState<S>) -> Result<Self, ApiError> {
        let Some(text) = bearer(&parts.headers) else { return Err(invalid_token()) };
        let principal = verify(app, text, &mut TokenGrace::default()).await?;
        mark_authenticated(parts);
        Ok(principal)
    }
}

/// Whoever may read `/metrics` here: everybody where it is open, else who administers everything, because it is
/// about everybody's work.
pub(super) struct Scraper;

impl<S: Store> FromRequestParts<AppState<S>> for Scraper {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &AppState<S>) -> Result<Self, ApiError> {
        if app.has_open_metrics {
            mark_authenticated(parts);
            return Ok(Self);
        }
        let principal: AdminPrincipal = admit(parts, app).map_err(ask_for_metrics)?;
        if principal.reach() == Reach::Everything {
            return Ok(Self);
        }
        let error = ApiError::new(Code::Forbidden, METRICS_NEED);
        Err(error.by(principal.key(), principal.scope()))
    }
}

const METRICS_NEED: &str = "metrics are about all tenants: beyond loopback they need an admin key of \
                            default/default, or a listener of their own (`tenure serve --metrics-listen`)";

/// Says what this route wants to whoever came without it.
fn ask_for_metrics(error: ApiError) -> ApiError {
    match error.code {
        Code::Unauthenticated | Code::Forbidden => {
            ApiError { message: METRICS_NEED.to_owned(), ..error }
        }
        _ => error,
    }
}

/// Whom a task token speaks for. Time in which nobody could have been heard does not end it.
pub(super) async fn verify<S: Store>(
    app: &AppState<S>,
    text: &str,
    token_grace: &mut TokenGrace,
) -> Result<TaskPrincipal, ApiError> {
    let now = app.coordinator.now();
    let principal =
        token::authenticate(&app.inner.keyring, text, now).map_err(|_| invalid_token())?;
    if principal.is_expired(now, Span::ZERO) && !token_grace.covers(app, &principal).await? {
        let message = "the task token has expired; heartbeats bring fresh ones before that";
        return Err(ApiError::new(Code::TokenExpired, message));
    }
    Ok(principal)
}

fn invalid_token() -> ApiError {
    ApiError::new(Code::InvalidToken, "send the task's own token as `Authorization: Bearer …`")
}

/// The task a call names, exactly as we print it.
pub(super) fn task_id(text: &str) -> Option<TaskId> {
    TaskId::parse(text).filter(|_| text.starts_with("task_"))
}

/// The run a path names. A spelling that is none, a missing run and a foreign one look alike (X13).
pub(super) struct RunPath(pub(super) TaskId);

impl<S: Store> FromRequestParts<AppState<S>> for RunPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &AppState<S>) -> Result<Self, ApiError> {
        let Ok(Path(text)) = Path::<String>::from_request_parts(parts, app).await else {
            return Err(ApiError::run_not_found());
        };
        let run = TaskId::parse(&text).filter(|_| text.starts_with("run_"));
        run.map(RunPath).ok_or_else(ApiError::run_not_found)
    }
}

/// Who calls, once the token agrees with what the request says about itself: the task of the path
/// and the attempt of the body, not the ones of the store.
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
