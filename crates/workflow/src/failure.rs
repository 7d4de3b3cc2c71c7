//! Why a step, a child or a whole function failed: a value that is recorded and read again.
//!
//! It decides nothing but whether another try can help. `Failure` does not implement `std::error::Error`, because any
//! error could not become one through `?` then.

use std::fmt;

use serde::{Deserialize, Serialize};
use wire::ErrorCategory;
use wire::limits::MESSAGE_BYTES_MAX;
use wire::names::repair_text;

/// A failure with its category, as it stands in a checkpoint. Any error becomes one through `?`, as USER_CODE.
///
/// ```
/// use workflow::Failure;
/// fn width(text: &str) -> Result<u32, Failure> {
///     Ok(text.parse()?)
/// }
/// assert_eq!(width("x").unwrap_err().to_string(), "invalid digit found in string");
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
}

impl Failure {
    pub fn new(category: ErrorCategory, message: impl fmt::Display) -> Failure {
        let message = repair_text(&message.to_string(), MESSAGE_BYTES_MAX).into_owned();
        Failure { category, reason: None, message, retryable: None }
    }

    /// The code failed and would fail again.
    pub fn permanent(message: impl fmt::Display) -> Failure {
        let failure = Failure::new(ErrorCategory::UserCode, message);
        Failure { retryable: Some(false), ..failure }
    }

    /// A failure that another try cannot mend, under a stable word.
    pub(crate) fn named(reason: &str, message: impl fmt::Display) -> Failure {
        Failure { reason: Some(reason.to_owned()), ..Failure::permanent(message) }
    }

    /// A try that took longer than the step's timeout.
    pub(crate) fn timed_out() -> Failure {
        let failure = Failure::new(ErrorCategory::Timeout, "the step took longer than its timeout");
        Failure { reason: Some("STEP_TIMEOUT".to_owned()), ..failure }
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
        Failure::new(ErrorCategory::UserCode, message)
    }
}
