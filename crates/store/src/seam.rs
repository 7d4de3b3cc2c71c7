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
//!
//! The seam is [`Store`], [`Writer`], [`Batch`] and [`Browse`]. Each method says what it is for. Some look alike and stay
//! apart for a reason:
//! - [`Writer::shortest_lease`] is known without a query and asked between batches. [`Lookup::shortest_lease`] reads the
//!   leases of all coordinators, in the transaction of a batch that may have to roll back because of them.
//! - [`Batch::ready`] distributes tasks among wants; [`Batch::select`] knows no wants. [`Batch::ended`] returns
//!   positions, since retention reads no task.
//! - [`Browse::unfinished`] counts tenants by their indexes; [`Browse::queues`] reads every live task.
//! - [`Browse::latest`] reads no task, so that a check of a damaged store knows where to stop.
//! - [`Store::now`] is asked for every request, [`Store::status`] rarely.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use verdict::{Moment, Name, Object, Scope, Task, TaskId, Time};

use crate::administration::Administration;
use crate::browse::Browse;
use crate::failure::{CommitFailure, Failure};
use crate::logs::SavedLog;
pub use crate::lookup::{Found, Loaded, LockWait, Lookup};
use crate::objects::ObjectChange;
use crate::pauses::PausedQueues;
use crate::row::{
    Backlog, Change, EndedPosition, EndedTask, Refused, TaskKey, TaskWithSpec, Unfinished, Want,
};
use crate::runs::MessageChanges;
use crate::spend::SpendRow;

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

    /// The store's clock, as the next batch would read it. For everything outside batches that compares times: waits,
    /// limits, tokens.
    fn now(&self) -> Time;

    /// What is known about the store, without asking it.
    fn status(&self) -> StoreStatus;

    /// Resolves with what other processes did to tasks. A hint: a missed one costs only time, and a caller that must be
    /// certain reads the store. Never resolves where no other process can write.
    fn peer_hint(&self, of: PeerHint) -> impl Future<Output = Vec<RemoteChange>> + Send {
        let _ = of;
        std::future::pending()
    }
}

/// What another process did to a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemoteChange {
    Ended(TaskId),
    CancelRequested(CancelHint),
}

/// A cancel that the worker of a task has not been told of yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CancelHint {
    pub scope: Scope,
    pub queue: Name,
    /// The owner of the lease.
    pub worker: Name,
    pub task: TaskId,
}

impl CancelHint {
    /// The hint about this task, if its worker is to be told.
    pub fn of(task: &Task) -> Option<Self> {
        let is_untold = task.cancel.as_ref().is_some_and(|cancel| cancel.signalled_at.is_none());
        let lease = task.lease().filter(|_| is_untold)?;
        let (scope, queue) = (task.scope.clone(), task.queue.clone());
        Some(Self { scope, queue, worker: lease.owner.clone(), task: task.id })
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

/// What is known about an open store. The epoch and the rules may change while it is open; a batch has its own, see
/// [`Batch::moment`]. Everything else is as it was found when the store was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreStatus {
    /// Part of every fence. It grows with a restore, and with a failover that may have lost an acknowledged commit.
    pub epoch: u32,
    /// The number of the version of the rules in force, as far as this process knows.
    pub rules: u32,
    /// The time of the last commit before this opening: no heartbeat was recorded since then.
    pub last_commit_at: Option<Time>,
    /// How many writers may work concurrently, of all coordinators.
    pub writers: usize,
    /// How many writers this coordinator should use: one, or two.
    pub committers: usize,
    /// What an acknowledged commit survives: each guarantee and whether it holds; for operators.
    pub promises: Arc<[(&'static str, bool)]>,
}

/// What to learn of other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerHint {
    /// What they did to tasks that callers here may wait for, for one listener.
    Tasks,
    /// That something may have changed, or that it is time to poll. Names no task.
    Changed,
}

pub trait Writer: Send + 'static {
    type Batch<'w>: Batch
    where
        Self: 'w;

    /// Begins a batch, the only one of this writer until it ends.
    fn begin(&mut self) -> impl Future<Output = Result<Self::Batch<'_>, Failure>> + Send;

    /// The earliest instant at which the passing of time makes a task ready or due for a sweep, or a saved message or an object
    /// due:
    /// until then a carrier without requests sleeps.
    fn next_wake(&mut self) -> impl Future<Output = Result<Option<Time>, Failure>> + Send;

    /// The shortest lease among running tasks. It limits how long a stall may last before it counts.
    fn shortest_lease(&self) -> Option<verdict::Span>;

    /// Writes one administrative act with its audit record, in a separate transaction: administration is
    /// rare and shares nothing with batches. A key may not change its scope, nor become valid again once revoked. Batches
    /// under way may still ignore a pause that this writes: see [`Browse::settings_in_force`].
    fn administer(
        &mut self,
        act: &Administration,
    ) -> impl Future<Output = Result<(), CommitFailure>> + Send;
}

/// One transaction. Dropping it without [`Batch::commit`] rolls it back.
///
/// The calls of a batch, in order: prepare, look up, read the moment, save what was decided, select and save again,
/// commit.
pub trait Batch: Send {
    /// Says what the batch will touch, before anything is locked. Returns how much unfinished work (waiting or running) each
    /// tenant of the plan has; `None` where the store has a single writer, which may keep the count itself.
    fn prepare(
        &mut self,
        plan: Plan<'_>,
    ) -> impl Future<Output = Result<Option<Vec<Unfinished>>, Failure>> + Send;

