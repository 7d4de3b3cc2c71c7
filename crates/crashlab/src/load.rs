//! Clients and workers that use only HTTP: they retry unanswered calls and record everything they see in the history.
//! They do not judge.

pub(crate) mod durable;

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use historyck::Recorder;
use tenure::{CancelMode, Client, Error};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use wire::answers::Envelope;
use wire::requests::{Completed, LeaseRequest, ReportedError, Retry, SubmitRun};
use wire::{Json, Outcome, Verdict};

use crate::recording_client::RecordingClient;
use crate::rng::SeededRng;

pub(crate) const QUEUE: &str = "storm";

/// Clients pause while this many runs are unfinished, so that everything ends soon after the faults stop.
const UNFINISHED_MAX: usize = 32;
/// Leases per poll: enough for several reports to share a commit.
const LEASES: u32 = 4;
const POLL_MS: u64 = 400;

/// An obedient worker keeps a lease of this length through every fault of the server.
pub(crate) const LEASE_MS: u64 = 4_000;
/// The lease of a task whose worker falls silent: another worker takes over after this time.
const SHORT_LEASE_MS: u64 = 2_000;

/// The pause before calling a server again that did not answer.
pub(crate) const RETRY_DELAY: Duration = Duration::from_millis(20);

/// The pause between two runs of a client while load is reduced.
const SLOW_PAUSE: Duration = Duration::from_secs(1);

/// The input that tells the first worker how to behave.
const LIVE: &str = r#"{"worker":"lives"}"#;
const DIE: &str = r#"{"worker":"dies"}"#;
const FAIL: &str = r#"{"worker":"fails once"}"#;

#[derive(Clone)]
pub struct Load {
    clients: Arc<[Client]>,
    pub(crate) history: Arc<Recorder>,
    room: Arc<Semaphore>,
    /// Clients submit slowly.
    is_slowed: Arc<AtomicBool>,
    /// Stops submissions.
    pub(crate) stop_submitting: CancellationToken,
    /// Stops the workers.
    pub(crate) stop_working: CancellationToken,
    /// Leases whose worker fell silent after it had started.
    silent: Arc<Mutex<Vec<(String, Envelope)>>>,
    seed: u64,
    padding: usize,
}

impl Load {
    pub(crate) fn new(clients: Vec<Client>, seed: u64) -> Load {
        Load {
            clients: clients.into(),
            history: Arc::new(Recorder::default()),
            room: Arc::new(Semaphore::new(UNFINISHED_MAX)),
            is_slowed: Arc::default(),
            stop_submitting: CancellationToken::new(),
            stop_working: CancellationToken::new(),
            silent: Arc::default(),
            seed,
            padding: 0,
        }
    }

    /// Restores all permits: runs lost in a failover return none.
    pub(crate) fn make_room(&self) {
        let missing = UNFINISHED_MAX.saturating_sub(self.room.available_permits());
        self.room.add_permits(missing);
    }

    /// Reduces the load, so that reading all runs afterwards stays cheap. Used while a standby is created, which
    /// takes seconds and injects no fault.
    pub(crate) fn slow_down(&self) {
        self.is_slowed.store(true, Ordering::SeqCst);
    }

    /// Restores the full load.
    pub(crate) fn speed_up(&self) {
        self.is_slowed.store(false, Ordering::SeqCst);
    }

    /// Pads each run's input to this many bytes.
    pub(crate) fn with_bytes(mut self, padding: usize) -> Load {
        self.padding = padding;
        self
    }

    pub(crate) fn recording_as(&self, who: &str) -> RecordingClient {
        RecordingClient::new(self.clients.clone(), self.history.clone(), who)
    }

    pub(crate) fn clients(&self, count: u64) -> JoinSet<()> {
        (0..count).map(|n| self.clone().submit_until_told(n)).collect()
    }

    pub(crate) fn workers(&self, count: u64) -> JoinSet<()> {
        (0..count).map(|n| self.clone().work_until_told(n)).collect()
    }

    /// Adds a worker that calls only this coordinator. Returns its name.
    pub(crate) fn one_more_worker(&self, number: u64, client: Client) -> (String, JoinSet<()>) {
        let load = Load { clients: Arc::new([client]), ..self.clone() };
        (worker_name(number), std::iter::once(load.work_until_told(number)).collect())
    }

    /// Retries the same call until a coordinator decides it.
    pub(crate) async fn retry_until_decided<T, F>(&self, call: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        loop {
            match call().await {
                Err(error) if error.is_retryable() && !self.stop_working.is_cancelled() => {
                    tokio::time::sleep(RETRY_DELAY).await;
                }
                decided => return decided,
            }
        }
    }

    fn run(&self, input: &str, lease_ms: u64) -> SubmitRun {
        let input = if self.padding == 0 {
            input.to_owned()
        } else {
            format!("\"{}\"", "x".repeat(self.padding))
        };
        SubmitRun {
            kind: "step".to_owned(),
            queue: QUEUE.to_owned(),
            input: Json::from_text(input).expect("the inputs are JSON"),
            lease_ms: Some(lease_ms),
            retry: Some(Retry { base_ms: Some(50), cap_ms: Some(100) }),
            ..SubmitRun::default()
        }
    }

    pub(crate) fn plain_run(&self) -> SubmitRun {
        self.run(LIVE, LEASE_MS)
    }

