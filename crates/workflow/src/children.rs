//! Calls: runs that a function starts, whose ends are checkpoints of the function.
//!
//! A child is started once, whatever happens to the worker, because its key is unique in its parent. How many children
//! run at the same time is not part of their identity and may change under a run; neither are the options of their runs.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use wire::requests::SubmitRun;
use wire::{ErrorCategory, Json};

use crate::all::AllCall;
use crate::command::{Awaited, Checkpoint, ChildRecord, Mode, Outcome};
use crate::flow::Flow;
use crate::history::Entered;
use crate::key::OperationKind;
use crate::kind::{Kind, RunKind};
use crate::operation::{Made, Operation};
use crate::run_options;
use crate::shared::Shared;
use crate::stop::{Misuse, SourceLine};
use crate::wait::{Ask, Boxed, WaitCall, waits};
use crate::{Digest, Failure};

/// The coordinator's limit of live children per task.
const CHILDREN_MAX: usize = 10_000;

/// The run of one call, whose options [`ChildrenCall::each`] sets.
#[derive(Clone, Debug)]
pub struct CalledRun(Result<SubmitRun, Failure>);

impl CalledRun {
    pub(crate) fn new<I: Serialize + ?Sized>(
        kind: impl Into<String>,
        queue: impl Into<String>,
        input: &I,
    ) -> CalledRun {
        let input = Json::from_value(input);
        let (kind, queue) = (kind.into(), queue.into());
        let run = input.map(|input| SubmitRun { kind, queue, input, ..SubmitRun::default() });
        CalledRun(run.map_err(|error| Failure::named("INPUT_UNWRITABLE", error)))
    }

    /// The queue in which the run waits for a worker. It is part of what makes a child the same child.
    #[must_use]
    pub fn queue(self, queue: impl Into<String>) -> CalledRun {
        self.change(|run| run.queue = queue.into())
    }

    fn change(mut self, change: impl FnOnce(&mut SubmitRun)) -> CalledRun {
        if let Ok(run) = &mut self.0 {
            change(run);
        }
        self
    }

    run_options!();
}

/// The name of a call of this kind. Names have no `/` and `:`, which kinds may have.
fn name_of(kind: &str) -> String {
    kind.replace(['/', ':'], "-")
}

/// What makes a child the same child.
fn identity(shared: &Shared, run: &SubmitRun) -> Digest {
    let input = shared.digest_of(&run.input).expect("JSON has a JSON form");
    Digest::of(&(&run.kind, &run.queue, input)).expect("strings have a JSON form")
}

/// Enters the child with the next key of its name, and has it started if it is new.
async fn start(operation: &mut Operation, run: SubmitRun, detached: bool) -> String {
    let input_digest = identity(&operation.shared, &run);
    let (key, entered) = operation.enter(Some(input_digest)).await;
    if entered == Entered::New {
        let child = ChildRecord { key: key.clone(), input_digest, detached, run };
        operation.shared.with(|core| core.start_child(&operation.branch, child));
    }
    key
}

/// A call, which starts when it is awaited. Its failure is a value.
#[must_use = "a call starts when it is awaited"]
pub struct ChildCall<T> {
    made: Made,
    run: CalledRun,
    reads: PhantomData<fn() -> T>,
}

impl<T> ChildCall<T> {
    pub(crate) fn new(flow: &Flow, name: String, run: CalledRun, at: SourceLine) -> ChildCall<T> {
        let made = Made::new(flow, OperationKind::Child, name, at);
        ChildCall { made, run, reads: PhantomData }
    }

    pub(crate) fn of_kind<J, K>(flow: &Flow, kind: K, input: &J, at: SourceLine) -> ChildCall<T>
    where
        J: Serialize + ?Sized,
        K: RunKind<J, Output = T>,
    {
        let run = CalledRun::new(kind.name(), kind.queue_name().unwrap_or_default(), input);
        ChildCall::new(flow, name_of(kind.name()), run, at)
    }

