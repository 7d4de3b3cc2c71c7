//! What a task may use and has used, as the API shows it.

use verdict::run::RunState;
use verdict::{Amounts, Balance, Limits, Span, Unit};
use wire::answers::{BudgetAmounts, BudgetLeft, BudgetView};

use super::translate::time;

/// What is left for whoever uses it, in the stage that the task is in; `None` for a task that is only counted.
pub(super) fn left_of(balance: &Balance) -> Option<BudgetLeft> {
    balance.is_limited().then(|| left(balance, |unit| balance.left(unit)))
}

fn left(balance: &Balance, of: impl Fn(Unit) -> Option<u64>) -> BudgetLeft {
    let active = balance.budget.active.map(|active| active.minus(balance.active));
    BudgetLeft {
        cost_micros: of(Unit::CostMicros),
        tokens: of(Unit::Tokens),
        steps: of(Unit::Steps),
        tool_calls: of(Unit::ToolCalls),
        wall_ends_at: balance.until.map(time),
        active_ms: active.map(Span::millis),
    }
}

/// `None` for a task without a budget.
pub(super) fn budget_view(run: Option<&RunState>) -> Option<BudgetView> {
    let balance = run?.balance.as_ref()?;
    let Limits { cost_micros, tokens, steps, tool_calls } = balance.budget.limits;
    Some(BudgetView {
        used: amounts(balance.used),
        held: amounts(balance.held),
        left: left(balance, |unit| balance.left_in_budget(unit)),
        wall_ms: balance.budget.wall.map(Span::millis),
        active_ms: balance.budget.active.map(Span::millis),
        limits: BudgetLeft { cost_micros, tokens, steps, tool_calls, ..BudgetLeft::default() },
        warned: balance.is_warned,
    })
}

fn amounts(amounts: Amounts) -> BudgetAmounts {
    let Amounts { cost_micros, tokens, steps, tool_calls } = amounts;
    BudgetAmounts { cost_micros, tokens, steps, tool_calls }
}
