//! The stored form of each rule type, field by field.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use verdict::event::Submitted;
use verdict::request::{
    Caller, Cancel, CancelMode, Extend, Grant, Heartbeat, Outcome, Report, Started, Submit,
    Undelivered,
};
use verdict::{
    AttemptOutcome, Budget, Build, CancelRequest, Category, ClosedAttempt, Digest, End, Event,
    Fault, Fence, FlowKey, Json, LeaseId, Name, Next, OnStall, Policy, Progress, ProgressClock,
    Reason, Request, RunEvent, RunRequest, Scope, Span, State, TaskId, Text, Time, Waiting,
};

use super::plan_forms;
use super::scalars::{as_number, as_text};
use super::{budget_forms, build_forms, flow_forms, run_forms};
use crate::row::{Renewals, Resources};

#[derive(Serialize, Deserialize)]
#[serde(remote = "Request", rename_all = "snake_case")]
pub(super) enum RequestForm {
    Submit(#[serde(with = "SubmitForm")] Submit),
    Grant(#[serde(with = "GrantForm")] Grant),
    Started(#[serde(with = "StartedForm")] Started),
    Heartbeat(#[serde(with = "HeartbeatForm")] Heartbeat),
    Report(#[serde(with = "ReportForm")] Report),
    Cancel(#[serde(with = "CancelForm")] Cancel),
    Sweep,
    Undelivered(#[serde(with = "UndeliveredForm")] Undelivered),
    Extend(#[serde(with = "ExtendForm")] Extend),
    Run(#[serde(with = "run_forms::boxed_run_request")] Box<RunRequest>),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Submit")]
pub(super) struct SubmitForm {
    #[serde(with = "as_text")]
    id: TaskId,
    #[serde(with = "ScopeForm")]
    scope: Scope,
    #[serde(with = "as_text")]
    kind: Name,
    #[serde(with = "as_text")]
    queue: Name,
    priority: i32,
    #[serde(with = "PolicyForm")]
    policy: Policy,
    #[serde(with = "as_number::opt", default, skip_serializing_if = "Option::is_none")]
    run_at: Option<Time>,
    #[serde(with = "as_text")]
    input: Digest,
    #[serde(
        with = "budget_forms::optional_budget",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    budget: Option<Box<Budget>>,
    #[serde(with = "flow_forms::optional_flow", default, skip_serializing_if = "Option::is_none")]
    flow: Option<Box<FlowKey>>,
    #[serde(with = "as_text")]
    fingerprint: Digest,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Scope")]
struct ScopeForm {
    #[serde(with = "as_text")]
    tenant: Name,
    #[serde(with = "as_text")]
    workspace: Name,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Grant")]
struct GrantForm {
    #[serde(with = "as_text")]
    lease: LeaseId,
    #[serde(with = "as_text")]
    owner: Name,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    poll: Option<Name>,
    #[serde(
        with = "build_forms::optional_build",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    build: Option<Box<Build>>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Caller")]
pub(super) struct CallerForm {
    #[serde(with = "as_text")]
    worker: Name,
    attempt: u32,
    #[serde(with = "as_text")]
    lease: LeaseId,
    epoch: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Started")]
struct StartedForm {
    #[serde(with = "CallerForm")]
    caller: Caller,
    #[serde(with = "as_number::opt", default, skip_serializing_if = "Option::is_none")]
    claimed_at: Option<Time>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Heartbeat")]
struct HeartbeatForm {
    #[serde(with = "CallerForm")]
    caller: Caller,
    #[serde(with = "optional_progress", default, skip_serializing_if = "Option::is_none")]
    progress: Option<Progress>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Report")]
struct ReportForm {
    #[serde(with = "CallerForm")]
    caller: Caller,
    #[serde(with = "OutcomeForm")]
    outcome: Outcome,
    #[serde(with = "as_text")]
    digest: Digest,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    claims: Option<Json>,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    by: Option<Name>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Outcome", rename_all = "snake_case")]
pub(super) enum OutcomeForm {
    Succeeded {
        #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
        output: Option<Json>,
    },
    Failed(#[serde(with = "FaultForm")] Fault),
    Cancelled {
        #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
        output: Option<Json>,
    },
    Released,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Cancel")]
pub(super) struct CancelForm {
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    reason: Option<Text>,
    #[serde(with = "CancelModeForm", rename = "manner")]
    mode: CancelMode,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "CancelMode")]
pub(super) enum CancelModeForm {
    #[serde(rename = "ask")]
    Graceful,
    #[serde(rename = "force")]
    Immediate,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Undelivered")]
struct UndeliveredForm {
    #[serde(with = "as_text")]
    lease: LeaseId,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Extend")]
struct ExtendForm {
    #[serde(with = "as_number", rename = "deaf_since")]
    stalled_since: Time,
    #[serde(with = "as_number")]
    gap: Span,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Event", rename_all = "snake_case")]
pub(super) enum EventForm {
    Submitted(#[serde(with = "boxed_submitted")] Box<Submitted>),
    Granted {
        #[serde(with = "as_text")]
        lease: LeaseId,
        #[serde(with = "as_text")]
        owner: Name,
        #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
        poll: Option<Name>,
        #[serde(with = "as_number")]
        fence: Fence,
        #[serde(with = "as_number")]
        expires_at: Time,
    },
    Started,
    Renewed {
        #[serde(with = "as_number")]
        expires_at: Time,
        #[serde(with = "optional_progress", default, skip_serializing_if = "Option::is_none")]
        progress: Option<Progress>,
    },
    Extended {
        #[serde(with = "as_number")]
        expires_at: Time,
        #[serde(with = "as_number::opt", default, skip_serializing_if = "Option::is_none")]
        signalled_at: Option<Time>,
        #[serde(with = "as_number::opt", default, skip_serializing_if = "Option::is_none")]
        progressed_at: Option<Time>,
    },
    Stalled {
        #[serde(with = "as_number")]
        since: Time,
    },
    CancelRequested {
        #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
        reason: Option<Text>,
    },
    CancelSignalled,
    AttemptClosed {
        #[serde(with = "boxed_closed")]
        closed: Box<ClosedAttempt>,
        #[serde(with = "NextForm")]
        next: Next,
    },
    Ended(#[serde(with = "EndForm")] End),
    Run(#[serde(with = "run_forms::boxed_run_event")] Box<RunEvent>),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Submitted")]
pub(super) struct SubmittedForm {
    #[serde(with = "as_text")]
    id: TaskId,
    #[serde(with = "ScopeForm")]
    scope: Scope,
    #[serde(with = "as_text")]
    kind: Name,
    #[serde(with = "as_text")]
    queue: Name,
    priority: i32,
    #[serde(with = "PolicyForm")]
    policy: Policy,
    #[serde(with = "as_number")]
    due: Time,
    #[serde(with = "as_text")]
    input: Digest,
    #[serde(
        with = "budget_forms::optional_budget",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    budget: Option<Box<Budget>>,
    #[serde(with = "flow_forms::optional_flow", default, skip_serializing_if = "Option::is_none")]
    flow: Option<Box<FlowKey>>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ClosedAttempt")]
struct ClosedForm {
    #[serde(with = "as_text")]
    task: TaskId,
    attempt: u32,
    #[serde(with = "as_text")]
    lease: LeaseId,
    #[serde(with = "as_number")]
    fence: Fence,
    #[serde(with = "as_text")]
    owner: Name,
    #[serde(with = "as_number")]
    granted_at: Time,
    #[serde(with = "as_number::opt", default, skip_serializing_if = "Option::is_none")]
    started_at: Option<Time>,
    #[serde(with = "as_number")]
    closed_at: Time,
    #[serde(with = "as_text")]
    outcome: AttemptOutcome,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    reason: Option<Reason>,
    #[serde(with = "optional_fault", default, skip_serializing_if = "Option::is_none")]
    fault: Option<Fault>,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    report: Option<Digest>,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    claims: Option<Json>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Next", rename_all = "snake_case")]
enum NextForm {
    Retry {
        #[serde(with = "as_number")]
        due: Time,
    },
    End(#[serde(with = "EndForm")] End),
    Wait(#[serde(with = "run_forms::boxed_waiting")] Box<Waiting>),
    Stage(#[serde(with = "plan_forms::boxed_turn")] Box<verdict::plan::Turn>),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "End")]
pub(super) struct EndForm {
    #[serde(with = "as_text")]
    state: State,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    reason: Option<Reason>,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    output: Option<Json>,
    #[serde(with = "optional_fault", default, skip_serializing_if = "Option::is_none")]
    fault: Option<Fault>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Fault")]
pub(super) struct FaultForm {
    #[serde(with = "as_text")]
    category: Category,
    #[serde(with = "as_text")]
    message: Text,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    stack_trace: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retryable: Option<bool>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Policy")]
pub(super) struct PolicyForm {
    #[serde(with = "as_number")]
    lease: Span,
    #[serde(with = "as_number")]
    heartbeat_every: Span,
    #[serde(with = "as_number")]
    cancel_grace: Span,
    failures_max: u32,
    lost_max: u32,
    #[serde(with = "as_number")]
    retry_base: Span,
    #[serde(with = "as_number")]
    retry_cap: Span,
    #[serde(with = "as_number::opt", default, skip_serializing_if = "Option::is_none")]
    attempt_limit: Option<Span>,
    #[serde(with = "as_number::opt", default, skip_serializing_if = "Option::is_none")]
    deadline: Option<Time>,
    #[serde(with = "as_number::opt", default, skip_serializing_if = "Option::is_none")]
    ttl: Option<Span>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    #[serde(with = "optional_progress_clock", default, skip_serializing_if = "Option::is_none")]
    progress_clock: Option<ProgressClock>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ProgressClock")]
pub(super) struct ProgressClockForm {
    #[serde(with = "as_number")]
    after: Span,
    #[serde(with = "as_text")]
    action: OnStall,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "CancelRequest")]
pub(super) struct CancelRequestForm {
    #[serde(with = "as_number")]
    requested_at: Time,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    reason: Option<Text>,
    #[serde(with = "as_number::opt", default, skip_serializing_if = "Option::is_none")]
    signalled_at: Option<Time>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Progress")]
pub(super) struct ProgressForm {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    percent: Option<u8>,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    message: Option<Text>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Renewals")]
pub(super) struct RenewalsForm {
    claim_version: u32,
    revision: u32,
    #[serde(with = "as_number")]
    decided_at: Time,
    #[serde(with = "as_number::opt", default, skip_serializing_if = "Option::is_none")]
    heartbeat_at: Option<Time>,
    #[serde(with = "as_number::opt", default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<Time>,
    heard: bool,
    #[serde(with = "as_number::opt", default, skip_serializing_if = "Option::is_none")]
    progressed_at: Option<Time>,
    #[serde(with = "as_number::opt", default, skip_serializing_if = "Option::is_none")]
    stalled_at: Option<Time>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Resources")]
pub(super) struct ResourcesForm {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    memory_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cpu_millicores: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<u64>,
}

/// A remote form inside an `Option`.
macro_rules! optional {
    ($module:ident, $type:ty, $form:literal) => {
        pub(super) mod $module {
            use super::*;

            pub(in super::super) fn serialize<S: Serializer>(
                value: &Option<$type>,
                to: S,
            ) -> Result<S::Ok, S::Error> {
                #[derive(Serialize)]
                struct Form<'a>(#[serde(with = $form)] &'a $type);
                value.as_ref().map(Form).serialize(to)
            }

            pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
                from: D,
            ) -> Result<Option<$type>, D::Error> {
                #[derive(Deserialize)]
                struct Form(#[serde(with = $form)] $type);
                Ok(Option::<Form>::deserialize(from)?.map(|Form(value)| value))
            }
        }
    };
}
pub(super) use optional;

optional!(optional_fault, Fault, "FaultForm");
optional!(optional_progress, Progress, "ProgressForm");
optional!(optional_progress_clock, ProgressClock, "ProgressClockForm");
optional!(optional_resources, Resources, "ResourcesForm");

/// A remote form inside a `Box`.
macro_rules! boxed {
    ($module:ident, $type:ty, $form:ty) => {
        pub(super) mod $module {
            use super::*;

            pub(in super::super) fn serialize<S: Serializer>(
                value: &$type,
                to: S,
            ) -> Result<S::Ok, S::Error> {
                <$form>::serialize(value, to)
            }

            pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
                from: D,
            ) -> Result<Box<$type>, D::Error> {
                <$form>::deserialize(from).map(Box::new)
            }
        }
    };
}
pub(super) use boxed;

boxed!(boxed_submitted, Submitted, SubmittedForm);
boxed!(boxed_closed, ClosedAttempt, ClosedForm);
