//! One performance of a case: starts the subject, does what the case does, and watches until it is decided.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::case::{Action, Case, Role};
use crate::coordinator::Coordinator;
use crate::fault::Fault;
use crate::http::{self, Server};
use crate::judge::{Judged, judge};
use crate::log::{Entry, Sort, fits};
use crate::model::Runs;
use crate::push;
use crate::signed;
use crate::subject::{Process, Start, Stopped};
use crate::value;

/// How often time alone is looked at: when an action or the end of the case is due.
const BEAT: Duration = Duration::from_millis(5);
const SECRET_BYTES: usize = 12;

/// How a case went.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub case: String,
    /// What was wrong; empty if it passed.
    pub findings: Vec<String>,
    pub took: Duration,
    /// The log, for people, of a case that failed.
    pub log: Vec<String>,
}

impl Outcome {
    #[must_use]
    pub fn passed(&self) -> bool {
        self.findings.is_empty()
    }
}

/// How subjects are started.
#[derive(Clone, Debug)]
pub struct Setup {
    pub command: Vec<String>,
    pub start_timeout: Duration,
    /// The fault that is planted in the wire.
    pub fault: Option<String>,
}

/// Performs a case. An error means that the kit could not, whatever the subject does.
pub async fn perform(case: &Arc<Case>, setup: &Setup) -> io::Result<Outcome> {
    let started = Instant::now();
    let mut stage = Stage::set(case, setup).await?;
    let mut findings = match stage.wait_until_ready(setup.start_timeout).await {
        Ok(()) => stage.play().await?,
        Err(why) => vec![why],
    };
    findings.extend(stage.strike().await);
    let model = stage.coordinator.model();
    let log = match findings.is_empty() {
        true => Vec::new(),
        false => model.log.entries.iter().map(Entry::line).collect(),
    };
    Ok(Outcome { case: case.case.clone(), findings, took: started.elapsed(), log })
}

/// A case under way.
struct Stage {
    case: Arc<Case>,
    coordinator: Arc<Coordinator>,
    fault: Arc<Fault>,
    start: Start,
    processes: Vec<Process>,
    /// How often each action was done.
    done: Vec<usize>,
    due: Vec<(Instant, usize)>,
    /// When a coordinator that is down comes back.
    up_at: Option<Instant>,
    clock: tokio::task::JoinHandle<()>,
    _servers: Vec<Server>,
}

impl Stage {
    async fn set(case: &Arc<Case>, setup: &Setup) -> io::Result<Stage> {
        let mut listeners = Vec::new();
        for _ in 0..case.subject.addresses {
            listeners.push(http::listen().await?);
        }
        let urls: io::Result<Vec<String>> =
            listeners.iter().map(|it| Ok(format!("http://{}", it.local_addr()?))).collect();
        let urls = urls?;
        let coordinator = Coordinator::new(Arc::clone(case), urls[0].clone(), secret()?);
        let fault = Fault::planted(setup.fault.as_deref(), case);
        let servers = listeners.into_iter().enumerate().map(|(n, listener)| {
            let (coordinator, fault) = (Arc::clone(&coordinator), Arc::clone(&fault));
            http::serve(listener, n + 1, move |request| {
                let (coordinator, fault) = (Arc::clone(&coordinator), Arc::clone(&fault));
                async move { fault.pass(request, &coordinator).await }
            })
        });
        let servers: Vec<Server> = servers.collect();
        let start = Start {
            command: setup.command.clone(),
            subject: case.subject.clone(),
            urls: urls.join(","),
        };
        let mut processes = Vec::new();
        for _ in 0..case.subject.processes {
            processes.push(Process::start(&start, &coordinator)?);
        }
        let clock = tokio::spawn({
            let coordinator = Arc::clone(&coordinator);
            async move { coordinator.keep_time().await }
        });
        Ok(Stage {
            done: vec![0; case.actions.len()],
            case: Arc::clone(case),
            coordinator,
            fault,
            start,
            processes,
            due: Vec::new(),
            up_at: None,
            clock,
            _servers: servers,
        })
    }

    /// A worker is ready with its first poll, a client when it says so.
    async fn wait_until_ready(&self, limit: Duration) -> Result<(), String> {
        let mut changes = self.coordinator.changes();
        let ready = async {
            loop {
                changes.mark_unchanged();
                match self.ready_count() {
                    Ok(count) if count >= self.case.subject.processes => return Ok(()),
                    Ok(_) => {}
                    Err(why) => return Err(why),
                }
                let _ = changes.changed().await;
            }
        };
        let limit_ms = limit.as_millis();
        let found = timeout(limit, ready).await;
        found.unwrap_or_else(|_| {
            let what = match self.case.subject.role {
                Role::Worker => "poll for work",
                Role::Client => "write {\"ready\": true}",
            };
            Err(format!("the subject did not {what} within {limit_ms} ms"))
        })?;
        let mut model = self.coordinator.model();
        model.log.event("ready", json!({}));
        model.open();
        drop(model);
        self.coordinator.tell();
        Ok(())
    }

