//! Operations that wait without a worker: sleeps, signals, approvals, calls and deliveries.
//!
//! Each takes its key, asks the coordinator for what it waits for, and reads what came first. With a limit, the timer
//! beside it may come first; the one that the coordinator committed first counts, in every replay.
//!
//! What waits can be dropped without harm, so these operations, and no others, can be members of `any`.

use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use serde::de::DeserializeOwned;
use wire::Time;
use wire::approvals::ApprovalTerms;
use wire::requests::{AwaitedEffect, SubmitRun};

use crate::command::{Awaited, Checkpoint, ChildRecord, Mode};
use crate::core::Core;
use crate::effect::EffectStep;
use crate::flow::Flow;
use crate::history::Entered;
use crate::key::{Branch, OperationKind, TIMEOUT};
use crate::operation::{Made, Operation, later};
use crate::stop::SourceLine;
use crate::{Digest, Failure};

/// What an operation waits for.
pub(crate) enum Ask {
    Timer(Duration),
    Signal(String),
    Call(Box<SubmitRun>),
    Approval(Box<ApprovalTerms>, Option<Duration>),
    /// The step that declares the effect comes first, in the same branch.
    Delivery(EffectStep),
    /// Its step is recorded.
    Declared(AwaitedEffect),
}

pub(crate) type Read<'m, T> = Box<dyn FnOnce(Option<Checkpoint>) -> Result<T, Failure> + Send + 'm>;

/// An operation that waits without a worker, with what becomes of its result. It begins when it is awaited.
#[must_use = "an operation begins when it is awaited"]
pub struct WaitCall<'m, T> {
    pub(crate) made: Made,
    /// What identifies it beside its key; a failure to write that is the result of the operation.
    pub(crate) identity: Result<Option<Digest>, Failure>,
    pub(crate) ask: Ask,
    pub(crate) within: Option<Duration>,
    /// Reads what came; nothing if time was over before.
    pub(crate) read: Read<'m, T>,
}

impl<'m, T> WaitCall<'m, T> {
    pub(crate) fn new(
        made: Made,
        ask: Ask,
        read: impl FnOnce(Option<Checkpoint>) -> Result<T, Failure> + Send + 'm,
    ) -> WaitCall<'m, T> {
        WaitCall { made, identity: Ok(None), ask, within: None, read: Box::new(read) }
    }

    /// The same operation with another value.
    pub fn map<U>(self, change: impl FnOnce(T) -> U + Send + 'm) -> WaitCall<'m, U>
    where
        T: 'm,
    {
        let WaitCall { made, identity, ask, within, read } = self;
        let read: Read<'m, U> = Box::new(move |came| read(came).map(change));
        WaitCall { made, identity, ask, within, read }
    }

    /// Whether it is a call that is waited for without a limit.
    pub(crate) fn is_plain_call(&self) -> bool {
        matches!(self.ask, Ask::Call(_)) && self.within.is_none() && self.identity.is_ok()
    }

    pub(crate) fn begun(mut self) -> Self {
        self.made = self.made.begun();
        self
    }

    pub(crate) fn inside(mut self, flow: &Flow) -> Self {
        self.made = self.made.inside(flow);
        self
    }

    /// Takes out what it waits for; its value can still be read.
    pub(crate) fn take_ask(&mut self) -> Ask {
        std::mem::replace(&mut self.ask, Ask::Signal(String::new()))
    }

    pub(crate) fn read(self, came: Option<Checkpoint>) -> Result<T, Failure> {
        (self.read)(came)
    }

    /// Waits in the branch that the operation was made in.
    pub(crate) async fn wait(self) -> Result<T, Failure> {
        let WaitCall { made, identity, ask, within, read } = self;
        let made = made.begun();
        let digest = identity?;
        let ask = ask.declared(&made.flow).await?;
        let mut operation = Operation::begin(made).await;
        let (key, entered) = operation.enter(digest).await;
        let (shared, branch) = (operation.shared.clone(), operation.branch.clone());
        let waiting = Waiting::new(key, ask, within, digest);
        shared.with(|core| waiting.start(core, &branch, entered));
        if !shared.with(|core| waiting.is_over(core)) {
            let now = if waiting.needs_time() { operation.record().await } else { Time::MIN };
            operation.arrival(waiting.mode(), waiting.items(now)).await;
        }
        let first = shared.with(|core| waiting.take(core, &branch));
        operation.end();
        read(first)
    }
}

