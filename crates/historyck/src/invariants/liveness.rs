//! Everything accepted ends, and stays in its scope.

use crate::event::{EventKind, Operation};
use crate::finding::{Finding, Invariant};
use crate::history::{History, findings_for};

pub(super) fn everything_ends(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::G1);
    let settled =
        history.events.iter().position(|event| matches!(event.what, EventKind::Settled(_)));
    let Some(settled) = settled else { return };
    for task in history.tasks() {
        let accepted = history.calls_about(task).any(|call| {
            let before = call.ok().is_some_and(|(at, _)| history.precedes(at, settled));
            call.is(Operation::Submit) && before
        });
        let has_ended = history.last_state(task).is_some_and(|(_, state)| state.is_terminal());
        if accepted && !has_ended {
            let last = history.last_state(task).map(|(at, _)| at);
            found.report(Some(task), last.into_iter().collect(), "it was accepted and never ended");
        }
    }
}

pub(super) fn scopes_are_apart(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::S1);
    let owners = history.owners();
    for call in &history.calls {
        let (Some((_, _)), Some(scope)) = (call.ok(), call.invoke.scope.as_deref()) else {
            continue;
        };
        let granted = call.grants().map(|granted| granted.task.as_str());
        for task in call.task().into_iter().chain(granted) {
            if let Some((owner, place)) = owners.get(task).filter(|(owner, _)| *owner != scope) {
                let why = format!("it belongs to {owner}, and was served to {scope}");
                found.report(Some(task), [vec![*place], call.places()].concat(), why);
            }
        }
    }
}
