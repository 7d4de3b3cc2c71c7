//! Faults between the subject and the coordinator: each makes a sound SDK look unsound.
//!
//! A fault sees every request on its way in and every answer on its way out, as a proxy does. It changes, doubles, holds
//! back or makes up calls. It knows nothing of the SDK behind it, so the same faults serve every language; a case that
//! stays green with its fault would not notice an SDK that does the same.

mod bodies;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::sleep;

use self::bodies::{
    acknowledged, call_of, each, forged_request, has_status, is_diverged, is_release, items, list,
    longer, single_steps, whole,
};
use crate::case::Case;
use crate::command::EACH;
use crate::coordinator::Coordinator;
use crate::http::{Reply, Request, Response};

/// How late a late heartbeat is: longer than any interval of the cases.
const LATE: Duration = Duration::from_secs(2);
/// How often a forger looks whether the lease is over.
const FORGED_AFTER: Duration = Duration::from_millis(60);

/// Every fault, with what it does.
const FAULTS: &[(&str, &str)] = &[
    ("new-key-on-retry", "each repetition of a submission has another idempotency key"),
    ("new-poll-id", "each poll has an id that no other has"),
    ("same-poll-id", "all polls have the same id"),
    ("greedy-polls", "polls ask for as many leases as they may"),
    ("no-kinds", "polls ask for every kind, and reports have another outcome"),
    ("no-polls", "polls after the first do not arrive"),
    ("double-report", "each report arrives twice"),
    ("altered-report", "a report that is repeated says something else"),
    ("other-outcome", "reports have another outcome, output and error"),
    ("no-reports", "reports do not arrive"),
    ("late-report", "a report is made up after each lease that ended"),
    ("drop-release", "tasks that are handed back are not"),
    ("no-heartbeats", "heartbeats do not arrive"),
    ("late-heartbeats", "heartbeats arrive two seconds late"),
    ("progress-everywhere", "each heartbeat arrives four times"),
    ("keep-old-token", "every call has the first token of its lease"),
    ("start-always", "a start is made up for each lease"),
    ("no-starts", "starts do not arrive"),
    ("hide-cancel", "the worker is not told that it should stop"),
    ("hide-401", "the worker is not told that its key or token is refused"),
    ("hide-410", "the worker is not told that its lease is over"),
    ("hide-silence", "heartbeats that no coordinator got are answered"),
    ("hide-short-lease", "the worker is told that its leases are longer than they are"),
    ("double-mark", "each mark arrives twice"),
    ("late-mark", "a mark is made up after each lease that ended"),
    ("mark-at-once", "a mark is made up with each grant"),
    ("rename-key", "steps and children have other keys, a new one each time"),
    ("no-checkpoints", "checkpoint calls do not arrive"),
    ("split-calls", "each checkpoint call arrives step by step"),
    ("alter-wait", "timers are a second longer"),
    ("no-effects", "effects are left out"),
    ("no-spend", "what steps spent is left out"),
    ("no-logs", "what code logs is left out"),
    ("renumber-logs", "each line has a number that no other has"),
    ("hide-diverged", "that code and record differ does not arrive"),
    ("answer-for", "submissions are answered without a coordinator"),
    ("double-submit", "each submission arrives twice"),
    ("reorder-items", "the answers of a batch are in another order"),
    ("refusal-as-503", "refusals are answered as if nothing was decided"),
    ("hide-retry-after", "the client is not told when to come back"),
    ("end-early", "runs look as if they had succeeded"),
    ("other-answer", "what is read of runs is something else"),
    ("spoil-calls", "messages for a receiver have a changed byte"),
    ("sign-calls", "messages for a receiver are always signed as they should be"),
    ("new-message-id", "messages for a receiver have an id that no other has"),
    ("spoil-pushes", "pushes are signed with another secret"),
    ("sign-pushes", "pushes are always signed for the URL of the receiver"),
];

pub(crate) fn is_known(name: &str) -> bool {
    FAULTS.iter().any(|(known, _)| *known == name)
}

/// The fault of one case, or none.
pub(crate) struct Fault {
    name: String,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// How often a thing was seen, by its name.
    times: HashMap<String, u64>,
    tokens: HashMap<String, String>,
}

