//! What an arrival or the passage of time does to a task that waits.
//!
//! The decision that satisfies a wait records its checkpoint, which makes the task ready. Everything that arrives is
//! compared with the open wait in the decision that records the arrival, so no wake-up is lost.

use super::run::{event, loaded};
use crate::event::Event;
use crate::id::{Digest, Name};
use crate::run::wait::Standing;
use crate::run::{Checkpoint, Closing, Recorded, RunEvent, Signal, Wait, WaitRecord, Waiting};
use crate::task::{Phase, Task};
use crate::time::Time;
use crate::verdict::ReadSet;

/// The wait of a suspended task.
pub(crate) fn open_wait(task: &Task) -> Option<&Wait> {
    match &task.phase {
        Phase::Waiting(waiting) => match &**waiting {
            Waiting::For(wait) => Some(wait),
            Waiting::Ready { .. }
            | Waiting::Diverged(_)
            | Waiting::Closing(_)
            | Waiting::Blocked { .. }
            | Waiting::Steps => None,
        },
        Phase::Queued { .. } | Phase::Retry { .. } | Phase::Running(_) => None,
    }
}

/// After a child's end was recorded as the next checkpoint.
pub(super) fn after_child(
    task: &Task,
    key: &Name,
    signals: &[Signal],
    number: u32,
    now: Time,
) -> Option<Event> {
    let wait = open_wait(task)?;
    advance(wait, wait.with_child(key, signals, now), number, now)
}

/// After a signal, the last of these, was recorded.
pub(super) fn after_signal(task: &Task, signals: &[Signal], now: Time) -> Option<Event> {
    let wait = open_wait(task)?;
    advance(wait, wait.with_signal(signals, now), next_number(task), now)
}

/// After time has passed.
pub(super) fn wake(read_set: ReadSet<'_>, task: &Task, wait: &Wait, now: Time) -> Option<Event> {
    if !wait.timer()?.has_come(now) {
        return None;
    }
    let signals = &loaded(read_set).signals;
    advance(wait, wait.with_time(signals, now), next_number(task), now)
}

fn advance(wait: &Wait, standing: Standing, number: u32, now: Time) -> Option<Event> {
    match standing {
        Standing::Satisfied(record) => {
            Some(satisfied(&wait.key, wait.digest, record, Recording { number, attempt: 0, now }))
        }
        Standing::Missing(missing) if missing != wait.missing => {
            Some(event(RunEvent::WaitAdvanced { missing }))
        }
        Standing::Missing(_) => None,
    }
}

/// Where and when a checkpoint is recorded, and in which attempt.
#[derive(Clone, Copy)]
pub(super) struct Recording {
    pub(super) number: u32,
    pub(super) attempt: u32,
    pub(super) now: Time,
}

impl Recording {
    pub(super) fn event(self, key: &Name, digest: Digest, recorded: Recorded) -> Event {
        let Recording { number, attempt, now } = self;
        let checkpoint =
            Checkpoint { number, key: key.clone(), digest, attempt, at: now, recorded };
        event(RunEvent::Checkpointed(Box::new(checkpoint)))
    }
}

pub(super) fn satisfied(key: &Name, digest: Digest, record: WaitRecord, at: Recording) -> Event {
    at.event(key, digest, Recorded::Wait(record))
}

pub(super) fn next_number(task: &Task) -> u32 {
    task.run.as_ref().map_or(1, |run| run.next_checkpoint())
}

/// Cancels the next children of a closing task.
pub(super) fn next_slice(read_set: ReadSet<'_>, closing: &Closing, now: Time) -> Option<Event> {
    if !closing.slice.as_ref()?.due.has_come(now) {
        return None;
    }
    let loaded = loaded(read_set);
    Some(event(RunEvent::ChildrenCancelled {
        children: loaded.live.clone(),
        mode: closing.mode,
        has_more: loaded.has_more_live,
    }))
}
