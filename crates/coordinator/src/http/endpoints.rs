//! `/v1/endpoints`: where effects are delivered, registered and changed by administrators.
//!
//! A secret is in the answer that made it and in no other. A URL is judged here and again at every call.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use delivery::Target;
use store::effects::StoredEndpoint;
use verdict::effect::{Declared, Endpoint, EndpointStatus, OnDead};
use verdict::{Name, Scope, Span, Text};
use webhook::Secret;
use wire::answers::RetryPolicy;
use wire::effects::{
    CreateEndpoint, EndpointList, EndpointSecret, EndpointView, RotateEndpoint, UpdateEndpoint,
};
use wire::requests::Retry;
use wire::{Code, EndpointState};

use super::api_error::ApiError;
use super::app_state::{AppState, RequestId};
use super::audit::note_act;
use super::body::{API_BYTES_MAX, JsonBody};
use super::queue_limit::check_unreserved;
use super::translate::time;
use crate::admit::{AdminPrincipal, AuditorPrincipal};
use crate::item::Item;
use crate::outbox::administer::{EndpointChange, EndpointRefusal, change};
use crate::outbox::secrets;

/// How long the secret before a rotation signs, unless the call says otherwise: a day, so that receivers can follow.
const OVERLAP_DEFAULT: Span = Span::from_secs(24 * 60 * 60);

const CREATED: &str = "endpoint.created";
const UPDATED: &str = "endpoint.updated";
const ROTATED: &str = "endpoint.rotated";
const DELETED: &str = "endpoint.deleted";

pub(super) async fn create(
    State(app): State<AppState>,
    principal: AdminPrincipal,
    request: RequestId,
    JsonBody(body): JsonBody<API_BYTES_MAX>,
) -> Result<Response, ApiError> {
    let wanted: CreateEndpoint = wire::parse(&body)?;
    app.coordinator.refuse_if_draining()?;
    let (name, mut settings) = wanted.into_update();
    // Who is registered for work hears of ends only if that is said.
    if settings.queues.as_ref().is_some_and(|queues| !queues.is_empty()) {
        settings.types.get_or_insert_default();
    }
    let url = settings.url.clone().unwrap_or_default();
    let endpoint = Endpoint::new(name.into(), url.into());
    let endpoint = with_settings(&app, endpoint, settings)?;
    let (secret, sealed) = new_secret(&app, principal.scope(), &endpoint.name);
    let name = endpoint.name.clone();
    let change = EndpointChange::Create { endpoint, secret: sealed };
    let stored = carry_out(&app, &principal, request, name, change, CREATED).await?;
    Ok((StatusCode::CREATED, Json(with_secret(&stored, &secret))).into_response())
}

pub(super) async fn list(
    State(app): State<AppState>,
    principal: AuditorPrincipal,
) -> Json<EndpointList> {
    let known = app.coordinator.endpoints().snapshot();
    let of_scope = known.get(principal.scope()).into_iter().flat_map(|known| known.values());
    Json(EndpointList { endpoints: of_scope.map(|stored| view(stored)).collect() })
}

pub(super) async fn show(
    State(app): State<AppState>,
    principal: AuditorPrincipal,
    Path(name): Path<String>,
) -> Result<Json<EndpointView>, ApiError> {
    known(&app, principal.scope(), &name).map(|stored| Json(view(&stored)))
}

pub(super) async fn update(
    State(app): State<AppState>,
    principal: AdminPrincipal,
    Path(name): Path<String>,
    request: RequestId,
    JsonBody(body): JsonBody<API_BYTES_MAX>,
) -> Result<Json<EndpointView>, ApiError> {
    let settings: UpdateEndpoint = wire::parse(&body)?;
    app.coordinator.refuse_if_draining()?;
    let (enabled, before) = (settings.enabled, known(&app, principal.scope(), &name)?);
    let is_setting =
        UpdateEndpoint { enabled: None, ..settings.clone() } != UpdateEndpoint::default();
    let mut stored = before;
    if is_setting {
        let wanted = with_settings(&app, stored.endpoint.clone(), settings)?;
        let change = EndpointChange::Update(wanted);
        let (name, request) = (Name::from(name.as_str()), request.clone());
        stored = carry_out(&app, &principal, request, name, change, UPDATED).await?;
    }
    if let Some(enabled) = enabled {
        let change = if enabled { EndpointChange::Enable } else { EndpointChange::Disable };
        stored = carry_out(&app, &principal, request, name.into(), change, UPDATED).await?;
    }
    Ok(Json(view(&stored)))
}

