//! Which tasks to try next: a small buffer per queue, in memory.
//!
//! Scanning a queue from its head for every grant walks over everything that was taken before, for as
//! long as any old snapshot keeps it. So tasks are taken by their key, and this says which keys are worth
//! trying. It holds hints, no truth: whoever takes a task locks its row and looks again.
//!
//! Filled by reads that move forward through a queue, corrected by what this process commits and by the few tasks that
//! a fellow's hint names, and read again from the head when a fellow may have changed more: after a hint that names
//! the queue only, and when the last look is old.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;
use verdict::{Name, Scope, Subject, Task, TaskId, Time};

use super::pace::Pace;
use super::place::Place;
use crate::row::Want;

/// How many candidates one read brings.
pub(super) const PAGE: usize = 1_024;

/// After so many grants the head is looked at again, whatever hints say: as many tasks, and those of one batch, may
/// overtake a more urgent one that a fellow has queued, for each coordinator.
const GRANTS_BETWEEN_LOOKS: usize = PAGE;

/// After so many it is looked at even if looking has become slow. At the highest rates measured that is once in
/// some seconds, so that a slow look still takes a small share of the time.
const GRANTS_BETWEEN_SLOW_LOOKS: usize = 16 * PAGE;

/// How many candidates a queue keeps: more are read again when they are needed.
const LANE_MAX: usize = 4 * PAGE;

/// How many queues are remembered. Beyond that all are forgotten and read again.
const LANES_MAX: usize = 4_096;

/// How old a look at the head of a queue may be, since a fellow's hint can be lost.
const LOOK_AGE_MAX: Duration = Duration::from_millis(400);

/// The part of a queue that a poll can use.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LaneKey {
    pub(super) scope: Scope,
    pub(super) queue: Name,
    /// Sorted; `None` means every kind.
    pub(super) kinds: Option<Vec<Name>>,
}

impl LaneKey {
    /// The lanes of a want, each once.
    pub(super) fn of(want: &Want) -> Vec<Self> {
        let mut kinds = want.kinds.clone();
        if let Some(kinds) = &mut kinds {
            kinds.sort();
            kinds.dedup();
        }
        let mut queues: Vec<&Name> = want.queues.iter().collect();
        queues.sort();
        queues.dedup();
        let lane = |queue: &Name| Self {
            scope: want.scope.clone(),
            queue: queue.clone(),
            kinds: kinds.clone(),
        };
        queues.into_iter().map(lane).collect()
    }

    pub(super) fn takes(&self, task: &Task) -> bool {
        self.takes_kind(&task.scope, &task.queue, &task.kind)
    }

    fn takes_candidate(&self, candidate: &Candidate) -> bool {
        self.takes_kind(&candidate.scope, &candidate.queue, &candidate.kind)
    }

    fn takes_kind(&self, scope: &Scope, queue: &Name, kind: &Name) -> bool {
        *scope == self.scope
            && *queue == self.queue
            && self.kinds.as_ref().is_none_or(|kinds| kinds.contains(kind))
    }
}

/// A task that is ready, as far as somebody knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) scope: Scope,
    pub(super) queue: Name,
    pub(super) kind: Name,
    pub(super) place: Place,
}

impl Candidate {
    pub(super) fn of(task: &Task) -> Self {
        let (scope, queue, kind) = (task.scope.clone(), task.queue.clone(), task.kind.clone());
        Self { scope, queue, kind, place: Place::new(task.priority, task.id) }
    }
}

struct Lane {
    places: BTreeSet<Place>,
    /// How far the table was read; `None` to its end.
    tail: Option<Place>,
    /// When time will next make a task of this lane ready.
    next_due: Option<Time>,
    /// Of the look at the head.
    looked: Pace,
    /// Taken since that look.
    taken: usize,
    is_stale: bool,
}

/// What must be read before a lane can serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refill {
    Head,
    After(Place),
}

/// What one read of a lane found.
pub(super) struct Page {
    pub(super) places: Vec<Place>,
    /// Whether there is nothing behind the last of these.
    pub(super) is_last: bool,
    /// Tasks that were delayed and whose time has come; read from the head only.
    pub(super) matured: Vec<Place>,
    pub(super) next_due: Option<Time>,
}

#[derive(Default)]
pub(super) struct Candidates {
    lanes: HashMap<LaneKey, Lane>,
    /// Tasks that a batch of this process has in hand, until it ends.
    reserved: HashMap<TaskId, u64>,
    /// How many hints of fellows came so far.
    heard: u64,
}

/// When a read of a lane began, and what had been heard by then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Began {
    at: Instant,
    heard: u64,
}

