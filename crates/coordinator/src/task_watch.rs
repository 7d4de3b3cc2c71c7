//! Wakes callers that wait for tasks to change, or to end, and hands them the ends.
//!
//! The commit that ends a task hands what it wrote to every caller that waits for that end ([`EndedTask`]), so the
//! caller needs no read of the store for its answer. A wake-up without an end is a hint: its receiver reads the store
//! again. Losing all of this state loses nothing. Most callers wait for the end, and a task changes several times
//! before: each change would cost each of them a read.
//!
//! Invariant: a task is in the map only while a caller waits for it.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use store::Change;
use tokio::sync::Notify;
use verdict::{ClosedAttempt, Done, Subject, TaskId};

#[derive(Clone, Debug, Default)]
pub(crate) struct TaskWatchers {
    waiting: Arc<Mutex<Waiting>>,
    next: Arc<AtomicU64>,
}

/// The callers by task, in the order in which they came, so that equal runs of a simulation stay equal.
type Waiting = HashMap<TaskId, BTreeMap<u64, Arc<Waiter>>>;

/// A caller that waits for one task or for many.
#[derive(Debug)]
struct Waiter {
    awaited: Awaited,
    /// Keeps one wake-up for a caller that is not listening at the moment.
    wake: Notify,
    news: Mutex<News>,
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

/// What happened to the tasks of a caller that waits for their ends.
#[derive(Debug, Default)]
pub(crate) struct News {
    pub(crate) ends: Vec<End>,
    /// A call about one of the tasks was refused: what the caller knows of it is not all there is any more.
    pub(crate) is_refused: bool,
}

/// The end of a task.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "http"), expect(dead_code, reason = "callers over HTTP read it"))]
pub(crate) enum End {
    /// As it was committed here.
    Committed(Arc<EndedTask>),
    /// Committed by another coordinator, or while the caller began to wait: only the store knows it.
    Stored(TaskId),
}

/// What a commit wrote about a task that it ended.
#[derive(Debug)]
pub(crate) struct EndedTask {
    pub(crate) done: Done,
    /// The last attempt that the same change closed.
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "callers over HTTP read it"))]
    pub(crate) closed: Option<ClosedAttempt>,
}

impl EndedTask {
    fn of(change: &Change) -> Option<Self> {
        let Subject::Done(done) = &change.after else { return None };
        Some(Self { done: done.clone(), closed: change.closed.last().cloned() })
    }
}

/// A registered interest in tasks. Dropping it removes the caller from all of them.
pub(crate) struct TaskWatch {
    watchers: TaskWatchers,
    number: u64,
    tasks: Vec<TaskId>,
    waiter: Arc<Waiter>,
}

impl TaskWatchers {
    pub(crate) fn subscribe(&self, tasks: &[TaskId], awaited: Awaited) -> TaskWatch {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (wake, news) = (Notify::new(), Mutex::default());
        let waiter = Arc::new(Waiter { awaited, wake, news });
        let mut waiting = self.lock();
        for task in tasks {
            waiting.entry(*task).or_default().insert(number, waiter.clone());
        }
        TaskWatch { watchers: self.clone(), number, tasks: tasks.to_vec(), waiter }
    }

    /// What these changes end, as far as callers wait for it now.
    pub(crate) fn awaited_ends(&self, changes: &[Change]) -> Vec<Arc<EndedTask>> {
        let waiting = self.lock();
        if waiting.is_empty() {
            return Vec::new();
        }
        let is_awaited = |change: &&Change| matches!(&change.after, Subject::Done(done) if waiting.contains_key(&done.id));
        changes.iter().filter(is_awaited).filter_map(EndedTask::of).map(Arc::new).collect()
    }

    /// Wakes those who wait for a change of these tasks.
    pub(crate) fn changed(&self, tasks: &[TaskId]) {
        self.for_each(tasks.iter().copied(), |waiter, _| {
            if waiter.awaited == Awaited::Change {
                waiter.wake.notify_one();
            }
        });
    }

    /// Wakes those who wait for the end of these tasks, and hands them the ends that were kept for them.
    pub(crate) fn ended(&self, tasks: &[TaskId], kept: Vec<Arc<EndedTask>>) {
        let kept: HashMap<TaskId, Arc<EndedTask>> =
            kept.into_iter().map(|ended| (ended.done.id, ended)).collect();
        self.for_each(tasks.iter().copied(), |waiter, task| {
            if waiter.awaited == Awaited::End {
                let kept = kept.get(&task).cloned();
                waiter.news().ends.push(kept.map_or(End::Stored(task), End::Committed));
                waiter.wake.notify_one();
            }
        });
    }

