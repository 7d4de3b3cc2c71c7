//! A closed attempt: who held the lease, how it ended, and which report was answered.

use crate::done::{Fault, Reason};
use crate::id::{Digest, Fence, Json, LeaseId, Name, TaskId};
use crate::time::Time;

/// Written once when an attempt closes. A repeated or late report finds its answer here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClosedAttempt {
    pub task: TaskId,
    pub attempt: u32,
    pub lease: LeaseId,
    pub fence: Fence,
    pub owner: Name,
    pub granted_at: Time,
    pub started_at: Option<Time>,
    pub closed_at: Time,
    pub outcome: AttemptOutcome,
    pub reason: Option<Reason>,
    pub fault: Option<Fault>,
    /// The digest of the report that closed it; `None` when no report did.
    pub report: Option<Digest>,
    /// What the worker claimed beside its outcome: its own times, metrics, partial progress.
    pub claims: Option<Json>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AttemptOutcome {
    Succeeded,
    Failed,
    Cancelled,
    /// The lease ran out: the worker may live, but its word no longer counts.
    Lost,
    /// Nobody was ever heard under this lease.
    Undelivered,
    /// Taken back before its end: deadline, limit, cancel grace, forced cancel.
    Revoked,
}

impl AttemptOutcome {
    pub const ALL: [AttemptOutcome; 6] = [
        AttemptOutcome::Succeeded,
        AttemptOutcome::Failed,
        AttemptOutcome::Cancelled,
        AttemptOutcome::Lost,
        AttemptOutcome::Undelivered,
        AttemptOutcome::Revoked,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            AttemptOutcome::Succeeded => "SUCCEEDED",
            AttemptOutcome::Failed => "FAILED",
            AttemptOutcome::Cancelled => "CANCELLED",
            AttemptOutcome::Lost => "LOST",
            AttemptOutcome::Undelivered => "UNDELIVERED",
            AttemptOutcome::Revoked => "REVOKED",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.name() == name)
    }
}
