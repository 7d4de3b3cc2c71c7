//! Runner: has a work order executed by the kind it names, and stores what came of it.
//!
//! Every way an execution can end leaves an output bundle or uses up an attempt, so a work order cannot be claimed for
//! ever: an executor that raises, vanishes or never returns ends at the gate like one that succeeds.

use serde_json::Value;

use crate::check::Topology;
use crate::deployment::{ExecutionStatus, OutputBundle, WorkOrder};
use crate::proposal::{Change, Setback};

/// How an execution ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Execution {
    Completed(Value),
    /// The time of the budget is over.
    BudgetExhausted,
    Raised(String),
    /// The executor vanished.
    Lost,
}

/// Whether the work order still wants an executor.
#[must_use]
pub fn is_wanted(work_order: &WorkOrder) -> bool {
    work_order.output.is_none()
}

/// What the role proposes when an execution has ended. Nothing for a work order that has its output.
#[must_use]
pub fn propose(topology: &Topology, order: &WorkOrder, ended: &Execution, now: u64) -> Vec<Change> {
    if !is_wanted(order) {
        return Vec::new();
    }
    let attempts = topology.template(&order.template).map_or(1, |it| it.attempts);
    let last = order.failures + order.lost + 1 >= attempts;
    let (status, output, notes) = match ended {
        Execution::Completed(output) => (ExecutionStatus::Completed, output.clone(), None),
        Execution::BudgetExhausted => {
            let notes = format!("the executor did not return within {} ms", order.budget_ms);
            (ExecutionStatus::BudgetExhausted, Value::Null, Some(notes))
        }
        Execution::Raised(_) if !last => return setback(order, Setback::Raised),
        Execution::Lost if !last => return setback(order, Setback::Lost),
        Execution::Raised(error) => {
            let notes = format!("the executor raised in the last of {attempts} attempts: {error}");
            (ExecutionStatus::Failed, Value::Null, Some(notes))
        }
        Execution::Lost => {
            let notes = format!("the executor vanished in the last of {attempts} attempts");
            (ExecutionStatus::Lost, Value::Null, Some(notes))
        }
    };
    let bundle = OutputBundle { execution_status: status, output, notes, created_at: now };
    vec![Change::Output { work_order: order.id.clone(), bundle }]
}

fn setback(order: &WorkOrder, setback: Setback) -> Vec<Change> {
    vec![Change::Setback { work_order: order.id.clone(), setback }]
}
