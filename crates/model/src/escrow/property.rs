//! What must hold in every state of a world of budgets, and the situations that must occur.

/// A property of budgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum EscrowProperty {
    /// What a task that goes on has used and promised is at most its limit, and nothing is promised beyond it.
    WithinLimit,
    /// What is held is what live children were given, and nothing once the task has ended.
    EscrowOnce,
    /// What counts as used is what workers said in calls that were accepted, each word once, and the reservations of those that
    /// fell silent.
    SpendKept,
    /// Nothing of a task is granted, spawned or recorded after its hard limit.
    NothingAfterLimit,
    /// A task that crossed its limit ends, never as a success, and is not tried again.
    HaltIsFinal,
    /// Beyond a soft limit that asks, a call does not go on before people have agreed, and never after they have refused.
    AskedFirst,
    /// A continuation begins with nothing used, and changes nothing of the run that it continues.
    OwnEscrow,
    /// A closing task ends once its messages are decided and its children are left to time.
    ClosingEnds,
}

impl EscrowProperty {
    pub const ALL: [EscrowProperty; 8] = [
        EscrowProperty::WithinLimit,
        EscrowProperty::EscrowOnce,
        EscrowProperty::SpendKept,
        EscrowProperty::NothingAfterLimit,
        EscrowProperty::HaltIsFinal,
        EscrowProperty::AskedFirst,
        EscrowProperty::OwnEscrow,
        EscrowProperty::ClosingEnds,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            EscrowProperty::WithinLimit => "commitments never exceed the limit",
            EscrowProperty::EscrowOnce => "escrow comes back exactly once",
            EscrowProperty::SpendKept => "no spend is lost or counts twice",
            EscrowProperty::NothingAfterLimit => "nothing starts after a hard limit",
            EscrowProperty::HaltIsFinal => "a halted task is not tried again",
            EscrowProperty::AskedFirst => "nothing goes on beyond a soft limit that asks",
            EscrowProperty::OwnEscrow => "a continuation has an escrow of its own",
            EscrowProperty::ClosingEnds => "closing ends",
        }
    }
}

/// The properties that the last step broke.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EscrowBroken(u8);

impl EscrowBroken {
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn contains(self, property: EscrowProperty) -> bool {
        self.0 & (1 << property as u8) != 0
    }

    /// Marks `property` as broken unless `holds`.
    pub(super) fn require(&mut self, property: EscrowProperty, holds: bool) {
        if !holds {
            self.0 |= 1 << property as u8;
        }
    }
}

/// The situations that an exploration must reach.
pub const GOALS: [&str; 22] = [
    "a child is funded",
    "a spawn beyond the balance is refused",
    "a share comes back",
    "a child used more than its ceiling",
    "a reservation is settled",
    "a grant that nobody answered settles nothing",
    "a smaller total says nothing",
    "a late word about spend is refused",
    "a soft limit is noted",
    "people are asked",
    "going on is approved",
    "going on is refused",
    "halted by a call",
    "halted by a heartbeat",
    "halted by the end of a child",
    "a success beyond the limit halts",
    "halted with children left",
    "a halted task ends after its children",
    "a halted task keeps its steps",
    "cancelled with children left",
    "a run is continued",
    "a child starts again in a continuation",
];

/// The index of a goal. A name that is not listed is a defect of the model.
pub(super) fn goal(name: &str) -> usize {
    GOALS.iter().position(|goal| *goal == name).expect("the goal is listed")
}
