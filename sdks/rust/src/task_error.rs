//! Why a task failed, in the categories by which the coordinator decides retries.
//!
//! The worker only reports what happened; the coordinator decides whether there is another attempt.

use std::fmt;

use serde::Serialize;
use wire::limits::{MESSAGE_BYTES_MAX, STACK_TRACE_BYTES_MAX};
use wire::requests::ReportedError;
use wire::{ErrorCategory, Json};
use workflow::Failure;

use crate::payload::encode_payload;

/// What a task returns.
pub type TaskResult<T> = Result<T, TaskError>;

/// A task's failure with its category. Any other error becomes one through `?`, as USER_CODE.
///
/// It does not implement `std::error::Error`, because that conversion could not exist then.
///
/// ```
/// use tenure::{TaskError, TaskResult};
///
/// fn width(text: &str) -> TaskResult<u32> {
///     let width: u32 = text.parse()?;
///     if width == 0 {
///         return Err(TaskError::data("the width must not be zero"));
///     }
///     Ok(width)
/// }
/// assert!(width("0").is_err());
/// ```
#[derive(Clone, Debug)]
pub struct TaskError {
    category: ErrorCategory,
    message: String,
    stack_trace: Option<String>,
    retryable: Option<bool>,
    phase: Option<String>,
    partial_progress: Option<Json>,
    is_hand_back: bool,
}

impl TaskError {
    fn new(category: ErrorCategory, message: impl fmt::Display) -> TaskError {
        TaskError {
            category,
            message: message.to_string(),
            stack_trace: None,
            retryable: None,
            phase: None,
            partial_progress: None,
            is_hand_back: false,
        }
    }

    /// The task's own code failed; retried by default.
    pub fn user_code(message: impl fmt::Display) -> TaskError {
        TaskError::new(ErrorCategory::UserCode, message)
    }

    /// The input is not valid; not retried by default.
    pub fn data(message: impl fmt::Display) -> TaskError {
        TaskError::new(ErrorCategory::DataQuality, message)
    }

    /// A setting is missing or wrong; not retried by default.
    pub fn config(message: impl fmt::Display) -> TaskError {
        TaskError::new(ErrorCategory::Configuration, message)
    }

    /// A service, the memory or the disk failed; retried by default.
    pub fn infra(message: impl fmt::Display) -> TaskError {
        TaskError::new(ErrorCategory::Infrastructure, message)
    }

    /// A deadline passed; retried by default.
    pub fn timeout(message: impl fmt::Display) -> TaskError {
        TaskError::new(ErrorCategory::Timeout, message)
    }

    /// The task's own code failed and would fail again; not retried.
    pub fn permanent(message: impl fmt::Display) -> TaskError {
        TaskError::user_code(message).non_retryable()
    }

    /// The task stopped because its context asked it to.
    pub fn cancelled() -> TaskError {
        TaskError::new(ErrorCategory::Cancelled, "stopped as requested")
    }

    /// Hands the task back: this worker cannot do it, and another one may. Counts neither as a
    /// failure nor as a lost worker, but a task may be handed back only a limited number of times,
    /// so stop the worker or mend it.
    pub fn hand_back(message: impl fmt::Display) -> TaskError {
        let error = TaskError::infra(message).retryable();
        TaskError { is_hand_back: true, ..error }
    }

    /// Asks for no further attempt, whatever the category's default is.
    pub fn non_retryable(mut self) -> TaskError {
        self.retryable = Some(false);
        self
    }

    /// Asks for another attempt, whatever the category's default is.
    pub fn retryable(mut self) -> TaskError {
        self.retryable = Some(true);
        self
    }

    /// Adds the place in the code where it happened.
    pub fn with_stack_trace(mut self, trace: impl Into<String>) -> TaskError {
        self.stack_trace = Some(trace.into());
        self
    }

    /// Adds what a cancelled task was doing when it stopped.
    pub fn during_phase(mut self, phase: impl Into<String>) -> TaskError {
        self.phase = Some(phase.into());
        self
    }