    fn ready_count(&self) -> Result<usize, String> {
        let model = self.coordinator.model();
        let entries = &model.log.entries;
        let is = |entry: &&Entry, sort: Sort, name: &str| entry.sort == sort && entry.name == name;
        if let Some(exit) = entries.iter().find(|it| is(it, Sort::Event, "exit")) {
            return Err(format!("the subject ended before it was ready: {}", exit.members));
        }
        Ok(match self.case.subject.role {
            Role::Client => entries.iter().filter(|it| is(it, Sort::Event, "opened")).count(),
            Role::Worker => {
                let polls = entries.iter().filter(|it| is(it, Sort::Item, "poll"));
                polls.map(|it| it.members["workerId"].to_string()).collect::<BTreeSet<_>>().len()
            }
        })
    }

    /// Does what the case does and judges, until everything is decided or the time is over.
    async fn play(&mut self) -> io::Result<Vec<String>> {
        let end = Instant::now() + Duration::from_millis(self.case.timeout_ms);
        let settle = Duration::from_millis(self.case.settle_ms);
        let mut holds_since: Option<Instant> = None;
        let mut changes = self.coordinator.changes();
        loop {
            changes.mark_unchanged();
            self.act().await?;
            let judged = self.judge();
            let is_broken = judged.iter().any(|it| matches!(it, Judged::Broken(_)));
            let is_open =
                judged.iter().any(|it| matches!(it, Judged::Open(_))) || self.has_more_to_do();
            let now = Instant::now();
            if is_broken || now >= end {
                return Ok(judged.into_iter().filter_map(finding).collect());
            }
            holds_since = if is_open { None } else { holds_since.or(Some(now)) };
            if holds_since.is_some_and(|since| now.duration_since(since) >= settle) {
                return Ok(Vec::new());
            }
            let _ = timeout(BEAT, changes.changed()).await;
        }
    }

    fn has_more_to_do(&self) -> bool {
        let is_timed = |action: &Action| action.after.ms.is_some();
        let left =
            self.case.actions.iter().zip(&self.done).any(|(it, done)| is_timed(it) && *done == 0);
        left || !self.due.is_empty() || self.up_at.is_some()
    }

    fn judge(&self) -> Vec<Judged> {
        let model = self.coordinator.model();
        let variable = |name: &str| self.variable(&model.runs, name);
        let judged = self.case.expect.iter().map(|expect| judge(expect, &model.log, &variable));
        judged.chain([self.nothing_invalid(&model.log.entries)]).collect()
    }

    /// No SDK may send what the real coordinator refuses as malformed, in no case.
    fn nothing_invalid(&self, entries: &[Entry]) -> Judged {
        let is_invalid = |it: &&Entry| it.sort == Sort::Item && it.name == "invalid";
        let found = entries.iter().find(is_invalid);
        found.map_or(Judged::Holds, |it| Judged::Broken(format!("an invalid call: {}", it.members)))
    }

    fn variable(&self, runs: &Runs, name: &str) -> Option<Value> {
        match name {
            "apiKey" => Some(json!(self.coordinator.api_key)),
            "url" => Some(json!(self.start.urls)),
            _ => {
                let n: usize = name.strip_prefix("run")?.parse().ok()?;
                Some(json!(runs.submitted(n)?))
            }
        }
    }

    /// Does what is due.
    async fn act(&mut self) -> io::Result<()> {
        if self.up_at.is_some_and(|at| at <= Instant::now()) {
            self.up_at = None;
            self.coordinator.model().is_down = false;
        }
        let now = Instant::now();
        let mut due: Vec<usize> = Vec::new();
        for n in 0..self.case.actions.len() {
            for _ in 0..self.times_due(n) {
                self.done[n] += 1;
                let delay = self.case.actions[n].delay_ms;
                if delay == 0 {
                    due.push(n);
                } else {
                    self.due.push((now + Duration::from_millis(delay), n));
                }
            }
        }
        due.extend(self.due.extract_if(.., |(at, _)| *at <= now).map(|(_, n)| n));
        for n in due {
            let action = self.case.actions[n].clone();
            self.carry_out(&action).await?;
        }
        Ok(())
    }

