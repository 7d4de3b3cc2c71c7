//! The answers to starts, single or in a batch.

use serde::{Deserialize, Serialize};

use crate::{State, Time, Verdict};

/// The answer to `started`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct StartedAck {
    pub acknowledged: bool,
    pub verdict: Verdict,
    pub server_time: Time,
}

/// Answers to a batch of starts, in the order of the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct StartAnswers {
    pub answers: Vec<StartAnswer>,
    pub server_time: Time,
}

/// What a single `started` call would have been answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct StartAnswer {
    pub task_id: String,
    /// The HTTP status a single call would have had.
    pub status: u16,
    /// Absent only when nothing was decided (429, 503): send the start again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_attempt: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_attempt: Option<u32>,
}
