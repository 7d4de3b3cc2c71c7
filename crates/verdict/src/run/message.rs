//! Messages: what a decision about one task asks of another.
//!
//! A message is not stored with its sender: it follows from the events of the sender's entry, so a decision and its
//! messages cannot differ, and `verify` derives them again. The carrier decides a message in the same batch if it can,
//! else it is saved in the commit of the sender's decision and decided later.
//!
//! Deciding a message is an ordinary request about the addressee. A message that arrives again changes nothing, and that
//! needs no list of messages: a child is spawned once under its id, ends once in its parent, is cancelled once, and a
//! signal has a key. So the rules bear any repetition and any order; only a message that overtakes the addressee's own
//! spawning is refused and stays saved. The store keeps the order per sender, for the signals' sake.

use crate::budget::Charge;
use crate::done::{Done, End, Reason};
use crate::event::{Event, Subject};
use crate::id::{Digest, Name, TaskId};
use crate::plan::{self, PlanMessage, PlanState};
use crate::request::{Cancel, CancelMode, Submit};
use crate::task::State;

use super::event::RunEvent;
use super::lineage::Lineage;
use super::request::ChildCall;
use super::signal::SignalCall;
use super::state::RunState;

/// What workers of a halted run are told, in the cancel signal.
pub const BUDGET_EXHAUSTED: &str = "budget_exhausted";

/// What workers of children are told whose parent has ended in another way.
pub const PARENT_ENDED: &str = "parent_ended";

/// The place of a message among all that its sender sent: the sender's history entry, and the place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageNumber {
    pub entry: u32,
    pub index: u32,
}

/// Sender and addressee share a scope.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    pub from: TaskId,
    pub number: MessageNumber,
    pub to: TaskId,
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Body {
    /// The addressee is to be created. Its input was stored in the commit of the sender's decision, under its id.
    Spawn {
        submit: Box<Submit>,
        lineage: Lineage,
    },
    ChildEnded {
        key: Name,
        state: State,
        record: Digest,
        /// What the child's budget comes to; `None` without one.
        charge: Option<Box<Charge>>,
        /// At which limit a step of a plan was halted, without its output: its run says it, too (S2-99). `None` for every other
        /// end.
        halt: Option<Box<End>>,
        /// The condition of a step of a plan did not hold: no downstream is kept from running by its skip.
        is_unneeded: bool,
        /// The API keys under which a step of a plan was done, if people are asked in it.
        done_by: Vec<Name>,
    },
    Cancel(Cancel),
    Signal(SignalCall),
    /// The root of a plan asks for something.
    Plan(PlanMessage),
}

impl Message {
    /// The idempotency key of a signal that a task sends.
    pub fn key(&self) -> Name {
        let MessageNumber { entry, index } = self.number;
        Name::from(format!("{}/{entry}/{index}", self.from))
    }
}

/// The messages of a decision that made `after` of the sender. Empty, and without cost, for a plain task.
pub(crate) fn sent(after: &Subject, events: &[Event], entry: Option<u32>) -> Vec<Message> {
    let (Some(from), Some(entry)) = (sender(after), entry) else { return Vec::new() };
    let spoken = events.iter().flat_map(|event| spoken(after, from, event));
    let addressed = spoken.chain(end_of_child(after));
    let number = |index| MessageNumber { entry, index: index as u32 };
    addressed
        .enumerate()
        .map(|(index, (to, body))| Message { from, number: number(index), to, body })
        .collect()
}

/// The task, if it may have something to say: it belongs to a durable run.
fn sender(subject: &Subject) -> Option<TaskId> {
    match subject {
        Subject::Absent => None,
        Subject::Live(task) => task.run.is_some().then_some(task.id),
        Subject::Done(done) => done.run.is_some().then_some(done.id),
    }
}

fn spoken(after: &Subject, from: TaskId, event: &Event) -> Vec<(TaskId, Body)> {
    let Event::Run(event) = event else { return Vec::new() };
    match &**event {
        RunEvent::ChildSpawned(child) => vec![spawn(after, from, child)],
        RunEvent::ChildrenCancelled { children, mode, .. } => {
            let why = why(after);
            children.iter().map(|child| (child.id, cancel(why, *mode))).collect()
        }
        RunEvent::Plan(event) => plan::message::spoken(after, from, event),
        _ => Vec::new(),
    }
}

fn spawn(after: &Subject, from: TaskId, child: &ChildCall) -> (TaskId, Body) {
    let key = child.key.clone();
    let lineage = if child.is_detached {
        Lineage::Detached { cause: from, key }
    } else {
        Lineage::Child { run: after.run_id().unwrap_or(from), parent: from, key }
    };
    (child.submit.id, Body::Spawn { submit: Box::new(child.submit.clone()), lineage })
}

/// What the workers of cancelled children are told.
fn why(parent: &Subject) -> &'static str {
    let end = parent.live().and_then(|task| task.closing()).map(|closing| closing.end.state);
    if end == Some(State::Halted) { BUDGET_EXHAUSTED } else { PARENT_ENDED }
}

fn cancel(why: &str, mode: CancelMode) -> Body {
    Body::Cancel(Cancel { reason: Some(why.into()), mode })
}

/// A task that has ended tells its parent.
fn end_of_child(after: &Subject) -> Option<(TaskId, Body)> {
    let Subject::Done(Done { run: Some(run), end, record, .. }) = after else { return None };
    let (parent, key) = run.lineage.as_ref()?.parent()?;
    let charge = run.balance.as_ref().map(|balance| Box::new(balance.charge()));
    let halt = halt_of_step(run, end).map(Box::new);
    let is_unneeded = end.reason == Some(Reason::ConditionFalse);
    let (key, state, record) = (key.clone(), end.state, *record);
    let done_by = match run.plan.as_deref() {
        Some(PlanState::Step(terms)) if terms.asks.is_none() => terms.done_by.clone(),
        _ => Vec::new(),
    };
    Some((parent, Body::ChildEnded { key, state, record, charge, halt, is_unneeded, done_by }))
}

fn halt_of_step(run: &RunState, end: &End) -> Option<End> {
    let is_step = matches!(run.plan.as_deref(), Some(PlanState::Step(_)));
    (is_step && end.state == State::Halted).then(|| End { output: None, ..end.clone() })
}
