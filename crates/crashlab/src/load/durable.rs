//! Durable runs under load. Each records a step, starts children, joins them, sleeps, and reports with its last step;
//! each child records one step. Some workers fall silent between two calls.
//!
//! The history of this load is separate: it has calls and answers only, so it is judged from outside.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use historyck::Recorder;
use historyck::event::{EventKind, Settled};
use tokio::task::JoinSet;
use wire::answers::{Checkpoint, CheckpointAck, Envelope};
use wire::requests::{
    AwaitedItem, CheckpointCall, ChildRun, LeaseRequest, StepRecord, SubmitRun, WaitFor,
};
use wire::{CheckpointOutcome, Json, Outcome, State, StepOutcome, Time, WaitMode};

use super::{LEASES, Load, POLL_MS, RETRY_DELAY, SHORT_LEASE_MS, report};
use crate::judge;
use crate::recording_client::RecordingClient;
use crate::waits::within;

/// A queue of its own: the judge of the plain load does not read it.
const QUEUE: &str = "durable";
const ROOT: &str = "root";
const LEAF: &str = "leaf";

/// How many children each run has.
pub(crate) const CHILDREN: usize = 3;

/// How long each run sleeps.
const SLEEP_MS: i64 = 50;

/// One attempt in this many falls silent between its first two calls.
const SILENT_ONE_IN: usize = 16;

/// How often an unfinished run is read.
const READ_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) struct DurableLoad {
    load: Load,
    clients: JoinSet<()>,
    workers: JoinSet<()>,
    roots: Arc<AtomicUsize>,
}

impl DurableLoad {
    pub(crate) fn start(load: &Load, clients: usize, workers: usize) -> Self {
        let load = Load { history: Arc::new(Recorder::default()), ..load.clone() };
        let roots = Arc::new(AtomicUsize::new(0));
        Self {
            clients: (0..clients).map(|n| submit(load.clone(), n, roots.clone())).collect(),
            workers: (0..workers).map(|n| work(load.clone(), n)).collect(),
            load,
            roots,
        }
    }

    /// Waits until this many more events were recorded.
    pub(crate) async fn wait_for_events(&self, events: usize) -> Result<()> {
        let enough = self.load.history.len() + events;
        let happens = async {
            while self.load.history.len() < enough {
                tokio::time::sleep(RETRY_DELAY).await;
            }
        };
        within("durable runs to go on", happens).await
    }

    /// Waits until every run has ended, and judges the history. Returns the number of tasks that must be stored.
    pub(crate) async fn settle(
        mut self,
        name: &str,
        keep: &std::path::Path,
    ) -> Result<(usize, usize)> {
        self.load.stop_submitting.cancel();
        within("the end of every durable run (G1)", join(&mut self.clients)).await??;
        self.load.stop_working.cancel();
        within("workers to go home", join(&mut self.workers)).await??;
        self.load.recording_as("reader").note(EventKind::Settled(Settled {}));
        let events = judge::judge(name, &self.load.history, keep)?;
        let roots = self.roots.load(Ordering::SeqCst);
        ensure!(roots > 0, "no durable run was accepted");
        Ok((events, roots * (1 + CHILDREN)))
    }
}

async fn join(actors: &mut JoinSet<()>) -> Result<()> {
    while let Some(gone) = actors.join_next().await {
        gone.context("a client or worker of durable runs gave up")?;
    }
    Ok(())
}

fn task(kind: &str, input: String) -> SubmitRun {
    SubmitRun {
        kind: kind.to_owned(),
        queue: QUEUE.to_owned(),
        input: Json::from_text(input).expect("the inputs are JSON"),
        lease_ms: Some(SHORT_LEASE_MS),
        max_attempts: Some(100),
        lost_max: Some(100),
        ..SubmitRun::default()
    }
}

