//! The number of tasks in the queues, for `/metrics`: read beside the scrape, by one reader at a time, with a
//! limited rate.
//!
//! Counting reads all unfinished tasks. A scrape starts a reading if the last one is old enough, waits for it for
//! a short time, and otherwise answers with the last known counts. However many scrapers there are, and however
//! slow the store is, the store is not queried more often than this allows.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use store::{PendingObjects, QueueDepth, effects};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use verdict::{ObjectType, Time};

use super::queue_metrics::QueueMetrics;

/// Scrapers come every ten seconds or so; two of them share a reading.
const READ_EVERY: Duration = Duration::from_secs(2);

/// The pause after a reading, as a multiple of its duration: at most a twentieth of the time is spent reading,
/// however much there is to count.
const REST_PER_READ: u32 = 19;

/// Over all scopes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct QueueCounts {
    pub(super) ready: u64,
    pub(super) parked: u64,
    pub(super) delayed: u64,
    pub(super) running: u64,
    /// Tasks that wait for time, signals, people, children or other steps.
    pub(super) waiting: u64,
    /// Effects that were given up or may have arrived, and block what is behind them.
    pub(super) effects_dead: u64,
    pub(super) effects_unknown: u64,
    pub(super) approvals_open: u64,
    pub(super) oldest_ready_seconds: u64,
    /// By queue, if the operator asked for it.
    pub(super) by_queue: Option<Arc<QueueMetrics>>,
}

impl QueueCounts {
    /// `queues_max` is how many queues to list by name.
    pub(super) fn of(
        depths: &[QueueDepth],
        pending: &[PendingObjects],
        now: Time,
        queues_max: usize,
    ) -> Self {
        let sum = |of: fn(&QueueDepth) -> u64| depths.iter().map(of).sum::<u64>();
        let objects = |object_type, status: Option<&str>| -> u64 {
            let is_it = |it: &&PendingObjects| {
                it.object_type == object_type
                    && status.is_none_or(|status| it.status.as_str() == status)
            };
            pending.iter().filter(is_it).map(|it| it.count).sum()
        };
        let oldest = depths.iter().filter_map(|depth| depth.oldest_ready_at).min();
        Self {
            ready: sum(|depth| depth.ready),
            parked: sum(|depth| depth.parked),
            delayed: sum(|depth| depth.delayed),
            running: sum(|depth| depth.running),
            waiting: sum(|it| {
                it.unfinished.saturating_sub(it.ready + it.parked + it.delayed + it.running)
            }),
            effects_dead: objects(ObjectType::Effect, Some(effects::DEAD)),
            effects_unknown: objects(ObjectType::Effect, Some(effects::UNKNOWN)),
            approvals_open: objects(ObjectType::Approval, None),
            oldest_ready_seconds: oldest.map_or(0, |oldest| now.since(oldest).millis() / 1_000),
            by_queue: (queues_max > 0).then(|| Arc::new(QueueMetrics::of(depths, now, queues_max))),
        }
    }
}

/// Counts, and when their reading began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CachedCounts {
    pub(super) counts: QueueCounts,
    at: Instant,
}

impl CachedCounts {
    pub(super) fn age(&self) -> Duration {
        self.at.elapsed()
    }
}

#[derive(Default)]
pub(crate) struct QueueCountCache {
    state: Mutex<State>,
    /// Notified when a reading has ended, successful or not.
    ended: Notify,
}

#[derive(Default)]
struct State {
    cached: Option<CachedCounts>,
    is_reading: bool,
    /// No reading begins before this time.
    rests_until: Option<Instant>,
}

impl QueueCountCache {
    /// The last known counts, after a new reading if one is due and completes `within` the time. A slower reading
    /// continues in the background, for the next caller.
    pub(super) async fn latest<F>(
        self: &Arc<Self>,
        background: &TaskTracker,
        within: Duration,
        read: impl FnOnce() -> F,
    ) -> Option<CachedCounts>
    where
        F: Future<Output = Option<QueueCounts>> + Send + 'static,
    {
        let ended = self.ended.notified();
        tokio::pin!(ended);
        // Registered before the check, so that a reading that ends in between is not missed.
        ended.as_mut().enable();
        if let Some(reading) = self.begin() {
            let read = read();
            background.spawn(async move { reading.end(read.await) });
        } else if !self.state().is_reading {
            return self.state().cached.clone();
        }
        // After a timeout the last known counts are returned.
        let _ = tokio::time::timeout(within, ended).await;
        self.state().cached.clone()
    }

