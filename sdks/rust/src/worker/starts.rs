//! Reports starts: all that are due go into one call, beside the heartbeats.
//!
//! A start is repeated, within a bound, while nothing was decided about it. An answer that refuses it
//! takes the lease away: code that already runs is stopped, and code that waits for the answer never
//! runs.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use wire::Verdict;
use wire::answers::{StartAnswer, StartAnswers};
use wire::limits::BATCH_ITEMS_MAX;
use wire::requests::{StartItem, Started, Starts};

use super::clock::Moment;
use super::event::{Events, WorkerEvent};
use super::heartbeats::{ANSWER_TIMEOUT_MIN, rejected};
use super::lease_state::Precondition;
use super::lease_table::HeldLease;
use crate::{Client, Error, Retries};

/// The least time between two calls with starts that may wait. Together with the delay of a start and
/// the time of a call it stays far below the 100 ms within which a start is sent.
pub(super) const START_SPACING: Duration = Duration::from_millis(2);

/// The status of a path that a coordinator does not serve.
const NOT_FOUND: u16 = 404;
/// The status of a call that was not decided.
const UNAVAILABLE: u16 = 503;

/// How many calls with starts may be in flight: an answer that does not come must not keep other
/// attempts from beginning.
const CALLS_MAX: usize = 4;

/// The calls with starts that are in flight.
pub(super) struct StartCalls {
    client: Client,
    retries: Retries,
    in_flight: FuturesUnordered<BoxFuture<'static, BatchAnswer>>,
}

pub(super) struct BatchAnswer {
    batch: Vec<Arc<HeldLease>>,
    answers: Result<Vec<StartAnswer>, Error>,
}

impl StartCalls {
    pub(super) fn new(client: Client, retries: Retries) -> StartCalls {
        StartCalls { client, retries, in_flight: FuturesUnordered::new() }
    }

    pub(super) fn may_send(&self) -> bool {
        self.in_flight.len() < CALLS_MAX
    }

    /// Sends every start that is due.
    pub(super) fn send_due(&mut self, live: &[Arc<HeldLease>], now: Moment) {
        let batch = if self.may_send() { take_due(live, now) } else { Vec::new() };
        if batch.is_empty() {
            return;
        }
        batch.iter().for_each(|held| held.send_start());
        self.in_flight.push(send(self.client.clone(), batch));
    }

    /// Waits for the next answer, without end if no call is in flight.
    pub(super) async fn next_answer(&mut self) -> BatchAnswer {
        match self.in_flight.next().await {
            Some(answered) => answered,
            None => pending().await,
        }
    }

    pub(super) fn apply(&self, answered: BatchAnswer, events: &Events) {
        let BatchAnswer { batch, answers } = answered;
        match answers {
            Ok(answers) if fits(&batch, &answers) => {
                for (held, answer) in batch.iter().zip(answers) {
                    self.apply_answer(held, answer, events);
                }
            }
            Err(error) if error.verdict().is_some() => {
                events.emit(rejected(None, &error));
                for held in batch {
                    held.lease_state.lose(error.to_string());
                }
            }
            other => {
                let why = other
                    .err()
                    .map_or("the answers do not match the starts".to_owned(), |e| e.to_string());
                tracing::warn!(why, "starts were not answered");
                for held in batch {
                    self.repeat(&held, &why, events);
                }
            }
        }
    }

    /// The attempt may have ended meanwhile. It then no longer heeds its lease, whatever the answer
    /// says.
    fn apply_answer(&self, held: &HeldLease, answer: StartAnswer, events: &Events) {
        let why = answer.error.unwrap_or_else(|| format!("status {}", answer.status));
        match answer.verdict {
            Some(Verdict::Committed) => held.start_answered(),
            None if matches!(answer.status, 429 | 503) => self.repeat(held, &why, events),
            Some(Verdict::Rejected) => {
                events.emit(WorkerEvent::Rejected {
                    task_id: Some(answer.task_id),
                    code: why.clone(),
                    message: answer.message.unwrap_or_default(),
                });
                held.lease_state.lose(why);
            }
            Some(Verdict::Cancelled) | None => held.lease_state.lose(why),
        }
    }

    /// Repeats a start about which nothing was decided, within the bound. Code that waits for the
    /// answer never runs if there is none; code that runs goes on under its heartbeats.
    fn repeat(&self, held: &HeldLease, why: &str, events: &Events) {
        let is_repeated = held.repeat_start(self.retries.times);
        if is_repeated || held.precondition == Precondition::Lease {
            return;
        }
        events.emit(WorkerEvent::Unanswered {
            task_id: held.envelope.task_id.clone(),
            attempt: held.envelope.attempt,
            why: why.to_owned(),
        });
        held.lease_state.lose(format!("its start was not answered: {why}"));
    }
}

fn take_due(live: &[Arc<HeldLease>], now: Moment) -> Vec<Arc<HeldLease>> {
    let is_due = |held: &&Arc<HeldLease>| held.start_due().is_some_and(|due| due.has_come(now));
    live.iter().filter(is_due).take(BATCH_ITEMS_MAX).cloned().collect()
}

pub(super) fn send(client: Client, batch: Vec<Arc<HeldLease>>) -> BoxFuture<'static, BatchAnswer> {
    async move {
        let starts: Vec<StartItem> = batch.iter().map(|held| held.start()).collect();
        let interval = batch.iter().map(|held| held.interval()).min().unwrap_or_default();
        let starts = Starts { starts };
        let timeout = interval.max(ANSWER_TIMEOUT_MIN);
        let answers = match client.starts_with_timeout(&starts, timeout).await {
            Err(error) if error.status() == Some(NOT_FOUND) => {
                Ok(send_one_by_one(&client, starts.starts).await)
            }
            other => other.map(|StartAnswers { answers, .. }| answers),
        };
        BatchAnswer { batch, answers }
    }
    .boxed()
}

/// For a coordinator that is older than batches of starts.
async fn send_one_by_one(client: &Client, starts: Vec<StartItem>) -> Vec<StartAnswer> {
    join_all(starts.into_iter().map(|start| send_one(client, start))).await
}

async fn send_one(client: &Client, start: StartItem) -> StartAnswer {
    let StartItem { task_id, task_token, attempt, worker_id, started_at } = start;
    let started = Started { attempt, worker_id, started_at };
    let answered = client.started(&task_id, &task_token, &started).await;
    let mut answer = StartAnswer::default();
    match answered {
        Ok(ack) => (answer.status, answer.verdict) = (200, Some(ack.verdict)),
        Err(error) if error.verdict().is_none() => answer.status = UNAVAILABLE,
        Err(error) => {
            answer.status = error.status().unwrap_or(UNAVAILABLE);
            answer.verdict = error.verdict();
            answer.error = error.problem().map(|problem| problem.error.clone());
            answer.message = Some(error.message());
        }
    }
    answer.task_id = task_id;
    answer
}

fn fits(batch: &[Arc<HeldLease>], answers: &[StartAnswer]) -> bool {
    batch.len() == answers.len()
        && batch.iter().zip(answers).all(|(held, answer)| held.envelope.task_id == answer.task_id)
}
