//! `/v1/keys`: API keys made, listed, rotated and revoked by an administrator.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use store::ApiKey;
use store::row::PAGE_BYTES_MAX;
use verdict::{Name, Span, Text};
use wire::Code;
use wire::admin::{CreateKey, Key, Keys, ListKeys, NewKey as NewKeyAnswer, RotateKey};
use wire::limits::{KEY_OVERLAP_MS_DEFAULT, PAGE_ITEMS_DEFAULT};

use super::api_error::ApiError;
use super::app_state::{AppState, RequestId};
use super::body::{API_BYTES_MAX, JsonBody};
use super::translate::{instant, query, scope_or, time};
use crate::admit::administer::{KeyChange, KeyChangeError, change};
use crate::admit::api_key::{NewSecret, limit_to_queues};
use crate::admit::{AdminPrincipal, NewKey, Role};

/// What a key takes in an answer without its queues.
const KEY_BYTES: usize = 1_024;

/// What a name takes beside its characters.
const NAME_BYTES: usize = 3;

pub(super) async fn create(
    State(app): State<AppState>,
    principal: AdminPrincipal,
    request: RequestId,
    JsonBody(body): JsonBody<API_BYTES_MAX>,
) -> Result<Response, ApiError> {
    let wanted: CreateKey = wire::parse(&body)?;
    let roles: Vec<Role> = wanted.roles.iter().map(|it| role(*it)).collect();
    let now = app.coordinator.now();
    if wanted.expires_at.is_some_and(|at| instant(at).has_come(now)) {
        return Err(ApiError::field("expiresAt", "is in the past; give a time in the future"));
    }
    let scope = scope_or(principal.scope(), wanted.tenant_id, wanted.workspace_id);
    let new = app.with_entropy(|entropy| NewKey::generate(entropy, scope, &roles));
    let row = ApiKey {
        name: wanted.name.map(Text::from),
        expires_at: wanted.expires_at.map(instant),
        ..new.row(now)
    };
    let row = match wanted.queues {
        Some(queues) => limit_to_queues(row, queues.into_iter().map(Name::from).collect()),
        None => row,
    };
    let made = carry_out(&app, &principal, request, KeyChange::Create(Box::new(row))).await?;
    let answer = NewKeyAnswer { key: made, secret: new.text().to_owned() };
    Ok((StatusCode::CREATED, Json(answer)).into_response())
}

pub(super) async fn list(
    State(app): State<AppState>,
    principal: AdminPrincipal,
    uri: Uri,
) -> Result<Json<Keys>, ApiError> {
    let ListKeys { after, limit } = query(&uri)?;
    let (reach, limit) = (principal.reach(), limit.unwrap_or(PAGE_ITEMS_DEFAULT) as usize);
    let all = app.inner.keys.all();
    let rest =
        all.iter().filter(|key| after.as_deref().is_none_or(|after| key.id.as_str() > after));
    let (mut keys, mut bytes) = (Vec::new(), 0);
    for key in rest.filter(|key| reach.includes(&key.scope)) {
        bytes += size(key);
        if keys.len() == limit || (bytes > PAGE_BYTES_MAX && !keys.is_empty()) {
            let next_after = keys.last().map(|last: &Key| last.key_id.clone());
            return Ok(Json(Keys { keys, next_after }));
        }
        keys.push(view(key));
    }
    Ok(Json(Keys { keys, next_after: None }))
}

/// About what a key takes in an answer: all but its queues is small.
fn size(key: &ApiKey) -> usize {
    let queues = key.queues.iter().flatten();
    KEY_BYTES + queues.map(|queue| queue.as_str().len() + NAME_BYTES).sum::<usize>()
}

pub(super) async fn rotate(
    State(app): State<AppState>,
    principal: AdminPrincipal,
    Path(id): Path<String>,
    request: RequestId,
    JsonBody(body): JsonBody<API_BYTES_MAX>,
) -> Result<Json<NewKeyAnswer>, ApiError> {
    let RotateKey { overlap_ms } = wire::parse(&body)?;
    let id = Name::from(id);
    let secret = app.with_entropy(|entropy| NewSecret::generate(entropy, &id));
    let text = secret.text().to_owned();
    let overlap = Span::from_millis(overlap_ms.unwrap_or(KEY_OVERLAP_MS_DEFAULT));
    let key_change = KeyChange::Rotate { id, secret, overlap };
    let key = carry_out(&app, &principal, request, key_change).await?;
    Ok(Json(NewKeyAnswer { key, secret: text }))
}

pub(super) async fn revoke(
    State(app): State<AppState>,
    principal: AdminPrincipal,
    Path(id): Path<String>,
    request: RequestId,
) -> Result<Json<Key>, ApiError> {
    let key_change = KeyChange::Revoke { id: Name::from(id) };
    carry_out(&app, &principal, request, key_change).await.map(Json)
}

async fn carry_out(
    app: &AppState,
    principal: &AdminPrincipal,
    RequestId(request): RequestId,
    key_change: KeyChange,
) -> Result<Key, ApiError> {
    let changing =
        change(&app.inner.keys, &app.coordinator, principal, Name::new(request), key_change);
    match app.decided(changing).await? {
        Ok(key) => Ok(view(&key)),
        Err(KeyChangeError::OutOfReach) => {
            let message = KeyChangeError::OutOfReach.to_string();
            Err(ApiError::new(Code::Forbidden, message).by(principal.key(), principal.scope()))
        }
        Err(error) => Err(error.into()),
    }
}

impl From<KeyChangeError> for ApiError {
    fn from(error: KeyChangeError) -> Self {
        let code = match error {
            KeyChangeError::OutOfReach => Code::Forbidden,
            KeyChangeError::NotFound => Code::KeyNotFound,
            KeyChangeError::NotUsable => Code::KeyNotUsable,
            KeyChangeError::LastAdmin => Code::LastAdminKey,
            KeyChangeError::TooMany => Code::TooManyKeys,
            KeyChangeError::CallerGone => Code::Unauthenticated,
            KeyChangeError::Request(error) => return error.into(),
        };
        Self::new(code, error.to_string())
    }
}

fn role(role: wire::Role) -> Role {
    match role {
        wire::Role::Client => Role::Client,
        wire::Role::Worker => Role::Worker,
        wire::Role::Admin => Role::Admin,
        wire::Role::Reader => Role::Reader,
        wire::Role::Approver => Role::Approver,
    }
}

pub(super) fn role_view(role: Role) -> wire::Role {
    match role {
        Role::Client => wire::Role::Client,
        Role::Worker => wire::Role::Worker,
        Role::Admin => wire::Role::Admin,
        Role::Reader => wire::Role::Reader,
        Role::Approver => wire::Role::Approver,
    }
}

fn view(key: &ApiKey) -> Key {
    // The digests never leave the server.
    let ApiKey {
        id,
        scope,
        roles,
        digest: _,
        created_at,
        name,
        queues,
        expires_at,
        revoked_at,
        previous,
        last_used_at,
    } = key;
    Key {
        key_id: id.to_string(),
        name: name.as_ref().map(Text::to_string),
        roles: roles
            .iter()
            .filter_map(|role| Role::of_stored(role.as_str()))
            .map(role_view)
            .collect(),
        tenant_id: scope.tenant.to_string(),
        workspace_id: scope.workspace.to_string(),
        queues: queues.as_ref().map(|queues| queues.iter().map(Name::to_string).collect()),
        created_at: time(*created_at),
        expires_at: expires_at.map(time),
        revoked_at: revoked_at.map(time),
        previous_secret_until: previous.map(|previous| time(previous.until)),
        last_used_at: last_used_at.map(time),
    }
}
