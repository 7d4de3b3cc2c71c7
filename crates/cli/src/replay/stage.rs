//! The recorded runs that are served: which are free, which a worker holds, and what came of the others.
//!
//! Each run is granted once. A token names one grant, so two files of the same run never get into each other's way; they
//! are served one after the other. What happens to a call is decided in [`super::judge`].

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use wire::Time;
use wire::answers::{CheckpointAnswer, Envelope, StartedChild};
use wire::names::ORIGIN_LABEL;
use wire::requests::{CheckpointCall, Completed, LeaseRequest};
use wire::{Code, State, Verdict};

use super::finding::Finding;
use super::judge::{Fits, Judge, Judged, Mode};
use crate::duration;

/// Longer than a replay may be silent: no lease expires while anybody waits for it.
const LEASE: Duration = Duration::from_secs(24 * 3600);
/// Heartbeats of a replay mean nothing; few are enough.
const HEARTBEAT_INTERVAL_MS: u64 = 60_000;
const CANCEL_GRACE_MS: u64 = 30_000;
/// The scope of every replayed run.
const SCOPE: &str = "replay";

#[derive(Debug)]
pub(super) struct Stage {
    runs: Mutex<Runs>,
    /// Counts what the worker did: a change is progress.
    progress: watch::Sender<u64>,
    pub(super) api_key: String,
}

#[derive(Debug)]
struct Runs {
    served: Vec<Served>,
    /// What the worker asked for, for people.
    asked: BTreeSet<String>,
}

#[derive(Debug)]
struct Served {
    judge: Judge,
    token: String,
    state: ServedState,
    /// The poll that got it: the same poll gets it again.
    poll_id: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ServedState {
    Free,
    Leased,
    Over(Judged),
}

/// A call that no run answers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Refused {
    /// Nobody was given this token.
    Unknown,
    /// The replay of the run is over.
    Over,
}

impl Refused {
    pub(super) fn code(self) -> Code {
        match self {
            Refused::Unknown => Code::InvalidToken,
            Refused::Over => Code::TaskAlreadyTerminal,
        }
    }
}

impl Stage {
    pub(super) fn new(judges: Vec<Judge>, secret: &str) -> Stage {
        let serve = |(n, judge): (usize, Judge)| Served {
            judge,
            token: format!("replay-{n}-{secret}"),
            state: ServedState::Free,
            poll_id: None,
        };
        let served = judges.into_iter().enumerate().map(serve).collect();
        Stage {
            runs: Mutex::new(Runs { served, asked: BTreeSet::new() }),
            progress: watch::Sender::new(0),
            api_key: format!("replay-{secret}"),
        }
    }

    fn runs(&self) -> MutexGuard<'_, Runs> {
        // No call leaves the runs half changed, even if its thread panicked.
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn progress(&self) -> watch::Receiver<u64> {
        self.progress.subscribe()
    }

    fn advance(&self) {
        self.progress.send_modify(|count| *count += 1);
    }

    /// Grants free runs that the poll asks for.
    pub(super) fn grant(&self, poll: &LeaseRequest, url: &str) -> Vec<Envelope> {
        let mut runs = self.runs();
        let is_new = runs.asked.insert(asked(poll));
        let granted = runs.grant(poll, url);
        drop(runs);
        if is_new || !granted.is_empty() {
            self.advance();
        }
        granted
    }

    /// Whether a token is that of a run whose replay goes on.
    pub(super) fn is_leased(&self, token: &str) -> Result<(), Refused> {
        self.runs().leased(token).map(|_| ())
    }

    /// What is recorded after a number.
    pub(super) fn page(
        &self,
        token: &str,
        after: u32,
    ) -> Result<wire::answers::Checkpoints, Refused> {
        let mut runs = self.runs();
        let served = runs.leased(token)?;
        Ok(match served.judge.mode() {
            Mode::Replay => served.judge.recording.page(after),
            Mode::Execute => {
                wire::answers::Checkpoints { checkpoints: Vec::new(), next_after: None }
            }
        })
    }

    pub(super) fn checkpoint(
        &self,
        task_id: String,
        token: &str,
        call: &CheckpointCall,
    ) -> CheckpointAnswer {
        let mut runs = self.runs();
        let served = match runs.leased(token) {
            Ok(served) => served,
            Err(refused) => return refusal(task_id, refused),
        };
        let answer = match served.judge.call(call) {
            Ok(fits) => goes_on(task_id, fits),
            Err(judged) => {
                served.state = ServedState::Over(judged);
                attempt_over(task_id, call)
            }
        };
        drop(runs);
        self.advance();
        answer
    }

    pub(super) fn completed(&self, token: &str, report: &Completed) -> Result<(), Refused> {
        let mut runs = self.runs();
        let served = runs.leased(token)?;
        let judged = served.judge.completed(report);
        served.state = ServedState::Over(judged);
        drop(runs);
        self.advance();
        Ok(())
    }

    pub(super) fn is_over(&self) -> bool {
        self.runs().served.iter().all(|it| matches!(it.state, ServedState::Over(_)))
    }

    /// Whether the worker has asked for work, holds none, and wants nothing of what is left.
    pub(super) fn is_unwanted(&self) -> bool {
        let runs = self.runs();
        let has_leased = runs.served.iter().any(|it| it.state == ServedState::Leased);
        !runs.asked.is_empty() && !has_leased
    }