    /// How often an action is due that was not done yet.
    fn times_due(&self, n: usize) -> usize {
        let (action, done) = (&self.case.actions[n], self.done[n]);
        let model = self.coordinator.model();
        if let Some(ms) = action.after.ms {
            let is_due =
                model.log.ready_ms().is_some_and(|ready| model.log.now_ms() >= ready + ms as f64);
            return usize::from(is_due && done == 0);
        }
        let seen = model.log.entries.iter().filter(|entry| fits(&action.after, entry)).count();
        match action.after.every {
            true => seen - done.min(seen),
            false => usize::from(done == 0 && seen >= action.after.nth.unwrap_or(1)),
        }
    }

    async fn carry_out(&mut self, action: &Action) -> io::Result<()> {
        self.change_model(action);
        let place = action.process.unwrap_or(1) - 1;
        let signals = [
            (action.sigterm, Signal::TERM),
            (action.sigstop, Signal::STOP),
            (action.sigcont, Signal::CONT),
        ];
        for (_, signal) in signals.into_iter().filter(|(wanted, _)| *wanted) {
            self.processes[place].signal(signal);
        }
        if action.sigkill || action.restart {
            self.processes[place].kill().await;
        }
        if action.restart {
            self.coordinator.model().forget_leases();
            self.processes[place] = Process::start(&self.start, &self.coordinator)?;
        }
        if let Some(call) = &action.call {
            let mut line = {
                let model = self.coordinator.model();
                value::filled(call, &|name| self.variable(&model.runs, name))
            };
            self.fault.change_line(&mut line);
            signed::sign(&mut line);
            // A subject that has ended is found by what it did not do.
            let _ = self.processes[place].say(&line).await;
        }
        if let Some(mut wanted) = action.push.clone() {
            self.fault.change_push(&mut wanted);
            push::send(&self.coordinator, &wanted);
        }
        self.coordinator.tell();
        Ok(())
    }

    /// What an action does in the coordinator.
    fn change_model(&mut self, action: &Action) {
        let mut model = self.coordinator.model();
        let now = model.now();
        if let Some(name) = &action.cancel {
            model.cancel(name);
        }
        if let Some(name) = &action.offer {
            model.offer(name);
        }
        if let Some(signal) = &action.signal
            && let Some(task) = model.task_named(&signal.of)
        {
            task.record.signals.push((signal.name.clone(), signal.payload.clone()));
        }
        if let Some(vote) = &action.decide
            && let Some(task) = model.task_named(&vote.of)
        {
            task.record.vote(&vote.by, &vote.decision, vote.comment.as_deref(), now);
        }
        if let Some(delivery) = &action.deliver
            && let Some(task) = model.task_named(&delivery.of)
        {
            let reason = &delivery.reason;
            task.record.delivery = Some(json!({"outcome": delivery.outcome, "effectId": "eff_1",
                "atMs": now.as_ms(), "reason": reason}));
        }
        if let Some(end) = &action.end_child
            && let Some(task) = model.task_named(&end.of)
        {
            let result = end.error.clone().map_or(Ok(end.result.clone().unwrap_or_default()), Err);
            task.record.end_child(&end.key, result, now);
        }
        if let Some(end) = &action.end_run
            && let Some(run) = model.runs.submitted_mut(end.run)
        {
            run.state.clone_from(&end.state);
            run.output.clone_from(&end.output);
            run.error.clone_from(&end.error);
            run.attempt = run.attempt.max(1);
        }
        if let Some(skew) = action.skew_ms {
            model.skew_ms = skew;
        }
        if action.new_epoch {
            model.begin_epoch();
        }
        if let Some(ms) = action.restart_server {
            model.is_down = true;
            self.up_at = Some(Instant::now() + Duration::from_millis(ms));
        }
    }

    /// Ends the subject. One that does not end is a finding.
    async fn strike(&mut self) -> Vec<String> {
        self.coordinator.model().is_down = false;
        let shutdown = Duration::from_millis(self.case.subject.shutdown_timeout_ms);
        let stops = self.processes.drain(..).map(|process| process.stop(shutdown));
        let stopped = futures_util::future::join_all(stops).await;
        self.clock.abort();
        // The last lines of a process are read after its end.
        sleep(BEAT).await;
        let killed = stopped.iter().filter(|it| **it == Stopped::Killed).count();
        match killed {
            0 => Vec::new(),
            _ => vec![
                "the subject did not end within 3 s of SIGTERM and its shutdown timeout".to_owned(),
            ],
        }
    }
}

fn finding(judged: Judged) -> Option<String> {
    match judged {
        Judged::Holds => None,
        Judged::Open(why) | Judged::Broken(why) => Some(why),
    }
}

/// Unguessable by other programs on the machine, and recognisable in a text that must not contain it.
fn secret() -> io::Result<String> {
    let mut bytes = [0; SECRET_BYTES];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
