//! Wakes callers that wait for a task to change, or to end.
//!
//! A wake-up is a hint: its receiver reads the store again. Losing all of this state loses nothing. Most callers wait
//! for the end, and a task changes several times before: each change would cost each of them a read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;
use verdict::TaskId;

#[derive(Clone, Debug, Default)]
pub(crate) struct TaskWatchers {
    waiting: Arc<Mutex<HashMap<TaskId, Arc<Watched>>>>,
}

/// The callers that wait for one task.
#[derive(Debug, Default)]
struct Watched {
    change: Notify,
    end: Notify,
}

/// What a caller waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// Any decision about the task.
    Change,
    /// Its end.
    End,
}

/// Why a waiting caller looks at its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// It has just begun to wait, or another coordinator may have changed the task.
    Routine,
    /// What it waits for has happened.
    Woken,
}

/// A registered interest in one task. Dropping the last one removes the task.
pub(crate) struct TaskWatch {
    watch: TaskWatchers,
    task: TaskId,
    awaited: Awaited,
    watched: Arc<Watched>,
}

impl TaskWatchers {
    pub(crate) fn subscribe(&self, task: TaskId, awaited: Awaited) -> TaskWatch {
        let mut waiting = self.waiting.lock().expect("no code panics while it holds this lock");
        let watched = waiting.entry(task).or_default().clone();
        TaskWatch { watch: self.clone(), task, awaited, watched }
    }

    /// Wakes those who wait for a change of these tasks.
    pub(crate) fn changed(&self, tasks: &[TaskId]) {
        self.for_each(tasks, |watched| watched.change.notify_waiters());
    }

    /// Wakes those who wait for the end of these tasks.
    pub(crate) fn ended(&self, tasks: &[TaskId]) {
        self.for_each(tasks, |watched| watched.end.notify_waiters());
    }

    fn for_each(&self, tasks: &[TaskId], wake: impl Fn(&Watched)) {
        let waiting = self.waiting.lock().expect("no code panics while it holds this lock");
        if waiting.is_empty() {
            return;
        }
        tasks.iter().filter_map(|task| waiting.get(task)).for_each(|watched| wake(watched));
    }
}

impl TaskWatch {
    /// Resolves when what is awaited happens after this call.
    pub(crate) fn happened(&self) -> tokio::sync::futures::Notified<'_> {
        match self.awaited {
            Awaited::Change => self.watched.change.notified(),
            Awaited::End => self.watched.end.notified(),
        }
    }
}

impl Drop for TaskWatch {
    fn drop(&mut self) {
        let mut waiting = self.watch.waiting.lock().expect("no code panics under this lock");
        // The map's handle and this one: there is no other waiter.
        if Arc::strong_count(&self.watched) == 2 {
            waiting.remove(&self.task);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    /// Whether a wait is over, without waiting.
    fn is_over(wait: impl Future<Output = ()>) -> bool {
        pin!(wait).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn a_caller_that_waits_for_the_end_is_not_woken_by_a_change() {
        let (watchers, task) = (TaskWatchers::default(), TaskId::from_u128(1));
        let (change, end) =
            (watchers.subscribe(task, Awaited::Change), watchers.subscribe(task, Awaited::End));
        let (mut changed, mut ended) = (pin!(change.happened()), pin!(end.happened()));
        assert!(!is_over(changed.as_mut()) && !is_over(ended.as_mut()));
        watchers.changed(&[task]);
        assert!(is_over(changed.as_mut()) && !is_over(ended.as_mut()));
        watchers.ended(&[task]);
        assert!(is_over(ended.as_mut()));
    }

    #[test]
    fn the_last_caller_that_leaves_takes_the_task_with_it() {
        let (watchers, task) = (TaskWatchers::default(), TaskId::from_u128(1));
        let first = watchers.subscribe(task, Awaited::Change);
        let second = watchers.subscribe(task, Awaited::End);
        drop(first);
        assert_eq!(watchers.waiting.lock().unwrap().len(), 1);
        drop(second);
        assert!(watchers.waiting.lock().unwrap().is_empty());
    }
}
