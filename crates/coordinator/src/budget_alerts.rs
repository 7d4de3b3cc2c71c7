//! Tells people once when a budget of a tenant or workspace reaches a soft limit, and once when it is used up.
//!
//! After a commit that used something, the sum is read and compared. That people were told is written to the budget itself
//! ([`verdict::scope_budget::Budgets`]), so of several coordinators one tells; the entry of the object's log is the event. The last commit that uses something
//! sees what all others used, so no level is missed; what was committed just before a crash is looked at when the process starts
//! again, or after the next use.

use std::time::Duration;

use store::{Browse, SpendQuery};
use tokio_util::sync::CancellationToken;
use verdict::scope_budget::{Alert, BudgetCall, BudgetRequest, Level, ScopeBudget, WHOLE_TENANT};
use verdict::{Amounts, Answer, Scope};

use crate::coordinator::Coordinator;
use crate::item::RequestError;

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

async fn tell(coordinator: &Coordinator, scope: &Scope, used: Amounts) -> Result<(), Missed> {
    let (scope, call) = (scope.clone(), BudgetCall::Used(used));
    let answered =
        coordinator.budget(BudgetRequest { scope: scope.clone(), call, by: None }).await?;
    // Otherwise people were told, or the budget has changed.
    if let Answer::Budget(answer) = answered.answer
        && let Some(alert) = answer.alert
    {
        say(coordinator, &scope, alert, used);
    }
    Ok(())
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
