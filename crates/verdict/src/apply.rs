//! One decision from request to record: decide, fold the events into the task, return what to
//! record.
//!
//! Every component that makes decisions goes through here: the coordinator, the conformance suite, `verify`, the model
//! checker and the fuzzer. So none of them can date a decision, fold its events or number its entry differently.
//! How an entry is stored, and when, is up to the caller.
//!
//! Invariants: a decision without events leaves the task as it was; a decision with events advances its revision by one,
//! and its entries by one if any event belongs in the history.

use crate::attempt::ClosedAttempt;
use crate::event::{Event, Subject};
use crate::planted::decide;
use crate::renewals::Renewals;
use crate::request::Request;
use crate::run::message::{self, Message};
use crate::time::Moment;
use crate::verdict::{Answer, Context, ReadSet, Verdict};

/// A decision that has been applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    pub answer: Answer,
    /// The moment the decision is dated.
    pub at: Moment,
    /// What to record; `None` when nothing changed.
    pub settled: Option<Settled>,
}

/// What to record of a decision that changed a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// In order, never empty.
    pub events: Vec<Event>,
    /// The fields that renewals had changed in the task before this decision; `None` for a new
    /// task.
    pub loaded: Option<Renewals>,
    /// The number of the decision's entry in the history; `None` for a renewal, which has none.
    pub entry: Option<u32>,
    /// What the decision asks of other tasks, in order. Each is decided in this batch or saved with this entry.
    pub messages: Vec<Message>,
}

impl Applied {
    /// The events, if any.
    pub fn events(&self) -> &[Event] {
        self.settled.as_ref().map_or(&[], |settled| &settled.events)
    }
}

/// Decides `request` about the task and applies the verdict.
pub fn apply(
    subject: &mut Subject,
    context: Context<'_>,
    request: &Request,
    at: Moment,
) -> Applied {
    let verdict = decide(ReadSet { subject, context }, request, at);
    apply_verdict(subject, verdict, at)
}

/// The second half of [`apply`], for a caller that inspects the task and the verdict in between.
///
/// The verdict must be the one on this very task at this moment.
pub fn apply_verdict(subject: &mut Subject, verdict: Verdict, at: Moment) -> Applied {
    let (at, Verdict { answer, events }) = (subject.dated(at), verdict);
    if events.is_empty() {
        return Applied { answer, at, settled: None };
    }
    let loaded = subject.live().map(Renewals::of);
    let before = std::mem::replace(subject, Subject::Absent);
    *subject = before.settle(&events, at.now);
    let entry = events.iter().any(Event::is_history).then(|| subject.entries());
    let messages = message::sent(subject, &events, entry);
    Applied { answer, at, settled: Some(Settled { events, loaded, entry, messages }) }
}

/// The attempts that these events closed.
pub fn closed_attempts(events: &[Event]) -> impl Iterator<Item = &ClosedAttempt> {
    events.iter().filter_map(|event| match event {
        Event::AttemptClosed { closed, .. } => Some(&**closed),
        _ => None,
    })
}
