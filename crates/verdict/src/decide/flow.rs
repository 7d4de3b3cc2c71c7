//! Flow keys: whether a submission may join its key, and whether a task fits into its key.
//!
//! The rules of one key are in [`crate::flow`]. Which task is offered to polls is no decision: it follows from the live
//! tasks, and stores keep it. A grant is decided here, whatever was offered.

use crate::flow::{FlowKey, FlowUses, KeyUse};
use crate::plan::PlanRequest;
use crate::request::{Request, Submit};
use crate::rules::Rules;
use crate::run::RunRequest;
use crate::task::Task;
use crate::verdict::Refusal;

/// Versions before the sixth do not know flow keys, and refuse what has one: a limit that nobody enforces must not be
/// accepted.
pub(super) fn is_refused(request: &Request, rules: Rules) -> bool {
    match rules {
        Rules::V1 | Rules::V2 | Rules::V3 | Rules::V4 | Rules::V5 => has_flow(request),
        Rules::V6 => false,
    }
}

fn has_flow(request: &Request) -> bool {
    let is_limited = |submit: &Submit| submit.flow.is_some();
    match request {
        Request::Submit(submit) => is_limited(submit),
        Request::Run(request) => match &**request {
            RunRequest::Checkpoint(call) => {
                call.children.iter().any(|child| is_limited(&child.submit))
            }
            RunRequest::Metered(metered) => has_flow(&metered.call),
            RunRequest::Plan(PlanRequest::Submit(plan)) => is_limited(&plan.submit),
            _ => false,
        },
        _ => false,
    }
}

/// Whether a task with this key may join it.
pub(super) fn check(flows: Option<&FlowUses>, flow: Option<&FlowKey>) -> Result<(), Refusal> {
    let Some(flow) = flow.filter(|flow| !flow.is_configured()) else { return Ok(()) };
    match flows.and_then(|flows| flows.get(&flow.name)) {
        Some(in_use) if !in_use.accepts(flow.terms()) => Err(Refusal::FlowLimitConflict {
            key: flow.name.clone(),
            in_force: in_use.terms(),
            asked: flow.terms(),
        }),
        Some(_) | None => Ok(()),
    }
}

/// Whether the key of the task has a free slot. A task without a key needs none, nor does one that holds its own for life.
pub(super) fn has_room(flows: Option<&FlowUses>, task: &Task) -> bool {
    if task.holds_for_life() {
        return true;
    }
    let in_use = task.flow().and_then(|flow| flows?.get(&flow.name));
    in_use.is_none_or(KeyUse::has_room)
}

/// The uses after a child of the same call has joined its key.
pub(super) fn joined(flows: &mut FlowUses, submit: &Submit) {
    if let Some(flow) = submit.flow.as_deref()
        && flows.get(&flow.name).is_none()
    {
        flows.put(flow.name.clone(), Some(KeyUse::joined(flow.terms())));
    }
}
