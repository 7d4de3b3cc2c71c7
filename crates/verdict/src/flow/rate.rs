//! The rate of a flow key: at most so many starts in any window of so long.
//!
//! A start is a grant. Each takes one of `count` places of the key, and its place is free again `per` later, whatever became of
//! the task meanwhile. So the starts of the last `per` are all that has to be remembered, the bound is exact for every
//! window (not only for those that begin at a full second), and as many as are allowed may start at once.
//!
//! Nothing here reads a clock. A start that is recorded later than `now` counts: another coordinator's clock may be ahead.
//!
//! Invariant: if every start was allowed by [`Starts::left`], no window of length `per`, open at one end, has more than
//! `count` starts.

use crate::time::{Span, Time};

/// The largest number of starts of a rate. As many instants are remembered for each key.
pub const RATE_COUNT_MAX: u32 = 1_000;

/// The longest window of a rate. Starts are remembered that long.
pub const RATE_PER_MAX: Span = Span::from_secs(30 * 24 * 60 * 60);

/// How often tasks with a key may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    /// From 1 to [`RATE_COUNT_MAX`].
    pub count: u32,
    /// From 1 ms to [`RATE_PER_MAX`].
    pub per: Span,
}

/// One more than the largest count, as a power of two.
const RANKS: u64 = 1_024;

impl Rate {
    /// A number for each rate. Of two rates that meet at one key, that with the larger number counts: the longer window, and of
    /// the same window the fewer starts.
    pub const fn rank(self) -> u64 {
        self.per.millis().saturating_mul(RANKS).saturating_add(RANKS - self.count as u64)
    }

    /// The rate with this number.
    pub const fn of_rank(rank: u64) -> Self {
        Self { count: (RANKS - rank % RANKS) as u32, per: Span::from_millis(rank / RANKS) }
    }
}

impl Ord for Rate {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for Rate {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The starts of one key that may still matter, the earliest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Starts(Vec<Time>);

impl Starts {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn add(&mut self, at: Time) {
        let place = self.0.partition_point(|start| *start <= at);
        self.0.insert(place, at);
    }

    /// Takes back one start at this instant, which was not committed.
    pub fn take_back(&mut self, at: Time) {
        if let Ok(place) = self.0.binary_search(&at) {
            self.0.remove(place);
        }
    }

    /// Forgets starts that no window of this length can hold together with one at `now` or later.
    pub fn forget(&mut self, per: Span, now: Time) {
        let gone = self.0.partition_point(|start| start.plus(per).has_come(now));
        self.0.drain(..gone);
    }

    /// How many more tasks may start at `now`.
    pub fn left(&self, rate: Rate, now: Time) -> u32 {
        let gone = self.0.partition_point(|start| start.plus(rate.per).has_come(now));
        let counted = u32::try_from(self.0.len() - gone).unwrap_or(u32::MAX);
        rate.count.saturating_sub(counted)
    }

    /// From when on one more task may start, if none may at `now`.
    pub fn opens_at(&self, rate: Rate, now: Time) -> Option<Time> {
        if self.left(rate, now) > 0 {
            return None;
        }
        let first = self.0.len().checked_sub(rate.count as usize)?;
        self.0.get(first).map(|start| start.plus(rate.per))
    }
}

impl FromIterator<Time> for Starts {
    fn from_iter<I: IntoIterator<Item = Time>>(starts: I) -> Self {
        let mut starts: Vec<Time> = starts.into_iter().collect();
        starts.sort_unstable();
        Self(starts)
    }
}
