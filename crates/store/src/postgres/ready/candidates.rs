//! Which tasks to try next, and what must be read to find out: small in-memory buffers per queue.
//!
//! If every grant scanned its queue from the head, it would walk over the dead entries of all tasks taken before, for
//! as long as any old snapshot keeps them. So tasks are locked by key, and this module says which keys are worth
//! trying. Candidates are hints, not truth: before a task is granted, its row is locked and checked again.
//!
//! Buffers are filled by reads beside the batches ([`super::refill`]) in a fair order ([`super::refill_schedule`]).
//! They are corrected by this process's commits and by the few tasks that a peer's hint names. They are read again
//! from the head when a peer may have changed more: after a hint that names only the queue, and when the last refill
//! is old.
//!
//! Each polled queue has a buffer for all of its tasks. Some kinds get a separate buffer only if the queue is longer
//! than its buffer and the buffered part has no tasks of those kinds.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;
use verdict::{Name, Scope, Subject, Task, TaskId, Time};

use super::queue_buffer::{Page, QueueBuffer, RefillFrom};
use super::queue_position::QueuePosition;
use super::refill_schedule::{BUFFERS_PER_READ, QueueUsage, ReadSpeed, RefillSchedule, RefillSlot};
use crate::row::{Backlog, Want};
use crate::seam::{KindLooks, PolledQueues};

/// Maximum number of queues in memory. Beyond it, the least active queue of the tenant with the most buffers is
/// evicted.
const QUEUES_MAX: usize = 16_384;

/// Maximum number of buffers for some kinds per queue. Beyond it, one of them is evicted and read again on demand.
const KINDS_MAX: usize = 64;

/// A queue that was not polled for this long is evicted and no longer read.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// Up to this many polled queues, every batch goes through all of them, in less than a millisecond; beyond it only
/// once per `NOTED_EVERY`.
const NOTED_EVERY_TIME: usize = 4_096;
const NOTED_EVERY: Duration = Duration::from_millis(50);

/// Pause before buffers whose read failed are read again.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Kinds of tasks, sorted; `None` means every kind.
pub(in crate::postgres) type Kinds = Option<Vec<Name>>;

/// The part of a queue that a poll can use.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::postgres) struct BufferKey {
    pub(in crate::postgres) scope: Scope,
    pub(in crate::postgres) queue: Name,
    pub(in crate::postgres) kinds: Kinds,
}

impl BufferKey {
    /// Whether the buffer is for this task.
    pub(in crate::postgres) fn has(&self, task: &Task) -> bool {
        let takes_kind = self.kinds.as_ref().is_none_or(|kinds| kinds.contains(&task.kind));
        takes_kind && (&self.scope, &self.queue) == (&task.scope, &*task.offered_in())
    }

    /// The buffers that can serve a want, without duplicates.
    pub(in crate::postgres) fn of(want: &Want) -> Vec<Self> {
        let mut kinds = want.kinds.clone();
        if let Some(kinds) = &mut kinds {
            kinds.sort();
            kinds.dedup();
        }
        let mut queues: Vec<&Name> = want.queues.iter().collect();
        queues.sort();
        queues.dedup();
        let buffer = |queue: &Name| Self {
            scope: want.scope.clone(),
            queue: queue.clone(),
            kinds: kinds.clone(),
        };
        queues.into_iter().map(buffer).collect()
    }

    /// The buffer for all tasks of a queue.
    pub(in crate::postgres) fn all_kinds(scope: &Scope, queue: &Name) -> Self {
        Self { scope: scope.clone(), queue: queue.clone(), kinds: None }
    }

    pub(in crate::postgres) fn takes_kind(&self, kind: &Name) -> bool {
        takes(&self.kinds, kind)
    }

    fn queue_key(&self) -> QueueKey {
        (self.scope.clone(), self.queue.clone())
    }
}

fn takes(kinds: &Kinds, kind: &Name) -> bool {
    kinds.as_ref().is_none_or(|kinds| kinds.contains(kind))
}

type QueueKey = (Scope, Name);

