//! A machine's clock in the simulation: it counts the virtual time of one runtime from an anchor.
//!
//! It can be read only inside the runtime it is anchored in; every call into a coordinator or its store happens
//! there.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use store::Clock;
use tokio::time::Instant;
use verdict::{Span, Time};

/// An arbitrary date, so that times in traces look like times.
pub(crate) const EPOCH_MS: i64 = 1_700_000_000_000;

pub(crate) struct HostClock {
    anchor: Mutex<Option<Anchor>>,
    wall_ahead_ms: AtomicI64,
}

#[derive(Clone, Copy)]
struct Anchor {
    instant: Instant,
    monotonic_ms: u64,
}

impl HostClock {
    pub(crate) fn new() -> Self {
        Self { anchor: Mutex::new(None), wall_ahead_ms: AtomicI64::new(0) }
    }

    /// From now on the clock reads `monotonic_ms` at `instant`, which belongs to the current runtime.
    pub(crate) fn anchor(&self, instant: Instant, monotonic_ms: u64) {
        let anchor = Anchor { instant, monotonic_ms };
        *self.anchor.lock().expect("no code panics while it holds the anchor") = Some(anchor);
    }

    /// Sets the wall clock. No time passes.
    pub(crate) fn jump(&self, millis: i64) {
        self.wall_ahead_ms.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for HostClock {
    fn wall(&self) -> Time {
        let ahead = self.wall_ahead_ms.load(Ordering::SeqCst);
        Time::from_millis(EPOCH_MS + ahead + self.monotonic().millis() as i64)
    }

    fn monotonic(&self) -> Span {
        let anchor = *self.anchor.lock().expect("no code panics while it holds the anchor");
        let Anchor { instant, monotonic_ms } = anchor.expect("a clock is read by a running host");
        let passed = Instant::now().saturating_duration_since(instant);
        Span::from_millis(monotonic_ms + passed.as_millis() as u64)
    }
}
