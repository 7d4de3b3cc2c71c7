//! Tasks that a batch created and has not yet written to `live`.
//!
//! A task submitted to a waiting worker is created and granted in the same batch. Because it is written
//! at the end of the batch, it is written once, and granting it reads nothing.

use verdict::TaskId;

use super::ids::ById;
use super::rows::LiveRow;
use crate::row::Spec;

pub(super) struct CreatedTask {
    pub(super) live: LiveRow,
    pub(super) spec: Spec,
}

/// Bounded by the batch that holds it.
#[derive(Default)]
pub(super) struct CreatedTasks {
    /// In order of arrival, hence of rows; `None` for a task that has ended since.
    tasks: Vec<Option<CreatedTask>>,
    places: ById<usize>,
}

impl CreatedTasks {
    pub(super) fn add(&mut self, created: CreatedTask) {
        self.places.insert(created.live.task.id, self.tasks.len());
        self.tasks.push(Some(created));
    }

    pub(super) fn get(&self, id: TaskId) -> Option<&CreatedTask> {
        self.tasks[*self.places.get(&id)?].as_ref()
    }

    pub(super) fn get_mut(&mut self, id: TaskId) -> Option<&mut CreatedTask> {
        self.tasks[*self.places.get(&id)?].as_mut()
    }

    pub(super) fn remove(&mut self, id: TaskId) -> Option<CreatedTask> {
        self.tasks[self.places.remove(&id)?].take()
    }

    /// Takes all of them, by row, so that the table only grows at its end.
    pub(super) fn take(&mut self) -> impl Iterator<Item = CreatedTask> + use<> {
        self.places.clear();
        std::mem::take(&mut self.tasks).into_iter().flatten()
    }
}
