//! Wakes callers that wait for a task to change.
//!
//! A wake-up is a hint: its receiver reads the store again. Losing all of this state loses nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;
use verdict::TaskId;

#[derive(Clone, Debug, Default)]
pub(crate) struct TaskWatchers {
    waiting: Arc<Mutex<HashMap<TaskId, Arc<Notify>>>>,
}

/// A registered interest in one task. Dropping the last one removes the task.
pub(crate) struct TaskWatch {
    watch: TaskWatchers,
    task: TaskId,
    notify: Arc<Notify>,
}

impl TaskWatchers {
    pub(crate) fn subscribe(&self, task: TaskId) -> TaskWatch {
        let mut waiting = self.waiting.lock().expect("no code panics while it holds this lock");
        let notify = waiting.entry(task).or_default().clone();
        TaskWatch { watch: self.clone(), task, notify }
    }

    /// Wakes all waiters of these tasks.
    pub(crate) fn notify(&self, tasks: impl Iterator<Item = TaskId>) {
        let waiting = self.waiting.lock().expect("no code panics while it holds this lock");
        if waiting.is_empty() {
            return;
        }
        tasks.filter_map(|task| waiting.get(&task)).for_each(|notify| notify.notify_waiters());
    }
}

impl TaskWatch {
    /// Resolves at the next change after this call.
    pub(crate) fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.notify.notified()
    }
}

impl Drop for TaskWatch {
    fn drop(&mut self) {
        let mut waiting = self.watch.waiting.lock().expect("no code panics under this lock");
        // The map's handle and this one: there is no other waiter.
        if Arc::strong_count(&self.notify) == 2 {
            waiting.remove(&self.task);
        }
    }
}
