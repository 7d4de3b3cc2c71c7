//! How many tasks wait and run in each queue, for callers: one reading at a time, shared by all that wait for it.
//!
//! Counting reads all unfinished tasks of all tenants, so a caller must not decide how often it happens. A caller gets a
//! reading that began after it asked, so that it sees what it did before; the reading after that rests for as long as the last
//! one took. However many callers there are, one reader of the store is busy for half of the time.
//!
//! `/metrics` has its own readings ([`super::queue_counts`]): a scrape may be answered with an older one.

use std::sync::Arc;

use store::{Browse, Failure, QueueDepth};
use tokio::sync::Mutex;
use tokio::time::Instant;
use verdict::Scope;

/// Shared by all requests.
#[derive(Default)]
pub(super) struct QueueDepths {
    /// Held during a reading: those who ask meanwhile wait for the next one.
    last: Mutex<Option<Reading>>,
}

struct Reading {
    began: Instant,
    ended: Instant,
    depths: Arc<[QueueDepth]>,
}

impl Reading {
    /// When the next reading may begin.
    fn rested_at(&self) -> Instant {
        self.ended + self.ended.duration_since(self.began)
    }
}

impl QueueDepths {
    /// The queues of a scope, counted after this was called.
    pub(super) async fn of(
        &self,
        browse: &impl Browse,
        scope: &Scope,
    ) -> Result<Vec<QueueDepth>, Failure> {
        let all = self.counted(|| browse.queues(None)).await?;
        Ok(all.iter().filter(|depth| depth.scope == *scope).cloned().collect())
    }

    async fn counted<F>(&self, read: impl FnOnce() -> F) -> Result<Arc<[QueueDepth]>, Failure>
    where
        F: Future<Output = Result<Vec<QueueDepth>, Failure>>,
    {
        let asked = tokio::time::Instant::now();
        let mut last = self.last.lock().await;
        if let Some(reading) = &*last {
            if reading.began >= asked {
                return Ok(reading.depths.clone());
            }
            tokio::time::sleep_until(reading.rested_at()).await;
        }
        let began = tokio::time::Instant::now();
        let depths: Arc<[QueueDepth]> = read().await?.into();
        *last = Some(Reading { began, ended: tokio::time::Instant::now(), depths: depths.clone() });
        Ok(depths)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use futures_util::future::join_all;

    use super::*;

    const TOOK: Duration = Duration::from_secs(3);

    async fn slow(readings: &AtomicU32) -> Result<Vec<QueueDepth>, Failure> {
        readings.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(TOOK).await;
        Ok(Vec::new())
    }

    #[tokio::test(start_paused = true)]
    async fn a_hundred_callers_share_two_readings_and_none_gets_an_older_one() {
        let (depths, readings) = (QueueDepths::default(), AtomicU32::new(0));
        let began = tokio::time::Instant::now();
        let first = depths.counted(|| slow(&readings));
        let others = async {
            tokio::time::sleep(TOOK / 2).await;
            join_all((0..100).map(|_| depths.counted(|| slow(&readings)))).await
        };
        let (first, others) = tokio::join!(first, others);
        assert!(first.is_ok() && others.iter().all(Result::is_ok));
        assert_eq!(readings.load(Ordering::Relaxed), 2);
        // The second one rested for as long as the first one took.
        assert_eq!(began.elapsed(), 3 * TOOK);
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_goes_away_holds_up_no_other() {
        let (depths, readings) = (QueueDepths::default(), AtomicU32::new(0));
        let gone = tokio::time::timeout(TOOK / 2, depths.counted(|| slow(&readings))).await;
        assert!(gone.is_err());
        assert!(depths.counted(|| slow(&readings)).await.is_ok());
    }
}
