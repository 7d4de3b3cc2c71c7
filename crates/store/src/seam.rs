//! The seam: what a store can do. A store remembers; it never decides.
//!
//! A [`Writer`] opens one [`Batch`] at a time: load and lock the rows that the batch touches, save what
//! was decided, commit. A batch is atomic: all of it becomes durable, or none. Where the engine allows
//! several concurrent writers, row locks and the revision guard separate them, and [`Loaded::Locked`]
//! means that another writer holds the row.
//!
//! No rule is named here. An engine orders ready, due and expiring tasks by two numbers that the rules
//! compute for every task (`claimable_at`, `wakes_at`).
//!
//! Futures are `Send`. An engine that works synchronously returns ready futures and asks for a thread
//! ([`Store::RUNS_ON`]).

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use verdict::{ClosedAttempt, LeaseId, Moment, Name, Scope, Subject, Task, TaskId, Time};

use crate::administration::Administration;
use crate::browse::Browse;
use crate::failure::{CommitFailure, Failure};
use crate::row::{
    Backlog, Change, EndedPosition, EndedTask, IdempotencyKey, KeyOwner, PollRef, Refused, TaskKey,
    TaskWithSpec, Want,
};

pub trait Store: Clone + Send + Sync + 'static {
    type Writer: Writer;
    type Browse: Browse;

    /// Where this store's writers run.
    const RUNS_ON: RunsOn;

    /// Minimum idle time before [`Writer::next_wake`] is queried. Where that query is a round trip to a
    /// database, a request that arrives meanwhile would have to wait for it.
    const IDLE_DELAY: Duration = Duration::ZERO;

    /// How often to poll for changes of other processes, where others can write.
    const PEER_POLL_INTERVAL: Duration = Duration::from_millis(400);

    /// Opens a writer. Engines with a single writer refuse a second one while the first exists; all engines refuse a
    /// writer that does not know the rules in force.
    fn writer(&self) -> impl Future<Output = Result<Self::Writer, Failure>> + Send;

    /// Waits until the store has recorded that dropped writers are gone. A process that exits after this leaves no
    /// writer that still seems active.
    fn wait_for_dropped_writers(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Reads concurrently with the writers; each call sees one snapshot of committed state.
    fn browse(&self) -> &Self::Browse;

    /// The store's clock, as the next batch would read it.
    fn now(&self) -> Time;

    /// What was found when the store was opened.
    fn opened(&self) -> Opened;

    /// What may have changed since the store was opened, as far as this process knows; for explanations and operators.
    /// A batch has its own: see [`Batch::moment`].
    fn status(&self) -> StoreStatus;

    /// How many coordinators work on the store, as far as is known. A hint: they divide shared limits by it.
    fn coordinators(&self) -> impl Future<Output = Result<u32, Failure>> + Send {
        std::future::ready(Ok(1))
    }

    /// Resolves with tasks that other processes have ended. A hint, for one listener: a caller that must be certain
    /// reads the store. Never resolves where no other process can write.
    fn ended_elsewhere(&self) -> impl Future<Output = Vec<TaskId>> + Send {
        std::future::pending()
    }

    /// Resolves when another process may have changed something, or when it is time to poll. A hint: a missed
    /// one costs only time. Never resolves where no other process can write.
    fn changed_elsewhere(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }
}

/// Where a store's writers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunsOn {
    /// One thread for each writer: its calls block until the disk has answered.
    OwnThread,
    /// The async runtime: its calls wait without blocking, or never wait.
    Runtime,
}

/// What changes while a store is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreStatus {
    /// Which life of the store this is. It grows where a failover may have lost a commit that was acknowledged.
    pub epoch: u32,
    /// The number of the version of the rules in force.
    pub rules: u32,
}

