//! A closed attempt: its lease and owner, how it ended, and the report that closed it.

use crate::done::{Fault, Reason};
use crate::id::{Digest, Fence, Json, LeaseId, Name, TaskId};
use crate::time::Time;

/// Written once, when an attempt closes. A repeated or late report is answered from it.
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
    /// The digest of the report or call that closed the attempt; `None` if none did.
    pub report: Option<Digest>,
    /// What the worker sent besides its outcome: its own times, metrics and partial progress.
    pub claims: Option<Json>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AttemptOutcome {
    Succeeded,
    Failed,
    Cancelled,
    /// The lease expired. The worker may still run, but its reports no longer count.
    Lost,
    /// The worker made no call under this lease.
    Undelivered,
    /// The lease was revoked before its expiry: deadline, limit, cancel grace or forced cancel.
    Revoked,
    /// The worker handed the task back unfinished, because the worker stops. Nobody's failure.
    Released,
    /// The task waits for something. Resuming it is a new attempt.
    Suspended,
    /// The worker's code did not match the checkpoints.
    Diverged,
}

impl AttemptOutcome {
    pub const ALL: [AttemptOutcome; 9] = [
        AttemptOutcome::Succeeded,
        AttemptOutcome::Failed,
        AttemptOutcome::Cancelled,
        AttemptOutcome::Lost,
        AttemptOutcome::Undelivered,
        AttemptOutcome::Revoked,
        AttemptOutcome::Released,
        AttemptOutcome::Suspended,
        AttemptOutcome::Diverged,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            AttemptOutcome::Succeeded => "SUCCEEDED",
            AttemptOutcome::Failed => "FAILED",
            AttemptOutcome::Cancelled => "CANCELLED",
            AttemptOutcome::Lost => "LOST",
            AttemptOutcome::Undelivered => "UNDELIVERED",
            AttemptOutcome::Revoked => "REVOKED",
            AttemptOutcome::Released => "RELEASED",
            AttemptOutcome::Suspended => "SUSPENDED",
            AttemptOutcome::Diverged => "DIVERGED",
        }
    }

    /// Whether the attempt ended because its task waits. Such an attempt has no report.
    pub const fn is_suspension(self) -> bool {
        matches!(self, AttemptOutcome::Suspended | AttemptOutcome::Diverged)
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.name() == name)
    }
}
