//! The worker's wall clock. Only claims are made from it; every decision here is taken on the monotonic
//! clock, and every decision there on the coordinator's.

use std::time::{SystemTime, UNIX_EPOCH};

use wire::Time;

#[expect(
    clippy::disallowed_methods,
    reason = "the claim is about this very clock, and nothing is decided by it"
)]
pub(crate) fn wall_clock() -> Time {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_ms(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}
