//! What a run may use.

use std::time::Duration;

pub use wire::requests::OnSoft;
use wire::requests::{self, SoftLimits};
use workflow::Spend;

use crate::new_run::millis;

/// What a run and its descendants may use. A limit may be reached and not crossed: the call that crosses it halts the run, with
/// every step kept. A limit that is not given does not exist.
///
/// ```
/// use std::time::Duration;
/// use tenure::Budget;
///
/// let budget = Budget::new().tokens(50_000).cost_micros(2_000_000).wall(Duration::from_secs(3600));
/// # let _ = budget;
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "a budget limits nothing until a run has it"]
pub struct Budget(requests::Budget);

impl Budget {
    pub fn new() -> Budget {
        Budget::default()
    }

    pub fn tokens(mut self, tokens: u64) -> Budget {
        self.0.tokens = Some(tokens);
        self
    }

    /// Money, in millionths of a unit of currency.
    pub fn cost_micros(mut self, micros: u64) -> Budget {
        self.0.cost_micros = Some(micros);
        self
    }

    /// Recorded steps.
    pub fn steps(mut self, steps: u64) -> Budget {
        self.0.steps = Some(steps);
        self
    }

    pub fn tool_calls(mut self, calls: u64) -> Budget {
        self.0.tool_calls = Some(calls);
        self
    }

    /// How long the run may take from its submission. Children inherit it.
    pub fn wall(mut self, span: Duration) -> Budget {
        self.0.wall_ms = Some(millis(span));
        self
    }

    /// How long the leases of one task may last together.
    pub fn active(mut self, span: Duration) -> Budget {
        self.0.active_ms = Some(millis(span));
        self
    }

    /// What one step may use. So much is counted for a worker that is lost in the middle of one; nothing when not given.
    pub fn reserve(mut self, spend: Spend) -> Budget {
        let Spend { tokens, cost_micros, tool_calls } = spend;
        self.0.reserve = Some(requests::Spend { tokens, cost_micros, tool_calls });
        self
    }

    /// Notes in the history that so many tokens were used.
    pub fn soft_tokens(mut self, tokens: u64) -> Budget {
        self.soft().tokens = Some(tokens);
        self
    }

    /// Notes in the history that so much money was used.
    pub fn soft_cost_micros(mut self, micros: u64) -> Budget {
        self.soft().cost_micros = Some(micros);
        self
    }

    /// What follows when a soft limit is crossed; it is noted when not given.
    pub fn on_soft(mut self, then: OnSoft) -> Budget {
        self.0.on_soft = Some(then);
        self
    }

    fn soft(&mut self) -> &mut SoftLimits {
        self.0.soft.get_or_insert_default()
    }

    pub(crate) fn into_wire(self) -> requests::Budget {
        self.0
    }
}

impl From<requests::Budget> for Budget {
    fn from(budget: requests::Budget) -> Budget {
        Budget(budget)
    }
}

/// What one step of a plan may use at most of its run's budget, for [`PlanStep::ceiling`](crate::PlanStep::ceiling). What is not
/// given is not bounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "a ceiling limits nothing until a step has it"]
pub struct Ceiling(wire::plan::Ceiling);

impl Ceiling {
    pub fn new() -> Ceiling {
        Ceiling::default()
    }

    pub fn tokens(mut self, tokens: u64) -> Ceiling {
        self.0.tokens = Some(tokens);
        self
    }

    /// Money, in millionths of the currency unit.
    pub fn cost_micros(mut self, micros: u64) -> Ceiling {
        self.0.cost_micros = Some(micros);
        self
    }

    pub fn tool_calls(mut self, calls: u64) -> Ceiling {
        self.0.tool_calls = Some(calls);
        self
    }

    /// Recorded steps of a durable function.
    pub fn steps(mut self, steps: u64) -> Ceiling {
        self.0.steps = Some(steps);
        self
    }

    pub(crate) fn into_wire(self) -> wire::plan::Ceiling {
        self.0
    }
}
