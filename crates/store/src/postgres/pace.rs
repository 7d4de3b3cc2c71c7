//! How often to repeat a read that may have become slow.
//!
//! A read from the head of an index walks over every entry that is dead but may not be removed yet, because
//! some old snapshot could still see it. How many there are is not in our hands, so how often we look
//! is: such a read rests for a multiple of the time it took. However long somebody leaves a
//! transaction open, looking never takes more than a small share of the time.

use std::time::Duration;

use tokio::time::Instant;

/// One part of the time for looking, so many for work.
const REST: u32 = 19;

#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    ended: Instant,
    took: Duration,
}

impl Pace {
    /// The read that began then has just ended.
    pub(super) fn of(began: Instant) -> Self {
        Self { ended: tokio::time::Instant::now(), took: began.elapsed() }
    }

    /// When the read may be repeated, if it should be no sooner than after `at_least`.
    pub(super) fn rests_until(&self, at_least: Duration) -> Instant {
        self.ended + at_least.max(self.took * REST)
    }

    pub(super) fn is_rested(&self, at_least: Duration) -> bool {
        tokio::time::Instant::now() >= self.rests_until(at_least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_read_rests_longer() {
        let (ended, look) = (Instant::now(), Duration::from_millis(400));
        let rest = |took: u64| {
            let pace = Pace { ended, took: Duration::from_millis(took) };
            pace.rests_until(look) - ended
        };
        assert_eq!(rest(1), look);
        assert_eq!(rest(100), Duration::from_millis(1_900), "a twentieth of the time at most");
    }
}