    /// Gives the call a name of its own; it is the kind otherwise.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.made.name = name.into();
        self
    }

    /// The queue in which the run waits for a worker. It is part of what makes a child the same child.
    pub fn queue(self, queue: impl Into<String>) -> Self {
        self.change(|run| run.queue = queue.into())
    }

    fn change(self, change: impl FnOnce(&mut SubmitRun)) -> Self {
        ChildCall { run: self.run.change(change), ..self }
    }

    run_options!();

    /// Starts a run that outlives this one. It is recorded before the next step of this branch starts.
    pub async fn detach(self) -> Result<(), Failure> {
        let ChildCall { made, run, reads: _ } = self;
        let made = made.begun();
        let run = run.0?;
        let mut operation = Operation::begin(made).await;
        start(&mut operation, run, true).await;
        operation.end();
        Ok(())
    }
}

impl<T: DeserializeOwned> ChildCall<T> {
    /// Waits no longer than this; `None` if the run has not ended by then. It is cancelled when this run ends.
    pub fn within<'m>(self, span: Duration) -> WaitCall<'m, Option<T>> {
        let wait = self.waiting(|came: Option<Checkpoint>| came.map(read).transpose());
        WaitCall { within: Some(span), ..wait }
    }

    fn into_wait_call<'m>(self) -> WaitCall<'m, T> {
        // Recorded code may have had a limit. Then no end is what was recorded.
        let late = || Failure::timeout("the call has not ended in time");
        self.waiting(move |came| read(came.ok_or_else(late)?))
    }

    fn waiting<'m, U>(
        self,
        read: impl FnOnce(Option<Checkpoint>) -> Result<U, Failure> + Send + 'm,
    ) -> WaitCall<'m, U> {
        let (identity, run) = match self.run.0 {
            Ok(run) => (Ok(Some(identity(&self.made.flow.shared, &run))), run),
            Err(failure) => (Err(failure), SubmitRun::default()),
        };
        WaitCall { identity, ..WaitCall::new(self.made, Ask::Call(Box::new(run)), read) }
    }
}

waits!([T: DeserializeOwned] ChildCall<T>, T);

impl<T: DeserializeOwned + 'static> IntoFuture for ChildCall<T> {
    type Output = Result<T, Failure>;
    type IntoFuture = Boxed<'static, Result<T, Failure>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.into_wait_call().wait())
    }
}

/// A kind that [`Flow::map`](crate::Flow::map) can call for each item of type `T`: a [`Kind`] whose input the item is,
/// by value or by reference, or a name, which takes anything and gives JSON.
pub trait MapKind<T> {
    type Output;

    #[doc(hidden)]
    fn name(&self) -> &str;

    #[doc(hidden)]
    fn run(&self, item: T) -> CalledRun;
}

impl<I: Serialize, O, T: Borrow<I>> MapKind<T> for Kind<I, O> {
    type Output = O;

    fn name(&self) -> &str {
        RunKind::<I>::name(self)
    }

    fn run(&self, item: T) -> CalledRun {
        let queue = RunKind::<I>::queue_name(self).unwrap_or_default();
        CalledRun::new(RunKind::<I>::name(self), queue, item.borrow())
    }
}

impl<T: Serialize> MapKind<T> for &str {
    type Output = Value;

    fn name(&self) -> &str {
        self
    }

    fn run(&self, item: T) -> CalledRun {
        CalledRun::new(*self, "", &item)
    }
}

/// Calls, which start when they are awaited.
#[must_use = "calls start when they are awaited"]
pub struct ChildrenCall<T> {
    made: Made,
    runs: Vec<CalledRun>,
    max: usize,
    reads: PhantomData<fn() -> T>,
}

impl<T> ChildrenCall<T> {
    pub(crate) fn new(
        flow: &Flow,
        name: String,
        runs: Vec<CalledRun>,
        at: SourceLine,
    ) -> ChildrenCall<T> {
        let made = Made::new(flow, OperationKind::Child, name, at);
        ChildrenCall { made, runs, max: usize::MAX, reads: PhantomData }
    }

