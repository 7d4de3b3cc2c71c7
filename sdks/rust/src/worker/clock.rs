//! The worker's clocks.
//!
//! The wall clock is only used for the times that a worker claims; it decides nothing. Lease expiry
//! is decided by two others: the monotonic clock, which timers use and which stops while the
//! machine is suspended, and boot time, which does not stop. The one that is further ahead counts.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;
use wire::Time;

#[expect(
    clippy::disallowed_methods,
    reason = "the claim is about this very clock, and nothing is decided by it"
)]
pub(crate) fn wall_clock() -> Time {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_ms(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}

/// The source of [`Moment`]s. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Clock {
    boot: Arc<dyn Fn() -> Duration + Send + Sync>,
}

impl Clock {
    pub(crate) fn system() -> Clock {
        Clock::with_boot_time(boot_time)
    }

    /// Replaces the machine's boot time, for tests that simulate a suspended machine.
    pub(crate) fn with_boot_time(boot: impl Fn() -> Duration + Send + Sync + 'static) -> Clock {
        Clock { boot: Arc::new(boot) }
    }

    pub(crate) fn now(&self) -> Moment {
        Moment { running: Instant::now(), booted: (self.boot)() }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").finish_non_exhaustive()
    }
}

/// One moment on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    running: Instant,
    booted: Duration,
}

impl Moment {
    pub(crate) fn after(self, span: Duration) -> Moment {
        Moment { running: self.running + span, booted: self.booted + span }
    }

    /// The time until this moment by the clock that is further ahead; zero once it has come.
    pub(crate) fn left(self, now: Moment) -> Duration {
        let running = self.running.saturating_duration_since(now.running);
        running.min(self.booted.saturating_sub(now.booted))
    }

    /// Whether this moment was read earlier in this process.
    pub(crate) fn is_before(self, other: Moment) -> bool {
        self.running < other.running
    }

    pub(crate) fn has_come(self, now: Moment) -> bool {
        self.left(now).is_zero()
    }

    /// When a timer that is set now must fire for this moment.
    pub(crate) fn timer(self, now: Moment) -> Instant {
        now.running + self.left(now)
    }
}

/// Time since boot, including time in which the machine was suspended.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn boot_time() -> Duration {
    of_kernel(rustix::time::ClockId::Boottime)
}

/// Apple's monotonic clock continues during sleep; timers there use another clock.
#[cfg(target_vendor = "apple")]
fn boot_time() -> Duration {
    of_kernel(rustix::time::ClockId::Monotonic)
}

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn of_kernel(clock: rustix::time::ClockId) -> Duration {
    // Never negative, and the nanoseconds are always below one second.
    Duration::try_from(rustix::time::clock_gettime(clock)).unwrap_or_default()
}

/// Other systems only offer the clock that timers use. On Windows it continues during sleep.
#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn boot_time() -> Duration {
    static FIRST: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    let now = Instant::now().into_std();
    now.saturating_duration_since(*FIRST.get_or_init(|| now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_boot_time_goes_forward_and_not_behind_the_clock_of_timers() {
        let clock = Clock::system();
        let (first, then) = (clock.now(), clock.now());
        assert!(first.booted > Duration::ZERO);
        assert!(then.booted >= first.booted);
    }

    #[tokio::test(start_paused = true)]
    async fn whichever_clock_is_ahead_counts() {
        let now = Moment { running: Instant::now(), booted: Duration::from_secs(100) };
        let then = now.after(Duration::from_secs(10));
        let later = |running: u64, booted: u64| Moment {
            running: now.running + Duration::from_secs(running),
            booted: now.booted + Duration::from_secs(booted),
        };
        assert_eq!(then.left(later(3, 4)), Duration::from_secs(6));
        assert_eq!(then.left(later(4, 3)), Duration::from_secs(6));
        assert_eq!(then.timer(later(3, 4)), later(9, 0).running);
        assert!(!then.has_come(later(9, 9)));
        assert!(then.has_come(later(10, 0)));
        assert!(then.has_come(later(0, 10)));
        assert!(then.has_come(later(0, 3_600)));
    }
}
