//! Translates what a run may use, and what an attempt has used. See [`super`] for the rules of translation.

use verdict::run::{Metered, RunRequest, Spend};
use verdict::{Amounts, Budget, Limits, OnSoft, Request, Span};
use wire::requests::SoftLimits;

pub(crate) fn budget(budget: wire::requests::Budget) -> Budget {
    let wire::requests::Budget {
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
    let SoftLimits {
        cost_micros: soft_cost,
        tokens: soft_tokens,
        steps: soft_steps,
        tool_calls: soft_calls,
    } = soft.unwrap_or_default();
    Budget {
        limits: Limits { cost_micros, tokens, steps, tool_calls },
        reserve: reserve.map_or_else(Amounts::default, |reserve| Amounts::of_spend(spent(reserve))),
        soft: Limits {
            cost_micros: soft_cost,
            tokens: soft_tokens,
            steps: soft_steps,
            tool_calls: soft_calls,
        },
        on_soft: match on_soft {
            None | Some(wire::requests::OnSoft::Note) => OnSoft::Note,
            Some(wire::requests::OnSoft::Ask) => OnSoft::Ask,
        },
        wall: wall_ms.map(Span::from_millis),
        until: None,
        active: active_ms.map(Span::from_millis),
        paid_by: None,
    }
}

pub(super) fn spent(spend: wire::requests::Spend) -> Spend {
    let wire::requests::Spend { cost_micros, tokens, tool_calls } = spend;
    Spend { cost_micros, tokens, tool_calls }
}

/// The call with what its attempt has used so far, if it says so.
#[cfg_attr(not(feature = "http"), expect(dead_code, reason = "said in calls over HTTP only"))]
pub(crate) fn metered(spend: Option<wire::requests::Spend>, call: Request) -> Request {
    match spend {
        None => call,
        Some(spend) => {
            let metered = Metered { total: spent(spend), call: Box::new(call) };
            Request::Run(Box::new(RunRequest::Metered(metered)))
        }
    }
}
