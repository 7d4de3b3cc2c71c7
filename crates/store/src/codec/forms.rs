//! The stored form of each rule type, field by field.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use verdict::event::Submitted;
use verdict::request::{
    Caller, Cancel, Extend, Grant, Heartbeat, Manner, Outcome, Report, Started, Submit, Undelivered,
};
use verdict::{
    AttemptOutcome, CancelRequest, Category, Closed, Digest, End, Event, Fault, Fence, Json,
    LeaseId, Name, Next, Policy, Progress, Reason, Request, Scope, Span, State, TaskId, Text, Time,
};

use super::leaves::{counted, spelled};
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
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Submit")]
struct SubmitForm {
    #[serde(with = "spelled")]
    id: TaskId,
    #[serde(with = "ScopeForm")]
    scope: Scope,
    #[serde(with = "spelled")]
    kind: Name,
    #[serde(with = "spelled")]
    queue: Name,
    priority: i32,
    #[serde(with = "PolicyForm")]
    policy: Policy,
    #[serde(with = "counted::opt", default, skip_serializing_if = "Option::is_none")]
    run_at: Option<Time>,
    #[serde(with = "spelled")]
    input: Digest,
    #[serde(with = "spelled")]
    fingerprint: Digest,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Scope")]
struct ScopeForm {
    #[serde(with = "spelled")]
    tenant: Name,
    #[serde(with = "spelled")]
    workspace: Name,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Grant")]
struct GrantForm {
    #[serde(with = "spelled")]
    lease: LeaseId,
    #[serde(with = "spelled")]
    owner: Name,
    #[serde(with = "spelled::opt", default, skip_serializing_if = "Option::is_none")]
    poll: Option<Name>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Caller")]
struct CallerForm {
    #[serde(with = "spelled")]
    worker: Name,
    attempt: u32,
    #[serde(with = "spelled")]
    lease: LeaseId,
    epoch: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Started")]
struct StartedForm {
    #[serde(with = "CallerForm")]
    caller: Caller,
    #[serde(with = "counted::opt", default, skip_serializing_if = "Option::is_none")]
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
    #[serde(with = "spelled")]
    digest: Digest,
    #[serde(with = "spelled::opt", default, skip_serializing_if = "Option::is_none")]
    claims: Option<Json>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Outcome", rename_all = "snake_case")]
enum OutcomeForm {
    Succeeded {
        #[serde(with = "spelled::opt", default, skip_serializing_if = "Option::is_none")]
        output: Option<Json>,
    },
    Failed(#[serde(with = "FaultForm")] Fault),
    Cancelled {
        #[serde(with = "spelled::opt", default, skip_serializing_if = "Option::is_none")]
        output: Option<Json>,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Cancel")]
struct CancelForm {
    #[serde(with = "spelled::opt", default, skip_serializing_if = "Option::is_none")]
    reason: Option<Text>,
    #[serde(with = "MannerForm")]
    manner: Manner,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Manner", rename_all = "snake_case")]
enum MannerForm {
    Ask,
    Force,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Undelivered")]
struct UndeliveredForm {
    #[serde(with = "spelled")]
    lease: LeaseId,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Extend")]
struct ExtendForm {
    #[serde(with = "counted")]
    deaf_since: Time,
    #[serde(with = "counted")]
    gap: Span,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Event", rename_all = "snake_case")]
pub(super) enum EventForm {
    Submitted(#[serde(with = "boxed_submitted")] Box<Submitted>),
    Granted {
        #[serde(with = "spelled")]
        lease: LeaseId,
        #[serde(with = "spelled")]
        owner: Name,
        #[serde(with = "spelled::opt", default, skip_serializing_if = "Option::is_none")]
        poll: Option<Name>,
        #[serde(with = "counted")]
        fence: Fence,
        #[serde(with = "counted")]
        expires_at: Time,
    },
    Started,
    Renewed {
        #[serde(with = "counted")]
        expires_at: Time,
        #[serde(with = "optional_progress", default, skip_serializing_if = "Option::is_none")]
        progress: Option<Progress>,
    },
    Extended {
        #[serde(with = "counted")]
        expires_at: Time,
        #[serde(with = "counted::opt", default, skip_serializing_if = "Option::is_none")]
        signalled_at: Option<Time>,
    },
    CancelRequested {
        #[serde(with = "spelled::opt", default, skip_serializing_if = "Option::is_none")]
        reason: Option<Text>,
    },
    CancelSignalled,
    AttemptClosed {
        #[serde(with = "boxed_closed")]
        closed: Box<Closed>,
        #[serde(with = "NextForm")]
        next: Next,
    },
    Ended(#[serde(with = "EndForm")] End),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Submitted")]
struct SubmittedForm {
    #[serde(with = "spelled")]
    id: TaskId,
    #[serde(with = "ScopeForm")]
    scope: Scope,
    #[serde(with = "spelled")]
    kind: Name,
    #[serde(with = "spelled")]
    queue: Name,
    priority: i32,
    #[serde(with = "PolicyForm")]
    policy: Policy,
    #[serde(with = "counted")]
    due: Time,
    #[serde(with = "spelled")]
    input: Digest,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Closed")]
struct ClosedForm {
    #[serde(with = "spelled")]
    task: TaskId,
    attempt: u32,
    #[serde(with = "spelled")]
    lease: LeaseId,
    #[serde(with = "counted")]
    fence: Fence,
    #[serde(with = "spelled")]
    owner: Name,
    #[serde(with = "counted")]
    granted_at: Time,
    #[serde(with = "counted::opt", default, skip_serializing_if = "Option::is_none")]
    started_at: Option<Time>,
    #[serde(with = "counted")]
    closed_at: Time,
    #[serde(with = "spelled")]
    outcome: AttemptOutcome,
    #[serde(with = "spelled::opt", default, skip_serializing_if = "Option::is_none")]
    reason: Option<Reason>,
    #[serde(with = "optional_fault", default, skip_serializing_if = "Option::is_none")]
    fault: Option<Fault>,
    #[serde(with = "spelled::opt", default, skip_serializing_if = "Option::is_none")]
    report: Option<Digest>,
    #[serde(with = "spelled::opt", default, skip_serializing_if = "Option::is_none")]
    claims: Option<Json>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Next", rename_all = "snake_case")]
enum NextForm {
    Retry {
        #[serde(with = "counted")]
        due: Time,
    },
    End(#[serde(with = "EndForm")] End),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "End")]
struct EndForm {
    #[serde(with = "spelled")]
    state: State,
    #[serde(with = "spelled::opt", default, skip_serializing_if = "Option::is_none")]
    reason: Option<Reason>,
    #[serde(with = "spelled::opt", default, skip_serializing_if = "Option::is_none")]
    output: Option<Json>,
    #[serde(with = "optional_fault", default, skip_serializing_if = "Option::is_none")]
    fault: Option<Fault>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Fault")]
pub(super) struct FaultForm {
    #[serde(with = "spelled")]
    category: Category,
    #[serde(with = "spelled")]
    message: Text,
    #[serde(with = "spelled::opt", default, skip_serializing_if = "Option::is_none")]
    stack_trace: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retryable: Option<bool>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Policy")]
pub(super) struct PolicyForm {
    #[serde(with = "counted")]
    lease: Span,
    #[serde(with = "counted")]
    heartbeat_every: Span,
    #[serde(with = "counted")]
    cancel_grace: Span,
    failures_max: u32,
    lost_max: u32,
    #[serde(with = "counted")]
    retry_base: Span,
    #[serde(with = "counted")]
    retry_cap: Span,
    #[serde(with = "counted::opt", default, skip_serializing_if = "Option::is_none")]
    attempt_limit: Option<Span>,
    #[serde(with = "counted::opt", default, skip_serializing_if = "Option::is_none")]
    deadline: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "CancelRequest")]
pub(super) struct CancelRequestForm {
    #[serde(with = "counted")]
    requested_at: Time,
    #[serde(with = "spelled::opt", default, skip_serializing_if = "Option::is_none")]
    reason: Option<Text>,
    #[serde(with = "counted::opt", default, skip_serializing_if = "Option::is_none")]
    signalled_at: Option<Time>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Progress")]
pub(super) struct ProgressForm {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    percent: Option<u8>,
    #[serde(with = "spelled::opt", default, skip_serializing_if = "Option::is_none")]
    message: Option<Text>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Renewals")]
pub(super) struct RenewalsForm {
    claim_version: u32,
    revision: u32,
    #[serde(with = "counted")]
    decided_at: Time,
    #[serde(with = "counted::opt", default, skip_serializing_if = "Option::is_none")]
    heartbeat_at: Option<Time>,
    #[serde(with = "counted::opt", default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<Time>,
    heard: bool,
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
        mod $module {
            use super::*;

            pub(super) fn serialize<S: Serializer>(
                value: &Option<$type>,
                to: S,
            ) -> Result<S::Ok, S::Error> {
                #[derive(Serialize)]
                struct Form<'a>(#[serde(with = $form)] &'a $type);
                value.as_ref().map(Form).serialize(to)
            }

            pub(super) fn deserialize<'de, D: Deserializer<'de>>(
                from: D,
            ) -> Result<Option<$type>, D::Error> {
                #[derive(Deserialize)]
                struct Form(#[serde(with = $form)] $type);
                Ok(Option::<Form>::deserialize(from)?.map(|Form(value)| value))
            }
        }
    };
}

optional!(optional_fault, Fault, "FaultForm");
optional!(optional_progress, Progress, "ProgressForm");

/// A remote form inside a `Box`.
macro_rules! boxed {
    ($module:ident, $type:ty, $form:ty) => {
        mod $module {
            use super::*;

            pub(super) fn serialize<S: Serializer>(
                value: &$type,
                to: S,
            ) -> Result<S::Ok, S::Error> {
                <$form>::serialize(value, to)
            }

            pub(super) fn deserialize<'de, D: Deserializer<'de>>(
                from: D,
            ) -> Result<Box<$type>, D::Error> {
                <$form>::deserialize(from).map(Box::new)
            }
        }
    };
}

boxed!(boxed_submitted, Submitted, SubmittedForm);
boxed!(boxed_closed, Closed, ClosedForm);
