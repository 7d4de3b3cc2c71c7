//! Every stable error code: its status, its title and the verdict that a worker reads from it.
//!
//! Codes are never renamed and never change status. Each has a page in `docs/errors/`.

use std::fmt;
use std::str::FromStr;

use crate::answers::Problem;
use crate::{Time, Verdict};

/// Why a request was not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    InvalidArgument,
    Unauthenticated,
    InvalidToken,
    TokenExpired,
    Forbidden,
    TaskNotFound,
    RunNotFound,
    NotFound,
    MethodNotAllowed,
    RequestTimeout,
    AttemptMismatch,
    TaskAlreadyTerminal,
    AttemptAlreadyCompleted,
    ConflictingReport,
    WorkerMismatch,
    RunAlreadyTerminal,
    TaskExpired,
    BodyTooLarge,
    UriTooLong,
    UnsupportedMediaType,
    UnknownLease,
    IdempotencyKeyReused,
    TooManyRequests,
    HeadersTooLarge,
    Internal,
    Overloaded,
    Unavailable,
    UnknownOutcome,
    ShuttingDown,
    KeyNotFound,
    KeyNotUsable,
    LastAdminKey,
    TooManyKeys,
    QuotaReached,
    BudgetSpent,
    HistoryFull,
    TaskSetAside,
    RunNotRetryable,
    RunNotForkable,
    /// A retry would do again what the run has recorded.
    RunHasRecords,
    ConflictingStep,
    ResultTooLarge,
    CallTooLong,
    StepsExhausted,
    TooManyChildren,
    /// A child asks for more than its parent's budget has left.
    BudgetInsufficient,
    /// The flow key is in use with another limit or rate.
    FlowLimitConflict,
    /// The submission would replace a waiting run of a queue that its API key may not use.
    DebounceForbidden,
    UnknownChild,
    EmptyWait,
    SignalsFull,
    NotDiverged,
    NotPinned,
    ApprovalNotFound,
    ApprovalClosed,
    ApprovalDigestMismatch,
    AlreadyVoted,
    ApprovalForbidden,
    EndpointNotFound,
    EndpointExists,
    EffectNotFound,
    /// The effect is in a state in which this cannot be asked for.
    EffectStateMismatch,
    ScheduleNotFound,
    ScheduleExists,
    RecoveryNotFound,
    RecoveryClosed,
    RecoveryOutOfScope,
    DeploymentNotFound,
    DeploymentConflict,
    ArtifactNotFound,
    ArtifactExists,
    ArtifactChanged,
    TransitionNotAllowed,
    RoleNotFound,
    RoleNotOutside,
    /// The console's cookie or page token is missing, or does not count any more.
    SessionRequired,
    ConsoleCodeInvalid,
    /// The call came from another page than the console's own.
    ForeignPage,
    TooManySessions,
}

/// Verdicts for lost authority and for an invalid call. A code for which nothing was decided has no
/// verdict, nor has a code that only clients receive.
const CANCELLED: Option<Verdict> = Some(Verdict::Cancelled);
const REJECTED: Option<Verdict> = Some(Verdict::Rejected);

type Row = (&'static str, u16, Option<Verdict>, &'static str);

