//! A submitted run: its status, its end, its output, and its cancellation.
//!
//! A handle is an id and a client. It caches nothing of the run, so it never goes stale, and
//! dropping it has no effect.

mod durable;
mod logs;

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;
use wire::answers::{CancelAccepted, Explanation, History, Record, Run, RunAccepted};
use wire::requests::{CancelRun, ForkRun, HistoryQuery, RecordQuery, RetryRun};
use wire::{Json, State};
use workflow::Kind;

pub use self::durable::SignalRequest;
use crate::client::Found;
use crate::new_run::millis;
use crate::run_failure::RunFailure;
use crate::{Budget, Client, Error, payload};

/// The longest the coordinator holds a call open.
const WAIT_MS_MAX: u64 = *wire::limits::WAIT_MS.end();

/// A run, by its id. Cheap to clone; dropping it does not stop the run.
///
/// ```no_run
/// # async fn example(client: tenure::Client) -> Result<(), tenure::Error> {
/// use tenure::Kind;
///
/// #[derive(serde::Deserialize)]
/// struct Thumbnail { url: String }
/// const RESIZE: Kind<String, Thumbnail> = Kind::new("resize").queue("images");
///
/// let run = client.submit(RESIZE, "cat.png").await?;
/// match run.result().await {
///     Ok(thumbnail) => println!("{}", thumbnail.url),
///     Err(tenure::Error::RunFailed(failure)) => println!("{}: {}", failure.reason, failure.message),
///     Err(error) => return Err(error),
/// }
/// # Ok(()) }
/// ```
pub struct RunHandle<O = Value> {
    client: Client,
    id: String,
    /// A handle can read an output and holds none.
    output: PhantomData<fn() -> O>,
}

impl<O> Clone for RunHandle<O> {
    fn clone(&self) -> RunHandle<O> {
        RunHandle::new(self.client.clone(), self.id.clone())
    }
}

impl<O> fmt::Debug for RunHandle<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunHandle").field("id", &self.id).finish_non_exhaustive()
    }
}

impl<O> RunHandle<O> {
    pub(crate) fn new(client: Client, id: String) -> RunHandle<O> {
        RunHandle { client, id, output: PhantomData }
    }

    /// The same run as one of this kind, whose output [`RunHandle::result`] reads.
    pub fn of<I, T>(&self, _: Kind<I, T>) -> RunHandle<T> {
        RunHandle::new(self.client.clone(), self.id.clone())
    }

    /// The same run with any output.
    pub fn untyped(&self) -> RunHandle {
        RunHandle::new(self.client.clone(), self.id.clone())
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// The run as it is now.
    pub async fn status(&self) -> Result<Run, Error> {
        self.client.get_json(&["v1", "runs", &self.id], &()).await
    }

    /// Waits until the run has ended, however long that takes. A failed or cancelled run is an
    /// answer here, not an error; check [`Run::state`].
    pub async fn wait(&self) -> Result<Run, Error> {
        self.whole(self.ended().await?).await
    }

    /// Waits until the run has ended or `timeout` has passed, and returns the run as it is then.
    pub async fn wait_timeout(&self, timeout: Duration) -> Result<Run, Error> {
        self.whole(self.ended_within(timeout).await?).await
    }

    async fn ended(&self) -> Result<Found, Error> {
        loop {
            let found = self.client.ended(&self.id, None).await?;
            if found.run.state.is_terminal() {
                return Ok(found);
            }
        }
    }

    async fn ended_within(&self, timeout: Duration) -> Result<Found, Error> {
        let Some(until) = Instant::now().checked_add(timeout) else { return self.ended().await };
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let found = self.client.ended(&self.id, Some(left)).await?;
            if found.run.state.is_terminal() || Instant::now() >= until {
                return Ok(found);
            }
        }
    }

    /// The run with its input and children.
    async fn whole(&self, found: Found) -> Result<Run, Error> {
        if found.is_whole { Ok(found.run) } else { self.status().await }
    }

    /// Waits for the run and reads its output. Returns [`Error::RunFailed`] if the run did not succeed and
    /// [`Error::OutputUnreadable`] if the output is not of the kind's type.
    pub async fn result(&self) -> Result<O, Error>
    where
        O: DeserializeOwned,
    {
        read_output(&self.client, self.ended().await?.run)
    }

