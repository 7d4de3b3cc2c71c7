//! A worker's events for its operator: sentences on stderr, or one JSON line per event on stdout.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tenure::WorkerEvent;
use wire::Outcome;

use crate::output::{self, BAD, FAINT, Format, GOOD, WARN};

/// Prints the outcome of each attempt.
pub(crate) fn observer(
    format: Format,
    cut: Arc<AtomicBool>,
) -> impl Fn(&WorkerEvent) + Send + Sync + 'static {
    move |event| {
        if matches!(event, WorkerEvent::Abandoned { .. }) {
            cut.store(true, Ordering::SeqCst);
        }
        match format {
            Format::People => output::note(message(event)),
            // A closed stdout is not a reason to stop work.
            Format::Json => drop(output::json_line(&members(event))),
        }
    }
}

fn run_of(task_id: &str) -> String {
    task_id.replacen("task_", "run_", 1)
}

fn message(event: &WorkerEvent) -> String {
    match event {
        WorkerEvent::Committed { task_id, attempt, outcome } => {
            let style = if *outcome == Outcome::Succeeded { GOOD } else { BAD };
            format!(
                "{} attempt {attempt}: {style}{outcome}{style:#} {FAINT}COMMITTED{FAINT:#}",
                run_of(task_id)
            )
        }
        WorkerEvent::Cancelled { task_id, attempt, why } => {
            format!(
                "{} attempt {attempt}: {WARN}authority lost{WARN:#}, result discarded: {why}",
                run_of(task_id)
            )
        }
        WorkerEvent::Rejected { code, message, .. } => {
            format!("{BAD}rejected{BAD:#}: {message} [{code}]")
        }
        WorkerEvent::Unanswered { task_id, attempt, why } => {
            format!("{} attempt {attempt}: {WARN}no answer{WARN:#}: {why}", run_of(task_id))
        }
        WorkerEvent::Abandoned { task_id, attempt } => {
            format!(
                "{} attempt {attempt}: {WARN}stopped before it was done{WARN:#}",
                run_of(task_id)
            )
        }
        WorkerEvent::Unreachable { why } => {
            format!("{WARN}cannot fetch work, retrying{WARN:#}: {why}")
        }
        other => format!("{other:?}"),
    }
}

fn members(event: &WorkerEvent) -> serde_json::Value {
    use serde_json::json;
    match event {
        WorkerEvent::Committed { task_id, attempt, outcome } => {
            json!({"event": "committed", "verdict": "COMMITTED", "runId": run_of(task_id), "taskId": task_id,
                   "attempt": attempt, "outcome": outcome})
        }
        WorkerEvent::Cancelled { task_id, attempt, why } => {
            json!({"event": "cancelled", "verdict": "CANCELLED", "runId": run_of(task_id), "taskId": task_id,
                   "attempt": attempt, "message": why})
        }
        WorkerEvent::Rejected { task_id, code, message } => {
            json!({"event": "rejected", "verdict": "REJECTED", "taskId": task_id, "error": code, "message": message})
        }
        WorkerEvent::Unanswered { task_id, attempt, why } => {
            json!({"event": "unanswered", "taskId": task_id, "attempt": attempt, "message": why})
        }
        WorkerEvent::Abandoned { task_id, attempt } => {
            json!({"event": "abandoned", "taskId": task_id, "attempt": attempt})
        }
        WorkerEvent::Unreachable { why } => json!({"event": "unreachable", "message": why}),
        other => json!({"event": "other", "message": format!("{other:?}")}),
    }
}
