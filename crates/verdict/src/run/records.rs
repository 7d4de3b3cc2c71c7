//! The records of one durable run's task in memory: checkpoints, children and signals, as events make them.
//!
//! This is what a store keeps in rows, with the one operation that a store needs ([`Records::load`]). The tests, the model
//! and `verify` use it, and an engine is right if it loads what this loads. It decides nothing.

use std::collections::BTreeMap;

use crate::event::{Event, Subject};
use crate::id::Name;
use crate::request::Request;
use crate::task::{Phase, Task};

use super::checkpoint::{Checkpoint, Recorded};
use super::event::RunEvent;
use super::limits::SLICE_MAX;
use super::loaded::{Child, ChildRef, Loaded};
use super::message::{Body, Message};
use super::request::{ChildCall, RunRequest};
use super::signal::{Signal, SignalCall};
use super::waiting::{Closing, Waiting};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Records {
    checkpoints: BTreeMap<Name, Checkpoint>,
    children: BTreeMap<Name, Child>,
    /// Signals not taken, by number.
    pending: BTreeMap<u32, Signal>,
    /// All signals with an idempotency key, by that key.
    keyed: BTreeMap<Name, Signal>,
}

impl Records {
    /// Records what these events of the task say.
    pub fn note(&mut self, events: &[Event]) {
        for event in events {
            if let Event::Run(event) = event {
                self.note_event(event);
            }
        }
    }

    fn note_event(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Checkpointed(checkpoint) => self.note_checkpoint(checkpoint),
            RunEvent::ChildSpawned(child) => {
                self.children.insert(child.key.clone(), Child::of(child));
            }
            RunEvent::SignalReceived(signal) => {
                self.pending.insert(signal.number, (**signal).clone());
                if let Some(key) = &signal.key {
                    self.keyed.insert(key.clone(), (**signal).clone());
                }
            }
            RunEvent::Spawned { .. }
            | RunEvent::WaitAdvanced { .. }
            | RunEvent::Closing(..)
            | RunEvent::ChildrenCancelled { .. }
            | RunEvent::Hastened
            | RunEvent::Resumed => {}
        }
    }

    fn note_checkpoint(&mut self, checkpoint: &Checkpoint) {
        match &checkpoint.recorded {
            Recorded::Step(_) => {}
            Recorded::Wait(wait) => {
                wait.taken.iter().for_each(|taken| drop(self.pending.remove(&taken.signal)));
            }
            Recorded::Child(end) => {
                let child = self.children.get_mut(&checkpoint.key);
                child.expect("a child is recorded before it ends").end = Some(end.state);
            }
        }
        self.checkpoints.insert(checkpoint.key.clone(), checkpoint.clone());
    }

    /// What the rules need to decide `request` about the task.
    pub fn load(&self, subject: &Subject, request: &Request) -> Loaded {
        self.load_slices(subject, request, SLICE_MAX)
    }

    /// As [`Records::load`], with slices of another size.
    pub fn load_slices(&self, subject: &Subject, request: &Request, slice: usize) -> Loaded {
        let mut loaded = Loaded::default();
        if let Request::Run(request) = request {
            let keys = request.keys();
            loaded.checkpoints = find(&self.checkpoints, &keys);
            loaded.children = find(&self.children, &keys);
            loaded.same_key = signal_key(request).and_then(|key| self.keyed.get(&key).cloned());
        }
        if needs_signals(subject, request) {
            loaded.signals = self.pending.values().cloned().collect();
        }
        if let (Request::Sweep, Some(closing)) = (request, subject.live().and_then(Task::closing)) {
            (loaded.live, loaded.has_more_live) = self.slice(closing, slice);
        }
        loaded
    }

    fn slice(&self, closing: &Closing, size: usize) -> (Vec<ChildRef>, bool) {
        let Some(slice) = &closing.slice else { return (Vec::new(), false) };
        let is_next = |child: &&Child| {
            let is_after = slice.after.as_ref().is_none_or(|after| child.key > *after);
            child.is_live() && is_after
        };
        let refer = |child: &Child| ChildRef { key: child.key.clone(), id: child.id };
        let mut live: Vec<ChildRef> =
            self.children.values().filter(is_next).take(size + 1).map(refer).collect();
        let has_more = live.len() > size;
        live.truncate(size);
        (live, has_more)
    }
}

impl Child {
    /// A child at the time of its recording.
    pub fn of(call: &ChildCall) -> Self {
        Self {
            key: call.key.clone(),
            id: call.submit.id,
            digest: call.submit.fingerprint,
            is_detached: call.is_detached,
            end: None,
        }
    }

    fn is_live(&self) -> bool {
        !self.is_detached && self.end.is_none()
    }
}

fn find<T: Clone>(all: &BTreeMap<Name, T>, keys: &[&Name]) -> Vec<T> {
    keys.iter().filter_map(|key| all.get(*key).cloned()).collect()
}

fn signal_key(request: &RunRequest) -> Option<Name> {
    match request {
        RunRequest::Signal(SignalCall { key, .. }) => key.clone(),
        RunRequest::Message(message @ Message { body: Body::Signal(_), .. }) => Some(message.key()),
        RunRequest::Checkpoint(_) | RunRequest::Message(_) | RunRequest::Resume => None,
    }
}

/// Signals matter to a call that waits, to a task that waits, and to the next signal.
fn needs_signals(subject: &Subject, request: &Request) -> bool {
    let is_waiting = subject.live().is_some_and(|task| match &task.phase {
        Phase::Waiting(waiting) => matches!(**waiting, Waiting::For(_)),
        _ => false,
    });
    match request {
        Request::Run(request) => match &**request {
            RunRequest::Checkpoint(call) => call.wait().is_some(),
            RunRequest::Signal(_) => true,
            RunRequest::Message(message) => is_waiting || matches!(message.body, Body::Signal(_)),
            RunRequest::Resume => false,
        },
        Request::Sweep => is_waiting,
        _ => false,
    }
}
