//! One lane: what is known of a queue, or of some kinds of tasks in it, and how well.
//!
//! A lane is read beside the batches, and meanwhile batches commit. What they change is noted until the page comes and is
//! then done to it too, so that an older page hides nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use tokio::time::Instant;
use verdict::{Name, Task, TaskId, Time};

use super::pace::Pace;
use super::place::Place;

/// How many candidates one read brings at most.
pub(super) const PAGE: usize = 1_024;

/// After so many grants the head is looked at again, whatever hints say: as many tasks, and those of one batch, may
/// overtake a more urgent one that a fellow has queued, for each coordinator.
pub(super) const GRANTS_BETWEEN_LOOKS: usize = PAGE;

/// After so many it is looked at even if looking has become slow. At the highest rates measured that is once in
/// some seconds, so that a slow look still takes a small share of the time.
pub(super) const GRANTS_BETWEEN_SLOW_LOOKS: usize = 16 * PAGE;

/// How many candidates a lane keeps: more are read again when they are needed.
const LANE_MAX: usize = 4 * PAGE;

/// How old a look at a queue that has held something may be, since a fellow's hint can be lost.
const LOOK_AGE_MAX: Duration = Duration::from_millis(400);

/// How old a look at a queue that never held anything may become: each look that finds nothing doubles the time to
/// the next one, up to this. Names that somebody invented cost little so.
pub(super) const UNHELD_AGE_MAX: Duration = Duration::from_millis(6_400);

/// What must be read before a lane can serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Refill {
    Head,
    After(Place),
}

/// What one read of a lane found.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) places: Vec<(Place, Name)>,
    /// Whether there is nothing behind the last of these.
    pub(super) is_last: bool,
    /// Tasks that were delayed, with when they are due, whether or not that has come; read from the head only.
    pub(super) delayed: Vec<(Time, Place, Name)>,
    /// Whether these are all that are delayed.
    pub(super) is_all_delayed: bool,
}

/// What became of a candidate while a page was being read.
enum Change {
    Added(Place, Name),
    Removed(Place),
    Delayed(Time, Place, Name),
}

/// From the moment that a read begins.
#[derive(Default)]
struct Reading {
    changes: Vec<Change>,
    is_stale: bool,
}

#[derive(Default)]
pub(super) struct Lane {
    places: BTreeMap<Place, Name>,
    by_kind: HashMap<Name, BTreeSet<Place>>,
    /// How far the table was read; `None` to its end.
    tail: Option<Place>,
    /// Delayed tasks by when they are due.
    later: BTreeMap<(Time, Place), Name>,
    /// How far those were read; `None` to their end.
    later_tail: Option<Time>,
    /// Of the look at the head; `None` before the first.
    looked: Option<Pace>,
    /// Taken since that look.
    taken: usize,
    is_stale: bool,
    has_held: bool,
    /// Looks in a row that found a queue empty which never held anything.
    in_vain: u32,
    reading: Option<Reading>,
}

impl Lane {
    pub(super) fn is_known(&self) -> bool {
        self.looked.is_some()
    }

    pub(super) fn is_being_read(&self) -> bool {
        self.reading.is_some()
    }

    /// Whether everything that waits in it is among the candidates, as far as is known.
    pub(super) fn is_whole(&self) -> bool {
        self.is_known() && self.tail.is_none()
    }

    /// Whether it may give something.
    pub(super) fn may_hold(&self) -> bool {
        !self.places.is_empty() || self.tail.is_some()
    }

    pub(super) fn has_held(&self) -> bool {
        self.has_held
    }

    pub(super) fn count(&self) -> usize {
        self.places.len()
    }

    /// When time will next make a task of this lane ready, as far as is known.
    pub(super) fn next_due(&self) -> Option<Time> {
        let first = self.later.first_key_value().map(|((due, _), _)| *due);
        first.or(self.later_tail)
    }

    /// What to read now so that the lane can give `wanted` tasks of these kinds that `is_free` allows.
    pub(super) fn needs(
        &self,
        kinds: Option<&[Name]>,
        wanted: usize,
        now: Time,
        is_free: impl Fn(TaskId) -> bool,
    ) -> Option<Refill> {
        let Some(looked) = &self.looked else { return Some(Refill::Head) };
        let is_due = self.is_stale || self.taken >= GRANTS_BETWEEN_LOOKS;
        let is_old = faultpoint::mutant(18)
            || self.taken >= GRANTS_BETWEEN_SLOW_LOOKS
            || (is_due && looked.is_rested(Duration::ZERO))
            || (self.later.is_empty() && self.later_tail.is_some_and(|due| due.has_come(now)));
        if is_old {
            return Some(Refill::Head);
        }
        let has_enough = || self.heads(kinds, wanted, is_free).len() >= wanted;
        self.tail.filter(|_| !has_enough()).map(Refill::After)
    }

    /// When it is to be looked at again although nobody needs it.
    pub(super) fn looks_again_at(&self, here: Instant) -> Instant {
        let Some(looked) = &self.looked else { return here };
        looked.rests_until(if self.is_stale { Duration::ZERO } else { self.age_max() })
    }

    fn age_max(&self) -> Duration {
        if self.has_held {
            return LOOK_AGE_MAX;
        }
        LOOK_AGE_MAX.saturating_mul(1 << self.in_vain.saturating_sub(1).min(8)).min(UNHELD_AGE_MAX)
    }

