//! The store's clock: wall time at opening, monotonic from there, never backwards.
//!
//! Time enters through [`Clock`], so that a simulator can control it. Nothing else in this crate reads
//! a clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use verdict::{Span, Time};

use crate::failure::{Failure, FailureKind};

/// How far the stored time may be ahead of wall time before opening is refused. More than an hour is not
/// drift: the clock was wrong once, and every lease would wait until wall time catches up.
pub const AHEAD_MAX: Span = Span::from_secs(60 * 60);

/// Where time comes from.
pub trait Clock: Send + Sync + 'static {
    /// Wall time.
    fn wall(&self) -> Time;
    /// Time since an arbitrary instant, never decreasing, unaffected by wall-clock steps.
    fn monotonic(&self) -> Span;
}

/// The machine's clocks.
#[derive(Debug)]
pub struct SystemClock {
    start: std::time::Instant,
}

impl SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]
    pub fn start() -> Self {
        Self { start: std::time::Instant::now() }
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]
    fn wall(&self) -> Time {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Time::from_millis(since.map_or(0, |since| since.as_millis() as i64) + faultpoint::skew_ms())
    }

    fn monotonic(&self) -> Span {
        Span::from_millis(self.start.elapsed().as_millis() as u64)
    }
}

/// What to do when the stored time is far ahead of wall time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockAhead {
    Refuse,
    /// `--accept-clock`: continue from the stored time.
    Accept,
}

/// A store's clock, based on a [`Clock`].
#[derive(Clone)]
pub struct MonotonicClock {
    clock: Arc<dyn Clock>,
    /// Wall time (or the stored maximum, if later) when monotonic time was `from`.
    base: Time,
    from: Span,
    latest: Arc<AtomicI64>,
}

impl MonotonicClock {
    /// Starts at wall time, but never before `stored`, the latest time that an earlier opening recorded.
    pub fn open(
        clock: Arc<dyn Clock>,
        stored: Option<Time>,
        ahead: ClockAhead,
    ) -> Result<Self, Failure> {
        let wall = clock.wall();
        if let Some(stored) = stored
            && stored.since(wall) > AHEAD_MAX
            && ahead == ClockAhead::Refuse
        {
            return Err(Failure::new(FailureKind::Closed, too_far_ahead(stored, wall)));
        }
        let base = stored.map_or(wall, |stored| stored.max(wall));
        let from = clock.monotonic();
        Ok(Self { clock, base, from, latest: Arc::new(AtomicI64::new(base.millis())) })
    }

    /// The same clock as read by another machine: `clock` must count the same monotonic time.
    #[must_use]
    pub fn with_clock(&self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self.clone() }
    }

    /// The current time, never before an earlier reading.
    pub fn now(&self) -> Time {
        let passed = self.clock.monotonic().millis().saturating_sub(self.from.millis());
        let passed = if faultpoint::mutant(29) {
            self.clock.wall().since(self.base).millis()
        } else {
            passed
        };
        let now = self.base.plus(Span::from_millis(passed)).millis();
        Time::from_millis(self.latest.fetch_max(now, Ordering::SeqCst).max(now))
    }
}

fn too_far_ahead(stored: Time, wall: Time) -> String {
    let seconds = stored.since(wall).millis() / 1000;
    format!(
        "the store's last commit is {seconds} s ahead of this machine's clock; correct the clock, \
         or start with --accept-clock to continue from the stored time"
    )
}
