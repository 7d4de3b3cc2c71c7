//! What a batch looks up by name before it decides, and what it finds.
//!
//! Everything here is found by a key that a request carries. What a store selects by its own order (ready, due and
//! running tasks) is asked for by other calls of [`crate::seam::Batch`].

use std::borrow::Cow;

use verdict::log::Piece;
use verdict::{
    Amounts, ClosedAttempt, KeyUse, LeaseId, Object, ObjectKey, Span, Subject, TaskId, Time,
};

use crate::objects::{LoadedObject, ObjectFilter, UniqueKey};
use crate::row::{FlowRef, IdempotencyKey, KeyOwner, PollRef, Spec, TaskKey, TaskWithSpec};
use crate::runs::{RunLookup, SavedMessage};
use crate::spend::SpendQuery;

/// Leases of polls that one lookup reads, but all of one poll: as many as a commit grants.
pub const POLLED_LEASES_MAX: usize = 1_024;

/// Which polls one lookup serves, by how many leases each of them has.
pub struct PolledRoom {
    left: usize,
    is_untouched: bool,
}

impl Default for PolledRoom {
    fn default() -> Self {
        Self { left: POLLED_LEASES_MAX, is_untouched: true }
    }
}

impl PolledRoom {
    /// Whether a poll with so many leases is served.
    pub fn takes(&mut self, leases: usize) -> bool {
        if leases == 0 {
            return true;
        }
        let fits = leases <= self.left || std::mem::take(&mut self.is_untouched);
        self.is_untouched = false;
        self.left = if fits { self.left.saturating_sub(leases) } else { 0 };
        fits
    }
}

/// The names to look up. What is left empty costs nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lookup<'a> {
    /// Tasks to load and lock.
    pub tasks: &'a [TaskKey],
    /// Idempotency keys. The tasks that own them are loaded and locked too.
    pub keys: &'a [IdempotencyKey],
    /// What to do about tasks that another writer has locked.
    pub lock_wait: LockWait,
    /// Leases whose attempts may be closed.
    pub leases: &'a [(TaskId, LeaseId)],
    /// Polls whose leases are to be found, up to [`POLLED_LEASES_MAX`].
    pub polls: &'a [PollRef],
    /// Whether to read the shortest lease among running tasks.
    pub shortest_lease: bool,
    /// What requests about durable runs name.
    pub runs: &'a [RunLookup],
    /// Tasks whose saved messages are to be found: among `tasks`, or locked before. A task that does not exist yet cannot
    /// be locked; the guard of the delete protects its messages.
    pub messages: &'a [TaskKey],
    /// Objects to load and lock, after the tasks.
    pub objects: &'a [ObjectKey],
    /// The same, each named by its unique key.
    pub unique_objects: &'a [UniqueKey],
    /// Flow keys. Nothing is locked for them: only [`crate::seam::Batch::ready`] locks the keys of the tasks it returns.
    pub flows: &'a [FlowRef],
    /// Flow keys of submissions with a debounce. Each is locked against other such submissions until the batch ends, and the
    /// task that waits is loaded and locked, too.
    pub debounced: &'a [DebounceQuery],
    /// What was used. Locks nothing, and has what was committed before, not what this batch saved.
    pub spend: &'a [SpendQuery],
    /// Tasks whose logs are to be found: among `tasks`, or locked before.
    pub logs: &'a [TaskKey],
    /// Objects to list. Locks nothing, and has at least what was committed when the batch got the locks of an earlier lookup: a
    /// decision may rely on it if whoever changes these objects needs one of those locks, too.
    pub listed: &'a [ObjectFilter],
}

/// What to do about a task that another writer has locked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LockWait {
    /// Answer [`Loaded::Locked`]: a later batch asks again.
    #[default]
    Skip,
    /// Wait for the lock, for a limited time. Only for a task that was missed repeatedly and is alone in its batch: two
    /// batches that wait could deadlock.
    Wait,
}

/// A flow key whose waiting task is looked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DebounceQuery {
    pub flow: FlowRef,
    /// Tasks whose wait is over by then do not count.
    pub now: Time,
}

/// What was found for a submission with a debounce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DebouncedKey {
    /// Another writer submits with this key: ask again in a later batch.
    Locked,
    /// No task with this key waits for a newer one.
    Nobody,
    /// The task that waits.
    Waits(TaskId, Loaded),
}

/// A task as it was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loaded {
    Subject(Subject),
    /// Locked by another writer, or excluded from the batch: load it again in a later batch.
    Locked,
}

