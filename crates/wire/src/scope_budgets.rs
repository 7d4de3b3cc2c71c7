//! Budgets of tenants and workspaces: what their runs may use together.

use serde::{Deserialize, Serialize};

use crate::answers::{BudgetAmounts, BudgetLeft};
use crate::check::{Checked, budgets, name, refuse};
use crate::parse::Body;
use crate::requests::{SoftLimits, object};
use crate::{BudgetPeriod, BudgetState, Check, Time};

/// `POST /v1/budgets`: sets the budget of a tenant, or of one of its workspaces. A limit that is absent is removed; without any limit
/// the budget is removed. What was used stays counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SetBudget {
    /// The tenant of the calling key when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub tenant_id: Option<String>,
    /// All workspaces of the tenant together when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub workspace_id: Option<String>,
    /// When it begins anew; `total` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<BudgetPeriod>,
    /// Money, in millionths of a unit of currency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(maximum = 9007199254740991u64))]
    pub cost_micros: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(maximum = 9007199254740991u64))]
    pub tokens: Option<u64>,
    /// Recorded steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(maximum = 9007199254740991u64))]
    pub steps: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(maximum = 9007199254740991u64))]
    pub tool_calls: Option<u64>,
    /// Limits at which people are told, once in each period.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object")]
    pub soft: Option<SoftLimits>,
}

impl Body for SetBudget {}

impl Check for SetBudget {
    fn check(&self) -> Checked {
        for (member, value) in [("tenantId", &self.tenant_id), ("workspaceId", &self.workspace_id)]
        {
            value.as_deref().map_or(Ok(()), |value| name(member, value))?;
        }
        let Self { cost_micros, tokens, steps, tool_calls, soft, .. } = self;
        budgets::amounts([*cost_micros, *tokens, *steps, *tool_calls])?;
        budgets::soft(soft.as_ref())?;
        match soft {
            Some(soft) if *soft == SoftLimits::default() => {
                refuse("soft", "has no limit; leave it out, or name one")
            }
            _ => Ok(()),
        }
    }
}

/// The budget of a tenant or workspace, and what is used of it in this period.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct ScopeBudget {
    pub tenant_id: String,
    /// Absent for the budget of the whole tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<String>,
    pub period: BudgetPeriod,
    pub state: BudgetState,
    /// The limits, by unit; without those that there are not.
    pub limits: BudgetLeft,
    /// The limits at which people are told.
    pub soft: BudgetLeft,
    pub used: BudgetAmounts,
    pub left: BudgetLeft,
    /// When this period began; absent where the budget never begins anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// When the next period begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<Time>,
    /// The state that people were told of last in this period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alerted: Option<BudgetState>,
}

/// The budgets that the calling key may see, by tenant and workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct ScopeBudgets {
    pub budgets: Vec<ScopeBudget>,
}