/// A task that may be ready, as far as this coordinator knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::postgres) struct Candidate {
    pub(in crate::postgres) scope: Scope,
    pub(in crate::postgres) queue: Name,
    pub(in crate::postgres) kind: Name,
    pub(in crate::postgres) position: QueuePosition,
}

impl Candidate {
    pub(in crate::postgres) fn of(task: &Task) -> Self {
        let (scope, kind) = (task.scope.clone(), task.kind.clone());
        let queue = task.offered_in().into_owned();
        Self { scope, queue, kind, position: QueuePosition::new(task.priority, task.id) }
    }
}

/// A buffer with its slot in the schedule.
struct BufferEntry {
    buffer: QueueBuffer,
    speed: ReadSpeed,
    slot: Option<RefillSlot>,
    /// The read that a batch waits for.
    requested: Option<RefillFrom>,
}

impl BufferEntry {
    fn new() -> Self {
        Self {
            buffer: QueueBuffer::default(),
            speed: ReadSpeed::Quick,
            slot: None,
            requested: None,
        }
    }
}

struct Queue {
    buffers: HashMap<Kinds, BufferEntry>,
    polled_at: Instant,
    /// The earliest due time of its delayed tasks, as far as is known.
    next_due_at: Option<Time>,
}

impl Queue {
    fn all_kinds(&self) -> Option<&QueueBuffer> {
        self.buffers.get(&None).map(|entry| &entry.buffer)
    }

    /// The buffers that hold tasks of this kind.
    fn taking_kind(&mut self, kind: &Name) -> impl Iterator<Item = &mut QueueBuffer> {
        let taking_kind = self.buffers.iter_mut().filter(move |(kinds, _)| takes(kinds, kind));
        taking_kind.map(|(_, entry)| &mut entry.buffer)
    }
}

#[derive(Default)]
pub(in crate::postgres) struct Candidates {
    queues: HashMap<QueueKey, Queue>,
    refills: RefillSchedule,
    /// Queues that may hold a task.
    nonempty: HashSet<QueueKey>,
    /// Queues with delayed tasks, by the earliest due time.
    next_dues: BTreeSet<(Time, QueueKey)>,
    /// Polled queues that were never read.
    never_read: BTreeSet<QueueKey>,
    /// When a batch last went through all polled queues.
    polled_noted_at: Option<Instant>,
    /// Tasks that a running batch of this process has reserved.
    reserved: HashMap<TaskId, u64>,
}

impl Candidates {
    /// Records which queues are polled. Returns whether some of them need their first read.
    pub(in crate::postgres) fn note_polled(
        &mut self,
        polled: &dyn PolledQueues,
        here: Instant,
    ) -> bool {
        let is_recent = self
            .polled_noted_at
            .is_some_and(|polled_noted_at| here < polled_noted_at + NOTED_EVERY);
        if polled.count() > NOTED_EVERY_TIME && is_recent {
            return false;
        }
        self.polled_noted_at = Some(here);
        let mut is_any_new = false;
        polled.each(&mut |scope, name| {
            let key = (scope.clone(), name.clone());
            match self.queues.get_mut(&key) {
                Some(queue) => queue.polled_at = here,
                None => {
                    self.add_queue(key, here);
                    is_any_new = true;
                }
            }
        });
        is_any_new
    }

    fn add_queue(&mut self, key: QueueKey, here: Instant) {
        if self.queues.len() >= QUEUES_MAX
            && let Some(idle) = self.refills.most_idle()
        {
            self.forget(&idle.queue_key());
        }
        let buffers = HashMap::from([(None, BufferEntry::new())]);
        self.queues.insert(key.clone(), Queue { buffers, polled_at: here, next_due_at: None });
        let all_kinds = BufferKey::all_kinds(&key.0, &key.1);
        self.never_read.insert(key);
        self.schedule(&all_kinds, here);
    }

