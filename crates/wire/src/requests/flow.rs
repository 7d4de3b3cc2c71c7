//! A key of which only so many runs are active at once, or start in a while.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// At most `limit` runs with this `key` are leased at once, and they start no more often than `rate` says, in all queues of the
/// tenant's workspace and over all coordinators. A run that does not fit waits without keeping others from their workers. A slot
/// belongs to the lease, so a run that waits, for a child for example, holds none. A limit or a rate is required.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Flow {
    #[schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")]
    pub key: String,
    /// The same for all runs with the key that have not ended; another one is refused with 409. No limit when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 10000)]
    pub limit: Option<u32>,
    /// How often runs with the key may start; the same for all that have not ended, as the limit is.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "super::object")]
    pub rate: Option<FlowRate>,
}

/// At most `count` starts in any window of `perMs`, wherever it begins. Every lease is a start: a retry too, and a run that goes
/// on after a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FlowRate {
    #[schema(minimum = 1, maximum = 1000)]
    pub count: u32,
    /// The length of the window in milliseconds, up to 30 days.
    #[schema(minimum = 1, maximum = 2592000000_i64)]
    pub per_ms: u64,
}
