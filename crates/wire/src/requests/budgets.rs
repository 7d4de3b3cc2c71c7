//! What a run may use.

use serde::{Deserialize, Serialize};

use super::checkpoints::Spend;
use super::object;

/// What a run and its descendants may use. A limit may be reached and not crossed: the call that crosses it halts the run, with
/// every step kept. A limit that is absent does not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Budget {
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
    /// How long the run may take from its submission. Children inherit it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 315576000000u64))]
    pub wall_ms: Option<u64>,
    /// How long the leases of one task may last together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 315576000000u64))]
    pub active_ms: Option<u64>,
    /// What one step may use. So much is counted for a worker that is lost in the middle of one; nothing when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object")]
    pub reserve: Option<Spend>,
    /// Limits that are noted in the history when they are crossed, once.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object")]
    pub soft: Option<SoftLimits>,
    /// What follows when a soft limit is crossed; `note` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_soft: Option<OnSoft>,
}

/// What follows when a soft limit is crossed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum OnSoft {
    /// It is noted in the history, as `budget_warned`.
    Note,
    /// And the run waits at its next checkpoint until a key with the role approver lets it go on; rejected, it halts.
    Ask,
}

/// Limits that end nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SoftLimits {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(maximum = 9007199254740991u64))]
    pub cost_micros: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(maximum = 9007199254740991u64))]
    pub tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(maximum = 9007199254740991u64))]
    pub steps: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(maximum = 9007199254740991u64))]
    pub tool_calls: Option<u64>,
}