impl Fault {
    pub(crate) fn planted(name: Option<&str>, case: &Case) -> Arc<Fault> {
        let name = match name {
            Some(EACH) => case.fault.clone(),
            Some(name) => name.to_owned(),
            None => String::new(),
        };
        Arc::new(Fault { name, seen: Mutex::default() })
    }

    fn is(&self, name: &str) -> bool {
        self.name == name
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often this was counted, this time included.
    fn count(&self, what: &str) -> u64 {
        let mut seen = self.seen();
        let times = seen.times.entry(what.to_owned()).or_default();
        *times += 1;
        *times
    }

    /// Carries a request to the coordinator and its answer back.
    pub(crate) async fn pass(&self, mut request: Request, coordinator: &Arc<Coordinator>) -> Reply {
        if self.name.is_empty() {
            return coordinator.answer(request).await;
        }
        let call = call_of(&request.method, &request.path);
        if let Some(reply) = self.answer_instead(call, &request).await {
            return reply;
        }
        self.change_request(call, &mut request);
        self.before(call, &request, coordinator).await;
        if call == "checkpoint" && self.is("split-calls") {
            for part in single_steps(&mut request) {
                let _ = coordinator.answer(part).await;
            }
        }
        let reply = coordinator.answer(request.clone()).await;
        self.change_reply(call, &request, reply, coordinator)
    }

    /// What the fault answers itself, so that the coordinator never hears of it.
    async fn answer_instead(&self, call: &str, request: &Request) -> Option<Reply> {
        let swallowed = match call {
            "heartbeat" => self.is("no-heartbeats"),
            "report" => self.is("no-reports") || self.is("drop-release") && is_release(request),
            "start" => self.is("no-starts"),
            "checkpoint" => {
                self.is("no-checkpoints") || self.is("hide-diverged") && is_diverged(request)
            }
            _ => false,
        };
        if swallowed {
            return Some(acknowledged(call, request));
        }
        if call == "poll" && self.is("no-polls") && self.count("poll") > 1 {
            sleep(Duration::from_secs(60)).await;
            return Some(Reply::None);
        }
        if call == "submit" && self.is("answer-for") {
            let now = json!("2026-01-01T00:00:00.000Z");
            let run = json!({"runId": "run_made_up", "taskId": "task_made_up", "state": "queued", "createdAt": now});
            let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
            return Some(match body["runs"].as_array() {
                Some(runs) => whole(200, &json!({"results": vec![run; runs.len()]})),
                None => whole(201, &run),
            });
        }
        None
    }

    fn change_request(&self, call: &str, request: &mut Request) {
        let Ok(mut body) = serde_json::from_slice::<Value>(&request.body) else { return };
        match call {
            "poll" => self.change_poll(&mut body),
            "submit" if self.is("new-key-on-retry") => {
                let n = self.count("submit");
                request.headers.retain(|(name, _)| name != "idempotency-key");
                if body["runs"].is_array() {
                    each(&mut body, |run| run["idempotencyKey"] = json!(format!("key-{n}")));
                } else {
                    request.headers.push(("idempotency-key".to_owned(), format!("key-{n}")));
                }
            }
            "report" => each(&mut body, |report| {
                self.change_report(report);
                self.change_checkpoint(report);
            }),
            "checkpoint" => each(&mut body, |call| self.change_checkpoint(call)),
            _ => {}
        }
        each(&mut body, |item| self.change_log(item));
        if self.is("keep-old-token") {
            each(&mut body, |item| {
                let task = item["taskId"].as_str().unwrap_or_default().to_owned();
                if let Some(token) =
                    self.seen().tokens.get(&task).filter(|_| item["taskToken"].is_string())
                {
                    item["taskToken"] = json!(token);
                }
            });
        }
        request.body = Bytes::from(body.to_string());
    }

    fn change_poll(&self, poll: &mut Value) {
        match self.name.as_str() {
            "new-poll-id" => poll["pollId"] = json!(format!("poll-{}", self.count("poll"))),
            "no-kinds" => {
                poll.as_object_mut().into_iter().for_each(|members| {
                    members.remove("kinds");
                });
            }
            "same-poll-id" => poll["pollId"] = json!("poll"),
            "greedy-polls" => poll["max"] = json!(wire::limits::LEASES_PER_POLL.end()),
            _ => {}
        }
    }

    fn change_report(&self, report: &mut Value) {
        let task = report["taskId"].as_str().unwrap_or_default().to_owned();
        let is_again = self.is("altered-report") && self.count(&task) > 1;
        if is_again {
            report["outcome"] = json!("SUCCEEDED");
            report["output"] = json!("something else");
        }
        if self.is("other-outcome") || self.is("no-kinds") {
            let members = report.as_object_mut().into_iter();
            members.for_each(|members| {
                members.retain(|name, _| {
                    !matches!(name.as_str(), "output" | "error" | "spend" | "cancelledDuringPhase")
                })
            });
            if report["outcome"] == "SUCCEEDED" {
                report["outcome"] = json!("FAILED");
                report["error"] = json!({"category": "TIMEOUT", "message": "something else"});
            } else {
                report["outcome"] = json!("SUCCEEDED");
                report["output"] = json!("something else");
            }
        }
    }

    fn change_checkpoint(&self, call: &mut Value) {
        for step in list(call, "steps") {
            if self.is("rename-key") {
                step["key"] = json!(format!("renamed#{}", self.count("key")));
            }
            if self.is("no-spend") {
                step.as_object_mut().and_then(|members| members.remove("spend"));
            }
        }
        for child in list(call, "children") {
            if self.is("rename-key") {
                child["key"] = json!(format!("child:renamed#{}", self.count("key")));
            }
        }
        if self.is("rename-key") {
            for item in call.get_mut("wait").into_iter().flat_map(|wait| list(wait, "for")) {
                item["key"] = json!(format!("renamed#{}", self.count("key")));
            }
        }
        if self.is("no-effects")
            && let Some(members) = call.as_object_mut()
        {
            members.remove("effects");
        }
        if self.is("alter-wait") {
            for item in call.get_mut("wait").into_iter().flat_map(|wait| list(wait, "for")) {
                let until = item["until"].as_str().and_then(|it| it.parse::<wire::Time>().ok());
                if let Some(until) = until {
                    item["until"] = json!(wire::Time::from_ms(until.as_ms() + 1000));
                }
            }
        }
    }

    fn change_log(&self, item: &mut Value) {
        if self.is("no-logs") {
            item.as_object_mut().and_then(|members| members.remove("log"));
        }
        if self.is("renumber-logs") {
            list(item, "log").for_each(|line| line["n"] = json!(self.count("line")));
        }
    }

    /// What the fault makes up before a call arrives.
    async fn before(&self, call: &str, request: &Request, coordinator: &Arc<Coordinator>) {
        if call == "heartbeat" && self.is("late-heartbeats") {
            sleep(LATE).await;
        }
        let doubles = (call == "mark" && self.is("double-mark"))
            || (call == "report" && self.is("double-report"))
            || (call == "submit" && self.is("double-submit"));
        if doubles {
            let _ = coordinator.answer(request.clone()).await;
        }
        if call == "heartbeat" && self.is("progress-everywhere") {
            for _ in 0..3 {
                let _ = coordinator.answer(request.clone()).await;
            }
        }
    }

    fn forged(&self, grant: &Value, coordinator: &Coordinator) -> Request {
        let (path, body) = match self.is("late-report") {
            true => {
                let report = json!({"taskId": grant["taskId"], "taskToken": grant["taskToken"],
                    "attempt": grant["attempt"], "workerId": "forged", "outcome": "SUCCEEDED", "output": 1});
                ("/v1/reports", json!({"reports": [report]}))
            }
            false => {
                let mark =
                    json!({"task": grant["taskId"], "mark": "began", "attempt": grant["attempt"]});
                ("/conform/mark", mark)
            }
        };
        forged_request(path, &body, coordinator)
    }

    fn change_reply(
        &self,
        call: &str,
        request: &Request,
        reply: Reply,
        coordinator: &Arc<Coordinator>,
    ) -> Reply {
        let response = match reply {
            Reply::Whole(response) => response,
            Reply::None if call == "heartbeat" && self.is("hide-silence") => {
                return acknowledged(call, request);
            }
            other => return other,
        };
        let Ok(mut body) = serde_json::from_slice::<Value>(&response.body) else {
            return Reply::Whole(response);
        };
        let Response { mut status, mut headers, .. } = response;
        if call == "poll" {
            self.note_grants(&body, coordinator);
        }
        match self.name.as_str() {
            "hide-cancel" => {
                body["signals"] = json!([]);
                items(&mut body, |item| item["shouldCancel"] = json!(false));
                if body.get("shouldCancel").is_some() {
                    body["shouldCancel"] = json!(false);
                }
            }
            "hide-401" if status == 401 || has_status(&body, 401) => {
                return acknowledged(call, request);
            }
            "hide-410" if status >= 400 || has_status(&body, 410) => {
                return acknowledged(call, request);
            }
            "hide-short-lease" => longer(&mut body),
            "refusal-as-503" if (400..500).contains(&status) => {
                status = 503;
                body["status"] = json!(503);
                body["error"] = json!("unavailable");
            }
            "hide-retry-after" => {
                headers.retain(|(name, _)| name != "retry-after");
                if let Some(members) = body.as_object_mut() {
                    members.remove("retryAfterMs");
                }
            }
            "reorder-items" => {
                body.get_mut("results")
                    .and_then(Value::as_array_mut)
                    .into_iter()
                    .for_each(|it| it.reverse());
            }
            "end-early" if call == "read" => {
                body["state"] = json!("succeeded");
                body["output"] = json!(0);
            }
            "other-answer" if call == "read" => body["output"] = json!({"id": "7", "items": []}),
            "other-answer" if call == "list" => {
                body.get_mut("runs")
                    .and_then(Value::as_array_mut)
                    .into_iter()
                    .for_each(|it| it.reverse());
            }
            _ => {}
        }
        Reply::Whole(Response { status, headers, body: Bytes::from(body.to_string()) })
    }

    /// Remembers leases, and makes up what the fault makes up with each.
    fn note_grants(&self, body: &Value, coordinator: &Arc<Coordinator>) {
        for lease in body["leases"].as_array().into_iter().flatten() {
            let task = lease["taskId"].as_str().unwrap_or_default().to_owned();
            let token = lease["taskToken"].as_str().unwrap_or_default().to_owned();
            let mut seen = self.seen();
            seen.tokens.insert(task.clone(), token.clone());
            drop(seen);
            let made_up = match self.name.as_str() {
                "start-always" => {
                    let start = json!({"taskId": task, "taskToken": token, "attempt": lease["attempt"], "workerId": "forged"});
                    forged_request("/v1/starts", &json!({"starts": [start]}), coordinator)
                }
                "mark-at-once" => {
                    let mark = json!({"task": task, "mark": "began", "attempt": lease["attempt"]});
                    forged_request("/conform/mark", &mark, coordinator)
                }
                "late-report" | "late-mark" => self.forged(lease, coordinator),
                _ => continue,
            };
            let (coordinator, is_late) = (Arc::clone(coordinator), self.name.starts_with("late-"));
            let attempt = lease["attempt"].as_u64().unwrap_or(0) as u32;
            tokio::spawn(async move {
                while is_late && !coordinator.model().is_over(&task, attempt) {
                    sleep(FORGED_AFTER).await;
                }
                if is_late {
                    sleep(FORGED_AFTER).await;
                }
                coordinator.answer(made_up).await
            });
        }
    }

    /// Changes a line for a client.
    pub(crate) fn change_line(&self, line: &mut Value) {
        if line["sign"].is_null() {
            return;
        }
        match self.name.as_str() {
            "spoil-calls" => line["sign"]["flip"] = json!(true),
            "sign-calls" => {
                line["sign"] =
                    json!({"id": line["sign"]["id"], "secrets": line["secrets"], "ageSeconds": 0})
            }
            "new-message-id" => {
                line["sign"]["id"] = json!(format!("eff_{}", self.count("message") + 1000))
            }
            _ => {}
        }
    }

    /// Another secret or URL for a push.
    pub(crate) fn change_push(&self, wanted: &mut crate::case::Push) {
        match self.name.as_str() {
            "spoil-pushes" => {
                wanted.secret = Some("whsec_c3BvaWxlZCBzZWNyZXQgb2YgdGhlIGtpdC4uLi4=".to_owned())
            }
            "sign-pushes" => (wanted.url, wanted.secret) = (None, None),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_the_fault_of_a_case() {
        let cases = crate::cases::all(None).unwrap();
        for (name, _) in FAULTS {
            assert!(cases.iter().any(|case| case.fault == *name), "no case names {name}");
        }
    }
}
