//! The limit of an API key to some queues, applied to a request.
//!
//! A run of another queue is answered like one that does not exist, in one place for every route that names a run: a
//! new route cannot forget it. A queue that the caller names itself is refused by its name. Lists are narrowed by
//! their handlers. A key without a limit costs nothing here.

use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use store::{Browse, TaskKey};
use verdict::Name;
use wire::Code;

use super::api_error::ApiError;
use super::app_state::AppState;
use super::caller::RunPath;
use super::routes::Route;
use crate::admit::principals::Principal;

/// The parameter of a path that names a run.
const RUN: &str = "{run}";

/// Passes a principal on unless the path names a run of a queue that it may not use. A run never changes its queue, so
/// the check holds for everything that the handler does later.
pub(super) async fn check_run<P: Principal>(
    app: &AppState,
    route: &Route,
    principal: P,
    parts: &mut Parts,
) -> Result<P, ApiError> {
    if principal.queues().is_none() || !route.path.contains(RUN) {
        return Ok(principal);
    }
    let RunPath(id) = RunPath::from_request_parts(parts, app).await?;
    let key = TaskKey { scope: principal.key().scope.clone(), id };
    let found = app.read(Duration::ZERO, app.coordinator.browse().find(&key)).await?;
    match found.as_ref().and_then(|found| found.subject.queue()) {
        Some(queue) if principal.may_use(queue.as_str()) => Ok(principal),
        _ => Err(ApiError::run_not_found()),
    }
}

/// Refuses a queue that the caller named and may not use; `doing` says what for.
pub(super) fn check_queue<P: Principal>(
    principal: &P,
    doing: &str,
    queue: &str,
) -> Result<(), ApiError> {
    if principal.may_use(queue) {
        return Ok(());
    }
    let queues: Vec<&str> =
        principal.queues().unwrap_or_default().iter().map(Name::as_str).collect();
    let message = format!(
        "this API key may not {doing} the queue {queue}; it is limited to {}",
        queues.join(", ")
    );
    let key = principal.key();
    Err(ApiError::new(Code::Forbidden, message).by(&key.id, &key.scope))
}
