//! Which life of a store comes next.
//!
//! Whatever makes one history continue in another place (a restore, a move, a database brought back by its
//! own tools) begins a new epoch: leases from before lose their authority, and every fence given from now
//! on is larger than any that was ever given (S3-24).

use verdict::Time;

use crate::failure::{Failure, FailureKind};

/// Epochs are never below the number of these slices since [`EPOCHS_BEGIN`], so that a backup that
/// is restored twice, on machines that know nothing of each other, gets two epochs. Ten minutes, so
/// that fences stay exact in a 53-bit number until the year 2065.
const EPOCH_SLICE_MS: i64 = 10 * 60 * 1000;

/// 2026-01-01T00:00:00Z.
const EPOCHS_BEGIN: i64 = 1_767_225_600_000;

/// Above every epoch that is known, and above what somebody else may have chosen before.
pub(crate) fn above(known: &[u32], wall: Time) -> Result<u32, Failure> {
    let slices = (wall.millis() - EPOCHS_BEGIN) / EPOCH_SLICE_MS;
    let floor = u32::try_from(slices).unwrap_or(0);
    let known = known.iter().copied().max().unwrap_or(0);
    known.checked_add(1).map(|next| next.max(floor)).ok_or_else(|| {
        Failure::new(FailureKind::Closed, "the store's epochs are used up; create a new store")
    })
}
