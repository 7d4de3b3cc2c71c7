//! Lines of a log, as workers send them with heartbeats, reports and checkpoints.

use serde::{Deserialize, Serialize};

use crate::{LogLevel, Time};

/// A line for people. It decides nothing and is part of no record or digest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LogLine {
    /// Its number in the attempt, counted by the worker from 1; the next one when absent. A line with a number that the
    /// log has already is not added again, and numbers that are missing count as dropped lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 4294967295i64))]
    pub n: Option<u64>,
    /// By the worker's clock: recorded, but not used for decisions. The time of the decision when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
    #[serde(default, skip_serializing_if = "LogLevel::is_default")]
    pub level: LogLevel,
    /// Repaired where needed and never a reason to refuse the call: cut after 4096 bytes, NUL replaced.
    pub text: String,
}
