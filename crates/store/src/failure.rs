//! The world did not answer as it should. Never a refusal: those are values in a verdict.

use std::error::Error;

use verdict::TaskId;

type Source = Box<dyn Error + Send + Sync + 'static>;

/// A definite failure: what was being done has no effect.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct Failure {
    pub kind: FailureKind,
    /// What the store was doing, as a fragment that fits after "failed:".
    pub what: String,
    /// The one task that it is about, where that is known: without it the same call would go through.
    pub task: Option<TaskId>,
    pub source: Option<Source>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Another writer changed this task first: load and decide again.
    Conflict(TaskId),
    /// No room. Service goes on when space returns.
    Full,
    /// The store cannot take this particular data, whoever asks.
    Invalid,
    /// Somebody else has the store open, or its files cannot be opened or understood.
    Closed,
    /// A copy of another store that was not finished lies here: it is no store yet.
    Unfinished,
    /// Whoever answers is not known to be whom the address means.
    Untrusted,
    /// The store is decided by a version of the rules that this program does not know.
    UnknownRules,
    /// Passing trouble: try again.
    Unavailable,
    /// More is asked at once than is answered at once: try again.
    Overloaded,
    /// The store's memory of itself can no longer be trusted: reopen it.
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

    /// It is this task's doing.
    #[must_use]
    pub fn about(self, task: TaskId) -> Self {
        Self { task: Some(task), ..self }
    }

    /// What is wrong with one task's rows does not make the store untrustworthy: the failure is that task's.
    #[must_use]
    pub(crate) fn confined_to(self, task: TaskId) -> Self {
        match self.kind {
            FailureKind::Fatal | FailureKind::Invalid => {
                Self { kind: FailureKind::Invalid, ..self.about(task) }
            }
            _ => self,
        }
    }

    /// Whether the same call may succeed later without anybody changing it.
    pub fn is_retryable(&self) -> bool {
        match self.kind {
            FailureKind::Conflict(_)
            | FailureKind::Full
            | FailureKind::Unavailable
            | FailureKind::Overloaded => true,
            FailureKind::Invalid
            | FailureKind::Closed
            | FailureKind::Unfinished
            | FailureKind::Untrusted
            | FailureKind::UnknownRules
            | FailureKind::Fatal => false,
        }
    }
}

/// How a commit can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum CommitFailure {
    /// Rolled back: nothing of the batch happened.
    #[error("the batch was rolled back")]
    RolledBack(#[source] Failure),
    /// The batch may or may not be durable. Only reopening the store can tell.
    #[error("the commit's outcome is unknown")]
    Unknown(#[source] Failure),
}