    /// The first candidates of these kinds that `is_free` allows, in order.
    pub(super) fn heads(
        &self,
        kinds: Option<&[Name]>,
        max: usize,
        is_free: impl Fn(TaskId) -> bool,
    ) -> Vec<Place> {
        let is_free = |place: &&Place| is_free(place.id());
        let Some(kinds) = kinds else {
            return self.places.keys().filter(is_free).take(max).copied().collect();
        };
        let of_kind = |kind: &Name| {
            let places = self.by_kind.get(kind).into_iter().flatten();
            places.filter(is_free).take(max).copied().collect::<Vec<Place>>()
        };
        let mut heads: Vec<Place> = kinds.iter().flat_map(of_kind).collect();
        heads.sort_unstable();
        heads.truncate(max);
        heads
    }

    /// A read begins.
    pub(super) fn begin_reading(&mut self) {
        self.reading = Some(Reading::default());
    }

    /// The read came to nothing.
    pub(super) fn give_up_reading(&mut self) {
        self.reading = None;
    }

    /// Takes in a page. Returns whether it has candidates that were not known.
    pub(super) fn fill(
        &mut self,
        refill: Refill,
        page: Page,
        took: Duration,
        here: Instant,
    ) -> bool {
        let reading = self.reading.take().unwrap_or_default();
        let tail =
            if page.is_last { None } else { page.places.iter().map(|(place, _)| *place).max() };
        let is_new = page.places.iter().any(|(place, _)| !self.places.contains_key(place));
        self.has_held |= !page.places.is_empty() || !page.delayed.is_empty();
        if refill == Refill::Head {
            self.in_vain = if self.has_held { 0 } else { self.in_vain.saturating_add(1) };
            self.places.clear();
            self.by_kind.clear();
            self.later =
                page.delayed.into_iter().map(|(due, place, kind)| ((due, place), kind)).collect();
            let last = self.later.last_key_value().map(|((due, _), _)| *due);
            self.later_tail = last.filter(|_| !page.is_all_delayed);
            self.looked = Some(Pace::after(here, took, self.looked));
            (self.taken, self.is_stale) = (0, reading.is_stale);
        }
        self.tail = tail;
        page.places.into_iter().for_each(|(place, kind)| self.insert(place, kind));
        for change in reading.changes {
            match change {
                Change::Added(place, kind) => self.add(place, kind),
                Change::Removed(place) => {
                    self.remove(place);
                }
                Change::Delayed(due, place, kind) => self.delay(due, place, kind),
            }
        }
        is_new
    }

    /// Delayed tasks whose time has come are candidates from now on.
    pub(super) fn ripen(&mut self, now: Time) {
        while let Some(entry) = self.later.first_entry()
            && entry.key().0.has_come(now)
        {
            let ((_, place), kind) = entry.remove_entry();
            self.insert(place, kind);
        }
    }

    /// A fellow has changed something in it.
    pub(super) fn stir(&mut self) {
        self.has_held = true;
        self.is_stale = true;
        if let Some(reading) = &mut self.reading {
            reading.is_stale = true;
        }
    }

    /// Follows a task that a batch of this process has left alive.
    pub(super) fn moved(&mut self, task: &Task, now: Time) {
        self.has_held = true;
        let place = Place::new(task.priority, task.id);
        match task.claimable_at() {
            None => self.taken += usize::from(self.remove(place)),
            Some(due) if !due.has_come(now) => {
                self.remove(place);
                self.delay(due, place, task.kind.clone());
            }
            Some(_) => self.add(place, task.kind.clone()),
        }
    }

    fn delay(&mut self, due: Time, place: Place, kind: Name) {
        if let Some(reading) = &mut self.reading {
            reading.changes.push(Change::Delayed(due, place, kind.clone()));
        }
        if self.later_tail.is_none_or(|tail| due <= tail) {
            self.later.insert((due, place), kind);
        }
    }

    /// What lies behind the part that was read is read later.
    pub(super) fn add(&mut self, place: Place, kind: Name) {
        self.has_held = true;
        if let Some(reading) = &mut self.reading {
            reading.changes.push(Change::Added(place, kind.clone()));
        }
        if self.tail.is_none_or(|tail| place < tail) {
            self.insert(place, kind);
        }
    }

    /// A task that is not, or no longer, to be had. Returns whether it was a candidate.
    pub(super) fn remove(&mut self, place: Place) -> bool {
        if let Some(reading) = &mut self.reading {
            reading.changes.push(Change::Removed(place));
        }
        self.cross_out(place)
    }

    fn insert(&mut self, place: Place, kind: Name) {
        self.by_kind.entry(kind.clone()).or_default().insert(place);
        self.places.insert(place, kind);
        while self.places.len() > LANE_MAX
            && let Some(last) = self.last()
        {
            self.cross_out(last);
            self.tail = self.last();
        }
    }

    fn last(&self) -> Option<Place> {
        self.places.last_key_value().map(|(place, _)| *place)
    }

    fn cross_out(&mut self, place: Place) -> bool {
        let Some(kind) = self.places.remove(&place) else { return false };
        if let Some(places) = self.by_kind.get_mut(&kind) {
            places.remove(&place);
            if places.is_empty() {
                self.by_kind.remove(&kind);
            }
        }
        true
    }
}

#[cfg(test)]
impl Lane {
    pub(super) fn take(&mut self, place: Place) {
        self.taken += usize::from(self.remove(place));
    }

    pub(super) fn taken(&mut self, count: usize) {
        self.taken += count;
    }
}
