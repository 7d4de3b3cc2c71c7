//! Budgets: what a task and its descendants may use, and what they have used.
//!
//! Money, tokens, steps and tool calls are escrow. What a child may use leaves its parent's balance when the child is spawned, and
//! what it did not use comes back with the message of its end. So a decision about a task needs that task alone, and
//! however many children run at once, together they are never promised more than the limit. Time is no escrow: the clocks of a
//! budget run for every task on their own.
//!
//! This module has the shapes and the arithmetic; [`crate::decide`] has the rules. Numbers come from workers, so no sum may
//! wrap, and a sum that does not fit counts as beyond every limit: no check fails open (W-10).
//!
//! Invariants:
//! - what is used, held for children and reserved for the step under way is never more than the limit, except by what a worker says
//!   it used beyond its reservation;
//! - what one attempt used counts once, whether it came with steps or as a total, and however often it was sent;
//! - a task without a budget has no [`Balance`] and pays for none of this.

mod balance;
mod event;
mod stage_share;

pub use balance::{Balance, Charge};
pub use event::BudgetEvent;
pub use stage_share::StageShare;

use crate::run::Spend;
use crate::time::{Span, Time};

/// What is counted. The order is that of the arrays below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    CostMicros,
    Tokens,
    Steps,
    ToolCalls,
}

impl Unit {
    pub const ALL: [Unit; 4] = [Unit::CostMicros, Unit::Tokens, Unit::Steps, Unit::ToolCalls];

    /// The name that the wire and the messages use.
    pub const fn name(self) -> &'static str {
        match self {
            Unit::CostMicros => "costMicros",
            Unit::Tokens => "tokens",
            Unit::Steps => "steps",
            Unit::ToolCalls => "toolCalls",
        }
    }
}

/// An amount of each unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Amounts {
    pub cost_micros: u64,
    pub tokens: u64,
    pub steps: u64,
    pub tool_calls: u64,
}

impl Amounts {
    pub const fn get(&self, unit: Unit) -> u64 {
        match unit {
            Unit::CostMicros => self.cost_micros,
            Unit::Tokens => self.tokens,
            Unit::Steps => self.steps,
            Unit::ToolCalls => self.tool_calls,
        }
    }

    pub const fn set(&mut self, unit: Unit, amount: u64) {
        match unit {
            Unit::CostMicros => self.cost_micros = amount,
            Unit::Tokens => self.tokens = amount,
            Unit::Steps => self.steps = amount,
            Unit::ToolCalls => self.tool_calls = amount,
        }
    }

    pub const fn of_spend(spend: Spend) -> Self {
        let Spend { cost_micros, tokens, tool_calls } = spend;
        Self { cost_micros, tokens, steps: 0, tool_calls }
    }

    /// Saturates: a worker's claim must not overflow a total. The largest sum is beyond every limit ([`SUM_MAX`]).
    #[must_use]
    pub fn plus(self, other: Amounts) -> Amounts {
        self.map(|unit, amount| amount.saturating_add(other.get(unit)).min(SUM_MAX))
    }

    /// Zero where the other is larger.
    #[must_use]
    pub fn minus(self, other: Amounts) -> Amounts {
        self.map(|unit, amount| amount.saturating_sub(other.get(unit)))
    }

    #[must_use]
    pub fn map(self, change: impl Fn(Unit, u64) -> u64) -> Amounts {
        let mut changed = self;
        Unit::ALL.into_iter().for_each(|unit| changed.set(unit, change(unit, self.get(unit))));
        changed
    }
}

/// A limit of each unit that has one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Limits {
    pub cost_micros: Option<u64>,
    pub tokens: Option<u64>,
    pub steps: Option<u64>,
    pub tool_calls: Option<u64>,
}

/// The largest limit: the largest integer that every JSON parser keeps exactly.
pub const LIMIT_MAX: u64 = (1 << 53) - 1;

/// The largest sum. It is beyond every limit, so a sum that does not fit lifts none (W-10), and a double holds it exactly, so
/// every JSON parser reads what was counted.
pub const SUM_MAX: u64 = LIMIT_MAX + 1;

impl Limits {
    pub const fn get(&self, unit: Unit) -> Option<u64> {
        match unit {
            Unit::CostMicros => self.cost_micros,
            Unit::Tokens => self.tokens,
            Unit::Steps => self.steps,
            Unit::ToolCalls => self.tool_calls,
        }
    }

    pub const fn set(&mut self, unit: Unit, limit: Option<u64>) {
        match unit {
            Unit::CostMicros => self.cost_micros = limit,
            Unit::Tokens => self.tokens = limit,
            Unit::Steps => self.steps = limit,
            Unit::ToolCalls => self.tool_calls = limit,
        }
    }

    /// The first unit of which more is used than its limit. A limit may be reached, but not crossed.
    pub fn crossed(&self, used: Amounts) -> Option<Unit> {
        let is_beyond = |unit: &Unit| self.get(*unit).is_some_and(|limit| used.get(*unit) > limit);
        Unit::ALL.into_iter().find(is_beyond)
    }

    pub fn is_empty(&self) -> bool {
        *self == Limits::default()
    }

    /// What of these limits is held by whoever is limited so: nothing of what it does not limit.
    pub(crate) fn shared_with(&self, holder: &Limits) -> Amounts {
        Amounts::default().map(|unit, _| holder.get(unit).and(self.get(unit)).unwrap_or(0))
    }
}

/// What follows when a soft limit is crossed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnSoft {
    /// It is noted in the history.
    #[default]
    Note,
    /// It is noted, and the task waits for an approval.
    Ask,
}

impl OnSoft {
    pub const fn name(self) -> &'static str {
        match self {
            OnSoft::Note => "note",
            OnSoft::Ask => "ask",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        [OnSoft::Note, OnSoft::Ask].into_iter().find(|it| it.name() == name)
    }
}

/// What a task was given when it was submitted or spawned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    pub limits: Limits,
    /// What one step may use. So much is settled for an attempt that is lost in the middle of one.
    pub reserve: Amounts,
    /// Limits that are noted in the history when they are crossed, once, and end nothing.
    pub soft: Limits,
    pub on_soft: OnSoft,
    /// How long the task may take from its submission.
    pub wall: Option<Span>,
    /// The same as an instant: what a child takes over from its parent.
    pub until: Option<Time>,
    /// How long leases of the task may last together, without the coordinator's own gaps.
    pub active: Option<Span>,
    /// The stage of the parent whose ceiling pays for the task, too; `None` if none does.
    pub paid_by: Option<u32>,
}

impl Budget {
    /// Whether it limits nothing.
    pub fn is_empty(&self) -> bool {
        *self == Budget::default()
    }
}
