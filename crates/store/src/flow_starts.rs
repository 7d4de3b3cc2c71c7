//! Starts of tasks whose flow key has a rate: which of them a change adds, and until when each is remembered.
//!
//! A start is a grant in the history of a task, so whoever saves the history has the starts: also a store that tasks are moved
//! to. They have rows of their own, because they outlive the tasks, and histories are not read by key.

use verdict::flow::{Rate, flow_of};
use verdict::{Event, Subject, TaskId, Time};

use crate::row::{Change, Entry, FlowRef};

/// One start of a key with a rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FlowStart {
    pub(crate) flow: FlowRef,
    pub(crate) task: TaskId,
    /// The entry of the task's history that granted it.
    pub(crate) entry: u32,
    pub(crate) at: Time,
    /// When it is out of the window of the rate that it was granted with.
    pub(crate) until: Time,
}

/// The starts that a change adds and that are still in their window. A task without a rate has none.
pub(crate) fn starts_of(change: &Change, now: Time) -> Vec<FlowStart> {
    let Some((flow, rate)) = rated(&change.after) else { return Vec::new() };
    let task = match &change.after {
        Subject::Absent => return Vec::new(),
        Subject::Live(task) => task.id,
        Subject::Done(done) => done.id,
    };
    let start = |entry: &Entry| FlowStart {
        flow: flow.clone(),
        task,
        entry: entry.n,
        at: entry.at,
        until: entry.at.plus(rate.per),
    };
    let starts = change.entries.iter().filter(|entry| is_start(entry)).map(start);
    starts.filter(|start| !start.until.has_come(now)).collect()
}

fn rated(subject: &Subject) -> Option<(FlowRef, Rate)> {
    let flow = flow_of(subject)?;
    let (rate, scope) = (flow.rate?, subject.scope()?);
    Some((FlowRef { scope: scope.clone(), key: flow.name.clone() }, rate))
}

fn is_start(entry: &Entry) -> bool {
    entry.events.iter().any(|event| matches!(event, Event::Granted { .. }))
}
