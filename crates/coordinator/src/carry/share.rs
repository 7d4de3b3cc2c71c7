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
//! Only the second one hears workers. Whether it could is asked before the first decides anything, because what time has done
//! to a lease while nobody listened must be undone before anybody acts on it.

use tokio::sync::watch as channel;

use super::hearing::Hearing;
use crate::intake::Intake;
use crate::item::{Outage, Shortage};

pub(crate) enum Share {
    Everything,
    NewWork(Ears),
    Leased,
}

impl Share {
    pub(super) fn grants(&self) -> bool {
        !matches!(self, Share::Leased)
    }

    /// Whether it decides what time does, and so must know whether workers could be heard.
    pub(super) fn hears(&self) -> bool {
        !matches!(self, Share::NewWork(_))
    }
}

/// The carrier that hears workers, as the other one knows it.
pub(crate) struct Ears {
    /// Where to find it. It ends no sooner than whoever holds this.
    pub(crate) intake: Intake,
    pub(crate) hearing: Hearing,
    pub(crate) outage: channel::Receiver<Option<Outage>>,
}

impl Ears {
    /// What the store lacks, as far as that carrier was told.
    pub(super) fn shortage(&self) -> Shortage {
        self.outage.borrow().map_or(Shortage::Turn, |outage| outage.shortage)
    }
}
