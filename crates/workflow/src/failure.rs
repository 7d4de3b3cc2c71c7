//! Why a task, a step, a call or a whole durable function failed, in the categories by which retries are decided.
//!
//! It decides nothing but whether another try can help. `Failure` does not implement `std::error::Error`, because any
//! error could not become one through `?` then.
//!
//! Invariant: category, reason, message and retryable are recorded and read again. The rest is for the report of an
//! attempt alone: a failure that was read from a record has none of it.

use std::fmt;

use serde::{Deserialize, Serialize};
use wire::limits::{MESSAGE_BYTES_MAX, STACK_TRACE_BYTES_MAX};
use wire::names::repair_text;
use wire::requests::ReportedError;
use wire::{ErrorCategory, Json};

use crate::run::encode;

/// A failure with its category. Any error becomes one through `?`, as USER_CODE.
///
/// ```
/// use workflow::Failure;
/// fn width(text: &str) -> Result<u32, Failure> {
///     match text.parse()? {
///         0 => Err(Failure::data("the width must not be zero")),
///         width => Ok(width),
///     }
/// }
/// assert_eq!(width("x").unwrap_err().to_string(), "invalid digit found in string");
/// assert!(!width("0").unwrap_err().is_retryable());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    pub category: ErrorCategory,
    /// A stable word, for a failure that the coordinator or the engine names: `HEARTBEAT_TIMEOUT`, `RESULT_TOO_LARGE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default)]
    pub message: String,
    /// The opinion of the code that failed; the category's default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// Boxed, because few failures have it and every result of a step has room for a failure.
    #[serde(skip)]
    details: Option<Box<Details>>,
}

/// What is told with the attempt and never recorded in a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Details {
    stack_trace: Option<String>,
    phase: Option<String>,
    partial_progress: Option<Json>,
    is_hand_back: bool,
}

impl Failure {
    pub fn new(category: ErrorCategory, message: impl fmt::Display) -> Failure {
        let message = repair_text(&message.to_string(), MESSAGE_BYTES_MAX).into_owned();
        Failure { category, reason: None, message, retryable: None, details: None }
    }

    /// The code failed; retried by default.
    pub fn user_code(message: impl fmt::Display) -> Failure {
        Failure::new(ErrorCategory::UserCode, message)
    }

    /// The code failed and would fail again; not retried.
    pub fn permanent(message: impl fmt::Display) -> Failure {
        Failure::user_code(message).non_retryable()
    }

    /// The input is not valid; not retried by default.
    pub fn data(message: impl fmt::Display) -> Failure {
        Failure::new(ErrorCategory::DataQuality, message)
    }

    /// A setting is missing or wrong; not retried by default.
    pub fn config(message: impl fmt::Display) -> Failure {
        Failure::new(ErrorCategory::Configuration, message)
    }

    /// A service, the memory or the disk failed; retried by default.
    pub fn infra(message: impl fmt::Display) -> Failure {
        Failure::new(ErrorCategory::Infrastructure, message)
    }

    /// Something took too long; retried by default.
    pub fn timeout(message: impl fmt::Display) -> Failure {
        Failure::new(ErrorCategory::Timeout, message)
    }

    /// The code stopped because its context asked it to.
    pub fn cancelled() -> Failure {
        Failure::new(ErrorCategory::Cancelled, "stopped as requested")
    }

    /// Hands the task back: this worker cannot do it, and another one may. Counts neither as a failure nor as a lost
    /// worker, but a task may be handed back only a limited number of times, so stop the worker or mend it.
    pub fn hand_back(message: impl fmt::Display) -> Failure {
        Failure::infra(message).retryable().with(|details| details.is_hand_back = true)
    }

    /// Asks for no further attempt, whatever the category's default is.
    #[must_use]
    pub fn non_retryable(self) -> Failure {
        Failure { retryable: Some(false), ..self }
    }

    /// Asks for another attempt, whatever the category's default is.
    #[must_use]
    pub fn retryable(self) -> Failure {
        Failure { retryable: Some(true), ..self }
    }

    /// Adds the place in the code where it happened.
    #[must_use]
    pub fn with_stack_trace(self, trace: impl Into<String>) -> Failure {
        self.with(|details| details.stack_trace = Some(trace.into()))
    }

    /// Adds what a cancelled task was doing when it stopped.
    #[must_use]
    pub fn during_phase(self, phase: impl Into<String>) -> Failure {
        self.with(|details| details.phase = Some(phase.into()))
    }

    /// Adds how far a cancelled task had come. Progress that the coordinator would refuse is left out, so that the
    /// report of the cancel does not fail on it.
    #[must_use]
    pub fn with_partial_progress(self, progress: &impl Serialize) -> Failure {
        let progress = encode(progress).ok();
        self.with(|details| details.partial_progress = progress)
    }

    /// Whether another try can help.
    pub fn is_retryable(&self) -> bool {
        self.retryable.unwrap_or(match self.category {
            ErrorCategory::UserCode | ErrorCategory::Infrastructure | ErrorCategory::Timeout => {
                true
            }
            ErrorCategory::DataQuality
            | ErrorCategory::Configuration
            | ErrorCategory::Cancelled => false,
        })
    }

