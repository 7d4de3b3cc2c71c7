//! `/v1/limits`: what each tenant may use, set by an administrator of default/default.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use store::TenantLimits;
use verdict::{Name, Time};
use wire::Code;
use wire::admin::{Limits, SetLimits, TenantLimits as View};

use super::api_error::ApiError;
use super::app_state::{AppState, RequestId};
use super::body::{API_BYTES_MAX, JsonBody};
use super::translate::time;
use crate::admit::administer::{Reach, set_limits};
use crate::admit::{AdminPrincipal, AuditorPrincipal};
use crate::allowances::Allowances;

pub(super) async fn list(
    State(app): State<AppState>,
    principal: AuditorPrincipal,
) -> Result<Json<Limits>, ApiError> {
    let reach = principal.reach();
    let is_reached = |limits: &Arc<TenantLimits>| match &reach {
        Reach::Everything => true,
        Reach::Tenant(tenant) => limits.tenant == *tenant,
        Reach::Workspace(scope) => limits.tenant == scope.tenant,
    };
    let mut reached = app.coordinator.allowances().all();
    reached.retain(is_reached);
    let limits = views(&app, &reached).await?;
    Ok(Json(Limits { limits }))
}

pub(super) async fn set(
    State(app): State<AppState>,
    principal: AdminPrincipal,
    RequestId(request): RequestId,
    JsonBody(body): JsonBody<API_BYTES_MAX>,
) -> Result<Json<View>, ApiError> {
    let SetLimits { tenant_id, requests_per_second, burst, unfinished_runs } = wire::parse(&body)?;
    if principal.reach() != Reach::Everything {
        let message =
            "a tenant cannot set its own limits: this needs an admin key of default/default";
        let error = ApiError::new(Code::Forbidden, message);
        return Err(error.by(principal.key(), principal.scope()));
    }
    let limits = TenantLimits {
        tenant: Name::from(tenant_id),
        requests_per_second,
        burst,
        unfinished_runs,
        changed_at: app.coordinator.now(),
    };
    let setting = set_limits(
        &app.inner.keys,
        &app.coordinator,
        &principal,
        Name::new(request),
        limits.clone(),
    );
    app.decided(setting).await??;
    let mut views = views(&app, &[Arc::new(limits)]).await?;
    Ok(Json(views.remove(0)))
}

/// Each tenant's limits with their current use.
async fn views(app: &AppState, all: &[Arc<TenantLimits>]) -> Result<Vec<View>, ApiError> {
    let tenants: Vec<Name> = all.iter().map(|limits| limits.tenant.clone()).collect();
    let unfinished = app.read(app.coordinator.unfinished(&tenants)).await?;
    let (allowances, now) = (app.coordinator.allowances(), app.coordinator.now());
    let counted = all.iter().zip(unfinished);
    Ok(counted.map(|(limits, unfinished)| view(limits, unfinished, allowances, now)).collect())
}

fn view(limits: &TenantLimits, unfinished: u64, allowances: &Allowances, now: Time) -> View {
    let TenantLimits { tenant, requests_per_second, burst, unfinished_runs, changed_at } = limits;
    let rate = allowances.rate(tenant, now);
    View {
        tenant_id: tenant.to_string(),
        requests_per_second: *requests_per_second,
        burst: *burst,
        unfinished_runs: *unfinished_runs,
        unfinished_runs_now: unfinished,
        requests_left_now: rate.map(|rate| rate.left),
        limited_at: rate.and_then(|rate| rate.refused_at).map(time),
        changed_at: time(*changed_at),
    }
}
