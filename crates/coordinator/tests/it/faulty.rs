//! A store that fails on demand: SQLite's method, "fail the n-th call, for every n".

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use store::{
    Administration, Backlog, Batch, Change, Claimable, CommitFailure, Decided, EndedPosition,
    EndedTask, Failure, FailureKind, Found, Loaded, Lookup, PausedQueues, Plan, PolledQueues,
    RunsOn, Selection, Store, StoreStatus, TaskKey, TaskWithSpec, Unfinished, Want, Writer,
};
use storetest::memory::MemoryBrowse;
use storetest::{ManualClock, MemoryStore};
use tokio::sync::Notify;
use tokio::time::Instant;
use verdict::{Moment, Name, Object, Scope, Span, Subject, Task, Time};

/// The faults to inject.
#[derive(Default)]
pub(crate) struct Faults {
    calls: AtomicUsize,
    /// The number of those calls that read ended tasks.
    walks: AtomicUsize,
    /// The call that fails with this kind.
    nth: Mutex<Option<(usize, FailureKind)>>,
    /// Commits that write something fail with this kind.
    every_write: Mutex<Option<FailureKind>>,
    /// Saving a task of the kind `poison` is refused as invalid.
    pub(crate) refuses_poison: AtomicBool,
    /// Saving a task of the kind `spoilt` is refused as invalid, alive or ended.
    pub(crate) refuses_spoilt: AtomicBool,
    /// A returned task of the kind `spoilt` violates an assertion when it is decided.
    pub(crate) breaks_spoilt: AtomicBool,
    /// A task of the kind `spoilt` cannot be read; the failure names the task.
    pub(crate) hides_spoilt: AtomicBool,
    /// No decision fits on the disk; an empty commit still does.
    pub(crate) is_nearly_full: AtomicBool,
    /// The next commit succeeds, but reports an unknown outcome.
    pub(crate) commit_unknown: AtomicBool,
    /// The next commit that deletes tasks succeeds, but its answer is lost and cannot be looked up.
    pub(crate) forgetting_unknown: AtomicBool,
    /// This much time passes once, between the beginning of a batch and its read of the clock.
    stall: Mutex<Option<(Arc<ManualClock>, Span)>>,
    /// This much time passes once, while a commit becomes durable.
    stall_commit: Mutex<Option<(Arc<ManualClock>, Span)>>,
    /// This much time passes in every batch: before it reads the clock, and while its commit becomes durable.
    slow: Mutex<Option<(Arc<ManualClock>, Span, Span)>>,
    /// Commits wait here while set.
    pub(crate) is_held: AtomicBool,
    pub(crate) released: Notify,
    /// Commits of batches with new tasks wait there while set.
    pub(crate) holds_new_tasks: AtomicBool,
    /// Notified by each commit that begins to wait.
    pub(crate) holding: Notify,
    /// When commits were refused because of `every_write`.
    refused_at: Mutex<Vec<Instant>>,
}

impl Faults {
    pub(crate) fn fail_call(&self, nth: usize, kind: FailureKind) {
        self.calls.store(0, Ordering::SeqCst);
        self.walks.store(0, Ordering::SeqCst);
        *self.nth.lock().expect("not poisoned") = Some((nth, kind));
    }

    /// Makes every commit fail from now on.
    pub(crate) fn fail_every_write(&self, kind: FailureKind) {
        *self.every_write.lock().expect("not poisoned") = Some(kind);
    }

    /// Stalls the next batch for this long before it decides anything.
    pub(crate) fn stall_next_batch(&self, clock: Arc<ManualClock>, span: Span) {
        *self.stall.lock().expect("not poisoned") = Some((clock, span));
    }

    /// Makes the next commit take this long.
    pub(crate) fn stall_next_commit(&self, clock: Arc<ManualClock>, span: Span) {
        *self.stall_commit.lock().expect("not poisoned") = Some((clock, span));
    }

    /// From now on every batch takes this long before it reads the clock, and this long to commit.
    pub(crate) fn slow_down(&self, clock: Arc<ManualClock>, loading: Span, committing: Span) {
        *self.slow.lock().expect("not poisoned") = Some((clock, loading, committing));
    }

    pub(crate) fn heal(&self) {
        *self.slow.lock().expect("not poisoned") = None;
        *self.nth.lock().expect("not poisoned") = None;
        *self.every_write.lock().expect("not poisoned") = None;
    }

    /// When commits were refused since the last call.
    pub(crate) fn take_refused_at(&self) -> Vec<Instant> {
        std::mem::take(&mut *self.refused_at.lock().expect("not poisoned"))
    }

    /// Whether the chosen call has been reached.
    pub(crate) fn has_struck(&self) -> bool {
        let nth = *self.nth.lock().expect("not poisoned");
        nth.is_some_and(|(nth, _)| self.calls.load(Ordering::SeqCst) > nth)
    }

