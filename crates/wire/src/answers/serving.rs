//! The condition of the server, and the size of its queues.

use serde::{Deserialize, Serialize};

use super::PageStop;
use crate::Time;
use crate::pausing::Pause;

/// Waiting and running tasks per queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct Queues {
    pub queues: Vec<QueueView>,
    /// `bytes` if there are more queues, by name, than an answer has room for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<PageStop>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct QueueView {
    pub queue: String,
    /// Tasks that could be leased now.
    pub ready: u64,
    /// Tasks that wait for a slot or a start of their flow key: more workers do not help them.
    #[serde(default)]
    pub parked: u64,
    /// Tasks that wait for a delayed start or a retry.
    pub delayed: u64,
    pub running: u64,
    /// When the oldest ready task was enqueued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_ready_at: Option<Time>,
    /// Present while the queue is paused: no task is leased from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<Pause>,
}

/// `/readyz`: 200 when every check passes, 503 otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct Ready {
    pub ready: bool,
    pub checks: Vec<ReadyCheck>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct ReadyCheck {
    pub name: String,
    pub ok: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// `/version`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct Version {
    /// The version of the program.
    pub version: String,
    /// The version of this interface: the first segment of its paths.
    pub api: String,
}
