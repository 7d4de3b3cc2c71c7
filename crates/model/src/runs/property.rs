//! What must hold in every state of a run's world, and the situations that must occur.

/// A property of durable runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum RunProperty {
    /// A call is accepted only under the newest lease, before it expires.
    Authority,
    /// Each key of a task has at most one checkpoint.
    OneResult,
    /// Each child is recorded once, and created once.
    OneChild,
    /// The end of each child, and each signal, counts once, and the count of live children is right.
    EachMessageOnce,
    /// A task whose wait is satisfied is ready.
    NoLostWakeUp,
    /// A task that has ended has no live child.
    ChildrenFirst,
    /// A closing task ends once its messages are decided and its children are left to time.
    ClosingEnds,
}

impl RunProperty {
    pub const ALL: [RunProperty; 7] = [
        RunProperty::Authority,
        RunProperty::OneResult,
        RunProperty::OneChild,
        RunProperty::EachMessageOnce,
        RunProperty::NoLostWakeUp,
        RunProperty::ChildrenFirst,
        RunProperty::ClosingEnds,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            RunProperty::Authority => "A4: only the newest, unexpired lease records",
            RunProperty::OneResult => "E3: one result per step",
            RunProperty::OneChild => "one child per key",
            RunProperty::EachMessageOnce => "no message is lost or counts twice",
            RunProperty::NoLostWakeUp => "no lost wake-up",
            RunProperty::ChildrenFirst => "children end before their parent",
            RunProperty::ClosingEnds => "closing ends",
        }
    }
}

/// The properties that the last step broke.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RunBroken(u8);

impl RunBroken {
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn contains(self, property: RunProperty) -> bool {
        self.0 & (1 << property as u8) != 0
    }

    /// Marks `property` as broken unless `holds`.
    pub(super) fn require(&mut self, property: RunProperty, holds: bool) {
        if !holds {
            self.0 |= 1 << property as u8;
        }
    }
}

/// The situations that an exploration must reach.
pub const GOALS: [&str; 18] = [
    "a step is recorded",
    "a step is replayed",
    "a conflicting step is refused",
    "a stale call is refused",
    "suspended",
    "satisfied at once",
    "woken by a child",
    "woken by a signal",
    "woken by a timer",
    "a wait is replayed",
    "a signal is recognised",
    "a message changes nothing",
    "a message comes too early",
    "a lost worker's task is resumed",
    "closing",
    "closing ends",
    "hastened",
    "cancelled while waiting",
];

/// The index of a goal. A name that is not listed is a defect of the model.
pub(super) fn goal(name: &str) -> usize {
    GOALS.iter().position(|goal| *goal == name).expect("the goal is listed")
}
