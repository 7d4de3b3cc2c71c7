//! Requests about the budget of a workspace or tenant: an administrator sets it, and an alert is noted once.
//!
//! That people are told is written to the budget, so of several coordinators that see a level reached one tells.

use super::{Alert, ScopeBudget};
use crate::budget::Amounts;
use crate::desk::Desk;
use crate::id::{Name, Scope};
use crate::known::{Body, Known};
use crate::object::{ObjectKey, ObjectType};
use crate::subject::{Needs, Subject};
use crate::time::Time;
use crate::verdict::Answer;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetRequest {
    pub scope: Scope,
    pub call: BudgetCall,
    /// The API key of the caller; `None` if what was used asks.
    pub by: Option<Name>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BudgetCall {
    /// The budget from now on. An empty one removes it; its alerts begin anew.
    Set(ScopeBudget),
    /// So much is used in the period: is an alert due?
    Used(Amounts),
}

/// The budget after a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetAnswer {
    pub budget: ScopeBudget,
    /// The alert that this request noted: its caller tells people, and no other does.
    pub alert: Option<Alert>,
}

/// The one budget of a scope.
pub fn budget_key(scope: &Scope) -> ObjectKey {
    ObjectKey { scope: scope.clone(), object_type: ObjectType::Budget, id: "budget".into() }
}

/// Budgets of scopes as a subject.
#[derive(Debug)]
pub enum Budgets {}

impl Subject for Budgets {
    type Request = BudgetRequest;

    fn needs(request: &BudgetRequest, _: &Known, _: Time) -> Needs {
        Needs { objects: [budget_key(&request.scope)].into(), ..Needs::default() }
    }

    fn decide(desk: &mut Desk<'_>, request: &BudgetRequest) -> Answer {
        let key = budget_key(&request.scope);
        match &request.call {
            BudgetCall::Set(budget) => written(desk, key, budget.clone(), None),
            BudgetCall::Used(used) => alert(desk, key, *used),
        }
    }
}

/// Notes the alert that is due, if one is.
fn alert(desk: &mut Desk<'_>, key: ObjectKey, used: Amounts) -> Answer {
    let Some(Body::Budget(budget)) = desk.object(&key).map(|row| &row.body) else {
        return Answer::Nothing;
    };
    let Some(alert) = budget.to_alert(used, desk.now()) else { return Answer::Nothing };
    let after = ScopeBudget { alert: Some(alert), ..budget.clone() };
    written(desk, key, after, Some(alert))
}

fn written(
    desk: &mut Desk<'_>,
    key: ObjectKey,
    budget: ScopeBudget,
    alert: Option<Alert>,
) -> Answer {
    desk.write(key, Body::Budget(budget.clone()));
    Answer::Budget(Box::new(BudgetAnswer { budget, alert }))
}
