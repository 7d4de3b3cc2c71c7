//! Time as the rules see it: whole milliseconds, passed in and never read from a clock.

use crate::rules::Rules;

/// An instant, in milliseconds since the Unix epoch, by the store's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

impl Time {
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Saturates at the maximum instead of wrapping: an absurd span can delay, never expire.
    pub const fn plus(self, span: Span) -> Self {
        let span = if span.0 > i64::MAX as u64 { i64::MAX } else { span.0 as i64 };
        Self(self.0.saturating_add(span))
    }

    /// The time from `earlier` until this instant; zero if it is not later.
    pub const fn since(self, earlier: Time) -> Span {
        let gap = self.0.saturating_sub(earlier.0);
        Span(if gap > 0 { gap as u64 } else { 0 })
    }

    /// The one comparison of the system: an instant has come when `now` has reached it.
    pub const fn has_come(self, now: Time) -> bool {
        now.0 >= self.0
    }
}

/// A length of time in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

impl Span {
    pub const ZERO: Span = Span(0);

    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    pub const fn millis(self) -> u64 {
        self.0
    }

    /// The difference; zero if `other` is longer.
    #[must_use]
    pub const fn minus(self, other: Span) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// When, in which epoch of the store and by which version of the rules a decision is made.
///
/// The epoch grows when a store is restored from a backup: leases of an earlier epoch have no
/// authority (S3-24).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    pub now: Time,
    pub epoch: u32,
    pub rules: Rules,
}