/// What was found. Each list is in the order of the names in the [`Lookup`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub tasks: Vec<Loaded>,
    /// The task that last used a key, while the key is remembered.
    pub owners: Vec<Option<(KeyOwner, Loaded)>>,
    pub closed: Vec<Option<ClosedAttempt>>,
    /// Running tasks whose leases were granted to a poll, in the order of their ids. `None` where those of polls before it were
    /// enough for one lookup; a poll without leases has none to wait for.
    pub leased: Vec<Option<Vec<TaskWithSpec>>>,
    /// `None` also where one process has all writers, which know of every lease anyway.
    pub shortest_lease: Option<Span>,
    /// What requests about durable runs named: what [`verdict::run::Records::load`] would load. The results of steps are
    /// left out. Empty for a task that another writer has locked.
    pub runs: Vec<verdict::Loaded>,
    /// What the tasks of the steps that are to be spawned are created with, by their ids: a part of the payload of a plan,
    /// which no rule reads.
    pub step_specs: Vec<(TaskId, Spec)>,
    /// The saved messages of each addressee, in the order of their keys, at most [`crate::runs::MESSAGES_MAX`] in all:
    /// those after a parked one of the same pair are left out.
    pub messages: Vec<Vec<SavedMessage>>,
    pub objects: Vec<LoadedObject>,
    pub unique_objects: Vec<LoadedObject>,
    /// How each flow key is used, with what the batch saved; `None` if no live task has it.
    pub flows: Vec<Option<KeyUse>>,
    pub debounced: Vec<DebouncedKey>,
    pub spend: Vec<Amounts>,
    /// The pieces of each log, in order.
    pub logs: Vec<Vec<Piece>>,
    pub listed: Vec<Vec<Object>>,
}

impl<'a> Lookup<'a> {
    pub fn tasks(tasks: &'a [TaskKey]) -> Self {
        Self { tasks, ..Self::default() }
    }

    pub fn keys(keys: &'a [IdempotencyKey]) -> Self {
        Self { keys, ..Self::default() }
    }

    pub fn leases(leases: &'a [(TaskId, LeaseId)]) -> Self {
        Self { leases, ..Self::default() }
    }

    pub fn polls(polls: &'a [PollRef]) -> Self {
        Self { polls, ..Self::default() }
    }

    pub fn runs(runs: &'a [RunLookup]) -> Self {
        Self { runs, ..Self::default() }
    }

    pub fn messages(messages: &'a [TaskKey]) -> Self {
        Self { messages, ..Self::default() }
    }

    pub fn objects(objects: &'a [ObjectKey]) -> Self {
        Self { objects, ..Self::default() }
    }

    pub fn flows(flows: &'a [FlowRef]) -> Self {
        Self { flows, ..Self::default() }
    }

    pub fn debounced(debounced: &'a [DebounceQuery]) -> Self {
        Self { debounced, ..Self::default() }
    }

    pub fn spend(spend: &'a [SpendQuery]) -> Self {
        Self { spend, ..Self::default() }
    }

    pub fn logs(logs: &'a [TaskKey]) -> Self {
        Self { logs, ..Self::default() }
    }

    pub fn shortest_lease() -> Self {
        Self { shortest_lease: true, ..Self::default() }
    }

    /// The tasks to load, in one pass so that their rows are locked in one order: the tasks asked for, then the owners
    /// of the keys.
    pub fn tasks_to_load(&self, owners: &[Option<KeyOwner>]) -> Cow<'a, [TaskKey]> {
        let owned = self.keys.iter().zip(owners).filter_map(|(key, owner)| {
            let owner = owner.as_ref()?;
            Some(TaskKey { scope: key.scope.clone(), id: owner.task })
        });
        let owned: Vec<TaskKey> = owned.collect();
        if owned.is_empty() {
            return Cow::Borrowed(self.tasks);
        }
        Cow::Owned([self.tasks, &owned].concat())
    }
}

impl Found {
    /// Distributes what was loaded for [`Lookup::tasks_to_load`].
    pub fn of(lookup: &Lookup<'_>, owners: Vec<Option<KeyOwner>>, mut loaded: Vec<Loaded>) -> Self {
        let mut owned = loaded.split_off(lookup.tasks.len()).into_iter();
        let with_task = |owner: Option<KeyOwner>| {
            owner.map(|owner| (owner, owned.next().expect("the owner of a key is loaded with it")))
        };
        let owners = owners.into_iter().map(with_task).collect();
        Self { tasks: loaded, owners, ..Self::default() }
    }
}
