//! What can go wrong between a program and a coordinator, with messages that say what to do next.
//!
//! A refusal by the coordinator ([`Error::Refused`]) is an answer; every other error means that
//! there was none.

use std::sync::Arc;
use std::time::Duration;

use wire::answers::Problem;
use wire::{Code, State, Verdict};

use crate::payload::Unreadable;
use crate::run_failure::RunFailure;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The coordinator refused the call.
    #[error("{}", refusal(.0))]
    Refused(Box<Problem>),

    /// The run whose output was asked for did not succeed.
    #[error("{0}")]
    RunFailed(Box<RunFailure>),

    /// The run succeeded, but its output is not of the requested type.
    #[error("the output of {run_id} is not of the type it was read as, {source}")]
    #[non_exhaustive]
    OutputUnreadable { run_id: String, source: Unreadable },

    /// The run has not ended in the time that the caller gave it. It goes on; wait again.
    #[error(
        "{run_id} has not ended within {timeout:?} and is {state}; it goes on, and can be waited for again"
    )]
    #[non_exhaustive]
    TimedOut { run_id: String, state: State, timeout: Duration },

    /// No server answered within the retries that [`crate::Retries`] allows.
    #[error("{}", no_response(url, source))]
    #[non_exhaustive]
    Unreachable { url: String, source: Arc<NoAnswer> },

    /// The coordinator does not know whether the call took effect.
    #[error(
        "it is unknown whether the call took effect ({}); look at the run, or repeat the call with \
         the same idempotency key",
        .0.message
    )]
    UnknownOutcome(Box<Problem>),

    /// An answer arrived, but not one that a coordinator of this version sends.
    #[error(
        "{url} did not answer like a Tenure server ({why}); check that the address is a coordinator"
    )]
    #[non_exhaustive]
    Protocol { url: String, status: u16, why: String },

    /// The call could not be made: an address, key or body that cannot be sent.
    #[error("{0}")]
    Setup(String),
}

impl Error {
    /// The error of a call that several callers share, for each of them.
    pub(crate) fn duplicate(&self) -> Error {
        match self {
            Error::Refused(problem) => Error::Refused(problem.clone()),
            Error::UnknownOutcome(problem) => Error::UnknownOutcome(problem.clone()),
            Error::Unreachable { url, source } => {
                Error::Unreachable { url: url.clone(), source: Arc::clone(source) }
            }
            Error::Protocol { url, status, why } => {
                Error::Protocol { url: url.clone(), status: *status, why: why.clone() }
            }
            other => Error::Setup(other.to_string()),
        }
    }

    /// The stable code of a refusal; absent if there is none, or if a newer server introduced it.
    pub fn code(&self) -> Option<Code> {
        self.problem().and_then(Problem::code)
    }

    /// What happened, without a hint: the coordinator's message where it gave an answer.
    pub fn message(&self) -> String {
        match self {
            Error::Refused(problem) | Error::UnknownOutcome(problem) => problem.message.clone(),
            Error::RunFailed(failure) => failure.message.clone(),
            other => other.to_string(),
        }
    }

    /// How long the coordinator asks to wait before a retry, if it said so.
    pub fn retry_after(&self) -> Option<Duration> {
        self.problem()?.retry_after_ms.map(Duration::from_millis)
    }

    /// How the run ended, if it did not succeed.
    pub fn run_failure(&self) -> Option<&RunFailure> {
        match self {
            Error::RunFailed(failure) => Some(failure),
            _ => None,
        }
    }

    /// The HTTP status, where an answer arrived.
    pub fn status(&self) -> Option<u16> {
        match self {
            Error::Refused(problem) | Error::UnknownOutcome(problem) => Some(problem.status),
            Error::Protocol { status, .. } => Some(*status),
            Error::RunFailed(_)
            | Error::OutputUnreadable { .. }
            | Error::TimedOut { .. }
            | Error::Unreachable { .. }
            | Error::Setup(_) => None,
        }
    }

    /// The verdict that a worker must obey; absent if nothing was decided.
    pub fn verdict(&self) -> Option<Verdict> {
        let problem = self.problem()?;
        problem.verdict.or_else(|| problem.code().and_then(Code::verdict))
    }

    /// The whole refusal.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Error::Refused(problem) | Error::UnknownOutcome(problem) => Some(problem),
            _ => None,
        }
    }

    /// Whether nothing was decided, so that the same call may be repeated: no answer, 429, 503.
    pub fn is_retryable(&self) -> bool {
        match self {
            Error::Unreachable { .. } | Error::UnknownOutcome(_) | Error::TimedOut { .. } => true,
            Error::Setup(_) | Error::RunFailed(_) | Error::OutputUnreadable { .. } => false,
            Error::Refused(_) | Error::Protocol { .. } => {
                matches!(self.status(), Some(429 | 503))
            }
        }
    }
}

fn refusal(problem: &Problem) -> String {
    let field = in_member(problem.field.as_deref());
    let hint = match problem.code() {
        Some(Code::Unauthenticated) => "; set TENURE_API_KEY to a key of this server",
        Some(Code::Forbidden) => "; use a key that has the role for this call",
        Some(Code::TooManyRequests | Code::Overloaded) => "; try again later",
        _ => "",
    };
    format!("{}: {}{field}{hint}", problem.error, problem.message)
}

fn in_member(field: Option<&str>) -> String {
    field.map(|field| format!(" (member `{field}`)")).unwrap_or_default()
}

/// Why no answer came: the network, or the time that was given.
#[derive(Debug, thiserror::Error)]
#[error("{}", if *is_connect { "no connection" } else { "no answer" })]
pub struct NoAnswer {
    is_connect: bool,
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl NoAnswer {
    /// Nothing was sent.
    pub(crate) fn connecting(
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> NoAnswer {
        NoAnswer { is_connect: true, source: source.into() }
    }

    /// The server may have got the call.
    pub(crate) fn broken(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> NoAnswer {
        NoAnswer { is_connect: false, source: source.into() }
    }

    /// Whether there was no connection, so that nothing was sent.
    pub fn is_connect(&self) -> bool {
        self.is_connect
    }
}

fn no_response(url: &str, source: &NoAnswer) -> String {
    let cause = innermost(source);
    if source.is_connect() {
        format!(
            "no server answers at {url} ({cause}); start one with `tenure dev`, or set TENURE_URL to \
             its address"
        )
    } else {
        format!(
            "the server at {url} gave no answer ({cause}); the call may have taken effect, and can be \
             repeated with the same idempotency key"
        )
    }
}

/// The innermost message, which people can act on: the outer ones repeat the address.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
