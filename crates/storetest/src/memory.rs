//! The reference engine: everything in memory, and simple enough to be obviously right.
//!
//! Simulations run on it, and the other engines must answer as it does. So it is naive on purpose:
//! ordered maps, scans instead of indexes, and no code shared with another engine. It is not for
//! production: its data ends with the process.
//!
//! With more than one of [`Writers`] it behaves like a database with several writers: rows that another batch
//! has locked are `Locked`, changes are guarded by revisions, and a lost race is a conflict.
//!
//! A commit counts once its [`Disk`] has synced it, so that a simulator can crash in between.
//!
//! Invariants: a batch is invisible until it commits; its locks are released when it ends, however it
//! ends; ended tasks, closed attempts and history are append-only.

mod batch;
mod browse;
mod disk;
mod flows;
mod held_reads;
mod objects;
mod runs;
mod tables;

use std::sync::{Arc, Mutex, MutexGuard};

use store::administration::Administration;
use store::clock::{Clock, ClockAhead, MonotonicClock};
use store::engine;
use store::failure::{CommitFailure, Failure, FailureKind};
use store::seam::{RunsOn, Store, StoreStatus, Writer};
use verdict::{Span, SupportedRules, Time};

pub use self::batch::MemoryBatch;
pub use self::browse::MemoryBrowse;
pub use self::disk::{CommitOutcome, Disk, Immediate, Synced};
use self::tables::Shared;

/// How many writers may work concurrently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writers {
    One,
    Two,
    /// This many, as in a database.
    Several(usize),
}

impl Writers {
    const fn count(self) -> usize {
        match self {
            Writers::One => 1,
            Writers::Two => 2,
            Writers::Several(count) => count,
        }
    }
}

#[derive(Clone)]
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    browse: MemoryBrowse,
    opened: StoreStatus,
    disk: Arc<dyn Disk>,
    known: SupportedRules,
    /// The number of this opening. Writers of an earlier opening can no longer use the store.
    opening: u64,
}

impl MemoryStore {
    /// An empty store with one writer.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_writers(clock, Writers::One)
    }

    pub fn with_writers(clock: Arc<dyn Clock>, writers: Writers) -> Self {
        let shared = Arc::new(Mutex::new(Shared::new()));
        let opened = StoreStatus {
            epoch: 1,
            rules: lock(&shared).rules,
            last_commit_at: None,
            writers: writers.count(),
            committers: 1,
            promises: [].into(),
        };
        Self::open(clock, shared, opened)
    }

    /// The same store on another disk: from now on that disk decides when commits are durable.
    #[must_use]
    pub fn on_disk(self, disk: Arc<dyn Disk>) -> Self {
        Self { disk, ..self }
    }

    /// The same store for a process that supports only these versions of the rules.
    #[must_use]
    pub fn with_rules(self, known: SupportedRules) -> Self {
        Self { known, ..self }
    }

    /// Another session with the same data, as of a second coordinator: the writers, locks and commits of
    /// other sessions stay. `clock` is its view of the store's one clock.
    #[must_use]
    pub fn attach(&self, clock: Arc<dyn Clock>) -> Self {
        let shared = self.browse.shared.clone();
        let last_commit_at = lock(&shared).tables.last_commit_at;
        let reading = self.browse.reading.with_clock(clock.clone());
        let opened = StoreStatus { last_commit_at, ..self.opened.clone() };
        Self { clock, browse: MemoryBrowse::new(shared, reading), opened, ..self.clone() }
    }

    /// Commits that were written and whose writer is gone: it is unknown whether they are durable.
    pub fn orphans(&self) -> Vec<u64> {
        lock(&self.browse.shared).orphans()
    }

    /// Decides the outcome of an orphaned commit; until then its rows stay locked.
    pub fn settle(&self, orphan: u64, outcome: CommitOutcome) {
        lock(&self.browse.shared).settle(orphan, outcome);
    }

    /// The outcome of a batch, once it is decided: what a database knows from the batch's marker.
    pub fn commit_outcome(&self, batch: u64) -> Option<CommitOutcome> {
        lock(&self.browse.shared).commit_outcome(batch)
    }

    /// The same data after a crash: uncommitted changes and all writers are gone.
    #[must_use]
    pub fn reopen(&self) -> Self {
        self.reopen_in(self.opened.epoch)
    }

    /// The same data as after a restore from a backup: a new epoch, so no earlier lease counts.
    #[must_use]
    pub fn restore(&self) -> Self {
        self.reopen_in(self.opened.epoch + 1)
    }

    fn reopen_in(&self, epoch: u32) -> Self {
        let last_commit_at = lock(&self.browse.shared).tables.last_commit_at;
        let opened = StoreStatus { epoch, last_commit_at, ..self.opened.clone() };
        Self::open(self.clock.clone(), self.browse.shared.clone(), opened)
            .on_disk(self.disk.clone())
            .with_rules(self.known)
    }

    fn open(clock: Arc<dyn Clock>, shared: Arc<Mutex<Shared>>, opened: StoreStatus) -> Self {
        let reading =
            MonotonicClock::open(clock.clone(), opened.last_commit_at, ClockAhead::Accept)
                .expect("a clock that is accepted opens");
        let opening = lock(&shared).start_opening();
        let disk = Arc::new(Immediate);
        let known = SupportedRules::OURS;
        Self { clock, browse: MemoryBrowse::new(shared, reading), opened, disk, known, opening }
    }
}

