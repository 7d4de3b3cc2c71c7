//! A worker reports that execution begins.

use super::caller::{self, Call};
use super::cancel;
use crate::event::Event;
use crate::request::Started;
use crate::task::{Lease, State, Task};
use crate::time::Moment;
use crate::verdict::{Answer, ReadSet, Refusal, Verdict};

pub(super) fn decide(read_set: ReadSet<'_>, started: &Started, at: Moment) -> Verdict {
    let checked = caller::recognise(read_set, &started.caller, at)
        .and_then(|()| caller::authorise(read_set, &started.caller, Call::Started, at));
    match checked {
        Err(refusal) => Verdict::refuse(refusal),
        Ok((task, _)) if task.cancel.is_some() => refuse_cancelled(task, at),
        Ok((_, lease)) => acknowledge(lease),
    }
}

/// A start that meets a cancel request is refused, and the task ends here (S4-50).
fn refuse_cancelled(task: &Task, at: Moment) -> Verdict {
    let refusal = Refusal::TaskAlreadyTerminal { state: State::Cancelled };
    Verdict::new(Answer::Refused(refusal), vec![cancel::before_start(task, at.now)])
}

/// A worker may repeat its start; only the first one is an event.
fn acknowledge(lease: &Lease) -> Verdict {
    let events = if lease.started_at.is_none() { vec![Event::Started] } else { Vec::new() };
    Verdict::new(Answer::Acknowledged, events)
}