/// What opening a store found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The store's epoch: larger after a restore. Part of every fence.
    pub epoch: u32,
    /// The time of the last commit before this opening: no heartbeat was recorded since then.
    pub last_commit_at: Option<Time>,
    /// How many writers may work concurrently, of all coordinators.
    pub writers: usize,
    /// How many writers this coordinator should use: one, or two.
    pub committers: usize,
    /// What an acknowledged commit survives, promise by promise; for operators.
    pub promises: Arc<[(&'static str, bool)]>,
}

/// What to do about a task that another writer has locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockWait {
    /// Answer [`Loaded::Locked`]: a later batch asks again.
    Skip,
    /// Wait a while. Only for a task that was missed again and again, in a batch without others: two batches that wait
    /// could wait for each other.
    Wait,
}

pub trait Writer: Send + 'static {
    type Batch<'w>: Batch
    where
        Self: 'w;

    /// Begins a batch, the only one of this writer until it ends.
    fn begin(&mut self) -> impl Future<Output = Result<Self::Batch<'_>, Failure>> + Send;

    /// The earliest instant at which the passing of time makes a task ready or due for a sweep.
    fn next_wake(&mut self) -> impl Future<Output = Result<Option<Time>, Failure>> + Send;

    /// The shortest lease among running tasks. It limits how long a stall may last before it counts.
    fn shortest_lease(&self) -> Option<verdict::Span>;

    /// Writes one administrative act with its audit record, in a separate transaction: administration is
    /// rare and shares nothing with batches. A key may not change its scope, nor become valid again once revoked.
    fn administer(
        &mut self,
        act: &Administration,
    ) -> impl Future<Output = Result<(), CommitFailure>> + Send;
}

/// One transaction. Dropping it without [`Batch::commit`] rolls it back.
pub trait Batch: Send {
    /// How many unfinished runs (waiting or running) each tenant has, for quota decisions. No other batch counts the
    /// same tenants until this batch ends. Call it before anything is loaded. `None` where the store has a single
    /// writer, which may keep the count itself.
    fn unfinished(
        &mut self,
        tenants: &[Name],
    ) -> impl Future<Output = Result<Option<Vec<u64>>, Failure>> + Send {
        let _ = tenants;
        std::future::ready(Ok(None))
    }

    /// Which polled queues are likely to hold tasks, from memory alone: the queues worth a [`Batch::prefetch`]. Empty
    /// where prefetching gains nothing.
    fn likely_backlogs(&self, polled: &dyn PolledQueues) -> Vec<Backlog> {
        let _ = polled;
        Vec::new()
    }

    /// Announces what [`Batch::ready`] will be asked for, before anything is loaded. Where every query is a round trip,
    /// the engine locks the likely tasks in the same round trip as the load.
    fn prefetch(&mut self, wants: &[Want]) {
        let _ = wants;
    }

    /// Leaves these tasks out of everything this batch selects, because their stored rows cannot be carried on. Call it
    /// before anything else. A task that is loaded by its key is not left out.
    fn exclude(&mut self, tasks: &BTreeSet<TaskId>);

    /// Loads and locks tasks. The answers are in the order of the keys.
    fn load(
        &mut self,
        keys: &[TaskKey],
        lock_wait: LockWait,
    ) -> impl Future<Output = Result<Vec<Loaded>, Failure>> + Send;

    /// Closed attempts, found by the lease they had.
    fn closed_attempts(
        &mut self,
        leases: &[(TaskId, LeaseId)],
    ) -> impl Future<Output = Result<Vec<Option<ClosedAttempt>>, Failure>> + Send;

    /// The task that last used an idempotency key, while the key is remembered.
    fn key_owners(
        &mut self,
        keys: &[IdempotencyKey],
    ) -> impl Future<Output = Result<Vec<Option<KeyOwner>>, Failure>> + Send;

    /// Running tasks whose leases were granted to these polls.
    fn leased_to_polls(
        &mut self,
        polls: &[PollRef],
    ) -> impl Future<Output = Result<Vec<Vec<TaskWithSpec>>, Failure>> + Send;

