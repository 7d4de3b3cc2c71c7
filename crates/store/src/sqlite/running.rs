//! A cache of running tasks, as the table `live` has them: nearly every call is about one of them.
//!
//! Updated with each save, and cleared when a batch is rolled back, so that it never differs from the
//! database. A task that is not cached is read from the table.

use verdict::TaskId;

use super::ids::ById;
use super::rows::LiveRow;

/// More tasks than one machine's workers hold; each takes 512 bytes.
const KEPT_MAX: usize = 32_768;

#[derive(Default)]
pub(super) struct RunningTasks {
    tasks: ById<LiveRow>,
}

impl RunningTasks {
    pub(super) fn get(&self, id: TaskId) -> Option<&LiveRow> {
        self.tasks.get(&id)
    }

    /// Caches the task if it is running, and removes it if not.
    pub(super) fn keep(&mut self, live: LiveRow) {
        let id = live.task.id;
        if live.task.lease().is_none() {
            self.tasks.remove(&id);
        } else if self.tasks.len() < KEPT_MAX || self.tasks.contains_key(&id) {
            self.tasks.insert(id, live);
        }
    }

    pub(super) fn forget(&mut self, id: TaskId) {
        self.tasks.remove(&id);
    }

    pub(super) fn clear(&mut self) {
        self.tasks.clear();
    }
}
