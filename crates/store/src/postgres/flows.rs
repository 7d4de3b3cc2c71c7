//! Flow keys between coordinators: who may grant tasks of a key, which tasks leave the ready order, and who brings them
//! back.
//!
//! - *Grants need the key's lock*, an advisory lock of the transaction, taken after the locks of the tasks and without
//!   waiting. Holders are counted after it, so the count has every lease that another coordinator granted. If the lock is
//!   not free, the tasks of the key are passed over in this batch. A task that comes back to the slot that it holds for
//!   life needs no lock: the number of holders stays.
//! - *A slot that is given back needs no lock*: nothing is counted but who holds one (a lease, or a task that was leased and keeps
//!   its slot for life), and one less can only leave room unused. A task that keeps its slot is never parked.
//! - *Parking is a mark of the row*, so that reads of ready tasks do not walk over parked ones. It decides nothing: a
//!   parked task that is tried and fits is granted. Who marks a task, or gives a slot back, looks at the key again after the
//!   commit ([`FlowMemory::to_tend`]). Of a parker and a releaser, the one that commits last sees both, so no task stays
//!   parked beside a free slot. A coordinator that dies in between leaves that to the others, which look at all keys
//!   with parked tasks every few seconds.
//! - *A rate counts starts*, which are rows of their own, written with the grants. A task that may not start yet is parked like
//!   one without a slot. Who granted or parked knows when the key opens, and looks at it then ([`FlowMemory::next_wake`]).
//!
//! Invariant: a slot is taken only by a transaction that holds the key's lock and has counted the holders and starts
//! since.

pub(super) mod keys;
pub(super) mod starts;
pub(super) mod statements;
mod tending;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;
use verdict::flow::{Rate, RateUse, Starts, flow_of};
use verdict::{FlowKey, KeyUse, Name, Scope, Subject, Task, TaskId, Time};

use self::statements::KeyCounts;
use super::batch::PostgresBatch;
use super::reads;
use super::ready::candidates::{BufferKey, Candidate};
use super::ready::queue_position::QueuePosition;
use crate::failure::Failure;
use crate::flow_starts::FlowStart;
use crate::row::FlowRef;

/// Statements about flow keys that batches repeat, to be prepared on direct connections.
pub(super) fn frequent_statements() -> impl Iterator<Item = &'static str> {
    statements::frequent_statements().into_iter().chain(starts::frequent_statements())
}

/// How often a coordinator looks at all keys with parked tasks. Only a coordinator that died leaves work for this.
const SWEEP_EVERY: Duration = Duration::from_secs(5);

/// What this process knows of keys, between batches.
#[derive(Default)]
pub(super) struct FlowMemory {
    /// Keys that may have parked tasks beside a free slot.
    to_tend: HashSet<FlowRef>,
    swept_at: Option<Instant>,
    /// Where the next sweep continues.
    swept_to: Option<FlowRef>,
    /// When the rates of keys open that have parked tasks.
    wakes: BTreeSet<(Time, FlowRef)>,
}

/// How many openings of keys a process remembers. The sweep finds the parked tasks of the others.
const WAKES_MAX: usize = 100_000;

impl FlowMemory {
    pub(super) fn add(&mut self, keys: impl IntoIterator<Item = FlowRef>) {
        self.to_tend.extend(keys);
    }

    /// Looks at keys when they open.
    pub(super) fn wake(&mut self, opening: impl IntoIterator<Item = (Time, FlowRef)>) {
        self.wakes.extend(opening);
        while self.wakes.len() > WAKES_MAX {
            self.wakes.pop_last();
        }
    }

    /// When the next key opens.
    pub(super) fn next_wake(&self) -> Option<Time> {
        self.wakes.first().map(|(at, _)| *at)
    }

    /// Keys that opened by now are looked at.
    fn open(&mut self, now: Time) {
        while self.wakes.first().is_some_and(|(at, _)| at.has_come(now))
            && let Some((_, flow)) = self.wakes.pop_first()
        {
            self.to_tend.insert(flow);
        }
    }

