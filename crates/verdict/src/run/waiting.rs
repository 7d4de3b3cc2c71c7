//! The phase of a task that neither runs nor is ready for a worker: suspended, diverged, or closing.

use crate::done::End;
use crate::id::{Name, Text};
use crate::request::CancelMode;
use crate::task::State;
use crate::time::Time;

use super::wait::Wait;

/// Why a task is `waiting`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Waiting {
    /// Its call asked for something that is not there.
    For(Wait),
    /// What it waited for is there. It keeps its state until a worker leases it.
    Ready { due: Time },
    /// Its code does not match its checkpoints. An operator resumes it after a deploy; the deadline stays in force.
    Diverged(Divergence),
    /// Its end is decided, and live children are still to end.
    Closing(Closing),
    /// It is a step of a plan. It may be leased from `due` on, and not before all upstreams have ended.
    Blocked { due: Option<Time> },
    /// It is the root of a plan, and waits until all steps have ended.
    Steps,
}

/// Where code and checkpoints differ, as the worker says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Divergence {
    pub branch: Text,
    /// The place in the branch, from 0.
    pub index: u32,
    pub recorded: Text,
    pub actual: Text,
}

/// An end that waits for children.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Closing {
    /// The first reason to end is final.
    pub end: End,
    /// How the children are cancelled.
    pub mode: CancelMode,
    /// The children that are still to be cancelled; `None` when all were told.
    pub slice: Option<Slice>,
}

/// The children that the next decision about a closing task cancels.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Slice {
    pub due: Time,
    /// The key of the last child that was cancelled: children are cancelled in the order of their keys.
    pub after: Option<Name>,
}

impl Closing {
    /// A closing that begins now, with all children still to be cancelled.
    pub(crate) fn begin(end: End, mode: CancelMode, now: Time) -> Self {
        Self { end, mode, slice: Some(Slice { due: now, after: None }) }
    }
}

impl Waiting {
    pub const fn state(&self) -> State {
        match self {
            Waiting::For(_)
            | Waiting::Ready { .. }
            | Waiting::Diverged(_)
            | Waiting::Closing(_)
            | Waiting::Steps => State::Waiting,
            Waiting::Blocked { .. } => State::Blocked,
        }
    }

    pub fn claimable_at(&self) -> Option<Time> {
        match self {
            Waiting::Ready { due } => Some(*due),
            Waiting::Blocked { due } => *due,
            Waiting::For(_) | Waiting::Diverged(_) | Waiting::Closing(_) | Waiting::Steps => None,
        }
    }

    /// When time changes the task, given its deadline. What is closing has an end, and no deadline changes it.
    pub fn wakes_at(&self, deadline: Option<Time>) -> Option<Time> {
        let own = match self {
            Waiting::For(wait) => {
                Some(wait.timer().map_or(wait.gives_up_at, |timer| timer.min(wait.gives_up_at)))
            }
            Waiting::Ready { .. }
            | Waiting::Diverged(_)
            | Waiting::Blocked { .. }
            | Waiting::Steps => None,
            Waiting::Closing(closing) => return closing.slice.as_ref().map(|slice| slice.due),
        };
        [own, deadline].into_iter().flatten().min()
    }
}
