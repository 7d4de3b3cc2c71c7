//! The log of a run, as its workers sent it.

use serde::{Deserialize, Serialize};

use crate::{LogLevel, Time};

/// A page of the log of a run, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct Logs {
    pub lines: Vec<LoggedLine>,
    /// Ask with `after` set to this for the lines that follow; absent where none do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_after: Option<String>,
}

/// One line of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct LoggedLine {
    pub attempt: u32,
    /// Its number in the attempt.
    pub n: u64,
    /// By the worker's clock, or the server's if the worker said none.
    pub at: Time,
    pub level: LogLevel,
    pub text: String,
    /// So many lines before this one are not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<u64>,
}
