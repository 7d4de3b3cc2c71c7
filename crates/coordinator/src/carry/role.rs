//! The role of a carrier: which part of a coordinator's work it does.
//!
//! Usually one carrier does everything. Two carriers run if the store asks for two ([`store::Store::committers`]):
//! PostgreSQL does when the coordinator finds no peer at its start. Each carrier has its own writer, so one batch is
//! decided while the other is written:
//!
//! - *New work*: submissions, cancellations, administration, and polls with their grants. A task that is submitted
//!   while a worker waits is granted in the same commit.
//! - *Calls under a lease*: starts, heartbeats and reports, and sweeps. The same carrier therefore decides a heartbeat
//!   and the expiry of its lease, in one batch and in the right order.
//!
//! Only the second carrier handles leases. The first decides nothing before it knows whether the second stalled,
//! because after a stall a lease must be extended before anything else is decided about it.

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

    /// Whether it sweeps, and so must detect stalls.
    pub(super) fn handles_leases(&self) -> bool {
        !matches!(self, CarrierRole::NewWork(_))
    }
}

/// The carrier that handles leases, as seen by the carrier of new work.
pub(crate) struct LeasedCarrier {
    /// Sends to that carrier, which runs at least as long as the holder of this.
    pub(crate) intake: Intake,
    pub(crate) stall: StallDetector,
    pub(crate) outage: channel::Receiver<Option<Outage>>,
}

impl LeasedCarrier {
    /// Why the store refuses, according to that carrier.
    pub(super) fn reason(&self) -> UnavailableReason {
        self.outage.borrow().map_or(UnavailableReason::Contended, |outage| outage.reason)
    }
}
