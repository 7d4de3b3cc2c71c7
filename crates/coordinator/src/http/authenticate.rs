//! From the Authorization header to the principal that the route's row requires.
//!
//! Authentication runs before the handler and before the body is read. It stores the principal in the request,
//! from which the handler extracts it by type. If a handler's type differs from its row, it finds no principal
//! and the call fails with an internal error: a mismatch never opens a route.

use axum::extract::FromRequestParts;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};
use verdict::{Name, Scope};
use wire::Code;

use super::api_error::ApiError;
use super::app_state::AppState;
use super::caller::{invalid_token, verify};
use super::console_session::Entered;
use super::queue_limit::check_run;
use super::routes::{Audience, RateClass, Route};
use super::token_grace::TokenGrace;
use crate::admit::administer::Reach;
use crate::admit::api_key::Verified;
use crate::admit::principals::Principal;
use crate::admit::{
    AdminPrincipal, ApprovalReaderPrincipal, ApproverPrincipal, AuditorPrincipal, ClientPrincipal,
    KeyError, KeyHolderPrincipal, LeaseHolderPrincipal, ReaderPrincipal, TaskPrincipal,
    WorkerPrincipal,
};
use crate::server::ConnectionAuth;

/// Passes a request on if its credential is the one its route requires, with the principal stored in it.
pub(super) async fn authenticate(
    app: &AppState,
    route: &Route,
    parts: &mut Parts,
) -> Result<(), ApiError> {
    match route.audience {
        Audience::Anyone => Ok(()),
        Audience::Client => {
            let client: ClientPrincipal = admit(app, route, parts)?;
            leave(check_run(app, route, client, parts).await?, parts)
        }
        Audience::Reader => {
            let reader: ReaderPrincipal = admit(app, route, parts)?;
            leave(check_run(app, route, reader, parts).await?, parts)
        }
        Audience::Worker => leave::<WorkerPrincipal>(admit(app, route, parts)?, parts),
        Audience::LeaseHolder => leave(admit_holder(app, parts)?, parts),
        Audience::Admin => leave::<AdminPrincipal>(admit(app, route, parts)?, parts),
        Audience::Auditor => leave::<AuditorPrincipal>(admit(app, route, parts)?, parts),
        Audience::Approver => leave::<ApproverPrincipal>(admit(app, route, parts)?, parts),
        Audience::ApprovalReader => {
            leave::<ApprovalReaderPrincipal>(admit(app, route, parts)?, parts)
        }
        Audience::KeyHolder => leave::<KeyHolderPrincipal>(admit(app, route, parts)?, parts),
        Audience::TaskToken => {
            let principal = admit_token(app, parts).await?;
            parts.extensions.insert(TenantOf(principal.token().scope.tenant.clone()));
            parts.extensions.insert(principal);
            Ok(())
        }
        Audience::Scraper => admit_scraper(app, route, parts),
    }
}

/// The tenant whose share of the readers a request uses.
#[derive(Clone)]
pub(super) struct TenantOf(pub(super) Name);

/// The key of a request. What is refused is refused to it, and a read that waited is not answered if it became invalid meanwhile.
#[derive(Clone)]
pub(super) struct KeyOf {
    pub(super) id: Name,
    pub(super) scope: Scope,
}

fn leave<P: Principal + Clone + Send + Sync + 'static>(
    principal: P,
    parts: &mut Parts,
) -> Result<(), ApiError> {
    parts.extensions.insert(TenantOf(principal.key().scope.tenant.clone()));
    let key = principal.key();
    parts.extensions.insert(KeyOf { id: key.id.clone(), scope: key.scope.clone() });
    parts.extensions.insert(principal);
    Ok(())
}

/// The only bearer credential of a request. Two headers count as none: two readers might pick different ones.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next()?;
    if values.next().is_some() {
        return None;
    }
    let (scheme, credential) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(credential)
}

/// The principal of an API key with a role that `P` needs.
fn admit<P: Principal>(app: &AppState, route: &Route, parts: &Parts) -> Result<P, ApiError> {
    let now = app.coordinator.now();
    let entered = parts.extensions.get::<Entered>();
    let verified = match entered {
        Some(entered) => Ok(entered.verified.clone()),
        None => bearer(&parts.headers)
            .ok_or(KeyError::Unknown)
            .and_then(|text| app.inner.keys.find(text, now)),
    };
    let verified = verified.map_err(|why| ApiError::new(Code::Unauthenticated, why.to_string()))?;
    mark_authenticated(parts);
    let principal = P::admit(&verified).ok_or_else(|| lacks_role::<P>(&verified))?;
    match (route.rate, entered) {
        (_, Some(entered)) if route.method == Method::GET => {
            app.check_rate_of_session(&entered.session, now)?;
        }
        (RateClass::Tenant, _) => app.check_rate(&verified.key().scope.tenant, now)?,
        (RateClass::Exempt, _) => {}
    }
    app.note_use(&verified, now);
    Ok(principal)
}

