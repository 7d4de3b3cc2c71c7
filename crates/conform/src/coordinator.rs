//! The HTTP interface of the model: splits calls into items, applies the rules of the case, asks the model.
//!
//! Every item is written to the log when its call has arrived, before anything is decided. A rule that drops an answer
//! drops the answer to the whole call, since there is one wire; a status is of the item alone, as the real coordinator
//! answers a batch.

mod clients;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};
use wire::answers::{Leases, Problem, Signal};
use wire::limits::WAIT_MS;
use wire::requests::{CheckpointItem, HeartbeatItem, LeaseRequest, Report, StartItem};
use wire::{BatchItem, Code, FieldError, parse};

use crate::case::{Answer, Case, Drop};
use crate::http::{Reply, Request, Response};
use crate::log::{Entry, Sort};
use crate::model::Model;
use crate::rules::Rules;

/// How often the model looks whether a lease or a wait is over.
const TICK: Duration = Duration::from_millis(10);

pub(crate) struct Coordinator {
    model: Mutex<Model>,
    rules: Mutex<Rules>,
    changed: watch::Sender<u64>,
    pub(crate) api_key: String,
}

/// A part of a call, read.
enum Part {
    Start(StartItem),
    Heartbeat(HeartbeatItem),
    Checkpoint(Box<CheckpointItem>),
    Report(Box<Report>),
}

/// What a call came to.
struct Decided {
    status: u16,
    body: Value,
    answer: Option<Answer>,
}

impl Coordinator {
    pub(crate) fn new(case: Arc<Case>, url: String, api_key: String) -> Arc<Coordinator> {
        Arc::new(Coordinator {
            rules: Mutex::new(Rules::new(&case.rules)),
            model: Mutex::new(Model::new(case, url)),
            changed: watch::Sender::new(0),
            api_key,
        })
    }

