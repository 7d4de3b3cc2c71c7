//! Tells a waiting poll that a task of its worker has a signal, so that the worker need not wait for its next
//! heartbeat to learn of a cancel.
//!
//! The signal itself is delivered by the heartbeat alone (S4-49): a poll only says which tasks need one now. Losing
//! all of this state loses nothing but time. A cancel that arrives while its worker has no poll waiting is kept for
//! the next poll, or until its task ends.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use store::CancelHint;
use tokio::sync::Notify;
use verdict::{Name, Scope, TaskId};

use crate::item::Poll;

/// How many tasks may wait for a poll of their workers. Where several coordinators share a store, most signals are for
/// workers that poll elsewhere; they are dropped together when there are this many.
const PENDING_MAX: usize = 4_096;

/// A worker, by its scope and name.
type WorkerKey = (Scope, Name);

#[derive(Clone, Debug, Default)]
pub(crate) struct WorkerSignals(Arc<Mutex<Signals>>);

#[derive(Debug, Default)]
struct Signals {
    /// With the queue of each task: a poll is told of its queues only.
    pending: HashMap<WorkerKey, BTreeMap<TaskId, Name>>,
    /// The worker of each task in `pending`.
    workers: BTreeMap<TaskId, WorkerKey>,
    waiting: HashMap<WorkerKey, Arc<Notify>>,
}

/// A waiting poll of one worker. Dropping the last one forgets the worker.
pub(crate) struct SignalWatch {
    signals: WorkerSignals,
    worker: WorkerKey,
    queues: Vec<Name>,
    notify: Arc<Notify>,
}

impl WorkerSignals {
    /// Announces that the next heartbeat for this task brings a signal.
    pub(crate) fn raise(&self, hint: CancelHint) {
        let CancelHint { scope, queue, worker, task } = hint;
        let mut signals = self.locked();
        if signals.workers.len() >= PENDING_MAX {
            signals.pending.clear();
            signals.workers.clear();
        }
        signals.forget(task);
        let worker = (scope, worker);
        if let Some(notify) = signals.waiting.get(&worker) {
            notify.notify_waiters();
        }
        signals.workers.insert(task, worker.clone());
        signals.pending.entry(worker).or_default().insert(task, queue);
    }

    /// Drops the signals of tasks that have ended. Their workers need no heartbeat any more, and a worker that died
    /// never polls again.
    pub(crate) fn forget(&self, ended: impl IntoIterator<Item = TaskId>) {
        let mut signals = self.locked();
        if !signals.workers.is_empty() {
            ended.into_iter().for_each(|task| signals.forget(task));
        }
    }

    pub(crate) fn subscribe(&self, poll: &Poll) -> SignalWatch {
        let worker = (poll.scope.clone(), poll.worker.clone());
        let notify = self.locked().waiting.entry(worker.clone()).or_default().clone();
        SignalWatch { signals: self.clone(), worker, queues: poll.queues.clone(), notify }
    }

    fn locked(&self) -> MutexGuard<'_, Signals> {
        self.0.lock().expect("no code panics while it holds this lock")
    }
}

impl Signals {
    fn forget(&mut self, task: TaskId) {
        let Some(worker) = self.workers.remove(&task) else { return };
        let Some(tasks) = self.pending.get_mut(&worker) else { return };
        tasks.remove(&task);
        if tasks.is_empty() {
            self.pending.remove(&worker);
        }
    }
}

impl SignalWatch {
    /// Whether a task of the worker has a signal.
    pub(crate) fn is_raised(&self) -> bool {
        let signals = self.signals.locked();
        let tasks = signals.pending.get(&self.worker);
        tasks.is_some_and(|tasks| tasks.values().any(|queue| self.queues.contains(queue)))
    }

    /// Waits until a task of the worker has a signal.
    pub(crate) async fn raised(&self) {
        loop {
            let notified = self.notify.notified();
            tokio::pin!(notified);
            // Registered before the check, so that a signal in between is not missed.
            notified.as_mut().enable();
            if self.is_raised() {
                return;
            }
            notified.await;
        }
    }

