//! One state: what the store holds, what the network remembers, and what is left of the bounds.

use verdict::{ClosedAttempt, Subject, Time};

use crate::ledger::Ledger;
use crate::network::Issued;
use crate::property::Broken;
use crate::worlds::Bounds;

/// Every state is shifted so that it is noon: only distances in time make states different.
pub(crate) const REFERENCE_TIME: Time = Time::from_millis(1_000);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub now: Time,
    /// Which life of the store this is.
    pub epoch: u32,
    pub tasks: Vec<Row>,
    pub issued: Vec<Issued>,
    /// The largest fence ever given for each task. A restore does not forget it.
    pub fences: Vec<u64>,
    pub backup: Option<Box<Vec<Row>>>,
    pub left: Budget,
    /// What the last step broke. Nothing follows such a state.
    pub broken: Broken,
}

/// What a store keeps of one task, and what the ledger thinks of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    pub subject: Subject,
    pub closed: Vec<ClosedAttempt>,
    pub ledger: Ledger,
}

/// How often the rare things may still happen.
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
            broken: Broken::default(),
        }
    }
}
