//! The engine of durable runs and plans: suspends an attempt, parks a diverged one, moves a task to its next stage, skips steps,
//! and ends a task whose children have ended.
//!
//! It owns checkpoints and waits (S2-15). It neither grants leases nor decides how a task ends (S2-16): the end of a
//! closing task was decided by another owner, and the engine carries it out.

use crate::attempt::AttemptOutcome;
use crate::done::{End, Reason};
use crate::event::Event;
use crate::id::Digest;
use crate::plan::Turn;
use crate::run::{Divergence, Wait, Waiting};
use crate::task::{State, Task};
use crate::time::Time;
use crate::transition::{self, Closing};

/// Owns the transitions into and out of `waiting` that no report, no time and no cancel causes.
pub struct Engine(());

/// The lease is released. The resume is a new attempt and counts towards no limit.
pub(super) fn suspend(task: &Task, call: Digest, wait: Wait, now: Time) -> Event {
    let closing = closing(AttemptOutcome::Suspended, Reason::Suspended, call);
    transition::suspend(&Engine(()), task, closing, Waiting::For(wait), now)
}

/// Nothing is guessed: the task waits for an operator (E4).
pub(super) fn park(task: &Task, call: Digest, divergence: Divergence, now: Time) -> Event {
    transition::suspend(&Engine(()), task, diverged(call), Waiting::Diverged(divergence), now)
}

/// The last child has ended.
pub(super) fn end_closing(task: &Task) -> Event {
    transition::end_closing(&Engine(()), task)
}

/// An upstream keeps the step of a plan from running.
pub(super) fn skip(task: &Task, end: End) -> Event {
    transition::end_step(&Engine(()), task, end)
}

/// The input of a task that is ready cannot be resolved.
pub(super) fn refuse_input(task: &Task, end: End) -> Event {
    transition::end_step(&Engine(()), task, end)
}

/// People have decided what the step asks them.
pub(super) fn end_asking(task: &Task, end: End) -> Event {
    transition::end_step(&Engine(()), task, end)
}

/// All steps of a plan have ended.
pub(super) fn end_plan(task: &Task, end: End) -> Event {
    transition::end_plan(&Engine(()), task, end)
}

/// The end that another owner decided is the end of a stage: the task enters the next one. `from` is its state before.
pub(super) fn next_stage(task: &Task, turn: Turn, to: State) -> Turn {
    transition::next_stage(&Engine(()), task, turn, to)
}

/// How an attempt closes whose code diverged.
pub(super) fn diverged(call: Digest) -> Closing {
    closing(AttemptOutcome::Diverged, Reason::Diverged, call)
}

fn closing(outcome: AttemptOutcome, reason: Reason, call: Digest) -> Closing {
    Closing { report: Some(call), ..Closing::unreported(outcome, reason) }
}
