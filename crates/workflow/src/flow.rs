//! The context of a durable function: everything that it may wait for, read or draw.
//!
//! A context belongs to one branch. What it gives is a function of the record: the code sees the same results, times and
//! numbers in every attempt. It does no I/O; only the work of a step does.

use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::Time;

use crate::Failure;
use crate::all::{AllCall, Members};
use crate::any::AnyCall;
use crate::approval::ApprovalCall;
use crate::branch::BranchCall;
use crate::children::{ChildCall, ChildrenCall, MapKind};
use crate::command::StepRecord;
use crate::effect::{Effect, EffectCall};
use crate::key::{self, Branch, OperationKind};
use crate::kind::RunKind;
use crate::operation::{Made, Operation};
use crate::run::encode;
use crate::shared::Shared;
use crate::step::{Step, StepCall};
use crate::stop::{Misuse, SourceLine};
use crate::wait::{SignalCall, SleepCall, Waits};

/// The context of a durable function, or of one of its branches.
#[derive(Clone)]
pub struct Flow {
    pub(crate) shared: Arc<Shared>,
    pub(crate) branch: Branch,
}

impl Flow {
    pub(crate) fn root(shared: Arc<Shared>) -> Flow {
        Flow { shared, branch: Branch::root() }
    }

    /// Executes `work` at least once and records its result once: in every later attempt the recorded result is
    /// returned, and `work` is not called.
    ///
    /// The work gets a [`Step`] with an idempotency key, the same in every try, and the fence of the lease. It may borrow
    /// from the function, and await whatever it likes. Results go through JSON even when they were not read from a
    /// record, so that the code sees the same value in every attempt.
    #[track_caller]
    pub fn step<'w, W, Fut, T>(&self, name: impl Into<String>, work: W) -> StepCall<'w, W>
    where
        W: FnMut(Step) -> Fut + 'w,
        Fut: Future<Output = Result<T, Failure>> + 'w,
    {
        StepCall::new(self, name.into(), work, Location::caller())
    }

    /// Waits without a worker until the time is over. [`named`](SleepCall::named) gives it a name in the record.
    #[track_caller]
    pub fn sleep(&self, span: Duration) -> SleepCall {
        SleepCall::new(self, span, Location::caller())
    }

    /// Waits for a signal of this name, and takes the oldest one that was not taken.
    #[track_caller]
    pub fn signal<T: DeserializeOwned>(&self, name: impl Into<String>) -> SignalCall<T> {
        SignalCall::new(self, name.into(), Location::caller())
    }

    /// Sends something to a registered endpoint, once: it is recorded as a step of this name, and the coordinator delivers it
    /// afterwards, in order. Awaited as it is, it does not wait for the delivery;
    /// [`delivered`](EffectCall::delivered) does.
    #[track_caller]
    pub fn effect(&self, name: impl Into<String>, effect: Effect) -> EffectCall {
        EffectCall::new(self, name.into(), effect, Location::caller())
    }

    /// Asks people, and waits without a worker until they have decided. A rejection is a value, like an approval.
    ///
    /// Votes outlive everything else that wakes the function meanwhile, as long as the code asks for the same of the
    /// same people.
    #[track_caller]
    pub fn approval(&self, name: impl Into<String>) -> ApprovalCall {
        ApprovalCall::new(self, name.into(), Location::caller())
    }

    /// Starts a run of a kind and waits for its end without a worker. Its failure is a value.
    ///
    /// The call is named after the kind, with `-` for `/` and `:`, unless [`named`](ChildCall::named) says otherwise.
    ///
    /// ```
    /// use workflow::{Failure, Flow, Kind};
    ///
    /// const PACK: Kind<String, u32> = Kind::new("pack").queue("orders");
    ///
    /// async fn order(flow: Flow, item: String) -> Result<u32, Failure> {
    ///     flow.call(PACK, &item).priority(5).await
    /// }
    /// # drop(workflow::function(order));
    /// ```
    ///
    /// Another input does not compile:
    ///
    /// ```compile_fail,E0277
    /// # use workflow::{Failure, Flow, Kind};
    /// # const PACK: Kind<String, u32> = Kind::new("pack").queue("orders");
    /// # async fn order(flow: Flow, item: String) -> Result<u32, Failure> {
    /// flow.call(PACK, &7).await
    /// # }
    /// ```
    #[track_caller]
    pub fn call<J, K>(&self, kind: K, input: &J) -> ChildCall<K::Output>
    where
        J: Serialize + ?Sized,
        K: RunKind<J>,
    {
        ChildCall::of_kind(self, kind, input, Location::caller())
    }