    fn forget(&mut self, key: &QueueKey) {
        self.set_next_due(key, None);
        self.nonempty.remove(key);
        self.never_read.remove(key);
        let Some(queue) = self.queues.remove(key) else { return };
        for (kinds, entry) in queue.buffers {
            if let Some(slot) = entry.slot {
                let (scope, queue) = key.clone();
                self.refills.remove(&BufferKey { scope, queue, kinds }, slot);
            }
        }
    }

    fn entry(&self, key: &BufferKey) -> Option<&BufferEntry> {
        self.queues.get(&key.queue_key())?.buffers.get(&key.kinds)
    }

    fn entry_mut(&mut self, key: &BufferKey) -> Option<&mut BufferEntry> {
        self.queues.get_mut(&key.queue_key())?.buffers.get_mut(&key.kinds)
    }

    /// Puts a buffer into its slot of the schedule. A buffer for some kinds is scheduled only while a batch waits for
    /// it.
    fn schedule(&mut self, key: &BufferKey, here: Instant) {
        let Some(entry) = self.entry_mut(key) else { return };
        let before = entry.slot.take();
        let is_needed = entry.requested.is_some();
        let at = if is_needed { here } else { entry.buffer.next_refill_at(here) };
        let is_held = is_needed || entry.buffer.was_used();
        let usage = if is_held { QueueUsage::Used } else { QueueUsage::NeverUsed };
        let is_listed = !entry.buffer.is_being_read() && (is_needed || key.kinds.is_none());
        let slot = is_listed.then_some(RefillSlot { at, speed: entry.speed, usage });
        entry.slot = slot;
        if let Some(before) = before {
            self.refills.remove(key, before);
        }
        if let Some(slot) = slot {
            self.refills.add(key, slot);
        }
    }

    /// The polled queues that may hold a task, as far as is known.
    pub(in crate::postgres) fn backlogs(&self, polled: &dyn PolledQueues) -> Vec<Backlog> {
        let (mut backlogs, mut looks) = (Vec::new(), KindLooks::new(polled));
        let mut add = |scope: &Scope, queue: &Name, all_kinds: Option<&QueueBuffer>| {
            let complete = all_kinds.filter(|buffer| buffer.is_complete());
            let tasks = complete.map_or(usize::MAX, QueueBuffer::count);
            let kinds = complete.and_then(|buffer| buffer.named_kinds(scope, &mut looks));
            let (scope, queue) = (scope.clone(), queue.clone());
            backlogs.push(Backlog { scope, queue, tasks, kinds });
        };
        let all_kinds = |key: &QueueKey| self.queues.get(key).and_then(Queue::all_kinds);
        if self.nonempty.len() <= polled.count() {
            for key in self.nonempty.iter().filter(|(scope, queue)| polled.contains(scope, queue)) {
                add(&key.0, &key.1, all_kinds(key));
            }
        } else {
            polled.each(&mut |scope, queue| {
                let key = (scope.clone(), queue.clone());
                if self.nonempty.contains(&key) {
                    add(scope, queue, all_kinds(&key));
                }
            });
        }
        backlogs
    }

    /// Whether every waiting task of a queue is among the candidates, as far as is known.
    pub(in crate::postgres) fn is_complete(&self, key: &QueueKey) -> bool {
        let all_kinds = self.queues.get(key).and_then(Queue::all_kinds);
        all_kinds.is_some_and(QueueBuffer::is_complete)
    }

    /// Turns delayed tasks that are now due into candidates. Returns whether a read is needed for that.
    pub(in crate::postgres) fn promote_due(&mut self, now: Time) -> bool {
        let mut is_any_needed = false;
        while let Some((due, key)) = self.next_dues.first().cloned()
            && due.has_come(now)
        {
            self.set_next_due(&key, None);
            self.next_dues.remove(&(due, key.clone()));
            let Some(queue) = self.queues.get_mut(&key) else { continue };
            queue.buffers.values_mut().for_each(|entry| entry.buffer.promote_due(now));
            let next_due = queue.all_kinds().and_then(QueueBuffer::next_due);
            if next_due.is_some_and(|due| due.has_come(now)) {
                // The buffer is at the end of the delayed tasks that were read; more may be due.
                let all_kinds = BufferKey::all_kinds(&key.0, &key.1);
                self.request_refill(&all_kinds, RefillFrom::Head, tokio::time::Instant::now());
                is_any_needed = true;
                self.nonempty.insert(key);
            } else {
                self.update_queue(&key);
            }
        }
        is_any_needed
    }

