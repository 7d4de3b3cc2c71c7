//! Pausing and resuming a queue on the wire.

use serde::{Deserialize, Serialize};

use crate::Time;
use crate::check::{Check, Checked, optional_name, text};
use crate::parse::Body;

/// `POST /v1/queues/{queue}/pause`: no task is leased from the queue until it is resumed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PauseQueue {
    /// Why, for people who wonder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The tenant of the queue; the calling key's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub tenant_id: Option<String>,
    /// The workspace of the queue; the calling key's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub workspace_id: Option<String>,
}

impl Body for PauseQueue {
    fn from_empty() -> Option<PauseQueue> {
        Some(PauseQueue::default())
    }
}

impl Check for PauseQueue {
    fn check(&self) -> Checked {
        text("reason", self.reason.as_deref())?;
        optional_name("tenantId", self.tenant_id.as_deref())?;
        optional_name("workspaceId", self.workspace_id.as_deref())
    }
}

/// `POST /v1/queues/{queue}/resume`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResumeQueue {
    /// The tenant of the queue; the calling key's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub tenant_id: Option<String>,
    /// The workspace of the queue; the calling key's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub workspace_id: Option<String>,
}

impl Body for ResumeQueue {
    fn from_empty() -> Option<ResumeQueue> {
        Some(ResumeQueue::default())
    }
}

impl Check for ResumeQueue {
    fn check(&self) -> Checked {
        optional_name("tenantId", self.tenant_id.as_deref())?;
        optional_name("workspaceId", self.workspace_id.as_deref())
    }
}

/// Since when a queue is paused, by whom and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct Pause {
    pub paused_at: Time,
    /// The id of the administrator's key.
    pub paused_by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A queue, and its pause if it has one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct QueueStatus {
    pub queue: String,
    pub tenant_id: String,
    pub workspace_id: String,
    /// Absent when tasks are leased from the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<Pause>,
}
