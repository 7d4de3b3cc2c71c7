//! One buffer: the known candidates of a queue, or of some kinds of tasks in it, and how current they are.
//!
//! A buffer is read beside the batches, which commit in the meantime. Their changes are recorded until the page
//! arrives and are then applied to it too, so an older page hides no change.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use tokio::time::Instant;
use verdict::{Name, Scope, Task, TaskId, Time};

use super::queue_position::QueuePosition;
use super::read_throttle::ReadThrottle;
use crate::seam::KindLooks;

/// Maximum number of candidates that one read returns.
pub(in crate::postgres) const PAGE: usize = 1_024;

/// After this many grants the head is read again, whatever hints say. This is a bound on overtaking: per coordinator,
/// this many tasks and those of one batch may overtake a more urgent task that a peer has queued.
pub(in crate::postgres) const GRANTS_BETWEEN_REFILLS: usize = PAGE;

/// After this many grants the head is read again even if reads have become slow. At the highest rates measured that
/// is once in some seconds, so a slow refill still takes a small share of the time.
pub(in crate::postgres) const GRANTS_BETWEEN_SLOW_REFILLS: usize = 16 * PAGE;

/// Maximum number of candidates in a buffer: more are read again when they are needed.
const BUFFER_MAX: usize = 4 * PAGE;

/// Maximum age of a read of a queue that has held a task, since a peer's hint can be lost.
const BUFFER_AGE_MAX: Duration = Duration::from_millis(400);

/// Maximum age of a read of a queue that never held a task: each refill that finds nothing doubles the time to the
/// next one, up to this. So polls of invented queue names cost little.
pub(in crate::postgres) const UNUSED_AGE_MAX: Duration = Duration::from_millis(6_400);

/// What must be read before a buffer can serve a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::postgres) enum RefillFrom {
    Head,
    After(QueuePosition),
}

/// The result of one read of a buffer.
#[derive(Debug, Default)]
pub(in crate::postgres) struct Page {
    pub(in crate::postgres) positions: Vec<(QueuePosition, Name)>,
    /// Whether there are no candidates behind the last of these.
    pub(in crate::postgres) is_last: bool,
    /// Delayed tasks with their due times, past or future; read from the head only.
    pub(in crate::postgres) delayed: Vec<(Time, QueuePosition, Name)>,
    /// Whether these are all delayed tasks.
    pub(in crate::postgres) is_all_delayed: bool,
}

/// A change of a candidate while a page is being read.
enum BufferChange {
    Added(QueuePosition, Name),
    Removed(QueuePosition),
    Delayed(Time, QueuePosition, Name),
}

/// Changes since the start of a running read.
#[derive(Default)]
struct PendingRead {
    changes: Vec<BufferChange>,
    is_stale: bool,
}

#[derive(Default)]
pub(in crate::postgres) struct QueueBuffer {
    positions: BTreeMap<QueuePosition, Name>,
    by_kind: HashMap<Name, BTreeSet<QueuePosition>>,
    /// How far the table was read; `None` if to its end.
    tail: Option<QueuePosition>,
    /// Delayed tasks by due time.
    delayed: BTreeMap<(Time, QueuePosition), Name>,
    /// How far the delayed tasks were read; `None` if to their end.
    delayed_tail: Option<Time>,
    /// Throttle of the refill from the head; `None` before the first.
    last_refill: Option<ReadThrottle>,
    /// Candidates granted since that refill.
    taken: usize,
    is_stale: bool,
    was_used: bool,
    /// Consecutive reads that found the queue empty, for a queue that never held a task.
    empty_reads: u32,
    reading: Option<PendingRead>,
}

impl QueueBuffer {
    pub(in crate::postgres) fn is_known(&self) -> bool {
        self.last_refill.is_some()
    }

    pub(in crate::postgres) fn is_being_read(&self) -> bool {
        self.reading.is_some()
    }

    /// Whether every waiting task is among the candidates, as far as is known.
    pub(in crate::postgres) fn is_complete(&self) -> bool {
        self.is_known() && self.tail.is_none()
    }

    /// Whether the buffer may have a task.
    pub(in crate::postgres) fn may_have_candidates(&self) -> bool {
        !self.positions.is_empty() || self.tail.is_some()
    }

    pub(in crate::postgres) fn was_used(&self) -> bool {
        self.was_used
    }

