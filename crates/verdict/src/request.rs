//! The requests that the rules decide. Ids and digests are created outside and come in with the
//! request.

use crate::budget::{Budget, BudgetEvent};
use crate::build::Build;
use crate::done::Fault;
use crate::event::{Event, Next};
use crate::flow::FlowKey;
use crate::id::{Digest, Json, LeaseId, Name, Scope, TaskId, Text};
use crate::plan::{PlanEvent, PlanRequest};
use crate::policy::Policy;
use crate::run::{CheckpointCall, RunEvent, RunRequest};
use crate::task::Progress;
use crate::time::{Span, Time};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    Submit(Submit),
    Grant(Grant),
    Started(Started),
    Heartbeat(Heartbeat),
    Report(Report),
    Cancel(Cancel),
    /// Time may have changed something: lease expiry, cancel grace, attempt limit, deadline.
    Sweep,
    Undelivered(Undelivered),
    Extend(Extend),
    /// About a durable run. Boxed: plain requests should not be larger for it.
    Run(Box<RunRequest>),
}

impl Request {
    /// The caller that a call under a lease claims to be; `None` for every other request.
    pub fn caller(&self) -> Option<&Caller> {
        match self {
            Request::Started(started) => Some(&started.caller),
            Request::Heartbeat(heartbeat) => Some(&heartbeat.caller),
            Request::Report(report) => Some(&report.caller),
            Request::Run(request) => match &**request {
                RunRequest::Checkpoint(call) => Some(&call.caller),
                RunRequest::Metered(metered) => metered.call.caller(),
                RunRequest::Plan(PlanRequest::Advance(advance)) => advance.report.caller(),
                RunRequest::Signal(_)
                | RunRequest::Message(_)
                | RunRequest::Resume
                | RunRequest::Unpin
                | RunRequest::Decide(_)
                | RunRequest::Inherit(_)
                | RunRequest::Plan(_) => None,
            },
            Request::Submit(_)
            | Request::Grant(_)
            | Request::Cancel(_)
            | Request::Sweep
            | Request::Undelivered(_)
            | Request::Extend(_) => None,
        }
    }

    /// The plain report that this request is or has in it.
    pub fn report(&self) -> Option<&Report> {
        match self {
            Request::Report(report) => Some(report),
            Request::Run(request) => request.wrapped()?.report(),
            _ => None,
        }
    }

    /// The API key under which the attempt was leased that a report ends.
    pub fn done_by(&self) -> Option<&Name> {
        let report = self.report().and_then(|report| report.by.as_ref());
        report.or_else(|| self.checkpoint_call()?.asked_by.as_ref())
    }

    /// Leaves out who made the call unless people were asked because of it, or will be: nothing else follows from it, and a
    /// history that says it of every step would be much longer.
    pub fn forget_asker(&mut self, events: &[Event]) {
        let is_asked = |event: &Event| match event {
            Event::Run(event) => match &**event {
                RunEvent::Budget(it) => matches!(**it, BudgetEvent::Asked(_)),
                RunEvent::Plan(it) => match &**it {
                    PlanEvent::StageEntered(turn) => turn.by.is_some(),
                    PlanEvent::DoneBy(_) => true,
                    _ => false,
                },
                _ => false,
            },
            Event::AttemptClosed { next: Next::Stage(turn), .. } => turn.by.is_some(),
            _ => false,
        };
        if events.iter().any(is_asked) {
            return;
        }
        if let Some(call) = self.checkpoint_call_mut() {
            call.asked_by = None;
        } else if let Some(report) = self.report_mut() {
            report.by = None;
        }
    }

    /// The checkpoint call that this request is or has in it.
    pub fn checkpoint_call(&self) -> Option<&CheckpointCall> {
        match self {
            Request::Run(request) => match &**request {
                RunRequest::Checkpoint(call) => Some(call),
                other => other.wrapped()?.checkpoint_call(),
            },
            _ => None,
        }
    }

    pub fn checkpoint_call_mut(&mut self) -> Option<&mut CheckpointCall> {
        match self {
            Request::Run(request) => match &mut **request {
                RunRequest::Checkpoint(call) => Some(call),
                other => other.wrapped_mut()?.checkpoint_call_mut(),
            },
            _ => None,
        }
    }

    pub fn report_mut(&mut self) -> Option<&mut Report> {
        match self {
            Request::Report(report) => Some(report),
            Request::Run(request) => request.wrapped_mut()?.report_mut(),
            _ => None,
        }
    }
}

/// A new task. The payload itself stays outside the rules; its digest is part of the record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Submit {
    pub id: TaskId,
    pub scope: Scope,
    pub kind: Name,
    pub queue: Name,
    pub priority: i32,
    pub policy: Policy,
    /// The earliest time of the first lease.
    pub run_at: Option<Time>,
    pub input: Digest,
    /// What the task may use; `None` without limits. Boxed: most tasks have none.
    pub budget: Option<Box<Budget>>,
    /// At most so many tasks with the key are leased at once; `None` without such a limit. Boxed: most tasks have none.
    pub flow: Option<Box<FlowKey>>,
    /// Digest of the submission's content: equal keys must mean equal submissions.
    pub fingerprint: Digest,
}

/// A worker's poll matched a task that is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub lease: LeaseId,
    pub owner: Name,
    pub poll: Option<Name>,
    /// The build of the worker, if it announced one for the kind. Boxed: most workers announce none.
    pub build: Option<Box<Build>>,
}

/// The caller that a call under a lease claims to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub worker: Name,
    pub attempt: u32,
    pub lease: LeaseId,
    /// The epoch in which the lease was granted.
    pub epoch: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    pub caller: Caller,
    /// When the worker claims to have started, by its own clock. Recorded, but decides nothing
    ///
    pub claimed_at: Option<Time>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    pub caller: Caller,
    pub progress: Option<Progress>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub caller: Caller,
    pub outcome: Outcome,
    /// Canonical digest of outcome, output and error, without times and metrics.
    pub digest: Digest,
    pub claims: Option<Json>,
    /// The API key under which the attempt was leased. Kept where people are asked about the work ([`Request::forget_asker`]).
    pub by: Option<Name>,
}

/// What a worker reports about its attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Succeeded {
        output: Option<Json>,
    },
    Failed(Fault),
    Cancelled {
        output: Option<Json>,
    },
    /// The worker stops before the task is done and hands it back.
    Released,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cancel {
    pub reason: Option<Text>,
    pub mode: CancelMode,
}

/// How a cancel treats a worker that holds the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CancelMode {
    /// Signal the worker and wait for the grace period.
    Graceful,
    /// Revoke the lease at once (S4-57).
    Immediate,
}

/// A grant whose answer could not be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undelivered {
    pub lease: LeaseId,
}

/// The coordinator stalled between `stalled_since` and `stalled_since + gap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extend {
    pub stalled_since: Time,
    pub gap: Span,
}

impl Extend {
    /// A stall that ends now.
    pub fn between(stalled_since: Time, now: Time) -> Self {
        Self { stalled_since, gap: now.since(stalled_since) }
    }
}
