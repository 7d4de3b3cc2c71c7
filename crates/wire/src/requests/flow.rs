//! A key of which only so many runs are active at once.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// At most `limit` runs with this `key` are leased at once, in all queues of the tenant's workspace and over all
/// coordinators. A run that does not fit waits without keeping others from their workers. A slot belongs to the lease, so
/// a run that waits, for a child for example, holds none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Flow {
    #[schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")]
    pub key: String,
    /// The same for all runs with the key that have not ended; another one is refused with 409.
    #[schema(minimum = 1, maximum = 10000)]
    pub limit: u32,
}
