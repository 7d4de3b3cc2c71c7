//! Which part of a coordinator's work a carrier does.
//!
//! Where a store has one writer, one carrier does everything. Where it has several, two carriers share the work, each with a
//! writer of its own, so that one batch is decided while the other is written:
//!
//! - *New work*: submissions, cancellations, administration, and polls with their grants. A task that is submitted
//!   while a worker waits is granted in the same commit, as ever.
//! - *Calls under a lease*: starts, heartbeats and reports, and whatever time does to a task. A heartbeat and the end of
//!   its lease are so decided by the same carrier, in one batch, in the right order.
//!
//! Only the second one handles leases. Whether it stalled is asked before the first decides anything, because what time has done
//! to a lease during a stall must be undone before anybody acts on it.

use tokio::sync::watch as channel;

use super::stall::StallDetector;
use crate::intake::Intake;
use crate::item::{Outage, UnavailableReason};

pub(crate) enum CarrierRole {
    Everything,
    NewWork(LeasedCarrier),
    Leased,
}

impl CarrierRole {
    pub(super) fn grants(&self) -> bool {
        !matches!(self, CarrierRole::Leased)
    }

    /// Whether it decides what time does, and so must detect stalls.
    pub(super) fn handles_leases(&self) -> bool {
        !matches!(self, CarrierRole::NewWork(_))
    }
}

/// The carrier that handles leases, as the other one knows it.
pub(crate) struct LeasedCarrier {
    /// Where to find it. It ends no sooner than whoever holds this.
    pub(crate) intake: Intake,
    pub(crate) stall: StallDetector,
    pub(crate) outage: channel::Receiver<Option<Outage>>,
}

impl LeasedCarrier {
    /// What the store lacks, as far as that carrier was told.
    pub(super) fn reason(&self) -> UnavailableReason {
        self.outage.borrow().map_or(UnavailableReason::Contended, |outage| outage.reason)
    }
}
