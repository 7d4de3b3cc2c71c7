//! Clients and workers that know only HTTP: they repeat what was not answered, and note what was.

use std::sync::Arc;
use std::time::Duration;

use tenure::{Client, Error};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use wire::answers::Envelope;
use wire::requests::{Completed, HistoryQuery, LeaseRequest, Started, SubmitRun};
use wire::{Json, Outcome, State, Verdict};

use super::chance::Chance;
use super::ledger::Ledger;
use super::phoenix::{Phoenix, Presence};

pub(crate) const QUEUE: &str = "storm";

/// Clients wait when this many runs are unfinished, so that the end is near when the faults stop.
const UNFINISHED_MAX: usize = 96;
/// Leases per poll: enough for several reports to share a commit.
const LEASES: u32 = 6;
/// One run in so many loses its first worker.
const ONE_IN: u64 = 25;

/// A worker that answers keeps this lease whatever happens to the server.
const LEASE_MS: u64 = 5_000;
/// Takeover from a dead worker follows after this.
const SHORT_LEASE_MS: u64 = 3_000;
/// Longer than any test: who holds this is never late, however slow the machine.
const LONG_LEASE_MS: u64 = 300_000;
const POLL_MS: u64 = 500;

/// What a run asks of its first worker.
const LIVE: &str = r#"{"worker":"lives"}"#;
const DIE: &str = r#"{"worker":"dies"}"#;
const HOLD: &str = r#"{"worker":"holds"}"#;

/// Whether a worker names its polls, so that a lost answer can be asked for again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Polls {
    Named,
    /// A grant that got lost waits for the end of its lease.
    Nameless,
}

#[derive(Clone)]
pub(crate) struct Load {
    pub(crate) client: Client,
    pub(crate) ledger: Arc<Ledger>,
    presence: watch::Receiver<Presence>,
    room: Arc<Semaphore>,
    /// No more new runs.
    pub(crate) enough: CancellationToken,
    /// No more work.
    pub(crate) over: CancellationToken,
    seed: u64,
}

impl Load {
    pub(crate) fn on(server: &Phoenix<'_>, seed: u64) -> Load {
        Load {
            client: server.client(),
            ledger: Arc::default(),
            presence: server.presence(),
            room: Arc::new(Semaphore::new(UNFINISHED_MAX)),
            enough: CancellationToken::new(),
            over: CancellationToken::new(),
            seed,
        }
    }

    pub(crate) fn clients(&self, count: u64) -> JoinSet<()> {
        let submit = |name| self.clone().submit_until_told(name);
        (0..count).map(submit).collect()
    }

    pub(crate) fn workers(&self, count: u64) -> JoinSet<()> {
        let polls = |n| if n % 4 == 3 { Polls::Nameless } else { Polls::Named };
        (0..count).map(|n| self.clone().work_until_told(n, polls(n))).collect()
    }

    /// Makes the same call until somebody decides about it.
    pub(crate) async fn insist<T, F>(&self, call: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let mut presence = self.presence.clone();
        loop {
            match call().await {
                Err(error) if error.may_repeat() => {
                    self.ledger.unknown();
                    presence.wait_for(|presence| *presence == Presence::Up).await.unwrap();
                }
                decided => return decided,
            }
        }
    }

    async fn submit_until_told(self, name: u64) {
        let mut chance = Chance::new(self.seed.wrapping_add(name));
        for n in 0.. {
            let room = tokio::select! {
                () = self.enough.cancelled() => return,
                room = self.room.acquire() => room.unwrap(),
            };
            // Given back by whoever commits the run.
            room.forget();
            let key = format!("client-{name}-{n}");
            let run = if chance.below(ONE_IN) == 0 { fatal_run() } else { harmless_run() };
            let accepted = self.insist(|| self.client.submit(run.clone(), Some(&key)));
            let accepted = accepted.await.expect("the submission is valid");
            if accepted.replayed == Some(true) {
                self.ledger.replayed();
            }
            self.ledger.submitted(key, accepted.run_id);
        }
    }

    async fn work_until_told(self, number: u64, polls: Polls) {
        let worker = format!("worker-{number}");
        for n in 0.. {
            if self.over.is_cancelled() {
                return;
            }
            let poll = (polls == Polls::Named).then(|| format!("{worker}-{n}"));
            let asked = Instant::now();
            let leases = self.lease(&worker, poll, LEASES).await;
            let mut tasks: JoinSet<()> = leases
                .into_iter()
                .map(|lease| self.clone().execute(worker.clone(), lease, asked))
                .collect();
            while let Some(ended) = tasks.join_next().await {
                ended.unwrap();
            }
        }
    }

