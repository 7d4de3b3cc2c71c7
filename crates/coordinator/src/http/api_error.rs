//! An error answer: its code, its message for people, and the members of the worker contract.
//!
//! A route returns one of these; [`super::middleware`] writes the body, because only it knows the
//! request's id and the server's time.

use std::time::Duration;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use store::{Failure, FailureKind};
use verdict::flow::{Terms, UNLIMITED};
use verdict::run::RunRefusal;
use verdict::scope_budget::Spent;
use verdict::{CHILDREN_PER_RUN, Name, Refusal, Scope};
use wire::answers::Problem;
use wire::{Code, FieldError};

use super::translate;
use crate::item::RequestError;

/// When to retry after an overload or an outage that is expected to pass, if nothing more precise is
/// known.
const RETRY_AFTER: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub struct ApiError {
    pub(crate) code: Code,
    pub(crate) message: String,
    /// Set if the code alone does not determine it.
    pub(crate) verdict: Option<wire::Verdict>,
    pub(crate) state: Option<wire::State>,
    pub(crate) attempts: Option<Attempts>,
    pub(crate) field: Option<String>,
    /// When to retry, if that is known more precisely than from the code.
    pub(crate) retry_after: Option<Duration>,
    /// The authenticated key, if there is one: for the audit, not for the answer.
    pub(crate) by: Option<Box<(Name, Scope)>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempts {
    pub(crate) expected: u32,
    pub(crate) received: u32,
}

impl ApiError {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            verdict: None,
            state: None,
            attempts: None,
            field: None,
            retry_after: None,
            by: None,
        }
    }

    #[must_use]
    pub(crate) fn by(self, key: &Name, scope: &Scope) -> Self {
        Self { by: Some(Box::new((key.clone(), scope.clone()))), ..self }
    }

    /// A run that does not exist, or belongs to another tenant: the same answer for both (X13).
    pub(crate) fn run_not_found() -> Self {
        Self::new(Code::RunNotFound, "no run has this id")
    }

    pub(crate) fn field(field: &str, message: impl Into<String>) -> Self {
        FieldError::new(field, message).into()
    }

    /// The verdict that a worker gets with this error.
    pub(crate) fn worker_verdict(&self) -> Option<wire::Verdict> {
        // A code that asks for the same call again is no verdict about it.
        if self.code.worker_may_retry() {
            return None;
        }
        self.verdict.or(self.code.verdict())
    }

    /// When to repeat the same request; `None` if that is of no use.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.code.worker_may_retry().then_some(self.retry_after.unwrap_or(RETRY_AFTER))
    }

    pub(crate) fn problem(self, request_id: String, server_time: wire::Time) -> Problem {
        let retry_after = self.retry_after();
        let Self { code, message, verdict: _, state, attempts, field, retry_after: _, by: _ } =
            self;
        Problem {
            request_id: Some(request_id),
            state: state.map(|state| state.as_str().to_uppercase()),
            expected_attempt: attempts.map(|attempts| attempts.expected),
            received_attempt: attempts.map(|attempts| attempts.received),
            retry_after_ms: retry_after.map(whole_millis),
            field,
            ..Problem::new(code, message, server_time)
        }
    }
}

/// Never zero, which would mean no pause at all.
fn whole_millis(pause: Duration) -> u64 {
    pause.as_micros().div_ceil(1_000).max(1) as u64
}

/// Attaches the error to the response; [`super::middleware`] writes the body.
impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.code.status()).expect("codes have real statuses");
        let mut response = status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<FieldError> for ApiError {
    fn from(fault: FieldError) -> Self {
        let message = fault.to_string();
        let field = Some(fault.field).filter(|field| !field.is_empty());
        Self { field, ..Self::new(Code::InvalidArgument, message) }
    }
}

impl From<RequestError> for ApiError {
    fn from(error: RequestError) -> Self {
        match &error {
            RequestError::Overloaded => Self::new(Code::Overloaded, error.to_string()),
            RequestError::ShuttingDown => Self::new(Code::ShuttingDown, error.to_string()),
            RequestError::Unavailable(outage) => Self {
                retry_after: Some(outage.retry_after),
                ..Self::new(Code::Unavailable, error.to_string())
            },
            RequestError::Unknown => Self::new(Code::UnknownOutcome, error.to_string()),
            RequestError::Defect => Self::new(Code::Internal, error.to_string()),
            RequestError::SetAside(retry_after) => Self {
                retry_after: Some(*retry_after),
                ..Self::new(Code::TaskSetAside, error.to_string())
            },
        }
    }
}

