//! The store's clock: the database's, so that every coordinator reads the same one.
//!
//! A batch reads it after taking its locks. Between batches this process extrapolates from the last reading with its
//! own monotonic clock, which is accurate enough for reads that decide nothing.
//!
//! The database's clock may be set back, and the clock of a standby that takes over may be behind. Decisions are not
//! undone, and leases and delays must still end. So while a reading is earlier than the latest decision, time
//! advances with this process's monotonic clock, slightly slower than real time, until the database has caught up.
//!
//! Coordinators then use separate clocks. Each started from a reading of the shared clock, each reads it again every
//! five seconds, and each adopts the latest time that any of them recorded (`hints`). So their clocks differ by what
//! one of them is slowed down in five seconds, before it reads again: less than a second among those that ran when
//! the clock was set back. A coordinator that starts in the meantime begins five seconds after the latest recorded
//! time, if the clock was set back by more than that. So it is not behind the others. Where it is ahead, the
//! difference counts as a stall of the newcomer, and leases are extended by it. Such an error makes a decision early or
//! late by that much. It cannot give a task to two workers: that is decided by the row and its fence, and neither
//! depends on a clock.

use std::sync::{Mutex, MutexGuard};

use tokio::time::Instant;
use verdict::{Span, Time};

use super::Options;
use super::opening::Header;
use crate::clock::{AHEAD_MAX, Clock, ClockAhead, MonotonicClock, SystemClock};
use crate::failure::{Failure, FailureKind};

/// While the database is behind, one part in this many of the elapsed time is left out. A lease then lasts a seventh
/// longer, which is far less than a second lease, and a clock that was an hour ahead is correct after eight hours.
const SLOWDOWN: u64 = 8;

/// Maximum age of the latest time recorded by a live coordinator: each records it every five seconds.
const PRESENCE_INTERVAL: Span = Span::from_secs(5);

pub(super) struct StoreClock {
    /// A clock from the options, for simulations and tests.
    injected: Option<MonotonicClock>,
    state: Mutex<ClockState>,
}

/// How time advances from the last reading.
#[derive(Clone, Copy, Debug)]
struct ClockState {
    from: Time,
    since: Instant,
    /// The latest time that was used for a decision.
    latest: Time,
    /// Whether that time is ahead of the database's clock.
    is_ahead: bool,
}

impl ClockState {
    fn begin(from: Time, is_ahead: bool) -> Self {
        Self { from, since: Instant::now(), latest: from, is_ahead }
    }

    fn now(&self) -> Time {
        let passed = self.since.elapsed().as_millis() as u64;
        let slowdown = if self.is_ahead { passed / SLOWDOWN } else { 0 };
        self.from.plus(Span::from_millis(passed - slowdown))
    }

    /// Applies a reading of the database's clock, unless it is earlier than the latest decision.
    fn observe(&mut self, read: Time) -> Time {
        if read >= self.latest {
            *self = Self::begin(read, false);
        } else {
            self.is_ahead = true;
            self.latest = self.latest.max(self.now());
        }
        self.latest
    }
}

impl StoreClock {
    pub(super) fn open(options: &Options, header: &Header) -> Result<Self, Failure> {
        let (database, last_commit_at) = (header.clock, header.last_commit_at);
        let injected = match &options.clock {
            Some(clock) => {
                Some(MonotonicClock::open(clock.clone(), last_commit_at, options.ahead)?)
            }
            None => None,
        };
        let stored = last_commit_at.max(header.said_at.filter(|_| injected.is_none()));
        let ahead = stored.map_or(Span::from_millis(0), |stored| stored.since(database));
        if injected.is_none() && ahead > AHEAD_MAX && options.ahead == ClockAhead::Refuse {
            let seconds = ahead.millis() / 1000;
            let what = format!(
                "the store's last commit is {seconds} s ahead of the database's clock; correct that \
                 clock, or start with --accept-clock to continue from the stored time"
            );
            return Err(Failure::new(FailureKind::Closed, what));
        }
        Ok(Self { injected, state: Mutex::new(initial_state(database, stored)) })
    }

    /// This process's monotonic time, for uses that decide nothing.
    pub(super) fn instant(&self) -> Instant {
        Instant::now()
    }

    /// The time of a clock from the options.
    pub(super) fn injected(&self) -> Option<Time> {
        self.injected.as_ref().map(MonotonicClock::now)
    }

    fn state(&self) -> MutexGuard<'_, ClockState> {
        self.state.lock().expect("nothing panics with the course in hand")
    }

    /// Applies a reading of the database's clock. For this process time never runs backwards and never stands still.
    pub(super) fn observe(&self, read: Time) -> Time {
        let read = if faultpoint::mutant(29) { wall() } else { read };
        self.state().observe(read)
    }

    /// Applies a reading together with the latest presence time that any coordinator recorded. If that time is later
    /// than both, its coordinator is ahead of the database and of this process.
    pub(super) fn observe_with_peers(&self, read: Time, said: Option<Time>) {
        self.observe(read);
        let mut state = self.state();
        if let Some(said) = said.filter(|said| *said > state.now()) {
            *state = ClockState::begin(said, true);
        }
    }

    pub(super) fn now(&self) -> Time {
        if let Some(now) = self.injected() {
            return now;
        }
        if faultpoint::mutant(29) {
            return wall();
        }
        self.state().now()
    }
}