    /// Calls a kind for each item, and waits until all have ended. The results come in the order of the items;
    /// [`all`](ChildrenCall::all) gives the first failure or every result.
    #[track_caller]
    pub fn map<I, K>(&self, kind: K, items: I) -> ChildrenCall<K::Output>
    where
        I: IntoIterator,
        K: MapKind<I::Item>,
    {
        ChildrenCall::of_kind(self, kind, items, Location::caller())
    }

    /// Does several operations at once, a tuple or a list of them, and waits for all: every value, or the first failure
    /// by place.
    ///
    /// ```
    /// use workflow::{Failure, Flow};
    ///
    /// async fn trip(flow: Flow, _: ()) -> Result<(String, u32), Failure> {
    ///     let flight = flow.step("flight", async |_| Ok("LH 7".to_owned()));
    ///     let hotel = flow.branch("hotel", async |flow: Flow| {
    ///         flow.step("ask", async |_| Ok(())).await?;
    ///         flow.step("book", async |_| Ok(12)).await
    ///     });
    ///     flow.all((flight, hotel)).await
    /// }
    /// # drop(workflow::function(trip));
    /// ```
    #[track_caller]
    pub fn all<'m, M>(&self, members: M) -> AllCall<'m, M::Values>
    where
        M: Members<'m, Values: 'm>,
    {
        AllCall::of(self, members, Location::caller())
    }

