//! Budgets of tenants and workspaces: when a submission is refused, which period counts, and who is told once.

use proptest::prelude::*;
use verdict::scope_budget::{
    Alert, BudgetUse, Day, Level, Period, ScopeBudget, Spent, budget_scopes, count_all, first_spent,
};
use verdict::{
    Amounts, Answer, Context, Limits, Moment, Policy, ReadSet, Refusal, Request, Rules, Scope,
    Subject, Time, Unit, decide,
};

use crate::world::{START, submission};

fn tokens(tokens: u64) -> Amounts {
    Amounts { tokens, ..Amounts::default() }
}

fn of_tokens(limit: u64) -> Limits {
    Limits { tokens: Some(limit), ..Limits::default() }
}

fn monthly(limit: u64, soft: u64) -> ScopeBudget {
    let (limits, soft) = (of_tokens(limit), of_tokens(soft));
    ScopeBudget { limits, soft, period: Period::Month, alert: None }
}

fn day(text: &str) -> Day {
    let parts: Vec<i64> = text.split('-').map(|part| part.parse().expect("a number")).collect();
    let days = (0..40_000).map(Day);
    let mut days = days.skip((parts[0] as usize - 1970) * 365);
    days.find(|day| civil(*day) == (parts[0], parts[1], parts[2])).expect("a day")
}

/// A second way to compute a date: count from 1970, month by month.
fn civil(day: Day) -> (i64, i64, i64) {
    let (mut left, mut year) = (i64::from(day.0), 1970);
    loop {
        let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let february = if is_leap { 29 } else { 28 };
        let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        for (month, length) in months.into_iter().enumerate() {
            if left < length {
                return (year, month as i64 + 1, left + 1);
            }
            left -= length;
        }
        year += 1;
    }
}

fn submit_with(budgets: &[BudgetUse]) -> Answer {
    let request = Request::Submit(submission(Policy::default()));
    let context = Context { budgets, ..Context::default() };
    let at = Moment { now: START, epoch: 1, rules: Rules::NEWEST };
    decide(ReadSet { subject: &Subject::Absent, context }, &request, at).answer
}

#[test]
fn s2_67_a_budget_that_is_used_up_accepts_no_new_run() {
    let scope = Scope::default();
    let [workspace, tenant] = budget_scopes(&scope);
    let budget_use = |scope: &Scope, limit, used| BudgetUse {
        scope: scope.clone(),
        budget: monthly(limit, 1),
        used: tokens(used),
    };
    let accepted = submit_with(&[budget_use(&workspace, 10, 9), budget_use(&tenant, 10, 0)]);
    assert!(matches!(accepted, Answer::Accepted { .. }));
    for (limit, used) in [(10, 10), (10, u64::MAX), (0, 0)] {
        for (place, is_whole_tenant) in [(&workspace, false), (&tenant, true)] {
            let answer = submit_with(&[budget_use(place, limit, used)]);
            let Answer::Refused(Refusal::BudgetSpent(spent)) = answer else {
                panic!("{answer:?}");
            };
            let ends_at = Period::Month.ends_at(START);
            assert_eq!(spent, Spent { is_whole_tenant, unit: Unit::Tokens, limit, used, ends_at });
        }
    }
}

#[test]
fn what_cannot_be_read_accepts_nothing() {
    // W-10: no check fails open.
    let (scope, budget) = (Scope::default(), ScopeBudget::closed());
    let budgets = [BudgetUse { scope, budget, used: Amounts::default() }];
    assert!(first_spent(&budgets, START).is_some());
}

#[test]
fn people_are_told_once_of_each_level_in_each_period() {
    let mut budget = monthly(10, 8);
    let now = Time::from_millis(day("2026-11-17").begins_at().millis() + 5);
    let later = day("2026-12-01").begins_at();
    assert_eq!(budget.to_alert(tokens(7), now), None);
    let since = day("2026-11-01");
    for (used, level) in [(8, Some(Level::Soft)), (9, None), (10, Some(Level::Spent)), (11, None)] {
        let alert = budget.to_alert(tokens(used), now);
        assert_eq!(alert, level.map(|level| Alert { since, level }), "{used}");
        budget.alert = alert.or(budget.alert);
    }
    let again = budget.to_alert(tokens(8), later);
    assert_eq!(again, Some(Alert { since: day("2026-12-01"), level: Level::Soft }));
}

#[test]
fn periods_begin_at_midnight_and_with_the_month() {
    for (text, first, next) in [
        ("2024-02-29", "2024-02-01", "2024-03-01"),
        ("2026-12-31", "2026-12-01", "2027-01-01"),
        ("2000-02-01", "2000-02-01", "2000-03-01"),
        ("1970-01-01", "1970-01-01", "1970-02-01"),
    ] {
        let last = Time::from_millis(Day(day(text).0 + 1).begins_at().millis() - 1);
        assert_eq!(Period::Month.first_day(last), day(first), "{text}");
        assert_eq!(Period::Month.ends_at(last), Some(day(next).begins_at()), "{text}");
        assert_eq!(Period::Day.first_day(last), day(text));
        assert_eq!(Period::Day.ends_at(last), Some(Day(day(text).0 + 1).begins_at()));
        assert_eq!((Period::Total.first_day(last), Period::Total.ends_at(last)), (Day(0), None));
    }
}

#[test]
fn a_run_without_a_budget_is_counted_too() {
    let mut submit = submission(Policy::default());
    count_all(&mut submit);
    assert_eq!(submit.budget, Some(Box::default()));
}

proptest! {
    #[test]
    fn the_first_day_of_a_month_is_its_first(n in 0u32..80_000) {
        let first = Day(n).first_of_month();
        let (year, month, day_of_month) = civil(Day(n));
        prop_assert_eq!(civil(first), (year, month, 1));
        prop_assert_eq!(i64::from(n - first.0), day_of_month - 1);
    }
}