    /// Permission to read, for one reader at a time and not too often.
    fn begin(self: &Arc<Self>) -> Option<CountRead> {
        let now = tokio::time::Instant::now();
        let mut state = self.state();
        if state.is_reading || state.rests_until.is_some_and(|until| now < until) {
            return None;
        }
        state.is_reading = true;
        Some(CountRead { queue_counts: self.clone(), began: now })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no code panics while it holds the counts")
    }
}

/// A reading under way. Dropping it counts as a failure.
struct CountRead {
    queue_counts: Arc<QueueCountCache>,
    began: Instant,
}

impl CountRead {
    fn end(self, counts: Option<QueueCounts>) {
        if let Some(counts) = counts {
            self.queue_counts.state().cached = Some(CachedCounts { counts, at: self.began });
        }
    }
}

impl Drop for CountRead {
    fn drop(&mut self) {
        let now = tokio::time::Instant::now();
        let rest = READ_EVERY.max(now.duration_since(self.began) * REST_PER_READ);
        let mut state = self.queue_counts.state();
        state.is_reading = false;
        state.rests_until = Some(now + rest);
        drop(state);
        self.queue_counts.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A store that counts how often it is read, and is slow.
    struct Slow {
        queue_counts: Arc<QueueCountCache>,
        background: TaskTracker,
        readings: Arc<AtomicU64>,
        takes: Duration,
    }

    impl Slow {
        fn new(takes: Duration) -> Self {
            let (queue_counts, background, readings) = Default::default();
            Self { queue_counts, background, readings, takes }
        }

        async fn scrape(&self) -> Option<CachedCounts> {
            let (takes, readings) = (self.takes, self.readings.clone());
            let read = move || async move {
                let ready = readings.fetch_add(1, Ordering::SeqCst) + 1;
                tokio::time::sleep(takes).await;
                Some(QueueCounts { ready, ..QueueCounts::default() })
            };
            self.queue_counts.latest(&self.background, SECOND, read).await
        }

        fn readings(&self) -> u64 {
            self.readings.load(Ordering::SeqCst)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn many_who_scrape_at_once_and_often_share_a_reading() {
        let store = Slow::new(Duration::from_millis(10));
        for round in 1..=3 {
            for _ in 0..100 {
                let cached = store.scrape().await.expect("it comes in time");
                assert_eq!((cached.counts.ready, store.readings()), (round, round));
            }
            tokio::time::advance(READ_EVERY).await;
        }
        let together = futures_util::future::join_all((0..100).map(|_| store.scrape())).await;
        assert!(together.iter().flatten().filter(|cached| cached.counts.ready == 4).count() == 100);
        assert_eq!(store.readings(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_is_slow_keeps_no_scrape_waiting_and_rests_between_readings() {
        // X46, F44: ten minutes of scrapes every second on a store that needs ten seconds to count.
        let store = Slow::new(10 * SECOND);
        let mut waited = Duration::ZERO;
        let mut oldest = Duration::ZERO;
        for scrape in 0..600 {
            let began = tokio::time::Instant::now();
            let cached = store.scrape().await;
            waited = waited.max(began.elapsed());
            assert_eq!(cached.is_some(), scrape > 9, "counts come with the first reading");
            let age = cached.as_ref().map_or(Duration::ZERO, |cached| cached.age());
            assert!(cached.is_none() || age >= store.takes, "its age counts from its beginning");
            oldest = oldest.max(age);
            tokio::time::sleep_until(began + SECOND).await;
        }
        assert_eq!(waited, SECOND, "no longer than it is allowed");
        assert_eq!(store.readings(), 3, "a twentieth of ten minutes");
        assert!(oldest > 190 * SECOND, "and it says how old they are");
    }

    #[tokio::test(start_paused = true)]
    async fn a_reading_that_fails_leaves_the_last_figures_and_is_tried_again() {
        let (queue_counts, background) = (Arc::new(QueueCountCache::default()), TaskTracker::new());
        let first = QueueCounts { ready: 7, ..QueueCounts::default() };
        let found = first.clone();
        let cached = queue_counts.latest(&background, SECOND, || async move { Some(found) }).await;
        assert_eq!(cached.as_ref().map(|cached| &cached.counts), Some(&first));
        for _ in 0..3 {
            tokio::time::advance(READ_EVERY).await;
            let cached = queue_counts.latest(&background, SECOND, || async { None }).await;
            assert_eq!(cached.map(|cached| cached.counts), Some(first.clone()));
        }
        assert_eq!(cached.map(|cached| cached.age()), Some(3 * READ_EVERY));
    }
}
