//! `/v1/budgets`: what the runs of a tenant or workspace may use together, set by administrators.
//!
//! The budget of a tenant is set by an administrator of default/default, that of a workspace also by one of its tenant: nobody sets
//! what holds for themselves.

use axum::Json;
use axum::extract::State;
use store::{Browse, SpendQuery};
use verdict::budget::Amounts;
use verdict::scope_budget::{
    BudgetCall, BudgetRequest, Level, Period, ScopeBudget, WHOLE_TENANT, whole_tenant,
};
use verdict::{Answer, Limits, Name, Scope, Time, Unit};
use wire::answers::{BudgetAmounts, BudgetLeft};
use wire::requests::SoftLimits;
use wire::scope_budgets::{ScopeBudget as View, ScopeBudgets, SetBudget};
use wire::{BudgetPeriod, BudgetState, Code};

use super::api_error::ApiError;
use super::app_state::{AppState, RequestId};
use super::audit::note_act;
use super::body::{API_BYTES_MAX, JsonBody};
use super::submit::unexpected;
use super::translate::time;
use crate::admit::administer::Reach;
use crate::admit::{AdminPrincipal, AuditorPrincipal};

/// Budgets of one tenant: all of them are in memory.
const BUDGETS_PER_TENANT_MAX: usize = 10_000;

const SET: &str = "budget.set";

pub(super) async fn list(
    State(app): State<AppState>,
    principal: AuditorPrincipal,
) -> Result<Json<ScopeBudgets>, ApiError> {
    let reach = principal.reach();
    let is_seen = |scope: &Scope| match &reach {
        Reach::Everything => true,
        Reach::Tenant(tenant) => scope.tenant == *tenant,
        Reach::Workspace(mine) => scope == mine || *scope == whole_tenant(&mine.tenant),
    };
    let known = app.coordinator.allowances().budgets().snapshot();
    let seen = known.iter().filter(|(scope, _)| is_seen(scope));
    let seen: Vec<_> = seen.map(|(scope, budget)| (scope.clone(), budget.clone())).collect();
    Ok(Json(ScopeBudgets { budgets: views(&app, &seen).await? }))
}

pub(super) async fn set(
    State(app): State<AppState>,
    principal: AdminPrincipal,
    request: RequestId,
    JsonBody(body): JsonBody<API_BYTES_MAX>,
) -> Result<Json<View>, ApiError> {
    let wanted: SetBudget = wire::parse(&body)?;
    app.coordinator.refuse_if_draining()?;
    let (scope, budget) = asked(&principal, wanted);
    check_reach(&principal, &scope)?;
    check_count(&app, &scope, &budget)?;
    put(&app, &principal, request, &scope, &budget).await?;
    let mut views = views(&app, &[(scope, budget)]).await?;
    Ok(Json(views.remove(0)))
}

fn asked(principal: &AdminPrincipal, wanted: SetBudget) -> (Scope, ScopeBudget) {
    let SetBudget { tenant_id, workspace_id, period, soft, .. } = wanted;
    let SetBudget { cost_micros, tokens, steps, tool_calls, .. } = wanted;
    let tenant = tenant_id.map_or_else(|| principal.scope().tenant.clone(), Name::from);
    let workspace = workspace_id.map_or_else(|| WHOLE_TENANT.into(), Name::from);
    let SoftLimits {
        cost_micros: soft_cost,
        tokens: soft_tokens,
        steps: soft_steps,
        tool_calls: soft_calls,
    } = soft.unwrap_or_default();
    let budget = ScopeBudget {
        limits: Limits { cost_micros, tokens, steps, tool_calls },
        soft: Limits {
            cost_micros: soft_cost,
            tokens: soft_tokens,
            steps: soft_steps,
            tool_calls: soft_calls,
        },
        period: match period.unwrap_or(BudgetPeriod::Total) {
            BudgetPeriod::Total => Period::Total,
            BudgetPeriod::Day => Period::Day,
            BudgetPeriod::Month => Period::Month,
        },
        alert: None,
    };
    (Scope { tenant, workspace }, budget)
}