    /// Looks up everything that requests name, and locks the tasks among it. May be called repeatedly.
    fn look_up(
        &mut self,
        lookup: Lookup<'_>,
    ) -> impl Future<Output = Result<Found, Failure>> + Send;

    /// The moment at which this batch decides: the store's clock, read once per batch and never moving backwards, with
    /// the epoch and the version of the rules. Call it after the lookup, so that the clock is read after the locks. If
    /// another version is in force at commit time, the commit is a conflict: load and decide again.
    fn moment(&mut self) -> impl Future<Output = Result<Moment, Failure>> + Send;

    /// Writes what was decided. Later calls in the same batch see it.
    fn save(&mut self, decided: Decided) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Which polled queues may hold claimable tasks, in any order, so that polls cost nothing while their queues are
    /// empty.
    fn backlogs(
        &mut self,
        polled: &dyn PolledQueues,
        claimable: Claimable,
    ) -> impl Future<Output = Result<Vec<Backlog>, Failure>> + Send {
        std::future::ready(Ok(match claimable {
            Claimable::By(_) => all_polled(polled),
            Claimable::Likely => Vec::new(),
        }))
    }

    /// Claimable tasks for each want, locked, by priority then age. A task is given once per call, to the first want
    /// that matches. A later call in the same batch does not return tasks that were saved as granted.
    fn ready(
        &mut self,
        wants: &[Want],
        now: Time,
    ) -> impl Future<Output = Result<Vec<Vec<TaskWithSpec>>, Failure>> + Send;

    /// The highest priority among the claimable tasks of each queue, which are not locked; `None` where there is none. A store
    /// may overlook tasks that became claimable with time, if there are many of them.
    fn most_urgent(
        &mut self,
        queues: &[(Scope, Name)],
        now: Time,
    ) -> impl Future<Output = Result<Vec<Option<i32>>, Failure>> + Send;

    /// Live tasks that no request names, locked, for decisions that time or a stall asks for.
    fn select(
        &mut self,
        selection: Selection,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Task>, Failure>> + Send;

    /// Tasks with saved messages that are due and not blocked by a parked one, earliest first, at most `limit`. If there are
    /// more, up to half of the places belong to the first addressees of tenants that have none among the earliest. Locks nothing, and costs nothing where the engine knows that there are none. A task may be named that another writer's
    /// batch is about to leave without messages.
    fn addressees(
        &mut self,
        now: Time,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<TaskKey>, Failure>> + Send;

    /// Objects that are due, earliest first, at most `limit`, locked: those that another writer has locked are left out.
    /// Costs nothing where the engine knows that there are none.
    fn due_objects(
        &mut self,
        now: Time,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Object>, Failure>> + Send;

    /// Ended runs in order of submission, after `after`, for retention: tasks without a parent. The newest submission may
    /// be left out.
    fn ended(
        &mut self,
        after: Option<EndedPosition>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<EndedTask>, Failure>> + Send;

    /// The queues that are paused for this batch. If they have changed by commit time, the commit is a conflict: load
    /// and decide again.
    fn paused(&self) -> &PausedQueues;

    /// The version of what coordinators keep in memory beside tasks and decide by: paused queues and endpoints. Every change
    /// of one of them raises it. If it has changed by commit time, the commit is a conflict, as for pauses. Always the same
    /// where the store has a single writer, which sees every change itself.
    fn settings_version(&self) -> i64 {
        0
    }

    /// Makes all of the batch durable, or nothing of it.
    fn commit(self) -> impl Future<Output = Result<(), CommitFailure>> + Send;
}

/// What a batch will touch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plan<'a> {
    /// Tasks whose stored rows cannot be carried on. The batch selects none of them, and a lookup answers
    /// [`Loaded::Locked`] without reading them.
    pub exclude: Option<&'a BTreeSet<TaskId>>,
    /// Tenants whose unfinished runs a quota limits. No other batch counts the same tenants until this batch ends.
    pub tenants: &'a [Name],
    /// What [`Batch::ready`] will be asked for. Where every query is a round trip, the engine locks the likely tasks in
    /// the same round trip as the lookup.
    pub prefetch: &'a [Want],
}

/// What a batch decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decided {
    pub changes: Vec<Change>,
    pub refused: Vec<Refused>,
    /// Ended runs to delete with everything that belongs to them: input, attempts, history, records, end, and all of
    /// that of their descendants. Invalid for a task that has not ended, that ended so recently that its idempotency key
    /// still holds, or that has a parent.
    pub forgotten: Vec<EndedPosition>,
    /// What becomes of messages between tasks. Saved after the changes.
    pub messages: MessageChanges,
    /// Objects that were created or changed, in order: one object may change twice.
    pub objects: Vec<ObjectChange>,
    /// What was used, to be added to the sums.
    pub spend: Vec<SpendRow>,
    /// What becomes of logs, each task once in a batch.
    pub logs: Vec<SavedLog>,
    /// Whether the commit is durable even if nothing changed: an empty commit records liveness.
    pub keep_alive: bool,
}

impl Decided {
    pub fn changes(changes: Vec<Change>) -> Self {
        Self { changes, ..Self::default() }
    }

    pub fn keep_alive() -> Self {
        Self { keep_alive: true, ..Self::default() }
    }
}

/// Which claimable tasks [`Batch::backlogs`] looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimable {
    /// Tasks that are claimable by this time. Every queue that holds one is named; a queue that holds none, or none
    /// that its polls want, may be named too. Ask before [`Batch::ready`].
    By(Time),
    /// Tasks that probably are, from memory alone: the queues worth a [`Plan::prefetch`]. Empty where prefetching gains
    /// nothing.
    Likely,
}

/// Which live tasks [`Batch::select`] returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Tasks with `wakes_at` at or before `now`, earliest first. A task that another writer has locked is left out.
    Due { now: Time },
    /// Running tasks by id, after `after`, for decisions about every lease. None is left out: the call waits up to a
    /// limit for a row that another writer holds, and then fails with a conflict.
    Running { after: Option<TaskId> },
}

/// The queues that polls wait at. There may be thousands, most of them empty: an engine that knows which queues hold
/// tasks iterates over the smaller set.
pub trait PolledQueues: Sync {
    /// The number of queues.
    fn count(&self) -> usize;

