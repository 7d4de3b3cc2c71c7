//! How the server is, and what its queues hold.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Time;

/// What waits and runs, per queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Queues {
    pub queues: Vec<QueueView>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueView {
    pub queue: String,
    /// Could be leased now.
    pub ready: u64,
    /// Waits for its time: a delayed start or the next attempt.
    pub delayed: u64,
    pub running: u64,
    /// When the oldest ready task was enqueued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_ready_at: Option<Time>,
}

/// `/readyz`: 200 when every check passes, 503 otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ready {
    pub ready: bool,
    pub checks: Vec<ReadyCheck>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReadyCheck {
    pub name: String,
    pub ok: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// `/version`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// The version of the program.
    pub version: String,
    /// The version of this interface: the first segment of its paths.
    pub api: String,
}
