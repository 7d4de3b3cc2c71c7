//! A client that records every call and every answer in the history.
//!
//! With several coordinators each call goes to the next one, so that the answers of one coordinator are always
//! checked against another.

mod durable;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use historyck::Recorder;
use historyck::event::{Answer, EventKind, Granted, Invoke, Operation, Outcome, Return, State};
use tenure::{CancelMode, Client, Error};
use wire::answers::{
    CancelAccepted, CompletedAck, Envelope, HeartbeatAck, Run, RunAccepted, StartedAck,
};
use wire::requests::{Completed, Heartbeat, LeaseRequest, Started, SubmitRun};

#[derive(Clone)]
pub(crate) struct RecordingClient {
    clients: Arc<[Client]>,
    /// The index of the current coordinator.
    at: Arc<AtomicUsize>,
    pub(crate) history: Arc<Recorder>,
    who: String,
}

/// A run and its task share the part after the underscore.
pub(crate) fn ulid_of(id: &str) -> String {
    id.split_once('_').map_or(id, |(_, ulid)| ulid).to_owned()
}

pub(crate) fn state(state: wire::State) -> State {
    match state {
        wire::State::Queued => State::Queued,
        wire::State::Running => State::Running,
        wire::State::Retry => State::Retry,
        wire::State::Succeeded => State::Succeeded,
        wire::State::Failed => State::Failed,
        wire::State::Halted => State::Halted,
        wire::State::Cancelled => State::Cancelled,
        wire::State::Waiting => State::Waiting,
        wire::State::Blocked | wire::State::Skipped => unreachable!("no client here submits plans"),
    }
}

fn outcome(outcome: wire::Outcome) -> Outcome {
    match outcome {
        wire::Outcome::Succeeded => Outcome::Succeeded,
        wire::Outcome::Failed => Outcome::Failed,
        wire::Outcome::Cancelled => Outcome::Cancelled,
        wire::Outcome::Released => Outcome::Released,
    }
}

/// A refusal is definite; a missing answer, 429 and 5xx are not.
fn declined(error: &Error) -> Return {
    let is_definite = error.status().is_some_and(|status| status < 500 && status != 429);
    let answer = if is_definite { Answer::Fail } else { Answer::Info };
    Return {
        code: error.problem().map(|problem| problem.error.clone()),
        verdict: error.verdict().map(|verdict| verdict.to_string()),
        ..Return::of(answer)
    }
}

impl RecordingClient {
    pub(crate) fn new(
        clients: Arc<[Client]>,
        history: Arc<Recorder>,
        who: &str,
    ) -> RecordingClient {
        // Derived from the name, so that the choice of coordinators is the same in every run.
        let first = who.bytes().map(usize::from).sum();
        RecordingClient {
            clients,
            at: Arc::new(AtomicUsize::new(first)),
            history,
            who: who.to_owned(),
        }
    }

    /// The client of the current coordinator.
    pub(crate) fn client(&self) -> &Client {
        &self.clients[self.at.load(Ordering::SeqCst) % self.clients.len()]
    }

    /// The next call goes to the next coordinator.
    pub(crate) fn next_coordinator(&self) {
        self.at.fetch_add(1, Ordering::SeqCst);
    }

    async fn call<T>(
        &self,
        invoke: Invoke,
        answer: impl Future<Output = Result<T, Error>>,
        tell: impl FnOnce(&T) -> Return,
    ) -> Result<T, Error> {
        let call = self.history.next_call();
        self.note(EventKind::Invoke(Invoke { call, ..invoke }));
        let answer = answer.await;
        let told = answer.as_ref().map_or_else(declined, tell);
        self.next_coordinator();
        self.note(EventKind::Return(Return { call, ..told }));
        answer
    }

    pub(crate) fn note(&self, what: EventKind) {
        self.history.record(&self.who, what).expect("a history is kept in memory");
    }

    pub(crate) async fn submit(&self, run: SubmitRun, key: &str) -> Result<RunAccepted, Error> {
        let digest = Some(run.input.text().to_owned());
        let invoke = Invoke { key: Some(key.to_owned()), digest, ..Invoke::of(Operation::Submit) };
        let call = self.client().submit_run(run).idempotency_key(key).accept();
        self.call(invoke, call, |accepted| Return {
            task: Some(ulid_of(&accepted.run_id)),
            state: Some(state(accepted.state)),
            replayed: accepted.replayed == Some(true),
            ..Return::of(Answer::Ok)
        })
        .await
    }

