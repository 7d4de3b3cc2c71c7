//! Taking over the records of a run that has ended: what makes a new run a fork ([`crate::fork`]).
//!
//! Only a task that was just submitted takes anything over, in the commit of its submission. Its own budget pays for the children
//! that start again, and for nothing that was recorded before.

use super::call_items::fund;
use super::run::event;
use crate::event::Event;
use crate::request::Submit;
use crate::run::{Checkpoint, ChildCall, Inherit, Inherited, RunEvent, RunRefusal};
use crate::task::{Phase, Task};
use crate::verdict::{Answer, ReadSet, Refusal, Verdict};

pub(super) fn decide(read_set: ReadSet<'_>, asked: &Inherit) -> Verdict {
    let Some(task) = read_set.subject.live().filter(|task| is_new(task)) else {
        return Verdict::nothing();
    };
    match events(task, asked) {
        Ok(events) => Verdict::new(Answer::Done, events),
        Err(refusal) => Verdict::refuse(Refusal::Run(refusal)),
    }
}

fn is_new(task: &Task) -> bool {
    task.attempt == 0 && task.cancel.is_none() && matches!(task.phase, Phase::Queued { .. })
}

fn events(task: &Task, asked: &Inherit) -> Result<Vec<Event>, RunRefusal> {
    let run = task.run.as_deref();
    let is_first = run.is_none_or(|run| run.forked_from.is_none());
    let forked = RunEvent::Forked { from: asked.from, record: asked.record };
    let mut events: Vec<Event> = is_first.then(|| event(forked)).into_iter().collect();
    let mut number = run.map_or(0, |run| run.checkpoints);
    let mut balance = task.balance().cloned();
    for item in &asked.items {
        let taken = match item {
            Inherited::Signal(signal) => RunEvent::SignalReceived(Box::new(signal.clone())),
            Inherited::Child(child) => RunEvent::ChildInherited(Box::new(child.clone())),
            Inherited::Again(child) => {
                let mut submit = again(task, child);
                if let Some(balance) = &mut balance {
                    fund(balance, &child.key, &mut submit)?;
                }
                RunEvent::ChildSpawned(Box::new(ChildCall { submit, ..child.clone() }))
            }
            Inherited::Checkpoint(checkpoint) => {
                let checkpoint = Checkpoint {
                    number: number.saturating_add(1),
                    attempt: 0,
                    ..checkpoint.clone()
                };
                RunEvent::Checkpointed(Box::new(checkpoint))
            }
        };
        number += u32::from(!matches!(item, Inherited::Signal(_)));
        events.push(event(taken));
    }
    Ok(events)
}

/// A child that starts again shares the new run's scope and deadline.
fn again(task: &Task, child: &ChildCall) -> Submit {
    let mut submit = Submit { scope: task.scope.clone(), ..child.submit.clone() };
    let deadlines = [task.policy.deadline, submit.policy.deadline];
    submit.policy.deadline = deadlines.into_iter().flatten().min();
    submit
}
