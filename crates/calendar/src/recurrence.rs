//! What recurs, by a cron expression or at an interval.

use std::fmt;

use crate::cron::Cron;
use crate::zone::Zone;

/// The shortest interval: more often than once a second is a loop, not a schedule.
pub const EVERY_MS_MIN: u64 = 1_000;
/// The longest interval, ten years: beyond it a mistyped number is likelier than a wish.
pub const EVERY_MS_MAX: u64 = 10 * 366 * 24 * 60 * 60 * 1_000;
/// How many instants [`Recurrence::latest`] names at once before it halves the range: most ranges have fewer, and a dense one of
/// years is not walked through.
const RANGE_MAX: usize = 256;
/// The last instant that has a year of four digits at every offset.
const LAST_MS: i64 = 253_402_207_200_000;

/// Every so many milliseconds, counted from an anchor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    every: i64,
    anchor: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntervalError(u64);

/// A rule that names instants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recurrence {
    Cron { cron: Cron, zone: Zone },
    Interval(Interval),
}

impl Interval {
    pub fn new(every_ms: u64, anchor_ms: i64) -> Result<Self, IntervalError> {
        if !(EVERY_MS_MIN..=EVERY_MS_MAX).contains(&every_ms) {
            return Err(IntervalError(every_ms));
        }
        Ok(Self { every: every_ms as i64, anchor: anchor_ms })
    }

    /// The first instant later than `after_ms`: the anchor plus a whole number of intervals, at least one.
    fn next(self, after_ms: i64) -> Option<i64> {
        let passed = after_ms.saturating_sub(self.anchor).max(0) / self.every;
        let next = self.anchor.checked_add((passed + 1).checked_mul(self.every)?)?;
        (next <= LAST_MS).then_some(next)
    }
}

impl Recurrence {
    /// The first instant later than `after_ms`, if there is one.
    pub fn next(&self, after_ms: i64) -> Option<i64> {
        match self {
            Recurrence::Cron { cron, zone } => cron.next(zone, after_ms),
            Recurrence::Interval(interval) => interval.next(after_ms),
        }
    }

    /// The next instants, at most `count`.
    pub fn upcoming(&self, after_ms: i64, count: usize) -> Vec<i64> {
        std::iter::successors(self.next(after_ms), |last| self.next(*last)).take(count).collect()
    }

    /// The instants later than `after_ms` and not later than `until_ms`, at most `count` and the earliest first.
    pub fn within(&self, after_ms: i64, until_ms: i64, count: usize) -> Vec<i64> {
        std::iter::successors(self.next(after_ms), |last| self.next(*last))
            .take_while(|instant| *instant <= until_ms)
            .take(count)
            .collect()
    }

    /// The instants from `from_ms` to `until_ms`, both included, at most `count`: the latest ones, the earliest of them first.
    pub fn latest(&self, from_ms: i64, until_ms: i64, count: usize) -> Vec<i64> {
        let mut found = Vec::new();
        self.collect_backwards(from_ms, until_ms, count, &mut found);
        found.reverse();
        found
    }

    /// Adds the instants of a range, the latest first, until there are `count`.
    fn collect_backwards(&self, from_ms: i64, until_ms: i64, count: usize, found: &mut Vec<i64>) {
        if from_ms > until_ms || found.len() >= count {
            return;
        }
        let some = self.within(from_ms.saturating_sub(1), until_ms, RANGE_MAX);
        if some.len() < RANGE_MAX {
            found.extend(some.into_iter().rev().take(count - found.len()));
            return;
        }
        let middle = from_ms + (until_ms - from_ms) / 2;
        self.collect_backwards(middle + 1, until_ms, count, found);
        self.collect_backwards(from_ms, middle, count, found);
    }
}

impl fmt::Display for IntervalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an interval is {EVERY_MS_MIN} to {EVERY_MS_MAX} milliseconds, not {}", self.0)
    }
}

impl std::error::Error for IntervalError {}
