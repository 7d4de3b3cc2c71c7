//! Settings as subjects: budgets of scopes and recovery policies. One row each, and what a request makes of it.

use verdict::budget::{Amounts, Limits};
use verdict::desk::{DeskChange, IdBlock};
use verdict::known::{Body, Fetched, Known};
use verdict::recovery::{
    PolicyCall, PolicyRequest, RecoveryPolicies, RecoveryPolicy, RecoveryRefusal, Terms,
};
use verdict::scope_budget::{BudgetCall, BudgetRequest, Budgets, Level, Period, ScopeBudget};
use verdict::subject::Subject;
use verdict::{Answer, Moment, Refusal, Scope, Time};

const NOON: Time = Time::from_millis(12 * 60 * 60 * 1_000);
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// What is known of one row, through the decisions about it.
#[derive(Default)]
struct Row(Known);

impl Row {
    /// The answer, and what was written: its revision with it.
    fn decide<S: Subject>(
        &mut self,
        request: &S::Request,
        now: Time,
    ) -> (Answer, Vec<(u32, Body)>) {
        let needs = S::needs(request, &self.0, now);
        for key in needs.missing(&self.0).objects {
            self.0.objects.put(key, Fetched::Absent);
        }
        let at = Moment { now, epoch: 1, rules: verdict::Rules::NEWEST };
        let decided = S::decided(&self.0, request, at, IdBlock::starting_at(1));
        let mut written = Vec::new();
        for change in decided.changes {
            let DeskChange::Written { key, row } = change else { panic!("{change:?}") };
            written.push((row.revision, row.body.clone()));
            self.0.objects.write(key, row);
        }
        (decided.answer, written)
    }

    fn budget(&mut self, call: BudgetCall, now: Time) -> (Answer, Vec<(u32, Body)>) {
        let request = BudgetRequest { scope: Scope::default(), call, by: None };
        self.decide::<Budgets>(&request, now)
    }

    fn policy(&mut self, call: PolicyCall) -> (Answer, Vec<(u32, Body)>) {
        let request = PolicyRequest { scope: Scope::default(), call, by: "key_1".into() };
        self.decide::<RecoveryPolicies>(&request, NOON)
    }
}

fn daily(tokens: u64) -> ScopeBudget {
    let limits = Limits { tokens: Some(tokens), ..Limits::default() };
    let soft = Limits { tokens: Some(tokens / 2), ..Limits::default() };
    ScopeBudget { limits, soft, period: Period::Day, alert: None }
}

fn used(tokens: u64) -> BudgetCall {
    BudgetCall::Used(Amounts { tokens, ..Amounts::default() })
}

fn alert_of((answer, written): &(Answer, Vec<(u32, Body)>)) -> Option<Level> {
    match answer {
        Answer::Budget(answer) => answer.alert.map(|alert| alert.level),
        Answer::Nothing => {
            assert_eq!(*written, [], "nothing is written where nothing is said");
            None
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_level_of_a_budget_is_told_once_in_a_period() {
    let mut row = Row::default();
    row.budget(BudgetCall::Set(daily(100)), NOON);
    assert_eq!(alert_of(&row.budget(used(49), NOON)), None);
    assert_eq!(alert_of(&row.budget(used(50), NOON)), Some(Level::Soft));
    assert_eq!(alert_of(&row.budget(used(60), NOON)), None, "people know");
    assert_eq!(alert_of(&row.budget(used(100), NOON)), Some(Level::Spent));
    assert_eq!(alert_of(&row.budget(used(120), NOON)), None, "people know");
    let tomorrow = Time::from_millis(NOON.millis() + DAY_MS);
    assert_eq!(alert_of(&row.budget(used(50), tomorrow)), Some(Level::Soft), "a new day");
}

#[test]
fn a_budget_that_is_set_again_tells_again_under_the_next_revision() {
    let mut row = Row::default();
    let (answer, written) = row.budget(BudgetCall::Set(daily(100)), NOON);
    assert!(matches!(answer, Answer::Budget(it) if it.budget == daily(100) && it.alert.is_none()));
    assert_eq!(written, [(1, Body::Budget(daily(100)))]);
    assert_eq!(alert_of(&row.budget(used(100), NOON)), Some(Level::Spent));
    let (_, written) = row.budget(BudgetCall::Set(daily(100)), NOON);
    assert_eq!(written, [(3, Body::Budget(daily(100)))], "the alert was the second revision");
    assert_eq!(alert_of(&row.budget(used(100), NOON)), Some(Level::Spent));
}

#[test]
fn a_budget_that_was_removed_tells_nothing() {
    let mut row = Row::default();
    assert_eq!(alert_of(&row.budget(used(u64::MAX), NOON)), None, "there never was one");
    row.budget(BudgetCall::Set(daily(100)), NOON);
    row.budget(BudgetCall::Set(ScopeBudget::default()), NOON);
    assert_eq!(alert_of(&row.budget(used(u64::MAX), NOON)), None);
}

fn policy(name: &str) -> RecoveryPolicy {
    let terms = Terms::default();
    RecoveryPolicy { name: name.into(), queue: None, kind: None, terms, is_deleted: false }
}

#[test]
fn a_policy_is_deleted_once_and_may_be_set_again() {
    let mut row = Row::default();
    let not_found = Answer::Refused(Refusal::Recovery(RecoveryRefusal::PolicyNotFound));
    let delete = || PolicyCall::Delete("p".into());
    assert_eq!(row.policy(delete()), (not_found.clone(), Vec::new()));
    let set = || PolicyCall::Set(Box::new(policy("p")));
    let (answer, written) = row.policy(set());
    assert_eq!(answer, Answer::Policy(Box::new(policy("p"))));
    assert_eq!(written, [(1, Body::Policy(Box::new(policy("p"))))]);
    let deleted = RecoveryPolicy { is_deleted: true, ..policy("p") };
    assert_eq!(row.policy(delete()).1, [(2, Body::Policy(Box::new(deleted)))]);
    assert_eq!(row.policy(delete()), (not_found, Vec::new()));
    assert_eq!(row.policy(set()).1, [(3, Body::Policy(Box::new(policy("p"))))]);
}

#[test]
fn requests_about_other_policies_do_not_meet() {
    let mut row = Row::default();
    row.policy(PolicyCall::Set(Box::new(policy("p"))));
    let (_, written) = row.policy(PolicyCall::Set(Box::new(policy("q"))));
    assert_eq!(written, [(1, Body::Policy(Box::new(policy("q"))))]);
}