impl Candidates {
    /// What to read so that the lane can give `wanted` tasks that `is_free` allows.
    pub(super) fn needs(
        &self,
        key: &LaneKey,
        now: Time,
        wanted: usize,
        is_free: impl Fn(TaskId) -> bool,
    ) -> Option<Refill> {
        let Some(lane) = self.lanes.get(key) else { return Some(Refill::Head) };
        let is_due = lane.is_stale || lane.taken >= GRANTS_BETWEEN_LOOKS;
        let look_age = if is_due { Duration::ZERO } else { LOOK_AGE_MAX };
        let is_old = faultpoint::mutant(18)
            || lane.taken >= GRANTS_BETWEEN_SLOW_LOOKS
            || lane.looked.is_rested(look_age);
        if is_old || lane.next_due.is_some_and(|due| due.has_come(now)) {
            return Some(Refill::Head);
        }
        let free = lane.places.iter().filter(|place| is_free(place.id())).take(wanted).count();
        (free < wanted).then_some(lane.tail).flatten().map(Refill::After)
    }

    pub(super) fn begin_reading(&self, at: Instant) -> Began {
        Began { at, heard: self.heard }
    }

    /// Takes in a page that was asked for at `began`. A hint that came since may tell of what the page does not have.
    pub(super) fn fill(&mut self, key: LaneKey, refill: Refill, page: Page, began: Began) {
        if self.lanes.len() >= LANES_MAX && !self.lanes.contains_key(&key) {
            self.lanes.clear();
        }
        let tail = if page.is_last { None } else { page.places.last().copied() };
        let places = page.places.into_iter().chain(page.matured);
        match (refill, self.lanes.get_mut(&key)) {
            (Refill::After(_), Some(lane)) => {
                lane.places.extend(places);
                lane.tail = tail;
            }
            (Refill::Head | Refill::After(_), before) => {
                let (places, next_due) = (places.collect(), page.next_due);
                let looked = Pace::of(began.at, before.map(|lane| lane.looked));
                let is_stale = began.heard != self.heard;
                let lane = Lane { places, tail, next_due, looked, taken: 0, is_stale };
                self.lanes.insert(key, lane);
            }
        }
    }

    /// The first candidates of a lane that `is_free` allows, in order.
    pub(super) fn heads(
        &self,
        key: &LaneKey,
        max: usize,
        is_free: impl Fn(TaskId) -> bool,
    ) -> Vec<Place> {
        let Some(lane) = self.lanes.get(key) else { return Vec::new() };
        lane.places.iter().filter(|place| is_free(place.id())).take(max).copied().collect()
    }

    pub(super) fn is_reserved_by_another(&self, id: TaskId, batch: u64) -> bool {
        self.reserved.get(&id).is_some_and(|holder| *holder != batch)
    }

    pub(super) fn reserve(&mut self, ids: impl Iterator<Item = TaskId>, batch: u64) {
        self.reserved.extend(ids.map(|id| (id, batch)));
    }

    pub(super) fn release(&mut self, batch: u64) {
        self.reserved.retain(|_, holder| *holder != batch);
    }

    /// A candidate that turned out to be nobody's, or another's: not worth trying again.
    pub(super) fn drop_place(&mut self, key: &LaneKey, place: Place) {
        if let Some(lane) = self.lanes.get_mut(key) {
            lane.places.remove(&place);
        }
    }

    /// Follows what a batch of this process has committed.
    pub(super) fn committed(&mut self, subject: &Subject, now: Time) {
        match subject {
            Subject::Absent => {}
            Subject::Done(done) => {
                let place = Place::new(done.priority, done.id);
                let of_queue = |key: &LaneKey| key.scope == done.scope && key.queue == done.queue;
                for (_, lane) in self.lanes.iter_mut().filter(|(key, _)| of_queue(key)) {
                    lane.places.remove(&place);
                }
            }
            Subject::Live(task) => {
                for (_, lane) in self.lanes.iter_mut().filter(|(key, _)| key.takes(task)) {
                    lane.moved(task, now);
                }
            }
        }
    }

    /// A fellow has made tasks ready, worth trying wherever they are wanted and the lane reaches that far, and has
    /// committed something in these queues.
    pub(super) fn hinted(&mut self, ready: &[Candidate], queues: &HashSet<(Scope, Name)>) {
        self.heard += 1;
        for candidate in ready {
            let wanted = self.lanes.iter_mut().filter(|(key, _)| key.takes_candidate(candidate));
            wanted.for_each(|(_, lane)| lane.add(candidate.place));
        }
        for (key, lane) in &mut self.lanes {
            let named = |(scope, queue): &(Scope, Name)| *scope == key.scope && *queue == key.queue;
            lane.is_stale |= queues.iter().any(named);
        }
    }

    /// When the first of the queues that fellows changed may be looked at.
    pub(super) fn rests_until(&self) -> Option<Instant> {
        let stale = self.lanes.values().filter(|lane| lane.is_stale);
        stale.map(|lane| lane.looked.rests_until(Duration::ZERO)).min()
    }

    /// Nothing known can be relied on any more.
    pub(super) fn forget_all(&mut self) {
        self.lanes.clear();
    }
}

