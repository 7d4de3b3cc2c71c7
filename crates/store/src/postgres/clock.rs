//! The store's clock: the database's, so that every coordinator reads the same one.
//!
//! A batch reads it behind its locks. Between batches this process goes on from the last reading by
//! its own monotonic clock, which is good enough for questions that decide nothing.
//!
//! The database's clock may be set back, and that of a standby which takes over may be behind. What was decided is not
//! taken back, and leases and delays must still come to their end. So while a reading is behind what was decided by,
//! time goes on by this process's monotonic clock, a little slower than it should, until the database has caught up.
//!
//! Coordinators then go by clocks of their own. Each began at a reading of the one that was everybody's, each reads
//! again every five seconds, and takes over the latest time that any of them wrote down (`hints`). So they
//! differ by what one of them is slowed down in five seconds, before it reads again: less than a second among those that
//! ran when the clock was set back. One that starts meanwhile begins five seconds after the latest time that was written
//! down, if the clock was set back by more than that. So it is not behind the others, and where it is ahead that counts
//! as a silence of its own, which is given back to the leases. Whoever is wrong here is early or late by that much; who
//! may have a task is decided by its row and its fence, in which no clock has a say.

use std::sync::{Mutex, MutexGuard};

use tokio::time::Instant;
use verdict::{Span, Time};

use super::Options;
use super::opening::Header;
use crate::clock::{AHEAD_MAX, Clock, ClockAhead, MonotonicClock, SystemClock};
use crate::failure::{Failure, FailureKind};

/// Of the time that passes while the database is behind, one part in so many is left out. A lease lasts a seventh
/// longer then, which is far less than one lease more, and a clock that was an hour ahead is right after eight hours.
const SLOWDOWN: u64 = 8;

/// How old the latest time may be that a living coordinator wrote down: each does it every five seconds.
const PRESENCE_INTERVAL: Span = Span::from_secs(5);

pub(super) struct StoreClock {
    /// A clock that was handed in, for simulations and tests.
    injected: Option<MonotonicClock>,
    state: Mutex<ClockState>,
}

/// How time goes on from the last reading.
#[derive(Clone, Copy, Debug)]
struct ClockState {
    from: Time,
    since: Instant,
    /// The latest time that anything was decided by.
    latest: Time,
    /// Whether the database is behind that.
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

    /// The database says this: believed, unless it is earlier than what was decided by.
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

    /// This process's monotonic time, for what decides nothing.
    pub(super) fn instant(&self) -> Instant {
        Instant::now()
    }

    /// The time of a clock that was handed in.
    pub(super) fn injected(&self) -> Option<Time> {
        self.injected.as_ref().map(MonotonicClock::now)
    }

    fn state(&self) -> MutexGuard<'_, ClockState> {
        self.state.lock().expect("nothing panics with the course in hand")
    }

    /// Takes in a reading of the database's clock. Time never runs backwards for this process, and never stands still.
    pub(super) fn observe(&self, read: Time) -> Time {
        let read = if faultpoint::mutant(29) { wall() } else { read };
        self.state().observe(read)
    }

    /// The same, with the latest time by which any coordinator said that it is there. One that is later than both
    /// was said by somebody who is ahead of the database, and of this process.
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

/// Where a coordinator begins that has read this clock and found that time stored.
fn initial_state(database: Time, stored: Option<Time>) -> ClockState {
    match stored {
        Some(stored) if stored.since(database) > PRESENCE_INTERVAL => {
            ClockState::begin(stored.plus(PRESENCE_INTERVAL), true)
        }
        stored => ClockState::begin(stored.map_or(database, |stored| stored.max(database)), false),
    }
}

/// Bug 29 of the museum: this machine's clock, instead of the one that all share.
fn wall() -> Time {
    SystemClock::start().wall()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const HOUR: u64 = 3_600_000;
    /// Where the database's clock stands before it is set.
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
        // F61, B4, B8: leases end and delays become due, and no time is ever before another that was decided by.
        let clock = clock(NOON, None);
        assert_eq!(clock.observe(at(NOON + 10)), at(NOON + 10));
        let (mut before, mut decided) = (at(NOON + 10), at(NOON));
        // Read often, and never a whole millisecond after the last time.
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
        // The difference becomes smaller by an eighth of the time that passes: it is gone after fifteen seconds.
        pass(15_000).await;
        assert_eq!(clock.observe(at(NOON + 14_000)), at(NOON + 14_000));
        pass(800).await;
        assert_eq!(clock.now(), at(NOON + 14_800), "at full speed");
        assert_eq!(clock.observe(at(NOON + HOUR)), at(NOON + HOUR), "ahead it may go at any time");
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_answer_is_no_reason_to_be_ahead_of_the_database() {
        // Two writers: the reading that was taken first may come last.
        let clock = clock(NOON, None);
        assert_eq!(clock.observe(at(NOON + 20)), at(NOON + 20));
        assert_eq!(clock.observe(at(NOON + 19)), at(NOON + 20));
        pass(8).await;
        assert_eq!(clock.observe(at(NOON + 28)), at(NOON + 28));
    }

    #[tokio::test(start_paused = true)]
    async fn coordinators_keep_together_while_the_database_is_behind() {
        // F61 with several: they read at different times, and say what time it is every five seconds.
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
        // One that starts now has only what they said, which may be five seconds old.
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
        // A difference that two machines may have any day is none.
        assert_eq!(clock(NOON, Some(NOON + 40)).now(), at(NOON + 40));
    }
}