    /// Updates the indexes after a change of a queue's buffers.
    fn update_queue(&mut self, key: &QueueKey) {
        let all_kinds = self.queues.get(key).and_then(Queue::all_kinds);
        let (may_have_candidates, next_due) = (
            all_kinds.is_some_and(QueueBuffer::may_have_candidates),
            all_kinds.and_then(QueueBuffer::next_due),
        );
        if may_have_candidates {
            self.nonempty.insert(key.clone());
        } else {
            self.nonempty.remove(key);
        }
        self.set_next_due(key, next_due);
    }

    fn set_next_due(&mut self, key: &QueueKey, due: Option<Time>) {
        let Some(queue) = self.queues.get_mut(key) else { return };
        if let Some(before) = std::mem::replace(&mut queue.next_due_at, due) {
            self.next_dues.remove(&(before, key.clone()));
        }
        if let Some(due) = due {
            self.next_dues.insert((due, key.clone()));
        }
    }

    /// What to read now so that the buffer can supply `wanted` tasks that `is_free` allows.
    pub(in crate::postgres) fn missing_refill(
        &self,
        key: &BufferKey,
        now: Time,
        wanted: usize,
        is_free: impl Fn(TaskId) -> bool,
    ) -> Option<(BufferKey, RefillFrom)> {
        let all_kinds = BufferKey::all_kinds(&key.scope, &key.queue);
        let Some(entry) = self.entry(&all_kinds) else {
            return Some((all_kinds, RefillFrom::Head));
        };
        let kinds = key.kinds.as_deref();
        let refill = entry.buffer.missing_refill(kinds, wanted, now, &is_free)?;
        if kinds.is_none() || refill == RefillFrom::Head {
            return Some((all_kinds, refill));
        }
        let Some(part) = self.entry(key) else { return Some((key.clone(), RefillFrom::Head)) };
        let here = tokio::time::Instant::now();
        let is_old = || (part.buffer.next_refill_at(here) <= here).then_some(RefillFrom::Head);
        let refill = part.buffer.missing_refill(kinds, wanted, now, is_free).or_else(is_old)?;
        Some((key.clone(), refill))
    }

    /// Requests this read on behalf of a waiting batch.
    pub(in crate::postgres) fn request_refill(
        &mut self,
        key: &BufferKey,
        refill: RefillFrom,
        here: Instant,
    ) {
        if !self.queues.contains_key(&key.queue_key()) {
            self.add_queue(key.queue_key(), here);
        }
        self.make_room_for(key);
        let Some(queue) = self.queues.get_mut(&key.queue_key()) else { return };
        queue.polled_at = here;
        queue.buffers.entry(key.kinds.clone()).or_insert_with(BufferEntry::new).requested =
            Some(refill);
        self.schedule(key, here);
    }

    fn make_room_for(&mut self, key: &BufferKey) {
        let Some(queue) = self.queues.get_mut(&key.queue_key()) else { return };
        if queue.buffers.len() <= KINDS_MAX || queue.buffers.contains_key(&key.kinds) {
            return;
        }
        let is_idle =
            |(kinds, entry): &(&Kinds, &BufferEntry)| kinds.is_some() && entry.slot.is_none();
        let idle = queue.buffers.iter().find(is_idle).map(|(kinds, _)| kinds.clone());
        if let Some(kinds) = idle {
            queue.buffers.remove(&kinds);
        }
    }

    /// Whether a read of this buffer is running or about to begin.
    pub(in crate::postgres) fn is_pending(&self, key: &BufferKey, here: Instant) -> bool {
        let is_throttled = || self.refills.is_throttled(&key.scope.tenant, here);
        self.entry(key).is_some_and(|entry| {
            let is_first =
                !entry.buffer.is_known() && entry.slot.is_some_and(|slot| slot.at <= here);
            entry.buffer.is_being_read()
                || entry.requested.is_some()
                || (is_first && !is_throttled())
        })
    }

