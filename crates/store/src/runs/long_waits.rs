//! Items of long waits that were read lately.
//!
//! A wait for 10,000 children has half a megabyte of items. They never change, and each batch in which a child ends would
//! read and decode them again. They are found by their task and by the key and digest of the wait: a key means one thing
//! for the life of its task.
//!
//! It never says whether a task still waits: that is in the task's own row, which is read first.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use verdict::run::{Items, Wait};
use verdict::{Digest, Name, TaskId};

/// Waits whose items are kept: a mebibyte each at most. A run that fans out is done within seconds, so few of them are at
/// it at the same time. The one that was kept first makes room.
const KEPT_MAX: usize = 32;

#[derive(Default)]
pub(crate) struct LongWaits {
    kept: Mutex<VecDeque<LongWait>>,
}

struct LongWait {
    task: TaskId,
    key: Name,
    digest: Digest,
    items: Items,
}

impl LongWait {
    fn is_of(&self, task: TaskId, wait: &Wait) -> bool {
        self.task == task && self.key == wait.key && self.digest == wait.digest
    }
}

impl LongWaits {
    pub(crate) fn find(&self, task: TaskId, wait: &Wait) -> Option<Items> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|it| it.is_of(task, wait)).map(|it| it.items.clone())
    }

    pub(crate) fn keep(&self, task: TaskId, wait: &Wait) {
        let Wait { key, digest, items, .. } = wait.clone();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|it| it.task != task);
        kept.push_back(LongWait { task, key, digest, items });
        if kept.len() > KEPT_MAX {
            kept.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use verdict::run::{Awaited, AwaitedEvent, WaitMode};
    use verdict::{Digest, Time};

    use super::*;

    fn wait(key: &str, child: &str) -> Wait {
        let item = Awaited { key: child.into(), event: AwaitedEvent::Child(child.into()) };
        Wait {
            key: key.into(),
            digest: Digest::of(&[child.as_bytes()]),
            mode: WaitMode::All,
            items: vec![item].into(),
            missing: 1,
            gives_up_at: Time::from_millis(1),
        }
    }

    #[test]
    fn items_are_found_only_by_their_own_wait() {
        let (waits, task) = (LongWaits::default(), TaskId::from_u128(1));
        waits.keep(task, &wait("join#1", "a"));
        assert_eq!(waits.find(task, &wait("join#1", "a")), Some(wait("join#1", "a").items));
        assert_eq!(waits.find(task, &wait("join#2", "a")), None);
        assert_eq!(waits.find(task, &wait("join#1", "b")), None);
        assert_eq!(waits.find(TaskId::from_u128(2), &wait("join#1", "a")), None);
    }

    #[test]
    fn a_task_has_one_wait_and_the_oldest_makes_room() {
        let waits = LongWaits::default();
        for task in 0..=KEPT_MAX as u128 {
            waits.keep(TaskId::from_u128(task), &wait("join#1", "a"));
            waits.keep(TaskId::from_u128(task), &wait("join#2", "a"));
        }
        let is_kept = |task, key| waits.find(TaskId::from_u128(task), &wait(key, "a")).is_some();
        assert!(!is_kept(0, "join#2") && is_kept(1, "join#2") && !is_kept(1, "join#1"));
    }
}
