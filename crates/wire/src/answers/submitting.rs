//! The answers to submissions, single or in a batch.

use serde::{Deserialize, Serialize};

use super::Run;
use crate::{State, Time};

/// A run was accepted: 201, or 200 with `replayed` when its idempotency key was known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct RunAccepted {
    pub run_id: String,
    pub task_id: String,
    pub state: State,
    pub created_at: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replayed: Option<bool>,
    /// The run, if the call waited for its end (`waitMs`) and it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Box<Run>>,
}

/// Answers to a batch of runs, in the order of the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct SubmitResults {
    pub results: Vec<SubmitResult>,
}

/// One run of a batch: either the members of [`RunAccepted`], or `error` and `message`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct SubmitResult {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replayed: Option<bool>,
    /// A stable code; present exactly when the run was not accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The member at fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
}

impl From<RunAccepted> for SubmitResult {
    fn from(accepted: RunAccepted) -> SubmitResult {
        SubmitResult {
            run_id: Some(accepted.run_id),
            task_id: Some(accepted.task_id),
            state: Some(accepted.state),
            created_at: Some(accepted.created_at),
            replayed: accepted.replayed,
            ..SubmitResult::default()
        }
    }
}

impl SubmitResult {
    /// The run, unless it was refused.
    pub fn accepted(self) -> Option<RunAccepted> {
        Some(RunAccepted {
            run_id: self.run_id?,
            task_id: self.task_id?,
            state: self.state?,
            created_at: self.created_at?,
            replayed: self.replayed,
            run: None,
        })
    }
}
