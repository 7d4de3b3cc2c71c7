//! Many starts in one call.

use serde::{Deserialize, Serialize};

use crate::Time;

/// `POST /v1/starts`: many starts at once, one answer each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Starts {
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 1000))]
    pub starts: Vec<StartItem>,
}

/// One start of a batch: `Started` with the task and token a single call has in path and header.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StartItem {
    pub task_id: String,
    pub task_token: String,
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub attempt: u32,
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub worker_id: String,
    /// By the worker's clock: recorded, but not used for decisions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
}