    /// The number of calls since [`Self::fail_call`]: of all kinds, and of those that read ended tasks.
    pub(crate) fn calls(&self) -> (usize, usize) {
        (self.calls.load(Ordering::SeqCst), self.walks.load(Ordering::SeqCst))
    }

    /// Fails if one of the rows cannot be read.
    fn legible<'t>(&self, mut tasks: impl Iterator<Item = &'t Task>) -> Result<(), Failure> {
        let spoilt = tasks.find(|task| task.kind.as_str() == "spoilt");
        match spoilt.filter(|_| self.hides_spoilt.load(Ordering::SeqCst)) {
            Some(task) => {
                Err(Failure::new(FailureKind::Invalid, "a row cannot be read").about(task.id))
            }
            None => Ok(()),
        }
    }

    fn call(&self, what: &str) -> Result<(), Failure> {
        if what == "ended" {
            self.walks.fetch_add(1, Ordering::SeqCst);
        }
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        match *self.nth.lock().expect("not poisoned") {
            Some((nth, kind)) if nth == call => Err(Failure::new(kind, format!("no {what} today"))),
            _ => Ok(()),
        }
    }
}

#[derive(Clone)]
pub(crate) struct FaultyStore {
    pub(crate) inner: MemoryStore,
    pub(crate) faults: Arc<Faults>,
    pub(crate) committers: usize,
}

impl FaultyStore {
    pub(crate) fn over(inner: MemoryStore) -> Self {
        Self { inner, faults: Arc::default(), committers: 1 }
    }

    /// A store that one coordinator uses with this many committers.
    pub(crate) fn shared_by(committers: usize, inner: MemoryStore) -> Self {
        Self { committers, ..Self::over(inner) }
    }
}

pub(crate) struct FaultyWriter {
    inner: <MemoryStore as Store>::Writer,
    faults: Arc<Faults>,
}

pub(crate) struct FaultyBatch<'w> {
    inner: <<MemoryStore as Store>::Writer as Writer>::Batch<'w>,
    faults: Arc<Faults>,
    has_new_tasks: bool,
    forgets: bool,
}

impl Store for FaultyStore {
    type Writer = FaultyWriter;
    type Browse = MemoryBrowse;

    const RUNS_ON: RunsOn = MemoryStore::RUNS_ON;

    async fn writer(&self) -> Result<FaultyWriter, Failure> {
        Ok(FaultyWriter { inner: self.inner.writer().await?, faults: self.faults.clone() })
    }

    fn browse(&self) -> &MemoryBrowse {
        self.inner.browse()
    }

    fn now(&self) -> Time {
        self.inner.now()
    }

    fn status(&self) -> StoreStatus {
        StoreStatus { committers: self.committers, ..self.inner.status() }
    }
}

impl Writer for FaultyWriter {
    type Batch<'w> = FaultyBatch<'w>;

    async fn begin(&mut self) -> Result<FaultyBatch<'_>, Failure> {
        self.faults.call("begin")?;
        let (inner, faults) = (self.inner.begin().await?, self.faults.clone());
        Ok(FaultyBatch { inner, faults, has_new_tasks: false, forgets: false })
    }

    async fn next_wake(&mut self) -> Result<Option<Time>, Failure> {
        self.inner.next_wake().await
    }

    fn shortest_lease(&self) -> Option<Span> {
        self.inner.shortest_lease()
    }

    async fn administer(&mut self, act: &Administration) -> Result<(), CommitFailure> {
        if let Some(kind) = *self.faults.every_write.lock().expect("not poisoned") {
            return Err(CommitFailure::RolledBack(Failure::new(kind, "no writing today")));
        }
        self.inner.administer(act).await
    }
}

