//! One operation of a branch, from its making to its end: what steps, sleeps, signals, approvals and calls have in common.
//!
//! An operation is a value until it is awaited, or given to `all` or `any`.
//!
//! Invariants: an operation that is dropped before its end stops the run, because what drops it depends on time. One that
//! never began stops the run when the function returns: the code says that it happens, and it did not.

use std::sync::Arc;
use std::time::Duration;

use wire::Time;

use crate::Digest;
use crate::command::{Awaited, Checkpoint, Mode};
use crate::core::{Core, Ending, Want};
use crate::flow::Flow;
use crate::history::Entered;
use crate::key::{Branch, OperationKind};
use crate::shared::Shared;
use crate::stop::{Misuse, SourceLine, Stop};

/// What an operation is made with. One that is dropped before it begins was never awaited.
pub(crate) struct Made {
    pub(crate) flow: Flow,
    pub(crate) kind: OperationKind,
    pub(crate) name: String,
    pub(crate) at: SourceLine,
    is_begun: bool,
}

impl Made {
    pub(crate) fn new(
        flow: &Flow,
        kind: OperationKind,
        name: impl Into<String>,
        at: SourceLine,
    ) -> Made {
        Made { flow: flow.clone(), kind, name: name.into(), at, is_begun: false }
    }

    /// It is awaited, or given to another operation.
    pub(crate) fn begun(mut self) -> Made {
        self.is_begun = true;
        self
    }

    /// The same operation in another branch.
    pub(crate) fn inside(mut self, flow: &Flow) -> Made {
        self.flow = flow.clone();
        self
    }

    /// The same name for an operation of another kind.
    pub(crate) fn becomes(self, kind: OperationKind) -> Made {
        let begun = self.begun();
        Made::new(&begun.flow, kind, begun.name.clone(), begun.at)
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if !self.is_begun {
            let label = self.kind.label(&self.name);
            self.flow.shared.with(|core| core.left_alone(label, self.at));
        }
    }
}

pub(crate) struct Operation {
    pub(crate) shared: Arc<Shared>,
    pub(crate) branch: Branch,
    made: Made,
    /// The key that its wants are kept under.
    wanted: String,
    is_over: bool,
}

impl Operation {
    /// Begins, if the branch is free. Otherwise the run stops, and this never returns.
    pub(crate) async fn begin(made: Made) -> Operation {
        let made = made.begun();
        let (shared, branch) = (made.flow.shared.clone(), made.flow.branch.clone());
        let label = made.kind.label(&made.name);
        let begun = shared.with(|core| {
            if !made.kind.accepts(&made.name) {
                return Err(Misuse::BadName { name: made.name.clone(), at: made.at });
            }
            core.branch(&branch).begin(&branch, &label, made.at)
        });
        if let Err(misuse) = begun {
            return stop(&shared, misuse.into()).await;
        }
        let wanted = branch.key(&label, 0);
        Operation { shared, branch, made, wanted, is_over: false }
    }

    /// Takes the next key and compares it with the record. If they differ the run stops, and this never returns.
    pub(crate) async fn enter(&mut self, input_digest: Option<Digest>) -> (String, Entered) {
        let (kind, name, at) = (self.made.kind, self.made.name.clone(), self.made.at);
        self.enter_as(kind, &name, input_digest, at).await
    }

    /// The same for one of several that this operation stands for.
    pub(crate) async fn enter_as(
        &mut self,
        kind: OperationKind,
        name: &str,
        input_digest: Option<Digest>,
        at: SourceLine,
    ) -> (String, Entered) {
        let entered =
            self.shared.with(|core| core.enter(&self.branch, kind, name, input_digest, at));
        match entered {
            Ok((key, entered)) => {
                self.wanted.clone_from(&key);
                (key, entered)
            }
            Err(difference) => stop(&self.shared, difference).await,
        }
    }

    /// Stops the run.
    pub(crate) async fn stop<T>(&self, reason: impl Into<Stop>) -> T {
        stop(&self.shared, reason.into()).await
    }

    /// Waits until all results of the branch are recorded, and returns its time.
    pub(crate) async fn record(&self) -> Time {
        recorded(&self.shared, &self.branch, &self.wanted).await
    }

    /// Waits until the work of a try may start.
    pub(crate) async fn start(&self, number: u32, timeout: Option<Duration>) {
        let want = Want::Execute { number, timeout };
        self.shared.with(|core| core.want(&self.wanted, &self.branch, want));
        self.shared.until(|core| core.is_running(&self.wanted).then_some(())).await;
    }

    /// Waits until one of the items, or all of them, have arrived.
    pub(crate) async fn arrival(&self, mode: Mode, items: Vec<Awaited>) {
        arrival(&self.shared, &self.branch, &self.wanted, mode, items).await;
    }

    /// Waits for one timer, unless it has fired already.
    pub(crate) async fn pause(&self, key: String, span: impl FnOnce() -> Duration) -> Checkpoint {
        if !self.shared.with(|core| core.has(&key)) {
            let until = later(self.record().await, span());
            self.arrival(Mode::All, vec![Awaited::Timer { key: key.clone(), until }]).await;
        }
        self.take(&key).expect("it has arrived")
    }

    pub(crate) fn take(&self, key: &str) -> Option<Checkpoint> {
        self.shared.with(|core| core.take(&self.branch, key))
    }

    pub(crate) fn end(mut self) {
        self.is_over = true;
        self.shared.with(|core| core.branch(&self.branch).finish());
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let misuse = Misuse::Dropped { key: self.wanted.clone(), at: self.made.at };
        self.shared.with(|core| core.end(Ending::Stop(misuse.into())));
    }
}

/// Waits until all results of a branch are recorded, and returns its time. The want is kept under `wanted`.
pub(crate) async fn recorded(shared: &Shared, branch: &Branch, wanted: &str) -> Time {
    shared.with(|core| core.want(wanted, branch, Want::Record));
    let is_recorded = shared.until(|core| {
        let state = core.branch(branch);
        (state.unrecorded == 0).then_some(state.now)
    });
    let now = is_recorded.await;
    shared.with(|core| core.satisfied(wanted));
    now
}

/// Waits until one of the items, or all of them, have arrived. The want is kept under `wanted`.
pub(crate) async fn arrival(
    shared: &Shared,
    branch: &Branch,
    wanted: &str,
    mode: Mode,
    items: Vec<Awaited>,
) {
    let keys: Vec<String> = items.iter().map(|item| item.key().to_owned()).collect();
    let has_arrived = |core: &Core| match mode {
        Mode::All => keys.iter().all(|key| core.has(key)),
        Mode::Any => keys.iter().any(|key| core.has(key)),
    };
    if shared.with(|core| has_arrived(core)) {
        return;
    }
    shared.with(|core| core.want(wanted, branch, Want::Arrival { mode, items }));
    shared.until(|core| has_arrived(core).then_some(())).await;
    shared.with(|core| core.satisfied(wanted));
}

/// Ends the run and leaves the code where it is; the engine drops it.
pub(crate) async fn stop<T>(shared: &Shared, reason: Stop) -> T {
    shared.with(|core| core.end(Ending::Stop(reason)));
    std::future::pending().await
}

pub(crate) fn later(time: Time, span: Duration) -> Time {
    let ms = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
    Time::from_ms(time.as_ms().saturating_add(ms))
}
