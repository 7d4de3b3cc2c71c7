//! Budgets of tenants and workspaces: what their runs may use together in a period.
//!
//! They are counted, not escrow ([`crate::budget`] is): what runs use is added up by whoever commits it, and a new run is refused once
//! a limit is reached. Runs that were accepted go on, so the real use can exceed the limit by what they still use; a run is held
//! to less by a budget of its own.
//!
//! This module has the shapes and the arithmetic. It stores neither the budgets nor the sums: the caller passes both in.
//!
//! Invariants:
//! - days and months are those of UTC, so that every coordinator sees the same period;
//! - a limit of zero is reached before anything was used, and a sum that does not fit is beyond every limit (W-10);
//! - each level of a budget is alerted on once in a period, the higher one last.

mod request;

use crate::budget::{Amounts, Budget, Limits, Unit};
use crate::id::{Name, Scope};
use crate::request::Submit;
use crate::time::Time;

pub use request::{BudgetAnswer, BudgetCall, BudgetRequest, Budgets, budget_key};

/// Stands for all workspaces of a tenant in the scope of a budget. No workspace has this name: names have no asterisk.
pub const WHOLE_TENANT: &str = "*";

const MILLIS_PER_DAY: i64 = 24 * 60 * 60 * 1000;

/// No month is longer: so many days after its first day, another month has begun.
const MONTH_DAYS_MAX: u32 = 31;

/// A day of UTC, counted from the first day of 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(pub u32);

impl Day {
    pub fn of(time: Time) -> Self {
        let days = time.millis().div_euclid(MILLIS_PER_DAY);
        Self(u32::try_from(days).unwrap_or(0))
    }

    pub fn begins_at(self) -> Time {
        Time::from_millis(i64::from(self.0) * MILLIS_PER_DAY)
    }

    /// The first day of its month.
    #[must_use]
    pub fn first_of_month(self) -> Self {
        Self(self.0 - (day_of_month(self.0) - 1))
    }
}

/// The day within its month, from 1, by the proleptic Gregorian calendar. Years are counted from March, so that the leap day is
/// the last one: then the lengths of the months follow from one linear formula.
fn day_of_month(days: u32) -> u32 {
    // From the first of March in the year 0, in eras of 400 years.
    let days = u64::from(days) + 719_468;
    let of_era = days % 146_097;
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    u32::try_from(day).unwrap_or(1)
}

/// When a budget begins anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Period {
    /// Never: it counts everything.
    #[default]
    Total,
    /// Every day, at midnight in UTC.
    Day,
    /// With the first day of every month, in UTC.
    Month,
}

impl Period {
    pub const ALL: [Period; 3] = [Period::Total, Period::Day, Period::Month];

    pub const fn name(self) -> &'static str {
        match self {
            Period::Total => "total",
            Period::Day => "day",
            Period::Month => "month",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// The first day that counts now.
    pub fn first_day(self, now: Time) -> Day {
        match self {
            Period::Total => Day::default(),
            Period::Day => Day::of(now),
            Period::Month => Day::of(now).first_of_month(),
        }
    }

    /// When the next period begins.
    pub fn ends_at(self, now: Time) -> Option<Time> {
        match self {
            Period::Total => None,
            Period::Day => Some(Day(Day::of(now).0 + 1).begins_at()),
            Period::Month => {
                let next = Day(self.first_day(now).0 + MONTH_DAYS_MAX).first_of_month();
                Some(next.begins_at())
            }
        }
    }
}

/// How far a budget is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// A soft limit is reached.
    Soft,
    /// A limit is reached: no new run is accepted.
    Spent,
}

impl Level {
    pub const fn name(self) -> &'static str {
        match self {
            Level::Soft => "soft",
            Level::Spent => "spent",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        [Level::Soft, Level::Spent].into_iter().find(|it| it.name() == name)
    }
}

/// That people were told of a level, in the period that began then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Alert {
    pub since: Day,
    pub level: Level,
}

/// What the runs of a workspace, or of all workspaces of a tenant, may use in a period.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ScopeBudget {
    pub limits: Limits,
    /// Limits at which people are told, and nothing else happens.
    pub soft: Limits,
    pub period: Period,
    /// The last alert. A budget that is set anew has none.
    pub alert: Option<Alert>,
}

impl ScopeBudget {
    /// One that accepts nothing: for a budget that is stored and cannot be read.
    pub fn closed() -> Self {
        let zero = Some(0);
        let limits = Limits { cost_micros: zero, tokens: zero, steps: zero, tool_calls: zero };
        Self { limits, ..Self::default() }
    }

    /// Whether it limits nothing and tells nobody: it is as if there were none.
    pub fn is_empty(&self) -> bool {
        self.limits.is_empty() && self.soft.is_empty()
    }

    pub fn level(&self, used: Amounts) -> Option<Level> {
        let spent = reached(&self.limits, used).map(|_| Level::Spent);
        spent.or_else(|| reached(&self.soft, used).map(|_| Level::Soft))
    }

    /// The alert that is due, if people were not told in this period.
    pub fn to_alert(&self, used: Amounts, now: Time) -> Option<Alert> {
        let alert = Alert { since: self.period.first_day(now), level: self.level(used)? };
        let is_told = |told: Alert| told.since == alert.since && told.level >= alert.level;
        (!self.alert.is_some_and(is_told)).then_some(alert)
    }
}

/// The first unit of which so much is used as its limit allows.
fn reached(limits: &Limits, used: Amounts) -> Option<Unit> {
    let is_reached = |unit: &Unit| limits.get(*unit).is_some_and(|limit| used.get(*unit) >= limit);
    Unit::ALL.into_iter().find(is_reached)
}

/// The scope of the budget of a whole tenant.
pub fn whole_tenant(tenant: &Name) -> Scope {
    Scope { tenant: tenant.clone(), workspace: WHOLE_TENANT.into() }
}

/// The scopes whose budgets hold for runs of this one.
pub fn budget_scopes(scope: &Scope) -> [Scope; 2] {
    [scope.clone(), whole_tenant(&scope.tenant)]
}

/// A budget that holds for a submission, and what is used of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetUse {
    pub scope: Scope,
    pub budget: ScopeBudget,
    pub used: Amounts,
}

/// Why no new run is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Spent {
    /// Whether the budget is that of the tenant, and not of one workspace.
    pub is_whole_tenant: bool,
    pub unit: Unit,
    pub limit: u64,
    pub used: u64,
    /// When the budget begins anew.
    pub ends_at: Option<Time>,
}

impl BudgetUse {
    pub fn spent(&self, now: Time) -> Option<Spent> {
        let unit = reached(&self.budget.limits, self.used)?;
        Some(Spent {
            is_whole_tenant: self.scope.workspace.as_str() == WHOLE_TENANT,
            unit,
            limit: self.budget.limits.get(unit).unwrap_or(0),
            used: self.used.get(unit),
            ends_at: self.budget.period.ends_at(now),
        })
    }
}

/// The first budget that is used up.
pub fn first_spent(budgets: &[BudgetUse], now: Time) -> Option<Spent> {
    budgets.iter().find_map(|budget| budget.spent(now))
}

/// Gives a run a balance without limits, if it has none: everything that it uses is counted then, also what its workers say in all
/// with heartbeats and reports.
pub fn count_all(submit: &mut Submit) {
    if submit.budget.is_none() {
        submit.budget = Some(Box::<Budget>::default());
    }
}