/// A read that failed. The reason goes to the operator's log, not to the client.
impl From<Failure> for ApiError {
    fn from(failure: Failure) -> Self {
        if failure.kind == FailureKind::Overloaded {
            return Self::new(Code::Overloaded, "too many reads are in progress; try again");
        }
        tracing::error!(error = &failure as &dyn std::error::Error, "a read failed");
        Self::new(Code::Unavailable, "the store could not be read")
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        let verdict = translate::worker_verdict(refusal.worker_verdict());
        Self { verdict: Some(verdict), ..from_refusal(refusal) }
    }
}

fn from_refusal(refusal: Refusal) -> ApiError {
    let with_state = |code, message: &str, state| ApiError {
        state: Some(translate::state(state)),
        ..ApiError::new(code, message)
    };
    let with_attempts = |message: String, expected, received| {
        tracing::warn!(expected, received, "refused a call for an attempt that is not current");
        ApiError {
            attempts: Some(Attempts { expected, received }),
            ..ApiError::new(Code::AttemptMismatch, message)
        }
    };
    match refusal {
        Refusal::TaskNotFound => ApiError::new(Code::TaskNotFound, "no task has this id"),
        Refusal::UnknownLease => {
            ApiError::new(Code::UnknownLease, "this lease was never granted for this task")
        }
        Refusal::WorkerMismatch => {
            ApiError::new(Code::WorkerMismatch, "the lease was granted to another workerId")
        }
        Refusal::ConflictingReport { state } => with_state(
            Code::ConflictingReport,
            "a different report for this lease is already recorded; this one changed nothing",
            state,
        ),
        Refusal::AttemptSuperseded { expected, received } => with_attempts(
            format!("attempt {received} was superseded by attempt {expected}"),
            expected,
            received,
        ),
        Refusal::AttemptUnknown { expected, received } => with_attempts(
            format!("attempt {received} was never granted; the latest is {expected}"),
            expected,
            received,
        ),
        Refusal::TaskAlreadyTerminal { state } => {
            with_state(Code::TaskAlreadyTerminal, "the task has already ended", state)
        }
        Refusal::AttemptAlreadyCompleted { state } => {
            with_state(Code::AttemptAlreadyCompleted, "this attempt was already reported", state)
        }
        Refusal::TaskExpired { state } => with_state(
            Code::TaskExpired,
            "the lease has expired or was revoked; stop working on this task",
            state,
        ),
        Refusal::KeyReused { holder } => ApiError::new(
            Code::IdempotencyKeyReused,
            format!(
                "the idempotency key belongs to {}, which was submitted with a different body",
                holder.run_name()
            ),
        ),
        Refusal::QuotaReached { quota } => ApiError::new(
            Code::QuotaReached,
            format!(
                "the tenant reached its quota of {quota} unfinished runs, with {CHILDREN_PER_RUN} unfinished children for each; wait, or raise it with `tenure limits set`"
            ),
        ),
        Refusal::FlowLimitConflict { key, in_force, asked } => ApiError::new(
            Code::FlowLimitConflict,
            format!(
                "runs that have not ended use the flow key `{key}` with {}, and this one asks for {}",
                spell_terms(in_force),
                spell_terms(asked)
            ),
        ),
        Refusal::DebounceForbidden { key } => ApiError::new(
            Code::DebounceForbidden,
            format!(
                "a run of another queue waits under the flow key `{key}`, and this API key may not replace it; use a flow key of your own queues, or leave `debounceMs` out"
            ),
        ),
        Refusal::BudgetSpent(spent) => ApiError::new(Code::BudgetSpent, spent_message(&spent)),
        Refusal::HistoryFull { state } => with_state(
            Code::HistoryFull,
            "the task reached its limit of lease renewals; report before the lease expires",
            state,
        ),
        Refusal::Run(refusal) => from_run_refusal(refusal),
        Refusal::Schedule(refusal) => refusal.into(),
        Refusal::Recovery(refusal) => refusal.into(),
        Refusal::Topology(refusal) => refusal.into(),
        Refusal::RunAlreadyTerminal { state } => {
            with_state(Code::RunAlreadyTerminal, "the run has already ended in another way", state)
        }
    }
}

