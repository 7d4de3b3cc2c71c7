//! One state of a run's world: its tasks with their records, the messages between them, and what the judge has seen.

use std::collections::BTreeMap;

use verdict::run::{Message, Records};
use verdict::{ClosedAttempt, LeaseId, Name, Subject, TaskId, Time};

use super::property::RunBroken;

pub(super) const START: Time = Time::from_millis(1_000);

/// The keys of the children in their parent.
pub(super) const CHILD_KEYS: [&str; 2] = ["a", "b"];

pub(super) const ROOT: usize = 0;

pub(super) fn id(at: usize) -> TaskId {
    TaskId::from_u128(at as u128 + 1)
}

pub(super) fn place(id: TaskId) -> usize {
    id.as_u128() as usize - 1
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RunWorld {
    pub now: Time,
    pub tasks: Vec<RunRow>,
    /// Messages that were sent and not decided.
    pub saved: Vec<Message>,
    /// Messages that were decided.
    pub decided: Vec<Message>,
    pub issued: Vec<Issued>,
    pub seen: Seen,
    /// The properties that the last step broke. Exploration stops at such a state.
    pub broken: RunBroken,
}

/// What a store keeps of one task.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RunRow {
    pub subject: Subject,
    pub closed: Vec<ClosedAttempt>,
    pub records: Records,
}

/// A lease whose grant reached a worker. It is never forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Issued {
    pub task: usize,
    pub attempt: u32,
    pub lease: LeaseId,
}

/// What the judge counted, without asking the rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Seen {
    /// How often each step and each wait of the root was recorded.
    pub checkpoints: BTreeMap<Name, u8>,
    /// How often the root recorded each child.
    pub spawned: BTreeMap<Name, u8>,
    /// How often each child's end was recorded in the root.
    pub ended: BTreeMap<Name, u8>,
    /// How often each task was created.
    pub births: [u8; 3],
    /// How often each signal was recorded, by its idempotency key.
    pub signals: BTreeMap<Name, u8>,
    /// How often each signal was taken, by its number.
    pub taken: BTreeMap<u32, u8>,
    /// The open lease of each task and its end, from grants and renewals alone.
    pub open: [Option<(LeaseId, Time)>; 3],
}

impl RunWorld {
    pub(super) fn new(tasks: usize) -> Self {
        let row =
            RunRow { subject: Subject::Absent, closed: Vec::new(), records: Records::default() };
        Self {
            now: START,
            tasks: vec![row; tasks],
            saved: Vec::new(),
            decided: Vec::new(),
            issued: Vec::new(),
            seen: Seen::default(),
            broken: RunBroken::default(),
        }
    }
}