pub(super) async fn rotate(
    State(app): State<AppState>,
    principal: AdminPrincipal,
    Path(name): Path<String>,
    request: RequestId,
    JsonBody(body): JsonBody<API_BYTES_MAX>,
) -> Result<Json<EndpointSecret>, ApiError> {
    let RotateEndpoint { overlap_ms } = wire::parse(&body)?;
    let name = Name::from(name);
    let (secret, sealed) = new_secret(&app, principal.scope(), &name);
    let overlap = overlap_ms.map_or(OVERLAP_DEFAULT, Span::from_millis);
    let change = EndpointChange::Rotate { secret: sealed, overlap };
    let stored = carry_out(&app, &principal, request, name, change, ROTATED).await?;
    Ok(Json(with_secret(&stored, &secret)))
}

pub(super) async fn delete(
    State(app): State<AppState>,
    principal: AdminPrincipal,
    Path(name): Path<String>,
    request: RequestId,
) -> Result<Json<EndpointView>, ApiError> {
    let change = EndpointChange::Delete;
    let stored = carry_out(&app, &principal, request, name.into(), change, DELETED).await?;
    Ok(Json(view(&stored)))
}

/// The endpoint of this name that is not deleted.
fn known(app: &AppState, scope: &Scope, name: &str) -> Result<StoredEndpoint, ApiError> {
    let known = app.coordinator.endpoints().snapshot();
    let stored = known.get(scope).and_then(|of_scope| of_scope.get(&Name::from(name)));
    let stored = stored.filter(|stored| stored.endpoint.status != EndpointStatus::Deleted);
    stored.map(|stored| (**stored).clone()).ok_or_else(|| refused(EndpointRefusal::NotFound))
}

/// Whether all endpoints that effects name are registered. A worker that names another learns it at once, and not from a
/// dead letter. One that is not known here may just have been registered through another coordinator.
pub(super) async fn check_endpoints(app: &AppState, item: &Item) -> Result<(), ApiError> {
    let Item::WithChildren { key, effects, .. } = item else { return Ok(()) };
    let is_unknown = |effect: &Declared| known(app, &key.scope, effect.endpoint.as_str()).is_err();
    if effects.iter().any(is_unknown) && app.coordinator.store().status().writers > 1 {
        app.read(app.coordinator.endpoints().reload()).await?;
    }
    let Some(n) = effects.iter().position(is_unknown) else { return Ok(()) };
    let message = "is not the name of an endpoint that is registered in this workspace";
    Err(ApiError::field(&format!("effects[{n}].endpoint"), message))
}

/// Changes an endpoint, and writes who did it to the audit.
async fn carry_out(
    app: &AppState,
    principal: &AdminPrincipal,
    request: RequestId,
    name: Name,
    wanted: EndpointChange,
    action: &'static str,
) -> Result<StoredEndpoint, ApiError> {
    app.coordinator.refuse_if_draining()?;
    let (scope, by) = (principal.scope().clone(), principal.key().clone());
    let changing = change(&app.coordinator, (scope.clone(), name.clone()), wanted, by.clone());
    let stored = app.decided(changing).await??.map_err(refused)?;
    note_act(app, (&scope, &by), action, name.as_str(), request).await?;
    Ok(stored)
}

