//! A fake coordinator on a separate thread. It records every call and answers each as scripted, or
//! with a default success answer if nothing is scripted.

use std::collections::{BTreeMap, VecDeque};
use std::future::pending;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tenure::{Client, Retries};
use tokio::sync::Notify;

use crate::log::Log;

pub(crate) const SERVER_TIME: &str = "2026-03-01T12:00:00.000Z";
pub(crate) const API_KEY: &str = "key-of-the-worker";

/// A call as it was received.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) bearer: String,
    pub(crate) idempotency_key: Option<String>,
    pub(crate) bytes: Bytes,
}

impl Call {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or(Value::Null)
    }

    /// The items of a batch.
    pub(crate) fn items(&self) -> Vec<Value> {
        let json = self.json();
        let members = ["reports", "heartbeats", "starts", "runs", "checkpoints"];
        let items = members.iter().find_map(|member| json.get(*member));
        items.and_then(Value::as_array).cloned().unwrap_or_default()
    }
}

/// How a call is answered instead of with the default answer.
#[derive(Clone)]
pub(crate) enum Reply {
    Json(u16, Value),
    /// Every item of the batch gets the default answer, with these members replaced.
    Each(Value),
    /// The connection breaks while the answer is sent.
    Broken,
    /// No answer at all.
    Silence,
    /// The default answer, once the gate is opened.
    Gate(Arc<Notify>),
}

pub(crate) fn problem(status: u16, error: &str) -> Reply {
    Reply::Json(status, problem_json(status, error))
}

pub(crate) fn problem_json(status: u16, error: &str) -> Value {
    let mut problem = json!({
        "type": "about:blank", "title": error, "status": status, "detail": error,
        "error": error, "message": format!("because of {error}"), "serverTime": SERVER_TIME,
    });
    if let Some(verdict) = verdict_of(error) {
        problem["verdict"] = json!(verdict);
    }
    problem
}

/// The answer to one item of a batch where a single call would have had this status.
pub(crate) fn item_refusal(status: u16, error: &str) -> Value {
    json!({ "status": status, "verdict": verdict_of(error), "error": error, "message": "no" })
}

fn verdict_of(error: &str) -> Option<&'static str> {
    error.parse::<tenure::wire::Code>().ok()?.verdict().map(|verdict| verdict.as_str())
}

#[derive(Default)]
struct Script {
    /// Replies by the last segment of the path, each used once.
    once: BTreeMap<&'static str, VecDeque<Reply>>,
    /// Replies after the scripted ones are used up.
    always: BTreeMap<&'static str, Reply>,
    /// Tasks to grant to polls, in order.
    ready: VecDeque<Value>,
    /// Whether releases are refused, as a coordinator does that is older than they are.
    refuses_releases: bool,
    /// Whether items with lines are refused unread, as a coordinator does that is older than logs.
    refuses_logs: bool,
    /// Tasks with a cancel signal, for the next poll.
    signals: Vec<&'static str>,
}

pub(crate) struct Coordinator {
    pub(crate) calls: Log<Call>,
    script: Mutex<Script>,
    /// Notified when a task becomes ready.
    arrived: Notify,
    address: Mutex<Option<SocketAddr>>,
}

