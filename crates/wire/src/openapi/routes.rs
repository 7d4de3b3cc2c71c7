//! The routes, in reading order: clients, workers, everyone.

use utoipa::IntoParams;
use utoipa::openapi::Required;
use utoipa::openapi::path::{Parameter, ParameterIn};

use super::{Caller, HttpMethod, text_parameter};
use crate::Code;
use crate::admin::{AuditQuery, ListKeys};
use crate::requests::{
    GetRun, HistoryQuery, ListRuns, ListWorkers, LogsQuery, RecordQuery, RecordsQuery, WaitMs,
};

pub(super) struct Route {
    pub(super) method: HttpMethod,
    pub(super) path: &'static str,
    pub(super) id: &'static str,
    pub(super) tag: &'static str,
    pub(super) summary: &'static str,
    pub(super) caller: Caller,
    /// Parameters other than those in the path.
    pub(super) parameters: fn() -> Vec<Parameter>,
    pub(super) body: Option<Body>,
    pub(super) answers: &'static [(u16, &'static str, Body)],
    pub(super) codes: &'static [Code],
}

#[derive(Clone, Copy)]
pub(super) enum Body {
    Json(&'static str),
    /// The body is optional.
    JsonOrEmpty(&'static str),
    OneOf(&'static str, &'static str),
    /// JSON, or one event per entry if the caller accepts server-sent events.
    JsonOrEvents(&'static str, &'static str),
    Text,
    /// The text format that Prometheus scrapes.
    Metrics,
    AnyObject,
}

impl Body {
    pub(super) fn may_be_empty(self) -> bool {
        matches!(self, Body::JsonOrEmpty(_))
    }
}

/// The codes that any route with an API key may return.
macro_rules! with_key_codes {
    ($($code:ident),*) => {
        &[
            Code::InvalidArgument, Code::Unauthenticated, Code::Forbidden, Code::RequestTimeout,
            Code::UriTooLong, Code::HeadersTooLarge, Code::TooManyRequests, Code::Internal,
            Code::Overloaded, Code::Unavailable, Code::ShuttingDown, $(Code::$code),*
        ]
    };
}

/// The codes that any call about one attempt may return.
macro_rules! with_task_codes {
    ($($code:ident),*) => {
        &[
            Code::InvalidArgument, Code::InvalidToken, Code::TokenExpired, Code::TaskNotFound,
            Code::RequestTimeout, Code::AttemptMismatch, Code::TaskAlreadyTerminal, Code::WorkerMismatch,
            Code::TaskExpired, Code::BodyTooLarge, Code::UriTooLong, Code::UnsupportedMediaType,
            Code::UnknownLease, Code::TooManyRequests, Code::HeadersTooLarge, Code::Internal,
            Code::Overloaded, Code::Unavailable, Code::UnknownOutcome, Code::ShuttingDown,
            Code::TaskSetAside, $(Code::$code),*
        ]
    };
}

/// The codes that any call with steps or children may return.
macro_rules! with_checkpoint_codes {
    ($($code:ident),*) => {
        with_task_codes![
            ConflictingStep, ResultTooLarge, CallTooLong, StepsExhausted, TooManyChildren, BudgetInsufficient, HistoryFull,
            QuotaReached, BudgetSpent $(, $code)*
        ]
    };
}

fn no_parameters() -> Vec<Parameter> {
    Vec::new()
}

fn query<T: IntoParams>() -> Vec<Parameter> {
    T::into_params(|| Some(ParameterIn::Query))
}

fn idempotency_key() -> Vec<Parameter> {
    let description = "1 to 255 printable characters; the same key with the same body is answered as \
                       before, until 24 h after the run has ended.";
    vec![text_parameter("Idempotency-Key", ParameterIn::Header, Required::False, Some(description))]
}

fn submitting() -> Vec<Parameter> {
    [idempotency_key(), query::<WaitMs>()].concat()
}

fn signal_key() -> Vec<Parameter> {
    let description = "1 to 255 printable characters; the same key with the same signal records it once, for the \
                       life of the run.";
    vec![text_parameter("Idempotency-Key", ParameterIn::Header, Required::False, Some(description))]
}

pub(super) mod approvals;
pub(super) mod effects;
pub(super) mod flow;
pub(super) mod kinds;
pub(super) mod links;
pub(super) mod recovery;
pub(super) mod schedules;
pub(super) mod session;
pub(super) mod topologies;

pub(super) const ROUTES: &[Route] = &[
    Route {
        method: HttpMethod::Post,
        path: "/v1/runs",
        id: "submitRuns",
        tag: "runs",
        summary: "Submit one run, or many under `runs`; with `waitMs`, wait for the end of the one",
        caller: Caller::ApiKey,
        parameters: submitting,
        body: Some(Body::OneOf("SubmitRun", "SubmitMany")),
        answers: &[
            (201, "The run was accepted.", Body::Json("RunAccepted")),
            (
                200,
                "The run was accepted before under this key; or the results of a batch, in its order.",
                Body::OneOf("RunAccepted", "SubmitResults"),
            ),
        ],
        codes: with_key_codes![
            BodyTooLarge,
            UnsupportedMediaType,
            IdempotencyKeyReused,
            FlowLimitConflict,
            DebounceForbidden,
            QuotaReached,
            BudgetSpent,
            UnknownOutcome
        ],
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/runs",
        id: "listRuns",
        tag: "runs",
        summary: "List runs, newest first",
        caller: Caller::ApiKey,
        parameters: query::<ListRuns>,
        body: None,
        answers: &[(200, "A page of runs.", Body::Json("RunList"))],
        codes: with_key_codes![],
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/runs/{runId}",
        id: "getRun",
        tag: "runs",
        summary: "Show a run; with `waitMs`, wait for its end; with `tree`, with its descendants",
        caller: Caller::ApiKey,
        parameters: query::<GetRun>,
        body: None,
        answers: &[(200, "The run as it is now.", Body::Json("Run"))],
        codes: with_key_codes![RunNotFound],
    },
    Route {
        method: HttpMethod::Post,
        path: "/v1/runs/{runId}/cancel",
        id: "cancelRun",
        tag: "runs",
        summary: "Ask a run to stop, or stop it by force",
        caller: Caller::ApiKey,
        parameters: no_parameters,
        body: Some(Body::JsonOrEmpty("CancelRun")),
        answers: &[(202, "The cancel is recorded.", Body::Json("CancelAccepted"))],
        codes: with_key_codes![
            RunNotFound,
            RunAlreadyTerminal,
            BodyTooLarge,
            UnsupportedMediaType,
            UnknownOutcome,
            TaskSetAside
        ],
    },
    Route {
        method: HttpMethod::Post,
        path: "/v1/runs/{runId}/retry",
        id: "retryRun",
        tag: "runs",
        summary: "Submit a run that did not succeed once more, as a new run with the same settings",
        caller: Caller::ApiKey,
        parameters: idempotency_key,
        body: Some(Body::JsonOrEmpty("RetryRun")),
        answers: &[
            (201, "The new run was accepted.", Body::Json("RunAccepted")),
            (200, "The new run was accepted before under this key.", Body::Json("RunAccepted")),
        ],
        codes: with_key_codes![
            RunNotFound,
            RunNotRetryable,
            RunHasRecords,
            BodyTooLarge,
            UnsupportedMediaType,
            IdempotencyKeyReused,
            QuotaReached,
            BudgetSpent,
            UnknownOutcome
        ],
    },
    Route {
        method: HttpMethod::Post,
        path: "/v1/runs/{runId}/fork",
        id: "forkRun",
        tag: "runs",
        summary: "Continue a run that ended without success from its recorded steps, as a new run",
        caller: Caller::ApiKey,
        parameters: idempotency_key,
        body: Some(Body::JsonOrEmpty("ForkRun")),
        answers: &[
            (201, "The new run was accepted.", Body::Json("RunAccepted")),
            (200, "The new run was accepted before under this key.", Body::Json("RunAccepted")),
        ],
        codes: with_key_codes![
            RunNotFound,
            RunNotForkable,
            BudgetInsufficient,
            BodyTooLarge,
            UnsupportedMediaType,
            IdempotencyKeyReused,
            QuotaReached,
            BudgetSpent,
            UnknownOutcome
        ],
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/runs/{runId}/history",
        id: "getHistory",
        tag: "runs",
        summary: "List the decisions about a run, in order; also as server-sent events",
        caller: Caller::ApiKey,
        parameters: query::<HistoryQuery>,
        body: None,
        answers: &[(200, "Decisions.", Body::JsonOrEvents("History", "HistoryEntry"))],
        codes: with_key_codes![RunNotFound],
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/runs/{runId}/logs",
        id: "getLogs",
        tag: "runs",
        summary: "List the lines that workers logged about a run, oldest first",
        caller: Caller::ApiKey,
        parameters: query::<LogsQuery>,
        body: None,
        answers: &[(200, "A page of lines.", Body::Json("Logs"))],
        codes: with_key_codes![RunNotFound],
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/runs/{runId}/record",
        id: "getRecord",
        tag: "runs",
        summary: "Show the record of an ended run",
        caller: Caller::ApiKey,
        parameters: query::<RecordQuery>,
        body: None,
        answers: &[(200, "The record.", Body::Json("Record"))],
        codes: with_key_codes![RunNotFound],
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/runs/{runId}/explain",
        id: "explainRun",
        tag: "runs",
        summary: "Explain why a run is not running or has not ended",
        caller: Caller::ApiKey,
        parameters: no_parameters,
        body: None,
        answers: &[(200, "Every gate, the most pressing first.", Body::Json("Explanation"))],
        codes: with_key_codes![RunNotFound],
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/runs/{runId}/steps",
        id: "listSteps",
        tag: "runs",
        summary: "List what a durable run has recorded, in order",
        caller: Caller::ApiKey,
        parameters: query::<RecordsQuery>,
        body: None,
        answers: &[(200, "A page of checkpoints.", Body::Json("Steps"))],
        codes: with_key_codes![RunNotFound],
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/runs/{runId}/plan",
        id: "listPlanSteps",
        tag: "runs",
        summary: "List the steps of a run's plan with `dependsOn`, and what became of each",
        caller: Caller::ApiKey,
        parameters: query::<RecordsQuery>,
        body: None,
        answers: &[(200, "A page of steps.", Body::Json("PlanSteps"))],
        codes: with_key_codes![RunNotFound],
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/runs/{runId}/children",
        id: "listChildren",
        tag: "runs",
        summary: "List the tasks that a run has started, in order",
        caller: Caller::ApiKey,
        parameters: query::<RecordsQuery>,
        body: None,
        answers: &[(200, "A page of children.", Body::Json("Children"))],
        codes: with_key_codes![RunNotFound],
    },
    Route {
        method: HttpMethod::Post,
        path: "/v1/runs/{runId}/signals",
        id: "sendSignal",
        tag: "runs",
        summary: "Send a value to a run by name; it is kept until the run takes it",
        caller: Caller::ApiKey,
        parameters: signal_key,
        body: Some(Body::Json("SendSignal")),
        answers: &[(
            202,
            "The signal is recorded, now or before under this key.",
            Body::Json("SignalAccepted"),
        )],
        codes: with_key_codes![
            RunNotFound,
            RunAlreadyTerminal,
            SignalsFull,
            ResultTooLarge,
            HistoryFull,
            BodyTooLarge,
            UnsupportedMediaType,
            IdempotencyKeyReused,
            UnknownOutcome,
            TaskSetAside
        ],
    },
    Route {
        method: HttpMethod::Post,
        path: "/v1/runs/{runId}/resume",
        id: "resumeRun",
        tag: "runs",
        summary: "Let a diverged run continue, after code was deployed that fits what it recorded",
        caller: Caller::ApiKey,
        parameters: no_parameters,
        body: Some(Body::JsonOrEmpty("ResumeRun")),
        answers: &[(202, "The run may be leased again.", Body::Json("RunResumed"))],
        codes: with_key_codes![
            RunNotFound,
            RunAlreadyTerminal,
            NotDiverged,
            BodyTooLarge,
            UnsupportedMediaType,
            UnknownOutcome,
            TaskSetAside
        ],
    },
    Route {
        method: HttpMethod::Post,
        path: "/v1/runs/{runId}/unpin",
        id: "unpinRun",
        tag: "runs",
        summary: "Let workers of every build continue a run that is pinned to one",
        caller: Caller::ApiKey,
        parameters: no_parameters,
        body: Some(Body::JsonOrEmpty("UnpinRun")),
        answers: &[(202, "The run is not pinned.", Body::Json("RunUnpinned"))],
        codes: with_key_codes![
            RunNotFound,
            RunAlreadyTerminal,
            NotPinned,
            BodyTooLarge,
            UnsupportedMediaType,
            UnknownOutcome,
            TaskSetAside
        ],
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/queues",
        id: "listQueues",
        tag: "runs",
        summary: "Show waiting and running tasks per queue",
        caller: Caller::ApiKey,
        parameters: no_parameters,
        body: None,
        answers: &[(200, "Every queue that holds a task or is paused.", Body::Json("Queues"))],
        codes: with_key_codes![],
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/workers",
        id: "listWorkers",
        tag: "runs",
        summary: "Show which workers poll for what, and which hold leases",
        caller: Caller::ApiKey,
        parameters: query::<ListWorkers>,
        body: None,
        answers: &[(200, "A page of workers, by name.", Body::Json("Workers"))],
        codes: with_key_codes![],
    },
    Route {
        method: HttpMethod::Post,
        path: "/v1/queues/{queue}/pause",
        id: "pauseQueue",
        tag: "administration",
        summary: "Pause a queue: nothing is leased from it; in its name write `~` for `/`",
        caller: Caller::ApiKey,
        parameters: no_parameters,
        body: Some(Body::JsonOrEmpty("PauseQueue")),
        answers: &[(200, "The queue is paused, now or already before.", Body::Json("QueueStatus"))],
        codes: with_key_codes![BodyTooLarge, UnsupportedMediaType, UnknownOutcome],
    },
    Route {
        method: HttpMethod::Post,
        path: "/v1/queues/{queue}/resume",
        id: "resumeQueue",
        tag: "administration",
        summary: "Resume a paused queue; in its name write `~` for `/`",
        caller: Caller::ApiKey,
        parameters: no_parameters,
        body: Some(Body::JsonOrEmpty("ResumeQueue")),
        answers: &[(200, "The queue is not paused.", Body::Json("QueueStatus"))],
        codes: with_key_codes![BodyTooLarge, UnsupportedMediaType, UnknownOutcome],
    },
    Route {
        method: HttpMethod::Post,
        path: "/v1/leases",
        id: "lease",
        tag: "workers",
        summary: "Ask for work; with `waitMs`, wait for it",
        caller: Caller::ApiKey,
        parameters: no_parameters,
        body: Some(Body::Json("LeaseRequest")),
        answers: &[(200, "The granted leases, possibly none.", Body::Json("Leases"))],
        codes: with_key_codes![BodyTooLarge, UnsupportedMediaType, UnknownOutcome],
    },
    Route {
        method: HttpMethod::Post,
        path: "/v1/tasks/{taskId}/started",
        id: "started",
        tag: "workers",
        summary: "Report the start of an attempt",
        caller: Caller::TaskToken,
        parameters: no_parameters,
        body: Some(Body::Json("Started")),
        answers: &[(200, "Continue.", Body::Json("StartedAck"))],
        codes: with_task_codes![AttemptAlreadyCompleted],
    },
    Route {
        method: HttpMethod::Post,
        path: "/v1/tasks/{taskId}/heartbeat",
        id: "heartbeat",
        tag: "workers",
        summary: "Send a heartbeat and renew the lease",
        caller: Caller::TaskToken,
        parameters: no_parameters,
        body: Some(Body::Json("Heartbeat")),
        answers: &[(200, "Continue, or stop if `shouldCancel`.", Body::Json("HeartbeatAck"))],
        codes: with_task_codes![HistoryFull],
    },
    Route {
        method: HttpMethod::Post,
        path: "/v1/tasks/{taskId}/completed",
        id: "completed",
        tag: "workers",
        summary: "Report the end of an attempt: SUCCEEDED, FAILED or CANCELLED",
        caller: Caller::TaskToken,
        parameters: no_parameters,
        body: Some(Body::Json("Completed")),
        answers: &[(200, "The report is recorded.", Body::Json("CompletedAck"))],
        codes: with_checkpoint_codes![ConflictingReport],
    },
    Route {
        method: HttpMethod::Post,
        path: "/v1/tasks/{taskId}/checkpoints",
        id: "checkpoint",
        tag: "workers",
        summary: "Record steps, start children and say what to wait for, in one commit",
        caller: Caller::TaskToken,
        parameters: no_parameters,
        body: Some(Body::Json("CheckpointCall")),
        answers: &[(200, "Everything in the call is recorded.", Body::Json("CheckpointAck"))],
        codes: with_checkpoint_codes![UnknownChild, EmptyWait],
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/tasks/{taskId}/checkpoints",
        id: "listCheckpoints",
        tag: "workers",
        summary: "Read what the task has recorded, in order",
        caller: Caller::TaskToken,
        parameters: query::<RecordsQuery>,
        body: None,
        answers: &[(200, "A page of checkpoints.", Body::Json("Checkpoints"))],
        codes: &[
            Code::InvalidArgument,
            Code::InvalidToken,
            Code::TokenExpired,
            Code::TaskNotFound,
            Code::TaskAlreadyTerminal,
            Code::TaskExpired,
            Code::RequestTimeout,
            Code::UriTooLong,
            Code::TooManyRequests,
            Code::HeadersTooLarge,
            Code::Internal,
            Code::Overloaded,
            Code::Unavailable,
            Code::ShuttingDown,
        ],
    },
    Route {
        method: HttpMethod::Post,
        path: "/v1/reports",
        id: "reports",
        tag: "workers",
        summary: "Report many ended attempts at once, one verdict each",
        caller: Caller::ApiKey,
        parameters: no_parameters,
        body: Some(Body::Json("Reports")),
        answers: &[(200, "One answer per report, in order.", Body::Json("ReportAnswers"))],
        codes: with_key_codes![BodyTooLarge, UnsupportedMediaType, UnknownOutcome],
    },
    Route {
        method: HttpMethod::Post,
        path: "/v1/checkpoints",
        id: "checkpoints",
        tag: "workers",
        summary: "Send many calls with checkpoints at once, one answer each",
        caller: Caller::ApiKey,
        parameters: no_parameters,
        body: Some(Body::Json("CheckpointCalls")),
        answers: &[(200, "One answer per call, in order.", Body::Json("CheckpointAnswers"))],
        codes: with_key_codes![BodyTooLarge, UnsupportedMediaType, UnknownOutcome],
    },
    Route {
        method: HttpMethod::Post,
        path: "/v1/starts",
        id: "starts",
        tag: "workers",
        summary: "Report the start of many attempts at once, one answer each",
        caller: Caller::ApiKey,
        parameters: no_parameters,
        body: Some(Body::Json("Starts")),
        answers: &[(200, "One answer per start, in order.", Body::Json("StartAnswers"))],
        codes: with_key_codes![BodyTooLarge, UnsupportedMediaType, UnknownOutcome],
    },
    Route {
        method: HttpMethod::Post,
        path: "/v1/heartbeats",
        id: "heartbeats",
        tag: "workers",
        summary: "Send many heartbeats at once, one answer each",
        caller: Caller::ApiKey,
        parameters: no_parameters,
        body: Some(Body::Json("Heartbeats")),
        answers: &[(200, "One answer per heartbeat, in order.", Body::Json("HeartbeatAnswers"))],
        codes: with_key_codes![BodyTooLarge, UnsupportedMediaType, UnknownOutcome],
    },
    Route {
        method: HttpMethod::Post,
        path: "/v1/keys",
        id: "createKey",
        tag: "administration",
        summary: "Create an API key; its secret is shown only once",
        caller: Caller::ApiKey,
        parameters: no_parameters,
        body: Some(Body::Json("CreateKey")),
        answers: &[(201, "The key was created and is valid now.", Body::Json("NewKey"))],
        codes: with_key_codes![BodyTooLarge, UnsupportedMediaType, UnknownOutcome, TooManyKeys],
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/keys",
        id: "listKeys",
        tag: "administration",
        summary: "List API keys without their secrets",
        caller: Caller::ApiKey,
        parameters: query::<ListKeys>,
        body: None,
        answers: &[(200, "The keys this key may administer.", Body::Json("Keys"))],
        codes: with_key_codes![],
    },
    Route {
        method: HttpMethod::Post,
        path: "/v1/keys/{keyId}/rotate",
        id: "rotateKey",
        tag: "administration",
        summary: "Give an API key a new secret; the old one stays valid until the overlap ends",
        caller: Caller::ApiKey,
        parameters: no_parameters,
        body: Some(Body::JsonOrEmpty("RotateKey")),
        answers: &[(200, "The new secret, shown only once.", Body::Json("NewKey"))],
        codes: with_key_codes![
            BodyTooLarge,
            UnsupportedMediaType,
            UnknownOutcome,
            KeyNotFound,
            KeyNotUsable
        ],
    },
    Route {
        method: HttpMethod::Post,
        path: "/v1/keys/{keyId}/revoke",
        id: "revokeKey",
        tag: "administration",
        summary: "Revoke an API key permanently, effective at once",
        caller: Caller::ApiKey,
        parameters: no_parameters,
        body: None,
        answers: &[(200, "The key is revoked, now or already before.", Body::Json("Key"))],
        codes: with_key_codes![UnknownOutcome, KeyNotFound, LastAdminKey],
    },
    Route {
        method: HttpMethod::Post,
        path: "/v1/signing-keys/rotate",
        id: "rotateSigning",
        tag: "administration",
        summary: "Sign task tokens with a new key; older tokens stay valid until they expire",
        caller: Caller::ApiKey,
        parameters: no_parameters,
        body: Some(Body::JsonOrEmpty("RotateSigning")),
        answers: &[(200, "The new key is in use.", Body::Json("SigningRotated"))],
        codes: with_key_codes![BodyTooLarge, UnsupportedMediaType, UnknownOutcome],
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/limits",
        id: "listLimits",
        tag: "administration",
        summary: "Show the limits of tenants and their usage",
        caller: Caller::ApiKey,
        parameters: no_parameters,
        body: None,
        answers: &[(200, "Every tenant with limits that the key may see.", Body::Json("Limits"))],
        codes: with_key_codes![],
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/budgets",
        id: "listBudgets",
        tag: "administration",
        summary: "Show the budgets of tenants and workspaces, and what is used of them",
        caller: Caller::ApiKey,
        parameters: no_parameters,
        body: None,
        answers: &[(200, "Every budget that the key may see.", Body::Json("ScopeBudgets"))],
        codes: with_key_codes![],
    },
    Route {
        method: HttpMethod::Post,
        path: "/v1/budgets",
        id: "setBudget",
        tag: "administration",
        summary: "Set the budget of a tenant or workspace, effective at once",
        caller: Caller::ApiKey,
        parameters: no_parameters,
        body: Some(Body::Json("SetBudget")),
        answers: &[(200, "The budget is in force.", Body::Json("ScopeBudget"))],
        codes: with_key_codes![BodyTooLarge, UnsupportedMediaType, UnknownOutcome],
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/set-aside",
        id: "listSetAside",
        tag: "administration",
        summary: "List tasks that are set aside, and why",
        caller: Caller::ApiKey,
        parameters: no_parameters,
        body: None,
        answers: &[(200, "Every task that is set aside.", Body::Json("SetAside"))],
        codes: with_key_codes![],
    },
    Route {
        method: HttpMethod::Post,
        path: "/v1/limits",
        id: "setLimits",
        tag: "administration",
        summary: "Set the limits of a tenant, effective at once",
        caller: Caller::ApiKey,
        parameters: no_parameters,
        body: Some(Body::Json("SetLimits")),
        answers: &[(200, "The limits are in force.", Body::Json("TenantLimits"))],
        codes: with_key_codes![BodyTooLarge, UnsupportedMediaType, UnknownOutcome],
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/audit/verify",
        id: "verifyAudit",
        tag: "administration",
        summary: "Check that the audit was not changed",
        caller: Caller::ApiKey,
        parameters: no_parameters,
        body: None,
        answers: &[(200, "The checked entries and the findings.", Body::Json("AuditVerified"))],
        codes: with_key_codes![],
    },
    Route {
        method: HttpMethod::Get,
        path: "/v1/audit",
        id: "listAudit",
        tag: "administration",
        summary: "List administrative changes and refused calls, newest first",
        caller: Caller::ApiKey,
        parameters: query::<AuditQuery>,
        body: None,
        answers: &[(200, "A page of the audit.", Body::Json("AuditLog"))],
        codes: with_key_codes![],
    },
    Route {
        method: HttpMethod::Get,
        path: "/livez",
        id: "livez",
        tag: "server",
        summary: "Check that the process answers",
        caller: Caller::Anyone,
        parameters: no_parameters,
        body: None,
        answers: &[(200, "It answers.", Body::Text)],
        codes: &[],
    },
    Route {
        method: HttpMethod::Get,
        path: "/readyz",
        id: "readyz",
        tag: "server",
        summary: "Check that the coordinator makes progress",
        caller: Caller::Anyone,
        parameters: no_parameters,
        body: None,
        answers: &[
            (200, "Every check passes.", Body::Json("Ready")),
            (503, "A check fails.", Body::Json("Ready")),
        ],
        codes: &[],
    },
    Route {
        method: HttpMethod::Get,
        path: "/metrics",
        id: "metrics",
        tag: "server",
        summary: "Metrics in the Prometheus text format; beyond loopback only for an admin key of default/default",
        caller: Caller::ApiKeyUnlessLoopback,
        parameters: no_parameters,
        body: None,
        answers: &[(200, "Measurements.", Body::Metrics)],
        codes: &[Code::Unauthenticated, Code::Forbidden],
    },
    Route {
        method: HttpMethod::Get,
        path: "/openapi.json",
        id: "openapi",
        tag: "server",
        summary: "This document",
        caller: Caller::Anyone,
        parameters: no_parameters,
        body: None,
        answers: &[(200, "OpenAPI 3.1.", Body::AnyObject)],
        codes: &[],
    },
    Route {
        method: HttpMethod::Get,
        path: "/errors/{page}",
        id: "explainError",
        tag: "server",
        summary: "Explain an error code",
        caller: Caller::Anyone,
        parameters: no_parameters,
        body: None,
        answers: &[(200, "The page, in Markdown.", Body::Text)],
        codes: &[Code::InvalidArgument, Code::NotFound],
    },
    Route {
        method: HttpMethod::Get,
        path: "/version",
        id: "version",
        tag: "server",
        summary: "Show the version of the server",
        caller: Caller::Anyone,
        parameters: no_parameters,
        body: None,
        answers: &[(200, "The version.", Body::Json("Version"))],
        codes: &[],
    },
];
