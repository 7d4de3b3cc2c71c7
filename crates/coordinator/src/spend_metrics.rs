//! What runs used, and how often budgets stopped or warned them: for `/metrics`.
//!
//! By workspace it is told only where the operator asked for names. A metric with names in its labels has as many series as there are names, and users invent names. So only the first
//! [`WORKSPACES_MAX`] workspaces that use something have series of their own; all others share one. Each coordinator counts what it
//! committed since its start, as with every other counter.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use verdict::budget::{Amounts, BudgetEvent, Unit};
use verdict::scope_budget::Level;
use verdict::{Event, RunEvent, Scope, Subject};

/// Workspaces with series of their own: four each, which a scrape of a large installation bears.
const WORKSPACES_MAX: usize = 100;

/// The labels of all other workspaces together. No name of a tenant or workspace has parentheses.
const OTHERS: &str = "(others)";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct UnitLabel {
    unit: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SpendLabels {
    tenant: String,
    workspace: String,
    unit: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LevelLabel {
    level: &'static str,
}

/// What one batch used and met, by workspace.
#[derive(Debug, Default)]
pub(crate) struct BatchSpend {
    used: HashMap<Scope, Amounts>,
    warnings: u64,
}

impl BatchSpend {
    /// Counts what a decision used. What children used came with their own decisions.
    /// Returns it.
    pub(crate) fn note(&mut self, before: Amounts, after: &Subject, events: &[Event]) -> Amounts {
        let mut of_children = Amounts::default();
        for event in events.iter().filter_map(budget_event) {
            match event {
                BudgetEvent::Refunded(charge) => of_children = of_children.plus(charge.used),
                BudgetEvent::Warned(_) => self.warnings += 1,
                BudgetEvent::Metered(_) | BudgetEvent::Asked(_) => {}
            }
        }
        let more = used(after).minus(before).minus(of_children);
        if let Some(scope) = after.scope().filter(|_| more != Amounts::default()) {
            let sum = self.used.entry(scope.clone()).or_default();
            *sum = sum.plus(more);
        }
        more
    }
}

fn budget_event(event: &Event) -> Option<&BudgetEvent> {
    match event {
        Event::Run(event) => match &**event {
            RunEvent::Budget(event) => Some(event),
            _ => None,
        },
        _ => None,
    }
}

/// What a task has used so far, as far as it is counted.
pub(crate) fn used(subject: &Subject) -> Amounts {
    let run = match subject {
        Subject::Absent => None,
        Subject::Live(task) => task.run.as_deref(),
        Subject::Done(done) => done.run.as_deref(),
    };
    run.map_or_else(Amounts::default, |run| match &run.balance {
        Some(balance) => balance.used,
        None => Amounts::of_spend(run.spend),
    })
}

/// The counters.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpendMetrics {
    spend: Family<UnitLabel, Counter>,
    by_workspace: Family<SpendLabels, Counter>,
    warnings: Counter,
    alerts: Family<LevelLabel, Counter>,
    /// The workspaces with series of their own.
    known: Arc<Mutex<Vec<Scope>>>,
}

impl SpendMetrics {
    pub(crate) fn register(self, registry: &mut Registry) {
        let help = "What runs used, by unit; steps only of runs with a budget";
        registry.register("tenure_spend", help, self.spend);
        let help = "Soft limits of budgets that were crossed";
        registry.register("tenure_budget_warnings", help, self.warnings);
        // Both exist from the start, so that a first alert shows as an increase.
        for level in [Level::Soft, Level::Spent] {
            self.alerts.get_or_create(&LevelLabel { level: level.name() }).inc_by(0);
        }
        let help = "Budgets of tenants and workspaces that reached a soft limit or were used up, once in each period";
        registry.register("tenure_budget_alerts", help, self.alerts);
    }

    /// The metric that names tenants and workspaces.
    #[cfg(feature = "http")]
    pub(crate) fn register_named(&self, registry: &mut Registry) {
        let help = "What runs used, by workspace and unit; steps only of runs with a budget";
        registry.register("tenure_workspace_spend", help, self.by_workspace.clone());
    }

    #[cfg(feature = "http")]
    pub(crate) fn count_alert(&self, level: Level) {
        self.alerts.get_or_create(&LevelLabel { level: level.name() }).inc();
    }

    pub(crate) fn add(&self, batch: &BatchSpend) {
        self.warnings.inc_by(batch.warnings);
        for (scope, used) in &batch.used {
            let (tenant, workspace) = self.names(scope);
            for unit in Unit::ALL.into_iter().filter(|unit| used.get(*unit) > 0) {
                let (tenant, workspace, unit_name) =
                    (tenant.clone(), workspace.clone(), unit.name());
                self.spend.get_or_create(&UnitLabel { unit: unit_name }).inc_by(used.get(unit));
                let labels = SpendLabels { tenant, workspace, unit: unit_name };
                self.by_workspace.get_or_create(&labels).inc_by(used.get(unit));
            }
        }
    }

    fn names(&self, scope: &Scope) -> (String, String) {
        let mut known = self.known.lock().expect("no code panics while it holds the names");
        let is_known = known.contains(scope) || known.len() < WORKSPACES_MAX;
        if is_known && !known.contains(scope) {
            known.push(scope.clone());
        }
        match is_known {
            true => (scope.tenant.to_string(), scope.workspace.to_string()),
            false => (OTHERS.to_owned(), OTHERS.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounded_number_of_workspaces_has_series() {
        let metrics = SpendMetrics::default();
        for n in 0..WORKSPACES_MAX {
            assert_eq!(metrics.names(&Scope::new("t", format!("w{n}"))).1, format!("w{n}"));
        }
        assert_eq!(metrics.names(&Scope::new("t", "one more")).1, OTHERS);
        assert_eq!(metrics.names(&Scope::new("t", "w0")).1, "w0");
    }
}
