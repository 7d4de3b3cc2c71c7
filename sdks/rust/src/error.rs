//! What can go wrong between a program and a coordinator, in words that say what to do next.
//!
//! A refusal of the coordinator ([`Error::Refused`]) is an answer; everything else is the lack of one.

use std::time::Duration;

use wire::answers::Problem;
use wire::{Code, Verdict};

use crate::run_failure::RunFailure;

/// Why a call has no answer to give.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The coordinator decided against the call.
    #[error("{}", refusal(.0))]
    Refused(Box<Problem>),

    /// The coordinator accepted a batch of runs and decided against this one of them.
    #[error("{error}: {message}{}", in_member(field.as_deref()))]
    #[non_exhaustive]
    RunRefused { error: String, message: String, field: Option<String> },

    /// The run whose output was asked for did not succeed.
    #[error("{0}")]
    RunFailed(Box<RunFailure>),

    /// The run succeeded, and its output is not of the type that was asked for.
    #[error("the output of {run_id} is not of the type it was read as")]
    #[non_exhaustive]
    Output { run_id: String, source: serde_json::Error },

    /// No server answered, in all the tries that [`crate::Retries`] allows.
    #[error("{}", no_response(url, source))]
    #[non_exhaustive]
    Unreachable { url: String, source: reqwest::Error },

    /// The coordinator itself does not know whether the call took effect.
    #[error(
        "it is unknown whether the call took effect ({}); look at the run, or repeat the call with \
         the same idempotency key",
        .0.message
    )]
    UnknownOutcome(Box<Problem>),

    /// An answer arrived, but not one that a coordinator of this version gives.
    #[error(
        "{url} did not answer like a Tenure server ({why}); check that the address is a coordinator"
    )]
    #[non_exhaustive]
    Protocol { url: String, status: u16, why: String },

    /// The call could not be made at all: an address, key or body that cannot be sent.
    #[error("{0}")]
    Setup(String),
}

impl Error {
    /// The stable code of a refusal; absent without one, or when a newer server made it up.
    pub fn code(&self) -> Option<Code> {
        match self {
            Error::RunRefused { error, .. } => error.parse().ok(),
            _ => self.problem().and_then(Problem::code),
        }
    }

    /// What happened, without a hint: the coordinator's words where it gave an answer.
    pub fn message(&self) -> String {
        match self {
            Error::Refused(problem) | Error::UnknownOutcome(problem) => problem.message.clone(),
            Error::RunRefused { message, .. } => message.clone(),
            Error::RunFailed(failure) => failure.message.clone(),
            other => other.to_string(),
        }
    }

    /// When the coordinator wants to be asked again, where it said so.
    pub fn retry_after(&self) -> Option<Duration> {
        self.problem()?.retry_after_ms.map(Duration::from_millis)
    }

    /// How the run ended that did not succeed.
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
            Error::RunRefused { .. } => self.code().map(Code::status),
            Error::RunFailed(_)
            | Error::Output { .. }
            | Error::Unreachable { .. }
            | Error::Setup(_) => None,
        }
    }

    /// What a worker must obey; absent where nothing was decided.
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

    /// Nothing was decided, so that the same call may be made again: no answer, 429, 503.
    pub fn is_retryable(&self) -> bool {
        match self {
            Error::Unreachable { .. } | Error::UnknownOutcome(_) => true,
            Error::Setup(_) | Error::RunFailed(_) | Error::Output { .. } => false,
            Error::Refused(_) | Error::RunRefused { .. } | Error::Protocol { .. } => {
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

fn no_response(url: &str, source: &reqwest::Error) -> String {
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

/// The message people can act on: outer ones repeat the address.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