#[rustfmt::skip]
const fn row(code: Code) -> Row {
    match code {
        Code::InvalidArgument         => ("invalid_argument",          400, REJECTED,  "The request is malformed or out of range"),
        Code::Unauthenticated         => ("unauthenticated",           401, REJECTED,  "The API key is missing or unknown"),
        Code::InvalidToken            => ("invalid_token",             401, REJECTED,  "The task token is not valid for this call"),
        Code::TokenExpired            => ("token_expired",             401, REJECTED,  "The task token has expired"),
        Code::Forbidden               => ("forbidden",                 403, REJECTED,  "The API key has no permission for this call"),
        Code::TaskNotFound            => ("task_not_found",            404, REJECTED,  "The task does not exist"),
        Code::RunNotFound             => ("run_not_found",             404, None,      "The run does not exist"),
        Code::NotFound                => ("not_found",                 404, REJECTED,  "Nothing exists at this path"),
        Code::MethodNotAllowed        => ("method_not_allowed",        405, REJECTED,  "The path does not support this method"),
        Code::RequestTimeout          => ("request_timeout",           408, REJECTED,  "The request did not arrive in time"),
        Code::AttemptMismatch         => ("attempt_mismatch",          409, CANCELLED, "Another attempt is current"),
        Code::TaskAlreadyTerminal     => ("task_already_terminal",     409, CANCELLED, "The task has already ended"),
        Code::AttemptAlreadyCompleted => ("attempt_already_completed", 409, CANCELLED, "The attempt has already been reported"),
        Code::ConflictingReport       => ("conflicting_report",        409, REJECTED,  "A different report is already recorded for this lease"),
        Code::WorkerMismatch          => ("worker_mismatch",           409, REJECTED,  "The lease belongs to another worker"),
        Code::RunAlreadyTerminal      => ("run_already_terminal",      409, None,      "The run has already ended"),
        Code::TaskExpired             => ("task_expired",              410, CANCELLED, "The lease has expired or was revoked"),
        Code::BodyTooLarge            => ("body_too_large",            413, REJECTED,  "The body is too large"),
        Code::UriTooLong              => ("uri_too_long",              414, REJECTED,  "The path or query is too long"),
        Code::UnsupportedMediaType    => ("unsupported_media_type",    415, REJECTED,  "The body is not plain JSON"),
        Code::UnknownLease            => ("unknown_lease",             422, REJECTED,  "The lease was never granted for this task"),
        Code::IdempotencyKeyReused    => ("idempotency_key_reused",    422, None,      "The idempotency key was used with a different body"),
        Code::TooManyRequests         => ("too_many_requests",         429, None,      "Too many requests"),
        Code::HeadersTooLarge         => ("headers_too_large",         431, REJECTED,  "The headers are too large or too many"),
        Code::Internal                => ("internal",                  500, REJECTED,  "Internal error of the coordinator; nothing was changed"),
        Code::Overloaded              => ("overloaded",                503, None,      "The coordinator is overloaded"),
        Code::Unavailable             => ("unavailable",               503, None,      "The store cannot take the request now; nothing was changed"),
        Code::UnknownOutcome          => ("unknown_outcome",           503, None,      "It is unknown whether the call took effect"),
        Code::ShuttingDown            => ("shutting_down",             503, None,      "The coordinator is shutting down"),
        Code::KeyNotFound             => ("key_not_found",             404, None,      "The API key does not exist"),
        Code::KeyNotUsable            => ("key_not_usable",            409, None,      "The API key is revoked or has expired"),
        Code::LastAdminKey            => ("last_admin_key",            409, None,      "The last admin key cannot be revoked"),
        Code::TooManyKeys             => ("too_many_keys",             409, None,      "The tenant reached its limit of API keys"),
        Code::QuotaReached            => ("quota_reached",             429, None,      "The tenant reached its quota of unfinished runs"),
        Code::BudgetSpent             => ("budget_spent",              409, REJECTED,  "The budget of the workspace or tenant is used up"),
        Code::HistoryFull             => ("history_full",              409, REJECTED,  "The task reached its limit of lease renewals"),
        Code::TaskSetAside            => ("task_set_aside",            503, None,      "The task is set aside; it cannot be read, decided or stored"),
        Code::RunNotRetryable         => ("run_not_retryable",         409, None,      "The run has not ended, or succeeded"),
        Code::RunNotForkable          => ("run_not_forkable",          409, None,      "The run cannot be continued from its recorded steps"),
        Code::RunHasRecords           => ("run_has_records",           409, None,      "A retry would do again what the run has recorded"),
        Code::ConflictingStep         => ("conflicting_step",         409, REJECTED,  "The key of a step, child or wait means something else already"),
        Code::ResultTooLarge          => ("result_too_large",         422, REJECTED,  "A result or payload is larger than one may be"),
        Code::CallTooLong             => ("call_too_long",            422, REJECTED,  "The call has more items than one call may have"),
        Code::StepsExhausted          => ("steps_exhausted",          409, REJECTED,  "The task has recorded as many steps as one task may"),
        Code::BudgetInsufficient      => ("budget_insufficient",      409, REJECTED,  "A child asks for more than its parent's budget has left"),
        Code::FlowLimitConflict       => ("flow_limit_conflict",      409, REJECTED,  "The flow key is in use with another limit or rate"),
        Code::DebounceForbidden       => ("debounce_forbidden",       403, None,      "The run that the submission would replace is not this key's to replace"),
        Code::TooManyChildren         => ("too_many_children",        409, REJECTED,  "The task has as many live children as one task may"),
        Code::UnknownChild            => ("unknown_child",            422, REJECTED,  "The wait names a child that cannot be awaited"),
        Code::EmptyWait               => ("empty_wait",               422, REJECTED,  "The wait has no items"),
        Code::SignalsFull             => ("signals_full",             409, None,      "The run has not taken the signals that it has"),
        Code::NotDiverged             => ("not_diverged",             409, None,      "The run is not diverged"),
        Code::NotPinned               => ("not_pinned",               409, None,      "The run is not pinned to a build"),
        Code::ApprovalNotFound        => ("approval_not_found",        404, None,      "The approval does not exist"),
        Code::ApprovalClosed          => ("approval_closed",           409, None,      "The approval is closed"),
        Code::ApprovalDigestMismatch  => ("approval_digest_mismatch",  409, None,      "What is to be approved is not what the caller saw"),
        Code::AlreadyVoted            => ("already_voted",             409, None,      "The key has decided about this approval before"),
        Code::ApprovalForbidden       => ("approval_forbidden",        403, None,      "The key may not decide this approval"),
        Code::EndpointNotFound        => ("endpoint_not_found",        404, None,      "The endpoint does not exist"),
        Code::EndpointExists          => ("endpoint_exists",           409, None,      "The name of the endpoint is taken"),
        Code::EffectNotFound          => ("effect_not_found",          404, None,      "The effect does not exist"),
        Code::EffectStateMismatch     => ("effect_state_mismatch",     409, None,      "The state of the effect does not allow this"),
        Code::ScheduleNotFound        => ("schedule_not_found",        404, None,      "The schedule does not exist"),
        Code::ScheduleExists          => ("schedule_exists",           409, None,      "Another schedule has this name"),
        Code::RecoveryNotFound        => ("recovery_not_found",        404, None,      "The recovery policy or candidate does not exist"),
        Code::RecoveryClosed          => ("recovery_closed",           409, None,      "The recovery candidate is not open"),
        Code::RecoveryOutOfScope      => ("recovery_out_of_scope",     409, REJECTED,  "The recovery policy does not allow the action"),
        Code::DeploymentNotFound      => ("deployment_not_found",      404, None,      "The deployment does not exist"),
        Code::DeploymentConflict      => ("deployment_conflict",       409, None,      "What the deployment has stands in the way"),
        Code::ArtifactNotFound        => ("artifact_not_found",        404, None,      "The artifact does not exist"),
        Code::ArtifactExists          => ("artifact_exists",           409, None,      "Another artifact has this id"),
        Code::ArtifactChanged         => ("artifact_changed",          409, None,      "The artifact has changed since it was read"),
        Code::TransitionNotAllowed    => ("transition_not_allowed",    409, None,      "The topology does not allow this change"),
        Code::RoleNotFound            => ("role_not_found",            404, None,      "The deployment has no role with this name"),
        Code::RoleNotOutside          => ("role_not_outside",          409, None,      "The server takes the turns of this role itself"),
        Code::SessionRequired         => ("session_required",          401, None,      "There is no session of the console, or it has ended"),
        Code::ConsoleCodeInvalid      => ("console_code_invalid",      401, None,      "The one-time code was used, has expired or is unknown"),
        Code::ForeignPage             => ("foreign_page",              403, None,      "The call did not come from a page of this console"),
        Code::TooManySessions         => ("too_many_sessions",         429, None,      "The tenant has as many sessions of the console as it may"),
    }
}

