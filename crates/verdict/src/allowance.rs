//! Limits of a tenant: its request rate and its quota of unfinished runs.
//!
//! Rates use the generic cell rate algorithm (GCRA): one instant per tenant says when all requests
//! so far would have conformed to the rate. This module stores neither that instant nor the number
//! of runs; the caller passes both in.

use crate::time::{Span, Time};

const NANOS_PER_SECOND: i64 = 1_000_000_000;
const NANOS_PER_MILLI: i64 = 1_000_000;

/// A rate in requests per second, and the burst that is allowed after a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    per_second: u32,
    burst: u32,
}

/// The instant at which all requests so far would have conformed. An instant in the past is
/// equivalent to none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateUsage(i64);

impl Rate {
    /// Raises both values to at least 1. Without `burst`, one second's worth of requests may arrive
    /// at once.
    pub fn new(per_second: u32, burst: Option<u32>) -> Self {
        Self { per_second: per_second.max(1), burst: burst.unwrap_or(per_second).max(1) }
    }

    /// The usage after one more request at `now`, or how long to wait until that request conforms.
    pub fn try_acquire(self, spent: RateUsage, now: Time) -> Result<RateUsage, Span> {
        let now = now.millis().saturating_mul(NANOS_PER_MILLI);
        let each = NANOS_PER_SECOND / i64::from(self.per_second);
        let ahead = each.saturating_mul(i64::from(self.burst) - 1);
        let fair_at = spent.0.max(now);
        let early = fair_at.saturating_sub(now).saturating_sub(ahead);
        if early > 0 {
            return Err(Span::from_millis(early.unsigned_abs().div_ceil(NANOS_PER_MILLI as u64)));
        }
        Ok(RateUsage(fair_at.saturating_add(each)))
    }

    /// The usage after a call at `now` that stands for so many requests, which was let in for the first of them: the calls that
    /// follow wait for the rest. So a large call is possible however small the burst is.
    #[must_use]
    pub fn charged(self, spent: RateUsage, now: Time, requests: u64) -> RateUsage {
        let now = now.millis().saturating_mul(NANOS_PER_MILLI);
        let each = NANOS_PER_SECOND / i64::from(self.per_second);
        let all = each.saturating_mul(i64::try_from(requests).unwrap_or(i64::MAX));
        RateUsage(spent.0.max(now).saturating_add(all))
    }

    /// How many requests may arrive at once now.
    pub fn left(self, spent: RateUsage, now: Time) -> u32 {
        let now = now.millis().saturating_mul(NANOS_PER_MILLI);
        let each = NANOS_PER_SECOND / i64::from(self.per_second);
        let ahead = each.saturating_mul(i64::from(self.burst) - 1);
        let early = spent.0.max(now).saturating_sub(now);
        if early > ahead {
            return 0;
        }
        u32::try_from((ahead - early) / each + 1).unwrap_or(self.burst).min(self.burst)
    }

    pub const fn burst(self) -> u32 {
        self.burst
    }
}

/// How many tasks that a call creates stand for one request. A tenant that has hundreds of steps in a plan is no flood of
/// requests, and one whose every call creates a thousand tasks is: a rate of requests bounds its tasks, too. It is the ratio by which
/// quotas count children ([`CHILDREN_PER_RUN`]).
pub const TASKS_PER_REQUEST: u64 = 100;

/// What a call that creates so many tasks takes from a rate: runs, steps of plans and children.
pub const fn requests_for(tasks: u64) -> u64 {
    match tasks.div_ceil(TASKS_PER_REQUEST) {
        0 => 1,
        requests => requests,
    }
}

/// How much of a limit is left, in the words that explanations use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headroom {
    Ample,
    /// A tenth or less: the next burst may reach the limit.
    Low,
    Exhausted,
}

impl Headroom {
    pub const fn of(left: u64, limit: u64) -> Self {
        match left {
            0 => Headroom::Exhausted,
            _ if left <= limit / 10 => Headroom::Low,
            _ => Headroom::Ample,
        }
    }
}

/// The unfinished children that a tenant may have for each run of its quota. They are counted apart from runs: a quota that
/// is full of runs which wait for children would otherwise never have room for one.
pub const CHILDREN_PER_RUN: u64 = 100;

/// The unfinished work of a tenant, which a quota limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unfinished {
    pub runs: u64,
    /// Tasks that have a parent.
    pub children: u64,
}

impl Unfinished {
    #[must_use]
    pub const fn plus(self, more: Self) -> Self {
        Self { runs: self.runs + more.runs, children: self.children + more.children }
    }
}

/// The maximum number of unfinished runs of a tenant, and the present numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    pub max: u64,
    pub unfinished: u64,
    /// Unfinished tasks that have a parent, in all runs.
    pub children: u64,
}

impl Quota {
    pub const fn is_reached(self) -> bool {
        self.unfinished >= self.max
    }

    /// Whether no more children may start.
    pub const fn is_reached_by_children(self) -> bool {
        !self.has_room_for_children(1)
    }

    /// Whether so many more children may start.
    pub const fn has_room_for_children(self, count: u64) -> bool {
        self.children.saturating_add(count) <= self.max.saturating_mul(CHILDREN_PER_RUN)
    }
}