impl Coordinator {
    pub(crate) async fn start() -> Arc<Coordinator> {
        let coordinator = Arc::new(Coordinator {
            calls: Log::new(),
            script: Mutex::default(),
            arrived: Notify::new(),
            address: Mutex::default(),
        });
        let (bound, address) = tokio::sync::oneshot::channel();
        let served = Arc::clone(&coordinator);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                bound.send(listener.local_addr().unwrap()).unwrap();
                let router = Router::new().fallback(receive).with_state(served);
                axum::serve(listener, router).await.unwrap();
            });
        });
        *coordinator.address.lock().unwrap() = Some(address.await.unwrap());
        coordinator
    }

    /// A client with few and quick retries.
    pub(crate) fn client(&self) -> Client {
        Client::new(&self.url(), API_KEY).unwrap().with_retries(quick(4))
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address.lock().unwrap().unwrap())
    }

    /// Scripts the answer to the next call to a path with this ending, after those already
    /// scripted.
    pub(crate) fn once(&self, path: &'static str, reply: Reply) {
        self.script.lock().unwrap().once.entry(path).or_default().push_back(reply);
    }

    /// Scripts the answer to every call to a path with this ending.
    pub(crate) fn always(&self, path: &'static str, reply: Reply) {
        self.script.lock().unwrap().always.insert(path, reply);
    }

    /// Makes tasks ready, to be granted together to a poll that has enough slots.
    pub(crate) fn offer(&self, envelopes: impl IntoIterator<Item = Value>) {
        self.script.lock().unwrap().ready.extend(envelopes);
        self.arrived.notify_waiters();
    }

    pub(crate) fn refuse_releases(&self) {
        self.script.lock().unwrap().refuses_releases = true;
    }

    pub(crate) fn refuse_logs(&self) {
        self.script.lock().unwrap().refuses_logs = true;
    }

    /// Answers the waiting poll with the signal that this task has news.
    pub(crate) fn signal(&self, task: &'static str) {
        self.script.lock().unwrap().signals.push(task);
        self.arrived.notify_waiters();
    }

    pub(crate) fn to(&self, path: &str) -> Vec<Call> {
        self.calls.all().into_iter().filter(|call| call.path.ends_with(path)).collect()
    }

    /// Waits until there are `count` calls to a path, and returns them.
    pub(crate) async fn until(&self, path: &str, count: usize) -> Vec<Call> {
        let is_to = |call: &&Call| call.path.ends_with(path);
        self.calls
            .until(&format!("{count} calls to {path}"), |calls| {
                calls.iter().filter(is_to).count() >= count
            })
            .await;
        self.to(path)
    }

    /// Every start of a task, those in batches included.
    pub(crate) fn starts(&self, task: &str) -> usize {
        let single = self.to(&format!("{task}/started")).len();
        let batches = self.to("/starts");
        let items = batches.iter().flat_map(Call::items);
        single + items.filter(|item| item["taskId"] == task).count()
    }

    /// Waits until this many starts arrived.
    pub(crate) async fn until_started(&self, count: usize) {
        let starts = |call: &Call| match call.path.rsplit('/').next() {
            Some("starts") => call.items().len(),
            Some("started") => 1,
            _ => 0,
        };
        let has_come = |calls: &[Call]| calls.iter().map(starts).sum::<usize>() >= count;
        self.calls.until(&format!("{count} starts"), has_come).await;
    }

    /// Every report, those in batches included.
    pub(crate) fn reports(&self) -> Vec<Value> {
        self.to("/reports").iter().flat_map(Call::items).collect()
    }

    fn reply_to(&self, path: &str) -> Option<Reply> {
        let mut script = self.script.lock().unwrap();
        let once = script.once.iter_mut().find(|(end, _)| path.ends_with(**end));
        let once = once.and_then(|(_, replies)| replies.pop_front());
        once.or_else(|| {
            script.always.iter().find(|(end, _)| path.ends_with(**end)).map(|(_, r)| r.clone())
        })
    }

    async fn default_reply(&self, call: &Call, over: &Value) -> Response {
        match call.path.rsplit('/').next() {
            Some("leases") => reply(200, self.grant(call).await),
            Some("started") => reply(200, acknowledged(json!({}))),
            Some("starts") => reply(200, each(call, &begun(), over)),
            Some("heartbeats") => {
                let mut answers = each(call, &renewed(), over);
                self.refuse_lines(call, &mut answers);
                reply(200, answers)
            }
            Some("checkpoints") => reply(200, each_recorded(call, over)),
            Some("reports") => {
                let refuses = self.script.lock().unwrap().refuses_releases;
                let mut answers = each(call, &committed(), over);
                for (item, answer) in
                    call.items().iter().zip(answers["answers"].as_array_mut().unwrap())
                {
                    if refuses && item["outcome"] == "RELEASED" {
                        let refusal = item_refusal(400, "invalid_argument");
                        *answer = merged(json!({ "taskId": item["taskId"] }), &refusal);
                    }
                }
                self.refuse_lines(call, &mut answers);
                reply(200, answers)
            }
            _ => reply(404, problem_json(404, "not_found")),
        }
    }

    fn refuse_lines(&self, call: &Call, answers: &mut Value) {
        if !self.script.lock().unwrap().refuses_logs {
            return;
        }
        let answers = answers["answers"].as_array_mut().unwrap();
        for (n, (item, answer)) in call.items().iter().zip(answers).enumerate() {
            if item.get("log").is_some() {
                let unread = json!({ "taskId": "", "field": format!("items[{n}].log") });
                *answer = merged(item_refusal(400, "invalid_argument"), &unread);
            }
        }
    }

    /// Waits for work as a long poll does.
    async fn grant(&self, call: &Call) -> Value {
        let room = usize::try_from(call.json()["max"].as_u64().unwrap()).unwrap();
        loop {
            let mut arrived = std::pin::pin!(self.arrived.notified());
            arrived.as_mut().enable();
            let (granted, signals) = {
                let mut script = self.script.lock().unwrap();
                let count = room.min(script.ready.len());
                let granted: Vec<Value> = script.ready.drain(..count).collect();
                (granted, std::mem::take(&mut script.signals))
            };
            if !granted.is_empty() || !signals.is_empty() {
                let signals: Vec<Value> =
                    signals.iter().map(|task| json!({ "taskId": task })).collect();
                return json!({ "leases": granted, "signals": signals, "serverTime": SERVER_TIME });
            }
            if call.json()["waitMs"] == 0 {
                return json!({ "leases": [], "signals": [], "serverTime": SERVER_TIME });
            }
            arrived.await;
        }
    }
}