impl Store for MemoryStore {
    type Writer = MemoryWriter;
    type Browse = MemoryBrowse;

    const RUNS_ON: RunsOn = RunsOn::Runtime;

    async fn writer(&self) -> Result<MemoryWriter, Failure> {
        let mut shared = lock(&self.browse.shared);
        shared.check_opening(self.opening)?;
        if shared.writers == self.opened.writers {
            return Err(Failure::new(FailureKind::Closed, "every writer of the store is taken"));
        }
        Ok(MemoryWriter {
            number: shared.add_writer(self.known)?,
            known: self.known,
            shared: self.browse.shared.clone(),
            reading: self.browse.reading.clone(),
            disk: self.disk.clone(),
            opening: self.opening,
            epoch: self.opened.epoch,
            looked_at: None,
        })
    }

    fn browse(&self) -> &MemoryBrowse {
        &self.browse
    }

    fn now(&self) -> Time {
        self.browse.reading.now()
    }

    fn status(&self) -> StoreStatus {
        StoreStatus { rules: lock(&self.browse.shared).rules, ..self.opened.clone() }
    }
}

pub struct MemoryWriter {
    number: u64,
    known: SupportedRules,
    shared: Arc<Mutex<Shared>>,
    reading: MonotonicClock,
    disk: Arc<dyn Disk>,
    opening: u64,
    epoch: u32,
    /// When a batch last read the clock: tasks that were ready by then have been seen.
    looked_at: Option<Time>,
}

impl Writer for MemoryWriter {
    type Batch<'w> = MemoryBatch<'w>;

    async fn begin(&mut self) -> Result<MemoryBatch<'_>, Failure> {
        let (number, rules, paused, version) = {
            let mut shared = lock(&self.shared);
            shared.check_opening(self.opening)?;
            let rules = engine::known_rules(shared.rules, self.known)?;
            let version = shared.tables.objects.settings_version();
            (shared.number_batch(), rules, shared.tables.paused.clone(), version)
        };
        Ok(MemoryBatch::new(self, number, rules, (paused, version)))
    }

    /// A task that became ready after the last batch read the clock still counts, even if its time is past:
    /// otherwise its wake-up would be lost between two readings of the clock.
    async fn next_wake(&mut self) -> Result<Option<Time>, Failure> {
        let shared = lock(&self.shared);
        shared.check_opening(self.opening)?;
        let unseen = |at: &Time| self.looked_at.is_none_or(|looked_at| *at > looked_at);
        let wakes = shared.tables.live.values().flat_map(|task| {
            [task.wakes_at(), task.claimable_at().filter(unseen)].into_iter().flatten()
        });
        let messages = runs::unblocked(&shared.tables.messages).map(|(_, message)| message.due);
        let objects = shared.tables.objects.current.values().filter_map(|object| object.due);
        let starts = shared.tables.flow_starts();
        // A key that opened since the last batch counts for the same reason.
        let looked_at = self.looked_at.unwrap_or_else(|| self.reading.now());
        let openings = flows::openings(shared.tables.live.values(), &starts, looked_at);
        Ok(wakes.chain(messages).chain(objects).chain(openings).min())
    }

    fn shortest_lease(&self) -> Option<Span> {
        let shared = lock(&self.shared);
        let running = shared.tables.live.values().filter(|task| task.lease().is_some());
        running.map(|task| task.policy.shortest_silence()).min()
    }

    async fn administer(&mut self, act: &Administration) -> Result<(), CommitFailure> {
        let mut shared = lock(&self.shared);
        if !act.pauses.is_empty() && shared.has_commits_in_flight() {
            // Their outcome must be known before a pause can be said to hold.
            return Err(CommitFailure::RolledBack(engine::audit_conflict()));
        }
        let written =
            shared.check_opening(self.opening).and_then(|()| shared.tables.administer(act));
        written.map_err(CommitFailure::RolledBack)
    }
}

impl Drop for MemoryWriter {
    fn drop(&mut self) {
        let mut shared = lock(&self.shared);
        if shared.check_opening(self.opening).is_ok() {
            shared.remove_writer(self.number);
        }
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().expect("no code panics while it holds the tables")
}
