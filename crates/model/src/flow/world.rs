//! One state of a flow key's world, the bounds of each world, and what must hold in it.

use std::collections::BTreeSet;

use verdict::flow::{Hold, Position, Rate, Slots, Terms, UNLIMITED};
use verdict::{LeaseId, Policy, Span, Subject, Task, TaskId, Time};

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
    /// How long tasks hold their slots.
    pub hold: Hold,
    /// How often tasks may start.
    pub rate: Option<Rate>,
    /// Goals that this world cannot reach. Every other goal must be reached.
    pub never: &'static [&'static str],
}

/// All worlds of flow keys, in the order in which they are reported.
pub fn all() -> Vec<FlowBounds> {
    vec![
        one_slot(),
        two_slots(),
        two_limits(),
        one_slot_for_life(),
        two_slots_for_life(),
        one_start_at_a_time(),
        two_starts_and_one_slot(),
    ]
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
        hold: Hold::Lease,
        rate: None,
        never: &["two limits met", KEPT, CAME_BACK, TOO_EARLY, OPENED],
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
        hold: Hold::Lease,
        rate: None,
        never: &["two limits met", KEPT, CAME_BACK, TOO_EARLY, OPENED],
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
        hold: Hold::Lease,
        rate: None,
        never: &[KEPT, CAME_BACK, TOO_EARLY, OPENED],
    }
}

/// One slot that a task keeps from its first lease until it has ended, through retries and lost workers.
pub fn one_slot_for_life() -> FlowBounds {
    FlowBounds {
        name: "one slot held for life",
        hold: Hold::Life,
        ticks: 5,
        // Two attempts are too few to end a task by the loss of its workers.
        never: &[
            "two limits met",
            "a release frees a slot",
            "an undelivered grant frees a slot",
            "a lost worker frees a slot",
            TOO_EARLY,
            OPENED,
        ],
        ..one_slot()
    }
}

/// Two of them: one may be free beside a task that comes back to its own.
pub fn two_slots_for_life() -> FlowBounds {
    FlowBounds {
        name: "two slots held for life",
        tasks: &[(0, 0, 2), (0, 5, 2), (1, 0, 2)],
        hold: Hold::Life,
        never: one_slot_for_life().never,
        ..one_slot()
    }
}

/// As many slots as anybody wants, and one start in each window.
pub fn one_start_at_a_time() -> FlowBounds {
    FlowBounds {
        name: "one start in each window",
        tasks: &[(0, 0, UNLIMITED), (0, 5, UNLIMITED), (1, 0, UNLIMITED)],
        ticks: 4,
        rate: Some(Rate { count: 1, per: Span::from_millis(2) }),
        never: &["two limits met", "a full key refuses a grant", KEPT, CAME_BACK],
        ..one_slot()
    }
}

/// Two starts in each window, of which no two may be under way together.
pub fn two_starts_and_one_slot() -> FlowBounds {
    FlowBounds {
        name: "two starts and one slot",
        ticks: 3,
        rate: Some(Rate { count: 2, per: Span::from_millis(2) }),
        never: &["two limits met", KEPT, CAME_BACK],
        ..one_slot()
    }
}

/// What must hold in every state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum FlowProperty {
    /// A grant leaves no more slots held than the smallest limit of the tasks that live.
    Held,
    /// Exactly the leased tasks hold slots, and those that keep theirs.
    NoLeak,
    /// Of each line, the first so many claimable tasks as slots are free and may start are in the ready order, and no others.
    NoneForgotten,
    /// What is kept in memory is what the rows would give.
    Rebuilt,
    /// A task that is offered is granted when it is polled.
    Granted,
    /// No window of the rate's length has more starts than the rate allows.
    Rate,
}