    /// Where to begin with the next sweep, if one is due.
    fn begin_sweep(&mut self, here: Instant) -> Option<Option<FlowRef>> {
        let is_due = self.swept_at.is_none_or(|swept_at| here >= swept_at + SWEEP_EVERY);
        if is_due {
            self.swept_at = Some(here);
        }
        is_due.then(|| self.swept_to.clone())
    }
}

/// What a batch knows of keys.
#[derive(Default)]
pub(super) struct FlowState {
    /// Without what the batch itself has changed.
    counts: HashMap<FlowRef, KeyCounts>,
    /// The keys whose lock the batch asked for, and whether it got it.
    locks: HashMap<FlowRef, bool>,
    /// Changed tasks that are written as parked.
    parked: HashSet<TaskId>,
    /// Keys to look at again after the commit.
    touched: HashSet<FlowRef>,
    /// Keys that this batch looked at: again, if it is rolled back.
    tended: Vec<FlowRef>,
    /// Tasks that came back into the ready order.
    unparked: Vec<Candidate>,
    /// Whether marks were written that should be kept.
    pub(super) has_moved: bool,
    /// Grants of this batch whose keys have a rate.
    starts: Vec<FlowStart>,
}

impl FlowState {
    pub(super) fn has_lock(&self, flow: &FlowRef) -> bool {
        self.locks.get(flow).copied().unwrap_or(false)
    }

    pub(super) fn add_starts(&mut self, starts: Vec<FlowStart>) {
        self.starts.extend(starts);
    }

    pub(super) fn starts(&self) -> &[FlowStart] {
        &self.starts
    }

    /// Whether a task is written as parked.
    pub(super) fn is_parked(&self, task: &Task) -> bool {
        self.parked.contains(&task.id) && task.claimable_at().is_some()
    }

    pub(super) fn parked(&self) -> &HashSet<TaskId> {
        &self.parked
    }

    /// Writes a changed task as parked.
    pub(super) fn park_changed(&mut self, id: TaskId) {
        self.parked.insert(id);
    }

    /// The key is looked at again after the commit.
    pub(super) fn touch(&mut self, flow: FlowRef) {
        self.touched.insert(flow);
    }

    /// Tasks that came back and that a poll of this buffer may take.
    pub(super) fn unparked_of(&self, buffer: &BufferKey) -> impl Iterator<Item = QueuePosition> {
        let is_there = move |candidate: &&Candidate| {
            (&candidate.scope, &candidate.queue) == (&buffer.scope, &buffer.queue)
                && buffer.takes_kind(&candidate.kind)
        };
        self.unparked.iter().filter(is_there).map(|candidate| candidate.position)
    }

    /// The kinds of the tasks of a queue that it brought back.
    pub(super) fn unparked_kinds(&self, scope: &Scope, queue: &Name) -> impl Iterator<Item = Name> {
        let is_there = move |it: &&Candidate| (&it.scope, &it.queue) == (scope, queue);
        self.unparked.iter().filter(is_there).map(|candidate| candidate.kind.clone())
    }

    pub(super) fn take_unparked(&mut self) -> Vec<Candidate> {
        std::mem::take(&mut self.unparked)
    }

    /// After the commit: the keys to look at again.
    pub(super) fn take_touched(&mut self) -> HashSet<FlowRef> {
        self.tended.clear();
        std::mem::take(&mut self.touched)
    }

    /// Without a commit: the keys that were looked at in vain.
    pub(super) fn take_tended(&mut self) -> Vec<FlowRef> {
        std::mem::take(&mut self.tended)
    }
}

/// What a batch has changed about a key.
#[derive(Clone, Copy, Default)]
pub(super) struct KeyChange {
    held: i64,
    /// The smallest limit of its live tasks.
    limit: Option<u32>,
    /// The rate that counts, of its live tasks.
    rate: Option<Rate>,
}

/// The key of a task with its scope, whether or not the task has ended.
pub(super) fn key_of(subject: &Subject) -> Option<FlowRef> {
    let (flow, scope) = (flow_of(subject)?, subject.scope()?);
    Some(FlowRef { scope: scope.clone(), key: flow.name.clone() })
}

fn id_of(subject: &Subject) -> Option<TaskId> {
    match subject {
        Subject::Absent => None,
        Subject::Live(task) => Some(task.id),
        Subject::Done(done) => Some(done.id),
    }
}