impl<'m, T: 'm> IntoFuture for WaitCall<'m, T> {
    type Output = Result<T, Failure>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send + 'm>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.wait())
    }
}

impl Ask {
    /// Records what must be there before the wait, in the branch of this context.
    pub(crate) async fn declared(self, flow: &Flow) -> Result<Ask, Failure> {
        match self {
            Ask::Delivery(step) => step.declare(flow).await.map(Ask::Declared),
            ask => Ok(ask),
        }
    }
}

/// An operation that has taken its key.
pub(crate) struct Waiting {
    pub(crate) key: String,
    timer: String,
    ask: Ask,
    within: Option<Duration>,
    digest: Option<Digest>,
}

impl Waiting {
    pub(crate) fn new(
        key: String,
        ask: Ask,
        within: Option<Duration>,
        digest: Option<Digest>,
    ) -> Waiting {
        let timer = format!("{key}.{TIMEOUT}");
        Waiting { key, timer, ask, within, digest }
    }

    /// Starts the run of a call that is new.
    pub(crate) fn start(&self, core: &mut Core, branch: &Branch, entered: Entered) {
        if let (Ask::Call(run), Some(input_digest), Entered::New) =
            (&self.ask, self.digest, entered)
        {
            let (key, run) = (self.key.clone(), (**run).clone());
            core.start_child(branch, ChildRecord { key, input_digest, detached: false, run });
        }
    }

    /// The keys of which one ends the wait.
    pub(crate) fn keys(&self) -> [&str; 2] {
        [&self.key, &self.timer]
    }

    pub(crate) fn is_over(&self, core: &Core) -> bool {
        self.keys().iter().any(|key| core.has(key))
    }

    /// Whether its items have a time that counts from what is recorded, so that a repeated wait is the same wait.
    fn needs_time(&self) -> bool {
        self.within.is_some() || matches!(self.ask, Ask::Timer(_) | Ask::Approval(..))
    }

    fn mode(&self) -> Mode {
        match self.ask {
            Ask::Timer(_) | Ask::Call(_) if self.within.is_none() => Mode::All,
            _ => Mode::Any,
        }
    }

    pub(crate) fn items(&self, now: Time) -> Vec<Awaited> {
        let timer = self.within.map(|span| (self.timer.clone(), later(now, span)));
        let timer = timer.map(|(key, until)| Awaited::Timer { key, until });
        [self.item(now)].into_iter().chain(timer).collect()
    }

    fn item(&self, now: Time) -> Awaited {
        let key = self.key.clone();
        match &self.ask {
            Ask::Timer(span) => Awaited::Timer { key, until: later(now, *span) },
            Ask::Signal(name) => Awaited::Signal { key, signal: name.clone() },
            Ask::Call(_) => Awaited::Child { child: key.clone(), key },
            Ask::Approval(terms, span) => {
                let mut approval = terms.clone();
                approval.expires_at = span.map(|span| later(now, span));
                Awaited::Approval { key, approval }
            }
            Ask::Declared(effect) => Awaited::Effect { key, effect: effect.clone() },
            Ask::Delivery(_) => unreachable!("the effect of a delivery is declared first"),
        }
    }

    /// Takes what came first; nothing if that is the timer beside it.
    pub(crate) fn take(&self, core: &mut Core, branch: &Branch) -> Option<Checkpoint> {
        let first = core.take_first(branch, &self.keys()).expect("one of them has arrived");
        core.forget_parts(&self.key);
        (first.key == self.key).then_some(first)
    }
}

/// An operation that waits without a worker, and so can be a member of [`Flow::any`].
///
/// Steps and branches are not among them: what runs cannot be dropped.
///
/// ```compile_fail,E0277
/// # async fn example(flow: workflow::Flow) {
/// flow.any([("a", flow.step("a", async |_| Ok::<_, workflow::Failure>(1)))]).await;
/// # }
/// ```
pub trait Waits<'m>: Sized {
    type Value;

    #[doc(hidden)]
    fn into_wait(self) -> WaitCall<'m, Self::Value>;
}

