//! What a run takes over from one that has ended, when it is submitted as a fork of it ([`crate::fork`]).
//!
//! The records become those of the new run, under new numbers, so that the new run needs nothing of the old one and replay
//! finds everything where it found it before. What they used was used by the old run and counts nothing here: no worker of the
//! new run recorded them, which is what their attempt 0 says.

use crate::id::{Digest, TaskId};

use super::checkpoint::Checkpoint;
use super::loaded::Child;
use super::request::ChildCall;
use super::signal::Signal;

/// Records of an ended run for a task that was just submitted. Long records come in several requests of one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inherit {
    /// The run that they come from.
    pub from: TaskId,
    /// The digest of its record, which the record of the new run includes.
    pub record: Digest,
    /// In order: signals first, then everything else by its number.
    pub items: Vec<Inherited>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inherited {
    /// A signal under its own number, taken or not.
    Signal(Signal),
    /// A step or a wait. The end of a child is a step with its output, because the child belongs to the old run.
    Checkpoint(Checkpoint),
    /// A child of the old run whose work is not done again, or a detached one.
    Child(Child),
    /// A child that ended only because its run did: it starts again, under the same key.
    Again(ChildCall),
}