impl Code {
    #[rustfmt::skip]
    pub const ALL: &'static [Code] = &[
        Code::InvalidArgument, Code::Unauthenticated, Code::InvalidToken, Code::TokenExpired, Code::Forbidden,
        Code::TaskNotFound, Code::RunNotFound, Code::NotFound, Code::MethodNotAllowed, Code::RequestTimeout,
        Code::AttemptMismatch, Code::TaskAlreadyTerminal, Code::AttemptAlreadyCompleted, Code::ConflictingReport,
        Code::WorkerMismatch, Code::RunAlreadyTerminal, Code::TaskExpired, Code::BodyTooLarge, Code::UriTooLong,
        Code::UnsupportedMediaType, Code::UnknownLease, Code::IdempotencyKeyReused, Code::TooManyRequests,
        Code::HeadersTooLarge, Code::Internal, Code::Overloaded, Code::Unavailable, Code::UnknownOutcome,
        Code::ShuttingDown, Code::KeyNotFound, Code::KeyNotUsable, Code::LastAdminKey, Code::TooManyKeys,
        Code::QuotaReached, Code::BudgetSpent, Code::HistoryFull, Code::TaskSetAside,
        Code::RunNotRetryable, Code::RunNotForkable, Code::RunHasRecords, Code::ConflictingStep, Code::ResultTooLarge, Code::CallTooLong, Code::StepsExhausted, Code::TooManyChildren, Code::BudgetInsufficient, Code::FlowLimitConflict, Code::DebounceForbidden,
        Code::UnknownChild, Code::EmptyWait, Code::SignalsFull, Code::NotDiverged, Code::NotPinned,
        Code::ApprovalNotFound, Code::ApprovalClosed, Code::ApprovalDigestMismatch, Code::AlreadyVoted, Code::ApprovalForbidden,
        Code::EndpointNotFound, Code::EndpointExists, Code::EffectNotFound, Code::EffectStateMismatch,
        Code::ScheduleNotFound, Code::ScheduleExists,
        Code::RecoveryNotFound, Code::RecoveryClosed, Code::RecoveryOutOfScope,
        Code::DeploymentNotFound, Code::DeploymentConflict, Code::ArtifactNotFound, Code::ArtifactExists,
        Code::ArtifactChanged, Code::TransitionNotAllowed, Code::RoleNotFound, Code::RoleNotOutside,
        Code::SessionRequired, Code::ConsoleCodeInvalid, Code::ForeignPage, Code::TooManySessions,
    ];

    pub const fn as_str(self) -> &'static str {
        row(self).0
    }

    pub const fn status(self) -> u16 {
        row(self).1
    }

    /// The verdict that a worker reads from this code. A call that claims an attempt not yet
    /// granted also gets `attempt_mismatch`, but with REJECTED; the code that calls
    /// [`Problem::verdict`] sets it.
    pub const fn verdict(self) -> Option<Verdict> {
        row(self).2
    }

    pub const fn title(self) -> &'static str {
        row(self).3
    }

    /// A worker repeats a call only where nothing was decided: no answer at all, 429, 503.
    pub const fn worker_may_retry(self) -> bool {
        matches!(self.status(), 429 | 503)
    }

    /// The name of the page about this code, without its extension.
    pub fn page(self) -> String {
        self.as_str().replace('_', "-")
    }

    /// The `type` member of a problem: where the server that sent it explains it.
    pub fn type_uri(self) -> String {
        format!("/errors/{}", self.page())
    }

    /// The code with a page of this name.
    pub fn of_page(page: &str) -> Option<Code> {
        Code::ALL.iter().copied().find(|code| code.page() == page)
    }

    /// The page about this code, in Markdown: what happened, why, and what to do next.
    #[cfg(feature = "answering")]
    pub const fn explanation(self) -> &'static str {
        crate::pages::explanation(self)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A code that this version does not know; a newer server may have sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownCode;

