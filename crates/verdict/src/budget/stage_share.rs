//! What the stage that a task is in may use of the task's balance, and what it has used.
//!
//! Stages run one after the other, so nothing is set aside for them: the ceiling of a stage is a second limit while the task is in it.
//! Children belong to the task and may outlive the stage that spawned them, so each remembers which stage pays for it
//! ([`super::Budget::paid_by`]), and its end changes the share of that stage alone.

use super::{Amounts, Charge, Limits, Unit};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct StageShare {
    /// The place of the stage, from 0.
    pub place: u32,
    pub ceiling: Limits,
    /// By attempts in the stage, and by children of the stage that have ended.
    pub used: Amounts,
    /// What live children of the stage may use.
    pub held: Amounts,
    /// The end of the task is decided, and the stage runs whatever happened: its ceiling alone holds.
    pub is_apart: bool,
}

impl StageShare {
    /// The share of a stage that the task enters; `None` if the stage is bound by the balance and nothing else.
    pub(crate) fn enter(place: u32, ceiling: Limits, is_apart: bool) -> Option<Box<Self>> {
        let is_bound = is_apart || !ceiling.is_empty();
        is_bound.then(|| Box::new(Self { place, ceiling, is_apart, ..Self::default() }))
    }

    /// What is used or promised.
    pub fn committed(&self) -> Amounts {
        self.used.plus(self.held)
    }

    pub fn left(&self, unit: Unit) -> Option<u64> {
        let limit = self.ceiling.get(unit)?;
        Some(limit.saturating_sub(self.committed().get(unit)))
    }

    pub fn crossed(&self) -> Option<Unit> {
        self.ceiling.crossed(self.committed())
    }

    pub(super) fn hold(&mut self, ceiling: &Limits) {
        self.held = self.held.plus(ceiling.shared_with(&self.ceiling));
    }

    /// A child has ended. One of an earlier stage was paid for there.
    pub(super) fn refund(&mut self, charge: &Charge) {
        if charge.paid_by == Some(self.place) {
            self.held = self.held.minus(charge.ceiling.shared_with(&self.ceiling));
            self.used = self.used.plus(charge.used);
        }
    }
}
