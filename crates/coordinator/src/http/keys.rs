//! `/v1/keys`: API keys made, listed, rotated and revoked by an administrator.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use store::{ApiKey, Store};
use verdict::{Name, Scope, Span, Text};
use wire::Code;
use wire::admin::{CreateKey, Key, Keys, NewKey as NewKeyAnswer, RotateKey};
use wire::limits::KEY_OVERLAP_MS_DEFAULT;

use super::body::{API_BYTES_MAX, JsonBody};
use super::declined::Declined;
use super::door::{Door, RequestId};
use super::translate::{instant, time};
use crate::admit::administer::{KeyDeclined, Wish, change};
use crate::admit::api_key::NewSecret;
use crate::admit::{AdminPrincipal, NewKey, Role};

pub(super) async fn create<S: Store>(
    State(door): State<Door<S>>,
    principal: AdminPrincipal,
    request: RequestId,
    JsonBody(body): JsonBody<API_BYTES_MAX>,
) -> Result<Response, Declined> {
    let wanted: CreateKey = wire::parse(&body)?;
    let roles: Vec<Role> = wanted.roles.iter().map(|it| role(*it)).collect();
    let now = door.coordinator.now();
    if wanted.expires_at.is_some_and(|at| instant(at).has_come(now)) {
        return Err(Declined::field("expiresAt", "is in the past; the key would be useless"));
    }
    let scope = scope(&wanted, principal.scope());
    let new = door.draw(|entropy| NewKey::generate(entropy, scope, &roles));
    let row = ApiKey {
        name: wanted.name.map(Text::from),
        queues: wanted.queues.map(|queues| queues.into_iter().map(Name::from).collect()),
        expires_at: wanted.expires_at.map(instant),
        ..new.row(now)
    };
    let made = carry_out(&door, &principal, request, Wish::Create(Box::new(row))).await?;
    let answer = NewKeyAnswer { key: made, secret: new.text().to_owned() };
    Ok((StatusCode::CREATED, Json(answer)).into_response())
}

fn scope(wanted: &CreateKey, own: &Scope) -> Scope {
    let or_own = |wanted: &Option<String>, own: &Name| {
        wanted.as_deref().map_or_else(|| own.clone(), Name::from)
    };
    Scope {
        tenant: or_own(&wanted.tenant_id, &own.tenant),
        workspace: or_own(&wanted.workspace_id, &own.workspace),
    }
}

pub(super) async fn list<S: Store>(
    State(door): State<Door<S>>,
    principal: AdminPrincipal,
) -> Json<Keys> {
    let reach = principal.reach();
    let all = door.inner.keys.all();
    let reached = all.iter().filter(|key| reach.includes(&key.scope));
    Json(Keys { keys: reached.map(|key| view(key)).collect() })
}

pub(super) async fn rotate<S: Store>(
    State(door): State<Door<S>>,
    principal: AdminPrincipal,
    Path(id): Path<String>,
    request: RequestId,
    JsonBody(body): JsonBody<API_BYTES_MAX>,
) -> Result<Json<NewKeyAnswer>, Declined> {
    let RotateKey { overlap_ms } = wire::parse(&body)?;
    let id = Name::from(id);
    let secret = door.draw(|entropy| NewSecret::generate(entropy, &id));
    let text = secret.text().to_owned();
    let overlap = Span::from_millis(overlap_ms.unwrap_or(KEY_OVERLAP_MS_DEFAULT));
    let wish = Wish::Rotate { id, secret, overlap };
    let key = carry_out(&door, &principal, request, wish).await?;
    Ok(Json(NewKeyAnswer { key, secret: text }))
}

pub(super) async fn revoke<S: Store>(
    State(door): State<Door<S>>,
    principal: AdminPrincipal,
    Path(id): Path<String>,
    request: RequestId,
) -> Result<Json<Key>, Declined> {
    let wish = Wish::Revoke { id: Name::from(id) };
    carry_out(&door, &principal, request, wish).await.map(Json)
}

async fn carry_out<S: Store>(
    door: &Door<S>,
    principal: &AdminPrincipal,
    RequestId(request): RequestId,
    wish: Wish,
) -> Result<Key, Declined> {
    let changing = change(&door.inner.keys, &door.coordinator, principal, Name::new(request), wish);
    match door.decided(changing).await? {
        Ok(key) => Ok(view(&key)),
        Err(KeyDeclined::OutOfReach) => {
            let message = KeyDeclined::OutOfReach.to_string();
            Err(Declined::new(Code::Forbidden, message).by(principal.key(), principal.scope()))
        }
        Err(declined) => Err(declined.into()),
    }
}

impl From<KeyDeclined> for Declined {
    fn from(declined: KeyDeclined) -> Self {
        let code = match declined {
            KeyDeclined::OutOfReach => Code::Forbidden,
            KeyDeclined::NotFound => Code::KeyNotFound,
            KeyDeclined::NotUsable => Code::KeyNotUsable,
            KeyDeclined::LastAdmin => Code::LastAdminKey,
            KeyDeclined::TooMany => Code::TooManyKeys,
            KeyDeclined::CallerGone => Code::Unauthenticated,
            KeyDeclined::Trouble(trouble) => return trouble.into(),
        };
        Self::new(code, declined.to_string())
    }
}

fn role(role: wire::Role) -> Role {
    match role {
        wire::Role::Client => Role::Client,
        wire::Role::Worker => Role::Worker,
        wire::Role::Admin => Role::Admin,
    }
}

fn view(key: &ApiKey) -> Key {
    // The digests are nobody's business.
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
        roles: roles.iter().filter_map(|role| role.as_str().parse().ok()).collect(),
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
