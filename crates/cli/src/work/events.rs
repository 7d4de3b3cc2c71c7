//! A worker's events for its operator: sentences on stderr, or one JSON line per event on stdout.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anstyle::Style;
use tenure::WorkerEvent;
use wire::Outcome;

use crate::output::{self, BAD, FAINT, Format, GOOD, WARN};

/// Prints the outcome of each attempt.
pub(crate) fn observer(
    format: Format,
    cut: Arc<AtomicBool>,
) -> impl Fn(&WorkerEvent) + Send + Sync + 'static {
    move |event| {
        // What was handed back is not lost: another worker has it.
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
        WorkerEvent::Committed { task_id, attempt, outcome, error } => {
            let why = match (outcome, error) {
                (Outcome::Released, _) => ": handed back for another worker".to_owned(),
                (_, Some(error)) => format!(": {}", error.lines().next().unwrap_or_default()),
                (_, None) => String::new(),
            };
            let style = style_of(*outcome);
            format!(
                "{} attempt {attempt}: {style}{outcome}{style:#} {FAINT}COMMITTED{FAINT:#}{why}",
                run_of(task_id)
            )
        }
        WorkerEvent::Cancelled { task_id, attempt, why } => {
            format!(
                "{} attempt {attempt}: {WARN}authority lost{WARN:#}, result discarded: {why}",
                run_of(task_id)
            )
        }
        WorkerEvent::Rejected { task_id, code, message } => {
            let run = task_id.as_deref().map(|task_id| format!("{}: ", run_of(task_id)));
            format!("{}{BAD}rejected{BAD:#}: {message} [{code}]", run.unwrap_or_default())
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
        WorkerEvent::Suspended { task_id, attempt } => {
            format!("{} attempt {attempt}: {FAINT}waits{FAINT:#}", run_of(task_id))
        }
        WorkerEvent::Diverged { task_id, attempt, why } => {
            format!(
                "{} attempt {attempt}: {BAD}differs from what is recorded{BAD:#}, the run is parked: {why}",
                run_of(task_id)
            )
        }
        WorkerEvent::Unreachable { why } => {
            format!("{WARN}cannot fetch work, retrying{WARN:#}: {why}")
        }
        other => format!("{other:?}"),
    }
}

fn style_of(outcome: Outcome) -> Style {
    match outcome {
        Outcome::Succeeded => GOOD,
        Outcome::Released => WARN,
        Outcome::Failed | Outcome::Cancelled => BAD,
    }
}

fn members(event: &WorkerEvent) -> serde_json::Value {
    use serde_json::json;
    match event {
        WorkerEvent::Committed { task_id, attempt, outcome, error } => {
            json!({"event": "committed", "verdict": "COMMITTED", "runId": run_of(task_id), "taskId": task_id,
                   "attempt": attempt, "outcome": outcome, "message": error})
        }
        WorkerEvent::Cancelled { task_id, attempt, why } => {
            json!({"event": "cancelled", "verdict": "CANCELLED", "runId": run_of(task_id), "taskId": task_id,
                   "attempt": attempt, "message": why})
        }
        WorkerEvent::Rejected { task_id, code, message } => {
            let run_id = task_id.as_deref().map(run_of);
            json!({"event": "rejected", "verdict": "REJECTED", "runId": run_id, "taskId": task_id,
                   "error": code, "message": message})
        }
        WorkerEvent::Unanswered { task_id, attempt, why } => {
            json!({"event": "unanswered", "runId": run_of(task_id), "taskId": task_id, "attempt": attempt,
                   "message": why})
        }
        WorkerEvent::Abandoned { task_id, attempt } => {
            json!({"event": "abandoned", "runId": run_of(task_id), "taskId": task_id, "attempt": attempt})
        }
        WorkerEvent::Suspended { task_id, attempt } => {
            json!({"event": "suspended", "runId": run_of(task_id), "taskId": task_id, "attempt": attempt})
        }
        WorkerEvent::Diverged { task_id, attempt, why } => {
            json!({"event": "diverged", "runId": run_of(task_id), "taskId": task_id, "attempt": attempt,
                   "message": why})
        }
        WorkerEvent::Unreachable { why } => json!({"event": "unreachable", "message": why}),
        other => json!({"event": "other", "message": format!("{other:?}")}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn committed(outcome: Outcome, error: Option<&str>) -> WorkerEvent {
        let (task_id, error) = ("task_01A".to_owned(), error.map(str::to_owned));
        WorkerEvent::Committed { task_id, attempt: 2, outcome, error }
    }

    fn plain(event: &WorkerEvent) -> String {
        anstream::adapter::strip_str(&message(event)).to_string()
    }

    #[test]
    fn a_failure_says_why_and_of_which_run() {
        let failed =
            committed(Outcome::Failed, Some("no such table (the program exited with 1)\nmore"));
        let expected =
            "run_01A attempt 2: FAILED COMMITTED: no such table (the program exited with 1)";
        assert_eq!(plain(&failed), expected);
        assert_eq!(
            plain(&committed(Outcome::Succeeded, None)),
            "run_01A attempt 2: SUCCEEDED COMMITTED"
        );
    }

    #[test]
    fn every_event_about_a_task_names_its_run() {
        let (task_id, attempt) = ("task_01A".to_owned(), 1);
        let (code, why) = ("internal".to_owned(), "because".to_owned());
        for event in [
            committed(Outcome::Released, None),
            WorkerEvent::Cancelled { task_id: task_id.clone(), attempt, why: why.clone() },
            WorkerEvent::Rejected { task_id: Some(task_id.clone()), code, message: why.clone() },
            WorkerEvent::Unanswered { task_id: task_id.clone(), attempt, why },
            WorkerEvent::Abandoned { task_id, attempt },
        ] {
            assert!(plain(&event).starts_with("run_01A"), "{event:?}");
            assert_eq!(members(&event)["runId"], "run_01A", "{event:?}");
        }
    }
}
