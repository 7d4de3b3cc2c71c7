//! The seam: what a store can do. It remembers; it never decides.
//!
//! A [`Writer`] opens one [`Batch`] at a time: load and lock what the batch touches, save what was
//! decided, commit. Everything in a batch becomes durable together or not at all. Several writers
//! may work at once where the engine allows it; then row locks and the revision guard keep them
//! apart, and [`Loaded::Locked`] says that a row is another's for now.
//!
//! Nothing here names a rule. The order of what is ready, due and expiring is derived from two
//! numbers the rules give with every task (`claimable_at`, `wakes_at`).
//!
//! Futures are `Send`; an engine that works synchronously returns ready futures and asks for a thread
//! ([`Store::RUNS_ON`]).

use std::collections::BTreeSet;
use std::future::Future;
use std::time::Duration;

use verdict::{ClosedAttempt, LeaseId, Name, Rules, Scope, Subject, Task, TaskId, Time};

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

    /// Where writers of this store want to be driven.
    const RUNS_ON: RunsOn;

    /// How long nothing must have arrived before it is worth asking [`Writer::next_wake`]: where that is
    /// a question to a database, whoever comes meanwhile would wait for its answer.
    const IDLE_DELAY: Duration = Duration::ZERO;

    /// How often to look by oneself what others did, where others can write.
    const PEER_POLL_INTERVAL: Duration = Duration::from_millis(400);

    /// How many writers of one coordinator work beside each other: one, or two.
    fn committers(&self) -> usize {
        1
    }

    /// A writer. Engines with a single writer refuse a second one while the first lives; all refuse one that does
    /// not know the rules in force.
    fn writer(&self) -> impl Future<Output = Result<Self::Writer, Failure>> + Send;

    /// Waits until the store knows that writers which were dropped have gone. Whoever ends its process next leaves
    /// nobody behind who seems to work on.
    fn wait_for_dropped_writers(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Reads beside the writers, each call in one snapshot of committed state.
    fn browse(&self) -> &Self::Browse;

    /// The store's clock, as the next batch would read it.
    fn now(&self) -> Time;

    /// What was found when the store was opened.
    fn opened(&self) -> Opened;

    /// Which life of the store a batch belongs to, asked once the batch has read its clock. It grows while the
    /// store is open where a failover may have lost something that somebody was told of.
    fn epoch(&self) -> u32 {
        self.opened().epoch
    }

    /// The number of the version of the rules that decides, as far as is known; for operators.
    fn rules_in_force(&self) -> u32;

    /// What an acknowledged commit survives, promise by promise, as found when the store was opened; for
    /// operators.
    fn promises(&self) -> Vec<(&'static str, bool)> {
        Vec::new()
    }

    /// How many coordinators work on the store, as far as is known: a hint by which they share what is limited.
    fn coordinators(&self) -> impl Future<Output = Result<u32, Failure>> + Send {
        std::future::ready(Ok(1))
    }

    /// Tasks that others have ended, as soon as there are some. A hint, for one listener: whoever must know looks.
    /// Never, where nobody else can write.
    fn ended_elsewhere(&self) -> impl Future<Output = Vec<TaskId>> + Send {
        std::future::pending()
    }

    /// Resolves when somebody else may have changed something, or when it is time to look whether
    /// anybody has. A hint: nothing is lost by missing it but time. Never, where nobody else can write.
    fn changed_elsewhere(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }
}

/// The thread that a store's writers are driven from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunsOn {
    /// A thread for each writer: its calls block until the disk has answered.
    OwnThread,
    /// The async runtime: its calls wait without blocking, or never wait.
    Runtime,
}

/// What opening a store found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Which life of the store this is: larger after a restore. Part of every fence.
    pub epoch: u32,
    /// The time of the last commit before this opening: nobody was heard since then.
    pub last_commit_at: Option<Time>,
    /// How many writers may work at once.
    pub writers: usize,
}

pub trait Writer: Send + 'static {
    type Batch<'w>: Batch
    where
        Self: 'w;

    fn begin(&mut self) -> impl Future<Output = Result<Self::Batch<'_>, Failure>> + Send;

    /// The earliest instant at which time alone makes a task ready or needs a sweep.
    fn next_wake(&mut self) -> impl Future<Output = Result<Option<Time>, Failure>> + Send;

    /// The shortest lease among running tasks: how long a stall may last before it counts.
    fn shortest_lease(&self) -> Option<verdict::Span>;

    /// Writes one administrative act with its record, in a transaction of its own: administration is
    /// rare and shares nothing with batches. A key may not change its scope, nor come back once revoked.
    fn administer(
        &mut self,
        act: &Administration,
    ) -> impl Future<Output = Result<(), CommitFailure>> + Send;
}

/// One transaction. Dropping it without [`Batch::commit`] rolls it back.
pub trait Batch: Send {
    /// How many runs of each tenant wait or run, for decisions about more of them: until this batch ends no other
    /// batch counts the same tenants. Called before anything is loaded. `None` where one writer has the store
    /// alone and may count for itself.
    fn unfinished(
        &mut self,
        tenants: &[Name],
    ) -> impl Future<Output = Result<Option<Vec<u64>>, Failure>> + Send {
        let _ = tenants;
        std::future::ready(Ok(None))
    }

