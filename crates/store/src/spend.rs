//! What runs used, by workspace and day: the sums that budgets of tenants and workspaces are compared with, and those budgets.
//!
//! See [`verdict::scope_budget`]. How to use this seam:
//! - save what a batch used ([`crate::Decided::spend`]): it is added to the sum of its scope and day, in the same commit as the
//!   decisions that used it. Additions of several writers never conflict;
//! - look sums up before a decision ([`crate::Lookup::spend`]): they have everything that was committed before, by any writer.
//!   Nothing is locked, because a submission uses nothing;
//! - read them beside the writers: [`crate::Browse::spend`], [`crate::Browse::spend_rows`].
//!
//! The use of a whole tenant is saved under a scope of its own ([`whole_tenant`]), so no read adds up workspaces. A sum that does
//! not fit its column stays at the largest number; none is read as more than [`SUM_MAX`].
//!
//! A budget is an object of its scope. One that is removed limits nothing and is no longer pending.

use verdict::budget::SUM_MAX;
use verdict::scope_budget::{Day, ScopeBudget, whole_tenant};
use verdict::{Amounts, Name, Object, ObjectKey, ObjectType, Scope, Time, Unit};

use crate::codec::Stored;
use crate::objects::ObjectChange;

/// What was used in a scope on a day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpendRow {
    pub scope: Scope,
    pub day: Day,
    pub amounts: Amounts,
}

/// The sum of a scope from a day on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpendQuery {
    pub scope: Scope,
    pub since: Day,
}

/// What a batch used in a workspace, as it is saved: for the workspace, and for its tenant.
pub fn spend_rows(scope: &Scope, day: Day, amounts: Amounts) -> [SpendRow; 2] {
    [scope.clone(), whole_tenant(&scope.tenant)].map(|scope| SpendRow { scope, day, amounts })
}

/// Amounts as columns hold them.
pub(crate) fn cells(amounts: Amounts) -> [i64; 4] {
    Unit::ALL.map(|unit| i64::try_from(amounts.get(unit)).unwrap_or(i64::MAX))
}

pub(crate) fn amounts(cells: [i64; 4]) -> Amounts {
    let mut amounts = Amounts::default();
    for (unit, cell) in Unit::ALL.into_iter().zip(cells) {
        amounts.set(unit, u64::try_from(cell).unwrap_or(0).min(SUM_MAX));
    }
    amounts
}

/// A sum that fits its columns.
pub fn add(sum: Amounts, more: Amounts) -> Amounts {
    sum.plus(more)
}

/// The status of a budget that is in force.
pub const BUDGET_SET: &str = "set";

/// The status of one that was removed.
pub const BUDGET_REMOVED: &str = "removed";

/// The budget of an object; `None` for another object and for a budget that was removed.
pub fn budget_of(object: &Object) -> Option<ScopeBudget> {
    let is_set = object.key.object_type == ObjectType::Budget && object.is_pending;
    is_set.then(|| stored_budget(object))
}

/// What the object of a budget says, an empty one if it was removed. One that cannot be read accepts nothing, so that damage never
/// lifts a limit (W-10).
pub fn stored_budget(object: &Object) -> ScopeBudget {
    ScopeBudget::read(object.body.as_str()).unwrap_or_else(|_| ScopeBudget::closed())
}

/// The object of a budget after a change. One that was removed stays, so that its log has everything.
pub fn budget_change(
    key: ObjectKey,
    revision: u32,
    budget: &ScopeBudget,
    at: Time,
    by: Option<Name>,
) -> ObjectChange {
    let is_pending = !budget.is_empty();
    let after = Object {
        key,
        revision,
        status: if is_pending { BUDGET_SET } else { BUDGET_REMOVED }.into(),
        due: None,
        unique_key: None,
        parent: None,
        is_pending,
        body: budget.write().into(),
    };
    ObjectChange { after, at, by }
}
