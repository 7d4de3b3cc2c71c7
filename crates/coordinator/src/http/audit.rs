//! `GET /v1/audit`: administrative acts and refused calls, for administrators; and whether the log is
//! unmodified.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use store::{Administration, Audit, Audited, Browse};
use verdict::{Digest, Name};
use wire::Code;
use wire::admin::{AuditEntry, AuditFinding, AuditLog, AuditQuery, AuditVerified};
use wire::limits::PAGE_ITEMS_DEFAULT;

use super::api_error::ApiError;
use super::app_state::AppState;
use super::translate::{query, time};
use crate::admit::AuditorPrincipal;
use crate::admit::administer::Reach;
use crate::admit::denials::DeniedCall;
use crate::admit::seal::{self, SealFinding, SealReport};

pub(super) async fn audit(
    State(app): State<AppState>,
    principal: AuditorPrincipal,
    uri: Uri,
) -> Result<Json<AuditLog>, ApiError> {
    let AuditQuery { before, limit } = query(&uri)?;
    let limit = limit.unwrap_or(PAGE_ITEMS_DEFAULT) as usize;
    // One more than the page size shows whether there is a next page.
    let filter = principal.reach().audit(before, limit + 1);
    let mut found = app.read(app.coordinator.browse().audit(&filter)).await?;
    let is_last = found.len() <= limit;
    found.truncate(limit);
    let next_before = found.last().filter(|_| !is_last).map(|last| last.n);
    Ok(Json(AuditLog { entries: found.into_iter().map(view).collect(), next_before }))
}

/// `GET /v1/audit/verify`: whether the whole log is unmodified. It covers all tenants, so it is only for
/// administrators of everything.
pub(super) async fn verify(
    State(app): State<AppState>,
    principal: AuditorPrincipal,
) -> Result<Json<AuditVerified>, ApiError> {
    if principal.reach() != Reach::Everything {
        let message =
            "the audit covers all tenants: this needs an admin or reader key of default/default";
        let error = ApiError::new(Code::Forbidden, message);
        return Err(error.by(principal.key(), principal.scope()));
    }
    let anchor = app.inner.anchor.as_deref().map(seal::read_anchor).transpose();
    let anchor = anchor.map_err(|error| {
        tracing::error!(%error, "cannot read the anchor of the audit");
        ApiError::new(Code::Unavailable, "the anchor beside the key file cannot be read")
    })?;
    let checking = seal::verify(app.coordinator.browse(), &app.inner.keyring, anchor.flatten());
    let SealReport { entries, sealed, findings } = app.read_for(VERIFYING, checking).await?;
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

/// Records who was refused, within bounds. No request waits for it: the answer is the same either way.
///
/// Expired tokens are not recorded: honest workers that were asleep send them every day.
pub(super) fn note_denial(
    app: &AppState,
    error: &ApiError,
    route: impl FnOnce() -> String,
    request: &str,
) {
    let is_recorded = matches!(
        error.code,
        Code::Unauthenticated
            | Code::InvalidToken
            | Code::Forbidden
            | Code::ApprovalClosed
            | Code::ApprovalDigestMismatch
            | Code::AlreadyVoted
            | Code::ApprovalForbidden
            | Code::ConsoleCodeInvalid
            | Code::ForeignPage
    );
    if !is_recorded {
        return;
    }
    let code = error.code.as_str();
    let denied = DeniedCall { by: error.by.as_deref(), route: route(), code, request };
    let Some(audit) = app.inner.denials.note(&denied, app.coordinator.now()) else { return };
    let coordinator = app.coordinator.clone();
    app.inner.background.spawn(async move {
        let act = Administration { audit: vec![audit], ..Administration::default() };
        if let Err(error) = coordinator.administer(act).await {
            tracing::warn!(%error, "cannot write a refusal to the audit");
        }
    });
}
