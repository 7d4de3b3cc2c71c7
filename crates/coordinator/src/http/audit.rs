//! `GET /v1/audit`: administrative acts and refused calls, for administrators; and whether the log is
//! unmodified.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use store::{Administration, Audit, Audited, Browse};
use verdict::{Digest, Name, Scope, Text};
use wire::Code;
use wire::admin::{AuditEntry, AuditFinding, AuditLog, AuditQuery, AuditVerified};
use wire::limits::PAGE_ITEMS_DEFAULT;

use super::api_error::ApiError;
use super::app_state::{AppState, RequestId};
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

/// Writes to the audit what was done. A call that does it is an act ([`super::routes::Route::is_act`]), so its caller cannot keep
/// the entry from being written by hanging up.
pub(super) async fn note_act(
    app: &AppState,
    (scope, by): (&Scope, &Name),
    action: &'static str,
    object: &str,
    RequestId(request): RequestId,
) -> Result<(), ApiError> {
    let audit = Audit {
        at: app.coordinator.now(),
        scope: scope.clone(),
        actor: by.clone(),
        action: action.into(),
        object: Text::from(object),
        code: None,
        times: 1,
        before: None,
        after: None,
        request: Some(Name::new(request)),
        seal: None,
    };
    let act = Administration { audit: vec![audit], ..Administration::default() };
    Ok(app.decided(app.coordinator.administer(act)).await??)
}

/// Which refusals are recorded. Expired tokens are not: honest workers that were asleep send them every day.
fn is_recorded(code: Code) -> bool {
    matches!(
        code,
        Code::Unauthenticated
            | Code::InvalidToken
            | Code::Forbidden
            | Code::DebounceForbidden
            | Code::ApprovalClosed
            | Code::ApprovalDigestMismatch
            | Code::AlreadyVoted
            | Code::ApprovalForbidden
            | Code::ConsoleCodeInvalid
            | Code::ForeignPage
    )
}

/// Records who was refused, within bounds. No request waits for it: the answer is the same either way.
pub(super) fn note_denial(
    app: &AppState,
    error: &ApiError,
    route: impl FnOnce() -> String,
    request: &str,
) {
    if is_recorded(error.code) {
        let code = error.code.as_str();
        note(app, &DeniedCall { by: error.by.as_deref(), route: route(), code, times: 1, request });
    }
}

fn note(app: &AppState, denied: &DeniedCall<'_>) {
    let Some(audit) = app.inner.denials.note(denied, app.coordinator.now()) else { return };
    let coordinator = app.coordinator.clone();
    app.inner.background.spawn(async move {
        let act = Administration { audit: vec![audit], ..Administration::default() };
        if let Err(error) = coordinator.administer(act).await {
            tracing::warn!(%error, "cannot write a refusal to the audit");
        }
    });
}

tokio::task_local! {
    /// The items that the call of this task has refused so far.
    static REFUSED_ITEMS: RefCell<RefusedItems>;
}

/// How often items of a batch were refused, by code: the batch itself is answered with 200.
#[derive(Clone, Default)]
pub(super) struct RefusedItems(BTreeMap<&'static str, u32>);

impl RefusedItems {
    pub(super) fn note(
        self,
        app: &AppState,
        by: Option<&(Name, Scope)>,
        route: impl Fn() -> String,
        request: &str,
    ) {
        for (code, times) in self.0 {
            note(app, &DeniedCall { by, route: route(), code, times, request });
        }
    }
}

/// Notes that an item of a batch was refused.
pub(super) fn note_item(error: &ApiError) {
    if is_recorded(error.code) {
        // Outside of a request, as in a test of a handler alone, no refusal is collected.
        let _ = REFUSED_ITEMS.try_with(|items| {
            *items.borrow_mut().0.entry(error.code.as_str()).or_default() += 1;
        });
    }
}

/// The answer of a route, with the items that it refused.
pub(super) async fn with_refused_items(answering: impl Future<Output = Response>) -> Response {
    let answering = async {
        let mut answered = answering.await;
        let refused = REFUSED_ITEMS.with(RefCell::take);
        if !refused.0.is_empty() {
            answered.extensions_mut().insert(refused);
        }
        answered
    };
    REFUSED_ITEMS.scope(RefCell::default(), answering).await
}
