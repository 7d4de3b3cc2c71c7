//! Tells people once when a budget of a tenant or workspace reaches a soft limit, and once when it is used up.
//!
//! After a commit that used something, the sum is read and compared. That somebody was told is written to the budget itself, under
//! its lock, so of several coordinators one tells; the entry of the object's log is the event. The last commit that uses something
//! sees what all others used, so no level is missed; what was committed just before a crash is looked at when the process starts
//! again, or after the next use.

use std::time::Duration;

use store::spend::{budget_key, budget_object, budget_of};
use store::{Browse, SpendQuery};
use tokio_util::sync::CancellationToken;
use verdict::scope_budget::{Alert, Level, ScopeBudget, WHOLE_TENANT};
use verdict::{Amounts, Moment, Scope};

use crate::carry::ObjectSet;
use crate::coordinator::Coordinator;
use crate::item::RequestError;
use crate::scope_budgets::BudgetDirectory;

/// How long to wait after the store refused.
const PAUSE: Duration = Duration::from_millis(500);

/// Why nobody was told yet.
#[derive(Debug, thiserror::Error)]
enum Missed {
    #[error("what was used cannot be read")]
    Read(#[from] store::Failure),
    #[error("the alert cannot be written")]
    Write(#[from] RequestError),
}

/// Runs until `closing` is cancelled. It may be dropped at any await: what was not told is found again.
pub(crate) async fn run(coordinator: Coordinator, closing: CancellationToken) {
    let budgets = coordinator.allowances().budgets().clone();
    budgets.mark_all();
    while closing.run_until_cancelled(budgets.changed()).await.is_some() {
        let used = budgets.take_used();
        let Err(missed) = tell_all(&coordinator, &used).await else { continue };
        tracing::warn!(error = &missed as &dyn std::error::Error, "nobody was told of budgets yet");
        if closing.run_until_cancelled(tokio::time::sleep(PAUSE)).await.is_none() {
            return;
        }
        budgets.mark_again(used.into_iter().map(|(scope, _)| scope));
    }
}

async fn tell_all(coordinator: &Coordinator, used: &[(Scope, ScopeBudget)]) -> Result<(), Missed> {
    if used.is_empty() {
        return Ok(());
    }
    let now = coordinator.now();
    let query = |(scope, budget): &(Scope, ScopeBudget)| SpendQuery {
        scope: scope.clone(),
        since: budget.period.first_day(now),
    };
    let wanted: Vec<SpendQuery> = used.iter().map(query).collect();
    let sums = coordinator.browse().spend(&wanted).await?;
    for ((scope, budget), sum) in used.iter().zip(sums) {
        if budget.to_alert(sum, now).is_some() {
            tell(coordinator, scope, sum).await?;
        }
    }
    Ok(())
}

/// What came of an alert.
enum Told {
    /// It is written; nobody else tells.
    Now(Alert),
    /// Somebody was told, or the budget has changed.
    Never,
    /// Another writer has the budget.
    Later,
}

async fn tell(coordinator: &Coordinator, scope: &Scope, used: Amounts) -> Result<(), Missed> {
    let key = budget_key(scope);
    let decide = {
        let (key, scope) = (key.clone(), scope.clone());
        move |objects: &mut ObjectSet, at: Moment| {
            if objects.is_locked(&key) {
                return Told::Later;
            }
            let Some(budget) = objects.get(&key).and_then(budget_of) else { return Told::Never };
            let Some(alert) = budget.to_alert(used, at.now) else { return Told::Never };
            let after = ScopeBudget { alert: Some(alert), ..budget };
            objects.put(budget_object(&scope, &after), None);
            Told::Now(alert)
        }
    };
    match coordinator.decide_objects(vec![key], decide).await? {
        Told::Now(alert) => say(coordinator, scope, alert, used),
        Told::Later => {
            mark_later(coordinator.allowances().budgets().clone(), scope.clone());
        }
        Told::Never => {}
    }
    Ok(())
}

/// Looks again after a pause, without holding up the others.
fn mark_later(budgets: BudgetDirectory, scope: Scope) {
    tokio::spawn(async move {
        tokio::time::sleep(PAUSE).await;
        budgets.mark_again([scope]);
    });
}

fn say(coordinator: &Coordinator, scope: &Scope, alert: Alert, used: Amounts) {
    coordinator.metrics().spend.count_alert(alert.level);
    let Scope { tenant, workspace } = scope;
    let workspace = Some(workspace.as_str()).filter(|name| *name != WHOLE_TENANT).unwrap_or("all");
    let Amounts { cost_micros, tokens, steps, tool_calls } = used;
    let what = match alert.level {
        Level::Soft => "a budget reached its soft limit",
        Level::Spent => "a budget is used up: no new run is accepted",
    };
    tracing::warn!(%tenant, workspace, cost_micros, tokens, steps, tool_calls, "{what}");
}