    /// What came of each run; of one that is not over, why.
    pub(super) fn judged(&self, why: impl Fn(bool) -> Finding) -> Vec<Judged> {
        let runs = self.runs();
        let asked: Vec<String> = runs.asked.iter().cloned().collect();
        let judged = runs.served.iter().map(|served| match &served.state {
            ServedState::Over(judged) => judged.clone(),
            ServedState::Leased => Judged::Differs(why(true)),
            ServedState::Free => Judged::Differs(match why(false) {
                Finding::Silent { .. } if !asked.is_empty() => {
                    let head = &served.judge.recording.golden.head;
                    let (kind, queue) = (head.kind.clone(), head.queue.clone());
                    Finding::NotTaken { kind, queue, asked: asked.clone() }
                }
                other => other,
            }),
        });
        judged.collect()
    }
}

impl Runs {
    fn leased(&mut self, token: &str) -> Result<&mut Served, Refused> {
        let found = self.served.iter_mut().find(|it| it.token == token && !token.is_empty());
        match found {
            Some(served) if served.state == ServedState::Leased => Ok(served),
            Some(served) if served.state != ServedState::Free => Err(Refused::Over),
            _ => Err(Refused::Unknown),
        }
    }

    fn grant(&mut self, poll: &LeaseRequest, url: &str) -> Vec<Envelope> {
        let mut granted = Vec::new();
        for n in 0..self.served.len() {
            if granted.len() < poll.max as usize && self.may_get(n, poll) {
                let served = &mut self.served[n];
                served.state = ServedState::Leased;
                served.poll_id.clone_from(&poll.poll_id);
                granted.push(served.envelope(n, url));
            }
        }
        granted
    }

    fn may_get(&self, n: usize, poll: &LeaseRequest) -> bool {
        let served = &self.served[n];
        let head = &served.judge.recording.golden.head;
        let is_wanted = poll.queues.contains(&head.queue)
            && poll.kinds.as_ref().is_none_or(|kinds| kinds.contains(&head.kind));
        let is_again = poll.poll_id.is_some() && served.poll_id == poll.poll_id;
        match served.state {
            ServedState::Free => is_wanted && !self.is_task_leased(&head.task_id),
            ServedState::Leased => is_again,
            ServedState::Over(_) => false,
        }
    }

    fn is_task_leased(&self, task_id: &str) -> bool {
        let is_it = |it: &Served| it.judge.recording.golden.head.task_id == task_id;
        self.served.iter().any(|it| it.state == ServedState::Leased && is_it(it))
    }
}

impl Served {
    fn envelope(&self, n: usize, url: &str) -> Envelope {
        let recording = &self.judge.recording;
        let head = recording.golden.head.clone();
        let page = match self.judge.mode() {
            Mode::Replay => recording.page(recording.start()),
            Mode::Execute => {
                wire::answers::Checkpoints { checkpoints: Vec::new(), next_after: None }
            }
        };
        // One attempt after those that recorded it.
        let attempt = head.attempt.saturating_add(1);
        let expires_at = duration::from_now(LEASE);
        Envelope {
            budget_left: None,
            task_id: head.task_id,
            run_id: head.run_id,
            tenant_id: SCOPE.to_owned(),
            workspace_id: SCOPE.to_owned(),
            task_key: head.task_key,
            asset_id: head.asset_id,
            resources: None,
            kind: head.kind,
            queue: head.queue,
            attempt,
            lease_id: format!("replay-{n}"),
            fence: u64::from(attempt),
            input: head.input,
            enqueued_at: head.created_at,
            deadline: None,
            lease_expires_at: expires_at,
            callback_base_url: url.to_owned(),
            task_token: self.token.clone(),
            token_expires_at: expires_at,
            heartbeat_interval_ms: HEARTBEAT_INTERVAL_MS,
            heartbeat_timeout_ms: LEASE.as_millis() as u64,
            cancel_grace_period_ms: CANCEL_GRACE_MS,
            origin: head.labels.get(ORIGIN_LABEL).cloned(),
            labels: head.labels,
            traceparent: None,
            seed: head.seed,
            parent_task_id: None,
            stage: None,
            checkpoints: page.checkpoints,
            checkpoints_after: page.next_after,
        }
    }
}

pub(super) fn lease_expires_at() -> Time {
    duration::from_now(LEASE)
}

fn asked(poll: &LeaseRequest) -> String {
    let kinds = poll.kinds.as_ref().map_or_else(|| "any kind".to_owned(), |it| it.join(", "));
    format!("{kinds} on {}", poll.queues.join(", "))
}

fn goes_on(task_id: String, fits: Fits) -> CheckpointAnswer {
    let Fits { recorded_at, results, children } = fits;
    CheckpointAnswer {
        state: Some(State::Running),
        recorded_at: Some(recorded_at),
        results,
        children,
        lease_expires_at: Some(lease_expires_at()),
        ..committed(task_id)
    }
}

/// The worker forgets the task.
fn attempt_over(task_id: String, call: &CheckpointCall) -> CheckpointAnswer {
    let waits = call.wait.is_some() || call.diverged.is_some();
    let state = if waits { State::Waiting } else { State::Halted };
    let children: Vec<StartedChild> = Vec::new();
    CheckpointAnswer {
        state: Some(state),
        recorded_at: Some(duration::now()),
        children,
        ..committed(task_id)
    }
}

fn committed(task_id: String) -> CheckpointAnswer {
    CheckpointAnswer {
        task_id,
        status: 200,
        verdict: Some(Verdict::Committed),
        replayed: Some(true),
        should_cancel: Some(false),
        ..CheckpointAnswer::default()
    }
}

fn refusal(task_id: String, refused: Refused) -> CheckpointAnswer {
    let code = refused.code();
    CheckpointAnswer {
        task_id,
        status: code.status(),
        verdict: code.verdict(),
        error: Some(code.as_str().to_owned()),
        message: Some(code.title().to_owned()),
        ..CheckpointAnswer::default()
    }
}
