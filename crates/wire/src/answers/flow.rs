//! Flow keys: of which only so many runs are active at once.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Time;

/// A page of the flow keys that runs which have not ended use, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FlowKeys {
    pub flow_keys: Vec<FlowKeyView>,
    /// The `after` of the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_after: Option<String>,
    pub server_time: Time,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FlowKeyView {
    pub key: String,
    /// How many of its tasks may be leased at once.
    pub limit: u32,
    /// How many are.
    pub held: u64,
    /// How many tasks could start if the key had more slots.
    pub parked: u64,
    /// All of its tasks that have not ended.
    pub live: u64,
    /// The oldest tasks that hold a slot, at most ten.
    pub holders: Vec<String>,
}
