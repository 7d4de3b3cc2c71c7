//! What a client sees: runs that it submitted, and those that the case says exist.

use std::collections::HashMap;

use serde_json::{Value, json};
use wire::{Code, Time};

use crate::case::Case;

pub(crate) struct Runs {
    pub(crate) all: Vec<Run>,
    /// Idempotency keys, with the body that they came with.
    keys: HashMap<String, (String, usize)>,
    /// How many were submitted: those of the case come first in `all`.
    known: usize,
}

pub(crate) struct Run {
    pub(crate) run_id: String,
    pub(crate) state: String,
    pub(crate) attempt: u32,
    pub(crate) output: Option<Value>,
    pub(crate) error: Option<Value>,
    kind: String,
    queue: String,
}

impl Runs {
    pub(crate) fn new(case: &Case) -> Runs {
        let all = case.runs.iter().map(|known| Run {
            run_id: known.run_id.clone(),
            state: known.state.clone(),
            attempt: known.attempt,
            output: known.output.clone(),
            error: known.error.clone(),
            kind: "echo".to_owned(),
            queue: super::QUEUE.to_owned(),
        });
        let all: Vec<Run> = all.collect();
        Runs { known: all.len(), all, keys: HashMap::new() }
    }

    /// The id of the n-th submitted run, from 1.
    pub(crate) fn submitted(&self, n: usize) -> Option<&str> {
        self.all.get(self.known + n.checked_sub(1)?).map(|run| run.run_id.as_str())
    }

    pub(crate) fn submitted_mut(&mut self, n: usize) -> Option<&mut Run> {
        self.all.get_mut(self.known + n.checked_sub(1)?)
    }

    /// Accepts a run, or finds the one that its key has made.
    pub(crate) fn submit(
        &mut self,
        run: &Value,
        key: Option<&str>,
        ids: (String, String),
        now: Time,
    ) -> Value {
        let body = run.to_string();
        if let Some((known, place)) = key.and_then(|key| self.keys.get(key)) {
            if *known != body {
                let code = Code::IdempotencyKeyReused;
                return json!({"status": code.status(), "error": code.as_str(), "message": code.title()});
            }
            let mut answer = accepted(&self.all[*place], now);
            answer["replayed"] = json!(true);
            return answer;
        }
        let text = |name: &str| run[name].as_str().unwrap_or_default().to_owned();
        self.all.push(Run {
            run_id: ids.0,
            state: "queued".to_owned(),
            attempt: 0,
            output: None,
            error: None,
            kind: text("kind"),
            queue: text("queue"),
        });
        let place = self.all.len() - 1;
        if let Some(key) = key {
            self.keys.insert(key.to_owned(), (body, place));
        }
        accepted(&self.all[place], now)
    }

    pub(crate) fn find(&self, run_id: &str) -> Option<&Run> {
        self.all.iter().find(|run| run.run_id == run_id)
    }

    /// A page of runs, newest first.
    pub(crate) fn page(&self, limit: usize, cursor: usize, now: Time) -> Value {
        let rest: Vec<&Run> = self.all.iter().rev().skip(cursor).collect();
        let runs: Vec<Value> = rest.iter().take(limit).map(|run| run.view(now)).collect();
        let mut page = json!({"runs": runs});
        if rest.len() > limit {
            page["nextCursor"] = json!((cursor + limit).to_string());
        }
        page
    }
}

fn accepted(run: &Run, now: Time) -> Value {
    let task_id = run.run_id.replacen("run_", "task_", 1);
    json!({"status": 201, "runId": run.run_id, "taskId": task_id, "state": run.state, "createdAt": now})
}

impl Run {
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state.as_str(), "succeeded" | "failed" | "cancelled" | "halted" | "skipped")
    }

    pub(crate) fn view(&self, now: Time) -> Value {
        let mut view = json!({
            "runId": self.run_id, "taskId": self.run_id.replacen("run_", "task_", 1), "tenantId": "conform",
            "workspaceId": "conform", "kind": self.kind, "queue": self.queue, "state": self.state,
            "attempt": self.attempt, "failures": 0, "lost": 0, "maxAttempts": 3, "priority": 0,
            "labels": {}, "createdAt": now, "serverTime": now,
        });
        if let Some(output) = &self.output {
            view["output"] = output.clone();
        }
        if let Some(error) = &self.error {
            view["error"] = error.clone();
        }
        if self.is_over() {
            view["completedAt"] = json!(now);
        }
        view
    }
}
