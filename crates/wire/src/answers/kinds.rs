//! What workers announced that they can do.

use serde::{Deserialize, Serialize};

use crate::{Builds, Json, Time};

/// A page of announced kinds, in the order of their names. They were announced at the coordinator that answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct Kinds {
    pub kinds: Vec<KindView>,
    /// Absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_after: Option<String>,
    /// How many coordinators there are, the one that answers included.
    pub coordinators: u32,
    pub server_time: Time,
}

/// A kind as some workers announced it. Workers with another version, build or schema are another entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct KindView {
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub builds: Option<Builds>,
    /// The queues that these workers poll.
    pub queues: Vec<String>,
    pub workers: u64,
    /// Only if one kind was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Object, required = false))]
    pub input_schema: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Object, required = false))]
    pub output_schema: Option<Json>,
    /// When one of these workers polled last.
    pub last_seen_at: Time,
}
