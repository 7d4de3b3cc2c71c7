//! The rows that follow from the events of a change: what every engine writes for a durable run.

use std::collections::{BTreeMap, BTreeSet};

use verdict::plan::PlanEvent;
use verdict::run::{Checkpoint, Child, Recorded, RunEvent, Signal, Wait};
use verdict::{Event, Name, Next, RunState, State, Subject, Time};

use crate::row::{Change, Entry};
use crate::runs::steps::CountedStep;
use crate::tables::long_wait;

/// What a change writes besides the task, its attempts and its history. Empty for every plain task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunRows<'a> {
    pub checkpoints: Vec<&'a Checkpoint>,
    /// Children to insert, already ended if they ended in this change.
    pub children: Vec<StoredChild>,
    /// Children that have ended, and that an earlier change inserted.
    pub ended: Vec<EndedChild<'a>>,
    /// Signals to insert, already taken if they were taken in this change.
    pub signals: Vec<(&'a Signal, bool)>,
    /// Numbers of signals that were taken, and that an earlier change inserted.
    pub taken: BTreeSet<u32>,
    /// The wait that begins, if its items have a row of their own. It replaces an earlier one of the task.
    pub wait: Option<&'a Wait>,
    /// Whether the task may be offered elsewhere than before: it entered another stage, and with it another kind, queue or
    /// lease, or it is or was pinned to a build.
    pub is_moved: bool,
    /// Steps of a plan of which an upstream has ended, by key, as they are after the change.
    pub counted: BTreeMap<&'a Name, CountedStep<'a>>,
}

/// The end of a child in its parent's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedChild<'a> {
    pub key: &'a Name,
    pub state: State,
}

/// A child as it is stored with its parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredChild {
    /// Its place among all checkpoints and started children of the parent, from 1.
    pub number: u32,
    /// When the parent asked for it.
    pub at: Time,
    pub child: Child,
}

/// A signal of a task, and whether a wait has taken it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSignal {
    pub signal: Signal,
    pub is_taken: bool,
}

impl<'a> RunRows<'a> {
    pub fn of(change: &'a Change) -> Self {
        Self::of_parts(change.before, &change.after, &change.entries)
    }

    /// Whether a task has any: it belongs to a durable run.
    pub fn are_of(after: &Subject) -> bool {
        run_of(after).is_some()
    }

    /// The rows of a change whose parts were separated.
    pub fn of_parts(before: Option<u32>, after: &'a Subject, entries: &'a [Entry]) -> Self {
        let mut rows = Self::default();
        if !Self::are_of(after) {
            return rows;
        }
        let mut number = first_number(after, entries);
        for entry in entries {
            for event in run_events(&entry.events) {
                rows.add(event, number, entry.at);
                number += numbers_of(event);
            }
        }
        let begins = before.is_none() || begins_waiting(entries);
        rows.wait = after.live().filter(|_| begins).and_then(long_wait);
        let is_pinned = after.live().is_some_and(|task| task.pin().is_some());
        rows.is_moved = before.is_some() && (is_pinned || entries.iter().any(Self::is_move));
        rows
    }

