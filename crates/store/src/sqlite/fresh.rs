//! Tasks that a batch created and has not written to `live` yet.
//!
//! A task submitted to a waiting worker is created and granted in the same batch. Written at the
//! batch's end, it is written once, and granting it reads nothing.

use verdict::TaskId;

use super::ids::ById;
use super::rows::LiveRow;
use crate::row::Spec;

pub(super) struct Fresh {
    pub(super) live: LiveRow,
    pub(super) spec: Spec,
}

/// Bounded by the batch that holds it.
#[derive(Default)]
pub(super) struct FreshTasks {
    tasks: ById<Fresh>,
}

impl FreshTasks {
    pub(super) fn add(&mut self, fresh: Fresh) {
        self.tasks.insert(fresh.live.task.id, fresh);
    }

    pub(super) fn get(&self, id: TaskId) -> Option<&Fresh> {
        self.tasks.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: TaskId) -> Option<&mut Fresh> {
        self.tasks.get_mut(&id)
    }

    pub(super) fn remove(&mut self, id: TaskId) -> Option<Fresh> {
        self.tasks.remove(&id)
    }

    /// All of them, by row, so that the table only grows at its end.
    pub(super) fn take(&mut self) -> Vec<Fresh> {
        let mut fresh: Vec<Fresh> = std::mem::take(&mut self.tasks).into_values().collect();
        fresh.sort_unstable_by_key(|fresh| fresh.live.row);
        fresh
    }
}
