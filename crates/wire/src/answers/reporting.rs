//! The answers to reports, single or in a batch.

use serde::{Deserialize, Serialize};

use super::leasing::Envelope;
use crate::{Outcome, State, Time, Verdict};

/// The answer to `completed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct CompletedAck {
    pub acknowledged: bool,
    pub verdict: Verdict,
    /// The attempt's outcome: FAILED even if a retry follows.
    pub final_state: Outcome,
    /// The task's condition at the time of answering.
    pub state: State,
    /// The same report was answered before; this is that answer.
    pub replayed: bool,
    /// The lease of the task's next stage, if the report asked for it and the worker got it. Repeated with the report while it
    /// is current.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Box<Envelope>>,
    pub server_time: Time,
}

/// Answers to a batch of reports, in the order of the request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct ReportAnswers {
    pub answers: Vec<ReportAnswer>,
    pub server_time: Time,
}

/// What a single `completed` call would have been answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct ReportAnswer {
    pub task_id: String,
    /// The HTTP status a single call would have had.
    pub status: u16,
    /// Absent only when nothing was decided (429, 503): send the report again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_state: Option<Outcome>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replayed: Option<bool>,
    /// The lease of the task's next stage, if the report asked for it and the worker got it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Box<Envelope>>,
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