    pub(in crate::postgres) fn count(&self) -> usize {
        self.positions.len()
    }

    /// The kinds of the candidates, of those that polls name.
    pub(in crate::postgres) fn named_kinds(
        &self,
        scope: &Scope,
        looks: &mut KindLooks<'_>,
    ) -> Option<Vec<Name>> {
        let holds = |kind: &Name| self.by_kind.contains_key(kind);
        looks.of(scope, self.by_kind.len(), self.by_kind.keys(), holds)
    }

    /// When a delayed task of this buffer is next due, as far as is known.
    pub(in crate::postgres) fn next_due(&self) -> Option<Time> {
        let first = self.delayed.first_key_value().map(|((due, _), _)| *due);
        first.or(self.delayed_tail)
    }

    /// What to read now so that the buffer can supply `wanted` tasks of these kinds that `is_free` allows.
    pub(in crate::postgres) fn missing_refill(
        &self,
        kinds: Option<&[Name]>,
        wanted: usize,
        now: Time,
        is_free: impl Fn(TaskId) -> bool,
    ) -> Option<RefillFrom> {
        let Some(last_refill) = &self.last_refill else { return Some(RefillFrom::Head) };
        let is_due = self.is_stale || self.taken >= GRANTS_BETWEEN_REFILLS;
        let is_old = faultpoint::mutant(18)
            || self.taken >= GRANTS_BETWEEN_SLOW_REFILLS
            || (is_due && last_refill.is_allowed(Duration::ZERO))
            || (self.delayed.is_empty() && self.delayed_tail.is_some_and(|due| due.has_come(now)));
        if is_old {
            return Some(RefillFrom::Head);
        }
        let has_enough = || self.first_candidates(kinds, wanted, is_free).len() >= wanted;
        self.tail.filter(|_| !has_enough()).map(RefillFrom::After)
    }

    /// When the buffer is refilled without a request.
    pub(in crate::postgres) fn next_refill_at(&self, here: Instant) -> Instant {
        let Some(last_refill) = &self.last_refill else { return here };
        last_refill.allowed_at(if self.is_stale { Duration::ZERO } else { self.max_age() })
    }

    fn max_age(&self) -> Duration {
        if self.was_used {
            return BUFFER_AGE_MAX;
        }
        BUFFER_AGE_MAX
            .saturating_mul(1 << self.empty_reads.saturating_sub(1).min(8))
            .min(UNUSED_AGE_MAX)
    }

    /// The first candidates of these kinds that `is_free` allows, in order.
    pub(in crate::postgres) fn first_candidates(
        &self,
        kinds: Option<&[Name]>,
        max: usize,
        is_free: impl Fn(TaskId) -> bool,
    ) -> Vec<QueuePosition> {
        let is_free = |position: &&QueuePosition| is_free(position.id());
        let Some(kinds) = kinds else {
            return self.positions.keys().filter(is_free).take(max).copied().collect();
        };
        let of_kind = |kind: &Name| {
            let positions = self.by_kind.get(kind).into_iter().flatten();
            positions.filter(is_free).take(max).copied().collect::<Vec<QueuePosition>>()
        };
        let mut first_candidates: Vec<QueuePosition> = kinds.iter().flat_map(of_kind).collect();
        first_candidates.sort_unstable();
        first_candidates.truncate(max);
        first_candidates
    }

    /// Marks the start of a read.
    pub(in crate::postgres) fn begin_read(&mut self) {
        self.reading = Some(PendingRead::default());
    }

    /// Discards a failed read.
    pub(in crate::postgres) fn abort_read(&mut self) {
        self.reading = None;
    }