/// The initial state of a coordinator, from the database's clock and the latest stored time.
fn initial_state(database: Time, stored: Option<Time>) -> ClockState {
    match stored {
        Some(stored) if stored.since(database) > PRESENCE_INTERVAL => {
            ClockState::begin(stored.plus(PRESENCE_INTERVAL), true)
        }
        stored => ClockState::begin(stored.map_or(database, |stored| stored.max(database)), false),
    }
}

/// Bug 29 of the museum: this machine's clock, instead of the shared one.
fn wall() -> Time {
    SystemClock::start().wall()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const HOUR: u64 = 3_600_000;
    /// The database's clock before it is set back.
    const NOON: u64 = 100 * HOUR;

    fn at(millis: u64) -> Time {
        Time::from_millis(millis as i64)
    }

    fn clock(database: u64, said: Option<u64>) -> StoreClock {
        StoreClock { injected: None, state: Mutex::new(initial_state(at(database), said.map(at))) }
    }

    async fn pass(millis: u64) {
        tokio::time::advance(Duration::from_millis(millis)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_is_set_back_does_not_stop_time() {
        // F61, B4, B8: leases expire and delays become due, and time never runs backwards between two decisions.
        let clock = clock(NOON, None);
        assert_eq!(clock.observe(at(NOON + 10)), at(NOON + 10));
        let (mut before, mut decided) = (at(NOON + 10), at(NOON));
        // Readings are frequent, and less than a millisecond apart.
        for n in 1..=160_000 {
            tokio::time::advance(Duration::from_micros(500)).await;
            decided = clock.observe(at(NOON - HOUR + n / 2));
            assert!(decided >= before, "{decided:?} after {before:?}");
            before = decided;
        }
        assert_eq!(decided, at(NOON + 10 + 70_000), "eighty seconds, but for one part in eight");
        assert_eq!(clock.now(), decided, "and between readings it goes on from there");
    }

    #[tokio::test(start_paused = true)]
    async fn a_database_that_has_caught_up_is_believed_again() {
        let clock = clock(NOON, None);
        pass(1_000).await;
        assert_eq!(clock.observe(at(NOON - 1_000)), at(NOON + 875));
        // The difference shrinks by an eighth of the elapsed time: it is gone after fifteen seconds.
        pass(15_000).await;
        assert_eq!(clock.observe(at(NOON + 14_000)), at(NOON + 14_000));
        pass(800).await;
        assert_eq!(clock.now(), at(NOON + 14_800), "at full speed");
        assert_eq!(clock.observe(at(NOON + HOUR)), at(NOON + HOUR), "ahead it may go at any time");
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_answer_is_no_reason_to_be_ahead_of_the_database() {
        // Two writers: the earlier reading may arrive last.
        let clock = clock(NOON, None);
        assert_eq!(clock.observe(at(NOON + 20)), at(NOON + 20));
        assert_eq!(clock.observe(at(NOON + 19)), at(NOON + 20));
        pass(8).await;
        assert_eq!(clock.observe(at(NOON + 28)), at(NOON + 28));
    }

    #[tokio::test(start_paused = true)]
    async fn coordinators_keep_together_while_the_database_is_behind() {
        // F61 with several coordinators: they read at different times, and record their time every five seconds.
        let (busy, idle) = (clock(NOON, None), clock(NOON, None));
        let mut said = NOON;
        for round in 0..100 {
            for clock in [&busy, &idle] {
                let now = NOON + round * 5_000;
                clock.observe_with_peers(at(now - HOUR), Some(at(said)));
                said = said.max(clock.now().millis() as u64);
                pass(2_500).await;
                busy.observe(at(now - HOUR + 2_500));
                let apart = busy.now().since(idle.now()).max(idle.now().since(busy.now()));
                assert!(apart < Span::from_secs(1), "{apart:?} apart in round {round}");
            }
        }
        // A coordinator that starts now has only the recorded time, which may be five seconds old.
        let newcomer = clock(NOON - HOUR, Some(said));
        assert!(newcomer.now() >= busy.now() && newcomer.now() >= idle.now());
        assert!(newcomer.now().since(idle.now()) <= PRESENCE_INTERVAL);
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_after_the_clock_was_set_back_goes_on_from_what_was_stored() {
        let again = clock(NOON - HOUR, Some(NOON));
        assert_eq!(again.now(), at(NOON).plus(PRESENCE_INTERVAL));
        pass(8_000).await;
        assert_eq!(
            again.observe(at(NOON - HOUR + 8_000)),
            at(NOON + 7_000).plus(PRESENCE_INTERVAL)
        );
        // A difference that is normal between two machines is ignored.
        assert_eq!(clock(NOON, Some(NOON + 40)).now(), at(NOON + 40));
    }
}