impl fmt::Display for UnknownCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an error code this version does not know")
    }
}

impl std::error::Error for UnknownCode {}

impl FromStr for Code {
    type Err = UnknownCode;

    fn from_str(text: &str) -> Result<Code, UnknownCode> {
        Code::ALL.iter().copied().find(|code| code.as_str() == text).ok_or(UnknownCode)
    }
}

impl Problem {
    /// A problem as a client reads it; [`Problem::for_worker`] adds what a worker needs.
    pub fn new(code: Code, message: impl Into<String>, server_time: Time) -> Problem {
        let message = message.into();
        Problem {
            type_uri: code.type_uri(),
            title: code.title().to_owned(),
            status: code.status(),
            detail: message.clone(),
            instance: None,
            error: code.as_str().to_owned(),
            message,
            request_id: None,
            verdict: None,
            state: None,
            expected_attempt: None,
            received_attempt: None,
            retry_after_ms: None,
            field: None,
            server_time,
        }
    }

    /// Adds the code's verdict, which every answer to started, heartbeat and completed must have.
    pub fn for_worker(mut self) -> Problem {
        if self.verdict.is_none() {
            self.verdict = self.code().and_then(Code::verdict);
        }
        self
    }

    /// The code, unless a newer server introduced it.
    pub fn code(&self) -> Option<Code> {
        self.error.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn every_code_is_listed_once_and_reads_back() {
        let names: BTreeSet<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(names.len(), Code::ALL.len());
        for code in Code::ALL {
            assert_eq!(code.as_str().parse(), Ok(*code));
        }
        assert_eq!("made_up".parse::<Code>(), Err(UnknownCode));
    }

    #[test]
    fn statuses_and_verdicts_are_those_of_the_answer_table() {
        // S4-17, S4-24, S4-32, S3-12, R-8: the codes the worker contract names keep status and verdict.
        let table = [
            ("task_already_terminal", 409, CANCELLED),
            ("task_expired", 410, CANCELLED),
            ("attempt_mismatch", 409, CANCELLED),
            ("attempt_already_completed", 409, CANCELLED),
            ("conflicting_report", 409, REJECTED),
            ("unknown_lease", 422, REJECTED),
            ("task_not_found", 404, REJECTED),
            ("invalid_argument", 400, REJECTED),
            ("invalid_token", 401, REJECTED),
            ("unavailable", 503, None),
        ];
        for (name, status, verdict) in table {
            let code: Code = name.parse().unwrap();
            assert_eq!((code.status(), code.verdict()), (status, verdict), "{name}");
        }
    }

    #[test]
    fn a_worker_may_retry_exactly_where_there_is_no_verdict() {
        let client_only = [
            Code::RunNotFound,
            Code::RunAlreadyTerminal,
            Code::IdempotencyKeyReused,
            Code::KeyNotFound,
            Code::KeyNotUsable,
            Code::LastAdminKey,
            Code::TooManyKeys,
            Code::RunNotRetryable,
            Code::RunNotForkable,
            Code::RunHasRecords,
            Code::DebounceForbidden,
            Code::SignalsFull,
            Code::NotDiverged,
            Code::NotPinned,
            Code::ApprovalNotFound,
            Code::ApprovalClosed,
            Code::ApprovalDigestMismatch,
            Code::AlreadyVoted,
            Code::ApprovalForbidden,
            Code::EndpointNotFound,
            Code::EndpointExists,
            Code::EffectNotFound,
            Code::EffectStateMismatch,
            Code::ScheduleNotFound,
            Code::ScheduleExists,
            Code::RecoveryNotFound,
            Code::RecoveryClosed,
            Code::DeploymentNotFound,
            Code::DeploymentConflict,
            Code::ArtifactNotFound,
            Code::ArtifactExists,
            Code::ArtifactChanged,
            Code::TransitionNotAllowed,
            Code::RoleNotFound,
            Code::RoleNotOutside,
            Code::SessionRequired,
            Code::ConsoleCodeInvalid,
            Code::ForeignPage,
        ];
        for code in Code::ALL.iter().filter(|code| !client_only.contains(code)) {
            assert_eq!(code.worker_may_retry(), code.verdict().is_none(), "{code}");
            assert!(!code.worker_may_retry() || matches!(code.status(), 429 | 503), "{code}");
        }
    }

    #[test]
    fn a_problem_satisfies_both_conventions() {
        // S4-17: `error`, `state` and `message` stand beside the members of problem+json.
        let mut problem =
            Problem::new(Code::TaskAlreadyTerminal, "it ended", Time::MIN).for_worker();
        problem.state = Some("CANCELLED".to_owned());
        let json = serde_json::to_value(&problem).unwrap();
        assert_eq!(json["error"], "task_already_terminal");
        assert_eq!(json["message"], json["detail"]);
        assert_eq!(json["status"], 409);
        assert_eq!(json["verdict"], "CANCELLED");
        assert_eq!(json["state"], "CANCELLED");
        assert!(json["type"] == "/errors/task-already-terminal");
    }

    #[test]
    fn every_code_has_a_page_and_every_page_a_code() {
        let pages = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors");
        let expected: BTreeSet<String> = Code::ALL.iter().map(|code| code.page()).collect();
        let mut found = BTreeSet::new();
        for entry in std::fs::read_dir(&pages).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let page = name.strip_suffix(".md").unwrap_or(&name).to_owned();
            // The command line has its own codes, and tests for their pages.
            if page != "README" && page != "cli" {
                found.insert(page);
            }
        }
        assert_eq!(found, expected);
        let index = std::fs::read_to_string(pages.join("README.md")).unwrap();
        for code in Code::ALL {
            let page = std::fs::read_to_string(pages.join(format!("{}.md", code.page()))).unwrap();
            let status = format!("Status {}", code.status());
            assert!(page.starts_with(&format!("# {code}\n")), "title of the page of {code}");
            assert!(page.contains(&status), "{status} on the page of {code}");
            assert!(index.contains(&format!("({}.md)", code.page())), "{code} in the index");
        }
    }
}