impl Batch for FaultyBatch<'_> {
    async fn prepare(&mut self, plan: Plan<'_>) -> Result<Option<Vec<Unfinished>>, Failure> {
        self.inner.prepare(plan).await
    }

    async fn look_up(&mut self, lookup: Lookup<'_>) -> Result<Found, Failure> {
        self.faults.call("lookup")?;
        let found = self.inner.look_up(lookup).await?;
        let owned = found.owners.iter().flatten().map(|(_, loaded)| loaded);
        let live = found.tasks.iter().chain(owned).filter_map(|loaded| match loaded {
            Loaded::Subject(subject) => subject.live(),
            Loaded::Locked => None,
        });
        self.faults.legible(live)?;
        Ok(found)
    }

    async fn moment(&mut self) -> Result<Moment, Failure> {
        self.faults.call("now")?;
        if let Some((clock, span)) = self.faults.stall.lock().expect("not poisoned").take() {
            clock.advance(span);
        }
        if let Some((clock, loading, _)) = &*self.faults.slow.lock().expect("not poisoned") {
            clock.advance(*loading);
        }
        self.inner.moment().await
    }

    async fn save(&mut self, decided: Decided) -> Result<(), Failure> {
        // A full disk still takes an empty commit.
        if decided == Decided::keep_alive() {
            return self.inner.save(decided).await;
        }
        self.faults.call("save")?;
        self.forgets |= !decided.forgotten.is_empty();
        let changes = &decided.changes;
        self.has_new_tasks |= changes.iter().any(|change| change.before.is_none());
        let poisons = |change: &Change| match &change.after {
            Subject::Live(task) => task.kind.as_str() == "poison",
            Subject::Done(_) | Subject::Absent => false,
        };
        let is_spoilt = |change: &Change| match &change.after {
            Subject::Live(task) => task.kind.as_str() == "spoilt",
            Subject::Done(done) => done.kind.as_str() == "spoilt",
            Subject::Absent => false,
        };
        if self.faults.refuses_spoilt.load(Ordering::SeqCst) && changes.iter().any(is_spoilt) {
            return Err(Failure::new(FailureKind::Invalid, "it cannot be stored"));
        }
        if self.faults.refuses_poison.load(Ordering::SeqCst) && changes.iter().any(poisons) {
            return Err(Failure::new(FailureKind::Invalid, "poison cannot be stored"));
        }
        if self.faults.is_nearly_full.load(Ordering::SeqCst) {
            return Err(Failure::new(FailureKind::Full, "no room for a decision"));
        }
        self.inner.save(decided).await
    }

    async fn backlogs(
        &mut self,
        polled: &dyn PolledQueues,
        claimable: Claimable,
    ) -> Result<Vec<Backlog>, Failure> {
        if claimable != Claimable::Likely {
            self.faults.call("backlogs")?;
        }
        self.inner.backlogs(polled, claimable).await
    }

    async fn ready(
        &mut self,
        wants: &[Want],
        now: Time,
    ) -> Result<Vec<Vec<TaskWithSpec>>, Failure> {
        self.faults.call("ready")?;
        let mut ready = self.inner.ready(wants, now).await?;
        self.faults.legible(ready.iter().flatten().map(|ready| &ready.task))?;
        if self.faults.breaks_spoilt.load(Ordering::SeqCst) {
            let spoilt = |ready: &&mut TaskWithSpec| ready.task.kind.as_str() == "spoilt";
            // More claims than any task can have.
            ready.iter_mut().flatten().filter(spoilt).for_each(|ready| {
                ready.task.claim_version = u32::MAX;
            });
        }
        Ok(ready)
    }

    async fn most_urgent(
        &mut self,
        queues: &[(Scope, Name)],
        now: Time,
    ) -> Result<Vec<Option<i32>>, Failure> {
        self.inner.most_urgent(queues, now).await
    }

    async fn select(&mut self, selection: Selection, limit: usize) -> Result<Vec<Task>, Failure> {
        self.faults.call("select")?;
        let selected = self.inner.select(selection, limit).await?;
        self.faults.legible(selected.iter())?;
        Ok(selected)
    }

    async fn addressees(&mut self, now: Time, limit: usize) -> Result<Vec<TaskKey>, Failure> {
        self.inner.addressees(now, limit).await
    }

    async fn due_objects(&mut self, now: Time, limit: usize) -> Result<Vec<Object>, Failure> {
        self.inner.due_objects(now, limit).await
    }

    async fn ended(
        &mut self,
        after: Option<EndedPosition>,
        limit: usize,
    ) -> Result<Vec<EndedTask>, Failure> {
        self.faults.call("ended")?;
        self.inner.ended(after, limit).await
    }

    fn paused(&self) -> &PausedQueues {
        self.inner.paused()
    }

    fn settings_version(&self) -> i64 {
        self.inner.settings_version()
    }

    async fn commit(self) -> Result<(), CommitFailure> {
        let Self { inner, faults, has_new_tasks, forgets } = self;
        let released = faults.released.notified();
        let holds_it = has_new_tasks && faults.holds_new_tasks.load(Ordering::SeqCst);
        if faults.is_held.load(Ordering::SeqCst) || holds_it {
            faults.holding.notify_one();
            released.await;
        }
        faults.call("commit").map_err(CommitFailure::RolledBack)?;
        if let Some(kind) = *faults.every_write.lock().expect("not poisoned") {
            faults.refused_at.lock().expect("not poisoned").push(Instant::now());
            return Err(CommitFailure::RolledBack(Failure::new(kind, "no write today")));
        }
        inner.commit().await?;
        if let Some((clock, span)) = faults.stall_commit.lock().expect("not poisoned").take() {
            clock.advance(span);
        }
        if let Some((clock, _, committing)) = &*faults.slow.lock().expect("not poisoned") {
            clock.advance(*committing);
        }
        if forgets && faults.forgetting_unknown.swap(false, Ordering::SeqCst) {
            let failure = Failure::new(FailureKind::Unavailable, "the connection was lost");
            return Err(CommitFailure::Unknown(failure));
        }
        if faults.commit_unknown.swap(false, Ordering::SeqCst) {
            let failure = Failure::new(FailureKind::Fatal, "the disk said nothing");
            return Err(CommitFailure::Unknown(failure));
        }
        Ok(())
    }
}
