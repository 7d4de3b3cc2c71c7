//! Why a tool did nothing, in a form that a model can act on: a stable code, what happened, and what to do next.

use serde::Serialize;
use tenure::{Code, Error};

use super::message::without_place;
use crate::exit::CliError;
use crate::server;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Refusal {
    error: String,
    message: String,
    next: String,
    /// The argument at fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    /// The key of the call that failed: with it, a repetition happens once.
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<String>,
}

impl Refusal {
    /// The arguments are not what the tool takes.
    pub(super) fn invalid(message: impl Into<String>, next: &str) -> Refusal {
        Refusal {
            error: Code::InvalidArgument.as_str().to_owned(),
            message: message.into(),
            next: next.to_owned(),
            field: None,
            idempotency_key: None,
        }
    }

    pub(super) fn unreadable(error: &serde_json::Error) -> Refusal {
        let message = format!("the arguments do not fit: {}", without_place(error));
        Refusal::invalid(message, "correct the arguments; tools/list has their schema")
    }

    #[must_use]
    pub(super) fn with_key(self, key: &str) -> Refusal {
        Refusal { idempotency_key: Some(key.to_owned()), ..self }
    }

    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).expect("members are text")
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        let field = error.problem().and_then(|problem| problem.field.clone());
        let next = match &error {
            Error::Unreachable { .. } => Some(UNREACHABLE),
            Error::UnknownOutcome(_) => Some(UNKNOWN_OUTCOME),
            other => other.code().and_then(next),
        };
        let told = Refusal::from(server::cli_error(error));
        Refusal { field, next: next.map_or(told.next, str::to_owned), ..told }
    }
}

impl From<CliError> for Refusal {
    fn from(error: CliError) -> Refusal {
        let next = error.code.parse().ok().and_then(next);
        let next = next.map(str::to_owned).or(error.hint).unwrap_or_else(|| FURTHER.to_owned());
        let (error, message) = (error.code, error.message);
        Refusal { error, message, next, field: None, idempotency_key: None }
    }
}

const UNREACHABLE: &str = "the Tenure server cannot be reached from here: tell the person who runs it. \
    A call with the same idempotencyKey is safe to repeat";
const UNKNOWN_OUTCOME: &str =
    "repeat the call with the same idempotencyKey, which is safe, or look with list_runs";
const FURTHER: &str =
    "get_run and explain_run say how a run stands; if that does not help, ask a person";

/// What an agent can do about a refusal of the server. It has tools, and no command line.
fn next(code: Code) -> Option<&'static str> {
    Some(match code {
        Code::InvalidArgument => "correct the argument and call again",
        Code::Unauthenticated => {
            "the key is missing, wrong, expired or revoked: ask the person who set up this connection for another"
        }
        Code::Forbidden => {
            "this key may not do that: tell the person who set up this connection, and try no other way"
        }
        Code::RunNotFound | Code::TaskNotFound => "list_runs shows the runs that this key may see",
        Code::RunAlreadyTerminal => "get_run shows how it ended",
        Code::IdempotencyKeyReused => {
            "use another idempotencyKey, or exactly the arguments of the first call"
        }
        Code::QuotaReached => {
            "list_queues shows what waits; submit again when some of it has ended"
        }
        Code::BudgetSpent => "the budget of the workspace or tenant is used: ask a person",
        Code::SignalsFull => {
            "explain_run says what it waits for; send again when it has taken some"
        }
        Code::ApprovalNotFound => "inbox shows the pending ones",
        Code::ApprovalClosed | Code::AlreadyVoted => "get_approval shows what was decided",
        Code::ApprovalDigestMismatch => "read it again with get_approval, and give its digest",
        Code::ApprovalForbidden => "a person must decide this one: tell them its approvalId",
        Code::ScheduleNotFound => "list_schedules shows the existing ones",
        Code::TooManyRequests | Code::Overloaded | Code::ShuttingDown | Code::Unavailable => {
            "try again in a moment"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    #[test]
    fn every_refusal_says_what_to_do_next() {
        let bare = CliError::new(Exit::Failed, "failed", "it failed");
        assert_eq!(Refusal::from(bare.clone()).next, FURTHER);
        assert_eq!(Refusal::from(bare.clone().hint("look")).next, "look");
        let code = Code::Forbidden.as_str().into();
        let known = CliError { code, ..bare.hint("tenure keys create") };
        assert!(Refusal::from(known).next.contains("try no other way"));
    }
}
