//! The limit of an API key to some queues, applied to a request, and the queues that no key may serve.
//!
//! A run of another queue, or with a part in one ([`super::sight`]), is answered like one that does not exist, in one place for every
//! route that names a run: a new route cannot forget it. A queue that the caller names itself is refused by its name. Lists are narrowed by
//! their handlers. A key without a limit costs nothing here.
//!
//! Which queues are the server's own is a rule ([`verdict::reserved`]).

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use store::{Browse, TaskKey};
use verdict::reserved::is_served_outside;
use verdict::{Name, Reserved};
use wire::Code;

use super::api_error::ApiError;
use super::app_state::AppState;
use super::caller::RunPath;
use super::routes::Route;
use super::sight::Sight;
use crate::admit::TokenScope;
use crate::admit::principals::Principal;
use crate::item::{Item, Submission};

/// The parameter of a path that names a run.
const RUN: &str = "{run}";

/// Passes a principal on unless the path names a run that it may not see. A run never changes its queue and its plan never changes,
/// so the check holds for what the handler does later; a child that starts in between was started by a worker that may.
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
    let (browse, sight) = (app.coordinator.browse(), Sight::of(&principal));
    let reading = async {
        match browse.find(&key).await? {
            Some(found) => sight.sees(browse, &found.subject).await,
            None => Ok(false),
        }
    };
    match app.read(reading).await? {
        true => Ok(principal),
        false => Err(ApiError::run_not_found()),
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
    let key = principal.key();
    Err(beyond_limit(principal.queues().unwrap_or_default(), doing, queue).by(&key.id, &key.scope))
}

fn beyond_limit(queues: &[Name], doing: &str, queue: &str) -> ApiError {
    let queues: Vec<&str> = queues.iter().map(Name::as_str).collect();
    let message = format!(
        "this API key may not {doing} the queue {queue}; it is limited to {}",
        queues.join(", ")
    );
    ApiError::new(Code::Forbidden, message)
}

/// Refuses children in queues that the API key may not use under which the attempt was leased. A key that was revoked since
/// limits as before: its attempt goes on with what it could do when it began. One that this coordinator has not heard of yet
/// may be limited, so the call is to be repeated.
pub(super) fn check_children(
    app: &AppState,
    token: &TokenScope,
    item: &Item,
) -> Result<(), ApiError> {
    let Item::WithChildren { children, .. } = item else { return Ok(()) };
    let Some(id) = token.key.as_ref().filter(|_| !children.is_empty()) else { return Ok(()) };
    let Some(key) = app.inner.keys.get(id.as_str()) else {
        let message = "the API key of this attempt is not known here yet; try again";
        return Err(ApiError::new(Code::Unavailable, message));
    };
    let Some(limit) = key.queues.as_deref() else { return Ok(()) };
    let is_beyond = |child: &&Submission| !limit.contains(&child.queue);
    match children.iter().find(is_beyond) {
        None => Ok(()),
        Some(child) => {
            let refused = beyond_limit(limit, "start children in", child.queue.as_str());
            Err(refused.by(id, &token.scope))
        }
    }
}

/// Refuses every reserved queue, for what only its owner does: nothing is pushed from it, and it is not paused.
pub(super) fn check_unreserved(field: &str, queue: &str) -> Result<(), ApiError> {
    match Reserved::of(queue) {
        Some(_) => Err(reserved(field, queue)),
        None => Ok(()),
    }
}

/// Refuses a queue that the server serves itself: no worker leases from it.
pub(super) fn check_served(field: &str, queue: &str) -> Result<(), ApiError> {
    match is_served_outside(queue) {
        true => Ok(()),
        false => Err(reserved(field, queue)),
    }
}

fn reserved(field: &str, queue: &str) -> ApiError {
    let owner = match Reserved::of(queue) {
        Some(Reserved::BuiltInRecovery) => {
            "recovery, which makes its built-in evaluations itself".to_owned()
        }
        Some(Reserved::Recovery) => {
            "recovery; its evaluations are leased by workers, and by nobody else".to_owned()
        }
        Some(Reserved::Deployment(name)) => {
            format!("the deployment {name}, whose events and gates the server takes")
        }
        Some(Reserved::Unused) | None => "the server".to_owned(),
    };
    ApiError::field(field, format!("names the queue {queue}, which is reserved for {owner}"))
}
