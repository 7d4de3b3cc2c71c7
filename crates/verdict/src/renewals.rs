//! The fields of a task that renewals change.
//!
//! A heartbeat leaves no history entry, so the next entry carries what heartbeats changed since the
//! previous one. With that, the entries alone rebuild the task. This type holds those fields; it
//! decides nothing.

use crate::progress_clock::ProgressMark;
use crate::task::{Lease, Phase, Task};
use crate::time::Time;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewals {
    pub claim_version: u32,
    pub revision: u32,
    pub decided_at: Time,
    pub heartbeat_at: Option<Time>,
    pub expires_at: Option<Time>,
    pub heard: bool,
    /// What the progress clock counts from, and when the attempt was found stalled.
    pub progressed_at: Option<Time>,
    pub stalled_at: Option<Time>,
}

impl Renewals {
    pub fn of(task: &Task) -> Self {
        let mark = task.lease().and_then(|lease| lease.progress_mark);
        Self {
            claim_version: task.claim_version,
            revision: task.revision,
            decided_at: task.decided_at,
            heartbeat_at: task.lease().map(|lease| lease.heartbeat_at),
            expires_at: task.lease().map(|lease| lease.expires_at),
            heard: task.lease().is_some_and(|lease| lease.heard),
            progressed_at: mark.map(|mark| mark.at),
            stalled_at: mark.and_then(|mark| mark.stalled_at),
        }
    }

    /// Whether the task is ahead of these values. Counters only grow, so this is never true of an
    /// intact history.
    pub fn are_behind(&self, task: &Task) -> bool {
        self.claim_version < task.claim_version
            || self.revision < task.revision
            || self.decided_at < task.decided_at
    }

    /// Sets the task's fields to these values.
    pub fn restore(&self, task: &mut Task) {
        task.claim_version = self.claim_version;
        task.revision = self.revision;
        task.decided_at = self.decided_at;
        if let Phase::Running(lease) = &mut task.phase {
            lease.heartbeat_at = self.heartbeat_at.unwrap_or(lease.heartbeat_at);
            lease.expires_at = self.expires_at.unwrap_or(lease.expires_at);
            lease.heard = self.heard;
            self.restore_mark(lease);
        }
    }

    fn restore_mark(&self, lease: &mut Lease) {
        let mark = self.progressed_at.map(|at| ProgressMark { at, stalled_at: self.stalled_at });
        lease.progress_mark = mark.or(lease.progress_mark);
    }
}
