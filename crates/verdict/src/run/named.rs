//! What a request about a durable run names besides its task: the table in [`super`], as a value.
//!
//! A store reads this before it knows the task, so a need may depend on the task's state. [`super::Records::load`] goes
//! through here as well, so a store and the reference cannot disagree about what a request names.

use crate::event::Subject;
use crate::id::Name;
use crate::request::Request;
use crate::task::{Phase, Task};

use super::message::{Body, Message};
use super::request::RunRequest;
use super::signal::SignalCall;
use super::waiting::{Slice, Waiting};

/// What one request names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// Keys under which checkpoints and children are loaded, in the order of the request. A key may be named twice.
    pub keys: Vec<Name>,
    pub signals: SignalNeed,
    /// The idempotency key of a signal.
    pub same_key: Option<Name>,
    /// Whether the next slice of live children is loaded if the task is closing.
    pub slice: bool,
}

/// Whether the pending signals of the task are loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SignalNeed {
    #[default]
    Never,
    /// If the task waits for something.
    IfWaiting,
    Always,
}

impl Named {
    pub fn by(request: &Request) -> Self {
        match request {
            Request::Run(request) if request.wrapped().is_some() => {
                request.wrapped().map(Self::by).unwrap_or_default()
            }
            Request::Run(request) => Self {
                keys: request.keys().into_iter().cloned().collect(),
                signals: signals_of(request),
                same_key: signal_key(request),
                slice: false,
            },
            Request::Sweep => {
                Self { signals: SignalNeed::IfWaiting, slice: true, ..Self::default() }
            }
            _ => Self::default(),
        }
    }

    /// Whether the request names nothing, as every plain one.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the pending signals of this task are loaded.
    pub fn needs_signals(&self, subject: &Subject) -> bool {
        match self.signals {
            SignalNeed::Never => false,
            SignalNeed::IfWaiting => subject.live().is_some_and(is_waiting),
            SignalNeed::Always => true,
        }
    }

    /// Where the slice of live children begins, if one is loaded for this task.
    pub fn slice_of<'a>(&self, subject: &'a Subject) -> Option<&'a Slice> {
        let closing = subject.live().filter(|_| self.slice).and_then(Task::closing)?;
        closing.slice.as_ref()
    }
}

fn is_waiting(task: &Task) -> bool {
    match &task.phase {
        Phase::Waiting(waiting) => matches!(**waiting, Waiting::For(_)),
        Phase::Queued { .. } | Phase::Retry { .. } | Phase::Running(_) => false,
    }
}

/// Signals matter to a call that waits, to a task that waits, and to the next signal.
fn signals_of(request: &RunRequest) -> SignalNeed {
    match request {
        RunRequest::Checkpoint(call) if call.wait().is_some() => SignalNeed::Always,
        RunRequest::Signal(_) => SignalNeed::Always,
        RunRequest::Message(Message { body: Body::Signal(_), .. }) => SignalNeed::Always,
        RunRequest::Message(_) | RunRequest::Decide(_) => SignalNeed::IfWaiting,
        RunRequest::Checkpoint(_)
        | RunRequest::Metered(_)
        | RunRequest::Resume
        | RunRequest::Unpin
        | RunRequest::Inherit(_)
        | RunRequest::Plan(_) => SignalNeed::Never,
    }
}

fn signal_key(request: &RunRequest) -> Option<Name> {
    match request {
        RunRequest::Signal(SignalCall { key, .. }) => key.clone(),
        RunRequest::Message(message @ Message { body: Body::Signal(_), .. }) => Some(message.key()),
        RunRequest::Checkpoint(_)
        | RunRequest::Metered(_)
        | RunRequest::Message(_)
        | RunRequest::Resume
        | RunRequest::Unpin
        | RunRequest::Decide(_)
        | RunRequest::Inherit(_)
        | RunRequest::Plan(_) => None,
    }
}
