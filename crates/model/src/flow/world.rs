//! One state of a flow key's world, the bounds of each world, and what must hold in it.

use std::collections::BTreeSet;

use verdict::flow::{Position, Slots};
use verdict::{LeaseId, Policy, Span, Subject, TaskId, Time};

pub(super) const START: Time = Time::from_millis(1_000);

/// A line of the key: one kind of one queue.
pub type Line = u8;

/// The bounds of one world.
#[derive(Clone, Debug)]
pub struct FlowBounds {
    pub name: &'static str,
    /// The line, the priority and the limit of each task.
    pub tasks: &'static [(Line, i32, u32)],
    /// Units of time.
    pub ticks: i64,
    /// Largest number of grants of each task.
    pub attempts: u32,
    pub policy: Policy,
    /// Goals that this world cannot reach. Every other goal must be reached.
    pub never: &'static [&'static str],
}

/// All worlds of flow keys, in the order in which they are reported.
pub fn all() -> Vec<FlowBounds> {
    vec![one_slot(), two_slots(), two_limits()]
}

fn policy() -> Policy {
    let millis = Span::from_millis;
    Policy {
        lease: millis(2),
        heartbeat_every: millis(1),
        cancel_grace: millis(1),
        failures_max: 2,
        lost_max: 2,
        retry_base: millis(1),
        retry_cap: millis(1),
        attempt_limit: None,
        deadline: None,
        ttl: None,
        seed: Some(0),
        progress_clock: None,
    }
}

/// One slot, and tasks of two lines, of which the youngest is the most urgent.
pub fn one_slot() -> FlowBounds {
    FlowBounds {
        name: "one slot for three tasks",
        tasks: &[(0, 0, 1), (0, 5, 1), (1, 0, 1)],
        ticks: 2,
        attempts: 2,
        policy: policy(),
        never: &["two limits met"],
    }
}

/// Two slots, and more tasks in one line than fit.
pub fn two_slots() -> FlowBounds {
    FlowBounds {
        name: "two slots for four tasks",
        tasks: &[(0, 0, 2), (0, 0, 2), (0, 0, 2), (1, 0, 2)],
        ticks: 2,
        attempts: 1,
        policy: policy(),
        never: &["two limits met"],
    }
}

/// Two coordinators that did not see each other's task accepted two limits: the smaller one counts.
pub fn two_limits() -> FlowBounds {
    FlowBounds {
        name: "two limits of one key",
        tasks: &[(0, 0, 2), (0, 0, 2), (1, 0, 1)],
        ticks: 2,
        attempts: 2,
        policy: policy(),
        never: &[],
    }
}

/// What must hold in every state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum FlowProperty {
    /// A grant leaves no more leases than the smallest limit of the tasks that live.
    Held,
    /// Exactly the leased tasks hold slots.
    NoLeak,
    /// Of each line, the first so many claimable tasks as slots are free are in the ready order, and no others.
    NoneForgotten,
    /// What is kept in memory is what the rows would give.
    Rebuilt,
}

impl FlowProperty {
    pub const ALL: [FlowProperty; 4] = [
        FlowProperty::Held,
        FlowProperty::NoLeak,
        FlowProperty::NoneForgotten,
        FlowProperty::Rebuilt,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            FlowProperty::Held => "no more leases than the limit",
            FlowProperty::NoLeak => "no slot leaks",
            FlowProperty::NoneForgotten => "no parked task is forgotten",
            FlowProperty::Rebuilt => "memory is what the rows say",
        }
    }
}

/// The situations that an exploration must reach.
pub const GOALS: [&str; 9] = [
    "a task is parked",
    "a full key refuses a grant",
    "a report frees a slot",
    "a release frees a slot",
    "a lost worker frees a slot",
    "a cancel frees a slot",
    "an undelivered grant frees a slot",
    "a parked task is cancelled",
    "two limits met",
];

/// What the index was last told of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Indexed {
    /// It does not live.
    #[default]
    Gone,
    /// It lives, and is not claimable.
    Away,
    Claimable,
    Leased,
}

/// A lease that is current.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Issued {
    pub task: usize,
    pub attempt: u32,
    pub lease: LeaseId,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FlowWorld {
    pub now: Time,
    pub tasks: Vec<Subject>,
    pub indexed: Vec<Indexed>,
    pub slots: Slots<Line>,
    /// The tasks that polls see, by line.
    pub ready: BTreeSet<(Line, Position)>,
    pub issued: Vec<Issued>,
    /// The properties that the last step broke, by their numbers. Exploration stops at such a state.
    pub broken: BTreeSet<FlowProperty>,
}

pub(super) fn id(at: usize) -> TaskId {
    TaskId::from_u128(at as u128 + 1)
}

impl FlowWorld {
    pub(super) fn new(tasks: usize) -> Self {
        Self {
            now: START,
            tasks: vec![Subject::Absent; tasks],
            indexed: vec![Indexed::Gone; tasks],
            slots: Slots::default(),
            ready: BTreeSet::new(),
            issued: Vec::new(),
            broken: BTreeSet::new(),
        }
    }

    /// What a task is now, from its row alone.
    pub(super) fn standing(&self, at: usize) -> Indexed {
        match self.tasks[at].live() {
            None => Indexed::Gone,
            Some(task) if task.lease().is_some() => Indexed::Leased,
            Some(task) if task.claimable_at().is_some_and(|due| due.has_come(self.now)) => {
                Indexed::Claimable
            }
            Some(_) => Indexed::Away,
        }
    }

    pub(super) fn leased(&self) -> BTreeSet<TaskId> {
        let live = self.tasks.iter().filter_map(Subject::live);
        live.filter(|task| task.lease().is_some()).map(|task| task.id).collect()
    }
}