/// The limit and the rate of a flow key, as an error names them.
fn spell_terms(Terms { limit, rate }: Terms) -> String {
    let limit = (limit != UNLIMITED).then(|| format!("limit {limit}"));
    let rate = rate.map(|rate| format!("{} starts per {} ms", rate.count, rate.per.millis()));
    let terms: Vec<String> = [limit, rate].into_iter().flatten().collect();
    terms.join(" and ")
}

fn spent_message(spent: &Spent) -> String {
    let Spent { is_whole_tenant, unit, limit, used, ends_at } = spent;
    let (whose, unit) = (if *is_whole_tenant { "tenant" } else { "workspace" }, unit.name());
    let until = ends_at.map_or_else(
        || "it does not begin anew".to_owned(),
        |at| format!("it begins anew at {}", super::translate::time(at)),
    );
    format!(
        "the budget of the {whose} allows {limit} {unit}, and {used} are used; {until}; raise it with `tenure budgets set`"
    )
}

fn from_run_refusal(refusal: RunRefusal) -> ApiError {
    match refusal {
        RunRefusal::ConflictingStep { key } => ApiError::new(
            Code::ConflictingStep,
            format!("`{key}` is recorded with another content; nothing of the call took effect"),
        ),
        RunRefusal::ResultTooLarge { key, bytes, max } => ApiError::new(
            Code::ResultTooLarge,
            format!(
                "`{key}` has {bytes} bytes, at most {max} are kept; store it elsewhere and send its address"
            ),
        ),
        RunRefusal::CallTooLong { what, count, max } => ApiError::new(
            Code::CallTooLong,
            format!("the call has {count} {what}, at most {max} are allowed; send several calls"),
        ),
        RunRefusal::StepsExhausted { max } => ApiError::new(
            Code::StepsExhausted,
            format!("a task may record {max} steps; continue in a new run"),
        ),
        RunRefusal::TooManyChildren { max } => ApiError::new(
            Code::TooManyChildren,
            format!("a task may have {max} live children; wait for some of them first"),
        ),
        RunRefusal::UnknownChild { key } => ApiError::new(
            Code::UnknownChild,
            format!(
                "`{key}` is no child of this task that can be awaited; start it first, and not detached"
            ),
        ),
        RunRefusal::EmptyWait { key } => {
            ApiError::new(Code::EmptyWait, format!("the wait `{key}` has no items; leave it out"))
        }
        RunRefusal::SignalsFull { max, max_bytes } => ApiError::new(
            Code::SignalsFull,
            format!(
                "the run has not taken {max} signals or {max_bytes} bytes of them; send this one later"
            ),
        ),
        RunRefusal::NotDiverged { state } => ApiError {
            state: Some(translate::state(state)),
            ..ApiError::new(Code::NotDiverged, "only a diverged run can be resumed")
        },
        RunRefusal::NotPinned { state } => ApiError {
            state: Some(translate::state(state)),
            ..ApiError::new(
                Code::NotPinned,
                "only a run that is pinned to a build can be unpinned; workers of every build may take this one",
            )
        },
        RunRefusal::BudgetInsufficient { key, unit, asked, left } => ApiError::new(
            Code::BudgetInsufficient,
            format!(
                "`{key}` asks for {asked} {}, and {left} are left; nothing of the call took effect",
                unit.name()
            ),
        ),
        RunRefusal::Approval(refusal) => refusal.into(),
        RunRefusal::TooManyApprovals { max } => ApiError::new(
            Code::CallTooLong,
            format!("the wait asks for more than {max} approvals; wait for some of them first"),
        ),
        RunRefusal::TooManyHeldKeys { key, max } => ApiError::new(
            Code::CallTooLong,
            format!(
                "`{key}` would be held for life below {max} other keys; hold it by lease, or detach the child"
            ),
        ),
        RunRefusal::Plan(_) => unreachable!("plans are checked when they are parsed"),
        RunRefusal::MessageEarly => {
            unreachable!("only messages are early, and no caller sends one")
        }
    }
}
