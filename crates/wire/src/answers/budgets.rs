//! What a run may still use, and what it has used.

use serde::{Deserialize, Serialize};

use crate::Time;

/// What is left of each limit that there is. What live children may use is not left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct BudgetLeft {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    /// When the wall clock of the budget stops the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_ends_at: Option<Time>,
    /// How long leases of the task may still last, without the one under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_ms: Option<u64>,
}

/// An amount of everything that is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct BudgetAmounts {
    pub cost_micros: u64,
    pub tokens: u64,
    pub steps: u64,
    pub tool_calls: u64,
}

/// The budget of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct BudgetView {
    /// By the task and its ended children.
    pub used: BudgetAmounts,
    /// What live children may use.
    pub held: BudgetAmounts,
    pub left: BudgetLeft,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_ms: Option<u64>,
    /// The limits of amounts, by unit; without those that there are not.
    pub limits: BudgetLeft,
    /// A soft limit was crossed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub warned: bool,
}
