//! Tasks that cannot be carried on: told, left alone for a while, and tried again.
//!
//! A row that cannot be read, a decision that breaks an assertion, a change that the store does not take: whatever is
//! wrong with one task must cost no other. The task is left out of sweeps and grants, calls about it are answered at
//! once, and it is tried again after pauses that grow, or after a restart: a newer program may know better. Kept in
//! memory only, because what is wrong with a task is found again.
//!
//! The list has a bound. What is found beyond it is not set aside: then sweeps and grants as a whole rest in growing
//! pauses, as they do when the store refuses, because so many bad tasks mean that the store itself is bad.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use tokio::time::Instant;
use verdict::{TaskId, Time};

/// Tasks that are set aside at once: as many as one batch sweeps.
pub(crate) const ASIDE_MAX: usize = 1_024;

/// The first pause: long enough that trying again is no load.
const FIRST: Duration = Duration::from_secs(5);

/// The longest pause, and how long a task stays in the list that was not met again: whoever has mended a row by hand
/// waits no longer than this.
const LONGEST: Duration = Duration::from_secs(600);

/// What is known of one such task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    pub task: TaskId,
    /// What went wrong the last time, for operators.
    pub why: String,
    /// When it was first found, by the store's clock.
    pub since: Time,
    /// How often it was tried.
    pub tries: u32,
    /// How long it is still left alone.
    pub left: Duration,
}

struct Kept {
    why: String,
    since: Time,
    tries: u32,
    until: Instant,
}

/// What became of a task that was found to be bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// It is left alone from now on, after so many tries.
    Aside(u32),
    /// There are too many already.
    TooMany,
}

#[derive(Clone)]
pub(crate) struct Aside {
    kept: Arc<Mutex<BTreeMap<TaskId, Kept>>>,
    gauge: Gauge,
}

impl Aside {
    pub(crate) fn new(gauge: Gauge) -> Self {
        Self { kept: Arc::default(), gauge }
    }

    fn kept(&self) -> MutexGuard<'_, BTreeMap<TaskId, Kept>> {
        self.kept.lock().expect("nothing panics with it in hand")
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.kept().is_empty()
    }

    /// The tasks that are to be left alone now.
    pub(crate) fn resting(&self, here: Instant) -> BTreeSet<TaskId> {
        let kept = self.kept();
        kept.iter().filter(|(_, case)| here < case.until).map(|(task, _)| *task).collect()
    }

    /// How long a task is still left alone, if it is.
    pub(crate) fn left(&self, task: TaskId, here: Instant) -> Option<Duration> {
        let until = self.kept().get(&task)?.until;
        (here < until).then(|| until - here)
    }

    /// This task could not be carried on.
    pub(crate) fn found(&self, task: TaskId, why: String, now: Time, here: Instant) -> Found {
        let mut kept = self.kept();
        kept.retain(|_, case| here < case.until + LONGEST);
        if kept.len() >= ASIDE_MAX && !kept.contains_key(&task) {
            return Found::TooMany;
        }
        let fresh = Kept { why: String::new(), since: now, tries: 0, until: here };
        let case = kept.entry(task).or_insert(fresh);
        case.until = here + pause(case.tries);
        case.tries = case.tries.saturating_add(1);
        case.why = why;
        let tries = case.tries;
        self.gauge.set(kept.len() as i64);
        Found::Aside(tries)
    }

    /// These were carried on after all.
    pub(crate) fn carried(&self, tasks: impl Iterator<Item = TaskId>, here: Instant) {
        let mut kept = self.kept();
        for task in tasks {
            if kept.get(&task).is_some_and(|case| case.until <= here) {
                kept.remove(&task);
            }
        }
        kept.retain(|_, case| here < case.until + LONGEST);
        self.gauge.set(kept.len() as i64);
    }

    /// All of them, for operators.
    pub(crate) fn list(&self, here: Instant) -> Vec<Case> {
        let case = |(task, kept): (&TaskId, &Kept)| Case {
            task: *task,
            why: kept.why.clone(),
            since: kept.since,
            tries: kept.tries,
            left: kept.until.saturating_duration_since(here),
        };
        self.kept().iter().map(case).collect()
    }
}

/// After so many tries.
fn pause(tries: u32) -> Duration {
    let doubled = 1_u32.checked_shl(tries).and_then(|factor| FIRST.checked_mul(factor));
    doubled.map_or(LONGEST, |pause| pause.min(LONGEST))
}

/// Whether this try is worth a line in the log: the first, and then ever more seldom.
pub(crate) fn is_worth_a_line(tries: u32) -> bool {
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
        let aside = Aside::new(Gauge::default());
        let mut here = Instant::now();
        let mut pauses = Vec::new();
        for tries in 1..=40 {
            assert_eq!(aside.found(task(1), "x".into(), NOW, here), Found::Aside(tries));
            let left = aside.left(task(1), here).expect("it is left alone");
            assert_eq!(aside.resting(here), BTreeSet::from([task(1)]));
            here += left;
            assert!(aside.resting(here).is_empty(), "now it may be tried");
            pauses.push(left.as_secs());
        }
        assert_eq!(pauses[..8], [5, 10, 20, 40, 80, 160, 320, 600]);
        assert!(pauses[8..].iter().all(|pause| *pause == 600));
    }

    #[test]
    fn a_task_that_was_carried_on_or_never_met_again_leaves_the_list() {
        let (aside, here) = (Aside::new(Gauge::default()), Instant::now());
        for n in 1..=3 {
            aside.found(task(n), "x".into(), NOW, here);
        }
        aside.carried([task(1)].into_iter(), here);
        assert_eq!(aside.list(here).len(), 3, "within its pause nothing was tried");
        let here = here + FIRST;
        aside.carried([task(1)].into_iter(), here);
        assert_eq!(
            aside.list(here).iter().map(|case| case.task).collect::<Vec<_>>(),
            [task(2), task(3)]
        );
        aside.carried([].into_iter(), here + LONGEST);
        assert!(aside.is_empty());
    }

    #[test]
    fn the_list_has_a_bound() {
        let gauge = Gauge::default();
        let (aside, here) = (Aside::new(gauge.clone()), Instant::now());
        for n in 0..ASIDE_MAX as u128 {
            assert_eq!(aside.found(task(n), "x".into(), NOW, here), Found::Aside(1));
        }
        assert_eq!(aside.found(task(u128::MAX), "x".into(), NOW, here), Found::TooMany);
        assert_eq!(aside.found(task(1), "x".into(), NOW, here), Found::Aside(2));
        assert_eq!(gauge.get(), ASIDE_MAX as i64);
    }
}
