//! The store's clock: the database's, so that every coordinator reads the same one.
//!
//! A batch reads it behind its locks. Between batches this process goes on from the last reading by
//! its own monotonic clock, which is good enough for questions that decide nothing.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use tokio::time::Instant;
use verdict::{Span, Time};

use super::Options;
use crate::clock::{AHEAD_MAX, Ahead, Clock, Reading, SystemClock};
use crate::failure::{Failure, FailureKind};

pub(super) struct StoreClock {
    /// A clock that was handed in, for simulations and tests.
    given: Option<Reading>,
    latest: AtomicI64,
    /// What the database said, and when.
    base: Mutex<(Time, Instant)>,
}

impl StoreClock {
    pub(super) fn open(
        options: &Options,
        database: Time,
        last_commit_at: Option<Time>,
    ) -> Result<Self, Failure> {
        let given = match &options.clock {
            Some(clock) => Some(Reading::open(clock.clone(), last_commit_at, options.ahead)?),
            None => None,
        };
        let ahead = last_commit_at.map_or(Span::from_millis(0), |last| last.since(database));
        if given.is_none() && ahead > AHEAD_MAX && options.ahead == Ahead::Refuse {
            let seconds = ahead.millis() / 1000;
            let what = format!(
                "the store's last commit is {seconds} s ahead of the database's clock; set that clock \
                 right, or start with --accept-clock to go on from the stored time"
            );
            return Err(Failure::new(FailureKind::Closed, what));
        }
        let base = last_commit_at.map_or(database, |last| last.max(database));
        let latest = AtomicI64::new(base.millis());
        Ok(Self { given, latest, base: Mutex::new((base, Instant::now())) })
    }

    /// This process's monotonic time, for what decides nothing.
    pub(super) fn instant(&self) -> Instant {
        Instant::now()
    }

    /// The time of a clock that was handed in.
    pub(super) fn given(&self) -> Option<Time> {
        self.given.as_ref().map(Reading::now)
    }

    /// Takes in a reading of the database's clock. Time never runs backwards for this process.
    pub(super) fn heard(&self, read: Time) -> Time {
        let read = if faultpoint::mutant(29) { wall() } else { read };
        let latest = self.latest.fetch_max(read.millis(), Ordering::SeqCst).max(read.millis());
        let now = Time::from_millis(latest);
        *self.base.lock().expect("nothing panics with the reading in hand") = (now, Instant::now());
        now
    }

    pub(super) fn now(&self) -> Time {
        if let Some(now) = self.given() {
            return now;
        }
        if faultpoint::mutant(29) {
            return wall();
        }
        let (base, at) = *self.base.lock().expect("nothing panics with the reading in hand");
        base.plus(Span::from_millis(at.elapsed().as_millis() as u64))
    }
}

/// Bug 29 of the museum: this machine's clock, instead of the one that all share.
fn wall() -> Time {
    SystemClock::start().wall()
}
