//! Steps: work with effects, executed at least once and recorded once.
//!
//! A failed try is recorded under its own key (`charge#1.2`), and the pause before the next try is a durable timer, so a
//! worker that dies in between neither repeats a counted try nor shortens a pause. The final result is recorded under the
//! key of the step. Settings (retries, timeout, what a failure means) are not part of the identity: they may change under
//! a run.

mod execution;

use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::answers::BudgetLeft;

use self::execution::Execution;
use crate::command::Spend;
use crate::effect::Effect;
use crate::flow::Flow;
use crate::key::OperationKind;
use crate::operation::Made;
use crate::stop::SourceLine;
use crate::wait::Boxed;
use crate::{Digest, Failure};

/// A step that failed a hundred times needs a person.
const TRIES_MAX: u32 = 100;
/// Enough to reach any cap.
const DOUBLINGS_MAX: u32 = 30;

/// How often a step is tried, and how the pause between tries grows: from `base`, doubling, up to `cap`, plus up to half
/// of `base` that follows from the run's seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    tries: u32,
    base: Duration,
    cap: Duration,
}

impl Retry {
    /// At most this many tries, between 1 and 100.
    pub fn tries(tries: u32) -> Retry {
        let (base, cap) = (Duration::from_secs(5), Duration::from_secs(300));
        Retry { tries: tries.clamp(1, TRIES_MAX), base, cap }
    }

    #[must_use]
    pub fn base(self, base: Duration) -> Retry {
        Retry { base, ..self }
    }

    #[must_use]
    pub fn cap(self, cap: Duration) -> Retry {
        Retry { cap, ..self }
    }

    fn allows(&self, number: u32, failure: &Failure) -> bool {
        number < self.tries && failure.is_retryable()
    }

    fn pause(&self, number: u32, draw: u64) -> Duration {
        let doublings = number.saturating_sub(1).min(DOUBLINGS_MAX);
        let exponential = self.base.saturating_mul(1 << doublings).min(self.cap);
        let half = u64::try_from(self.base.as_millis() / 2).unwrap_or(u64::MAX);
        exponential.saturating_add(Duration::from_millis(draw % half.saturating_add(1)))
    }
}

/// What the failure of a step means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// The run fails with it; the code is not resumed.
    Abort,
    /// It is a value that the code gets. With `?` after it, the run fails unless the code does something else.
    #[default]
    Continue,
    /// The step is tried again, as its [`Retry`] says. What remains after the last try is a value.
    Retry,
}

/// What the work of a step is given.
#[derive(Clone, Debug)]
pub struct Step {
    idempotency_key: String,
    fence: u64,
    number: u32,
    spend: Arc<Mutex<Option<Spend>>>,
    effects: Arc<Mutex<Vec<Effect>>>,
    left: Option<BudgetLeft>,
}

impl Step {
    /// The same in every try and every attempt: pass it to services that recognise repeated requests.
    pub fn idempotency_key(&self) -> &str {
        &self.idempotency_key
    }

    /// Larger in every attempt: a store that remembers the largest fence it has seen can refuse a late worker.
    pub fn fence(&self) -> u64 {
        self.fence
    }

    /// Numbers the tries of this step, from 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// What was left of the run's budget when this try started; `None` without a budget. Ask for a smaller answer, or a cheaper
    /// model, instead of crossing the limit.
    pub fn left(&self) -> Option<&BudgetLeft> {
        self.left.as_ref()
    }

    /// Adds to what this try used of the run's budget.
    pub fn spend(&self, more: Spend) {
        let mut spend = self.spend.lock().unwrap_or_else(PoisonError::into_inner);
        *spend = Some(spend.unwrap_or_default().plus(more));
    }

    /// Asks for an effect, which is recorded with the step if this try succeeds.
    pub fn effect(&self, effect: Effect) {
        self.effects.lock().unwrap_or_else(PoisonError::into_inner).push(effect);
    }

    fn declared(&self) -> Vec<Effect> {
        std::mem::take(&mut *self.effects.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn spent(&self) -> Option<Spend> {
        *self.spend.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A step that begins when it is awaited.
#[must_use = "a step does nothing unless it is awaited"]
pub struct StepCall<'w, W> {
    made: Made,
    work: W,
    input: Result<Option<Digest>, Failure>,
    settings: Settings,
    borrows: PhantomData<&'w ()>,
}

/// What is not part of a step's identity.
#[derive(Clone, Copy)]
struct Settings {
    retry: Retry,
    timeout: Option<Duration>,
    on_error: OnError,
    at: SourceLine,
}

impl<'w, W> StepCall<'w, W> {
    pub(crate) fn new(flow: &Flow, name: String, work: W, at: SourceLine) -> StepCall<'w, W> {
        let made = Made::new(flow, OperationKind::Step, name, at);
        let (retry, on_error) = (Retry::tries(1), OnError::default());
        let settings = Settings { retry, timeout: None, on_error, at };
        StepCall { made, work, input: Ok(None), settings, borrows: PhantomData }
    }

    /// What the work depends on. A replay with another input is a divergence.
    pub fn input<I: Serialize + ?Sized>(mut self, input: &I) -> Self {
        let unwritable = |error| Failure::named("INPUT_UNWRITABLE", error);
        let digest = self.made.flow.shared.digest_of(input);
        self.input = digest.map(Some).map_err(unwritable);
        self
    }

    /// Tries again after a failure that another try can mend.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.settings.retry = retry;
        self.on_error(OnError::Retry)
    }

    /// How long one try may take. A try that takes longer is dropped and has failed.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = Some(timeout);
        self
    }

    pub fn on_error(mut self, on_error: OnError) -> Self {
        self.settings.on_error = on_error;
        self
    }

    pub(crate) fn begun(mut self) -> Self {
        self.made = self.made.begun();
        self
    }

    pub(crate) fn inside(mut self, flow: &Flow) -> Self {
        self.made = self.made.inside(flow);
        self
    }

    /// The result, and the key that it is recorded under.
    pub(crate) async fn keyed<Fut, T>(self) -> Result<(T, String), Failure>
    where
        W: FnMut(Step) -> Fut,
        Fut: Future<Output = Result<T, Failure>>,
        T: Serialize + DeserializeOwned,
    {
        let StepCall { made, mut work, input, settings, borrows: _ } = self;
        let made = made.begun();
        let execution = Execution::begin(made, input?, settings).await;
        let key = execution.key().to_owned();
        execution.result(&mut work).await.map(|result| (result, key))
    }
}

impl<'w, W, Fut, T> IntoFuture for StepCall<'w, W>
where
    W: FnMut(Step) -> Fut + Send + 'w,
    Fut: Future<Output = Result<T, Failure>> + Send + 'w,
    T: Serialize + DeserializeOwned + Send + 'w,
{
    type Output = Result<T, Failure>;
    type IntoFuture = Boxed<'w, Result<T, Failure>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.keyed().await.map(|(result, _)| result) })
    }
}
