//! What a task may use and has used, as the API shows it.

use verdict::run::RunState;
use verdict::{Amounts, Balance, Limits, Span, Unit};
use wire::answers::{BudgetAmounts, BudgetLeft, BudgetView};

use super::translate::time;

/// What is left for whoever uses it; `None` for a task that is only counted.
pub(super) fn left_of(balance: &Balance) -> Option<BudgetLeft> {
    (!balance.budget.is_empty()).then(|| left(balance))
}

fn left(balance: &Balance) -> BudgetLeft {
    let active = balance.budget.active.map(|active| active.minus(balance.active));
    BudgetLeft {
        cost_micros: balance.left(Unit::CostMicros),
        tokens: balance.left(Unit::Tokens),
        steps: balance.left(Unit::Steps),
        tool_calls: balance.left(Unit::ToolCalls),
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
        left: left(balance),
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