    pub(crate) fn of_kind<I, K>(flow: &Flow, kind: K, items: I, at: SourceLine) -> ChildrenCall<T>
    where
        I: IntoIterator,
        K: MapKind<I::Item, Output = T>,
    {
        let runs = items.into_iter().map(|item| kind.run(item)).collect();
        ChildrenCall::new(flow, name_of(kind.name()), runs, at)
    }

    /// At most this many at the same time.
    pub fn max(mut self, max: usize) -> Self {
        self.max = max.max(1);
        self
    }

    /// Gives the calls a name of their own; it is the kind otherwise.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.made.name = name.into();
        self
    }

    /// Sets the options of every run: `.each(|run| run.priority(5))`.
    pub fn each(mut self, options: impl FnMut(CalledRun) -> CalledRun) -> Self {
        self.runs = self.runs.into_iter().map(options).collect();
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
}

impl<T: DeserializeOwned + Send + 'static> IntoFuture for ChildrenCall<T> {
    type Output = Vec<Result<T, Failure>>;
    type IntoFuture = Boxed<'static, Vec<Result<T, Failure>>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.execute())
    }
}

impl<T: DeserializeOwned + Send + 'static> ChildrenCall<T> {
    /// Every result, or the first failure by place. It waits for all in both cases.
    pub fn all(mut self) -> AllCall<'static, Vec<T>> {
        let made = Made::new(&self.made.flow, OperationKind::All, "", self.made.at);
        self.made = self.made.begun();
        AllCall::new(made, move |flow, _| {
            let call = self.inside(&flow);
            Box::pin(async move { call.await.into_iter().collect() })
        })
    }

    async fn execute(self) -> Vec<Result<T, Failure>> {
        let ChildrenCall { made, runs, max, reads: _ } = self;
        let (at, label) = (made.at, made.kind.label(&made.name));
        let mut operation = Operation::begin(made).await;
        let count = runs.len();
        if count > CHILDREN_MAX {
            let misuse = Misuse::TooMany { what: "children", count, max: CHILDREN_MAX, at };
            return operation.stop(misuse).await;
        }
        let mut ends: Vec<Option<Result<T, Failure>>> = Vec::with_capacity(count);
        let mut live: BTreeMap<usize, String> = BTreeMap::new();
        let mut runs = runs.into_iter().enumerate().peekable();
        loop {
            // A recorded child is entered even if fewer may run now than when it was recorded.
            while runs.peek().is_some() && (live.len() < max || is_next(&operation, &label)) {
                let Some((place, CalledRun(run))) = runs.next() else { break };
                match run {
                    Ok(run) => {
                        live.insert(place, start(&mut operation, run, false).await);
                        ends.push(None);
                    }
                    Err(failure) => ends.push(Some(Err(failure))),
                }
            }
            let mode = if runs.peek().is_none() { Mode::All } else { Mode::Any };
            operation.arrival(mode, live.values().map(|key| awaited(key)).collect()).await;
            live.retain(|place, key| match operation.take(key) {
                Some(end) => {
                    ends[*place] = Some(read(end));
                    false
                }
                None => true,
            });
            if live.is_empty() && runs.peek().is_none() {
                break;
            }
        }
        operation.end();
        ends.into_iter().map(|end| end.expect("every child has ended")).collect()
    }
}

fn is_next(operation: &Operation, label: &str) -> bool {
    operation.shared.with(|core| core.is_recorded_next(&operation.branch, label))
}

pub(crate) fn awaited(key: &str) -> Awaited {
    Awaited::Child { key: key.to_owned(), child: key.to_owned() }
}

/// What a child returned. Its failure, and a result of another type, are values.
fn read<T: DeserializeOwned>(end: Checkpoint) -> Result<T, Failure> {
    let Checkpoint { key, outcome, result, error, .. } = end;
    if outcome == Outcome::Succeeded {
        return result.unwrap_or_default().read().map_err(|problem| {
            Failure::data(format!("the result of `{key}` cannot be read: {problem}"))
        });
    }
    let unknown = || Failure::new(ErrorCategory::Cancelled, format!("`{key}` was cancelled"));
    Err(error.unwrap_or_else(unknown))
}
