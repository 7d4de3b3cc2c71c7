//! Children: runs that a function starts, whose ends are checkpoints of the function.
//!
//! A child is started once, whatever happens to the worker, because its key is unique in its parent. How many children
//! run at the same time is not part of their identity and may change under a run.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::pin::Pin;

use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::requests::SubmitRun;
use wire::{ErrorCategory, Json};

use crate::command::{Awaited, Checkpoint, ChildRecord, Mode, Outcome};
use crate::flow::Flow;
use crate::history::Entered;
use crate::key::Kind;
use crate::operation::Operation;
use crate::stop::{Misuse, SourceLine};
use crate::{Digest, Failure};

/// The coordinator's limit of live children per task.
const CHILDREN_MAX: usize = 10_000;

/// What a child executes: a submission.
#[derive(Clone, Debug)]
pub struct ChildRun(Result<SubmitRun, Failure>);

impl ChildRun {
    pub fn new<I: Serialize + ?Sized>(
        kind: impl Into<String>,
        queue: impl Into<String>,
        input: &I,
    ) -> ChildRun {
        let input = Json::from_value(input);
        let (kind, queue) = (kind.into(), queue.into());
        let run = input.map(|input| SubmitRun { kind, queue, input, ..SubmitRun::default() });
        ChildRun(run.map_err(|error| Failure::named("INPUT_UNWRITABLE", error)))
    }

    /// Changes any other member of the submission. They are not part of the child's identity.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut SubmitRun)) -> ChildRun {
        if let Ok(run) = &mut self.0 {
            change(run);
        }
        self
    }
}

impl From<SubmitRun> for ChildRun {
    fn from(run: SubmitRun) -> ChildRun {
        ChildRun(Ok(run))
    }
}

/// Enters the child with the next key of its name, and has it started if it is new.
async fn start(operation: &mut Operation, run: SubmitRun, detached: bool) -> String {
    let input_digest = identity(&run);
    let (key, entered) = operation.enter(Some(input_digest)).await;
    if entered == Entered::New {
        let child = ChildRecord { key: key.clone(), input_digest, detached, run };
        operation.shared.with(|core| core.start_child(&operation.branch, child));
    }
    key
}

/// What makes a child another child: kind, queue and input.
fn identity(run: &SubmitRun) -> Digest {
    let parts = (&run.kind, &run.queue, Digest::of_json(&run.input));
    Digest::of(&parts).expect("strings have a JSON form")
}

/// A child that starts when it is awaited.
#[must_use = "a child starts when it is awaited"]
pub struct ChildCall<T> {
    ctx: Flow,
    name: String,
    run: ChildRun,
    at: SourceLine,
    reads: PhantomData<fn() -> T>,
}

impl<T> ChildCall<T> {
    pub(crate) fn new(ctx: Flow, name: String, run: ChildRun, at: SourceLine) -> ChildCall<T> {
        ChildCall { ctx, name, run, at, reads: PhantomData }
    }

    /// Starts a run that outlives this one. It is recorded before the next step of this branch starts.
    pub async fn detach(self) -> Result<(), Failure> {
        let run = self.run.0?;
        let mut operation = Operation::begin(&self.ctx, Kind::Child, &self.name, self.at).await;
        start(&mut operation, run, true).await;
        operation.end();
        Ok(())
    }
}

impl<T: DeserializeOwned + 'static> IntoFuture for ChildCall<T> {
    type Output = Result<T, Failure>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let run = self.run.0?;
            let mut operation = Operation::begin(&self.ctx, Kind::Child, &self.name, self.at).await;
            let key = start(&mut operation, run, false).await;
            operation.arrival(Mode::All, vec![awaited(&key)]).await;
            let end = operation.take(&key).expect("it has arrived");
            operation.end();
            read(end)
        })
    }
}

/// Children that start when they are awaited.
#[must_use = "children start when they are awaited"]
pub struct ChildrenCall<T> {
    ctx: Flow,
    name: String,
    runs: Vec<ChildRun>,
    max: usize,
    at: SourceLine,
    reads: PhantomData<fn() -> T>,
}

impl<T> ChildrenCall<T> {
    pub(crate) fn new(
        ctx: Flow,
        name: String,
        runs: Vec<ChildRun>,
        at: SourceLine,
    ) -> ChildrenCall<T> {
        ChildrenCall { ctx, name, runs, max: usize::MAX, at, reads: PhantomData }
    }

    /// At most this many at the same time.
    pub fn max(mut self, max: usize) -> Self {
        self.max = max.max(1);
        self
    }
}

impl<T: DeserializeOwned + Send + 'static> IntoFuture for ChildrenCall<T> {
    type Output = Vec<Result<T, Failure>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Vec<Result<T, Failure>>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.execute())
    }
}

impl<T: DeserializeOwned> ChildrenCall<T> {
    async fn execute(self) -> Vec<Result<T, Failure>> {
        let ChildrenCall { ctx, name, runs, max, at, reads: _ } = self;
        let mut operation = Operation::begin(&ctx, Kind::Child, &name, at).await;
        let count = runs.len();
        if count > CHILDREN_MAX {
            let misuse = Misuse::TooMany { what: "children", count, max: CHILDREN_MAX, at };
            return operation.stop(misuse).await;
        }
        let label = Kind::Child.label(&name);
        let mut ends: Vec<Option<Result<T, Failure>>> = Vec::with_capacity(count);
        let mut live: BTreeMap<usize, String> = BTreeMap::new();
        let mut runs = runs.into_iter().enumerate().peekable();
        loop {
            // A recorded child is entered even if fewer may run now than when it was recorded.
            while runs.peek().is_some() && (live.len() < max || is_next(&operation, &label)) {
                let Some((place, ChildRun(run))) = runs.next() else { break };
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

fn awaited(key: &str) -> Awaited {
    Awaited::Child { key: key.to_owned(), child: key.to_owned() }
}

/// What a child returned. Its failure, and a result of another type, are values.
fn read<T: DeserializeOwned>(end: Checkpoint) -> Result<T, Failure> {
    let Checkpoint { key, outcome, result, error, .. } = end;
    if outcome == Outcome::Succeeded {
        return result.unwrap_or_default().read().map_err(|problem| {
            let message = format!("the result of `{key}` cannot be read: {problem}");
            Failure::new(ErrorCategory::DataQuality, message)
        });
    }
    let unknown = || Failure::new(ErrorCategory::Cancelled, format!("`{key}` was cancelled"));
    Err(error.unwrap_or_else(unknown))
}
