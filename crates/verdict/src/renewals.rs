//! What renewals change in a task.
//!
//! A heartbeat leaves no entry in the history, so the next entry carries what heartbeats changed since the entry
//! before it. With that, entries alone rebuild the task. This holds those parts; it decides nothing.

use crate::task::{Phase, Task};
use crate::time::Time;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewals {
    pub claim_version: u32,
    pub revision: u32,
    pub decided_at: Time,
    pub heartbeat_at: Option<Time>,
    pub expires_at: Option<Time>,
    pub heard: bool,
}

impl Renewals {
    pub fn of(task: &Task) -> Self {
        Self {
            claim_version: task.claim_version,
            revision: task.revision,
            decided_at: task.decided_at,
            heartbeat_at: task.lease().map(|lease| lease.heartbeat_at),
            expires_at: task.lease().map(|lease| lease.expires_at),
            heard: task.lease().is_some_and(|lease| lease.heard),
        }
    }

    /// Whether the task knows more than these do. Counters only grow, so this is never true of an intact history.
    pub fn are_behind(&self, task: &Task) -> bool {
        self.claim_version < task.claim_version
            || self.revision < task.revision
            || self.decided_at < task.decided_at
    }

    /// Gives the task what renewals had changed when these were taken.
    pub fn restore(&self, task: &mut Task) {
        task.claim_version = self.claim_version;
        task.revision = self.revision;
        task.decided_at = self.decided_at;
        if let Phase::Running(lease) = &mut task.phase {
            lease.heartbeat_at = self.heartbeat_at.unwrap_or(lease.heartbeat_at);
            lease.expires_at = self.expires_at.unwrap_or(lease.expires_at);
            lease.heard = self.heard;
        }
    }
}
