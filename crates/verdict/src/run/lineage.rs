//! Where a task comes from: its run, its parent and its key there.

use crate::id::{Name, TaskId};

/// The origin of a task that another task's call made. A root that a client submitted has none.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Lineage {
    /// Part of its parent's run. Its end is a checkpoint of the parent, and the parent does not end before it.
    Child { run: TaskId, parent: TaskId, key: Name },
    /// A separate run: cancels of the task that caused it do not reach it, and its end sends no message.
    Detached { cause: TaskId, key: Name },
}

impl Lineage {
    /// The parent that hears of the task's end, and the task's key there.
    pub fn parent(&self) -> Option<(TaskId, &Name)> {
        match self {
            Lineage::Child { parent, key, .. } => Some((*parent, key)),
            Lineage::Detached { .. } => None,
        }
    }

    /// The run that the task belongs to, if it is not its own.
    pub fn run(&self) -> Option<TaskId> {
        match self {
            Lineage::Child { run, .. } => Some(*run),
            Lineage::Detached { .. } => None,
        }
    }
}