    /// Which polled queues are likely to hold something, by what is known without asking anybody: those about which
    /// it is worth saying what will be wanted ([`Batch::prefetch`]). None, where nothing is gained by saying so.
    fn likely_backlogs(&self, polled: &dyn PolledQueues) -> Vec<Backlog> {
        let _ = polled;
        Vec::new()
    }

    /// Says what will be asked of [`Batch::ready`], before anything is loaded: where every question is a way there
    /// and back, what is likely to be given is locked together with what is loaded.
    fn prefetch(&mut self, wants: &[Want]) {
        let _ = wants;
    }

    /// Leaves these tasks out of whatever this batch selects, before anything else is asked: what is stored of them
    /// cannot be carried on. A task that somebody asks for by its key is not left out.
    fn exclude(&mut self, tasks: &BTreeSet<TaskId>);

    /// Loads and locks tasks. The answers are in the order of the keys.
    fn load(
        &mut self,
        keys: &[TaskKey],
    ) -> impl Future<Output = Result<Vec<Loaded>, Failure>> + Send;

    /// The same, but waits a while for what another writer has locked. For a task that was missed
    /// again and again, in a batch of its own: two batches that wait could wait for each other.
    fn load_waiting_for_locks(
        &mut self,
        keys: &[TaskKey],
    ) -> impl Future<Output = Result<Vec<Loaded>, Failure>> + Send {
        self.load(keys)
    }

    /// Closed attempts by the lease they had.
    fn closed_attempts(
        &mut self,
        leases: &[(TaskId, LeaseId)],
    ) -> impl Future<Output = Result<Vec<Option<ClosedAttempt>>, Failure>> + Send;

    /// Which task an idempotency key was last used for, if that is still remembered.
    fn key_owners(
        &mut self,
        keys: &[IdempotencyKey],
    ) -> impl Future<Output = Result<Vec<Option<KeyOwner>>, Failure>> + Send;

    /// Tasks that are running under leases asked for by these polls.
    fn leased_to_polls(
        &mut self,
        polls: &[PollRef],
    ) -> impl Future<Output = Result<Vec<Vec<TaskWithSpec>>, Failure>> + Send;

    /// The clock, read once per batch and never moving backwards. Call it after loading.
    fn now(&mut self) -> impl Future<Output = Result<Time, Failure>> + Send;

    /// The shortest lease among running tasks, read now; [`Writer::shortest_lease`] knows of it from then on. `None`
    /// also where one process has all writers, which know of every lease anyway.
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

    /// Which polled queues may hold something claimable by `now`, in any order. None that holds something is left
    /// out; one that holds nothing, or nothing that its polls want, may be named. Asked before [`Batch::ready`], so
    /// that polls cost nothing while their queues are empty.
    fn backlogs(
        &mut self,
        polled: &dyn PolledQueues,
        now: Time,
    ) -> impl Future<Output = Result<Vec<Backlog>, Failure>> + Send {
        let _ = now;
        std::future::ready(Ok(all_polled(polled)))
    }

    /// Claimable tasks for each want, locked, by priority then age; no task is given twice in one
    /// call, and none that an earlier want of the same call took. Called again in the same batch it gives what was
    /// saved as granted to nobody else.
    fn ready(
        &mut self,
        wants: &[Want],
        now: Time,
    ) -> impl Future<Output = Result<Vec<Vec<TaskWithSpec>>, Failure>> + Send;

    /// Tasks whose `wakes_at` has come, earliest first, locked.
    fn due(
        &mut self,
        now: Time,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Task>, Failure>> + Send;

    /// Running tasks by id, after `after`, locked: for decisions about every lease. None is left out: one
    /// that another writer has is waited for, for a while, and then it is a conflict.
    fn running(
        &mut self,
        after: Option<TaskId>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Task>, Failure>> + Send;

    /// Ended tasks in order of submission, after `after`. The latest submission may be left out.
    fn ended(
        &mut self,
        after: Option<EndedPosition>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<EndedTask>, Failure>> + Send;

    /// Forgets ended tasks whole: what went in, every attempt, every decision, the end. Refused as
    /// invalid for a task that has not ended, or not for as long as its idempotency key holds.
    fn forget(
        &mut self,
        positions: &[EndedPosition],
    ) -> impl Future<Output = Result<(), Failure>> + Send;

    /// By which version of the rules this batch decides. If another one is in force by then, its commit is a
    /// conflict: load and decide again.
    fn rules(&self) -> Rules;

    /// Makes the commit durable even if nothing changed, so that "last heard" moves on.
    fn keep_alive(&mut self);

    fn commit(self) -> impl Future<Output = Result<(), CommitFailure>> + Send;
}

/// The queues that polls wait at, as their keeper knows them. There may be thousands, most of them empty: an engine
/// that knows which queues hold something looks at the smaller side.
pub trait PolledQueues: Sync {
    /// How many queues.
    fn count(&self) -> usize;

    fn contains(&self, scope: &Scope, queue: &Name) -> bool;

    /// Shows every queue once, in any order.
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
    /// Locked by another writer: ask again in a later batch.
    Locked,
}