    /// Polled queues whose first read is running or about to begin, and worth waiting for. Not those of a tenant that
    /// has more of them than one refill takes: thousands of workers that arrive together would stop every batch for
    /// many refills. Their polls get what the reads find later.
    pub(in crate::postgres) fn pending_first_reads(&self, here: Instant) -> Vec<BufferKey> {
        let never_read: Vec<&QueueKey> = self.never_read.iter().collect();
        let tenants = never_read.chunk_by(|(a, _), (b, _)| a.tenant == b.tenant);
        let buffers = tenants
            .filter(|queues| queues.len() <= BUFFERS_PER_READ)
            .flatten()
            .map(|(scope, queue)| BufferKey::all_kinds(scope, queue));
        buffers.filter(|buffer| self.is_pending(buffer, here)).take(BUFFERS_PER_READ).collect()
    }

    /// Takes the buffers of the next refill.
    pub(in crate::postgres) fn begin_refill(
        &mut self,
        speed: ReadSpeed,
        here: Instant,
    ) -> Vec<(BufferKey, RefillFrom)> {
        let mut buffers = Vec::new();
        for key in self.refills.take(speed, here) {
            let queue_key = key.queue_key();
            let Some(queue) = self.queues.get_mut(&queue_key) else { continue };
            let is_idle = here > queue.polled_at + IDLE_MAX;
            let Some(entry) = queue.buffers.get_mut(&key.kinds) else { continue };
            entry.slot = None;
            if is_idle && entry.requested.is_none() {
                self.forget(&queue_key);
                continue;
            }
            entry.buffer.begin_read();
            buffers.push((key, entry.requested.take().unwrap_or(RefillFrom::Head)));
        }
        buffers
    }

    /// Applies the result of a read. Returns whether it brought a new candidate.
    pub(in crate::postgres) fn finish_refill(
        &mut self,
        found: Vec<(BufferKey, RefillFrom, BufferRead)>,
        here: Instant,
    ) -> bool {
        let mut is_any_new = false;
        for (key, refill, read) in found {
            let Some(entry) = self.entry_mut(&key) else { continue };
            let (took, page) = (read.took, read.page);
            entry.speed = ReadSpeed::of(took);
            is_any_new |= entry.buffer.fill(refill, page, took, here);
            let is_in_vain = !entry.buffer.was_used();
            self.schedule(&key, here);
            if is_in_vain {
                self.refills.charge_unused(&key.scope.tenant, took, here);
            }
            self.never_read.remove(&key.queue_key());
            self.update_queue(&key.queue_key());
        }
        is_any_new
    }

    /// Records that a refill failed.
    pub(in crate::postgres) fn abort_refill(
        &mut self,
        buffers: Vec<(BufferKey, RefillFrom)>,
        here: Instant,
    ) {
        for (key, _) in buffers {
            if let Some(entry) = self.entry_mut(&key) {
                entry.buffer.abort_read();
                let (at, speed) = (here + RETRY_DELAY, entry.speed);
                let slot = RefillSlot { at, speed, usage: QueueUsage::Used };
                entry.slot = Some(slot);
                self.refills.add(&key, slot);
            }
        }
    }

    /// When buffers of this speed are next due for a refill.
    pub(in crate::postgres) fn next_refill_at(&self, speed: ReadSpeed) -> Option<Instant> {
        self.refills.next(speed)
    }

    /// The first candidates of a buffer that `is_free` allows, in order.
    pub(in crate::postgres) fn first_candidates(
        &self,
        key: &BufferKey,
        max: usize,
        is_free: impl Fn(TaskId) -> bool,
    ) -> Vec<QueuePosition> {
        let Some(queue) = self.queues.get(&key.queue_key()) else { return Vec::new() };
        let part = key.kinds.is_some().then(|| queue.buffers.get(&key.kinds)).flatten();
        let buffers = queue.all_kinds().into_iter().chain(part.map(|entry| &entry.buffer));
        let kinds = key.kinds.as_deref();
        let mut first_candidates: Vec<QueuePosition> =
            buffers.flat_map(|buffer| buffer.first_candidates(kinds, max, &is_free)).collect();
        first_candidates.sort_unstable();
        first_candidates.dedup();
        first_candidates.truncate(max);
        first_candidates
    }

