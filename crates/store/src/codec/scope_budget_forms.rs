//! The stored form of the budget of a tenant or workspace: the body of its object.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use verdict::Limits;
use verdict::scope_budget::{Alert, Day, Level, Period, ScopeBudget};

use super::budget_forms::{LimitsForm, is_zero};

#[derive(Serialize, Deserialize)]
#[serde(remote = "ScopeBudget")]
pub(super) struct ScopeBudgetForm {
    #[serde(with = "LimitsForm", default, skip_serializing_if = "is_zero")]
    limits: Limits,
    #[serde(with = "LimitsForm", default, skip_serializing_if = "is_zero")]
    soft: Limits,
    #[serde(with = "PeriodForm")]
    period: Period,
    #[serde(with = "optional_alert", default, skip_serializing_if = "Option::is_none")]
    alert: Option<Alert>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Period", rename_all = "snake_case")]
enum PeriodForm {
    Total,
    Day,
    Month,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Level", rename_all = "snake_case")]
enum LevelForm {
    Soft,
    Spent,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Day")]
struct DayForm(u32);

#[derive(Serialize, Deserialize)]
#[serde(remote = "Alert")]
struct AlertForm {
    #[serde(with = "DayForm")]
    since: Day,
    #[serde(with = "LevelForm")]
    level: Level,
}

mod optional_alert {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Form(#[serde(with = "AlertForm")] Alert);

    pub(super) fn serialize<S: Serializer>(
        value: &Option<Alert>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        value.map(Form).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Alert>, D::Error> {
        Ok(Option::<Form>::deserialize(from)?.map(|Form(alert)| alert))
    }
}