impl FlowProperty {
    pub const ALL: [FlowProperty; 6] = [
        FlowProperty::Held,
        FlowProperty::NoLeak,
        FlowProperty::NoneForgotten,
        FlowProperty::Rebuilt,
        FlowProperty::Granted,
        FlowProperty::Rate,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            FlowProperty::Held => "no more slots held than the limit",
            FlowProperty::NoLeak => "no slot leaks",
            FlowProperty::NoneForgotten => "no parked task is forgotten",
            FlowProperty::Rebuilt => "memory is what the rows say",
            FlowProperty::Granted => "what is offered is granted",
            FlowProperty::Rate => "no more starts than the rate allows",
        }
    }
}

pub(super) const KEPT: &str = "a slot is kept without a lease";
pub(super) const CAME_BACK: &str = "a task comes back to the slot that it kept";
pub(super) const TOO_EARLY: &str = "a rate refuses a grant";
pub(super) const OPENED: &str = "a rate opens for a parked task";

/// The situations that an exploration must reach.
pub const GOALS: [&str; 13] = [
    "a task is parked",
    "a full key refuses a grant",
    "a report frees a slot",
    "a release frees a slot",
    "a lost worker frees a slot",
    "a cancel frees a slot",
    "an undelivered grant frees a slot",
    "a parked task is cancelled",
    "two limits met",
    KEPT,
    CAME_BACK,
    TOO_EARLY,
    OPENED,
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
    /// It holds its slot, and is not claimable.
    Kept,
    /// It holds its slot, and wants to be leased again.
    Returning,
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
    /// When tasks were granted that the rate still counts, as the judge saw it.
    pub granted: Vec<Time>,
    /// The properties that the last step broke, by their numbers. Exploration stops at such a state.
    pub broken: BTreeSet<FlowProperty>,
}

pub(super) fn id(at: usize) -> TaskId {
    TaskId::from_u128(at as u128 + 1)
}

/// Whether a task keeps its slot without a lease: it was leased once, and asked for that.
fn keeps(task: &Task) -> bool {
    let hold = task.run.as_ref().and_then(|run| run.flow.as_ref()).map(|flow| flow.hold);
    task.attempt > 0 && hold == Some(Hold::Life)
}

fn at_start() -> Slots<Line> {
    let mut slots = Slots::default();
    slots.advance(START);
    slots
}

impl FlowBounds {
    /// What a task asks of the key.
    pub(super) fn terms(&self, at: usize) -> Terms {
        Terms { limit: self.tasks[at].2, rate: self.rate }
    }
}

impl FlowWorld {
    pub(super) fn new(tasks: usize) -> Self {
        Self {
            now: START,
            tasks: vec![Subject::Absent; tasks],
            indexed: vec![Indexed::Gone; tasks],
            slots: at_start(),
            ready: BTreeSet::new(),
            issued: Vec::new(),
            granted: Vec::new(),
            broken: BTreeSet::new(),
        }
    }

    /// What a task is now, from its row alone.
    pub(super) fn standing(&self, at: usize) -> Indexed {
        let Some(task) = self.tasks[at].live() else { return Indexed::Gone };
        let is_due = task.claimable_at().is_some_and(|due| due.has_come(self.now));
        match (task.lease().is_some(), keeps(task), is_due) {
            (true, ..) => Indexed::Leased,
            (false, true, true) => Indexed::Returning,
            (false, true, false) => Indexed::Kept,
            (false, false, true) => Indexed::Claimable,
            (false, false, false) => Indexed::Away,
        }
    }

    /// Who holds a slot, from the rows alone.
    pub(super) fn holders(&self) -> BTreeSet<TaskId> {
        let live = self.tasks.iter().filter_map(Subject::live);
        live.filter(|task| task.lease().is_some() || keeps(task)).map(|task| task.id).collect()
    }

    /// How many more tasks may start now, from what was granted alone.
    pub(super) fn starts_left(&self, rate: Rate) -> usize {
        let counts = |at: &&Time| at.plus(rate.per) > self.now;
        (rate.count as usize).saturating_sub(self.granted.iter().filter(counts).count())
    }

    pub(super) fn leased(&self) -> BTreeSet<TaskId> {
        let live = self.tasks.iter().filter_map(Subject::live);
        live.filter(|task| task.lease().is_some()).map(|task| task.id).collect()
    }
}
