//! Samples of budgets.

use serde_json::{Value, json};

use super::spend;

pub(super) fn limits() -> Value {
    json!({"costMicros": 1, "tokens": 2, "steps": 3, "toolCalls": 4})
}

pub(super) fn budget() -> Value {
    let mut budget = limits();
    (budget["wallMs"], budget["activeMs"]) = (json!(5), json!(6));
    (budget["reserve"], budget["soft"]) = (spend(), limits());
    budget["onSoft"] = json!("ask");
    budget
}

pub(super) fn budget_left() -> Value {
    let mut left = limits();
    (left["wallEndsAt"], left["activeMs"]) = (json!("2026-01-01T00:00:00.000Z"), json!(6));
    left
}

pub(super) fn budget_view() -> Value {
    json!({"used": limits(), "held": limits(), "left": budget_left(), "wallMs": 5, "activeMs": 6, "limits": budget_left(),
        "warned": true})
}
