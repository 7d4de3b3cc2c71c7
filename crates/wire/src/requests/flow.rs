//! A key of which only so many runs are active at once, or start in a while, or of which only the last one runs.

use serde::{Deserialize, Serialize};

/// At most `limit` runs with this `key` are leased at once, and they start no more often than `rate` says, in all queues of the
/// tenant's workspace and over all coordinators. A run that does not fit waits without keeping others from their workers. A slot
/// belongs to the lease, so a run that waits, for a child for example, holds none, unless `hold` says otherwise. With `debounceMs`,
/// the run waits that long for a newer one with the same key, which replaces it. A limit, a rate or a debounce is required.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Flow {
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub key: String,
    /// The same for all runs with the key that have not ended; another one is refused with 409. No limit when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 10000))]
    pub limit: Option<u32>,
    /// How often runs with the key may start; the same for all that have not ended, as the limit is.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "super::object")]
    pub rate: Option<FlowRate>,
    /// How long the run waits, in milliseconds, up to 7 days. A later submission with the same key and a debounce replaces it
    /// while it waits, and waits in its turn: the older run ends `cancelled`, and its reason names the newer one. A run whose
    /// wait is over is not touched. Not for children and schedules, nor with `runAt` or `delayMs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 604800000_i64))]
    pub debounce_ms: Option<u64>,
    /// How long runs that replace each other may wait together, in milliseconds, up to 30 days: a steady stream postpones no
    /// longer. An hour when absent, or `debounceMs` if that is longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 2592000000_i64))]
    pub debounce_max_ms: Option<u64>,
    /// How long a slot is held: for each lease, or from the first lease until the run has ended, through its waits and retries.
    /// Children of such a run share its slot. Needs a limit, and is not for keys with a rate. `lease` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<FlowHold>,
}

/// How long a run holds a slot of its flow key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum FlowHold {
    /// While it is leased.
    #[default]
    Lease,
    /// From its first lease until it has ended.
    Life,
}

/// At most `count` starts in any window of `perMs`, wherever it begins. Every lease is a start: a retry too, and a run that goes
/// on after a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FlowRate {
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1000))]
    pub count: u32,
    /// The length of the window in milliseconds, up to 30 days.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 2592000000_i64))]
    pub per_ms: u64,
}