    async fn submit_until_told(self, number: u64) {
        let me = self.recording_as(&format!("client-{number}"));
        let mut rng = SeededRng::new(self.seed.wrapping_add(number));
        for n in 0.. {
            let room = tokio::select! {
                () = self.stop_submitting.cancelled() => return,
                room = self.room.acquire() => room.expect("the room is never closed"),
            };
            // The client or worker that ends the run returns the permit.
            room.forget();
            if self.is_slowed.load(Ordering::SeqCst) {
                tokio::time::sleep(SLOW_PAUSE).await;
            }
            let key = format!("client-{number}-{n}");
            let run = match rng.below(24) {
                0 => self.run(DIE, SHORT_LEASE_MS),
                1 | 2 => self.run(FAIL, LEASE_MS),
                _ => self.plain_run(),
            };
            let Ok(accepted) = self.retry_until_decided(|| me.submit(run.clone(), &key)).await
            else {
                continue;
            };
            if rng.one_in(16) {
                let mode = if rng.one_in(2) { CancelMode::Immediate } else { CancelMode::Graceful };
                // The run may have ended already, which is an answer too.
                let _ = self.retry_until_decided(|| me.cancel(&accepted.run_id, mode)).await;
                self.room.add_permits(1);
            }
            if rng.one_in(4) {
                let _ = self.retry_until_decided(|| me.get(&accepted.run_id)).await;
            }
        }
    }

    async fn work_until_told(self, number: u64) {
        let worker = worker_name(number);
        let me = self.recording_as(&worker);
        for n in 0.. {
            if self.stop_working.is_cancelled() {
                return;
            }
            let request = LeaseRequest {
                worker_id: worker.clone(),
                queues: vec![QUEUE.to_owned()],
                kinds: None,
                max: LEASES,
                wait_ms: Some(POLL_MS),
                // One worker in four sends no poll id: a lost grant then waits for lease expiry.
                poll_id: (number % 4 != 3).then(|| format!("{worker}-{n}")),
                ..LeaseRequest::default()
            };
            let Ok(leases) = self.retry_until_decided(|| me.lease(&request)).await else {
                continue;
            };
            let execute = |lease| self.clone().execute(me.clone(), worker.clone(), lease);
            let mut tasks: JoinSet<()> = leases.into_iter().map(execute).collect();
            while tasks.join_next().await.is_some() {}
        }
    }

    async fn execute(self, me: RecordingClient, worker: String, lease: Envelope) {
        if self.retry_until_decided(|| me.started(&worker, &lease)).await.is_err() {
            return;
        }
        if lease.input.text() == DIE && lease.attempt == 1 {
            self.silent.lock().expect("nothing panics with the list in hand").push((worker, lease));
            return;
        }
        let beat = self.retry_until_decided(|| me.heartbeat(&worker, &lease)).await;
        let report = match beat {
            Err(_) => return,
            Ok(ack) if ack.should_cancel => report(&worker, &lease, Outcome::Cancelled),
            Ok(_) if lease.input.text() == FAIL && lease.attempt == 1 => {
                report(&worker, &lease, Outcome::Failed)
            }
            Ok(_) => report(&worker, &lease, Outcome::Succeeded),
        };
        let ended = self.retry_until_decided(|| me.completed(&worker, &lease, &report)).await;
        if ended.is_ok_and(|ack| ack.state != wire::State::Retry) {
            self.room.add_permits(1);
        }
    }

    /// Sends the reports of the workers that fell silent, each after another worker has won: a report gets exactly
    /// one of three answers, and this one is CANCELLED.
    pub(crate) async fn send_late_reports(&self) -> Result<()> {
        let silent = self.silent.lock().expect("nothing panics with the list in hand").clone();
        for (worker, lease) in silent {
            let me = self.recording_as(&worker);
            let report = report(&worker, &lease, Outcome::Succeeded);
            match self.retry_until_decided(|| me.completed(&worker, &lease, &report)).await {
                Err(refused) if refused.verdict() == Some(Verdict::Cancelled) => {}
                other => bail!("a report under a lease that was lost got {other:?}"),
            }
        }
        Ok(())
    }

    /// A client that calls only this coordinator.
    pub(crate) fn at(&self, at: usize, who: &str) -> RecordingClient {
        let only = Arc::new([self.clients[at].clone()]);
        RecordingClient::new(only, self.history.clone(), who)
    }
}

fn worker_name(number: u64) -> String {
    format!("worker-{number}")
}

pub(crate) fn report(worker: &str, lease: &Envelope, outcome: Outcome) -> Completed {
    let output = format!(r#"{{"by":"{worker}","attempt":{}}}"#, lease.attempt);
    let output = Json::from_text(output).expect("a name and a number make JSON");
    Completed {
        spend: None,
        attempt: lease.attempt,
        worker_id: worker.to_owned(),
        outcome,
        completed_at: None,
        output: (outcome == Outcome::Succeeded).then_some(output),
        error: (outcome == Outcome::Failed).then(|| ReportedError {
            category: wire::ErrorCategory::UserCode,
            message: "as it was asked to".to_owned(),
            stack_trace: None,
            retryable: Some(true),
        }),
        metrics: None,
        cancelled_during_phase: None,
        partial_progress: None,
        traceparent: None,
        steps: Vec::new(),
        children: Vec::new(),
        effects: Vec::new(),
        next: false,
        log: Vec::new(),
    }
}
