//! Deadline monitor: a pause state for each artifact that has rested in its status for too long.
//!
//! It claims nothing, orders nothing and takes no executor. The same deadline makes the same pause state however often
//! the role polls.

use serde_json::Value;

use crate::check::Topology;
use crate::declaration::Role;
use crate::deployment::{Artifact, PauseReason, PauseState};
use crate::predicate::look_up;
use crate::proposal::Change;

/// When the artifact becomes overdue for this role, if it ever does.
#[must_use]
pub fn deadline(topology: &Topology, role: &Role, artifact: &Artifact) -> Option<u64> {
    let declared = topology.artifact(&artifact.name.kind)?;
    let watched = role.artifact.as_ref() == Some(&artifact.name.kind);
    if !watched || declared.final_statuses.contains(&artifact.status) {
        return None;
    }
    let urgency = match look_up(&artifact.fields, role.urgency.as_deref()?)? {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    Some(artifact.entered_at.saturating_add(role.after.get(&urgency)?.ms()))
}

/// What the role proposes for one artifact.
#[must_use]
pub fn propose(topology: &Topology, role: &str, artifact: &Artifact, now: u64) -> Vec<Change> {
    let Some(role) = topology.role(role) else {
        return Vec::new();
    };
    match deadline(topology, role, artifact) {
        Some(deadline) if deadline <= now => {
            let cause = artifact.name.to_string();
            let pause =
                PauseState::new(PauseReason::DeadlineOverdue, &cause, deadline, &role.actions, now);
            vec![Change::Pause(pause.about(Some(&artifact.name)))]
        }
        _ => Vec::new(),
    }
}
