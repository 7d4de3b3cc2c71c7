//! A budget on the command line: `cost=500000,tokens=20000,steps=50,tools=100,wall=10m,active=5m`.

use wire::requests::{Budget, OnSoft, SoftLimits};

/// Reads limits, separated by commas. Each may be given once.
pub(crate) fn limits(text: &str) -> Result<Budget, String> {
    let (mut budget, mut soft) = (Budget::default(), SoftLimits::default());
    for part in text.split(',') {
        let (name, value) = part.split_once('=').ok_or("write each limit as name=number")?;
        let (place, value) = match name {
            "cost" => (&mut budget.cost_micros, number(value)?),
            "tokens" => (&mut budget.tokens, number(value)?),
            "steps" => (&mut budget.steps, number(value)?),
            "tools" => (&mut budget.tool_calls, number(value)?),
            "wall" => (&mut budget.wall_ms, millis(value)?),
            "active" => (&mut budget.active_ms, millis(value)?),
            "soft-cost" => (&mut soft.cost_micros, number(value)?),
            "soft-tokens" => (&mut soft.tokens, number(value)?),
            "soft-steps" => (&mut soft.steps, number(value)?),
            "soft-tools" => (&mut soft.tool_calls, number(value)?),
            "on-soft" => {
                budget.on_soft = Some(on_soft(value)?);
                continue;
            }
            _ => {
                return Err(format!(
                    "`{name}` is not a limit; use one of cost, tokens, steps, tools, wall or active, soft-cost, soft-tokens, \
                     soft-steps or soft-tools, and on-soft"
                ));
            }
        };
        if place.replace(value).is_some() {
            return Err(format!("`{name}` is given twice"));
        }
    }
    budget.soft = (soft != SoftLimits::default()).then_some(soft);
    Ok(budget)
}

fn on_soft(text: &str) -> Result<OnSoft, String> {
    match text {
        "note" => Ok(OnSoft::Note),
        "ask" => Ok(OnSoft::Ask),
        _ => Err(format!("`{text}` is neither `note` nor `ask`")),
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is not a whole number"))
}

/// A time with its unit: ms, s, m or h.
fn millis(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(format!("`{text}` needs a unit: ms, s, m or h")),
    };
    number(digits)?.checked_mul(factor).ok_or_else(|| format!("`{text}` is too long"))
}

#[cfg(test)]
mod tests {
    use super::limits;

    #[test]
    fn limits_are_read_once_each_and_times_have_units() {
        let budget = limits("cost=500,tokens=20,steps=3,tools=4,wall=10m,active=5s").unwrap();
        assert_eq!((budget.cost_micros, budget.tokens), (Some(500), Some(20)));
        assert_eq!((budget.steps, budget.tool_calls), (Some(3), Some(4)));
        assert_eq!((budget.wall_ms, budget.active_ms), (Some(600_000), Some(5_000)));
        for wrong in ["", "tokens", "tokens=x", "tokens=1,tokens=2", "wall=5", "euros=1"] {
            assert!(limits(wrong).is_err(), "{wrong}");
        }
    }
}
