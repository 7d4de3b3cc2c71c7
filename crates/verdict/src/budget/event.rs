//! What happens to the budget of a task, besides what follows from its steps, children and attempts.

use crate::run::Spend;

use super::Unit;
use super::balance::Charge;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BudgetEvent {
    /// The worker said what its attempt has used so far, the steps of the attempt included.
    Metered(Spend),
    /// A child has ended: what was held for it is free, and what it used is used.
    Refunded(Charge),
    /// More of this unit is used than the soft limit allows. Noted once.
    Warned(Unit),
    /// The task waits until people let it go on beyond the soft limit of this unit.
    Asked(Unit),
}

impl BudgetEvent {
    pub const fn name(&self) -> &'static str {
        match self {
            BudgetEvent::Metered(_) => "metered",
            BudgetEvent::Refunded(_) => "budget_refunded",
            BudgetEvent::Warned(_) => "budget_warned",
            BudgetEvent::Asked(_) => "budget_asked",
        }
    }
}