    fn contains(&self, scope: &Scope, queue: &Name) -> bool;

    /// Visits every queue once, in any order.
    fn each(&self, see: &mut dyn FnMut(&Scope, &Name));

    /// The number of kinds that polls of a scope name, at whatever queue. More than there are is no mistake.
    fn count_kinds(&self, _scope: &Scope) -> usize {
        usize::MAX
    }

    /// Whether a poll of the scope may name this kind.
    fn names_kind(&self, _scope: &Scope, _kind: &Name) -> bool {
        true
    }

    /// Visits every kind that is named once. Only for scopes that count them.
    fn each_kind(&self, _scope: &Scope, _see: &mut dyn FnMut(&Name)) {}
}

/// Kinds that one [`Batch::backlogs`] looks at, over all queues. Those of a queue for which nothing is left are not known: its
/// polls ask for their tasks in vain, which is slower and as right.
const KINDS_LOOKED_AT_MAX: usize = 16_384;

/// The same for one queue: as many as the largest poll names.
const KINDS_OF_QUEUE_MAX: usize = 256;

/// Finds out which of the kinds that polls name a queue holds. Looks at the kinds of the queue or at those that are named,
/// whichever are fewer, so that kinds which nobody polls, or nobody submits, cost nothing.
pub struct KindLooks<'a> {
    polled: &'a dyn PolledQueues,
    left: usize,
}

impl<'a> KindLooks<'a> {
    pub fn new(polled: &'a dyn PolledQueues) -> Self {
        Self { polled, left: KINDS_LOOKED_AT_MAX }
    }

    /// The kinds of a queue that has `held` kinds, in any order.
    pub fn of<'k>(
        &mut self,
        scope: &Scope,
        held: usize,
        kinds: impl Iterator<Item = &'k Name>,
        holds: impl Fn(&Name) -> bool,
    ) -> Option<Vec<Name>> {
        let named = self.polled.count_kinds(scope);
        let looks = held.min(named);
        if looks > KINDS_OF_QUEUE_MAX {
            return None;
        }
        self.left = self.left.checked_sub(looks)?;
        if held <= named {
            return Some(
                kinds.filter(|kind| self.polled.names_kind(scope, kind)).cloned().collect(),
            );
        }
        let mut found = Vec::new();
        self.polled.each_kind(scope, &mut |kind| found.extend(holds(kind).then(|| kind.clone())));
        Some(found)
    }

    /// How many looks were taken.
    pub fn taken(&self) -> usize {
        KINDS_LOOKED_AT_MAX - self.left
    }
}

/// Every polled queue, for engines that do not know which of them are empty.
pub fn all_polled(polled: &dyn PolledQueues) -> Vec<Backlog> {
    let mut backlogs = Vec::with_capacity(polled.count());
    polled.each(&mut |scope, queue| {
        let (scope, queue) = (scope.clone(), queue.clone());
        backlogs.push(Backlog { scope, queue, tasks: usize::MAX, kinds: None });
    });
    backlogs
}
