//! Which trace a task belongs to, from its grant until its end, because a report does not load it.
//!
//! There are two generations: when the young one is full it becomes the old one, and the old one is
//! dropped. Tasks that ended elsewhere therefore do not stay for ever, and dropped entries can be read
//! from the store.

use std::collections::HashMap;

use verdict::TaskId;

use super::TaskTrace;

/// Tasks in one generation: as many as run at once where traces are in use.
const GENERATION_MAX: usize = 32_768;

#[derive(Default)]
pub(super) struct TraceCache {
    young: HashMap<TaskId, TaskTrace>,
    old: HashMap<TaskId, TaskTrace>,
}

impl TraceCache {
    pub(super) fn insert(&mut self, task: TaskId, trace: TaskTrace) {
        if self.young.len() >= GENERATION_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(task, trace);
    }

    pub(super) fn get(&self, task: TaskId) -> Option<TaskTrace> {
        self.young.get(&task).or_else(|| self.old.get(&task)).copied()
    }

    pub(super) fn remove(&mut self, task: TaskId) {
        self.young.remove(&task);
        self.old.remove(&task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_seen_for_two_generations_is_forgotten() {
        let mut cache = TraceCache::default();
        let task = |n: usize| TaskId::from_u128(n as u128);
        for n in 0..=2 * GENERATION_MAX {
            cache.insert(task(n), TaskTrace::of(task(n), None));
        }
        assert_eq!(cache.get(task(0)), None);
        let last = task(2 * GENERATION_MAX);
        assert_eq!(cache.get(last), Some(TaskTrace::of(last, None)));
        assert!(cache.young.len() + cache.old.len() <= 2 * GENERATION_MAX);
        cache.remove(last);
        assert_eq!(cache.get(last), None);
    }
}
