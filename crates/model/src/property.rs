//! The properties that must hold in every state, with the ids of `docs/invariants.md`.
//!
//! A broken property is part of the state, because the explorer checks states and not steps: a step that breaks
//! something must lead to a distinct state.

/// An invariant of leases, states or answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Property {
    /// At most one open lease per task.
    A1,
    /// Fences of a task strictly increase, over restarts and restores too.
    A2,
    /// No two different reports of one attempt are both committed.
    A3,
    /// A committed report belongs to the newest grant, which has not expired.
    A4,
    /// After a lease has ended, no call under it is accepted.
    A6,
    /// Every accepted call for an attempt comes from the worker it was granted to.
    A7,
    /// No lease is revoked as expired before its end, extensions by our gaps included.
    A8,
    /// Only transitions of the published table, each by its owner.
    B1,
    /// An ended task never changes.
    B2,
    /// Attempts grow by one with each grant; failures, losses and undelivered grants are counted and limited.
    B3,
    /// Created, started, closed, completed: in this order, and time never runs backwards.
    B4,
    /// After lease expiry a sweep closes the attempt of a running task.
    B6,
    /// After a cancel nothing is granted, and the task ends within the grace.
    B7,
    /// No task is granted before it is due or after its deadline.
    B8,
    /// A repeated report gets its recorded answer and changes nothing.
    C6,
}

impl Property {
    pub const ALL: [Property; 15] = [
        Property::A1,
        Property::A2,
        Property::A3,
        Property::A4,
        Property::A6,
        Property::A7,
        Property::A8,
        Property::B1,
        Property::B2,
        Property::B3,
        Property::B4,
        Property::B6,
        Property::B7,
        Property::B8,
        Property::C6,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Property::A1 => "A1: at most one open lease per task",
            Property::A2 => "A2: fences strictly increase",
            Property::A3 => "A3: one winner per attempt",
            Property::A4 => "A4: only the newest, unexpired lease commits",
            Property::A6 => "A6: no lease rises again",
            Property::A7 => "A7: one worker per attempt",
            Property::A8 => "A8: no lease is taken back early",
            Property::B1 => "B1: only listed changes, by their owners",
            Property::B2 => "B2: what ended never changes",
            Property::B3 => "B3: attempts are counted and limited",
            Property::B4 => "B4: times are in order",
            Property::B6 => "B6: no orphan",
            Property::B7 => "B7: a cancel ends the task",
            Property::B8 => "B8: nothing is granted early or too late",
            Property::C6 => "C6: a repeated report gets its answer again",
        }
    }
}

/// The properties that the last step broke.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Broken(u16);

impl Broken {
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn contains(self, property: Property) -> bool {
        self.0 & (1 << property as u8) != 0
    }

    /// Marks `property` as broken unless `holds`.
    pub(crate) fn require(&mut self, property: Property, holds: bool) {
        if !holds {
            self.0 |= 1 << property as u8;
        }
    }
}