pub(crate) fn quick(times: usize) -> Retries {
    let pause = std::time::Duration::from_millis(5);
    Retries::new(times).backoff(pause, pause)
}

async fn receive(State(coordinator): State<Arc<Coordinator>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let header = |name: &str| {
        head.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
    };
    let bytes = axum::body::to_bytes(body, 8 << 20).await.unwrap();
    let call = Call {
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        bearer: header("authorization").unwrap_or_default(),
        idempotency_key: header("idempotency-key"),
        bytes,
    };
    assert!(head.method == Method::GET || header("content-type").is_some());
    coordinator.calls.push(call.clone());
    match coordinator.reply_to(&call.path) {
        None => coordinator.default_reply(&call, &json!({})).await,
        Some(Reply::Json(status, json)) => reply(status, json),
        Some(Reply::Each(over)) => coordinator.default_reply(&call, &over).await,
        Some(Reply::Broken) => broken(),
        Some(Reply::Silence) => pending().await,
        Some(Reply::Gate(gate)) => {
            gate.notified().await;
            coordinator.default_reply(&call, &json!({})).await
        }
    }
}

fn reply(status: u16, json: Value) -> Response {
    let status = StatusCode::from_u16(status).unwrap();
    (status, [("content-type", "application/json")], json.to_string()).into_response()
}

fn broken() -> Response {
    let parts = [Ok(Bytes::from_static(b"{")), Err(std::io::Error::other("gone"))];
    Response::new(Body::from_stream(futures_util::stream::iter(parts)))
}

fn acknowledged(members: Value) -> Value {
    let base = json!({ "acknowledged": true, "verdict": "COMMITTED", "serverTime": SERVER_TIME });
    merged(base, &members)
}

fn begun() -> Value {
    json!({ "status": 200, "verdict": "COMMITTED" })
}

fn renewed() -> Value {
    json!({ "status": 200, "verdict": "COMMITTED", "shouldCancel": false })
}

fn committed() -> Value {
    json!({ "status": 200, "verdict": "COMMITTED", "replayed": false, "state": "succeeded" })
}

/// A call that waits suspends its run; a call that stops parks it; any other goes on.
fn each_recorded(call: &Call, over: &Value) -> Value {
    let mut answers = each(call, &json!({ "status": 200, "verdict": "COMMITTED" }), &json!({}));
    for (item, answer) in call.items().iter().zip(answers["answers"].as_array_mut().unwrap()) {
        let ends = item.get("wait").is_some() || item.get("diverged").is_some();
        let mut recorded = json!({
            "state": if ends { "waiting" } else { "running" }, "replayed": false,
            "recordedAt": SERVER_TIME, "shouldCancel": false,
        });
        if !ends {
            recorded["leaseExpiresAt"] = json!("2026-03-01T12:10:00.000Z");
        }
        *answer = merged(merged(answer.clone(), &recorded), over);
    }
    answers
}

fn each(call: &Call, answer: &Value, over: &Value) -> Value {
    let answers: Vec<Value> = call
        .items()
        .iter()
        .map(|item| {
            let answer = merged(answer.clone(), &json!({ "taskId": item["taskId"] }));
            merged(answer, over)
        })
        .collect();
    json!({ "answers": answers, "serverTime": SERVER_TIME, "memberOfTheFuture": [1] })
}

fn merged(mut base: Value, over: &Value) -> Value {
    for (name, value) in over.as_object().unwrap() {
        base[name] = value.clone();
    }
    base
}

/// An attempt of kind `work`, with frequent heartbeats and a lease that does not expire within a
/// test.
pub(crate) fn envelope(n: u32) -> Value {
    json!({
        "taskId": format!("task_{n}"), "runId": format!("run_{n}"), "tenantId": "default",
        "workspaceId": "default", "taskKey": "work", "kind": "work", "queue": "q", "attempt": 2,
        "leaseId": format!("lease_{n}"), "fence": 4_294_967_296_u64 + u64::from(n), "input": n,
        "enqueuedAt": SERVER_TIME, "leaseExpiresAt": "2026-03-01T12:10:00.000Z",
        "callbackBaseUrl": "http://localhost", "taskToken": format!("token_{n}"),
        "tokenExpiresAt": "2026-03-01T13:00:00.000Z", "heartbeatIntervalMs": 20,
        "heartbeatTimeoutMs": 600_000, "cancelGracePeriodMs": 30_000, "memberOfTheFuture": {},
    })
}

pub(crate) fn envelope_with(n: u32, members: Value) -> Value {
    merged(envelope(n), &members)
}