/// Submits one run after the other, and follows each to its end.
async fn submit(load: Load, number: usize, roots: Arc<AtomicUsize>) {
    let me = load.recording_as(&format!("client-{number}"));
    let mut n = 0;
    while !load.stop_submitting.is_cancelled() {
        n += 1;
        let run = task(ROOT, format!(r#"{{"of":{number},"n":{n}}}"#));
        let key = format!("durable-{number}-{n}");
        let accepted = load.retry_until_decided(|| me.submit(run.clone(), &key)).await;
        let run = accepted.expect("a run with a key of its own is accepted").run_id;
        roots.fetch_add(1, Ordering::SeqCst);
        follow(&load, &me, &run).await;
    }
}

async fn follow(load: &Load, me: &RecordingClient, run: &str) {
    loop {
        let seen = load.retry_until_decided(|| me.get(run)).await.expect("a run can be read");
        if crate::recording_client::state(seen.state).is_terminal() {
            break;
        }
        tokio::time::sleep(READ_INTERVAL).await;
    }
    let steps = load.retry_until_decided(|| async { me.client().run(run).steps().await }).await;
    me.shown(run, None, &steps.expect("the steps of a run can be read"));
}

async fn work(load: Load, number: usize) {
    let worker = format!("worker-{number}");
    let me = load.recording_as(&worker);
    for n in 0.. {
        if load.stop_working.is_cancelled() {
            return;
        }
        let request = LeaseRequest {
            worker_id: worker.clone(),
            queues: vec![QUEUE.to_owned()],
            kinds: None,
            max: LEASES,
            wait_ms: Some(POLL_MS),
            poll_id: Some(format!("{worker}-{n}")),
            ..LeaseRequest::default()
        };
        let Ok(leases) = load.retry_until_decided(|| me.lease(&request)).await else { continue };
        for lease in leases {
            let is_silent = (n + lease.attempt as usize) % SILENT_ONE_IN == SILENT_ONE_IN - 1;
            let attempt = Attempt { load: &load, me: &me, worker: &worker, lease, is_silent };
            attempt.perform().await;
        }
    }
}

/// One attempt in a worker's hands.
struct Attempt<'a> {
    load: &'a Load,
    me: &'a RecordingClient,
    worker: &'a str,
    lease: Envelope,
    is_silent: bool,
}

impl Attempt<'_> {
    async fn perform(self) {
        let Attempt { me, lease, .. } = &self;
        me.shown(&lease.task_id, Some(lease.attempt), &lease.checkpoints);
        let done = if lease.kind == LEAF { Some(()) } else { self.family().await };
        if done.is_some() {
            self.finish().await;
        }
    }

    /// Everything before the last step; `None` if the attempt is over.
    async fn family(&self) -> Option<()> {
        if !self.has("first") {
            self.record(CheckpointCall { steps: vec![self.step("first")], ..self.call() }).await?;
        }
        if self.is_silent {
            return None;
        }
        let keys: Vec<String> = (0..CHILDREN).map(|n| format!("child-{n}")).collect();
        if !self.has("joined") {
            let child = |key: &String| ChildRun::new(key, task(LEAF, format!("{key:?}")));
            let items = keys.iter().map(|key| AwaitedItem {
                key: key.clone(),
                child: Some(key.clone()),
                ..AwaitedItem::default()
            });
            let wait = wait("joined", items.collect());
            let children = keys.iter().map(child).collect();
            self.record(CheckpointCall { children, wait: Some(wait), ..self.call() }).await?;
        }
        if !self.has("slept") {
            let now = self.lease.lease_expires_at.as_ms() - SHORT_LEASE_MS as i64;
            let until = Some(Time::from_ms(now + SLEEP_MS));
            let item = AwaitedItem { key: "time".to_owned(), until, ..AwaitedItem::default() };
            let wait = Some(wait("slept", vec![item]));
            self.record(CheckpointCall { wait, ..self.call() }).await?;
        }
        Some(())
    }

    /// Reports, with the last step in the same call.
    async fn finish(&self) {
        let mut body = report(self.worker, &self.lease, Outcome::Succeeded);
        body.steps = vec![self.step("last")];
        let call = || self.me.completed_with_steps(self.worker, &self.lease, &body);
        let _ = self.load.retry_until_decided(call).await;
    }

    fn has(&self, key: &str) -> bool {
        let is_it = |it: &Checkpoint| it.key == key && it.outcome != CheckpointOutcome::Started;
        self.lease.checkpoints.iter().any(is_it)
    }

    fn call(&self) -> CheckpointCall {
        CheckpointCall {
            attempt: self.lease.attempt,
            worker_id: self.worker.to_owned(),
            ..CheckpointCall::default()
        }
    }

    /// A result that no other attempt would have.
    fn step(&self, key: &str) -> StepRecord {
        let result = format!(r#"{{"by":"{}","attempt":{}}}"#, self.worker, self.lease.attempt);
        StepRecord {
            key: key.to_owned(),
            outcome: StepOutcome::Succeeded,
            result: Some(Json::from_text(result).expect("a name and a number make JSON")),
            error: None,
            input_digest: None,
            spend: None,
            savepoint: false,
        }
    }

    /// Records until the outcome is known; `None` if the attempt is over.
    async fn record(&self, body: CheckpointCall) -> Option<CheckpointAck> {
        let call = || self.me.checkpoint(self.worker, &self.lease, &body);
        let ack = self.load.retry_until_decided(call).await.ok()?;
        (ack.state == State::Running).then_some(ack)
    }
}

fn wait(key: &str, items: Vec<AwaitedItem>) -> WaitFor {
    WaitFor { key: key.to_owned(), mode: WaitMode::All, items, max_ms: None }
}
