//! One operation of a branch, from its beginning to its end: what steps, sleeps, signals, approvals and children have in common.
//!
//! Invariant: an operation that is dropped before its end stops the run, because what drops it depends on time.

use std::sync::Arc;
use std::time::Duration;

use wire::Time;

use crate::Digest;
use crate::command::{Awaited, Checkpoint, Mode};
use crate::core::{Ending, Want};
use crate::flow::Flow;
use crate::history::Entered;
use crate::key::{self, Branch, Kind};
use crate::shared::Shared;
use crate::stop::{Misuse, SourceLine, Stop};

pub(crate) struct Operation {
    pub(crate) shared: Arc<Shared>,
    pub(crate) branch: Branch,
    kind: Kind,
    name: String,
    at: SourceLine,
    /// The key that its wants are kept under.
    wanted: String,
    is_over: bool,
}

impl Operation {
    /// Begins, if the branch is free. Otherwise the run stops, and this never returns.
    pub(crate) async fn begin(ctx: &Flow, kind: Kind, name: &str, at: SourceLine) -> Operation {
        let is_named = matches!(
            kind,
            Kind::Step | Kind::Signal | Kind::Approval | Kind::Delivery | Kind::Child
        );
        let begun = ctx.shared.with(|core| {
            if is_named && !key::is_name(name) {
                return Err(Misuse::BadName { name: name.to_owned(), at });
            }
            core.branch(&ctx.branch).begin(&ctx.branch, &kind.label(name), at)
        });
        if let Err(misuse) = begun {
            return stop(&ctx.shared, misuse.into()).await;
        }
        Operation {
            shared: ctx.shared.clone(),
            branch: ctx.branch.clone(),
            kind,
            name: name.to_owned(),
            at,
            wanted: ctx.branch.key(&kind.label(name), 0),
            is_over: false,
        }
    }

    /// Takes the next key and compares it with the record. If they differ the run stops, and this never returns.
    pub(crate) async fn enter(&mut self, input_digest: Option<Digest>) -> (String, Entered) {
        let entered = self
            .shared
            .with(|core| core.enter(&self.branch, self.kind, &self.name, input_digest, self.at));
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
        self.shared.with(|core| core.want(&self.wanted, &self.branch, Want::Record));
        let is_recorded = self.shared.until(|core| {
            let branch = core.branch(&self.branch);
            (branch.unrecorded == 0).then_some(branch.now)
        });
        let now = is_recorded.await;
        self.shared.with(|core| core.satisfied(&self.wanted));
        now
    }

    /// Waits until the work of a try may start.
    pub(crate) async fn start(&self, number: u32, timeout: Option<Duration>) {
        let want = Want::Execute { number, timeout };
        self.shared.with(|core| core.want(&self.wanted, &self.branch, want));
        self.shared.until(|core| core.is_running(&self.wanted).then_some(())).await;
    }

    /// Waits until one of the items, or all of them, have arrived.
    pub(crate) async fn arrival(&self, mode: Mode, items: Vec<Awaited>) {
        let keys: Vec<String> = items.iter().map(|item| item.key().to_owned()).collect();
        let has_arrived = |core: &crate::core::Core| match mode {
            Mode::All => keys.iter().all(|key| core.has(key)),
            Mode::Any => keys.iter().any(|key| core.has(key)),
        };
        if self.shared.with(|core| has_arrived(core)) {
            return;
        }
        let want = Want::Arrival { mode, items };
        self.shared.with(|core| core.want(&self.wanted, &self.branch, want));
        self.shared.until(|core| has_arrived(core).then_some(())).await;
        self.shared.with(|core| core.satisfied(&self.wanted));
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
        let misuse = Misuse::Dropped { key: self.wanted.clone(), at: self.at };
        self.shared.with(|core| core.end(Ending::Stop(misuse.into())));
    }
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