    /// Applies a page. Returns whether it has a new candidate.
    pub(in crate::postgres) fn fill(
        &mut self,
        refill: RefillFrom,
        page: Page,
        took: Duration,
        here: Instant,
    ) -> bool {
        let reading = self.reading.take().unwrap_or_default();
        let tail = if page.is_last {
            None
        } else {
            page.positions.iter().map(|(position, _)| *position).max()
        };
        let is_new =
            page.positions.iter().any(|(position, _)| !self.positions.contains_key(position));
        self.was_used |= !page.positions.is_empty() || !page.delayed.is_empty();
        if refill == RefillFrom::Head {
            self.empty_reads = if self.was_used { 0 } else { self.empty_reads.saturating_add(1) };
            self.positions.clear();
            self.by_kind.clear();
            self.delayed = page
                .delayed
                .into_iter()
                .map(|(due, position, kind)| ((due, position), kind))
                .collect();
            let last = self.delayed.last_key_value().map(|((due, _), _)| *due);
            self.delayed_tail = last.filter(|_| !page.is_all_delayed);
            self.last_refill = Some(ReadThrottle::after(here, took, self.last_refill));
            (self.taken, self.is_stale) = (0, reading.is_stale);
        }
        self.tail = tail;
        page.positions.into_iter().for_each(|(position, kind)| self.insert(position, kind));
        for change in reading.changes {
            match change {
                BufferChange::Added(position, kind) => self.add(position, kind),
                BufferChange::Removed(position) => {
                    self.remove(position);
                }
                BufferChange::Delayed(due, position, kind) => self.delay(due, position, kind),
            }
        }
        is_new
    }

    /// Turns delayed tasks that are now due into candidates.
    pub(in crate::postgres) fn promote_due(&mut self, now: Time) {
        while let Some(entry) = self.delayed.first_entry()
            && entry.key().0.has_come(now)
        {
            let ((_, position), kind) = entry.remove_entry();
            self.insert(position, kind);
        }
    }

    /// Records that a peer has changed the queue.
    pub(in crate::postgres) fn mark_stale(&mut self) {
        self.was_used = true;
        self.is_stale = true;
        if let Some(reading) = &mut self.reading {
            reading.is_stale = true;
        }
    }

    /// Applies a task that a batch of this process left live.
    pub(in crate::postgres) fn apply_commit(&mut self, task: &Task, now: Time) {
        self.was_used = true;
        let position = QueuePosition::new(task.priority, task.id);
        match task.claimable_at() {
            None => self.taken += usize::from(self.remove(position)),
            Some(due) if !due.has_come(now) => {
                self.remove(position);
                self.delay(due, position, task.kind.clone());
            }
            Some(_) => self.add(position, task.kind.clone()),
        }
    }

    fn delay(&mut self, due: Time, position: QueuePosition, kind: Name) {
        if let Some(reading) = &mut self.reading {
            reading.changes.push(BufferChange::Delayed(due, position, kind.clone()));
        }
        if self.delayed_tail.is_none_or(|tail| due <= tail) {
            self.delayed.insert((due, position), kind);
        }
    }

    /// Adds a candidate. One behind the part that was read is left to a later read.
    pub(in crate::postgres) fn add(&mut self, position: QueuePosition, kind: Name) {
        self.was_used = true;
        if let Some(reading) = &mut self.reading {
            reading.changes.push(BufferChange::Added(position, kind.clone()));
        }
        if self.tail.is_none_or(|tail| position < tail) {
            self.insert(position, kind);
        }
    }

    /// Removes a task that cannot be leased, or no longer. Returns whether it was a candidate.
    pub(in crate::postgres) fn remove(&mut self, position: QueuePosition) -> bool {
        if let Some(reading) = &mut self.reading {
            reading.changes.push(BufferChange::Removed(position));
        }
        self.remove_candidate(position)
    }

    fn insert(&mut self, position: QueuePosition, kind: Name) {
        self.by_kind.entry(kind.clone()).or_default().insert(position);
        self.positions.insert(position, kind);
        while self.positions.len() > BUFFER_MAX
            && let Some(last) = self.last()
        {
            self.remove_candidate(last);
            self.tail = self.last();
        }
    }

    fn last(&self) -> Option<QueuePosition> {
        self.positions.last_key_value().map(|(position, _)| *position)
    }

    fn remove_candidate(&mut self, position: QueuePosition) -> bool {
        let Some(kind) = self.positions.remove(&position) else { return false };
        if let Some(positions) = self.by_kind.get_mut(&kind) {
            positions.remove(&position);
            if positions.is_empty() {
                self.by_kind.remove(&kind);
            }
        }
        true
    }
}

#[cfg(test)]
impl QueueBuffer {
    pub(in crate::postgres) fn take(&mut self, position: QueuePosition) {
        self.taken += usize::from(self.remove(position));
    }

    pub(in crate::postgres) fn taken(&mut self, count: usize) {
        self.taken += count;
    }
}
