//! One state: the contents of the store, the network's memory, and what is left of the bounds.

use verdict::{ClosedAttempt, Subject, Time};

use crate::action::ReportKind;
use crate::ledger::Ledger;
use crate::network::Issued;
use crate::property::Broken;
use crate::worlds::Bounds;

/// Every state is shifted to this time: only distances in time distinguish states.
pub(crate) const REFERENCE_TIME: Time = Time::from_millis(1_000);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub now: Time,
    /// The epoch of the store.
    pub epoch: u32,
    pub tasks: Vec<Row>,
    pub issued: Vec<Issued>,
    /// The largest fence ever granted for each task. A restore does not reset it.
    pub fences: Vec<u64>,
    pub backup: Option<Box<Vec<Row>>>,
    pub left: Budget,
    /// Whether workers release tasks here, so that the age of a lease matters.
    pub has_releases: bool,
    /// The properties that the last step broke. Exploration stops at such a state.
    pub broken: Broken,
}

/// What a store keeps of one task, and what the ledger knows of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    pub subject: Subject,
    pub closed: Vec<ClosedAttempt>,
    pub ledger: Ledger,
}

/// How often each rare action may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Budget {
    pub crashes: u8,
    pub restores: u8,
    pub steps_back: u8,
}

impl World {
    pub(crate) fn new(bounds: &Bounds) -> Self {
        let row = Row { subject: Subject::Absent, closed: Vec::new(), ledger: Ledger::default() };
        Self {
            now: REFERENCE_TIME,
            epoch: 1,
            tasks: vec![row; bounds.tasks],
            issued: Vec::new(),
            fences: vec![0; bounds.tasks],
            backup: None,
            left: Budget {
                crashes: bounds.crashes,
                restores: bounds.restores,
                steps_back: bounds.steps_back,
            },
            has_releases: bounds.says.contains(&ReportKind::Released),
            broken: Broken::default(),
        }
    }
}