    /// Tells those who wait that calls about these tasks were refused. That ends no wait.
    pub(crate) fn refused(&self, tasks: impl Iterator<Item = TaskId>) {
        self.for_each(tasks, |waiter, _| waiter.news().is_refused = true);
    }

    /// How many tasks callers wait for.
    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    fn for_each(&self, tasks: impl Iterator<Item = TaskId>, tell: impl Fn(&Waiter, TaskId)) {
        let waiting = self.lock();
        if waiting.is_empty() {
            return;
        }
        for task in tasks {
            let waiters = waiting.get(&task).into_iter().flat_map(BTreeMap::values);
            waiters.for_each(|waiter| tell(waiter, task));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("no code panics while it holds this lock")
    }
}

impl Waiter {
    fn news(&self) -> MutexGuard<'_, News> {
        self.news.lock().expect("no code panics while it holds this lock")
    }
}

impl TaskWatch {
    /// Resolves when what is awaited has happened since the last time it resolved. It may resolve once too often.
    pub(crate) async fn happened(&self) {
        self.waiter.wake.notified().await;
    }
}

#[cfg(feature = "http")]
impl TaskWatch {
    /// What has happened since the last call.
    pub(crate) fn take_news(&self) -> News {
        let mut news = self.waiter.news();
        // A refusal is remembered: what is known of the tasks stays incomplete.
        News { ends: std::mem::take(&mut news.ends), is_refused: news.is_refused }
    }
}

impl Drop for TaskWatch {
    fn drop(&mut self) {
        let mut waiting = self.watchers.lock();
        for task in &self.tasks {
            let Some(waiters) = waiting.get_mut(task) else { continue };
            waiters.remove(&self.number);
            if waiters.is_empty() {
                waiting.remove(task);
            }
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

    fn stored(news: &News) -> Vec<TaskId> {
        let id = |end: &End| match end {
            End::Stored(id) => *id,
            End::Committed(ended) => ended.done.id,
        };
        news.ends.iter().map(id).collect()
    }

    #[test]
    fn a_caller_that_waits_for_the_end_is_not_woken_by_a_change() {
        let (watchers, task) = (TaskWatchers::default(), TaskId::from_u128(1));
        let (change, end) = (
            watchers.subscribe(&[task], Awaited::Change),
            watchers.subscribe(&[task], Awaited::End),
        );
        watchers.changed(&[task]);
        assert!(is_over(change.happened()) && !is_over(end.happened()));
        watchers.ended(&[task], Vec::new());
        assert!(!is_over(change.happened()) && is_over(end.happened()));
        assert_eq!(stored(&end.waiter.news()), [task]);
    }

    #[test]
    fn a_caller_learns_of_every_end_while_it_does_not_listen() {
        let watchers = TaskWatchers::default();
        let [first, second, other] = [1, 2, 3].map(TaskId::from_u128);
        let watch = watchers.subscribe(&[first, second], Awaited::End);
        watchers.ended(&[other, second], Vec::new());
        watchers.ended(&[first], Vec::new());
        assert!(is_over(watch.happened()) && !is_over(watch.happened()), "woken once for both");
        assert_eq!(stored(&watch.waiter.news()), [second, first]);
    }

    #[test]
    fn a_refusal_wakes_nobody_and_is_told_with_the_end() {
        let (watchers, task) = (TaskWatchers::default(), TaskId::from_u128(1));
        let watch = watchers.subscribe(&[task], Awaited::End);
        watchers.refused([task].into_iter());
        assert!(!is_over(watch.happened()));
        assert!(watch.waiter.news().is_refused);
    }

    #[test]
    fn the_last_caller_that_leaves_takes_the_task_with_it() {
        let (watchers, task) = (TaskWatchers::default(), TaskId::from_u128(1));
        let first = watchers.subscribe(&[task], Awaited::Change);
        let second = watchers.subscribe(&[task, TaskId::from_u128(2)], Awaited::End);
        drop(first);
        assert_eq!(watchers.lock().len(), 2);
        drop(second);
        assert!(watchers.lock().is_empty());
    }
}