impl<'m, T> Waits<'m> for WaitCall<'m, T> {
    type Value = T;

    fn into_wait(self) -> WaitCall<'m, T> {
        self
    }
}

/// Makes an operation out of a builder that has `fn into_wait_call(self) -> WaitCall<'static, T>`.
macro_rules! waits {
    ([$($generics:tt)*] $call:ty, $value:ty) => {
        impl<$($generics)*> $call {
            /// The same operation with another value, for members of `any` that give different types.
            pub fn map<'m, U>(
                self,
                change: impl FnOnce($value) -> U + Send + 'm,
            ) -> $crate::wait::WaitCall<'m, U>
            where
                $value: 'm,
            {
                self.into_wait_call().map(change)
            }
        }

        impl<'m, $($generics)*> $crate::wait::Waits<'m> for $call {
            type Value = $value;

            fn into_wait(self) -> $crate::wait::WaitCall<'m, $value> {
                self.into_wait_call()
            }
        }
    };
}
pub(crate) use waits;

/// A future of [`IntoFuture`].
pub(crate) type Boxed<'m, T> = Pin<Box<dyn Future<Output = T> + Send + 'm>>;

/// A sleep, which begins when it is awaited.
#[must_use = "a sleep begins when it is awaited"]
pub struct SleepCall {
    made: Made,
    span: Duration,
}

impl SleepCall {
    pub(crate) fn new(flow: &Flow, span: Duration, at: SourceLine) -> SleepCall {
        SleepCall { made: Made::new(flow, OperationKind::Sleep, "", at), span }
    }

    /// Gives the sleep a name, which its key has: `sleep:cool-off#1`.
    pub fn named(mut self, name: impl Into<String>) -> SleepCall {
        self.made.name = name.into();
        self
    }

    fn into_wait_call<'m>(self) -> WaitCall<'m, ()> {
        WaitCall::new(self.made, Ask::Timer(self.span), |_| Ok(()))
    }
}

waits!([] SleepCall, ());

impl IntoFuture for SleepCall {
    type Output = ();
    type IntoFuture = Boxed<'static, ()>;

    fn into_future(self) -> Self::IntoFuture {
        let wait = self.into_wait_call();
        Box::pin(async move { wait.wait().await.expect("a sleep has nothing to fail with") })
    }
}

/// A signal that is awaited.
#[must_use = "a signal is taken when it is awaited"]
pub struct SignalCall<T> {
    made: Made,
    reads: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> SignalCall<T> {
    pub(crate) fn new(flow: &Flow, name: String, at: SourceLine) -> SignalCall<T> {
        let made = Made::new(flow, OperationKind::Signal, name, at);
        SignalCall { made, reads: PhantomData }
    }

    /// Waits no longer than this; `None` when no signal has come by then. A signal that comes later stays for the next
    /// one that awaits it.
    pub fn within<'m>(self, span: Duration) -> WaitCall<'m, Option<T>> {
        let read = |came: Option<Checkpoint>| came.map(read_signal).transpose();
        let ask = Ask::Signal(self.made.name.clone());
        WaitCall { within: Some(span), ..WaitCall::new(self.made, ask, read) }
    }

    fn into_wait_call<'m>(self) -> WaitCall<'m, T> {
        let ask = Ask::Signal(self.made.name.clone());
        WaitCall::new(self.made, ask, |came| {
            // Recorded code may have had a limit. Then no signal is what was recorded.
            read_signal(came.ok_or_else(|| Failure::timeout("no signal came in time"))?)
        })
    }
}

waits!([T: DeserializeOwned] SignalCall<T>, T);

impl<T: DeserializeOwned + 'static> IntoFuture for SignalCall<T> {
    type Output = Result<T, Failure>;
    type IntoFuture = Boxed<'static, Result<T, Failure>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.into_wait_call().wait())
    }
}

fn read_signal<T: DeserializeOwned>(signal: Checkpoint) -> Result<T, Failure> {
    let payload = signal.result.unwrap_or_default();
    payload.read().map_err(|error| {
        Failure::data(format!("the payload of signal `{}` cannot be read: {error}", signal.key))
    })
}
