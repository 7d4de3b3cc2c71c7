//! The tries of one step: replayed if they are recorded, executed if they are not.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::Json;

use super::{OnError, Settings, Step};
use crate::alarm::WorkWaker;
use crate::command::{Checkpoint, Outcome, Spend, StepRecord};
use crate::core::Ending;
use crate::effect::Effect;
use crate::operation::{Made, Operation};
use crate::run::encode;
use crate::stop::{Difference, Divergence, Seen};
use crate::{Digest, Failure};

pub(super) struct Execution {
    operation: Operation,
    key: String,
    input_digest: Option<Digest>,
    settings: Settings,
}

impl Execution {
    pub(super) async fn begin(
        made: Made,
        input_digest: Option<Digest>,
        settings: Settings,
    ) -> Execution {
        let mut operation = Operation::begin(made).await;
        let (key, _) = operation.enter(input_digest).await;
        Execution { operation, key, input_digest, settings }
    }

    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// What the code gets: the recorded result, now or in every replay.
    pub(super) async fn result<W, Fut, T>(self, work: &mut W) -> Result<T, Failure>
    where
        W: FnMut(Step) -> Fut,
        Fut: Future<Output = Result<T, Failure>>,
        T: Serialize + DeserializeOwned,
    {
        let checkpoint = match self.operation.take(&self.key) {
            Some(recorded) => recorded,
            None => self.tries(work).await,
        };
        self.operation.shared.with(|core| core.forget_parts(&self.key));
        self.read(checkpoint).await
    }

    /// Tries until there is a result to record.
    async fn tries<W, Fut, T>(&self, work: &mut W) -> Checkpoint
    where
        W: FnMut(Step) -> Fut,
        Fut: Future<Output = Result<T, Failure>>,
        T: Serialize,
    {
        let mut number = 1;
        loop {
            let part = format!("{}.{number}", self.key);
            let recorded = self.operation.take(&part).and_then(|part| part.error);
            let is_recorded = recorded.is_some();
            let (result, spend, effects) = match recorded {
                Some(failure) => (Err(failure), None, Vec::new()),
                None => {
                    let step = self.start(number).await;
                    let result = self.work(work(step.clone())).await;
                    (result, step.spent(), step.declared())
                }
            };
            let failure = match result {
                Err(failure) if self.may_retry(number, &failure) => failure,
                result => return self.record(&self.key, result, spend, effects),
            };
            if !is_recorded {
                self.record(&part, Err(failure), spend, Vec::new());
            }
            self.pause(number).await;
            number += 1;
        }
    }

    fn may_retry(&self, number: u32, failure: &Failure) -> bool {
        let Settings { retry, on_error, .. } = self.settings;
        on_error == OnError::Retry && retry.allows(number, failure)
    }

    async fn start(&self, number: u32) -> Step {
        self.operation.start(number, self.settings.timeout).await;
        self.operation.shared.with(|core| Step {
            idempotency_key: format!("{}/{}", core.origin, self.key),
            fence: core.fence,
            number,
            spend: Arc::default(),
            effects: Arc::default(),
            left: core.left.clone(),
        })
    }

    /// Polls the work with a waker that is known to be a step's, until it ends or its time is over.
    async fn work<T: Serialize>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<Json, Failure> {
        let shared = &self.operation.shared;
        let mut work = pin!(work);
        let result = std::future::poll_fn(|cx| {
            if shared.with(|core| core.is_timed_out(&self.key)) {
                return Poll::Ready(Err(Failure::timed_out()));
            }
            let waker = WorkWaker { alarm: shared.alarm.clone(), outer: cx.waker().clone() };
            let waker = Waker::from(Arc::new(waker));
            match work.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(result) => Poll::Ready(result),
                Poll::Pending => {
                    shared.with(|core| core.park(cx.waker()));
                    Poll::Pending
                }
            }
        });
        let result = result.await;
        shared.with(|core| core.stopped_running(&self.key));
        encode(&result?)
    }

    /// Keeps a result for the next call. Later code sees what will be recorded.
    fn record(
        &self,
        key: &str,
        result: Result<Json, Failure>,
        spend: Option<Spend>,
        effects: Vec<Effect>,
    ) -> Checkpoint {
        // What a failed try asked for does not happen.
        let effects = if result.is_ok() { effects } else { Vec::new() };
        let step = match result {
            Ok(json) => StepRecord::succeeded(key.to_owned(), json, self.input_digest),
            Err(failure) => StepRecord::failed(key.to_owned(), failure, self.input_digest),
        };
        let step = StepRecord { spend, effects, ..step };
        let branch = &self.operation.branch;
        self.operation.shared.with(|core| {
            core.finish(branch, step.clone());
            step.recorded_at(core.branch(branch).now)
        })
    }

    /// Waits before the next try, with a durable timer that begins when the failure is recorded.
    async fn pause(&self, number: u32) {
        let branch = &self.operation.branch;
        let draw = self.operation.shared.with(|core| core.jitter(branch, &self.key, number));
        let timer = format!("{}.{number}.wait", self.key);
        self.operation.pause(timer, || self.settings.retry.pause(number, draw)).await;
    }

    async fn read<T: DeserializeOwned>(self, checkpoint: Checkpoint) -> Result<T, Failure> {
        let Checkpoint { outcome, result, error, .. } = checkpoint;
        if outcome == Outcome::Succeeded {
            return match result.unwrap_or_default().read() {
                Ok(value) => {
                    self.operation.end();
                    Ok(value)
                }
                Err(problem) => self.operation.stop(self.unreadable(problem.to_string())).await,
            };
        }
        let failure = error.unwrap_or_else(|| Failure::permanent("recorded without an error"));
        if self.settings.on_error == OnError::Abort {
            self.operation.shared.with(|core| core.end(Ending::Abort(failure)));
            return std::future::pending().await;
        }
        self.operation.end();
        Err(failure)
    }

    fn unreadable(&self, problem: String) -> Divergence {
        let branch = &self.operation.branch;
        let index = self.operation.shared.with(|core| core.branch(branch).index);
        let recorded = Seen { key: self.key.clone(), input_digest: self.input_digest };
        Divergence {
            difference: Difference::Unreadable(problem),
            branch: branch.as_str().to_owned(),
            index: index.saturating_sub(1),
            recorded: Some(recorded),
            actual: None,
            at: Some(self.settings.at),
        }
    }
}