    /// The tasks that have a signal, each once.
    pub(crate) fn take(&self) -> Vec<TaskId> {
        let mut signals = self.signals.locked();
        let Some(tasks) = signals.pending.get(&self.worker) else { return Vec::new() };
        let is_ours = |(_, queue): &(&TaskId, &Name)| self.queues.contains(queue);
        let told: Vec<TaskId> = tasks.iter().filter(is_ours).map(|(id, _)| *id).collect();
        told.iter().for_each(|task| signals.forget(*task));
        told
    }
}

impl Drop for SignalWatch {
    fn drop(&mut self) {
        let mut signals = self.signals.locked();
        // The map's handle and this one: no other poll of the worker waits.
        if Arc::strong_count(&self.notify) == 2 {
            signals.waiting.remove(&self.worker);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(worker: &str, task: u128) -> CancelHint {
        let task = TaskId::from_u128(task);
        CancelHint { scope: Scope::default(), queue: "q".into(), worker: worker.into(), task }
    }

    fn poll(scope: Scope, worker: &str, queue: &str) -> Poll {
        Poll {
            scope,
            worker: worker.into(),
            queues: vec![queue.into()],
            kinds: None,
            max: 1,
            until: tokio::time::Instant::now(),
            poll: None,
            build: None,
        }
    }

    fn watch(signals: &WorkerSignals, worker: &str) -> SignalWatch {
        signals.subscribe(&poll(Scope::default(), worker, "q"))
    }

    #[test]
    fn a_poll_is_told_of_its_own_queues() {
        // A key that is limited to other queues learns nothing, and takes nothing from the worker.
        let signals = WorkerSignals::default();
        signals.raise(hint("ann", 1));
        let other = signals.subscribe(&poll(Scope::default(), "ann", "other"));
        assert!(!other.is_raised());
        assert_eq!(other.take(), []);
        assert_eq!(watch(&signals, "ann").take(), [TaskId::from_u128(1)]);
        assert!(signals.locked().workers.is_empty());
    }

    #[tokio::test]
    async fn a_signal_reaches_its_worker_and_no_other_whether_it_waits_or_not() {
        let signals = WorkerSignals::default();
        let ann = watch(&signals, "ann");
        let raised = ann.raised();
        tokio::pin!(raised);
        assert!(futures_util::poll!(raised.as_mut()).is_pending());
        signals.raise(hint("ann", 1));
        signals.raise(hint("ann", 1));
        signals.raise(hint("bob", 2));
        raised.await;
        assert_eq!(ann.take(), [TaskId::from_u128(1)]);
        assert!(!ann.is_raised(), "each signal is told once");
        let bob = watch(&signals, "bob");
        bob.raised().await;
        assert_eq!(bob.take(), [TaskId::from_u128(2)]);
        let elsewhere = signals.subscribe(&poll(Scope::new("other", "main"), "bob", "q"));
        signals.raise(hint("bob", 3));
        assert!(!elsewhere.is_raised());
    }

    #[test]
    fn the_signal_of_an_ended_task_is_dropped_with_its_dead_worker() {
        let signals = WorkerSignals::default();
        signals.raise(hint("dead", 1));
        signals.raise(hint("ann", 2));
        signals.raise(hint("ann", 3));
        signals.forget([TaskId::from_u128(1), TaskId::from_u128(2), TaskId::from_u128(9)]);
        let known = signals.locked();
        assert_eq!((known.pending.len(), known.workers.len()), (1, 1));
        drop(known);
        assert_eq!(watch(&signals, "ann").take(), [TaskId::from_u128(3)]);
    }

    #[test]
    fn a_task_has_a_signal_for_its_latest_worker_only() {
        let signals = WorkerSignals::default();
        signals.raise(hint("ann", 1));
        signals.raise(hint("bob", 1));
        assert!(!watch(&signals, "ann").is_raised());
        assert_eq!(watch(&signals, "bob").take(), [TaskId::from_u128(1)]);
    }

    #[test]
    fn nothing_is_kept_without_end() {
        let signals = WorkerSignals::default();
        for task in 0..=PENDING_MAX as u128 {
            signals.raise(hint(&format!("w{task}"), task));
        }
        let known = signals.locked();
        assert_eq!((known.pending.len(), known.workers.len()), (1, 1));
        drop(known);
        drop(watch(&signals, "ann"));
        assert!(signals.locked().waiting.is_empty());
    }
}
