//! Which tasks ended in this coordinator's commits, for the sealer of records.
//!
//! A hint, like every channel out of a commit: what is lost here is found in the store by the next search. The carrier only
//! appends ids of a batch that is durable, and never waits. Nothing is kept where no sealer listens.

use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;
use verdict::TaskId;

/// How many ids are kept: some seconds of a full load. What ends after that is left to a search of the store.
const IDS_MAX: usize = 100_000;

#[derive(Clone, Default)]
pub(crate) struct EndedFeed(Arc<Shared>);

#[derive(Default)]
struct Shared {
    ended: Mutex<Ended>,
    changed: Notify,
}

#[derive(Default)]
struct Ended {
    is_followed: bool,
    ids: Vec<TaskId>,
    /// Ids were dropped.
    is_overfull: bool,
}

impl EndedFeed {
    /// Adds the ends of a durable batch.
    pub(crate) fn note(&self, ids: &[TaskId]) {
        if ids.is_empty() {
            return;
        }
        let mut ended = self.lock();
        if !ended.is_followed {
            return;
        }
        let room = IDS_MAX - ended.ids.len();
        ended.is_overfull |= room < ids.len();
        ended.ids.extend(&ids[..room.min(ids.len())]);
        drop(ended);
        self.0.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Ended> {
        self.0.ended.lock().expect("no code panics while it holds the ended tasks")
    }
}

#[cfg(feature = "http")]
impl EndedFeed {
    /// Keeps ids from now on.
    pub(crate) fn follow(&self) {
        self.lock().is_followed = true;
    }

    /// Waits until at least so many ids are there. The caller is the only one that waits.
    pub(crate) async fn holds(&self, count: usize) {
        while self.lock().ids.len() < count {
            self.0.changed.notified().await;
        }
    }

    /// Takes all ids, and whether some were dropped.
    pub(crate) fn take(&self) -> (Vec<TaskId>, bool) {
        let mut ended = self.lock();
        (std::mem::take(&mut ended.ids), std::mem::take(&mut ended.is_overfull))
    }
}

#[cfg(all(test, feature = "http"))]
mod tests {
    use super::*;

    fn ids(count: usize) -> Vec<TaskId> {
        (0..count as u128).map(TaskId::from_u128).collect()
    }

    #[test]
    fn keeps_nothing_before_it_is_followed_and_no_more_than_its_limit() {
        let feed = EndedFeed::default();
        feed.note(&ids(3));
        assert_eq!(feed.take(), (Vec::new(), false));
        feed.follow();
        feed.note(&ids(2));
        assert_eq!(feed.take(), (ids(2), false));
        feed.note(&ids(IDS_MAX));
        feed.note(&ids(1));
        let (kept, is_overfull) = feed.take();
        assert_eq!((kept.len(), is_overfull), (IDS_MAX, true));
        assert_eq!(feed.take(), (Vec::new(), false), "taken once");
    }

    #[tokio::test]
    async fn wakes_its_follower_when_enough_is_there() {
        let feed = EndedFeed::default();
        feed.follow();
        let waiting = tokio::spawn({
            let feed = feed.clone();
            async move { feed.holds(2).await }
        });
        feed.note(&ids(1));
        feed.note(&ids(1));
        waiting.await.expect("it is woken");
    }
}
