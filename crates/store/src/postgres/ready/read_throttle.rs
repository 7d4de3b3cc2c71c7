//! How often to repeat a read that may have become slow.
//!
//! A read from the head of an index walks over every dead entry that cannot be removed yet, because an old snapshot
//! could still see it. We do not control how many there are, so we control how often we read. In the long run such
//! reads get a small share of the time, however long a transaction stays open, unless a single read takes longer than
//! the longest pause. A few quick reads in a row are always allowed, so that a peer's hint is followed at once.

use std::time::Duration;

use tokio::time::Instant;

/// Reads get one part of the time out of this many.
const PARTS: u32 = 20;

/// How far ahead of that share reads may be: ten milliseconds of read time, or about twenty quick reads.
const AHEAD_MAX: Duration = Duration::from_millis(200);

/// The longest pause. A read may also be slow because the server or its disk hung for a while: tasks must not stay
/// unseen for twenty times as long.
const PAUSE_MAX: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug)]
pub(in crate::postgres) struct ReadThrottle {
    ended: Instant,
    /// When all reads so far have had no more than their share.
    settled: Instant,
}

impl ReadThrottle {
    /// The throttle after a read that began at `began` and ends now; `before` is the throttle of the earlier reads.
    pub(in crate::postgres) fn of(began: Instant, before: Option<ReadThrottle>) -> Self {
        Self::after(tokio::time::Instant::now(), began.elapsed(), before)
    }

    /// The throttle after a read that took `took` and ended at `ended`.
    pub(in crate::postgres) fn after(
        ended: Instant,
        took: Duration,
        before: Option<ReadThrottle>,
    ) -> Self {
        let settled = before.map_or(ended, |before| before.settled.max(ended));
        let settled = settled + took.saturating_mul(PARTS);
        Self { ended, settled: settled.min(ended + AHEAD_MAX + PAUSE_MAX) }
    }

    /// When the read may be repeated, but no sooner than `at_least` after its end.
    pub(in crate::postgres) fn allowed_at(&self, at_least: Duration) -> Instant {
        let is_fair = self.settled.checked_sub(AHEAD_MAX).unwrap_or(self.ended);
        is_fair.max(self.ended + at_least)
    }

    pub(in crate::postgres) fn is_allowed(&self, at_least: Duration) -> bool {
        tokio::time::Instant::now() >= self.allowed_at(at_least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_read_rests_longer() {
        let (ended, look) = (Instant::now(), Duration::from_millis(400));
        let rest = |took: u64| {
            let throttle = ReadThrottle::after(ended, Duration::from_millis(took), None);
            throttle.allowed_at(look) - ended
        };
        assert_eq!(rest(1), look);
        assert_eq!(rest(100), Duration::from_millis(1_800), "and the rest before it was free");
    }

    #[test]
    fn no_rest_is_long_however_slow_the_read_was() {
        // after the server hung for a minute, the read is repeated soon.
        let ended = Instant::now();
        let hung = ReadThrottle::after(ended, Duration::from_secs(60), None);
        assert_eq!(hung.allowed_at(Duration::ZERO) - ended, PAUSE_MAX);
        let later = ended + PAUSE_MAX;
        let again = ReadThrottle::after(later, Duration::from_millis(1), Some(hung));
        let rest = again.allowed_at(Duration::ZERO) - later;
        assert_eq!(rest, Duration::from_millis(20), "and once it is well again it is as before");
    }

    #[test]
    fn quick_reads_follow_each_other_until_they_have_had_their_share() {
        // A hint is followed at once, but not every hint of a flood.
        let (mut now, took) = (Instant::now(), Duration::from_millis(1));
        let begun = now;
        let mut throttle = None;
        let mut reads = 0_u32;
        while now - begun < Duration::from_secs(10) {
            let last = *throttle.insert(ReadThrottle::after(now, took, throttle));
            reads += 1;
            now = last.allowed_at(Duration::ZERO).max(now + took);
        }
        assert!(reads >= 500, "{reads}: a twentieth of ten seconds is for reading");
        assert!(reads <= 500 + 12, "{reads}: and no more but for the few at the beginning");
    }
}