    pub(crate) async fn lease(&self, request: &LeaseRequest) -> Result<Vec<Envelope>, Error> {
        let invoke = Invoke {
            worker: Some(request.worker_id.clone()),
            poll: request.poll_id.clone(),
            ..Invoke::of(Operation::Lease)
        };
        let leases = self.call(invoke, self.client().lease(request), |leases| Return {
            grants: leases.leases.iter().map(granted).collect(),
            ..Return::of(Answer::Ok)
        });
        Ok(leases.await?.leases)
    }

    fn under(&self, op: Operation, worker: &str, lease: &Envelope) -> Invoke {
        Invoke {
            task: Some(ulid_of(&lease.task_id)),
            attempt: Some(lease.attempt),
            worker: Some(worker.to_owned()),
            ..Invoke::of(op)
        }
    }

    pub(crate) async fn started(
        &self,
        worker: &str,
        lease: &Envelope,
    ) -> Result<StartedAck, Error> {
        let body =
            Started { attempt: lease.attempt, worker_id: worker.to_owned(), started_at: None };
        let call = self.client().started(&lease.task_id, &lease.task_token, &body);
        self.call(self.under(Operation::Started, worker, lease), call, |ack| Return {
            verdict: Some(ack.verdict.to_string()),
            ..Return::of(Answer::Ok)
        })
        .await
    }

    pub(crate) async fn heartbeat(
        &self,
        worker: &str,
        lease: &Envelope,
    ) -> Result<HeartbeatAck, Error> {
        let body = Heartbeat {
            attempt: lease.attempt,
            worker_id: worker.to_owned(),
            ..Heartbeat::default()
        };
        let call = self.client().heartbeat(&lease.task_id, &lease.task_token, &body);
        self.call(self.under(Operation::Heartbeat, worker, lease), call, |ack| Return {
            verdict: Some(ack.verdict.to_string()),
            expires: Some(ack.lease_expires_at.as_ms()),
            cancel: ack.should_cancel,
            ..Return::of(Answer::Ok)
        })
        .await
    }

    pub(crate) async fn completed(
        &self,
        worker: &str,
        lease: &Envelope,
        body: &Completed,
    ) -> Result<CompletedAck, Error> {
        let invoke = Invoke {
            digest: body.output.as_ref().map(|output| output.text().to_owned()),
            outcome: Some(outcome(body.outcome)),
            ..self.under(Operation::Report, worker, lease)
        };
        let call = self.client().completed(&lease.task_id, &lease.task_token, body);
        self.call(invoke, call, |ack| Return {
            verdict: Some(ack.verdict.to_string()),
            state: Some(state(ack.state)),
            replayed: ack.replayed,
            ..Return::of(Answer::Ok)
        })
        .await
    }

    pub(crate) async fn cancel(
        &self,
        run: &str,
        mode: CancelMode,
    ) -> Result<CancelAccepted, Error> {
        let is_forced = mode == CancelMode::Immediate;
        let invoke =
            Invoke { task: Some(ulid_of(run)), force: is_forced, ..Invoke::of(Operation::Cancel) };
        let call = self.client().run(run).cancel().mode(mode).into_future();
        self.call(invoke, call, |accepted| Return {
            state: Some(state(accepted.state)),
            ..Return::of(Answer::Ok)
        })
        .await
    }

    pub(crate) async fn get(&self, run: &str) -> Result<Run, Error> {
        let invoke = Invoke { task: Some(ulid_of(run)), ..Invoke::of(Operation::Get) };
        let handle = self.client().run(run);
        self.call(invoke, handle.status(), |run| Return {
            state: Some(state(run.state)),
            attempt: Some(run.attempt),
            digest: run.output.as_ref().map(|output| output.text().to_owned()),
            ..Return::of(Answer::Ok)
        })
        .await
    }
}

fn granted(lease: &Envelope) -> Granted {
    Granted {
        task: ulid_of(&lease.task_id),
        attempt: lease.attempt,
        lease: Some(lease.lease_id.clone()),
        fence: Some(lease.fence),
        expires: Some(lease.lease_expires_at.as_ms()),
        lease_ms: Some(lease.heartbeat_timeout_ms),
    }
}