impl PostgresBatch<'_> {
    /// How these keys are used, with what this batch has decided.
    pub(super) async fn flow_uses(
        &mut self,
        flows: &[FlowRef],
    ) -> Result<Vec<Option<KeyUse>>, Failure> {
        if flows.is_empty() {
            return Ok(Vec::new());
        }
        let is_unknown = |flow: &&FlowRef| !self.flows.counts.contains_key(*flow);
        let unknown: Vec<FlowRef> = flows.iter().filter(is_unknown).cloned().collect();
        if !unknown.is_empty() {
            let setting = self.scopes.add(unknown.iter().map(|flow| &flow.scope));
            let asked = unknown.clone();
            let work = move |client| async move {
                let (set, counts) = futures_util::join!(
                    reads::set_scopes(&client, setting),
                    statements::count(&client, &asked)
                );
                set?;
                counts
            };
            let counts = self.transaction().run("looking up flow keys", work).await?;
            self.flows.counts.extend(unknown.into_iter().zip(counts));
        }
        let changes = self.key_changes();
        Ok(flows.iter().map(|flow| self.key_use(flow, &changes)).collect())
    }

    /// Locks keys without waiting, and counts their leases. A key is asked for once in a batch.
    pub(super) async fn lock_flows(&mut self, flows: Vec<FlowRef>) -> Result<(), Failure> {
        let mut unasked = flows;
        unasked.retain(|flow| !self.flows.locks.contains_key(flow));
        if unasked.is_empty() {
            return Ok(());
        }
        let setting = self.scopes.add(unasked.iter().map(|flow| &flow.scope));
        let asked = unasked.clone();
        let work = move |client| async move {
            // In this order: leases are counted after the locks.
            let (set, locks, counts) = futures_util::join!(
                reads::set_scopes(&client, setting),
                statements::lock(&client, &asked),
                statements::count(&client, &asked)
            );
            set?;
            Ok((locks?, counts?))
        };
        let (locks, counts) = self.transaction().run("locking flow keys", work).await?;
        self.flows.locks.extend(unasked.iter().cloned().zip(locks));
        self.flows.counts.extend(unasked.into_iter().zip(counts));
        Ok(())
    }

    /// What the batch has changed about keys: leases that it granted and ended.
    pub(super) fn key_changes(&self) -> HashMap<FlowRef, KeyChange> {
        let mut changes: HashMap<FlowRef, KeyChange> = HashMap::new();
        for subject in self.pending.subjects() {
            let (Some(flow), Some(id)) = (key_of(subject), id_of(subject)) else { continue };
            let held_before = self.held_slot(id);
            let holds = subject.live().is_some_and(Task::holds_slot);
            let change = changes.entry(flow).or_default();
            change.held += i64::from(holds) - i64::from(held_before);
            let terms = subject.live().and_then(Task::flow).map(FlowKey::terms);
            let limits = [change.limit, terms.map(|terms| terms.limit)];
            change.limit = limits.into_iter().flatten().min();
            change.rate = change.rate.max(terms.and_then(|terms| terms.rate));
        }
        changes
    }

    /// Whether the task held a slot of its key before this batch.
    fn held_slot(&self, id: TaskId) -> bool {
        self.locked.get(&id).is_some_and(|row| row.holds_slot)
    }

    fn key_use(&self, flow: &FlowRef, changes: &HashMap<FlowRef, KeyChange>) -> Option<KeyUse> {
        let counts = self.flows.counts.get(flow);
        let change = changes.get(flow).copied().unwrap_or_default();
        let limits = [counts.and_then(|counts| counts.limit), change.limit];
        let limit = limits.into_iter().flatten().min()?;
        let held = (i64::from(counts.map_or(0, |counts| counts.held)) + change.held).max(0);
        let rate = self.rate_of(flow, change).map(|(rate, starts)| {
            let now = self.now.unwrap_or_else(|| self.writer.shared.clock.now());
            RateUse::of(rate, &starts, now)
        });
        Some(KeyUse { limit, held: u32::try_from(held).unwrap_or(u32::MAX), rate })
    }

    /// The rate of a key, and its starts with those of this batch.
    fn rate_of(&self, flow: &FlowRef, change: KeyChange) -> Option<(Rate, Starts)> {
        let counts = self.flows.counts.get(flow);
        let counted = counts.and_then(|counts| counts.rate);
        let rate = counted.max(change.rate)?;
        let mut starts = counts.map(|counts| counts.starts.clone()).unwrap_or_default();
        let own = self.flows.starts.iter().filter(|start| start.flow == *flow);
        own.for_each(|start| starts.add(start.at));
        Some((rate, starts))
    }

    /// The keys that this batch touched and whose rate is used up, with the instants at which they open.
    pub(super) fn openings(&self, now: Time) -> Vec<(Time, FlowRef)> {
        if !self.knows_rates() {
            return Vec::new();
        }
        let started = self.flows.starts.iter().map(|start| &start.flow);
        let keys: HashSet<&FlowRef> = self.flows.touched.iter().chain(started).collect();
        let changes = self.key_changes();
        let opening = |flow: &&FlowRef| {
            let change = changes.get(*flow).copied().unwrap_or_default();
            let (rate, starts) = self.rate_of(flow, change)?;
            Some((starts.opens_at(rate, now)?, (*flow).clone()))
        };
        keys.iter().filter_map(opening).collect()
    }

    /// Whether a key of this batch has a rate. Most have none, and need no second look.
    fn knows_rates(&self) -> bool {
        let has_rate = |task: &Task| task.flow().is_some_and(|flow| flow.rate.is_some());
        self.flows.counts.values().any(|counts| counts.rate.is_some())
            || self.pending.live().any(has_rate)
    }

    /// How many slots of a key are free for tasks that may start.
    pub(super) fn free_slots(
        &self,
        flow: &FlowRef,
        changes: &HashMap<FlowRef, KeyChange>,
    ) -> usize {
        self.key_use(flow, changes).map_or(0, KeyUse::free) as usize
    }

    /// Takes locked tasks that this batch does not change out of the ready order.
    pub(super) async fn park_stored(&mut self, tasks: Vec<TaskId>) -> Result<(), Failure> {
        if tasks.is_empty() {
            return Ok(());
        }
        self.flows.has_moved = true;
        let work = move |client| async move { statements::park(&client, &tasks).await };
        self.transaction().run("parking tasks", work).await
    }

    /// Marks tasks that this batch makes claimable and that do not fit into what it knows of their keys. A task whose key
    /// it did not look up is offered: whoever tries it marks it.
    pub(super) fn park_pending(&mut self, now: Time) {
        let changes = self.key_changes();
        let mut room: HashMap<FlowRef, usize> = HashMap::new();
        let mut parked = Vec::new();
        let is_due = |task: &&Task| task.claimable_at().is_some_and(|due| due.has_come(now));
        let wants_slot = |task: &&Task| !task.holds_for_life();
        for task in self.pending.live().filter(is_due).filter(wants_slot) {
            let Some(flow) = FlowRef::of(task) else { continue };
            let Some(counts) = self.flows.counts.get(&flow) else { continue };
            if self.flows.parked.contains(&task.id) {
                continue;
            }
            let left = room.entry(flow.clone()).or_insert_with(|| match counts.has_parked {
                true => 0,
                false => self.free_slots(&flow, &changes).saturating_sub(counts.offered as usize),
            });
            match left.checked_sub(1) {
                Some(less) => *left = less,
                None => parked.push((task.id, flow)),
            }
        }
        for (id, flow) in parked {
            self.flows.parked.insert(id);
            self.flows.touched.insert(flow);
        }
    }

    /// Keys of which slots were given back in this batch, or whose limit may have changed with the end of a task.
    pub(super) fn freed_keys(&self) -> HashSet<FlowRef> {
        let freed = self.pending.subjects().filter(|subject| {
            let holds = subject.live().is_some_and(Task::holds_slot);
            let held_before = id_of(subject).is_some_and(|id| self.held_slot(id));
            !holds && (held_before || subject.live().is_none())
        });
        freed.filter_map(key_of).collect()
    }
}
