//! Choosing a store's next epoch.
//!
//! Whenever one history continues in another place (a restore, a move, a database recovered with its own
//! tools), a new epoch begins: earlier leases lose their authority, and every new fence is larger than all
//! fences before it (S3-24).

use verdict::Time;

use crate::failure::{Failure, FailureKind};

/// Epochs are never below the number of these slices since [`EPOCHS_BEGIN`], so that a backup that is
/// restored on two unconnected machines gets two different epochs. A slice is ten minutes, so that fences
/// stay exact in a 53-bit number until the year 2065.
const EPOCH_SLICE_MS: i64 = 10 * 60 * 1000;

/// 2026-01-01T00:00:00Z.
const EPOCHS_BEGIN: i64 = 1_767_225_600_000;

/// An epoch above every known one, and above those that another restore may have chosen.
pub(crate) fn above(known: &[u32], wall: Time) -> Result<u32, Failure> {
    let slices = (wall.millis() - EPOCHS_BEGIN) / EPOCH_SLICE_MS;
    let floor = u32::try_from(slices).unwrap_or(0);
    let known = known.iter().copied().max().unwrap_or(0);
    known.checked_add(1).map(|next| next.max(floor)).ok_or_else(|| {
        Failure::new(FailureKind::Closed, "the store's epochs are used up; create a new store")
    })
}
