//! The calls of clients: submissions, reads, lists, and what they ask of a run.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};
use wire::{Code, FieldError};

use super::{Coordinator, Decided, merge, whole_call};
use crate::case::{Answer, Drop};
use crate::http::Request;

/// Pages of the model hold this many runs at most.
const PAGE_RUNS_MAX: usize = 10;

impl Coordinator {
    pub(super) fn submit(&self, request: &Request) -> Decided {
        let (runs, is_batch) = match wire::parse_submit(&request.body) {
            Ok(wire::Submit::One(run)) => (vec![*run], false),
            Ok(wire::Submit::Many(runs)) => {
                let size = runs.len();
                let read: Vec<_> = runs.into_iter().flatten().collect();
                if read.len() < size {
                    let message = "a run of the batch is invalid";
                    return self.invalid(request, &FieldError::new("runs", message));
                }
                (read, true)
            }
            Err(error) => return self.invalid(request, &error),
        };
        let size = runs.len();
        let mut notes = Vec::new();
        for mut run in runs {
            let key = run.idempotency_key.take();
            let key = key.or_else(|| request.header("idempotency-key").map(str::to_owned));
            let run = serde_json::to_value(&run).expect("a run has a JSON form");
            let mut members = run.clone();
            members["idempotencyKey"] = json!(key);
            members["body"] = json!(run.to_string());
            members["batch"] = json!(size);
            members["address"] = json!(request.address);
            members["authorized"] = json!(request.bearer() == self.api_key);
            notes.push((self.note("submit", None, None, members), run, key));
        }
        let call = whole_call(notes.iter().filter_map(|(answer, ..)| answer.as_ref()));
        if call.drop == Some(Drop::Before) {
            return Decided { status: 200, body: Value::Null, answer: Some(call) };
        }
        let results: Vec<Value> = notes
            .iter()
            .map(|(answer, run, key)| self.accept(answer.as_ref(), run, key.as_deref()))
            .collect();
        if let Some(instead) = self.instead(&call).filter(|_| !is_batch || size == 1) {
            return instead;
        }
        if is_batch {
            return Decided { status: 200, body: json!({"results": results}), answer: Some(call) };
        }
        let [mut result]: [Value; 1] = results.try_into().unwrap_or_default();
        let status = result["status"].as_u64().unwrap_or(201) as u16;
        if let Some(code) = result["error"].as_str().and_then(|code| code.parse::<Code>().ok()) {
            return Decided { answer: Some(call), ..self.refuse(code, "the run was refused") };
        }
        if let Some(members) = result.as_object_mut() {
            members.remove("status");
        }
        Decided { status, body: result, answer: Some(call) }
    }

    fn accept(&self, answer: Option<&Answer>, run: &Value, key: Option<&str>) -> Value {
        if let Some(refused) = answer.and_then(|answer| self.instead(answer)) {
            return refused.body;
        }
        let mut model = self.model();
        let (ids, now) = ((model.id("run"), model.id("task")), model.now());
        let mut accepted = model.runs.submit(run, key, ids, now);
        if let Some(answer) = answer {
            merge(&mut accepted, answer);
        }
        accepted
    }

    pub(super) fn list(&self, request: &Request) -> Decided {
        let number = |name: &str| request.parameter(name).and_then(|it| it.parse::<usize>().ok());
        let members = json!({"cursor": number("cursor"), "limit": number("limit"), "query": request.query,
            "address": request.address});
        let answer = self.note("list", None, None, members);
        if let Some(decided) = answer.as_ref().and_then(|answer| self.instead(answer)) {
            return decided;
        }
        let model = self.model();
        // Small pages, so that a short list needs several.
        let limit = number("limit").unwrap_or(usize::MAX).min(PAGE_RUNS_MAX);
        let body = model.runs.page(limit, number("cursor").unwrap_or(0), model.now());
        Decided { status: 200, body, answer }
    }

    pub(super) async fn read(&self, request: &Request, run: &str) -> Decided {
        let wait: u64 = request.parameter("waitMs").and_then(|it| it.parse().ok()).unwrap_or(0);
        let members = json!({"runId": run, "waitMs": wait, "address": request.address});
        let answer = self.note("read", None, None, members);
        self.tell();
        let rule = answer.clone().unwrap_or_default();
        if rule.drop == Some(Drop::Before) {
            return Decided { status: 200, body: Value::Null, answer };
        }
        if let Some(decided) = self.instead(&rule) {
            return decided;
        }
        let end = Instant::now() + Duration::from_millis(wait);
        let mut changes = self.changes();
        loop {
            changes.mark_unchanged();
            let (view, is_over) = {
                let model = self.model();
                let now = model.now();
                match model.runs.find(run) {
                    Some(run) => (run.view(now), run.is_over()),
                    None => {
                        drop(model);
                        return self.refuse(Code::RunNotFound, "no run of this case has this id");
                    }
                }
            };
            if is_over || timeout_at(end, changes.changed()).await.is_err() {
                let mut body = view;
                merge(&mut body, &rule);
                return Decided { status: 200, body, answer };
            }
        }
    }

    /// Cancels, signals, retries and forks of a client.
    pub(super) fn act(&self, request: &Request, run: &str, verb: &str) -> Decided {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or(json!({}));
        let key = request.header("idempotency-key");
        let members =
            json!({"runId": run, "body": body, "idempotencyKey": key, "address": request.address});
        let name = if verb == "signals" { "signal" } else { verb };
        let answer = self.note(name, None, None, members);
        let rule = answer.clone().unwrap_or_default();
        if rule.drop == Some(Drop::Before) {
            return Decided { status: 200, body: Value::Null, answer };
        }
        if let Some(decided) = self.instead(&rule) {
            return decided;
        }
        let mut model = self.model();
        let now = model.now();
        let ids = (model.id("run"), model.id("task"));
        let (status, body) = match name {
            "cancel" => (202, json!({"runId": run, "state": "running", "cancelRequestedAt": now})),
            "signal" => (202, json!({"runId": run, "state": "waiting"})),
            _ => (201, model.runs.submit(&json!({"kind": "echo", "again": run}), key, ids, now)),
        };
        Decided { status, body, answer }
    }
}
