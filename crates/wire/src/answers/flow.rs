//! Flow keys: of which only so many runs are active at once, or start in a while.

use serde::{Deserialize, Serialize};

use crate::Time;
use crate::requests::FlowRate;

/// A page of the flow keys that runs which have not ended use, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct FlowKeys {
    pub flow_keys: Vec<FlowKeyView>,
    /// The `after` of the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_after: Option<String>,
    pub server_time: Time,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct FlowKeyView {
    pub key: String,
    /// How many of its tasks may be leased at once; absent if only a rate limits them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// How often its tasks may start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<FlowRate>,
    /// When the next one may, if as many started as the rate allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opens_at: Option<Time>,
    /// How many are.
    pub held: u64,
    /// How many tasks could start if the key had more slots and no rate.
    pub parked: u64,
    /// All of its tasks that have not ended.
    pub live: u64,
    /// The oldest tasks that hold a slot, at most ten.
    pub holders: Vec<String>,
}
