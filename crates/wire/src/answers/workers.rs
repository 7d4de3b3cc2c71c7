//! The workers of a scope: who polls for what, and who holds leases.
//!
//! Not a registry: a worker that neither polls nor holds a lease at this moment is not known.

use serde::{Deserialize, Serialize};

use crate::Time;

/// A page of workers, by name. Leases are those of the store, whichever coordinator granted them; polls are those that
/// wait at the coordinator that answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct Workers {
    pub workers: Vec<WorkerView>,
    /// The `after` of the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_after: Option<String>,
    /// How many coordinators share the store, as far as is known. With more than one, each knows only its own polls.
    pub coordinators: u32,
    pub server_time: Time,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct WorkerView {
    pub worker_id: String,
    /// What it waits for.
    pub polls: Vec<WorkerPolls>,
    /// What it works on.
    pub leases: Vec<WorkerLeases>,
}

/// Waiting polls of a worker that ask for the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct WorkerPolls {
    pub queues: Vec<String>,
    /// Absent: every kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kinds: Option<Vec<String>>,
    /// How many polls wait.
    pub count: u64,
    /// How many tasks they would take together.
    pub max: u64,
}

/// The leases that a worker holds on tasks of one queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct WorkerLeases {
    pub queue: String,
    pub count: u64,
    pub oldest_acquired_at: Time,
    pub latest_heartbeat_at: Time,
    /// When the first of them expires, unless a heartbeat comes before.
    pub next_expires_at: Time,
}
