//! A clock that moves only when a test moves it, for simulations and tests.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use verdict::{Span, Time};

use store::clock::Clock;

#[derive(Debug)]
pub struct ManualClock {
    wall: AtomicI64,
    monotonic: AtomicU64,
}

impl ManualClock {
    pub fn at(wall: Time) -> Self {
        Self { wall: AtomicI64::new(wall.millis()), monotonic: AtomicU64::new(0) }
    }

    /// Time passes: both clocks move.
    pub fn advance(&self, span: Span) {
        self.monotonic.fetch_add(span.millis(), Ordering::SeqCst);
        self.set_wall(self.wall().plus(span));
    }

    /// Sets the wall clock, forwards or backwards. No time passes.
    pub fn set_wall(&self, wall: Time) {
        self.wall.store(wall.millis(), Ordering::SeqCst);
    }
}

impl Default for ManualClock {
    /// An ordinary date, so that times in failures look like times.
    fn default() -> Self {
        Self::at(Time::from_millis(1_700_000_000_000))
    }
}

impl Clock for ManualClock {
    fn wall(&self) -> Time {
        Time::from_millis(self.wall.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Span {
        Span::from_millis(self.monotonic.load(Ordering::SeqCst))
    }
}
