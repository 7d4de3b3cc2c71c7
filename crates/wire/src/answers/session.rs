//! What a key may do, and one-time codes for the console.

use serde::{Deserialize, Serialize};

use crate::{Role, Time};

/// Who asks, and what the key may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct Session {
    /// The public part of the key.
    pub key_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub tenant_id: String,
    pub workspace_id: String,
    pub roles: Vec<Role>,
    /// The queues it is limited to; every queue when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<Vec<String>>,
    /// What the key may do, such as `runs.read`, `runs.cancel` and `approvals.decide`: the names of the routes that take
    /// it, in alphabetical order. What a call names can still be out of its reach.
    pub may: Vec<String>,
    /// When the key expires, or the session of the console in which it is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    pub server_time: Time,
}

impl Session {
    /// Whether the key may do this, such as `approvals.decide`.
    pub fn may(&self, what: &str) -> bool {
        self.may.iter().any(|name| name == what)
    }
}

/// A one-time code, with which a browser logs in to the console as the key that asked for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct ConsoleCode {
    /// Taken once. The coordinator that made it knows it.
    pub code: String,
    /// Where to open it, below the address of the server. The code is behind `#`, so that it reaches no log.
    pub path: String,
    pub expires_at: Time,
    pub server_time: Time,
}
