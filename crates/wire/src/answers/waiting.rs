//! The answer to a wait for many runs.

use serde::{Deserialize, Serialize};

use super::Run;
use crate::Time;

/// What became of the runs of a wait. Every id of the call is in exactly one of the three lists, in the order of the call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct WaitAnswer {
    /// Runs that have ended, without `input` and `children`. They take at most 4 MiB, unless there is only one.
    pub ended: Vec<Run>,
    /// Ask again for these. They have not ended, or they have ended and did not fit: then the next answer comes at once.
    pub pending: Vec<String>,
    /// No such run, or none that this key may read.
    pub not_found: Vec<String>,
    pub server_time: Time,
}
