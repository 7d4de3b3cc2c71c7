//! The submissions of runs in stages whose workers probably come back for the next stage.
//!
//! A poll hands out a task with its submission. A report that asks for the next stage needs the same submission again, for the next
//! envelope; reading it from the store costs more than the decision. So it is kept here from the first envelope on. What
//! was evicted, or leased through another coordinator, is read from the store.
//!
//! A submission never changes, so nothing here can be out of date. Ids are never used without their scope.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use store::{Spec, TaskKey};

/// Submissions at hand: those of all tasks that a few hundred workers hold, with time to spare.
const PLANS_MAX: usize = 4_096;

/// Bytes of plans at hand. An ordinary plan has a few thousand; the largest ones are soon evicted.
const BYTES_MAX: usize = 16 * 1024 * 1024;

/// Evicts the oldest first.
#[derive(Default)]
pub(crate) struct PlansAtHand {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    specs: HashMap<TaskKey, Spec>,
    /// The keys of `specs`, the oldest first.
    order: VecDeque<TaskKey>,
    bytes: usize,
}

impl PlansAtHand {
    pub(super) fn keep(&self, key: TaskKey, spec: &Spec) {
        self.lock().keep(key, spec);
    }

    pub(super) fn get(&self, key: &TaskKey) -> Option<Spec> {
        self.lock().specs.get(key).cloned()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn keep(&mut self, key: TaskKey, spec: &Spec) {
        if self.specs.contains_key(&key) {
            return;
        }
        self.bytes += bytes(spec);
        self.order.push_back(key.clone());
        self.specs.insert(key, spec.clone());
        while self.bytes > BYTES_MAX || self.order.len() > PLANS_MAX {
            self.evict_oldest();
        }
    }

    fn evict_oldest(&mut self) {
        let oldest = self.order.pop_front().expect("what has bytes has a key");
        let spec = self.specs.remove(&oldest).expect("each key in the order is kept");
        self.bytes -= bytes(&spec);
    }
}

/// The part of a submission that may be large.
fn bytes(spec: &Spec) -> usize {
    spec.input.as_str().len()
}

#[cfg(test)]
mod tests {
    use verdict::{Digest, Json, Scope, TaskId};

    use super::*;

    fn key(number: u128) -> TaskKey {
        TaskKey { scope: Scope::new("t", "w"), id: TaskId::from_u128(number) }
    }

    fn spec(bytes: usize) -> Spec {
        Spec {
            input: Json::from(format!("\"{}\"", "x".repeat(bytes - 2))),
            goal: None,
            task_key: None,
            asset_id: None,
            resources: None,
            labels: std::collections::BTreeMap::new(),
            traceparent: None,
            key: None,
            fingerprint: Digest::of(&[]),
        }
    }

    #[test]
    fn what_was_kept_last_is_at_hand() {
        let plans = PlansAtHand::default();
        for number in 0..=PLANS_MAX as u128 {
            plans.keep(key(number), &spec(2));
        }
        assert_eq!(plans.get(&key(0)), None);
        assert!((1..=PLANS_MAX as u128).all(|number| plans.get(&key(number)).is_some()));
    }

    #[test]
    fn large_plans_take_no_more_than_their_room() {
        let plans = PlansAtHand::default();
        for number in 0..3 {
            plans.keep(key(number), &spec(BYTES_MAX / 2));
            plans.keep(key(number), &spec(BYTES_MAX / 2));
        }
        assert_eq!([0, 1, 2].map(|number| plans.get(&key(number)).is_some()), [false, true, true]);
        plans.keep(key(3), &spec(BYTES_MAX + 1));
        assert!((0..4).all(|number| plans.get(&key(number)).is_none()));
    }

    #[test]
    fn a_task_of_another_workspace_is_not_found() {
        let plans = PlansAtHand::default();
        plans.keep(key(1), &spec(2));
        let mut other = key(1);
        other.scope = Scope::new("t", "other");
        assert_eq!(plans.get(&other), None);
    }
}
