//! Flow keys: whether a submission may join its key, and whether a task fits into its key.
//!
//! The rules of one key are in [`crate::flow`]. Which task is offered to polls is no decision: it follows from the live
//! tasks, and stores keep it. A grant is decided here, whatever was offered.

use crate::flow::{FlowKey, FlowUses, KeyUse};
use crate::request::Submit;
use crate::task::Task;
use crate::verdict::Refusal;

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
