//! Changes of API keys: which administrator may change which key, and the change itself. A change is
//! decided on the known keys, written with its audit entry through the carrier, and in force before
//! its caller is answered.
//!
//! An administrator of the scope default/default reaches everything. Others reach their tenant; in the
//! tenant `default` only their own workspace, because otherwise they could give themselves a key of
//! default/default.

use std::sync::Arc;

use store::{Administration, ApiKey, Audit, AuditFilter, PreviousSecret, TenantLimits};
use verdict::{Name, Scope, Span, Text, Time};

use super::api_key::{NewSecret, Role, has_role};
use super::api_keys::{ApiKeys, usable};
use super::principals::{AdminPrincipal, AuditorPrincipal};
use crate::coordinator::Coordinator;
use crate::item::RequestError;

/// Keys stored for one tenant, including revoked ones: all of them are in memory.
const KEYS_PER_TENANT_MAX: usize = 10_000;

/// The creator of keys that were not created with a key.
const SERVER: &str = "server";

const CREATED: &str = "key.created";
const ROTATED: &str = "key.rotated";
const REVOKED: &str = "key.revoked";
const SIGNING_ROTATED: &str = "signing.rotated";
const LIMITS_SET: &str = "limits.set";

/// Why a key was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KeyChangeError {
    #[error("this key has no permission to administer that tenant or workspace")]
    OutOfReach,
    #[error("no API key has this id")]
    NotFound,
    #[error("this API key is revoked or has expired; create a new one")]
    NotUsable,
    #[error("this is the last usable admin key of default/default; create another one first")]
    LastAdmin,
    #[error("a tenant has at most {KEYS_PER_TENANT_MAX} keys, revoked ones included")]
    TooMany,
    /// The caller's key became invalid while the call waited for its turn.
    #[error("the API key of this call is no longer valid")]
    CallerGone,
    #[error(transparent)]
    Request(#[from] RequestError),
}

/// What an administrator may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    Everything,
    Tenant(Name),
    Workspace(Scope),
}

impl Reach {
    fn of(scope: &Scope) -> Self {
        let root = Scope::default();
        if *scope == root {
            Reach::Everything
        } else if scope.tenant == root.tenant {
            Reach::Workspace(scope.clone())
        } else {
            Reach::Tenant(scope.tenant.clone())
        }
    }

    pub(crate) fn includes(&self, scope: &Scope) -> bool {
        match self {
            Reach::Everything => true,
            Reach::Tenant(tenant) => *tenant == scope.tenant,
            Reach::Workspace(mine) => mine == scope,
        }
    }

    pub(crate) fn audit(&self, before: Option<u64>, limit: usize) -> AuditFilter {
        let (tenant, workspace) = match self {
            Reach::Everything => (None, None),
            Reach::Tenant(tenant) => (Some(tenant.clone()), None),
            Reach::Workspace(scope) => (Some(scope.tenant.clone()), Some(scope.workspace.clone())),
        };
        AuditFilter { tenant, workspace, before, limit }
    }
}

impl AdminPrincipal {
    pub(crate) fn reach(&self) -> Reach {
        Reach::of(self.scope())
    }
}

impl AuditorPrincipal {
    /// What it may see: what an administrator of the same scope may change.
    pub(crate) fn reach(&self) -> Reach {
        Reach::of(self.scope())
    }
}

/// A requested change of a key.
pub(crate) enum KeyChange {
    Create(Box<ApiKey>),
    Rotate { id: Name, secret: NewSecret, overlap: Span },
    Revoke { id: Name },
}

