//! Checks what a run may use.

use super::{Checked, refuse, within};
use crate::limits::{BUDGET_MS, INTEGER_MAX};
use crate::plan::{Ceiling, PlanStep};
use crate::requests::{Budget, SoftLimits};

pub(super) fn budget(budget: Option<&Budget>) -> Checked {
    let Some(budget) = budget else { return Ok(()) };
    content(budget).map_err(|fault| fault.under("budget"))
}

fn content(budget: &Budget) -> Checked {
    let Budget {
        cost_micros,
        tokens,
        steps,
        tool_calls,
        wall_ms,
        active_ms,
        reserve,
        soft,
        on_soft,
    } = budget;
    amounts([*cost_micros, *tokens, *steps, *tool_calls])?;
    within("wallMs", *wall_ms, BUDGET_MS)?;
    within("activeMs", *active_ms, BUDGET_MS)?;
    super::checkpoints::amounts_of("reserve", reserve.as_ref())?;
    self::soft(soft.as_ref())?;
    if on_soft.is_some() && soft.is_none() {
        return refuse("onSoft", "needs a limit in `soft`");
    }
    match *budget == Budget::default() {
        true => refuse(
            "",
            "has no limit; leave it out, or name one of costMicros, tokens, steps, toolCalls, wallMs, activeMs",
        ),
        false => Ok(()),
    }
}

/// The ceiling of one unit.
type CeilingOf = fn(&Ceiling) -> Option<u64>;

/// A step may use nothing that the budget limits and its ceiling does not name, so a limit that no step names would stop them all.
pub(super) fn plan(budget: Option<&Budget>, steps: &[PlanStep]) -> Checked {
    let Some(budget) = budget else { return Ok(()) };
    let units: [(&str, Option<u64>, CeilingOf); 4] = [
        ("costMicros", budget.cost_micros, |it| it.cost_micros),
        ("tokens", budget.tokens, |it| it.tokens),
        ("steps", budget.steps, |it| it.steps),
        ("toolCalls", budget.tool_calls, |it| it.tool_calls),
    ];
    let is_named =
        |of: CeilingOf| steps.iter().any(|step| step.ceiling.and_then(|it| of(&it)).is_some());
    match units.into_iter().find(|(_, limit, of)| limit.is_some() && !is_named(*of)) {
        Some((unit, ..)) => refuse(
            &format!("budget.{unit}"),
            format!(
                "no step could use any: give steps of a plan with `dependsOn` a `ceiling` with `{unit}`"
            ),
        ),
        None => Ok(()),
    }
}

pub(crate) fn soft(limits: Option<&SoftLimits>) -> Checked {
    let Some(SoftLimits { cost_micros, tokens, steps, tool_calls }) = limits else { return Ok(()) };
    let checked = amounts([*cost_micros, *tokens, *steps, *tool_calls]);
    checked.map_err(|fault| fault.under("soft"))
}

/// Limits of every unit.
pub(crate) fn amounts(limits: [Option<u64>; 4]) -> Checked {
    let names = ["costMicros", "tokens", "steps", "toolCalls"];
    let mut checked =
        names.into_iter().zip(limits).map(|(name, limit)| within(name, limit, 0..=INTEGER_MAX));
    checked.find(Result::is_err).unwrap_or(Ok(()))
}