fn check_reach(principal: &AdminPrincipal, scope: &Scope) -> Result<(), ApiError> {
    let is_whole_tenant = scope.workspace.as_str() == WHOLE_TENANT;
    let message = match principal.reach() {
        Reach::Everything => return Ok(()),
        Reach::Tenant(tenant) if tenant == scope.tenant && !is_whole_tenant => return Ok(()),
        Reach::Tenant(tenant) if tenant == scope.tenant => {
            "a tenant cannot set its own budget: this needs an admin key of default/default"
        }
        Reach::Workspace(mine) if mine == *scope => {
            "a workspace cannot set its own budget: this needs an admin key of default/default"
        }
        Reach::Tenant(_) | Reach::Workspace(_) => {
            "this key has no permission to administer that tenant or workspace"
        }
    };
    Err(ApiError::new(Code::Forbidden, message).by(principal.key(), principal.scope()))
}

fn check_count(app: &AppState, scope: &Scope, budget: &ScopeBudget) -> Result<(), ApiError> {
    let known = app.coordinator.allowances().budgets().snapshot();
    let of_tenant = known.keys().filter(|known| known.tenant == scope.tenant).count();
    if budget.is_empty() || known.contains_key(scope) || of_tenant < BUDGETS_PER_TENANT_MAX {
        return Ok(());
    }
    let message =
        format!("a tenant has at most {BUDGETS_PER_TENANT_MAX} budgets; remove one first");
    Err(ApiError::field("workspaceId", message))
}

/// Writes the budget, and to the audit who did it. Its alerts begin anew.
async fn put(
    app: &AppState,
    principal: &AdminPrincipal,
    request: RequestId,
    scope: &Scope,
    budget: &ScopeBudget,
) -> Result<(), ApiError> {
    let by = principal.key().clone();
    let (scope, call) = (scope.clone(), BudgetCall::Set(budget.clone()));
    let asked = BudgetRequest { scope: scope.clone(), call, by: Some(by.clone()) };
    let answered = app.decided(app.coordinator.budget(asked)).await??;
    if !matches!(answered.answer, Answer::Budget(_)) {
        return Err(unexpected(&answered.answer));
    }
    note_act(app, (&scope, &by), SET, scope.workspace.as_str(), request).await
}

/// Each budget with what is used of it, through all coordinators.
async fn views(app: &AppState, all: &[(Scope, ScopeBudget)]) -> Result<Vec<View>, ApiError> {
    let now = app.coordinator.now();
    let query = |(scope, budget): &(Scope, ScopeBudget)| SpendQuery {
        scope: scope.clone(),
        since: budget.period.first_day(now),
    };
    let wanted: Vec<SpendQuery> = all.iter().map(query).collect();
    let sums = app.read(app.coordinator.browse().spend(&wanted)).await?;
    let counted = all.iter().zip(sums);
    Ok(counted.map(|((scope, budget), used)| view(scope, budget, used, now)).collect())
}

fn view(scope: &Scope, budget: &ScopeBudget, used: Amounts, now: Time) -> View {
    let first = budget.period.first_day(now);
    let workspace = Some(&scope.workspace).filter(|name| name.as_str() != WHOLE_TENANT);
    let Amounts { cost_micros, tokens, steps, tool_calls } = used;
    let told = budget.alert.filter(|alert| alert.since == first);
    View {
        tenant_id: scope.tenant.to_string(),
        workspace_id: workspace.map(Name::to_string),
        period: match budget.period {
            Period::Total => BudgetPeriod::Total,
            Period::Day => BudgetPeriod::Day,
            Period::Month => BudgetPeriod::Month,
        },
        state: state(budget.level(used)),
        limits: by_unit(&budget.limits, |_, limit| limit),
        soft: by_unit(&budget.soft, |_, limit| limit),
        used: BudgetAmounts { cost_micros, tokens, steps, tool_calls },
        left: by_unit(&budget.limits, |unit, limit| limit.saturating_sub(used.get(unit))),
        since: budget.period.ends_at(now).map(|_| time(first.begins_at())),
        resets_at: budget.period.ends_at(now).map(time),
        alerted: told.map(|alert| state(Some(alert.level))),
    }
}

fn state(level: Option<Level>) -> BudgetState {
    match level {
        None => BudgetState::Open,
        Some(Level::Soft) => BudgetState::Soft,
        Some(Level::Spent) => BudgetState::Spent,
    }
}

fn by_unit(limits: &Limits, of: impl Fn(Unit, u64) -> u64) -> BudgetLeft {
    let amount = |unit: Unit| limits.get(unit).map(|limit| of(unit, limit));
    BudgetLeft {
        cost_micros: amount(Unit::CostMicros),
        tokens: amount(Unit::Tokens),
        steps: amount(Unit::Steps),
        tool_calls: amount(Unit::ToolCalls),
        ..BudgetLeft::default()
    }
}