/// A decision: the row after the change, and the name of the action in the audit. `None` if nothing
/// changes.
type Decided = (ApiKey, Option<&'static str>);

/// Decides on the current keys. Pure, so that every refusal can be tested without a server.
fn decide(
    keys: &[Arc<ApiKey>],
    reach: &Reach,
    key_change: KeyChange,
    now: Time,
) -> Result<Decided, KeyChangeError> {
    let find = |id: &Name| {
        let known = keys.iter().find(|key| key.id == *id && reach.includes(&key.scope));
        known.ok_or(KeyChangeError::NotFound)
    };
    match key_change {
        KeyChange::Create(key) => create(keys, reach, *key),
        KeyChange::Rotate { id, secret, overlap } => rotate(find(&id)?, &secret, overlap, now),
        KeyChange::Revoke { id } => revoke(keys, find(&id)?, now),
    }
}

fn create(keys: &[Arc<ApiKey>], reach: &Reach, key: ApiKey) -> Result<Decided, KeyChangeError> {
    if !reach.includes(&key.scope) {
        return Err(KeyChangeError::OutOfReach);
    }
    let kept = keys.iter().filter(|known| known.scope.tenant == key.scope.tenant).count();
    if kept >= KEYS_PER_TENANT_MAX {
        return Err(KeyChangeError::TooMany);
    }
    Ok((key, Some(CREATED)))
}

fn rotate(
    key: &ApiKey,
    secret: &NewSecret,
    overlap: Span,
    now: Time,
) -> Result<Decided, KeyChangeError> {
    usable(key, now).map_err(|_| KeyChangeError::NotUsable)?;
    // Even without an overlap the old secret is remembered: it still names the scope of work in hand.
    let previous = Some(PreviousSecret { digest: key.digest, until: now.plus(overlap) });
    Ok((ApiKey { digest: secret.digest, previous, ..key.clone() }, Some(ROTATED)))
}

fn revoke(keys: &[Arc<ApiKey>], key: &ApiKey, now: Time) -> Result<Decided, KeyChangeError> {
    if key.revoked_at.is_some() {
        return Ok((key.clone(), None));
    }
    let is_root = |key: &ApiKey| {
        key.scope == Scope::default() && has_role(key, Role::Admin) && usable(key, now).is_ok()
    };
    let others = keys.iter().filter(|other| other.id != key.id);
    if is_root(key) && !others.into_iter().any(|other| is_root(other)) {
        return Err(KeyChangeError::LastAdmin);
    }
    Ok((ApiKey { revoked_at: Some(now), previous: None, ..key.clone() }, Some(REVOKED)))
}

/// Applies a change. Once begun it completes even if its caller disconnects, so that memory and store
/// cannot diverge.
pub(crate) async fn change(
    keys: &ApiKeys,
    coordinator: &Coordinator,
    admin: &AdminPrincipal,
    request: Name,
    key_change: KeyChange,
) -> Result<Arc<ApiKey>, KeyChangeError> {
    let (keys, coordinator, admin) = (keys.clone(), coordinator.clone(), admin.clone());
    let changing = tokio::spawn(async move {
        let _turn = keys.changing.of_tenant(&admin.scope().tenant).await;
        let now = coordinator.now();
        if !keys.is_usable(admin.key().as_str(), now) {
            return Err(KeyChangeError::CallerGone);
        }
        let (key, action) = decide(&keys.all(), &admin.reach(), key_change, now)?;
        let before = keys.get(key.id.as_str());
        let Some(action) = action else { return Ok(Arc::new(key)) };
        let audit = Audit {
            request: Some(request),
            before: before.map(|before| before.fingerprint()),
            ..record(admin.key().clone(), action, &key, now)
        };
        let (keys_now, audit) = (vec![key.clone()], vec![audit]);
        let act = Administration { keys: keys_now, audit, ..Administration::default() };
        coordinator.administer(act).await?;
        Ok(keys.put(key))
    });
    // Only a bug ends the task early; the outcome of the change is then unknown.
    changing.await.unwrap_or(Err(KeyChangeError::Request(RequestError::Unknown)))
}

fn record(actor: Name, action: &str, key: &ApiKey, at: Time) -> Audit {
    Audit {
        at,
        scope: key.scope.clone(),
        actor,
        action: action.into(),
        object: Text::from(key.id.as_str()),
        code: None,
        times: 1,
        before: None,
        after: Some(key.fingerprint()),
        request: None,
        seal: None,
    }
}

/// A rotation of the signing keys, recorded before it happens: it can fail, but never go unrecorded.
pub(crate) fn signing_rotation(
    admin: &AdminPrincipal,
    kid: &str,
    request: Name,
    now: Time,
) -> Administration {
    let audit = Audit {
        at: now,
        scope: admin.scope().clone(),
        actor: admin.key().clone(),
        action: SIGNING_ROTATED.into(),
        object: kid.into(),
        code: None,
        times: 1,
        before: None,
        after: None,
        request: Some(request),
        seal: None,
    };
    Administration { audit: vec![audit], ..Administration::default() }
}

/// Sets a tenant's limits, first durably and then in memory. Once begun it completes, as [`change`]
/// does.
pub(crate) async fn set_limits(
    keys: &ApiKeys,
    coordinator: &Coordinator,
    admin: &AdminPrincipal,
    request: Name,
    limits: TenantLimits,
) -> Result<(), KeyChangeError> {
    let (keys, coordinator, admin) = (keys.clone(), coordinator.clone(), admin.clone());
    let setting = tokio::spawn(async move {
        let _turn = keys.changing.of_tenant(&admin.scope().tenant).await;
        if !keys.is_usable(admin.key().as_str(), coordinator.now()) {
            return Err(KeyChangeError::CallerGone);
        }
        let before = coordinator.allowances().get(&limits.tenant);
        let audit = Audit {
            at: limits.changed_at,
            scope: Scope { tenant: limits.tenant.clone(), workspace: Scope::default().workspace },
            actor: admin.key().clone(),
            action: LIMITS_SET.into(),
            object: Text::from(limits.tenant.as_str()),
            code: None,
            times: 1,
            before: before.map(|before| before.fingerprint()),
            after: Some(limits.fingerprint()),
            request: Some(request),
            seal: None,
        };
        let (rows, audit) = (vec![limits.clone()], vec![audit]);
        let act = Administration { limits: rows, audit, ..Administration::default() };
        coordinator.administer(act).await?;
        coordinator.allowances().put(limits);
        Ok(())
    });
    // Only a bug ends the task early; the outcome of the change is then unknown.
    setting.await.unwrap_or(Err(KeyChangeError::Request(RequestError::Unknown)))
}

/// The first keys of a store, which cannot be requested with a key.
pub(crate) fn initial_keys(keys: Vec<ApiKey>, now: Time) -> Administration {
    let audit = keys.iter().map(|key| record(SERVER.into(), CREATED, key, now)).collect();
    Administration { keys, audit, ..Administration::default() }
}

#[cfg(test)]
mod tests;