    /// A panic in a judgement is the kit's own defect; it must not hide behind a poisoned lock.
    pub(crate) fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn tell(&self) {
        self.changed.send_modify(|n| *n += 1);
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Ends leases and waits in time.
    pub(crate) async fn keep_time(&self) {
        loop {
            sleep(TICK).await;
            if self.model().tick() {
                self.tell();
            }
        }
    }

    pub(crate) async fn answer(&self, request: Request) -> Reply {
        if self.model().is_down {
            return Reply::None;
        }
        let segments: Vec<&str> = request.path.split('/').filter(|it| !it.is_empty()).collect();
        let reply = match (request.method.as_str(), segments.as_slice()) {
            ("POST", ["conform", "mark"]) => {
                let said = serde_json::from_slice(&request.body).unwrap_or(Value::Null);
                self.model().mark(&said);
                self.tell();
                return whole(200, &json!({}));
            }
            ("GET", ["version"]) => {
                return whole(200, &json!({"version": env!("CARGO_PKG_VERSION"), "api": "v1"}));
            }
            ("POST", ["v1", "leases"]) => self.poll(&request).await,
            ("POST", ["v1", "starts"]) => self.batch::<StartItem>(&request, "start", Part::Start),
            ("POST", ["v1", "heartbeats"]) => {
                self.batch::<HeartbeatItem>(&request, "heartbeat", Part::Heartbeat)
            }
            ("POST", ["v1", "checkpoints"]) => {
                self.batch::<CheckpointItem>(&request, "checkpoint", |it| {
                    Part::Checkpoint(Box::new(it))
                })
            }
            ("POST", ["v1", "reports"]) => {
                self.batch::<Report>(&request, "report", |it| Part::Report(Box::new(it)))
            }
            ("POST", ["v1", "tasks", task, "started"]) => {
                self.single::<StartItem>(&request, task, "start", Part::Start)
            }
            ("POST", ["v1", "tasks", task, "heartbeat"]) => {
                self.single::<HeartbeatItem>(&request, task, "heartbeat", Part::Heartbeat)
            }
            ("POST", ["v1", "tasks", task, "checkpoints"]) => {
                self.single::<CheckpointItem>(&request, task, "checkpoint", |it| {
                    Part::Checkpoint(Box::new(it))
                })
            }
            ("POST", ["v1", "tasks", task, "completed"]) => {
                self.single::<Report>(&request, task, "report", |it| Part::Report(Box::new(it)))
            }
            ("GET", ["v1", "tasks", task, "checkpoints"]) => self.pages(&request, task),
            ("POST", ["v1", "runs"]) => self.submit(&request),
            ("GET", ["v1", "runs"]) => self.list(&request),
            ("GET", ["v1", "runs", run]) => self.read(&request, run).await,
            ("POST", ["v1", "runs", run, verb]) => self.act(&request, run, verb),
            _ => self.elsewhere(&request),
        };
        self.finish(reply).await
    }

    /// Sends what was decided, or breaks it off.
    async fn finish(&self, decided: Decided) -> Reply {
        self.tell();
        let Decided { status, body, answer } = decided;
        let answer = answer.unwrap_or_default();
        if let Some(ms) = answer.delay_ms {
            sleep(Duration::from_millis(ms)).await;
        }
        let mut headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        if let Some(ms) = answer.retry_after_ms.filter(|_| answer.status.is_some()) {
            headers.push(("retry-after".to_owned(), ms.div_ceil(1000).to_string()));
        }
        let text = answer.text.clone();
        if text.is_some() {
            headers[0].1 = "text/html".to_owned();
        }
        let body = Bytes::from(text.unwrap_or_else(|| body.to_string()));
        let response = Response { status, headers, body };
        match answer.drop {
            None => Reply::Whole(response),
            Some(Drop::Half) => Reply::Half(response),
            Some(Drop::Before | Drop::After) => Reply::None,
        }
    }

    /// Writes an item to the log and asks the rules about it.
    fn note(
        &self,
        name: &str,
        of: Option<String>,
        attempt: Option<u32>,
        members: Value,
    ) -> Option<Answer> {
        let entry =
            Entry { at_ms: 0.0, sort: Sort::Item, name: name.to_owned(), of, attempt, members };
        let mut model = self.model();
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = rules.answer(&entry, &model.log);
        model.log.add(entry);
        answer
    }

    fn problem(&self, code: Code, message: &str) -> Value {
        let problem = Problem::new(code, message, self.model().now()).for_worker();
        serde_json::to_value(problem).expect("a problem has a JSON form")
    }

    fn refuse(&self, code: Code, message: &str) -> Decided {
        Decided { status: code.status(), body: self.problem(code, message), answer: None }
    }

    /// A body that no coordinator takes. The log keeps it, and no case allows it.
    fn invalid(&self, request: &Request, error: &FieldError) -> Decided {
        let members = json!({"path": request.path, "why": error.to_string()});
        self.note("invalid", None, None, members);
        self.refuse(Code::InvalidArgument, &error.to_string())
    }

    fn elsewhere(&self, request: &Request) -> Decided {
        let members = json!({"method": request.method, "path": request.path});
        self.note("other", None, None, members);
        self.refuse(Code::NotFound, "the model coordinator has no such call")
    }

    /// The answer that a rule gives instead of the model.
    fn instead(&self, answer: &Answer) -> Option<Decided> {
        let status = answer.status?;
        let code = answer.error.as_deref().and_then(|code| code.parse().ok());
        let code = code.unwrap_or(match status {
            401 => Code::Unauthenticated,
            403 => Code::Forbidden,
            409 => Code::TaskAlreadyTerminal,
            410 => Code::TaskExpired,
            422 => Code::IdempotencyKeyReused,
            429 => Code::TooManyRequests,
            503 => Code::Unavailable,
            _ => Code::InvalidArgument,
        });
        let mut body = self.problem(code, "the case answers so");
        body["status"] = json!(status);
        if let Some(field) = &answer.field {
            body["field"] = json!(field);
        }
        if let Some(ms) = answer.retry_after_ms.filter(|_| !answer.only_header) {
            body["retryAfterMs"] = json!(ms);
        }
        Some(Decided { status, body, answer: Some(answer.clone()) })
    }

    async fn poll(&self, request: &Request) -> Decided {
        if request.bearer() != self.api_key {
            return self.refuse(Code::Unauthenticated, "the API key is not the one of this case");
        }
        let poll: LeaseRequest = match parse(&request.body) {
            Ok(poll) => poll,
            Err(error) => return self.invalid(request, &error),
        };
        let mut members = serde_json::to_value(&poll).expect("a poll has a JSON form");
        let (held, concurrency) = {
            let model = self.model();
            (model.held_by(&poll.worker_id), model.case.subject.concurrency)
        };
        members["held"] = json!(held);
        members["over"] = json!((poll.max + held).saturating_sub(concurrency));
        members["address"] = json!(request.address);
        let answer = self.note("poll", None, None, members);
        self.tell();
        let rule = answer.clone().unwrap_or_default();
        if rule.drop == Some(Drop::Before) {
            return Decided { status: 200, body: Value::Null, answer };
        }
        if let Some(decided) = answer.as_ref().and_then(|answer| self.instead(answer)) {
            return decided;
        }
        let max = rule.max.unwrap_or(poll.max);
        let (leases, mut signals) = self.next_work(&poll, max).await;
        if let Some(name) = &rule.signal_for {
            let task = self.model().task_named(name).map(|task| task.task_id.clone());
            signals.extend(task.map(|task_id| Signal { task_id }));
        }
        let answer_body =
            Leases { leases, signals, announce_again: None, server_time: self.model().now() };
        let mut body = serde_json::to_value(answer_body).expect("leases have a JSON form");
        merge(&mut body, &rule);
        Decided { status: 200, body, answer }
    }

    /// Waits for work or a hint, as long as the poll says.
    async fn next_work(
        &self,
        poll: &LeaseRequest,
        max: u32,
    ) -> (Vec<wire::answers::Envelope>, Vec<Signal>) {
        let wait = Duration::from_millis(poll.wait_ms.unwrap_or(0).min(*WAIT_MS.end()));
        let end = Instant::now() + wait;
        let mut changes = self.changes();
        loop {
            changes.mark_unchanged();
            {
                let mut model = self.model();
                let leases = model.grant(poll, max);
                let hints = model.take_hints(&poll.worker_id);
                if !leases.is_empty() || !hints.is_empty() {
                    drop(model);
                    self.tell();
                    return (leases, hints.into_iter().map(|task_id| Signal { task_id }).collect());
                }
            }
            // What is offered later is noticed by the next tick, not by a change.
            let soon = Instant::now() + TICK;
            if soon >= end {
                if timeout_at(end, changes.changed()).await.is_err() {
                    return (Vec::new(), Vec::new());
                }
            } else {
                let _ = timeout_at(soon, changes.changed()).await;
            }
        }
    }

    fn batch<T: BatchItem + serde::Serialize>(
        &self,
        request: &Request,
        name: &str,
        part: impl Fn(T) -> Part,
    ) -> Decided {
        if request.bearer() != self.api_key {
            return self.refuse(Code::Unauthenticated, "the API key is not the one of this case");
        }
        let items = match wire::parse_batch::<T>(&request.body) {
            Ok(items) => items,
            Err(error) => return self.invalid(request, &error),
        };
        let size = items.len();
        let mut parts = Vec::new();
        for item in items {
            match item {
                Ok(item) => parts.push(item),
                Err(error) => return self.invalid(request, &error),
            }
        }
        let notes: Vec<(Option<Answer>, Part)> = parts
            .into_iter()
            .map(|item| (self.note_part(name, &item, request, size), part(item)))
            .collect();
        let call = whole_call(notes.iter().filter_map(|(answer, _)| answer.as_ref()));
        if call.drop == Some(Drop::Before) {
            return Decided { status: 200, body: Value::Null, answer: Some(call) };
        }
        let answers: Vec<Value> =
            notes.into_iter().map(|(answer, part)| self.decide(part, answer.as_ref())).collect();
        let body = json!({"answers": answers, "serverTime": self.model().now()});
        Decided { status: 200, body, answer: Some(call) }
    }

    fn single<T: BatchItem + serde::Serialize>(
        &self,
        request: &Request,
        task: &str,
        name: &str,
        part: impl Fn(T) -> Part,
    ) -> Decided {
        let mut members: Map<String, Value> =
            serde_json::from_slice(&request.body).unwrap_or_default();
        members.insert("taskId".to_owned(), json!(task));
        members.insert("taskToken".to_owned(), json!(request.bearer()));
        let item: T = match parse(Value::Object(members).to_string().as_bytes()) {
            Ok(item) => item,
            Err(error) => return self.invalid(request, &error),
        };
        let answer = self.note_part(name, &item, request, 1);
        let rule = answer.clone().unwrap_or_default();
        if rule.drop == Some(Drop::Before) {
            return Decided { status: 200, body: Value::Null, answer };
        }
        let mut decided = self.decide(part(item), answer.as_ref());
        let status = decided["status"].as_u64().unwrap_or(200) as u16;
        if let Some(code) = decided["error"].as_str().and_then(|code| code.parse::<Code>().ok()) {
            let mut problem = self.problem(code, "the item was refused");
            problem["retryAfterMs"] = decided["retryAfterMs"].take();
            return Decided { status, body: problem, answer };
        }
        decided["acknowledged"] = json!(true);
        decided["serverTime"] = json!(self.model().now());
        Decided { status, body: decided, answer }
    }

    /// Writes a part of a call to the log, without the token itself.
    fn note_part<T: serde::Serialize>(
        &self,
        name: &str,
        item: &T,
        request: &Request,
        size: usize,
    ) -> Option<Answer> {
        let mut members = serde_json::to_value(item).expect("an item has a JSON form");
        let (of, attempt) = {
            let model = self.model();
            let token = members["taskToken"].as_str().and_then(|it| model.token_number(it));
            members["tokenNumber"] = json!(token);
            (
                model.name_of(members["taskId"].as_str().unwrap_or_default()),
                members["attempt"].as_u64(),
            )
        };
        if let Some(members) = members.as_object_mut() {
            members.remove("taskToken");
        }
        members["content"] = json!(members.to_string());
        members["batch"] = json!(size);
        members["bodyBytes"] = json!(request.body.len());
        members["address"] = json!(request.address);
        self.note(name, of, attempt.map(|n| n as u32), members)
    }

    /// What one item is answered: by its rule, or by the model.
    fn decide(&self, part: Part, answer: Option<&Answer>) -> Value {
        let task_id = match &part {
            Part::Start(item) => item.task_id.clone(),
            Part::Heartbeat(item) => item.task_id.clone(),
            Part::Checkpoint(item) => item.task_id.clone(),
            Part::Report(item) => item.task_id.clone(),
        };
        if answer.is_some_and(|answer| answer.revoke) {
            self.model().revoke(&task_id);
        }
        if let Some(instead) = answer.and_then(|answer| self.instead(answer)) {
            let mut body = instead.body;
            body["taskId"] = json!(task_id);
            return body;
        }
        let mut model = self.model();
        let mut decided = match part {
            Part::Start(item) => model.start(&item),
            Part::Heartbeat(item) => model.heartbeat(&item),
            Part::Checkpoint(item) => model.checkpoint(*item),
            Part::Report(item) => model.report(&item),
        };
        let Some(answer) = answer else { return decided };
        if answer.new_token {
            decided["taskToken"] = json!(model.refresh_token(&task_id));
        }
        if let Some(ms) = answer.lease_ms {
            let now = model.now().as_ms();
            decided["leaseExpiresAt"] = json!(wire::Time::from_ms(now + ms));
        }
        merge(&mut decided, answer);
        decided
    }

    fn pages(&self, request: &Request, task: &str) -> Decided {
        let after: u32 = request.parameter("after").and_then(|n| n.parse().ok()).unwrap_or(0);
        let of = self.model().name_of(task);
        let answer =
            self.note("page", of, None, json!({"after": after, "address": request.address}));
        if let Some(decided) = answer.as_ref().and_then(|answer| self.instead(answer)) {
            return decided;
        }
        let model = self.model();
        let Some(place) = model.place_of(task) else {
            drop(model);
            return self.refuse(Code::TaskNotFound, "no task of this case has this id");
        };
        let task = &model.tasks[place];
        let (checkpoints, next_after) = task.record.page(Some(after), task.offer.page);
        let body = serde_json::to_value(wire::answers::Checkpoints { checkpoints, next_after });
        Decided { status: 200, body: body.expect("checkpoints have a JSON form"), answer }
    }
}

/// What a rule about one item does to the call that brought it.
fn whole_call<'a>(answers: impl Iterator<Item = &'a Answer>) -> Answer {
    let mut call = Answer::default();
    for answer in answers {
        call.drop = call.drop.or(answer.drop);
        call.delay_ms = call.delay_ms.max(answer.delay_ms);
        call.text = call.text.take().or_else(|| answer.text.clone());
        if call.status.is_none() {
            call.status = answer.status;
            call.error.clone_from(&answer.error);
            call.field.clone_from(&answer.field);
            call.retry_after_ms = answer.retry_after_ms;
            call.only_header = answer.only_header;
        }
    }
    call
}

fn merge(body: &mut Value, answer: &Answer) {
    for (name, value) in &answer.set {
        body[name] = value.clone();
    }
}

fn whole(status: u16, body: &Value) -> Reply {
    let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    Reply::Whole(Response { status, headers, body: Bytes::from(body.to_string()) })
}
