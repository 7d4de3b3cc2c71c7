//! Checks a history and reports which invariants it breaks.
//!
//! A run of the real system, or of a simulated one, leaves a history: the calls of clients and workers with their
//! answers, the coordinators' decisions, and the injected faults ([`event`]). [`check`] reads it and returns every
//! broken invariant with the events that show it. It knows nothing of the code that produced the history, so it
//! shares no defect with that code.
//!
//! A question that it cannot decide within its budget counts as broken: an unknown is not a proof.

pub mod durable;
pub mod event;
mod finding;
mod history;
mod invariants;
mod linearize;
pub mod outbox;
pub mod recorder;
mod sequential;
pub mod text;

pub use self::event::Event;
pub use self::finding::{Finding, Invariant};
pub use self::history::Malformed;
pub use self::recorder::Recorder;

use self::history::History;

/// Every violation in a history, in the order of the invariants. An error means that the events are no valid history.
pub fn check(events: &[Event]) -> Result<Vec<Finding>, Malformed> {
    let history = History::assemble(events)?;
    let mut findings = Vec::new();
    for (_, check) in invariants::CHECKS {
        check(&history, &mut findings);
    }
    Ok(findings)
}

/// A finding as text, with the lines it refers to.
pub fn describe(finding: &Finding, events: &[Event]) -> String {
    let task = finding.task.as_ref().map(|task| format!(" of {task}")).unwrap_or_default();
    let says = finding.invariant.says();
    let mut told =
        format!("{}{task}: {}\n  must hold: {says}", finding.invariant.id(), finding.why);
    for index in &finding.events {
        if let Some(event) = events.get(*index) {
            told.push_str("\n  | ");
            told.push_str(&text::write(event));
        }
    }
    told
}
