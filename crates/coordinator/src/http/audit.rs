//! `GET /v1/audit`: what was administered and refused, for administrators; and whether it is as it was
//! written.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use store::{Administration, Audit, Audited, Browse, Store};
use verdict::{Digest, Name};
use wire::Code;
use wire::admin::{AuditEntry, AuditFinding, AuditLog, AuditQuery, AuditVerified};
use wire::limits::PAGE_ITEMS_DEFAULT;

use super::declined::Declined;
use super::door::Door;
use super::translate::{query, time};
use crate::admit::AdminPrincipal;
use crate::admit::administer::Reach;
use crate::admit::refusals::Refusal;
use crate::admit::seal::{self, SealFinding, SealReport};

pub(super) async fn audit<S: Store>(
    State(door): State<Door<S>>,
    principal: AdminPrincipal,
    uri: Uri,
) -> Result<Json<AuditLog>, Declined> {
    let AuditQuery { before, limit } = query(&uri)?;
    let limit = limit.unwrap_or(PAGE_ITEMS_DEFAULT) as usize;
    // One more than asked tells whether there is a next page.
    let filter = principal.reach().audit(before, limit + 1);
    let mut found = door.read(Duration::ZERO, door.coordinator.browse().audit(&filter)).await?;
    let is_last = found.len() <= limit;
    found.truncate(limit);
    let next_before = found.last().filter(|_| !is_last).map(|last| last.n);
    Ok(Json(AuditLog { entries: found.into_iter().map(view).collect(), next_before }))
}

/// `GET /v1/audit/verify`: whether the whole log is as it was written. Everybody's, so only for who reaches
/// everything.
pub(super) async fn verify<S: Store>(
    State(door): State<Door<S>>,
    principal: AdminPrincipal,
) -> Result<Json<AuditVerified>, Declined> {
    if principal.reach() != Reach::Everything {
        let message = "the log is everybody's: this needs an admin key of default/default";
        let declined = Declined::new(Code::Forbidden, message);
        return Err(declined.by(principal.key(), principal.scope()));
    }
    let anchor = door.inner.anchor.as_deref().map(seal::read_anchor).transpose();
    let anchor = anchor.map_err(|error| {
        tracing::error!(%error, "the anchor of the audit cannot be read");
        Declined::new(Code::Unavailable, "the anchor beside the key file cannot be read")
    })?;
    let checking = seal::verify(door.coordinator.browse(), &door.inner.keyring, anchor.flatten());
    let SealReport { entries, sealed, findings } = door.read(VERIFYING, checking).await?;
    let findings =
        findings.into_iter().map(|SealFinding { n, what }| AuditFinding { n, message: what });
    let anchored = anchor.flatten().is_some();
    Ok(Json(AuditVerified { entries, sealed, anchored, findings: findings.collect() }))
}

/// A million entries take seconds.
const VERIFYING: Duration = Duration::from_secs(60);

fn view(audited: Audited) -> AuditEntry {
    let Audited { n, audit } = audited;
    let Audit { at, scope, actor, action, object, code, times, before, after, request, seal: _ } =
        audit;
    AuditEntry {
        n,
        at: time(at),
        tenant_id: scope.tenant.to_string(),
        workspace_id: scope.workspace.to_string(),
        actor: actor.to_string(),
        action: action.to_string(),
        object: object.to_string(),
        error: code.as_ref().map(Name::to_string),
        times,
        before_digest: before.as_ref().map(Digest::to_string),
        after_digest: after.as_ref().map(Digest::to_string),
        request_id: request.as_ref().map(Name::to_string),
    }
}

/// Writes down who was refused, within bounds. Nobody waits for it: the answer is no either way.
///
/// Expired tokens are not of interest: honest workers that were asleep send them every day.
pub(super) fn note_refusal<S: Store>(
    door: &Door<S>,
    declined: &Declined,
    route: impl FnOnce() -> String,
    request: &str,
) {
    if !matches!(declined.code, Code::Unauthenticated | Code::InvalidToken | Code::Forbidden) {
        return;
    }
    let code = declined.code.as_str();
    let refusal = Refusal { by: declined.by.as_deref(), route: route(), code, request };
    let Some(audit) = door.inner.refusals.note(&refusal, door.coordinator.now()) else { return };
    let coordinator = door.coordinator.clone();
    door.inner.beside.spawn(async move {
        let act = Administration { audit: vec![audit], ..Administration::default() };
        if let Err(trouble) = coordinator.administer(act).await {
            tracing::warn!(%trouble, "a refusal could not be written to the audit");
        }
    });
}