    /// Whether the attempt is handed back instead of failed.
    pub fn is_hand_back(&self) -> bool {
        self.details.as_ref().is_some_and(|details| details.is_hand_back)
    }

    pub fn stack_trace(&self) -> Option<&str> {
        self.details.as_ref()?.stack_trace.as_deref()
    }

    /// What a cancelled task was doing when it stopped.
    pub fn phase(&self) -> Option<&str> {
        self.details.as_ref()?.phase.as_deref()
    }

    /// How far a cancelled task had come.
    pub fn partial_progress(&self) -> Option<&Json> {
        self.details.as_ref()?.partial_progress.as_ref()
    }

    /// A failure that another try cannot mend, under a stable word.
    pub(crate) fn named(reason: &str, message: impl fmt::Display) -> Failure {
        Failure { reason: Some(reason.to_owned()), ..Failure::permanent(message) }
    }

    /// A try that took longer than the step's timeout.
    pub(crate) fn timed_out() -> Failure {
        let failure = Failure::timeout("the step took longer than its timeout");
        Failure { reason: Some("STEP_TIMEOUT".to_owned()), ..failure }
    }

    /// What a record keeps of it.
    pub(crate) fn into_recorded(self) -> Failure {
        Failure { details: None, ..self }
    }

    fn with(mut self, change: impl FnOnce(&mut Details)) -> Failure {
        change(self.details.get_or_insert_default());
        self
    }
}

/// The error of a report with outcome FAILED. CANCELLED is not a category of failures: code that stops without a cancel
/// request has failed like any other code.
impl From<&Failure> for ReportedError {
    fn from(failure: &Failure) -> ReportedError {
        let category = match failure.category {
            ErrorCategory::Cancelled => ErrorCategory::UserCode,
            category => category,
        };
        let cut = |text: &str, bytes_max| repair_text(text, bytes_max).into_owned();
        ReportedError {
            category,
            message: cut(&failure.message, MESSAGE_BYTES_MAX),
            stack_trace: failure.stack_trace().map(|trace| cut(trace, STACK_TRACE_BYTES_MAX)),
            retryable: failure.retryable,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Failure {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            message = format!("{message}: {cause}");
            source = cause.source();
        }
        Failure::user_code(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_constructor_has_its_category_and_its_opinion_about_retries() {
        // S4-58: every error that code can return has a category.
        let table = [
            (Failure::user_code("x"), "USER_CODE", None),
            (Failure::data("x"), "DATA_QUALITY", None),
            (Failure::config("x"), "CONFIGURATION", None),
            (Failure::infra("x"), "INFRASTRUCTURE", None),
            (Failure::timeout("x"), "TIMEOUT", None),
            (Failure::permanent("x"), "USER_CODE", Some(false)),
            (Failure::hand_back("x"), "INFRASTRUCTURE", Some(true)),
            (Failure::cancelled(), "USER_CODE", None),
            (Failure::infra("x").non_retryable(), "INFRASTRUCTURE", Some(false)),
            (Failure::data("x").retryable(), "DATA_QUALITY", Some(true)),
        ];
        for (failure, category, retryable) in table {
            let reported = ReportedError::from(&failure);
            assert_eq!((reported.category.as_str(), reported.retryable), (category, retryable));
        }
        assert!(Failure::hand_back("x").is_hand_back() && !Failure::infra("x").is_hand_back());
    }

    #[test]
    fn any_other_error_becomes_user_code_and_keeps_its_causes() {
        // W-15, S4-58: an uncategorised error is USER_CODE, with no hint about retries.
        let cause = "x".parse::<u32>().unwrap_err();
        let failure = Failure::from(std::io::Error::other(cause));
        assert_eq!((failure.category, failure.retryable), (ErrorCategory::UserCode, None));
        assert!(failure.message.contains("invalid digit"), "{failure}");
    }

    #[test]
    fn a_record_holds_what_every_language_reads_and_nothing_else() {
        // E6: what stands in a checkpoint does not depend on what the report tells besides.
        let failure = Failure::infra("closed").with_stack_trace("at 7").during_phase("upload");
        let failure = failure.with_partial_progress(&[1, 2]);
        let text = serde_json::to_string(&failure).unwrap();
        assert_eq!(text, r#"{"category":"INFRASTRUCTURE","message":"closed"}"#);
        assert_eq!(failure.clone().into_recorded(), serde_json::from_str(&text).unwrap());
        assert_eq!(failure.partial_progress().unwrap().text(), "[1,2]");
        assert_eq!((failure.stack_trace(), failure.phase()), (Some("at 7"), Some("upload")));
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        let long = "é".repeat(STACK_TRACE_BYTES_MAX);
        let reported = ReportedError::from(&Failure::user_code(&long).with_stack_trace(&long));
        assert_eq!(reported.message.len(), MESSAGE_BYTES_MAX);
        assert_eq!(reported.stack_trace.unwrap().len(), STACK_TRACE_BYTES_MAX);
    }

    #[test]
    fn partial_progress_is_left_out_where_it_would_fail_the_report() {
        // S4-35: partial progress is optional, the report is not.
        let text = "x".repeat(wire::limits::PAYLOAD_BYTES_MAX);
        let large = Failure::cancelled().with_partial_progress(&text);
        assert_eq!(large.partial_progress(), None);
    }
}
