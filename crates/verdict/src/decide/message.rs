//! A message of another task. Deciding it is an ordinary decision about the addressee.
//!
//! A message that arrives again changes nothing ([`crate::run::message`] says how it is recognised), and one that reaches
//! a task that has ended changes nothing either.

use super::waiting::{self, Recording};
use super::{cancel, engine, run, signal, steps, submit};
use crate::budget::{BudgetEvent, Charge};
use crate::done::End;
use crate::event::{Event, Subject};
use crate::id::Name;
use crate::plan::{PlanEvent, PlanMessage};
use crate::run::{Body, Child, ChildEnd, Message, Recorded, RunEvent, RunRefusal};
use crate::task::Task;
use crate::time::{Moment, Time};
use crate::transition::plan_event;
use crate::verdict::{Answer, ReadSet, Refusal, Verdict};

pub(super) fn decide(read_set: ReadSet<'_>, message: &Message, at: Moment) -> Verdict {
    match (&message.body, read_set.subject) {
        (Body::Spawn { submit, lineage }, Subject::Absent) => {
            let event = submit::spawn(submit, lineage, at.now);
            Verdict::new(Answer::Done, vec![event])
        }
        (
            Body::Plan(PlanMessage::Spawn { submit, lineage, terms, is_blocked }),
            Subject::Absent,
        ) => {
            let event = submit::spawn_step(submit, lineage, terms.clone(), *is_blocked, at.now);
            Verdict::new(Answer::Done, vec![event])
        }
        (_, Subject::Absent) => Verdict::refuse(Refusal::Run(RunRefusal::MessageEarly)),
        (Body::Spawn { .. }, _) | (_, Subject::Done(_)) => Verdict::nothing(),
        (
            Body::ChildEnded { key, state, record, charge, halt, is_unneeded, done_by },
            Subject::Live(task),
        ) => match known_child(read_set, key, message) {
            Err(refusal) => Verdict::refuse(refusal),
            Ok(child) if child.end.is_some() => Verdict::nothing(),
            Ok(child) => {
                let end = ChildEnd { child: child.id, state: *state, record: *record };
                let how = (halt.as_deref(), *is_unneeded);
                let ended = child_ended(read_set, task, child, end, how, at.now);
                refund(task, charge.as_deref(), with_keys(done_by, ended))
            }
        },
        (Body::Cancel(asked), Subject::Live(task)) if steps::outlives(task, asked) => {
            Verdict::nothing()
        }
        (Body::Plan(asked), Subject::Live(task)) => steps::told(task, asked, at.now),
        (Body::Cancel(asked), Subject::Live(_)) => effect(cancel::decide(read_set, asked, at)),
        (Body::Signal(call), Subject::Live(_)) => {
            effect(signal::decide(read_set, call, Some(&message.key()), at))
        }
    }
}

/// No caller waits for the answer to a message: the answer says only whether the message took effect.
fn effect(verdict: Verdict) -> Verdict {
    let answer = match verdict.answer {
        Answer::Refused(refusal) => Answer::Refused(refusal),
        _ if verdict.events.is_empty() => Answer::Nothing,
        _ => Answer::Done,
    };
    Verdict { answer, events: verdict.events }
}

fn known_child<'a>(
    read_set: ReadSet<'a>,
    key: &Name,
    message: &Message,
) -> Result<&'a Child, Refusal> {
    let child = run::loaded(read_set).child(key);
    let is_sender = |child: &&Child| child.id == message.from && !child.is_detached;
    child
        .filter(is_sender)
        .ok_or_else(|| Refusal::Run(RunRefusal::UnknownChild { key: key.clone() }))
}

/// The end of a child is a checkpoint of its parent, whether or not the parent waits for it. If the parent's own end is
/// decided, it ends with its last child.
fn child_ended(
    read_set: ReadSet<'_>,
    task: &Task,
    child: &Child,
    end: ChildEnd,
    (halt, is_unneeded): (Option<&End>, bool),
    now: Time,
) -> Verdict {
    let (number, state) = (waiting::next_number(task), end.state);
    let recording = Recording { number, attempt: 0, now };
    let mut events = vec![recording.event(&child.key, child.digest, Recorded::Child(end))];
    match task.plan_root() {
        Some(root) => {
            events.extend(steps::after_step(read_set, task, root, (state, is_unneeded), halt))
        }
        None => events.extend(after_end(read_set, task, &child.key, number, now)),
    }
    Verdict::new(Answer::Done, events)
}

/// The root of a plan learns under which keys its step was done, before it releases a step that asks people.
fn with_keys(done_by: &[Name], ended: Verdict) -> Verdict {
    if done_by.is_empty() {
        return ended;
    }
    let done_by = plan_event(PlanEvent::DoneBy(done_by.to_vec()));
    Verdict { events: [done_by].into_iter().chain(ended.events).collect(), ..ended }
}

/// What was held for the child is free again, and what it used is used. First of all: the same decision may end the task.
fn refund(task: &Task, charge: Option<&Charge>, ended: Verdict) -> Verdict {
    let Some(charge) = charge.filter(|_| task.balance().is_some()) else { return ended };
    let refunded = RunEvent::Budget(Box::new(BudgetEvent::Refunded(*charge)));
    let events = [run::event(refunded)].into_iter().chain(ended.events).collect();
    Verdict { events, ..ended }
}

fn after_end(
    read_set: ReadSet<'_>,
    task: &Task,
    key: &Name,
    number: u32,
    now: Time,
) -> Option<Event> {
    if task.closing().is_some() {
        return (task.live_children() == 1).then(|| engine::end_closing(task));
    }
    let signals = &run::loaded(read_set).signals;
    waiting::after_child(task, key, signals, number + 1, now)
}
