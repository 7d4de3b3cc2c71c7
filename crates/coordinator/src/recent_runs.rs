//! The latest runs that were submitted here and have not ended, for callers that wait for them.
//!
//! A caller submits a run and then waits for it. What such a wait has to know (that the run exists, its queue, what was
//! submitted) was in the commit a moment ago, so it is kept for a while instead of read from the store. A run that is not
//! here, for whatever reason, is looked up in the store: losing all of this state loses nothing.
//!
//! Nothing is kept before the first caller waits. A run leaves when it ends, when a call about it is refused (its view
//! would show that), and when newer runs take its room.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use store::{Change, Spec};
use verdict::event::Submitted;
use verdict::{Event, TaskId, Time};

/// How many runs are kept: a second of a full load.
const RUNS_MAX: usize = 16_384;

/// How much their inputs may take in all.
const INPUT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The largest input that is kept while a caller waits, here and by the caller. Thousands of callers may wait at once.
pub(crate) const KEPT_INPUT_BYTES_MAX: usize = 16 * 1024;

/// A run as it was submitted.
#[derive(Debug)]
pub(crate) struct SubmittedRun {
    pub(crate) submitted: Submitted,
    pub(crate) spec: Spec,
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "callers over HTTP read it"))]
    pub(crate) at: Time,
}

impl SubmittedRun {
    /// The run that this change creates, if it is one that is kept.
    fn of(change: &Change) -> Option<Self> {
        let spec = change.spec.as_ref()?;
        let first = change.entries.first()?;
        // A plan is shown with its stages or steps, which only the store knows.
        let has_plan = change.after.live()?.run.as_deref().is_some_and(|run| run.plan.is_some());
        if has_plan || spec.input.as_str().len() > KEPT_INPUT_BYTES_MAX {
            return None;
        }
        let submitted = first.events.iter().find_map(Event::submitted)?.clone();
        Some(Self { submitted, spec: spec.clone(), at: first.at })
    }

    fn bytes(&self) -> usize {
        self.spec.input.as_str().len()
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct RecentRuns(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    is_wanted: AtomicBool,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    by_id: HashMap<TaskId, Arc<SubmittedRun>>,
    /// In the order of submission. Names runs that have left as well.
    order: VecDeque<TaskId>,
    bytes: usize,
}

impl Kept {
    fn remove(&mut self, id: TaskId) {
        if let Some(run) = self.by_id.remove(&id) {
            self.bytes -= run.bytes();
        }
    }

    fn insert(&mut self, run: SubmittedRun) {
        self.bytes += run.bytes();
        self.order.push_back(run.submitted.id);
        self.by_id.insert(run.submitted.id, Arc::new(run));
        while self.order.len() > RUNS_MAX || self.bytes > INPUT_BYTES_MAX {
            let Some(oldest) = self.order.pop_front() else { return };
            self.remove(oldest);
        }
    }
}

impl RecentRuns {
    /// Keeps the runs that these changes create. Called before the commit, so that no end of a run can be noted before the
    /// run: if the commit fails, no caller ever learns the id.
    pub(crate) fn keep(&self, changes: &[Change]) {
        if !self.0.is_wanted.load(Ordering::Relaxed) {
            return;
        }
        self.insert(changes.iter().filter_map(SubmittedRun::of));
    }

    fn insert(&self, created: impl Iterator<Item = SubmittedRun>) {
        let mut kept = self.lock();
        created.for_each(|run| kept.insert(run));
    }

    /// Forgets runs that have ended, or of which there is more to know.
    pub(crate) fn forget(&self, ids: impl Iterator<Item = TaskId>) {
        if !self.0.is_wanted.load(Ordering::Relaxed) {
            return;
        }
        let mut kept = self.lock();
        ids.for_each(|id| kept.remove(id));
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.kept.lock().expect("no code panics while it holds the recent runs")
    }
}

#[cfg(feature = "http")]
impl RecentRuns {
    /// The run, if it has not ended as far as this coordinator knows. Runs are kept from now on.
    pub(crate) fn get(&self, id: TaskId) -> Option<Arc<SubmittedRun>> {
        if !self.0.is_wanted.swap(true, Ordering::Relaxed) {
            return None;
        }
        self.lock().by_id.get(&id).cloned()
    }
}

#[cfg(all(test, feature = "http"))]
mod tests {
    use std::collections::BTreeMap;

    use verdict::{Digest, Json, Policy, Scope};

    use super::*;

    fn run(id: u128, input_bytes: usize) -> SubmittedRun {
        let digest = Digest::of(&[]);
        let scope = Scope { tenant: "t".into(), workspace: "w".into() };
        let submitted = Submitted {
            id: TaskId::from_u128(id),
            scope,
            kind: "k".into(),
            queue: "q".into(),
            priority: 0,
            policy: Policy::default(),
            due: Time::from_millis(0),
            input: digest,
            budget: None,
            flow: None,
        };
        let spec = Spec {
            input: Json::from("x".repeat(input_bytes)),
            goal: None,
            task_key: None,
            asset_id: None,
            resources: None,
            labels: BTreeMap::new(),
            traceparent: None,
            key: None,
            fingerprint: digest,
        };
        SubmittedRun { submitted, spec, at: Time::from_millis(0) }
    }

    #[test]
    fn keeps_the_newest_runs_within_its_bounds() {
        let runs = RecentRuns::default();
        assert!(runs.get(TaskId::from_u128(0)).is_none(), "from now on they are wanted");
        let count = RUNS_MAX as u128 + 1;
        runs.insert((0..count).map(|id| run(id, 1)));
        assert!(runs.get(TaskId::from_u128(0)).is_none());
        assert!(runs.get(TaskId::from_u128(1)).is_some());
        assert!(runs.get(TaskId::from_u128(count - 1)).is_some());
        let large = INPUT_BYTES_MAX / KEPT_INPUT_BYTES_MAX;
        runs.insert((0..large).map(|id| run(count + id as u128, KEPT_INPUT_BYTES_MAX)));
        assert!(runs.get(TaskId::from_u128(count - 1)).is_none());
        assert_eq!(runs.lock().by_id.len(), large);
        assert_eq!(runs.lock().bytes, INPUT_BYTES_MAX);
    }

    #[test]
    fn forgets_what_has_ended() {
        let runs = RecentRuns::default();
        let id = TaskId::from_u128(7);
        runs.get(id);
        runs.insert([run(7, 10)].into_iter());
        runs.forget([id].into_iter());
        assert!(runs.get(id).is_none());
        assert_eq!(runs.lock().bytes, 0);
    }
}