    /// [`RunHandle::result`], for `timeout` at most: then it is [`Error::TimedOut`], and the run goes on.
    pub async fn result_timeout(&self, timeout: Duration) -> Result<O, Error>
    where
        O: DeserializeOwned,
    {
        let run = self.ended_within(timeout).await?.run;
        if !run.state.is_terminal() {
            return Err(Error::TimedOut { run_id: run.run_id, state: run.state, timeout });
        }
        read_output(&self.client, run)
    }

    /// Asks the run to stop; its worker gets the grace period to clean up.
    pub fn cancel(&self) -> CancelRequest {
        CancelRequest { run: self.untyped(), mode: CancelMode::Graceful, reason: None }
    }

    /// Revokes the worker's lease and ends the run at once.
    pub fn cancel_now(&self) -> CancelRequest {
        self.cancel().mode(CancelMode::Immediate)
    }

    /// Submits a run that ended without success once more, as a new run with the same settings and from the beginning.
    /// Await it to get the new run. A run that has recorded steps or started children is refused with `run_has_records`: continue
    /// it with [`RunHandle::fork`], or say [`RetryRequest::from_scratch`].
    ///
    /// ```no_run
    /// # async fn example(run: tenure::RunHandle) -> Result<(), tenure::Error> {
    /// let again = run.retry().await?;
    /// println!("{} repeats {}", again.id(), run.id());
    /// # Ok(()) }
    /// ```
    pub fn retry(&self) -> RetryRequest<O> {
        RetryRequest { run: self.clone(), asked: RetryRun::default(), key: None }
    }

    /// Continues a run that ended without success from its recorded steps, as a new run with its own budget.
    /// Await it to get the new run.
    ///
    /// ```no_run
    /// # async fn example(run: tenure::RunHandle) -> Result<(), tenure::Error> {
    /// use tenure::Budget;
    ///
    /// let next = run.fork().budget(Budget::new().cost_micros(500_000)).await?;
    /// println!("{} continues {}", next.id(), run.id());
    /// # Ok(()) }
    /// ```
    pub fn fork(&self) -> ForkRequest<O> {
        ForkRequest { run: self.clone(), asked: ForkRun::default(), key: None }
    }

    /// The decisions about the run, entry by entry.
    pub fn history(&self) -> HistoryRequest {
        HistoryRequest { run: self.untyped(), query: HistoryQuery::default() }
    }

    /// The provenance of an ended run, with all its attempts.
    pub async fn record(&self) -> Result<Record, Error> {
        let mut record = self.record_page(None).await?;
        while let Some(after) = record.next_after.take() {
            let page = self.record_page(Some(after)).await?;
            record.attempts.extend(page.attempts);
            record.next_after = page.next_after;
        }
        Ok(record)
    }

    async fn record_page(&self, after: Option<u32>) -> Result<Record, Error> {
        let query = RecordQuery { after, limit: None };
        self.client.get_json(&["v1", "runs", &self.id, "record"], &query).await
    }

    /// Explains why the run is not running or has not ended.
    pub async fn explain(&self) -> Result<Explanation, Error> {
        self.client.get_json(&["v1", "runs", &self.id, "explain"], &()).await
    }
}

impl RunHandle {
    /// [`RunHandle::result`] of a run whose kind has no type here.
    pub async fn output<T: DeserializeOwned>(&self) -> Result<T, Error> {
        read_output(&self.client, self.ended().await?.run)
    }
}

pub(crate) fn read_output<T: DeserializeOwned>(client: &Client, run: Run) -> Result<T, Error> {
    if run.state != State::Succeeded {
        return Err(Error::RunFailed(Box::new(RunFailure::of(run))));
    }
    let sealed = |why| Error::Setup(format!("the output of {} {why}", run.run_id));
    let output = run.output.unwrap_or_else(Json::null);
    let output = client.codec().open(output).map_err(sealed)?;
    payload::read(&output).map_err(|source| Error::OutputUnreadable { run_id: run.run_id, source })
}

/// How a cancel treats a run that a worker holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CancelMode {
    /// Signal the worker and wait for the grace period.
    #[default]
    Graceful,
    /// Revoke the lease at once.
    Immediate,
}

/// A cancel, sent by awaiting it.
#[derive(Clone, Debug)]
#[must_use = "nothing is cancelled until this is awaited"]
pub struct CancelRequest {
    run: RunHandle,
    mode: CancelMode,
    reason: Option<String>,
}

