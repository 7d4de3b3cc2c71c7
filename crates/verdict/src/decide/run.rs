//! The requests about durable runs, and what is loaded for them.

use super::{approvals, budget, checkpoint, inherit, message, plan, signal};
use crate::event::{Event, Subject};
use crate::run::{Loaded, RunAnswer, RunEvent, RunRefusal, RunRequest, Waiting};
use crate::task::{Phase, State, Task};
use crate::time::Moment;
use crate::verdict::{Answer, ReadSet, Refusal, Verdict};

/// What is loaded for a task that has no records yet.
static NOTHING: Loaded = Loaded {
    checkpoints: Vec::new(),
    children: Vec::new(),
    signals: Vec::new(),
    same_key: None,
    live: Vec::new(),
    has_more_live: false,
    plan: None,
};

pub(super) fn decide(read_set: ReadSet<'_>, request: &RunRequest, at: Moment) -> Verdict {
    match request {
        RunRequest::Checkpoint(call) => checkpoint::decide(read_set, call, at),
        RunRequest::Signal(call) => signal::decide(read_set, call, call.key.as_ref(), at),
        RunRequest::Message(message) => message::decide(read_set, message, at),
        RunRequest::Metered(metered) => budget::metered(read_set, metered, at),
        RunRequest::Inherit(asked) => inherit::decide(read_set, asked),
        RunRequest::Resume => resume(read_set.subject),
        RunRequest::Unpin => unpin(read_set.subject),
        RunRequest::Decide(call) => approvals::decide(read_set, call, at),
        RunRequest::Plan(request) => plan::decide(read_set, request, at),
    }
}

/// What was loaded. A store that loads nothing for a task with records would record things twice: that is a defect.
pub(super) fn loaded<'a>(read_set: ReadSet<'a>) -> &'a Loaded {
    read_set.context.run.unwrap_or_else(|| {
        let has_records = read_set.subject.live().is_some_and(|task| task.run.is_some());
        assert!(!has_records, "what a durable run's request names is loaded with it");
        &NOTHING
    })
}

/// An operator has deployed code that fits the checkpoints, or the checkpoints were right all along.
fn resume(subject: &Subject) -> Verdict {
    let task = match live(subject) {
        Ok(task) => task,
        Err(refusal) => return Verdict::refuse(refusal),
    };
    match &task.phase {
        Phase::Waiting(waiting) if matches!(**waiting, Waiting::Diverged(_)) => {
            let answer = RunAnswer::Resumed { state: State::Waiting };
            Verdict::new(answered(answer), vec![event(RunEvent::Resumed)])
        }
        _ => Verdict::refuse(Refusal::Run(RunRefusal::NotDiverged { state: task.state() })),
    }
}

/// The build of the run is gone, or another one fits its checkpoints. A worker that holds the lease keeps it.
fn unpin(subject: &Subject) -> Verdict {
    match live(subject) {
        Err(refusal) => Verdict::refuse(refusal),
        Ok(task) if task.pin().is_some() => {
            let answer = RunAnswer::Unpinned { state: task.state() };
            Verdict::new(answered(answer), vec![event(RunEvent::Unpinned)])
        }
        Ok(task) => Verdict::refuse(Refusal::Run(RunRefusal::NotPinned { state: task.state() })),
    }
}

/// The task, if it has not ended.
fn live(subject: &Subject) -> Result<&Task, Refusal> {
    match subject {
        Subject::Absent => Err(Refusal::TaskNotFound),
        Subject::Done(done) => Err(Refusal::RunAlreadyTerminal { state: done.end.state }),
        Subject::Live(task) => Ok(task),
    }
}

pub(super) fn answered(answer: RunAnswer) -> Answer {
    Answer::Run(Box::new(answer))
}

pub(super) fn event(event: RunEvent) -> Event {
    Event::Run(Box::new(event))
}