    /// The moment at which this batch decides: the store's clock, read once per batch and never moving backwards, with
    /// the epoch and the version of the rules. Call it after loading. If another version is in force at commit time, the
    /// commit is a conflict: load and decide again.
    fn moment(&mut self) -> impl Future<Output = Result<Moment, Failure>> + Send;

    /// Reads the shortest lease among running tasks and makes it known to [`Writer::shortest_lease`]. `None` also where
    /// one process has all writers, which know of every lease anyway.
    fn read_shortest_lease(
        &mut self,
    ) -> impl Future<Output = Result<Option<verdict::Span>, Failure>> + Send {
        std::future::ready(Ok(None))
    }

    /// Writes what was decided. Later calls in the same batch see it.
    fn save(
        &mut self,
        changes: Vec<Change>,
        refused: Vec<Refused>,
    ) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Which polled queues may hold a task that is claimable by `now`, in any order. Every queue that holds one is
    /// named; a queue that holds none, or none that its polls want, may be named too. Ask before [`Batch::ready`], so
    /// that polls cost nothing while their queues are empty.
    fn backlogs(
        &mut self,
        polled: &dyn PolledQueues,
        now: Time,
    ) -> impl Future<Output = Result<Vec<Backlog>, Failure>> + Send {
        let _ = now;
        std::future::ready(Ok(all_polled(polled)))
    }

    /// Claimable tasks for each want, locked, by priority then age. A task is given once per call, to the first want
    /// that matches. A later call in the same batch does not return tasks that were saved as granted.
    fn ready(
        &mut self,
        wants: &[Want],
        now: Time,
    ) -> impl Future<Output = Result<Vec<Vec<TaskWithSpec>>, Failure>> + Send;

    /// Tasks with `wakes_at` at or before `now`, earliest first, locked.
    fn due(
        &mut self,
        now: Time,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Task>, Failure>> + Send;

    /// Running tasks by id, after `after`, locked: for decisions about every lease. None is left out: the call waits up
    /// to a limit for a row that another writer holds, and then fails with a conflict.
    fn running(
        &mut self,
        after: Option<TaskId>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Task>, Failure>> + Send;

    /// Ended tasks in order of submission, after `after`. The newest submission may be left out.
    fn ended(
        &mut self,
        after: Option<EndedPosition>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<EndedTask>, Failure>> + Send;

    /// Deletes ended tasks with everything that belongs to them: input, attempts, history, end. Fails as invalid for a
    /// task that has not ended, or that ended so recently that its idempotency key still holds.
    fn forget(
        &mut self,
        positions: &[EndedPosition],
    ) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Makes the commit durable even if nothing changed: an empty commit records liveness.
    fn keep_alive(&mut self);

    /// Makes all of the batch durable, or nothing of it.
    fn commit(self) -> impl Future<Output = Result<(), CommitFailure>> + Send;
}

/// The queues that polls wait at. There may be thousands, most of them empty: an engine that knows which queues hold
/// tasks iterates over the smaller set.
pub trait PolledQueues: Sync {
    /// The number of queues.
    fn count(&self) -> usize;

    fn contains(&self, scope: &Scope, queue: &Name) -> bool;

    /// Visits every queue once, in any order.
    fn each(&self, see: &mut dyn FnMut(&Scope, &Name));
}

/// Every polled queue, for engines that do not know which of them are empty.
pub fn all_polled(polled: &dyn PolledQueues) -> Vec<Backlog> {
    let mut backlogs = Vec::with_capacity(polled.count());
    polled.each(&mut |scope, queue| {
        backlogs.push(Backlog { scope: scope.clone(), queue: queue.clone(), tasks: usize::MAX });
    });
    backlogs
}

/// A task as it was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loaded {
    Subject(Subject),
    /// Locked by another writer: load it again in a later batch.
    Locked,
}
