//! The pages of `docs/errors`, so that a server can serve them itself.

use crate::Code;

macro_rules! page {
    ($name:literal) => {
        include_str!(concat!("../../../docs/errors/", $name, ".md"))
    };
}

#[rustfmt::skip]
pub(crate) const fn explanation(code: Code) -> &'static str {
    match code {
        Code::InvalidArgument => page!("invalid-argument"),
        Code::Unauthenticated => page!("unauthenticated"),
        Code::InvalidToken => page!("invalid-token"),
        Code::TokenExpired => page!("token-expired"),
        Code::Forbidden => page!("forbidden"),
        Code::TaskNotFound => page!("task-not-found"),
        Code::RunNotFound => page!("run-not-found"),
        Code::NotFound => page!("not-found"),
        Code::MethodNotAllowed => page!("method-not-allowed"),
        Code::RequestTimeout => page!("request-timeout"),
        Code::AttemptMismatch => page!("attempt-mismatch"),
        Code::TaskAlreadyTerminal => page!("task-already-terminal"),
        Code::AttemptAlreadyCompleted => page!("attempt-already-completed"),
        Code::ConflictingReport => page!("conflicting-report"),
        Code::WorkerMismatch => page!("worker-mismatch"),
        Code::RunAlreadyTerminal => page!("run-already-terminal"),
        Code::TaskExpired => page!("task-expired"),
        Code::BodyTooLarge => page!("body-too-large"),
        Code::UriTooLong => page!("uri-too-long"),
        Code::UnsupportedMediaType => page!("unsupported-media-type"),
        Code::UnknownLease => page!("unknown-lease"),
        Code::IdempotencyKeyReused => page!("idempotency-key-reused"),
        Code::TooManyRequests => page!("too-many-requests"),
        Code::HeadersTooLarge => page!("headers-too-large"),
        Code::Internal => page!("internal"),
        Code::Overloaded => page!("overloaded"),
        Code::Unavailable => page!("unavailable"),
        Code::UnknownOutcome => page!("unknown-outcome"),
        Code::ShuttingDown => page!("shutting-down"),
        Code::KeyNotFound => page!("key-not-found"),
        Code::KeyNotUsable => page!("key-not-usable"),
        Code::LastAdminKey => page!("last-admin-key"),
        Code::TooManyKeys => page!("too-many-keys"),
        Code::QuotaReached => page!("quota-reached"),
        Code::BudgetSpent => page!("budget-spent"),
        Code::HistoryFull => page!("history-full"),
        Code::TaskSetAside => page!("task-set-aside"),
        Code::ReleaseUnsupported => page!("release-unsupported"),
        Code::RunNotRetryable => page!("run-not-retryable"),
        Code::RunNotForkable => page!("run-not-forkable"),
        Code::ConflictingStep => page!("conflicting-step"),
        Code::ResultTooLarge => page!("result-too-large"),
        Code::CallTooLong => page!("call-too-long"),
        Code::StepsExhausted => page!("steps-exhausted"),
        Code::BudgetInsufficient => page!("budget-insufficient"),
        Code::FlowLimitConflict => page!("flow-limit-conflict"),
        Code::TooManyChildren => page!("too-many-children"),
        Code::UnknownChild => page!("unknown-child"),
        Code::EmptyWait => page!("empty-wait"),
        Code::SignalsFull => page!("signals-full"),
        Code::NotDiverged => page!("not-diverged"),
        Code::RunsUnsupported => page!("runs-unsupported"),
        Code::ApprovalNotFound => page!("approval-not-found"),
        Code::ApprovalClosed => page!("approval-closed"),
        Code::ApprovalDigestMismatch => page!("approval-digest-mismatch"),
        Code::AlreadyVoted => page!("already-voted"),
        Code::ApprovalForbidden => page!("approval-forbidden"),
        Code::EndpointNotFound => page!("endpoint-not-found"),
        Code::EndpointExists => page!("endpoint-exists"),
        Code::EffectNotFound => page!("effect-not-found"),
        Code::EffectStateMismatch => page!("effect-state-mismatch"),
        Code::ScheduleNotFound => page!("schedule-not-found"),
        Code::ScheduleExists => page!("schedule-exists"),
    }
}
