//! Backoff after the store refused a write.
//!
//! The pause doubles with every failed attempt, up to a bound, and has jitter, so that coordinators that lost the same
//! database do not all return to it at once. It applies only to background work (sweeps, grants to waiting polls, the
//! probe whether the store is back): a request is always tried against the store, and its failure does not lengthen
//! the pause. Decides nothing about tasks, and reads no clock.

use std::time::Duration;

use tokio::time::Instant;

use crate::ids::{Entropy, SeededEntropy};

/// The longest first pause. Brief failures are over by then, and four tries a second are no load.
const FIRST: Duration = Duration::from_millis(250);

/// The longest pause. After an operator has made room, readiness returns within this time without a request.
const LONGEST: Duration = Duration::from_secs(8);

pub(super) struct Backoff {
    entropy: SeededEntropy,
    /// Failed tries in a row.
    failed: u32,
    /// When to try again; `None` while the store works.
    until: Option<Instant>,
}

impl Backoff {
    pub(super) fn new(entropy: SeededEntropy) -> Self {
        Self { entropy, failed: 0, until: None }
    }

    /// Records a failed try. A failure within a pause changes nothing.
    pub(super) fn failed(&mut self, here: Instant) {
        if self.is_resting(here) {
            return;
        }
        let pause = self.jittered(longest_pause(self.failed));
        self.failed = self.failed.saturating_add(1);
        self.until = Some(here + pause);
    }

    /// Records that the store accepted everything there was to write.
    pub(super) fn succeeded(&mut self) {
        self.failed = 0;
        self.until = None;
    }

    pub(super) fn is_resting(&self, here: Instant) -> bool {
        self.until.is_some_and(|until| here < until)
    }

    /// When to try again, possibly in the past; `None` while the store works.
    pub(super) fn until(&self) -> Option<Instant> {
        self.until
    }

    pub(super) fn left(&self, here: Instant) -> Duration {
        self.until.map_or(Duration::ZERO, |until| until.saturating_duration_since(here))
    }

    /// A random duration between half of the pause and all of it.
    fn jittered(&mut self, pause: Duration) -> Duration {
        let half = pause / 2;
        let mut bytes = [0; 4];
        self.entropy.fill(&mut bytes);
        half + half.mul_f64(f64::from(u32::from_be_bytes(bytes)) / f64::from(u32::MAX))
    }
}

/// The pause after `failed` tries in a row, before jitter.
fn longest_pause(failed: u32) -> Duration {
    let doubled = 1_u32.checked_shl(failed).and_then(|factor| FIRST.checked_mul(factor));
    doubled.map_or(LONGEST, |pause| pause.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pauses for a store that never recovers.
    fn pauses(seed: u64, count: usize) -> Vec<Duration> {
        let mut backoff = Backoff::new(SeededEntropy::new(seed));
        let mut here = Instant::now();
        let mut next = || {
            backoff.failed(here);
            let pause = backoff.left(here);
            here += pause;
            pause
        };
        std::iter::repeat_with(&mut next).take(count).collect()
    }

    #[test]
    fn pauses_double_up_to_a_bound_and_are_shortened_by_at_most_half() {
        let expected =
            [250, 500, 1_000, 2_000, 4_000, 8_000, 8_000, 8_000].map(Duration::from_millis);
        for (pause, longest) in pauses(7, expected.len()).into_iter().zip(expected) {
            assert!(longest / 2 <= pause && pause <= longest, "{pause:?} for {longest:?}");
        }
        assert!(pauses(7, 100).into_iter().all(|pause| pause <= LONGEST), "no overflow either");
    }

    #[test]
    fn equal_seeds_pause_alike_and_others_do_not() {
        // S2-109: randomness is injected, so that a simulation is repeatable.
        assert_eq!(pauses(7, 8), pauses(7, 8));
        assert_ne!(pauses(7, 8), pauses(8, 8));
    }

    #[test]
    fn a_failure_within_the_pause_does_not_lengthen_it() {
        let mut backoff = Backoff::new(SeededEntropy::new(7));
        let here = Instant::now();
        backoff.failed(here);
        let until = backoff.until();
        backoff.failed(here + Duration::from_millis(1));
        assert_eq!(backoff.until(), until);
        backoff.succeeded();
        assert_eq!((backoff.until(), backoff.failed), (None, 0));
    }
}
