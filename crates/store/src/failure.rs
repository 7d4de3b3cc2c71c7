//! Failures of the store: I/O, conflicts, bad data. Never a refusal: refusals are values in a verdict.

use std::error::Error;

use verdict::TaskId;

type Source = Box<dyn Error + Send + Sync + 'static>;

/// A definite failure: the operation had no effect.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct Failure {
    pub kind: FailureKind,
    /// What the store was doing, as a fragment that fits after "failed:".
    pub what: String,
    /// The one task that caused it, where that is known: without that task the same call would succeed.
    pub task: Option<TaskId>,
    pub source: Option<Source>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Another writer changed this task first: load and decide again.
    Conflict(TaskId),
    /// No space left. Service continues when there is space again.
    Full,
    /// The store cannot accept this data, from any caller.
    Invalid,
    /// The store cannot be opened or understood.
    Closed,
    /// Another process has the store open.
    InUse,
    /// The file that a copy would get exists already.
    Exists,
    /// The place holds an unfinished copy of another store, which cannot be opened.
    Unfinished,
    /// The server that answers cannot be verified as the one that the address names.
    Untrusted,
    /// The rules in force are a version that this program does not know.
    UnknownRules,
    /// The store's file is not at its path any more, so commits would be lost. Service continues when it is back.
    Missing,
    /// A temporary failure: try again.
    Unavailable,
    /// Too many concurrent requests: try again.
    Overloaded,
    /// The store's in-memory state can no longer be trusted: reopen the store.
    Fatal,
}

impl Failure {
    pub fn new(kind: FailureKind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into(), task: None, source: None }
    }

    #[must_use]
    pub fn because(self, source: impl Into<Source>) -> Self {
        Self { source: Some(source.into()), ..self }
    }

    /// Attributes the failure to this task.
    #[must_use]
    pub fn about(self, task: TaskId) -> Self {
        Self { task: Some(task), ..self }
    }

    /// Attributes damaged or invalid rows to their task: the rest of the store can still be trusted.
    #[must_use]
    pub(crate) fn confined_to(self, task: TaskId) -> Self {
        match self.kind {
            FailureKind::Fatal | FailureKind::Invalid => {
                Self { kind: FailureKind::Invalid, ..self.about(task) }
            }
            _ => self,
        }
    }

    /// Whether the same call may succeed later, unchanged.
    pub fn is_retryable(&self) -> bool {
        match self.kind {
            FailureKind::Conflict(_)
            | FailureKind::Full
            | FailureKind::Missing
            | FailureKind::Unavailable
            | FailureKind::Overloaded => true,
            FailureKind::Invalid
            | FailureKind::Closed
            | FailureKind::InUse
            | FailureKind::Exists
            | FailureKind::Unfinished
            | FailureKind::Untrusted
            | FailureKind::UnknownRules
            | FailureKind::Fatal => false,
        }
    }
}

/// How a commit can fail.
#[derive(Debug, thiserror::Error)]
pub enum CommitFailure {
    /// Rolled back: nothing of the batch took effect.
    #[error("the batch was rolled back")]
    RolledBack(#[source] Failure),
    /// The batch may or may not be durable. Only reopening the store can tell.
    #[error("the commit's outcome is unknown")]
    Unknown(#[source] Failure),
}
