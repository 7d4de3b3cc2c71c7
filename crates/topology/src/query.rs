//! Questions of a scheduler to other deployments: read only, and answered by what the reader's topology declares.
//!
//! Executors never ask: what a deployment may know of another one is in the snapshot.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::check::Topology;

/// What a deployment answered.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    pub target: String,
    pub artifact: String,
    pub status: AnswerStatus,
    /// Empty unless the status is `OK`.
    pub results: Vec<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum AnswerStatus {
    Ok,
    Denied,
    TargetUnavailable,
}

/// Another deployment as its readers see it.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Target {
    #[serde(default)]
    pub unavailable: bool,
    /// What it stores, by artifact type.
    #[serde(default)]
    pub stores: BTreeMap<String, Vec<Value>>,
}

/// The answer of `target` to a reader of this topology.
#[must_use]
pub fn answer(reader: &Topology, name: &str, target: &Target, artifact: &str) -> Answer {
    let declared = reader.declaration().reads.iter().any(|it| it == artifact);
    let (status, results) = match target.stores.get(artifact) {
        _ if target.unavailable => (AnswerStatus::TargetUnavailable, Vec::new()),
        Some(results) if declared => (AnswerStatus::Ok, results.clone()),
        _ => (AnswerStatus::Denied, Vec::new()),
    };
    Answer { target: name.to_owned(), artifact: artifact.to_owned(), status, results }
}