    pub(in crate::postgres) fn is_reserved_by_another(&self, id: TaskId, batch: u64) -> bool {
        self.reserved.get(&id).is_some_and(|holder| *holder != batch)
    }

    pub(in crate::postgres) fn reserve(&mut self, ids: impl Iterator<Item = TaskId>, batch: u64) {
        self.reserved.extend(ids.map(|id| (id, batch)));
    }

    pub(in crate::postgres) fn release(&mut self, batch: u64) {
        self.reserved.retain(|_, holder| *holder != batch);
    }

    /// Removes a candidate that does not wait any more or is locked by a peer: it is not worth another try.
    pub(in crate::postgres) fn drop_candidate(&mut self, key: &BufferKey, position: QueuePosition) {
        self.remove_candidate(&key.queue_key(), position);
    }

    fn remove_candidate(&mut self, key: &QueueKey, position: QueuePosition) {
        if let Some(queue) = self.queues.get_mut(key) {
            for entry in queue.buffers.values_mut() {
                entry.buffer.remove(position);
            }
            self.update_queue(key);
        }
    }

    /// Removes a task that waits, but not in the ready order.
    pub(in crate::postgres) fn leave_out(&mut self, task: &Task) {
        let key = (task.scope.clone(), task.offered_in().into_owned());
        self.remove_candidate(&key, QueuePosition::new(task.priority, task.id));
    }

    /// Applies what a batch of this process has committed.
    pub(in crate::postgres) fn apply_commit(&mut self, subject: &Subject, now: Time) {
        match subject {
            Subject::Absent => {}
            Subject::Done(done) => {
                let key = (done.scope.clone(), done.queue.clone());
                self.remove_candidate(&key, QueuePosition::new(done.priority, done.id));
            }
            Subject::Live(task) => {
                let key = (task.scope.clone(), task.offered_in().into_owned());
                if let Some(queue) = self.queues.get_mut(&key) {
                    queue.taking_kind(&task.kind).for_each(|buffer| buffer.apply_commit(task, now));
                    self.update_queue(&key);
                }
            }
        }
    }

    /// Applies a peer's hint: tasks that it made ready, which become candidates of every buffer that reaches that
    /// far, and queues in which it committed a change.
    pub(in crate::postgres) fn apply_hint(
        &mut self,
        ready: &[Candidate],
        queues: &HashSet<(Scope, Name)>,
    ) {
        let here = tokio::time::Instant::now();
        for Candidate { scope, queue, kind, position } in ready {
            let key = (scope.clone(), queue.clone());
            if let Some(queue) = self.queues.get_mut(&key) {
                queue.taking_kind(kind).for_each(|buffer| buffer.add(*position, kind.clone()));
                self.update_queue(&key);
            }
        }
        for key in queues {
            if let Some(queue) = self.queues.get_mut(key) {
                queue.buffers.values_mut().for_each(|entry| entry.buffer.mark_stale());
                self.schedule(&BufferKey::all_kinds(&key.0, &key.1), here);
            }
        }
    }

    /// Discards everything, because it may be wrong.
    pub(in crate::postgres) fn forget_all(&mut self) {
        self.queues.clear();
        self.refills.clear();
        self.nonempty.clear();
        self.next_dues.clear();
        self.never_read.clear();
        self.polled_noted_at = None;
    }
}

/// The result of reading one buffer, and how long that took.
#[derive(Debug, Default)]
pub(in crate::postgres) struct BufferRead {
    pub(in crate::postgres) page: Page,
    pub(in crate::postgres) took: Duration,
}

#[cfg(test)]
mod tests;
