//! The requests about durable runs.

use crate::approval::{ApprovalCall, DecideCall};
use crate::id::{Digest, Json, Name};
use crate::plan::PlanRequest;
use crate::request::{Caller, Outcome, Request, Submit};
use crate::time::Span;

use super::checkpoint::{Spend, Step};
use super::inherit::Inherit;
use super::items::Items;
use super::message::{Body, Message};
use super::signal::SignalCall;
use super::wait::{AwaitedEvent, WaitMode};
use super::waiting::Divergence;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunRequest {
    Checkpoint(CheckpointCall),
    Signal(SignalCall),
    /// Another task's decision asks for something.
    Message(Message),
    /// An operator lets a diverged task continue.
    Resume,
    /// An operator lets workers of every build continue a pinned run.
    Unpin,
    /// A caller decides an approval.
    Decide(DecideCall),
    /// A call under a lease that also says what its attempt has used.
    Metered(Metered),
    /// Records of an ended run, for a fork of it.
    Inherit(Inherit),
    /// About a plan.
    Plan(PlanRequest),
}

/// A heartbeat, a report or a checkpoint call, and what the attempt has used so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metered {
    /// In all, the steps of the attempt included. A total that came before counts once.
    pub total: Spend,
    pub call: Box<Request>,
}

/// What a worker did and wants, in one call that takes effect as a whole or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointCall {
    pub caller: Caller,
    /// Canonical digest of the call's content: a repeated call is recognised by it after its attempt has closed.
    pub digest: Digest,
    pub steps: Vec<StepCall>,
    pub children: Vec<ChildCall>,
    pub then: Then,
    /// The API key under which the attempt was leased: it may not decide what a soft limit asks because of this call. Kept only
    /// with a call that made one ask ([`Request::forget_asker`]).
    pub asked_by: Option<Name>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepCall {
    pub key: Name,
    /// Canonical digest of the step's outcome and input.
    pub digest: Digest,
    pub step: Step,
}

/// A child that the call wants. Its fingerprint is what its key must always mean; its id is new in every call, and the
/// first recorded one counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChildCall {
    pub key: Name,
    pub is_detached: bool,
    pub submit: Submit,
}

/// What follows the steps and children of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Then {
    /// The worker goes on under the same lease.
    Continue,
    Wait(WaitCall),
    /// The worker's code does not match the checkpoints.
    Diverged(Divergence),
    /// The report of the attempt.
    Report {
        outcome: Outcome,
        claims: Option<Json>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitCall {
    pub key: Name,
    pub digest: Digest,
    pub mode: WaitMode,
    pub items: Items,
    /// Approvals to open: each has an item that waits for its signal ([`crate::approval::signal_name`]).
    pub approvals: Vec<ApprovalCall>,
    /// How long to wait at most; [`super::limits::WAIT_DEFAULT`] without it.
    pub max: Option<Span>,
}

impl RunRequest {
    /// The keys under which checkpoints and children are loaded for this request.
    pub fn keys(&self) -> Vec<&Name> {
        match self {
            RunRequest::Checkpoint(call) => call.keys(),
            RunRequest::Message(Message { body: Body::ChildEnded { key, .. }, .. }) => vec![key],
            RunRequest::Metered(_) | RunRequest::Plan(_) => match self.wrapped() {
                Some(Request::Run(inner)) => inner.keys(),
                _ => Vec::new(),
            },
            RunRequest::Signal(_)
            | RunRequest::Message(_)
            | RunRequest::Resume
            | RunRequest::Unpin
            | RunRequest::Decide(_)
            | RunRequest::Inherit(_) => Vec::new(),
        }
    }

    /// The call that this request only adds something to.
    pub fn wrapped(&self) -> Option<&Request> {
        match self {
            RunRequest::Metered(metered) => Some(&metered.call),
            RunRequest::Plan(PlanRequest::Advance(advance)) => Some(&advance.report),
            _ => None,
        }
    }

    pub fn wrapped_mut(&mut self) -> Option<&mut Request> {
        match self {
            RunRequest::Metered(metered) => Some(&mut metered.call),
            RunRequest::Plan(PlanRequest::Advance(advance)) => Some(&mut advance.report),
            _ => None,
        }
    }
}

impl CheckpointCall {
    pub fn wait(&self) -> Option<&WaitCall> {
        match &self.then {
            Then::Wait(wait) => Some(wait),
            Then::Continue | Then::Diverged(_) | Then::Report { .. } => None,
        }
    }

    fn keys(&self) -> Vec<&Name> {
        let steps = self.steps.iter().map(|step| &step.key);
        let children = self.children.iter().map(|child| &child.key);
        let wait = self.wait().into_iter().flat_map(|wait| {
            std::iter::once(&wait.key).chain(wait.items.iter().filter_map(
                |item| match &item.event {
                    AwaitedEvent::Child(key) => Some(key),
                    AwaitedEvent::Time(_) | AwaitedEvent::Signal(_) => None,
                },
            ))
        });
        steps.chain(children).chain(wait).collect()
    }
}
