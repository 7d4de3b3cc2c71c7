//! A cache of tasks that nearly every call is about, as the table `live` has them: those that run, and those that wait for
//! many children, whose ends arrive by the thousand.
//!
//! Updated with each save, and cleared when a batch is rolled back, so that it never differs from the
//! database. A task that is not cached is read from the table.

use std::collections::VecDeque;

use verdict::TaskId;

use super::ids::ById;
use super::rows::LiveRow;
use crate::tables::long_wait;

/// More tasks than one machine's workers hold; each takes 512 bytes.
const KEPT_MAX: usize = 32_768;

/// Tasks that wait for many: their items are a mebibyte each at most. A run that fans out is done within seconds, so few
/// of them are at it at the same time. The one that was cached first makes room.
const LONG_WAITS_MAX: usize = 32;

#[derive(Default)]
pub(super) struct RunningTasks {
    tasks: ById<LiveRow>,
    /// Those that wait for many, in the order in which they were cached.
    long_waits: VecDeque<TaskId>,
}

impl RunningTasks {
    pub(super) fn get(&self, id: TaskId) -> Option<&LiveRow> {
        self.tasks.get(&id)
    }

    /// Caches the task if it runs or waits for many, and removes it if not.
    pub(super) fn keep(&mut self, live: LiveRow) {
        let id = live.task.id;
        if live.task.lease().is_some() {
            self.forget_wait(id);
            if self.tasks.len() < KEPT_MAX || self.tasks.contains_key(&id) {
                self.tasks.insert(id, live);
            }
        } else if long_wait(&live.task).is_some() {
            self.keep_wait(live);
        } else {
            self.forget(id);
        }
    }

    fn keep_wait(&mut self, live: LiveRow) {
        let id = live.task.id;
        if !self.long_waits.contains(&id) {
            self.long_waits.push_back(id);
        }
        self.tasks.insert(id, live);
        if self.long_waits.len() > LONG_WAITS_MAX
            && let Some(first) = self.long_waits.pop_front()
        {
            self.tasks.remove(&first);
        }
    }

    fn forget_wait(&mut self, id: TaskId) {
        self.long_waits.retain(|waiting| *waiting != id);
    }

    pub(super) fn forget(&mut self, id: TaskId) {
        if self.tasks.remove(&id).is_some() {
            self.forget_wait(id);
        }
    }

    pub(super) fn clear(&mut self) {
        self.tasks.clear();
        self.long_waits.clear();
    }
}
