//! Explanations: what a run waits for.

use serde::{Deserialize, Serialize};

use crate::{State, Time};

/// Why a run is not running or has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct Explanation {
    pub run_id: String,
    pub task_id: String,
    pub state: State,
    /// What holds it, the most pressing first.
    pub gates: Vec<Gate>,
    pub server_time: Time,
}

/// One thing that holds a run where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct Gate {
    /// A stable name: `run_at`, `backoff`, `no_worker`, `ahead`, `ready`, `leased`, `unheard`, `restored`,
    /// `cancel_untold`, `cancel_told`, `attempt_limit`, `deadline`, `waiting`,
    /// `diverged`, `closing`, `ended`.
    pub gate: String,
    /// Its current value, as a sentence.
    pub now: String,
    /// What would change it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    /// When it changes without any action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
}
