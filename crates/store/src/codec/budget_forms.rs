//! The stored form of budgets: what a task was given, what it used, and what happens to it.
//!
//! As in [`super::forms`], members that are absent or zero are left out: most are.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use verdict::budget::{
    Amounts, Balance, Budget, BudgetEvent, Charge, Limits, OnSoft, StageShare, Unit,
};
use verdict::run::{Metered, Spend};
use verdict::{Request, Span, Time};

use super::forms::RequestForm;
use super::run_forms::SpendForm;
use super::scalars::as_number;

pub(super) fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Amounts")]
struct AmountsForm {
    #[serde(default, skip_serializing_if = "is_zero")]
    cost_micros: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    tokens: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    steps: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    tool_calls: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Limits")]
pub(super) struct LimitsForm {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cost_micros: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    steps: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool_calls: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "OnSoft", rename_all = "snake_case")]
enum OnSoftForm {
    Note,
    Ask,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Budget")]
pub(super) struct BudgetForm {
    #[serde(with = "LimitsForm", default, skip_serializing_if = "is_zero")]
    limits: Limits,
    #[serde(with = "AmountsForm", default, skip_serializing_if = "is_zero")]
    reserve: Amounts,
    #[serde(with = "LimitsForm", default, skip_serializing_if = "is_zero")]
    soft: Limits,
    #[serde(with = "OnSoftForm", default, skip_serializing_if = "is_zero")]
    on_soft: OnSoft,
    #[serde(with = "as_number::opt", default, skip_serializing_if = "Option::is_none")]
    wall: Option<Span>,
    #[serde(with = "as_number::opt", default, skip_serializing_if = "Option::is_none")]
    until: Option<Time>,
    #[serde(with = "as_number::opt", default, skip_serializing_if = "Option::is_none")]
    active: Option<Span>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    paid_by: Option<u32>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Balance")]
pub(super) struct BalanceForm {
    #[serde(with = "BudgetForm")]
    budget: Budget,
    #[serde(with = "as_number::opt", default, skip_serializing_if = "Option::is_none")]
    until: Option<Time>,
    #[serde(with = "AmountsForm", default, skip_serializing_if = "is_zero")]
    used: Amounts,
    #[serde(with = "AmountsForm", default, skip_serializing_if = "is_zero")]
    held: Amounts,
    #[serde(with = "SpendForm", default, skip_serializing_if = "is_zero")]
    attempt_steps: Spend,
    #[serde(with = "SpendForm", default, skip_serializing_if = "is_zero")]
    attempt_total: Spend,
    #[serde(with = "as_number", default, skip_serializing_if = "is_zero")]
    active: Span,
    #[serde(with = "as_number", default, skip_serializing_if = "is_zero")]
    gap: Span,
    #[serde(rename = "warned", default, skip_serializing_if = "is_zero")]
    is_warned: bool,
    #[serde(rename = "asked", default, skip_serializing_if = "is_zero")]
    is_asked: bool,
    #[serde(with = "optional_stage_share", default, skip_serializing_if = "Option::is_none")]
    stage: Option<Box<StageShare>>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "StageShare")]
struct StageShareForm {
    place: u32,
    #[serde(with = "LimitsForm", default, skip_serializing_if = "is_zero")]
    ceiling: Limits,
    #[serde(with = "AmountsForm", default, skip_serializing_if = "is_zero")]
    used: Amounts,
    #[serde(with = "AmountsForm", default, skip_serializing_if = "is_zero")]
    held: Amounts,
    #[serde(rename = "apart", default, skip_serializing_if = "is_zero")]
    is_apart: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Charge")]
pub(super) struct ChargeForm {
    #[serde(with = "LimitsForm", default, skip_serializing_if = "is_zero")]
    ceiling: Limits,
    #[serde(with = "AmountsForm", default, skip_serializing_if = "is_zero")]
    used: Amounts,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    paid_by: Option<u32>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Unit", rename_all = "snake_case")]
enum UnitForm {
    CostMicros,
    Tokens,
    Steps,
    ToolCalls,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "BudgetEvent", rename_all = "snake_case")]
pub(super) enum BudgetEventForm {
    Metered(#[serde(with = "SpendForm")] Spend),
    Refunded(#[serde(with = "ChargeForm")] Charge),
    Warned(#[serde(with = "UnitForm")] Unit),
    Asked(#[serde(with = "UnitForm")] Unit),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Metered")]
pub(super) struct MeteredForm {
    #[serde(with = "SpendForm")]
    total: Spend,
    #[serde(with = "boxed_request")]
    call: Box<Request>,
}

super::forms::boxed!(boxed_request, Request, RequestForm);
super::forms::boxed!(boxed_budget_event, BudgetEvent, BudgetEventForm);

/// Remote forms in a box that may be absent.
macro_rules! optional_box {
    ($module:ident, $type:ty, $form:literal) => {
        pub(super) mod $module {
            use super::*;

            pub(in super::super) fn serialize<S: Serializer>(
                value: &Option<Box<$type>>,
                to: S,
            ) -> Result<S::Ok, S::Error> {
                #[derive(Serialize)]
                struct Form<'a>(#[serde(with = $form)] &'a $type);
                value.as_deref().map(Form).serialize(to)
            }

            pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
                from: D,
            ) -> Result<Option<Box<$type>>, D::Error> {
                #[derive(Deserialize)]
                struct Form(#[serde(with = $form)] $type);
                Ok(Option::<Form>::deserialize(from)?.map(|Form(value)| Box::new(value)))
            }
        }
    };
}

pub(super) use optional_box;

optional_box!(optional_budget, Budget, "BudgetForm");
optional_box!(optional_balance, Balance, "BalanceForm");
optional_box!(optional_charge, Charge, "ChargeForm");
optional_box!(optional_stage_share, StageShare, "StageShareForm");
