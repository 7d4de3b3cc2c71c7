//! Which part of a coordinator's work a carrier does.
//!
//! Where a store has one writer, one carrier does everything. Where it has several, two carriers share the work, each
//! with its own writer, so that one batch is decided while the other is written:
//!
//! - *New work*: submissions, cancellations, administration, and polls with their grants. A task that is submitted
//!   while a worker waits is granted in the same commit.
//! - *Calls under a lease*: starts, heartbeats and reports, and what time does to a task. The same carrier therefore
//!   decides a heartbeat and the expiry of its lease, in one batch and in the right order.
//!
//! Only the second one handles leases. The first decides nothing before it knows whether the second stalled, because a
//! lease must be extended by a stall before anything is decided about it.

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
    /// The way to it. It ends no sooner than the holder of this.
    pub(crate) intake: Intake,
    pub(crate) stall: StallDetector,
    pub(crate) outage: channel::Receiver<Option<Outage>>,
}

impl LeasedCarrier {
    /// Why the store refuses, as far as that carrier knows.
    pub(super) fn reason(&self) -> UnavailableReason {
        self.outage.borrow().map_or(UnavailableReason::Contended, |outage| outage.reason)
    }
}
