//! The records of one durable run's task in memory: checkpoints, children and signals, as events make them.
//!
//! This is what a store keeps in rows, with the one operation that a store needs ([`Records::load`]). The tests, the model
//! and `verify` use it, and an engine is right if it loads what this loads. It decides nothing.

use std::collections::BTreeMap;

use crate::event::{Event, Subject};
use crate::id::Name;
use crate::plan::limits::STEPS_PER_DECISION;
use crate::plan::{PlanEvent, PlanLoaded, PlanNeed, PlanRecords, PlanStep};
use crate::request::Request;

use super::checkpoint::{Checkpoint, Recorded};
use super::event::RunEvent;
use super::limits::SLICE_MAX;
use super::loaded::{Child, ChildRef, Loaded};
use super::named::Named;
use super::request::ChildCall;
use super::signal::Signal;
use super::waiting::Slice;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Records {
    checkpoints: BTreeMap<Name, Checkpoint>,
    children: BTreeMap<Name, Child>,
    /// Signals not taken, by number.
    pending: BTreeMap<u32, Signal>,
    /// All signals with an idempotency key, by that key.
    keyed: BTreeMap<Name, Signal>,
    plan: PlanRecords,
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
            RunEvent::ChildInherited(child) => {
                self.children.insert(child.key.clone(), (**child).clone());
            }
            RunEvent::SignalReceived(signal) => {
                self.pending.insert(signal.number, (**signal).clone());
                if let Some(key) = &signal.key {
                    self.keyed.insert(key.clone(), (**signal).clone());
                }
            }
            RunEvent::Plan(event) => self.note_plan(event),
            RunEvent::Spawned { .. }
            | RunEvent::WaitAdvanced { .. }
            | RunEvent::Closing(..)
            | RunEvent::ChildrenCancelled { .. }
            | RunEvent::Hastened
            | RunEvent::ApprovalOpened(_)
            | RunEvent::ApprovalVoted { .. }
            | RunEvent::ApprovalClosed { .. }
            | RunEvent::Budget(_)
            | RunEvent::Forked { .. }
            | RunEvent::BuildNoted(_)
            | RunEvent::Unpinned
            | RunEvent::Resumed => {}
        }
    }

    fn note_plan(&mut self, event: &PlanEvent) {
        self.plan.note(event);
        if let PlanEvent::StepsSpawned(steps) = event {
            for child in steps.iter().map(|spawned| &spawned.step.child) {
                self.children.insert(child.key.clone(), Child::of(child));
            }
        }
    }

    /// The steps of a plan that is submitted in the same commit.
    pub fn put_steps(&mut self, steps: &[PlanStep]) {
        self.plan.put(steps);
    }

    /// What a store loaded of a plan.
    pub fn put_plan(&mut self, need: PlanNeed<'_>, loaded: PlanLoaded) {
        self.plan.put_loaded(need, loaded);
    }

    /// The steps of the task's plan.
    pub fn plan(&self) -> &PlanRecords {
        &self.plan
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
        self.load_named(subject, &Named::by(request), slice)
    }

    /// What a request names: for a store that puts its rows here together with what the same batch has decided.
    pub fn load_named(&self, subject: &Subject, named: &Named, slice: usize) -> Loaded {
        let mut loaded = Loaded {
            checkpoints: find(&self.checkpoints, &named.keys),
            children: find(&self.children, &named.keys),
            same_key: named.same_key.as_ref().and_then(|key| self.keyed.get(key).cloned()),
            ..Loaded::default()
        };
        if named.needs_signals(subject) {
            loaded.signals = self.pending.values().cloned().collect();
        }
        if let Some(need) = PlanNeed::of(named, subject) {
            let slice = slice.min(STEPS_PER_DECISION);
            loaded.plan = Some(Box::new(self.plan.load(need, slice)));
        }
        if let Some(next) = named.slice_of(subject) {
            (loaded.live, loaded.has_more_live) = self.slice(next, slice);
        }
        loaded
    }

    /// Adds what a store loaded for one request, before any decision is noted: a signal that was taken since would come
    /// back.
    ///
    /// Records that are made of nothing else hold only what was loaded, so they answer only the requests that it was
    /// loaded for. Slices that sweeps take are not among it: they belong to one decision.
    pub fn put(&mut self, loaded: Loaded) {
        let Loaded { checkpoints, children, signals, same_key, live: _, has_more_live: _, plan } =
            loaded;
        let ended = plan.and_then(|plan| Some((plan.ended.as_ref()?.step.child.key.clone(), plan)));
        if let Some((key, plan)) = ended {
            self.plan.put_loaded(PlanNeed::Ended { key: &key }, *plan);
        }
        for checkpoint in checkpoints {
            self.checkpoints.entry(checkpoint.key.clone()).or_insert(checkpoint);
        }
        for child in children {
            self.children.entry(child.key.clone()).or_insert(child);
        }
        for signal in signals {
            self.pending.entry(signal.number).or_insert(signal);
        }
        if let Some((key, signal)) = same_key.and_then(|it| Some((it.key.clone()?, it))) {
            self.keyed.entry(key).or_insert(signal);
        }
    }

    pub fn checkpoint(&self, key: &Name) -> Option<&Checkpoint> {
        self.checkpoints.get(key)
    }

    pub fn child(&self, key: &Name) -> Option<&Child> {
        self.children.get(key)
    }

    pub fn checkpoints(&self) -> impl Iterator<Item = &Checkpoint> {
        self.checkpoints.values()
    }

    pub fn children(&self) -> impl Iterator<Item = &Child> {
        self.children.values()
    }

    /// The signals that were not taken, in order.
    pub fn pending(&self) -> impl Iterator<Item = &Signal> {
        self.pending.values()
    }

    fn slice(&self, slice: &Slice, size: usize) -> (Vec<ChildRef>, bool) {
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

fn find<T: Clone>(all: &BTreeMap<Name, T>, keys: &[Name]) -> Vec<T> {
    keys.iter().filter_map(|key| all.get(key).cloned()).collect()
}