/// Whether a route for this audience takes the key, whatever its handler says about the object.
pub(super) fn admits(audience: Audience, verified: &Verified) -> bool {
    match audience {
        Audience::Client => ClientPrincipal::admit(verified).is_some(),
        Audience::Reader => ReaderPrincipal::admit(verified).is_some(),
        Audience::Worker => WorkerPrincipal::admit(verified).is_some(),
        Audience::LeaseHolder => LeaseHolderPrincipal::admit(verified).is_some(),
        Audience::Admin => AdminPrincipal::admit(verified).is_some(),
        Audience::Auditor | Audience::Scraper => AuditorPrincipal::admit(verified).is_some(),
        Audience::Approver => ApproverPrincipal::admit(verified).is_some(),
        Audience::ApprovalReader => ApprovalReaderPrincipal::admit(verified).is_some(),
        Audience::KeyHolder => KeyHolderPrincipal::admit(verified).is_some(),
        // Anyone may, and a token is no key.
        Audience::Anyone | Audience::TaskToken => false,
    }
}

/// The principal of a worker that holds leases. Revoking its key stops new work; the attempts in hand go on under their
/// task tokens, as in single calls.
fn admit_holder(app: &AppState, parts: &Parts) -> Result<LeaseHolderPrincipal, ApiError> {
    let now = app.coordinator.now();
    let text = bearer(&parts.headers).ok_or(KeyError::Unknown);
    let verified = text.and_then(|text| app.inner.keys.find_even_unusable(text));
    let verified = verified.map_err(|why| ApiError::new(Code::Unauthenticated, why.to_string()))?;
    mark_authenticated(parts);
    let principal = LeaseHolderPrincipal::admit(&verified)
        .ok_or_else(|| lacks_role::<LeaseHolderPrincipal>(&verified))?;
    if app.inner.keys.is_usable(verified.key().id.as_str(), now) {
        app.note_use(&verified, now);
    }
    Ok(principal)
}

fn lacks_role<P: Principal>(verified: &Verified) -> ApiError {
    let message = format!("this needs an API key with the role {}", P::NEEDS);
    let key = verified.key();
    ApiError::new(Code::Forbidden, message).by(&key.id, &key.scope)
}

async fn admit_token(app: &AppState, parts: &Parts) -> Result<TaskPrincipal, ApiError> {
    let Some(text) = bearer(&parts.headers) else { return Err(invalid_token()) };
    let principal = verify(app, text, &mut TokenGrace::default()).await?;
    mark_authenticated(parts);
    Ok(principal)
}

/// Metrics cover the work of all tenants. They are open to every caller of a listener that the operator opened;
/// elsewhere they need an administrator or a reader of everything.
fn admit_scraper(app: &AppState, route: &Route, parts: &Parts) -> Result<(), ApiError> {
    // A session may have come through a proxy on this machine, from anywhere.
    if app.has_open_metrics && parts.extensions.get::<Entered>().is_none() {
        mark_authenticated(parts);
        return Ok(());
    }
    let principal: AuditorPrincipal = admit(app, route, parts).map_err(ask_for_metrics)?;
    if principal.reach() == Reach::Everything {
        return Ok(());
    }
    let error = ApiError::new(Code::Forbidden, METRICS_NEED);
    Err(error.by(principal.key(), principal.scope()))
}

const METRICS_NEED: &str = "metrics are about all tenants: beyond loopback they need an admin or \
                            reader key of default/default, or a separate listener (`tenure serve --metrics-listen`)";

/// Explains what `/metrics` needs to a caller without it.
fn ask_for_metrics(error: ApiError) -> ApiError {
    match error.code {
        Code::Unauthenticated | Code::Forbidden => {
            ApiError { message: METRICS_NEED.to_owned(), ..error }
        }
        _ => error,
    }
}

/// Reports to the connection that its caller was authenticated. Requests without a connection have nothing to
/// report to.
pub(super) fn mark_authenticated(parts: &Parts) {
    if let Some(connection_auth) = parts.extensions.get::<ConnectionAuth>() {
        connection_auth.mark_authenticated();
    }
}

macro_rules! left_in_the_request {
    ($($principal:ty),+) => {$(
        impl FromRequestParts<AppState> for $principal {
            type Rejection = ApiError;

            async fn from_request_parts(
                parts: &mut Parts,
                _: &AppState,
            ) -> Result<Self, ApiError> {
                parts.extensions.remove().ok_or_else(audience_mismatch)
            }
        }
    )+};
}

left_in_the_request!(
    ClientPrincipal,
    ReaderPrincipal,
    WorkerPrincipal,
    LeaseHolderPrincipal,
    AdminPrincipal,
    AuditorPrincipal,
    ApproverPrincipal,
    ApprovalReaderPrincipal,
    KeyHolderPrincipal,
    TaskPrincipal
);

fn audience_mismatch() -> ApiError {
    tracing::error!("a handler wants another principal than its row in the table of routes");
    ApiError::new(Code::Internal, "internal error of the coordinator; report it with the requestId")
}