    /// Whether the task left the queue in which it was offered by this decision: it entered another stage, or is no longer
    /// pinned to a build. When a task becomes pinned depends on more than one decision.
    pub fn is_move(entry: &Entry) -> bool {
        entry.events.iter().any(leaves_its_queue)
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn add(&mut self, event: &'a RunEvent, number: u32, at: Time) {
        match event {
            RunEvent::Checkpointed(checkpoint) => self.add_checkpoint(checkpoint),
            RunEvent::ChildSpawned(call) => {
                self.children.push(StoredChild { number, at, child: Child::of(call) });
            }
            RunEvent::ChildInherited(child) => {
                self.children.push(StoredChild { number, at, child: (**child).clone() });
            }
            RunEvent::SignalReceived(signal) => self.signals.push((signal, false)),
            RunEvent::Plan(event) => self.add_plan(event, number, at),
            RunEvent::Spawned { .. }
            | RunEvent::WaitAdvanced { .. }
            | RunEvent::Closing(..)
            | RunEvent::ChildrenCancelled { .. }
            | RunEvent::Hastened
            | RunEvent::Resumed
            | RunEvent::BuildNoted(_)
            | RunEvent::Unpinned
            | RunEvent::ApprovalOpened(_)
            | RunEvent::ApprovalVoted { .. }
            | RunEvent::ApprovalClosed { .. }
            | RunEvent::Budget(_)
            | RunEvent::Forked { .. } => {}
        }
    }

    fn add_plan(&mut self, event: &'a PlanEvent, number: u32, at: Time) {
        match event {
            PlanEvent::StepsSpawned(steps) => {
                let children = steps.iter().map(|spawned| Child::of(&spawned.step.child));
                let started = (number..).zip(children);
                self.children.extend(started.map(|(number, child)| StoredChild {
                    number,
                    at,
                    child,
                }));
            }
            PlanEvent::DownstreamsTold { told, .. } => {
                for told in told {
                    let (key, missing, blame) = (&told.key, told.missing, told.blame.as_ref());
                    self.counted.insert(key, CountedStep { key, missing, blame });
                }
            }
            PlanEvent::Planned(_)
            | PlanEvent::StageEntered(_)
            | PlanEvent::StepBlamed(_)
            | PlanEvent::StepSpawned { .. }
            | PlanEvent::Released { .. }
            | PlanEvent::Prepared { .. }
            | PlanEvent::DoneBy(_) => {}
        }
    }

    fn add_checkpoint(&mut self, checkpoint: &'a Checkpoint) {
        match &checkpoint.recorded {
            Recorded::Step(_) => {}
            Recorded::Wait(wait) => {
                wait.taken.iter().for_each(|taken| self.take(taken.signal));
            }
            Recorded::Child(end) => self.end_child(&checkpoint.key, end.state),
        }
        self.checkpoints.push(checkpoint);
    }

    fn take(&mut self, number: u32) {
        match self.signals.iter_mut().find(|(signal, _)| signal.number == number) {
            Some((_, is_taken)) => *is_taken = true,
            None => drop(self.taken.insert(number)),
        }
    }

    fn end_child(&mut self, key: &'a Name, state: State) {
        match self.children.iter_mut().find(|started| started.child.key == *key) {
            Some(started) => started.child.end = Some(state),
            None => self.ended.push(EndedChild { key, state }),
        }
    }
}

fn run_of(after: &Subject) -> Option<&RunState> {
    match after {
        Subject::Absent => None,
        Subject::Live(task) => task.run.as_deref(),
        Subject::Done(done) => done.run.as_deref(),
    }
}

fn run_events(events: &[Event]) -> impl Iterator<Item = &RunEvent> {
    events.iter().filter_map(|event| match event {
        Event::Run(event) => Some(&**event),
        _ => None,
    })
}

/// How many numbers an event takes: checkpoints and started children share one series.
fn numbers_of(event: &RunEvent) -> u32 {
    match event {
        RunEvent::Checkpointed(_) | RunEvent::ChildSpawned(_) | RunEvent::ChildInherited(_) => 1,
        RunEvent::Plan(event) => match &**event {
            PlanEvent::StepsSpawned(steps) => steps.len() as u32,
            _ => 0,
        },
        _ => 0,
    }
}

/// The number of the first record of this change, from the number of the last one.
fn first_number(after: &Subject, entries: &[Entry]) -> u32 {
    let last = run_of(after).map_or(0, |run| run.checkpoints);
    let events = entries.iter().flat_map(|entry| run_events(&entry.events));
    let added: u32 = events.map(numbers_of).sum();
    last.saturating_sub(added) + 1
}

fn leaves_its_queue(event: &Event) -> bool {
    match event {
        Event::AttemptClosed { next: Next::Stage(_), .. } => true,
        Event::Run(event) => match &**event {
            RunEvent::Plan(event) => matches!(**event, PlanEvent::StageEntered(_)),
            RunEvent::Unpinned => true,
            _ => false,
        },
        _ => false,
    }
}

/// Whether the wait in which the change leaves its task is new.
fn begins_waiting(entries: &[Entry]) -> bool {
    let mut events = entries.iter().flat_map(|entry| &entry.events);
    events.any(|event| matches!(event, Event::AttemptClosed { next: Next::Wait(_), .. }))
}