    /// Adds how far a cancelled task had come. Progress that the coordinator would refuse is left
    /// out, so that the report of the cancel does not fail on it.
    pub fn with_partial_progress(mut self, progress: &impl Serialize) -> TaskError {
        self.partial_progress = encode_payload(progress).ok();
        self
    }

    pub fn category(&self) -> ErrorCategory {
        self.category
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn is_hand_back(&self) -> bool {
        self.is_hand_back
    }

    pub(crate) fn phase(&self) -> Option<String> {
        self.phase.clone()
    }

    pub(crate) fn partial_progress(&self) -> Option<Json> {
        self.partial_progress.clone()
    }

    /// The error of a report with outcome FAILED. CANCELLED is not a category of failures: code
    /// that stops without a cancel request has failed like any other code.
    pub(crate) fn reported(&self) -> ReportedError {
        let category = match self.category {
            ErrorCategory::Cancelled => ErrorCategory::UserCode,
            category => category,
        };
        ReportedError {
            category,
            message: truncated(&self.message, MESSAGE_BYTES_MAX),
            stack_trace: self.stack_trace.as_deref().map(|t| truncated(t, STACK_TRACE_BYTES_MAX)),
            retryable: self.retryable,
        }
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.category, self.message)
    }
}

impl<E: std::error::Error> From<E> for TaskError {
    fn from(error: E) -> TaskError {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(source) = cause {
            message.push_str(": ");
            message.push_str(&source.to_string());
            cause = source.source();
        }
        TaskError::user_code(message)
    }
}

/// A step of a durable function can call code that is written for tasks.
impl From<TaskError> for Failure {
    fn from(error: TaskError) -> Failure {
        let mut failure = Failure::new(error.category, error.message);
        failure.retryable = error.retryable;
        failure
    }
}

/// The start of a text, cut at a character boundary.
pub(crate) fn truncated(text: &str, bytes_max: usize) -> String {
    let mut end = bytes_max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_constructor_has_its_category_and_its_opinion_about_retries() {
        // S4-58: every error a task can return has a category.
        let table = [
            (TaskError::user_code("x"), "USER_CODE", None),
            (TaskError::data("x"), "DATA_QUALITY", None),
            (TaskError::config("x"), "CONFIGURATION", None),
            (TaskError::infra("x"), "INFRASTRUCTURE", None),
            (TaskError::timeout("x"), "TIMEOUT", None),
            (TaskError::permanent("x"), "USER_CODE", Some(false)),
            (TaskError::infra("x").non_retryable(), "INFRASTRUCTURE", Some(false)),
            (TaskError::data("x").retryable(), "DATA_QUALITY", Some(true)),
        ];
        for (error, category, retryable) in table {
            let reported = error.reported();
            assert_eq!((reported.category.as_str(), reported.retryable), (category, retryable));
        }
    }

    #[test]
    fn any_other_error_becomes_user_code_and_keeps_its_causes() {
        // W-15, S4-58: an uncategorised error is USER_CODE, with no hint about retries.
        let cause = "x".parse::<u32>().unwrap_err();
        let error = TaskError::from(std::io::Error::other(cause));
        assert_eq!(error.category(), ErrorCategory::UserCode);
        assert!(error.message().contains("invalid digit"), "{}", error.message());
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(truncated("aé", 2), "a");
        assert_eq!(truncated("aé", 3), "aé");
        let error = TaskError::user_code("é".repeat(MESSAGE_BYTES_MAX));
        assert!(error.reported().message.len() <= MESSAGE_BYTES_MAX);
    }

    #[test]
    fn partial_progress_is_left_out_where_it_would_fail_the_report() {
        // S4-35: partial progress is optional, the report is not.
        let small = TaskError::cancelled().with_partial_progress(&"half");
        assert_eq!(small.partial_progress().unwrap().text(), "\"half\"");
        let text = "x".repeat(wire::limits::PAYLOAD_BYTES_MAX);
        let large = TaskError::cancelled().with_partial_progress(&text);
        assert_eq!(large.partial_progress(), None);
    }
}