fn refused(refusal: EndpointRefusal) -> ApiError {
    let message = refusal.to_string();
    match refusal {
        EndpointRefusal::NotFound => ApiError::new(Code::EndpointNotFound, message),
        EndpointRefusal::Exists | EndpointRefusal::Leaving | EndpointRefusal::TooMany => {
            ApiError::new(Code::EndpointExists, message)
        }
        EndpointRefusal::Busy => ApiError::new(Code::Unavailable, message),
    }
}

fn new_secret(
    app: &AppState,
    scope: &Scope,
    name: &Name,
) -> (Secret, store::effects::SealedSecret) {
    app.with_entropy(|entropy| {
        let secret = secrets::generate(entropy);
        let sealed = secrets::seal(&app.inner.keyring, (scope, name), &secret, entropy);
        (secret, sealed)
    })
}

/// The endpoint with what a call says. What it leaves out stays.
fn with_settings(
    app: &AppState,
    before: Endpoint,
    settings: UpdateEndpoint,
) -> Result<Endpoint, ApiError> {
    let UpdateEndpoint { url, types, idempotent, max_tries, retry, on_dead, .. } = settings;
    let UpdateEndpoint { concurrency, rate_per_second, queues, .. } = settings;
    queues.iter().flatten().try_for_each(|queue| check_unreserved("queues", queue))?;
    let url = url.map_or_else(|| before.url.clone(), Text::from);
    if let Err(refused) = Target::parse(url.as_str(), app.inner.sender.egress()) {
        return Err(ApiError::field("url", format!("is not allowed: {refused}")));
    }
    let Retry { base_ms, cap_ms } = retry.unwrap_or_default();
    let retry_base = base_ms.map_or(before.retry_base, Span::from_millis);
    let names = |types: Vec<String>| types.into_iter().map(Name::from).collect();
    Ok(Endpoint {
        url,
        types: types.map_or_else(|| before.types.clone(), names),
        queues: queues.map_or_else(|| before.queues.clone(), names),
        is_idempotent: idempotent.unwrap_or(before.is_idempotent),
        tries_max: max_tries.unwrap_or(before.tries_max),
        retry_base,
        retry_cap: cap_ms.map_or(before.retry_cap, Span::from_millis).max(retry_base),
        on_dead: on_dead.map_or(before.on_dead, |wanted| match wanted {
            wire::OnDead::Block => OnDead::Block,
            wire::OnDead::Skip => OnDead::Skip,
        }),
        concurrency: concurrency.unwrap_or(before.concurrency),
        rate: rate_per_second.or(before.rate),
        ..before
    })
}

fn with_secret(stored: &StoredEndpoint, secret: &Secret) -> EndpointSecret {
    let name = stored.endpoint.name.to_string();
    EndpointSecret { name, secret: secret.reveal(), endpoint: view(stored) }
}

fn view(stored: &StoredEndpoint) -> EndpointView {
    let Endpoint { name, url, types, queues, is_idempotent, tries_max, .. } = &stored.endpoint;
    let Endpoint { retry_base, retry_cap, on_dead, concurrency, rate, .. } = &stored.endpoint;
    let Endpoint { status, disabled_because, .. } = &stored.endpoint;
    EndpointView {
        name: name.to_string(),
        url: url.to_string(),
        types: types.iter().map(Name::to_string).collect(),
        queues: queues.iter().map(Name::to_string).collect(),
        idempotent: *is_idempotent,
        max_tries: *tries_max,
        retry: RetryPolicy { base_ms: retry_base.millis(), cap_ms: retry_cap.millis() },
        on_dead: match on_dead {
            OnDead::Block => wire::OnDead::Block,
            OnDead::Skip => wire::OnDead::Skip,
        },
        concurrency: *concurrency,
        rate_per_second: *rate,
        state: match status {
            EndpointStatus::Enabled => EndpointState::Enabled,
            EndpointStatus::Disabled => EndpointState::Disabled,
            EndpointStatus::Deleted => EndpointState::Deleted,
        },
        disabled_because: disabled_because.as_ref().map(Text::to_string),
        created_at: time(stored.created_at),
        previous_secret_until: stored.secrets.iter().find_map(|secret| secret.until).map(time),
    }
}