    pub(crate) async fn lease(
        &self,
        worker: &str,
        poll: Option<String>,
        max: u32,
    ) -> Vec<Envelope> {
        let request = LeaseRequest {
            worker_id: worker.to_owned(),
            queues: vec![QUEUE.to_owned()],
            kinds: None,
            max,
            wait_ms: Some(POLL_MS),
            poll_id: poll,
        };
        let leases = self.insist(|| self.client.lease(&request)).await;
        leases.expect("the poll is valid").leases
    }

    async fn execute(self, worker: String, lease: Envelope, asked: Instant) {
        if !self.started(&worker, &lease, asked).await {
            return;
        }
        if lease.input.text() == DIE && self.ledger.abandon(&lease) {
            return;
        }
        let output = format!(r#"{{"by":"{worker}","attempt":{}}}"#, lease.attempt);
        if self.committed(&worker, lease, &output, asked).await {
            self.room.add_permits(1);
        }
    }

    /// Whether the worker still had its lease.
    pub(crate) async fn started(&self, worker: &str, lease: &Envelope, asked: Instant) -> bool {
        let body =
            Started { attempt: lease.attempt, worker_id: worker.to_owned(), started_at: None };
        let call = || self.client.started(&lease.task_id, &lease.task_token, &body);
        let ack = self.insist(call).await;
        let Some(ack) = self.unless_overslept(lease, asked, ack).await else { return false };
        assert_eq!(ack.verdict, Verdict::Committed);
        true
    }

    /// Whether the worker still had its lease.
    pub(crate) async fn committed(
        &self,
        worker: &str,
        lease: Envelope,
        output: &str,
        asked: Instant,
    ) -> bool {
        let body = succeeded(worker, &lease, output);
        let call = || self.client.completed(&lease.task_id, &lease.task_token, &body);
        let ack = self.insist(call).await;
        let Some(ack) = self.unless_overslept(&lease, asked, ack).await else { return false };
        assert_eq!((ack.verdict, ack.state), (Verdict::Committed, State::Succeeded));
        if ack.replayed {
            self.ledger.replayed();
        }
        self.ledger.committed(lease.run_id, output.to_owned());
        true
    }

    /// An honest worker that answers in time is never told that it lost its lease: all outages are
    /// the server's own. In time is what its own clock says, counted from before it asked for work,
    /// so that a machine which stops this test for seconds proves nothing against the server.
    async fn unless_overslept<T>(
        &self,
        lease: &Envelope,
        asked: Instant,
        answer: Result<T, Error>,
    ) -> Option<T> {
        let passed = asked.elapsed();
        match answer {
            Ok(ack) => Some(ack),
            Err(error)
                if error.verdict() == Some(Verdict::Cancelled) && passed >= length_of(lease) =>
            {
                self.ledger.overslept(lease);
                None
            }
            Err(error) => {
                let history = self.client.history(&lease.run_id, &HistoryQuery::default()).await;
                panic!("{error}, {passed:?} after the poll, with {lease:?}; {history:#?}");
            }
        }
    }
}

fn length_of(lease: &Envelope) -> Duration {
    Duration::from_millis(lease.heartbeat_timeout_ms)
}

pub(crate) fn succeeded(worker: &str, lease: &Envelope, output: &str) -> Completed {
    Completed {
        attempt: lease.attempt,
        worker_id: worker.to_owned(),
        outcome: Outcome::Succeeded,
        completed_at: None,
        output: Some(Json::from_text(output.to_owned()).unwrap()),
        error: None,
        metrics: None,
        cancelled_during_phase: None,
        partial_progress: None,
        traceparent: None,
    }
}

pub(crate) fn run(input: &str, lease_ms: u64) -> SubmitRun {
    SubmitRun {
        kind: "step".to_owned(),
        queue: QUEUE.to_owned(),
        input: Json::from_text(input.to_owned()).unwrap(),
        lease_ms: Some(lease_ms),
        ..SubmitRun::default()
    }
}

pub(crate) fn harmless_run() -> SubmitRun {
    run(LIVE, LEASE_MS)
}

fn fatal_run() -> SubmitRun {
    run(DIE, SHORT_LEASE_MS)
}

/// One whose lease is held while the server goes away.
pub(crate) fn held_run() -> SubmitRun {
    run(HOLD, LONG_LEASE_MS)
}

/// What a run was submitted as, for asking again with its key.
pub(crate) fn as_submitted(input: &str) -> SubmitRun {
    match input {
        DIE => fatal_run(),
        HOLD => held_run(),
        _ => harmless_run(),
    }
}
