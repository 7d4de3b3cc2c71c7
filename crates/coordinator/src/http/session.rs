//! `GET /v1/session`: what the caller's key may do; and `POST /v1/console-codes`: a one-time code that stands for it.
//!
//! What a key may do is read from the table of routes, so whoever shows or offers something asks here and has no rule
//! about roles. A few routes refuse some keys of the right role, because what they are about belongs to no queue or to
//! all tenants; they are listed here, and a test compares every name with what the routes answer.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use store::ApiKey;
use verdict::{Name, Scope, Text, Time};
use wire::Code;
use wire::answers::{ConsoleCode, Session as SessionView};

use super::api_error::ApiError;
use super::app_state::AppState;
use super::authenticate::{admits, bearer};
use super::console_session::Entered;
use super::keys::role_view;
use super::routes::{Audience, Route, routes};
use super::translate::time;
use crate::admit::api_key::{Role, Verified};
use crate::admit::principals::Principal as _;
use crate::admit::sessions::codes::CodeFor;
use crate::admit::sessions::secret_digest;
use crate::admit::{ClientPrincipal, KeyError, KeyHolderPrincipal, ReaderPrincipal};

/// What no client and no reader that is limited to queues may do, because it is not looked up by queue.
const WITHOUT_QUEUES: [&str; 4] =
    ["deployments.", "flow-keys.", "recovery.candidates.", "schedules.read"];

/// What only keys of default/default may do, because it is about all tenants.
const ABOUT_ALL_TENANTS: [&str; 5] =
    ["audit.verify.read", "budgets.write", "limits.write", "set-aside.read", "signing-keys.rotate"];

pub(super) async fn session(
    State(app): State<AppState>,
    _: KeyHolderPrincipal,
    caller: Caller,
) -> Json<SessionView> {
    Json(view(&app, &caller.verified, caller.ends_at))
}

/// The key of a call, and when the session ends in which it is used.
pub(super) struct Caller {
    verified: Verified,
    ends_at: Option<Time>,
}

impl axum::extract::FromRequestParts<AppState> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(
        parts: &mut axum::http::request::Parts,
        app: &AppState,
    ) -> Result<Self, ApiError> {
        if let Some(Entered { verified, session }) = parts.extensions.get::<Entered>() {
            return Ok(Self { verified: verified.clone(), ends_at: Some(session.ends_at) });
        }
        let found = bearer(&parts.headers).ok_or(KeyError::Unknown);
        let found = found.and_then(|text| app.inner.keys.find(text, app.coordinator.now()));
        let verified =
            found.map_err(|why| ApiError::new(Code::Unauthenticated, why.to_string()))?;
        Ok(Self { verified, ends_at: None })
    }
}

/// The key as its holder sees it.
pub(super) fn view(app: &AppState, verified: &Verified, ends_at: Option<Time>) -> SessionView {
    let key = verified.key();
    let ApiKey { id, scope, roles, name, queues, expires_at, .. } = key;
    let ends = [*expires_at, ends_at].into_iter().flatten().min();
    let roles = roles.iter().filter_map(|role| Role::of_stored(role.as_str()));
    SessionView {
        key_id: id.to_string(),
        name: name.as_ref().map(Text::to_string),
        tenant_id: scope.tenant.to_string(),
        workspace_id: scope.workspace.to_string(),
        roles: roles.map(role_view).collect(),
        queues: queues.as_ref().map(|queues| queues.iter().map(Name::to_string).collect()),
        may: rights(verified),
        expires_at: ends.map(time),
        server_time: app.server_time(),
    }
}

/// The names of all routes that take this key.
fn rights(verified: &Verified) -> Vec<String> {
    let is_of_all = verified.key().scope == Scope::default();
    let admitting = routes().into_iter().filter(|route| admits(route.audience, verified));
    let named = admitting.filter_map(|route| Some((route.audience, right(&route)?)));
    let reached = named.filter(|(audience, name)| {
        let needs_no_limit = WITHOUT_QUEUES.iter().any(|begin| name.starts_with(begin));
        let needs_everything = ABOUT_ALL_TENANTS.contains(&name.as_str());
        (!needs_no_limit || !is_limited(*audience, verified)) && (!needs_everything || is_of_all)
    });
    let names: BTreeSet<String> = reached.map(|(_, name)| name).collect();
    names.into_iter().collect()
}

/// Whether the key is limited to queues as far as a route for this audience is concerned.
fn is_limited(audience: Audience, verified: &Verified) -> bool {
    match audience {
        Audience::Client => {
            ClientPrincipal::admit(verified).is_some_and(|it| it.queues().is_some())
        }
        Audience::Reader => {
            ReaderPrincipal::admit(verified).is_some_and(|it| it.queues().is_some())
        }
        _ => false,
    }
}

/// The name of what a route does: the words of its path without ids, and `read` or `write` where they have no verb.
fn right(route: &Route) -> Option<String> {
    let path = route.path.strip_prefix("/v1/")?;
    let words: Vec<&str> = path.split('/').filter(|word| !word.starts_with('{')).collect();
    let name = words.join(".");
    let has_verb = words.len() > 1 && !path.ends_with('}');
    Some(match (&route.method, has_verb) {
        (&Method::GET, _) => format!("{name}.read"),
        (_, true) => name,
        (_, false) => format!("{name}.write"),
    })
}

/// Makes a code for the key of the call. A session makes none: it would outlive itself.
pub(super) async fn create_code(
    State(app): State<AppState>,
    principal: KeyHolderPrincipal,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    if !app.inner.has_console {
        return Err(ApiError::new(Code::NotFound, "this server was started without the console"));
    }
    let secret = bearer(&headers)
        .and_then(secret_digest)
        .ok_or_else(|| ApiError::new(Code::Unauthenticated, KeyError::Unknown.to_string()))?;
    let (key, tenant) = (principal.key().clone(), principal.scope().tenant.clone());
    let (now, stands_for) = (app.coordinator.now(), CodeFor { key, tenant, secret });
    let made = app.with_entropy(|entropy| app.inner.codes.make(stands_for, entropy, now));
    let (code, ends_at) = made.map_err(|_| {
        let message = "this server keeps no more one-time codes of the tenant; wait some minutes, or log in with the key";
        ApiError::new(Code::TooManySessions, message)
    })?;
    let (path, server_time) = (code_path(&code), app.server_time());
    let answer = ConsoleCode { code, path, expires_at: time(ends_at), server_time };
    Ok((StatusCode::CREATED, Json(answer)).into_response())
}

/// Where a code is opened. A browser sends nothing behind `#`.
pub(crate) fn code_path(code: &str) -> String {
    format!("/console/#code={code}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn one_name_means_one_audience() {
        let mut audiences: BTreeMap<String, Audience> = BTreeMap::new();
        for route in routes() {
            let Some(name) = right(&route) else { continue };
            let known = *audiences.entry(name).or_insert(route.audience);
            assert_eq!(known, route.audience, "{route:?}");
        }
        for name in ["runs.read", "runs.write", "runs.cancel", "queues.pause", "effects.redrive"] {
            assert!(audiences.contains_key(name), "{name} of {:?}", audiences.keys());
        }
        for listed in WITHOUT_QUEUES.iter().chain(&ABOUT_ALL_TENANTS) {
            assert!(audiences.keys().any(|name| name.starts_with(listed)), "{listed}");
        }
    }
}
