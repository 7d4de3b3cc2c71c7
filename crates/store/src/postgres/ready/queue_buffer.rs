//! One buffer: what is known of a queue, or of some kinds of tasks in it, and how well.
//!
//! A buffer is read beside the batches, and meanwhile batches commit. What they change is noted until the page comes and is
//! then done to it too, so that an older page hides nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use tokio::time::Instant;
use verdict::{Name, Task, TaskId, Time};

use super::queue_position::QueuePosition;
use super::read_throttle::ReadThrottle;

/// How many candidates one read brings at most.
pub(in crate::postgres) const PAGE: usize = 1_024;

/// After so many grants the head is looked at again, whatever hints say: as many tasks, and those of one batch, may
/// overtake a more urgent one that a peer has queued, for each coordinator.
pub(in crate::postgres) const GRANTS_BETWEEN_REFILLS: usize = PAGE;

/// After so many it is looked at even if looking has become slow. At the highest rates measured that is once in
/// some seconds, so that a slow refill still takes a small share of the time.
pub(in crate::postgres) const GRANTS_BETWEEN_SLOW_REFILLS: usize = 16 * PAGE;

/// How many candidates a buffer keeps: more are read again when they are needed.
const BUFFER_MAX: usize = 4 * PAGE;

/// How old a read of a queue that has held something may be, since a peer's hint can be lost.
const BUFFER_AGE_MAX: Duration = Duration::from_millis(400);

/// How old a read of a queue that never held anything may become: each refill that finds nothing doubles the time to
/// the next one, up to this. Names that somebody invented cost little so.
pub(in crate::postgres) const UNUSED_AGE_MAX: Duration = Duration::from_millis(6_400);

/// What must be read before a buffer can serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::postgres) enum RefillFrom {
    Head,
    After(QueuePosition),
}

/// What one read of a buffer found.
#[derive(Debug, Default)]
pub(in crate::postgres) struct Page {
    pub(in crate::postgres) positions: Vec<(QueuePosition, Name)>,
    /// Whether there is nothing behind the last of these.
    pub(in crate::postgres) is_last: bool,
    /// Tasks that were delayed, with when they are due, whether or not that has come; read from the head only.
    pub(in crate::postgres) delayed: Vec<(Time, QueuePosition, Name)>,
    /// Whether these are all that are delayed.
    pub(in crate::postgres) is_all_delayed: bool,
}

/// What became of a candidate while a page was being read.
enum BufferChange {
    Added(QueuePosition, Name),
    Removed(QueuePosition),
    Delayed(Time, QueuePosition, Name),
}

/// From the moment that a read begins.
#[derive(Default)]
struct PendingRead {
    changes: Vec<BufferChange>,
    is_stale: bool,
}

#[derive(Default)]
pub(in crate::postgres) struct QueueBuffer {
    positions: BTreeMap<QueuePosition, Name>,
    by_kind: HashMap<Name, BTreeSet<QueuePosition>>,
    /// How far the table was read; `None` to its end.
    tail: Option<QueuePosition>,
    /// Delayed tasks by when they are due.
    delayed: BTreeMap<(Time, QueuePosition), Name>,
    /// How far those were read; `None` to their end.
    delayed_tail: Option<Time>,
    /// Of the refill from the head; `None` before the first.
    last_refill: Option<ReadThrottle>,
    /// Taken since that refill.
    taken: usize,
    is_stale: bool,
    was_used: bool,
    /// Looks in a row that found a queue empty which never held anything.
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

    /// Whether everything that waits in it is among the candidates, as far as is known.
    pub(in crate::postgres) fn is_complete(&self) -> bool {
        self.is_known() && self.tail.is_none()
    }

    /// Whether it may give something.
    pub(in crate::postgres) fn may_have_candidates(&self) -> bool {
        !self.positions.is_empty() || self.tail.is_some()
    }

    pub(in crate::postgres) fn was_used(&self) -> bool {
        self.was_used
    }

    pub(in crate::postgres) fn count(&self) -> usize {
        self.positions.len()
    }

    /// When time will next make a task of this buffer ready, as far as is known.
    pub(in crate::postgres) fn next_due(&self) -> Option<Time> {
        let first = self.delayed.first_key_value().map(|((due, _), _)| *due);
        first.or(self.delayed_tail)
    }

    /// What to read now so that the buffer can give `wanted` tasks of these kinds that `is_free` allows.
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

    /// When it is to be refilled again although nobody needs it.
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

    /// A read begins.
    pub(in crate::postgres) fn begin_read(&mut self) {
        self.reading = Some(PendingRead::default());
    }

    /// The read came to nothing.
    pub(in crate::postgres) fn abort_read(&mut self) {
        self.reading = None;
    }

    /// Takes in a page. Returns whether it has candidates that were not known.
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

    /// Delayed tasks whose time has come are candidates from now on.
    pub(in crate::postgres) fn promote_due(&mut self, now: Time) {
        while let Some(entry) = self.delayed.first_entry()
            && entry.key().0.has_come(now)
        {
            let ((_, position), kind) = entry.remove_entry();
            self.insert(position, kind);
        }
    }

    /// A peer has changed something in it.
    pub(in crate::postgres) fn mark_stale(&mut self) {
        self.was_used = true;
        self.is_stale = true;
        if let Some(reading) = &mut self.reading {
            reading.is_stale = true;
        }
    }

    /// Follows a task that a batch of this process has left alive.
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

    /// What lies behind the part that was read is read later.
    pub(in crate::postgres) fn add(&mut self, position: QueuePosition, kind: Name) {
        self.was_used = true;
        if let Some(reading) = &mut self.reading {
            reading.changes.push(BufferChange::Added(position, kind.clone()));
        }
        if self.tail.is_none_or(|tail| position < tail) {
            self.insert(position, kind);
        }
    }

    /// A task that is not, or no longer, to be had. Returns whether it was a candidate.
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