impl Lane {
    fn take(&mut self, place: Place) {
        self.taken += usize::from(self.places.remove(&place));
    }

    fn moved(&mut self, task: &Task, now: Time) {
        let place = Place::new(task.priority, task.id);
        match task.claimable_at() {
            None => self.take(place),
            Some(due) if !due.has_come(now) => {
                self.places.remove(&place);
                self.next_due = Some(self.next_due.map_or(due, |next| next.min(due)));
            }
            Some(_) => self.add(place),
        }
    }

    /// What lies behind the part that was read is read later.
    fn add(&mut self, place: Place) {
        if self.tail.is_none_or(|tail| place < tail) {
            self.places.insert(place);
        }
        while self.places.len() > LANE_MAX {
            self.places.pop_last();
            self.tail = self.places.last().copied();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(numbers: std::ops::Range<u128>) -> Page {
        let places = numbers.map(|number| Place::new(0, TaskId::from_u128(number))).collect();
        Page { places, is_last: false, matured: Vec::new(), next_due: None }
    }

    #[tokio::test(start_paused = true)]
    async fn the_head_is_looked_at_again_after_a_bounded_number_of_grants() {
        // R-19, S2-24: whoever is urgent and was queued elsewhere is overtaken by no more, even if no hint ever comes.
        let key = LaneKey { scope: Scope::default(), queue: Name::new("images"), kinds: None };
        let mut candidates = Candidates::default();
        let began = candidates.begin_reading(Instant::now());
        let (now, first) = (Time::from_millis(0), PAGE as u128);
        candidates.fill(key.clone(), Refill::Head, page(0..first), began);
        let tail = candidates.lanes[&key].tail.unwrap();
        candidates.fill(key.clone(), Refill::After(tail), page(first..2 * first), began);
        let mut looks = Vec::new();
        for place in candidates.heads(&key, GRANTS_BETWEEN_LOOKS, |_| true) {
            looks.extend(candidates.needs(&key, now, 1, |_| true));
            candidates.lanes.get_mut(&key).unwrap().take(place);
        }
        assert_eq!(looks, [], "while there are candidates, and not for every grant");
        assert_eq!(candidates.needs(&key, now, 1, |_| true), Some(Refill::Head));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_look_is_put_off_for_a_bounded_number_of_grants() {
        // however long looking takes, since an old snapshot is open, a bound on overtaking stays.
        let key = LaneKey { scope: Scope::default(), queue: Name::new("images"), kinds: None };
        let mut candidates = Candidates::default();
        let began = candidates.begin_reading(Instant::now());
        let now = Time::from_millis(0);
        tokio::time::advance(Duration::from_secs(60)).await;
        candidates.fill(key.clone(), Refill::Head, page(0..8), began);
        let needed = |candidates: &mut Candidates, taken| {
            candidates.lanes.get_mut(&key).unwrap().taken = taken;
            candidates.needs(&key, now, 1, |_| true)
        };
        assert_eq!(needed(&mut candidates, GRANTS_BETWEEN_SLOW_LOOKS - 1), None, "it rests");
        assert_eq!(needed(&mut candidates, GRANTS_BETWEEN_SLOW_LOOKS), Some(Refill::Head));
    }

    #[tokio::test(start_paused = true)]
    async fn a_hint_that_comes_while_the_head_is_read_is_not_lost() {
        // the page may be older than what the hint tells of.
        let key = LaneKey { scope: Scope::default(), queue: Name::new("images"), kinds: None };
        let mut candidates = Candidates::default();
        let began = candidates.begin_reading(Instant::now());
        let queues = HashSet::from([(key.scope.clone(), key.queue.clone())]);
        candidates.hinted(&[], &queues);
        candidates.fill(key.clone(), Refill::Head, page(0..8), began);
        let needed = candidates.needs(&key, Time::from_millis(0), 1, |_| true);
        assert_eq!(needed, Some(Refill::Head));
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_a_fellow_names_is_tried_without_a_look_where_it_is_wanted() {
        let kind = |kind: &str| LaneKey {
            scope: Scope::default(),
            queue: Name::new("images"),
            kinds: Some(vec![Name::from(kind)]),
        };
        let mut candidates = Candidates::default();
        let nothing = || Page { is_last: true, ..page(0..0) };
        for key in [kind("resize"), kind("crop")] {
            let began = candidates.begin_reading(Instant::now());
            candidates.fill(key, Refill::Head, nothing(), began);
        }
        let place = Place::new(0, TaskId::from_u128(7));
        let (scope, queue) = (Scope::default(), Name::new("images"));
        let told = Candidate { scope, queue, kind: Name::new("resize"), place };
        candidates.hinted(&[told], &HashSet::new());
        assert_eq!(candidates.heads(&kind("resize"), 9, |_| true), [place]);
        assert_eq!(candidates.heads(&kind("crop"), 9, |_| true), []);
        assert_eq!(candidates.needs(&kind("resize"), Time::from_millis(0), 1, |_| true), None);
    }
}