    /// Waits for the first of several signals, sleeps, calls, approvals and deliveries: its name and its value. Members
    /// of different types are brought to one by `map`.
    ///
    /// The first is the one that the coordinator committed first. A signal that lost stays for the next one that awaits
    /// it, and a call that lost is cancelled when the run ends.
    ///
    /// ```
    /// use std::time::Duration;
    /// use workflow::{Failure, Flow};
    ///
    /// async fn asked(flow: Flow, _: ()) -> Result<String, Failure> {
    ///     let answer = flow.signal::<String>("answer").map(Some);
    ///     let late = flow.sleep(Duration::from_secs(60)).map(|()| None);
    ///     match flow.any([("answer", answer), ("late", late)]).await? {
    ///         ("answer", Some(text)) => Ok(text),
    ///         _ => Ok("no answer".to_owned()),
    ///     }
    /// }
    /// # drop(workflow::function(asked));
    /// ```
    #[track_caller]
    pub fn any<'m, N, M>(
        &self,
        members: impl IntoIterator<Item = (N, M)>,
    ) -> AnyCall<'m, N, M::Value>
    where
        N: AsRef<str>,
        M: Waits<'m>,
    {
        AnyCall::new(self, members, Location::caller())
    }

    /// Code with a cursor of its own, which can run beside other branches: give several to [`all`](Flow::all).
    ///
    /// Until its branches have ended, this context can do nothing else. Do not let the code depend on which branch ends
    /// first.
    #[track_caller]
    pub fn branch<'b, F, Fut>(&self, name: &str, code: F) -> BranchCall<'b, Fut::Output>
    where
        F: FnOnce(Flow) -> Fut + Send + 'b,
        Fut: Future<Output: Send + 'b> + Send + 'b,
    {
        BranchCall::new(self, name, Location::caller(), code)
    }

    /// A number in [0, 1) that is the same in every attempt. It depends on the seed of the run, the branch, the label,
    /// and how often the label was used; on no other draw.
    #[track_caller]
    pub fn random(&self, label: &str) -> f64 {
        crate::digest::unit(self.random_u64(label))
    }

    /// A number of 64 bits, drawn like [`random`](Flow::random).
    #[track_caller]
    pub fn random_u64(&self, label: &str) -> u64 {
        crate::digest::first_u64(self.random_bytes(label))
    }

    /// The text of a UUID of version 4, drawn like [`random`](Flow::random).
    #[track_caller]
    pub fn uuid(&self, label: &str) -> String {
        crate::digest::uuid(self.random_bytes(label))
    }

    /// 32 bytes, drawn like [`random`](Flow::random).
    #[track_caller]
    pub fn random_bytes(&self, label: &str) -> [u8; 32] {
        let at = Location::caller();
        self.check_name(label, at);
        self.shared.with(|core| core.draw(&self.branch, label))
    }

    /// The coordinator's time of the last checkpoint of this branch, which is the same in every attempt.
    #[track_caller]
    pub fn now(&self) -> impl Future<Output = Time> + Send + use<> {
        let made = Made::new(self, OperationKind::Now, "", Location::caller());
        async move {
            let operation = Operation::begin(made).await;
            let now = operation.record().await;
            operation.end();
            now
        }
    }

    /// Whether the code may take the new path of the change `id`: always, unless this run was recorded by code without
    /// the change and has yet to be replayed past this place. The first answer in a branch is kept.
    #[track_caller]
    pub fn patched(&self, id: &str) -> bool {
        let at = Location::caller();
        self.check_name(id, at);
        self.shared.with(|core| core.is_patched(&self.branch, id, at))
    }

    /// What the last savepoint of this run recorded, if there was one. A state that cannot be read as this type is a
    /// divergence: the run stops, and code that can read it continues the run.
    #[track_caller]
    pub fn resumed<T: DeserializeOwned>(&self) -> Result<Option<T>, Failure> {
        let at = Location::caller();
        let state = self.shared.with(|core| core.resumed.clone());
        let state = state.map(|state| state.read()).transpose();
        state.map_err(|problem| {
            self.shared.with(|core| core.end_by_unreadable_savepoint(problem.to_string(), at));
            Failure::named("SAVEPOINT_UNREADABLE", problem)
        })
    }

    /// Records `state` as the new start of replay, and starts the function over: it finds the state in
    /// [`resumed`](Flow::resumed). What came before is never replayed again. This returns only a failure to write
    /// the state as JSON.
    #[track_caller]
    pub fn savepoint<S, T>(
        &self,
        state: &S,
    ) -> impl Future<Output = Result<T, Failure>> + Send + use<S, T>
    where
        S: Serialize,
        T: Send,
    {
        let (ctx, at) = (self.clone(), Location::caller());
        let made = Made::new(self, OperationKind::Savepoint, key::SAVEPOINT, at);
        let state = encode(state);
        async move {
            let made = made.begun();
            let state = state?;
            let mut operation = Operation::begin(made).await;
            if ctx.branch != Branch::root() {
                let branch = ctx.branch.as_str().to_owned();
                operation.stop(Misuse::SavepointInBranch { branch, at }).await
            }
            let (key, _) = operation.enter(None).await;
            let step = StepRecord { savepoint: true, ..StepRecord::succeeded(key, state, None) };
            ctx.shared.with(|core| core.finish(&ctx.branch, step));
            operation.record().await;
            std::future::pending().await
        }
    }

    /// Awaits something that nothing records. Only for functions that speak for a program, which is run again from its
    /// beginning in every attempt and asks for the same operations again: everything else must be the work of a step.
    #[doc(hidden)]
    pub fn outside<F: Future>(&self, awaited: F) -> impl Future<Output = F::Output> + use<F> {
        crate::outside::wait(self.shared.clone(), awaited)
    }

    /// The latest time of a branch inside this one that has ended.
    pub(crate) fn joined(&self) -> Time {
        self.shared.with(|core| core.branch(&self.branch).joined)
    }

    fn check_name(&self, name: &str, at: SourceLine) {
        if !key::is_name(name) {
            let misuse = Misuse::BadName { name: name.to_owned(), at };
            self.shared.with(|core| core.end(crate::core::Ending::Stop(misuse.into())));
        }
    }
}

impl std::fmt::Debug for Flow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Flow").field("branch", &self.branch).finish_non_exhaustive()
    }
}
