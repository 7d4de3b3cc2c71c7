//! How a run ended that did not succeed.

use std::fmt;

use wire::answers::Run;
use wire::{ErrorCategory, State};

/// The end of a run that did not succeed, as the coordinator reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunFailure {
    pub run_id: String,
    /// `failed`, `halted` or `cancelled`.
    pub state: State,
    /// The category that the last attempt reported; absent when the coordinator ended the run.
    pub category: Option<ErrorCategory>,
    /// Why the run ended: ATTEMPTS_EXHAUSTED, HEARTBEAT_TIMEOUT, CANCEL_REQUESTED and others.
    pub reason: String,
    pub message: String,
    pub stack_trace: Option<String>,
    /// The number of the last attempt; 0 when there was none.
    pub attempt: u32,
}

impl RunFailure {
    pub(crate) fn of(run: Run) -> RunFailure {
        let (category, reason, message, stack_trace) = match run.error {
            Some(error) => (error.category, error.reason, error.message, error.stack_trace),
            None => (None, String::new(), run.cancel_reason.unwrap_or_default(), None),
        };
        RunFailure {
            run_id: run.run_id,
            state: run.state,
            category,
            reason,
            message,
            stack_trace,
            attempt: run.attempt,
        }
    }
}

impl fmt::Display for RunFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ended {}", self.run_id, self.state)?;
        for part in [&self.reason, &self.message] {
            if !part.is_empty() {
                write!(f, ": {part}")?;
            }
        }
        Ok(())
    }
}
