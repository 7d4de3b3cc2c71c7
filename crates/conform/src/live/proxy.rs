//! The recording proxy: passes every call on, and writes down what was asked and answered.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use bytes::Bytes;
use historyck::Recorder;
use historyck::event::{Answer, EventKind, Invoke, Return};
use serde_json::Value;

use super::history;
use crate::http::{self, Reply, Request, Response, Server};

pub(super) struct Proxy {
    pub(super) url: String,
    authority: String,
    recorder: Recorder,
    marks: Mutex<Vec<Mark>>,
    server: Mutex<Option<Server>>,
}

/// A word of the subjects' code.
struct Mark {
    task: String,
    name: String,
    attempt: u64,
    /// When the code said it, by the clock of this machine: its process may be frozen before the call leaves. A mark that does
    /// not say when was said when it arrived.
    at: u64,
}

impl Proxy {
    pub(super) async fn start(authority: String) -> io::Result<Arc<Proxy>> {
        let listener = http::listen().await?;
        let proxy = Arc::new(Proxy {
            url: format!("http://{}", listener.local_addr()?),
            authority,
            recorder: Recorder::default(),
            marks: Mutex::default(),
            server: Mutex::default(),
        });
        let passing = Arc::downgrade(&proxy);
        let server = http::serve(listener, 1, move |request| {
            let proxy = passing.upgrade();
            async move {
                match proxy {
                    Some(proxy) => proxy.pass(request).await,
                    None => Reply::None,
                }
            }
        });
        *proxy.server.lock().unwrap_or_else(PoisonError::into_inner) = Some(server);
        Ok(proxy)
    }

    pub(super) fn note(&self, who: &str, what: EventKind) {
        self.recorder.record(who, what).expect("a history is kept in memory");
    }

    async fn pass(self: &Arc<Self>, request: Request) -> Reply {
        if request.path == "/conform/mark" {
            self.mark(&request.body);
            let headers = Vec::new();
            return Reply::Whole(Response {
                status: 200,
                headers,
                body: Bytes::from_static(b"{}"),
            });
        }
        // A call goes on when the subject that made it is killed: the server has it, so the history must.
        let proxy = Arc::clone(self);
        match tokio::spawn(async move { proxy.call(request).await }).await {
            Ok(Ok(response)) => Reply::Whole(response),
            _ => Reply::None,
        }
    }

    /// Makes a call and records it: each item of a batch is a call of its own.
    pub(super) async fn call(&self, request: Request) -> io::Result<Response> {
        let asked = history::asked(&request);
        let who = asked
            .first()
            .and_then(|invoke| invoke.worker.clone())
            .unwrap_or_else(|| "client".to_owned());
        let calls: Vec<u64> = asked.iter().map(|_| self.recorder.next_call()).collect();
        for (call, invoke) in calls.iter().zip(&asked) {
            self.note(&who, EventKind::Invoke(Invoke { call: *call, ..invoke.clone() }));
        }
        let answer = http::call(&self.authority, request.clone()).await;
        let told = match &answer {
            Ok(response) => history::answered(&request, &asked, response),
            Err(_) => vec![Return::of(Answer::Info); asked.len()],
        };
        for (call, told) in calls.into_iter().zip(told) {
            self.note(&who, EventKind::Return(Return { call, ..told }));
        }
        if let Ok(response) = &answer {
            for shown in history::shown(&request, response) {
                self.note(&who, EventKind::Replay(shown));
            }
        }
        answer
    }

    fn mark(&self, body: &[u8]) {
        let said: Value = serde_json::from_slice(body).unwrap_or_default();
        let text = |name: &str| said[name].as_str().unwrap_or_default().to_owned();
        let attempt = said["attempt"].as_u64().unwrap_or(0);
        let at = said["at"].as_u64().unwrap_or_else(since_1970);
        let mark = Mark { task: text("task"), name: text("mark"), attempt, at };
        self.marks.lock().unwrap_or_else(PoisonError::into_inner).push(mark);
    }

    /// What the history and the marks show.
    pub(super) fn judge(&self) -> Vec<String> {
        let events = self.recorder.events();
        let mut findings = self.judge_marks();
        match historyck::check(&events) {
            Ok(found) => findings.extend(found.iter().map(|it| historyck::describe(it, &events))),
            Err(malformed) => findings.push(format!("the history of the proxy: {malformed}")),
        }
        findings
    }

    /// Code of an attempt begins nothing after the next attempt began. Cleaning up is no beginning.
    fn judge_marks(&self) -> Vec<String> {
        let marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let mut marks: Vec<&Mark> = marks.iter().collect();
        marks.sort_by_key(|mark| mark.at);
        let mut newest: BTreeMap<&str, u64> = BTreeMap::new();
        let mut findings = Vec::new();
        for mark in marks.iter().filter(|mark| mark.name != "stopped" && mark.name != "done") {
            let known = newest.entry(mark.task.as_str()).or_default();
            if mark.attempt < *known {
                let Mark { task, name, attempt, at: _ } = mark;
                findings.push(format!(
                    "mark `{name}` of attempt {attempt} of {task} after attempt {known} began"
                ));
            }
            *known = (*known).max(mark.attempt);
        }
        findings
    }

    pub(super) fn summary(&self) -> String {
        let marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner).len();
        format!("{} events in the history, {marks} marks", self.recorder.events().len())
    }

    /// The history as JSON lines, as `historyck` reads them.
    pub(super) fn history(&self) -> String {
        self.recorder.events().iter().map(|event| historyck::text::write(event) + "\n").collect()
    }
}

/// In milliseconds, by the clock that the subjects read.
#[expect(
    clippy::disallowed_methods,
    reason = "what real processes said is ordered by the real clock"
)]
fn since_1970() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