impl CancelRequest {
    /// Passed to the worker, and kept with the run.
    pub fn reason(mut self, reason: impl Into<String>) -> CancelRequest {
        self.reason = Some(reason.into());
        self
    }

    pub fn mode(mut self, mode: CancelMode) -> CancelRequest {
        self.mode = mode;
        self
    }
}

impl IntoFuture for CancelRequest {
    type Output = Result<CancelAccepted, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let force = (self.mode == CancelMode::Immediate).then_some(true);
            let body = CancelRun { reason: self.reason, force };
            self.run.client.post_json(&["v1", "runs", &self.run.id, "cancel"], &body).await
        })
    }
}

/// A fork, sent by awaiting it.
#[derive(Debug)]
#[must_use = "nothing is submitted until this is awaited"]
pub struct ForkRequest<O = Value> {
    run: RunHandle<O>,
    asked: ForkRun,
    key: Option<String>,
}

impl<O> ForkRequest<O> {
    /// What the new run may use. Without it, as much as the old run could.
    pub fn budget(mut self, budget: Budget) -> ForkRequest<O> {
        self.asked.budget = Some(budget.into_wire());
        self
    }

    /// The key of the first step that is executed again.
    pub fn from_step(mut self, key: impl Into<String>) -> ForkRequest<O> {
        self.asked.from_step = Some(key.into());
        self
    }

    /// An idempotency key: a repeated fork under the same key returns the run that the first one made. Without one,
    /// each fork submits another run.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> ForkRequest<O> {
        self.key = Some(key.into());
        self
    }

    /// Sends the fork and returns the coordinator's whole answer.
    pub async fn accepted(self) -> Result<RunAccepted, Error> {
        self.run.client.send_fork(&self.run.id, &self.asked, self.key).await
    }
}

impl<O: 'static> IntoFuture for ForkRequest<O> {
    type Output = Result<RunHandle<O>, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let client = self.run.client.clone();
            Ok(RunHandle::new(client, self.accepted().await?.run_id))
        })
    }
}

/// A retry, sent by awaiting it.
#[derive(Debug)]
#[must_use = "nothing is submitted until this is awaited"]
pub struct RetryRequest<O = Value> {
    run: RunHandle<O>,
    asked: RetryRun,
    key: Option<String>,
}

impl<O> RetryRequest<O> {
    /// Executes again what the run has recorded, under new idempotency keys.
    pub fn from_scratch(mut self) -> RetryRequest<O> {
        self.asked.from_scratch = true;
        self
    }

    /// An idempotency key: a repeated retry under the same key returns the run that the first one made. Without one,
    /// each retry submits another run.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> RetryRequest<O> {
        self.key = Some(key.into());
        self
    }

    /// Sends the retry and returns the coordinator's whole answer, which says whether an earlier retry
    /// under the same key made the run.
    pub async fn accepted(self) -> Result<RunAccepted, Error> {
        self.run.client.send_retry(&self.run.id, &self.asked, self.key).await
    }
}

impl<O: 'static> IntoFuture for RetryRequest<O> {
    type Output = Result<RunHandle<O>, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let client = self.run.client.clone();
            Ok(RunHandle::new(client, self.accepted().await?.run_id))
        })
    }
}

/// A page of a run's history; await it to read it.
#[derive(Clone, Debug)]
#[must_use = "nothing is read until this is awaited"]
pub struct HistoryRequest {
    run: RunHandle,
    query: HistoryQuery,
}

impl HistoryRequest {
    /// Only entries after this one: the `next_after` of the page before.
    pub fn after(mut self, entry: u64) -> HistoryRequest {
        self.query.after = Some(entry);
        self
    }

    /// At most this many entries.
    pub fn limit(mut self, entries: u32) -> HistoryRequest {
        self.query.limit = Some(entries);
        self
    }

    /// How long to wait if there is no new entry.
    pub fn wait(mut self, wait: Duration) -> HistoryRequest {
        self.query.wait_ms = Some(millis(wait).min(WAIT_MS_MAX));
        self
    }
}

impl IntoFuture for HistoryRequest {
    type Output = Result<History, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let path = ["v1", "runs", &self.run.id, "history"];
            self.run.client.long_poll(&path, &self.query, self.query.wait_ms).await
        })
    }
}
