//! Push: tasks of a queue are sent to an endpoint, as soon as there are any (R-23, S4-73).
//!
//! There is one lease mechanism. Whoever pushes leases for the endpoint, as a worker with a name of its own, through the same
//! grants as every poll; the envelope is the same, and so is everything after it. What is decided here is only who pushes,
//! how much, and when after a failure.
//!
//! Invariants:
//! - one coordinator at a time pushes to an endpoint;
//! - an endpoint holds at most as many leases as its concurrency says, whoever pushed them;
//! - an attempt is pushed once: what did not arrive is another attempt.

use crate::id::{Digest, Name};
use crate::time::{Span, Time};

/// How long a coordinator may push to an endpoint without saying so again. A poll and its grants end within a third of it.
pub const CLAIM: Span = Span::from_secs(15);

/// A claim that has this much left is good for another poll.
pub const CLAIM_LEFT_MIN: Span = Span::from_secs(10);

/// The pause after the first call that failed. It doubles.
pub const PAUSE_BASE: Span = Span::from_millis(500);

/// The longest pause: a receiver that is back gets work within a minute.
pub const PAUSE_CAP: Span = Span::from_secs(60);

/// The longest pause that a receiver may ask for by `Retry-After`.
pub const PAUSE_ASKED_MAX: Span = Span::from_secs(60 * 60);

/// More doublings than the cap needs.
const DOUBLINGS_MAX: u32 = 16;

/// Who pushes to an endpoint, and until when.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PushClaim {
    pub holder: Name,
    pub until: Time,
}

impl PushClaim {
    /// The claim of `holder` from now on; `None` while another one holds it.
    pub fn take(held: Option<&PushClaim>, holder: &Name, now: Time) -> Option<PushClaim> {
        let is_free = held.is_none_or(|it| it.holder == *holder || it.until.has_come(now));
        is_free.then(|| PushClaim { holder: holder.clone(), until: now.plus(CLAIM) })
    }

    /// Whether it is good for another poll.
    pub fn is_good(&self, now: Time) -> bool {
        self.until.since(now) >= CLAIM_LEFT_MIN
    }
}

/// The worker that an endpoint is, where leases name their owner.
pub fn worker(endpoint: &Name) -> Name {
    Name::from(format!("push:{endpoint}"))
}

/// How many tasks may be leased for an endpoint that holds so many, while so many calls to it are under way. After a failure
/// one at a time finds out whether it is back.
pub const fn room(concurrency: u32, held: u64, calls: usize, failures: u32) -> usize {
    let free = (concurrency as u64).saturating_sub(held) as usize;
    match (failures, calls) {
        (0, _) => free,
        (_, 0) if free > 0 => 1,
        _ => 0,
    }
}

/// The pause after so many failures in a row: exponential, capped, with a jitter that is a hash of endpoint and number. A
/// receiver that asks for more gets more.
pub fn pause(endpoint: &Name, failures: u32, asked: Option<Span>) -> Span {
    let doublings = failures.saturating_sub(1).min(DOUBLINGS_MAX);
    let exponential = PAUSE_BASE.millis().saturating_mul(1 << doublings).min(PAUSE_CAP.millis());
    let digest = Digest::of(&[endpoint.as_str().as_bytes(), &failures.to_be_bytes()]);
    let mut head = [0; 8];
    head.copy_from_slice(&digest.bytes()[..8]);
    let jitter = u64::from_be_bytes(head) % (PAUSE_BASE.millis() / 2 + 1);
    let asked = asked.map_or(Span::ZERO, |it| it.min(PAUSE_ASKED_MAX));
    Span::from_millis(exponential.saturating_add(jitter)).max(asked)
}
