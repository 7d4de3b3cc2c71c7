//! `/v1/limits`: what each tenant may use, set by an administrator of default/default.

use axum::Json;
use axum::extract::State;
use store::{Store, TenantLimits};
use verdict::{Name, Time};
use wire::Code;
use wire::admin::{Limits, SetLimits, TenantLimits as View};

use super::body::{API_BYTES_MAX, JsonBody};
use super::declined::Declined;
use super::door::{Door, RequestId};
use super::translate::time;
use crate::admit::AdminPrincipal;
use crate::admit::administer::{Reach, set_limits};
use crate::allowances::Allowances;

pub(super) async fn list<S: Store>(
    State(door): State<Door<S>>,
    principal: AdminPrincipal,
) -> Json<Limits> {
    let reach = principal.reach();
    let allowances = door.coordinator.allowances();
    let all = allowances.all();
    let reached = all.iter().filter(|limits| match &reach {
        Reach::Everything => true,
        Reach::Tenant(tenant) => limits.tenant == *tenant,
        Reach::Workspace(scope) => limits.tenant == scope.tenant,
    });
    let now = door.coordinator.now();
    let limits = reached.map(|limits| view(limits, allowances, now));
    Json(Limits { limits: limits.collect() })
}

pub(super) async fn set<S: Store>(
    State(door): State<Door<S>>,
    principal: AdminPrincipal,
    RequestId(request): RequestId,
    JsonBody(body): JsonBody<API_BYTES_MAX>,
) -> Result<Json<View>, Declined> {
    let SetLimits { tenant_id, requests_per_second, burst, unfinished_runs } = wire::parse(&body)?;
    if principal.reach() != Reach::Everything {
        let message = "nobody sets its own limits: this needs an admin key of default/default";
        let declined = Declined::new(Code::Forbidden, message);
        return Err(declined.by(principal.key(), principal.scope()));
    }
    let limits = TenantLimits {
        tenant: Name::from(tenant_id),
        requests_per_second,
        burst,
        unfinished_runs,
        changed_at: door.coordinator.now(),
    };
    let setting = set_limits(
        &door.inner.keys,
        &door.coordinator,
        &principal,
        Name::new(request),
        limits.clone(),
    );
    door.decided(setting).await??;
    Ok(Json(view(&limits, door.coordinator.allowances(), door.coordinator.now())))
}

fn view(limits: &TenantLimits, allowances: &Allowances, now: Time) -> View {
    let TenantLimits { tenant, requests_per_second, burst, unfinished_runs, changed_at } = limits;
    let rate = allowances.rate(tenant, now);
    View {
        tenant_id: tenant.to_string(),
        requests_per_second: *requests_per_second,
        burst: *burst,
        unfinished_runs: *unfinished_runs,
        unfinished_runs_now: allowances.unfinished(tenant),
        requests_left_now: rate.map(|rate| rate.left),
        limited_at: rate.and_then(|rate| rate.refused_at).map(time),
        changed_at: time(*changed_at),
    }
}
