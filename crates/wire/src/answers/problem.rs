//! Error answers.

use serde::{Deserialize, Serialize};

use crate::{Time, Verdict};

/// Every error answer: `application/problem+json` with the additional members of the worker contract.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct Problem {
    /// Where the code is explained.
    #[serde(rename = "type")]
    pub type_uri: String,
    pub title: String,
    pub status: u16,
    pub detail: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// The stable code.
    pub error: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// On every answer to started, heartbeat and completed, except 429 and 503.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// The state that prevented the call, in upper case as in the worker contract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_attempt: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_attempt: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The member of the request at fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    pub server_time: Time,
}
