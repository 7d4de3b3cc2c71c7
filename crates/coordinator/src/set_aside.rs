//! Tasks that cannot be processed: they are reported, excluded for a while, and tried again.
//!
//! A row that cannot be read, a decision that violates an assertion, a change that the store refuses: a problem with
//! one task must not affect any other. The task is excluded from sweeps and grants, calls about it are answered at
//! once, and it is tried again after growing pauses, or after a restart, perhaps with a newer version. The list is in
//! memory only, because the problem is found again.
//!
//! The list is bounded. Tasks beyond the bound are not set aside: then all sweeps and grants back off, as they do
//! when the store refuses, because so many bad tasks mean that the store itself is bad.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use tokio::time::Instant;
use verdict::{TaskId, Time};

/// How many tasks may be set aside at once: as many as one batch sweeps.
pub(crate) const SET_ASIDE_MAX: usize = 1_024;

/// The first pause: long enough that a retry is no load.
const FIRST: Duration = Duration::from_secs(5);

/// The longest pause, and how long a task stays in the list if it does not fail again: after a row was repaired by
/// hand, this is the longest wait.
const LONGEST: Duration = Duration::from_secs(600);

/// A task that is set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAsideTask {
    pub task: TaskId,
    /// The last error, for operators.
    pub why: String,
    /// When the problem was first found, by the store's clock.
    pub since: Time,
    /// How many times it was tried.
    pub tries: u32,
    /// The rest of its pause.
    pub left: Duration,
}

struct Entry {
    why: String,
    since: Time,
    tries: u32,
    until: Instant,
}

/// The result of setting a task aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetAsideOutcome {
    /// It is excluded from now on, after this many tries.
    Added(u32),
    /// The list is full.
    ListFull,
}

#[derive(Clone)]
pub(crate) struct SetAsideList {
    entries: Arc<Mutex<BTreeMap<TaskId, Entry>>>,
    gauge: Gauge,
}

impl SetAsideList {
    pub(crate) fn new(gauge: Gauge) -> Self {
        Self { entries: Arc::default(), gauge }
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<TaskId, Entry>> {
        self.entries.lock().expect("nothing panics with it in hand")
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries().is_empty()
    }

    /// The tasks that are excluded now.
    pub(crate) fn excluded(&self, here: Instant) -> BTreeSet<TaskId> {
        let entries = self.entries();
        entries.iter().filter(|(_, entry)| here < entry.until).map(|(task, _)| *task).collect()
    }

    /// How long a task is still excluded, if it is.
    pub(crate) fn remaining(&self, task: TaskId, here: Instant) -> Option<Duration> {
        let until = self.entries().get(&task)?.until;
        (here < until).then(|| until - here)
    }

    /// Records that this task could not be processed.
    pub(crate) fn add(
        &self,
        task: TaskId,
        why: String,
        now: Time,
        here: Instant,
    ) -> SetAsideOutcome {
        let mut entries = self.entries();
        entries.retain(|_, entry| here < entry.until + LONGEST);
        if entries.len() >= SET_ASIDE_MAX && !entries.contains_key(&task) {
            return SetAsideOutcome::ListFull;
        }
        let fresh = Entry { why: String::new(), since: now, tries: 0, until: here };
        let entry = entries.entry(task).or_insert(fresh);
        entry.until = here + pause(entry.tries);
        entry.tries = entry.tries.saturating_add(1);
        entry.why = why;
        let tries = entry.tries;
        self.gauge.set(entries.len() as i64);
        SetAsideOutcome::Added(tries)
    }

    /// Records that these tasks were processed.
    pub(crate) fn resolve(&self, tasks: impl Iterator<Item = TaskId>, here: Instant) {
        let mut entries = self.entries();
        for task in tasks {
            if entries.get(&task).is_some_and(|entry| entry.until <= here) {
                entries.remove(&task);
            }
        }
        entries.retain(|_, entry| here < entry.until + LONGEST);
        self.gauge.set(entries.len() as i64);
    }

    /// All of them, for operators.
    pub(crate) fn list(&self, here: Instant) -> Vec<SetAsideTask> {
        let view = |(task, entry): (&TaskId, &Entry)| SetAsideTask {
            task: *task,
            why: entry.why.clone(),
            since: entry.since,
            tries: entry.tries,
            left: entry.until.saturating_duration_since(here),
        };
        self.entries().iter().map(view).collect()
    }
}

/// The pause after this many tries.
fn pause(tries: u32) -> Duration {
    let doubled = 1_u32.checked_shl(tries).and_then(|factor| FIRST.checked_mul(factor));
    doubled.map_or(LONGEST, |pause| pause.min(LONGEST))
}

/// Whether this try is worth a line in the log: the first, and then ever fewer.
pub(crate) fn is_worth_logging(tries: u32) -> bool {
    tries.is_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_millis(7);

    fn task(n: u128) -> TaskId {
        TaskId::from_u128(n)
    }

    #[test]
    fn a_task_is_left_alone_for_longer_and_longer_and_never_longer_than_the_bound() {
        let set_aside = SetAsideList::new(Gauge::default());
        let mut here = Instant::now();
        let mut pauses = Vec::new();
        for tries in 1..=40 {
            assert_eq!(
                set_aside.add(task(1), "x".into(), NOW, here),
                SetAsideOutcome::Added(tries)
            );
            let left = set_aside.remaining(task(1), here).expect("it is left alone");
            assert_eq!(set_aside.excluded(here), BTreeSet::from([task(1)]));
            here += left;
            assert!(set_aside.excluded(here).is_empty(), "now it may be tried");
            pauses.push(left.as_secs());
        }
        assert_eq!(pauses[..8], [5, 10, 20, 40, 80, 160, 320, 600]);
        assert!(pauses[8..].iter().all(|pause| *pause == 600));
    }

    #[test]
    fn a_task_that_was_carried_on_or_never_met_again_leaves_the_list() {
        let (set_aside, here) = (SetAsideList::new(Gauge::default()), Instant::now());
        for n in 1..=3 {
            set_aside.add(task(n), "x".into(), NOW, here);
        }
        set_aside.resolve([task(1)].into_iter(), here);
        assert_eq!(set_aside.list(here).len(), 3, "within its pause nothing was tried");
        let here = here + FIRST;
        set_aside.resolve([task(1)].into_iter(), here);
        assert_eq!(
            set_aside.list(here).iter().map(|entry| entry.task).collect::<Vec<_>>(),
            [task(2), task(3)]
        );
        set_aside.resolve([].into_iter(), here + LONGEST);
        assert!(set_aside.is_empty());
    }

    #[test]
    fn the_list_has_a_bound() {
        let gauge = Gauge::default();
        let (set_aside, here) = (SetAsideList::new(gauge.clone()), Instant::now());
        for n in 0..SET_ASIDE_MAX as u128 {
            assert_eq!(set_aside.add(task(n), "x".into(), NOW, here), SetAsideOutcome::Added(1));
        }
        assert_eq!(
            set_aside.add(task(u128::MAX), "x".into(), NOW, here),
            SetAsideOutcome::ListFull
        );
        assert_eq!(set_aside.add(task(1), "x".into(), NOW, here), SetAsideOutcome::Added(2));
        assert_eq!(gauge.get(), SET_ASIDE_MAX as i64);
    }
}
