//! Which tasks to try next, and what must be read to know: small buffers per queue, in memory.
//!
//! Scanning a queue from its head for every grant walks over everything that was taken before, for as
//! long as any old snapshot keeps it. So tasks are taken by their key, and this says which keys are worth
//! trying. It holds hints, no truth: whoever takes a task locks its row and looks again.
//!
//! Filled by looks beside the batches ([`super::looking`]) in an order that is fair ([`super::agenda`]), corrected by what
//! this process commits and by the few tasks that a fellow's hint names, and read again from the head when a fellow may
//! have changed more: after a hint that names the queue only, and when the last look is old.
//!
//! Each polled queue has a lane for all of its tasks. Only where a queue is longer than what is known of it, and some kinds of
//! tasks are wanted that are not in that part, do those kinds have a lane of their own.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;
use verdict::{Name, Scope, Subject, Task, TaskId, Time};

use super::agenda::{Agenda, Class, LANES_PER_LOOK, Renown, Turn};
use super::lane::{Lane, Page, Refill};
use super::place::Place;
use crate::row::{Stock, Want};
use crate::seam::Polled;

/// How many queues are remembered. Beyond that the one that needs it least is forgotten, of the tenant that has most.
const QUEUES_MAX: usize = 16_384;

/// How many lanes for some kinds a queue has. Beyond that one of them is forgotten and read again when it is wanted.
const KINDS_MAX: usize = 64;

/// A queue that nobody has polled for so long is not looked at any more, and forgotten.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// Up to so many polled queues are gone through for every batch, in less than a millisecond; more only now and then.
const NOTED_EVERY_TIME: usize = 4_096;
const NOTED_EVERY: Duration = Duration::from_millis(50);

/// When lanes are read again that could not be read.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Kinds of tasks, sorted; `None` means every kind.
pub(super) type Kinds = Option<Vec<Name>>;

/// The part of a queue that a poll can use.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LaneKey {
    pub(super) scope: Scope,
    pub(super) queue: Name,
    pub(super) kinds: Kinds,
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

    /// The lane of a queue with all of its tasks.
    pub(super) fn whole(scope: &Scope, queue: &Name) -> Self {
        Self { scope: scope.clone(), queue: queue.clone(), kinds: None }
    }

    pub(super) fn takes_kind(&self, kind: &Name) -> bool {
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

/// A lane with its place in the agenda.
struct Entry {
    lane: Lane,
    class: Class,
    turn: Option<Turn>,
    /// What somebody waits for.
    need: Option<Refill>,
}

impl Entry {
    fn new() -> Self {
        Self { lane: Lane::default(), class: Class::Quick, turn: None, need: None }
    }
}

struct Queue {
    lanes: HashMap<Kinds, Entry>,
    polled_at: Instant,
    /// When the first of its delayed tasks is due, as far as is known.
    ripens_at: Option<Time>,
}

impl Queue {
    fn whole(&self) -> Option<&Lane> {
        self.lanes.get(&None).map(|entry| &entry.lane)
    }

    /// The lanes that take tasks of this kind.
    fn taking(&mut self, kind: &Name) -> impl Iterator<Item = &mut Lane> {
        let taking = self.lanes.iter_mut().filter(move |(kinds, _)| takes(kinds, kind));
        taking.map(|(_, entry)| &mut entry.lane)
    }
}

#[derive(Default)]
pub(super) struct Candidates {
    queues: HashMap<QueueKey, Queue>,
    agenda: Agenda,
    /// Queues that may hold something.
    holding: HashSet<QueueKey>,
    /// Queues with delayed tasks, by when the first of them is due.
    ripening: BTreeSet<(Time, QueueKey)>,
    /// Polled queues that were never looked at.
    fresh: BTreeSet<QueueKey>,
    /// When all polled queues were last gone through.
    noted: Option<Instant>,
    /// Tasks that a batch of this process has in hand, until it ends.
    reserved: HashMap<TaskId, u64>,
}

impl Candidates {
    /// Takes in which queues are polled. Returns whether some of them must be looked at for the first time.
    pub(super) fn note_polled(&mut self, polled: &dyn Polled, here: Instant) -> bool {
        let is_recent = self.noted.is_some_and(|noted| here < noted + NOTED_EVERY);
        if polled.count() > NOTED_EVERY_TIME && is_recent {
            return false;
        }
        self.noted = Some(here);
        let mut is_any_new = false;
        polled.each(&mut |scope, name| {
            let key = (scope.clone(), name.clone());
            match self.queues.get_mut(&key) {
                Some(queue) => queue.polled_at = here,
                None => {
                    self.enrol(key, here);
                    is_any_new = true;
                }
            }
        });
        is_any_new
    }

    fn enrol(&mut self, key: QueueKey, here: Instant) {
        if self.queues.len() >= QUEUES_MAX
            && let Some(idle) = self.agenda.most_idle()
        {
            self.forget(&idle.queue_key());
        }
        let lanes = HashMap::from([(None, Entry::new())]);
        self.queues.insert(key.clone(), Queue { lanes, polled_at: here, ripens_at: None });
        let whole = LaneKey::whole(&key.0, &key.1);
        self.fresh.insert(key);
        self.schedule(&whole, here);
    }

    fn forget(&mut self, key: &QueueKey) {
        self.note_ripening(key, None);
        self.holding.remove(key);
        self.fresh.remove(key);
        let Some(queue) = self.queues.remove(key) else { return };
        for (kinds, entry) in queue.lanes {
            if let Some(turn) = entry.turn {
                let (scope, queue) = key.clone();
                self.agenda.remove(&LaneKey { scope, queue, kinds }, turn);
            }
        }
    }

    fn entry(&self, key: &LaneKey) -> Option<&Entry> {
        self.queues.get(&key.queue_key())?.lanes.get(&key.kinds)
    }

    fn entry_mut(&mut self, key: &LaneKey) -> Option<&mut Entry> {
        self.queues.get_mut(&key.queue_key())?.lanes.get_mut(&key.kinds)
    }

    /// Puts a lane where it belongs in the agenda. Lanes for some kinds are only there while somebody needs them.
    fn schedule(&mut self, key: &LaneKey, here: Instant) {
        let Some(entry) = self.entry_mut(key) else { return };
        let before = entry.turn.take();
        let is_needed = entry.need.is_some();
        let at = if is_needed { here } else { entry.lane.looks_again_at(here) };
        let is_held = is_needed || entry.lane.has_held();
        let renown = if is_held { Renown::Held } else { Renown::Unheld };
        let is_listed = !entry.lane.is_being_read() && (is_needed || key.kinds.is_none());
        let turn = is_listed.then_some(Turn { at, class: entry.class, renown });
        entry.turn = turn;
        if let Some(before) = before {
            self.agenda.remove(key, before);
        }
        if let Some(turn) = turn {
            self.agenda.add(key, turn);
        }
    }

    /// Which polled queues may hold something, as far as is known.
    pub(super) fn stocks(&self, polled: &dyn Polled) -> Vec<Stock> {
        let mut stocks = Vec::new();
        let mut add = |scope: &Scope, queue: &Name, whole: Option<&Lane>| {
            let count = whole.filter(|lane| lane.is_whole()).map(Lane::count);
            let (scope, queue) = (scope.clone(), queue.clone());
            stocks.push(Stock { scope, queue, tasks: count.unwrap_or(usize::MAX) });
        };
        let whole = |key: &QueueKey| self.queues.get(key).and_then(Queue::whole);
        if self.holding.len() <= polled.count() {
            for key in self.holding.iter().filter(|(scope, queue)| polled.contains(scope, queue)) {
                add(&key.0, &key.1, whole(key));
            }
        } else {
            polled.each(&mut |scope, queue| {
                let key = (scope.clone(), queue.clone());
                if self.holding.contains(&key) {
                    add(scope, queue, whole(&key));
                }
            });
        }
        stocks
    }

    /// Tasks whose time has come are candidates. Returns whether something must be read for it.
    pub(super) fn ripen(&mut self, now: Time) -> bool {
        let mut is_any_needed = false;
        while let Some((due, key)) = self.ripening.first().cloned()
            && due.has_come(now)
        {
            self.note_ripening(&key, None);
            self.ripening.remove(&(due, key.clone()));
            let Some(queue) = self.queues.get_mut(&key) else { continue };
            queue.lanes.values_mut().for_each(|entry| entry.lane.ripen(now));
            let next_due = queue.whole().and_then(Lane::next_due);
            if next_due.is_some_and(|due| due.has_come(now)) {
                // More of them are hidden behind those that are known.
                let whole = LaneKey::whole(&key.0, &key.1);
                self.need(&whole, Refill::Head, tokio::time::Instant::now());
                is_any_needed = true;
                self.holding.insert(key);
            } else {
                self.review(&key);
            }
        }
        is_any_needed
    }

    /// After a change of a queue's lanes.
    fn review(&mut self, key: &QueueKey) {
        let whole = self.queues.get(key).and_then(Queue::whole);
        let (may_hold, next_due) =
            (whole.is_some_and(Lane::may_hold), whole.and_then(Lane::next_due));
        if may_hold {
            self.holding.insert(key.clone());
        } else {
            self.holding.remove(key);
        }
        self.note_ripening(key, next_due);
    }

    fn note_ripening(&mut self, key: &QueueKey, due: Option<Time>) {
        let Some(queue) = self.queues.get_mut(key) else { return };
        if let Some(before) = std::mem::replace(&mut queue.ripens_at, due) {
            self.ripening.remove(&(before, key.clone()));
        }
        if let Some(due) = due {
            self.ripening.insert((due, key.clone()));
        }
    }

    /// What to read now so that the lane can give `wanted` tasks that `is_free` allows.
    pub(super) fn needs(
        &self,
        key: &LaneKey,
        now: Time,
        wanted: usize,
        is_free: impl Fn(TaskId) -> bool,
    ) -> Option<(LaneKey, Refill)> {
        let whole = LaneKey::whole(&key.scope, &key.queue);
        let Some(entry) = self.entry(&whole) else { return Some((whole, Refill::Head)) };
        let kinds = key.kinds.as_deref();
        let refill = entry.lane.needs(kinds, wanted, now, &is_free)?;
        if kinds.is_none() || refill == Refill::Head {
            return Some((whole, refill));
        }
        let Some(part) = self.entry(key) else { return Some((key.clone(), Refill::Head)) };
        let here = tokio::time::Instant::now();
        let is_old = || (part.lane.looks_again_at(here) <= here).then_some(Refill::Head);
        let refill = part.lane.needs(kinds, wanted, now, is_free).or_else(is_old)?;
        Some((key.clone(), refill))
    }

    /// Somebody waits for this to be read.
    pub(super) fn need(&mut self, key: &LaneKey, refill: Refill, here: Instant) {
        if !self.queues.contains_key(&key.queue_key()) {
            self.enrol(key.queue_key(), here);
        }
        self.make_room_for(key);
        let Some(queue) = self.queues.get_mut(&key.queue_key()) else { return };
        queue.polled_at = here;
        queue.lanes.entry(key.kinds.clone()).or_insert_with(Entry::new).need = Some(refill);
        self.schedule(key, here);
    }

    fn make_room_for(&mut self, key: &LaneKey) {
        let Some(queue) = self.queues.get_mut(&key.queue_key()) else { return };
        if queue.lanes.len() <= KINDS_MAX || queue.lanes.contains_key(&key.kinds) {
            return;
        }
        let is_idle = |(kinds, entry): &(&Kinds, &Entry)| kinds.is_some() && entry.turn.is_none();
        let idle = queue.lanes.iter().find(is_idle).map(|(kinds, _)| kinds.clone());
        if let Some(kinds) = idle {
            queue.lanes.remove(&kinds);
        }
    }

    /// Whether a read of this lane is under way or about to begin.
    pub(super) fn is_pending(&self, key: &LaneKey, here: Instant) -> bool {
        let is_resting = || self.agenda.is_resting(&key.scope.tenant, here);
        self.entry(key).is_some_and(|entry| {
            let is_first = !entry.lane.is_known() && entry.turn.is_some_and(|turn| turn.at <= here);
            entry.lane.is_being_read() || entry.need.is_some() || (is_first && !is_resting())
        })
    }

    /// Polled queues whose first look is under way or about to begin, as many as one look takes.
    pub(super) fn unseen(&self, here: Instant) -> Vec<LaneKey> {
        let lanes = self.fresh.iter().map(|(scope, queue)| LaneKey::whole(scope, queue));
        lanes.filter(|lane| self.is_pending(lane, here)).take(LANES_PER_LOOK).collect()
    }

    /// Takes the lanes of the next look.
    pub(super) fn begin_look(&mut self, class: Class, here: Instant) -> Vec<(LaneKey, Refill)> {
        let mut lanes = Vec::new();
        for key in self.agenda.take(class, here) {
            let queue_key = key.queue_key();
            let Some(queue) = self.queues.get_mut(&queue_key) else { continue };
            let is_idle = here > queue.polled_at + IDLE_MAX;
            let Some(entry) = queue.lanes.get_mut(&key.kinds) else { continue };
            entry.turn = None;
            if is_idle && entry.need.is_none() {
                self.forget(&queue_key);
                continue;
            }
            entry.lane.begin_reading();
            lanes.push((key, entry.need.take().unwrap_or(Refill::Head)));
        }
        lanes
    }

    /// Takes in what a look found. Returns whether there is something that was not known.
    pub(super) fn end_look(&mut self, found: Vec<(LaneKey, Refill, Read)>, here: Instant) -> bool {
        let mut is_any_new = false;
        for (key, refill, read) in found {
            let Some(entry) = self.entry_mut(&key) else { continue };
            let (took, page) = (read.took, read.page);
            entry.class = Class::of(took);
            is_any_new |= entry.lane.fill(refill, page, took, here);
            let is_in_vain = !entry.lane.has_held();
            self.schedule(&key, here);
            if is_in_vain {
                self.agenda.spent_in_vain(&key.scope.tenant, took, here);
            }
            self.fresh.remove(&key.queue_key());
            self.review(&key.queue_key());
        }
        is_any_new
    }

    /// A look came to nothing.
    pub(super) fn give_up_look(&mut self, lanes: Vec<(LaneKey, Refill)>, here: Instant) {
        for (key, _) in lanes {
            if let Some(entry) = self.entry_mut(&key) {
                entry.lane.give_up_reading();
                let (at, class) = (here + AFTER_FAILURE, entry.class);
                let turn = Turn { at, class, renown: Renown::Held };
                entry.turn = Some(turn);
                self.agenda.add(&key, turn);
            }
        }
    }

    /// When lanes of this class are next to be looked at.
    pub(super) fn next_look(&self, class: Class) -> Option<Instant> {
        self.agenda.next(class)
    }

    /// The first candidates of a lane that `is_free` allows, in order.
    pub(super) fn heads(
        &self,
        key: &LaneKey,
        max: usize,
        is_free: impl Fn(TaskId) -> bool,
    ) -> Vec<Place> {
        let Some(queue) = self.queues.get(&key.queue_key()) else { return Vec::new() };
        let part = key.kinds.is_some().then(|| queue.lanes.get(&key.kinds)).flatten();
        let lanes = queue.whole().into_iter().chain(part.map(|entry| &entry.lane));
        let kinds = key.kinds.as_deref();
        let mut heads: Vec<Place> =
            lanes.flat_map(|lane| lane.heads(kinds, max, &is_free)).collect();
        heads.sort_unstable();
        heads.dedup();
        heads.truncate(max);
        heads
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
        self.cross_out(&key.queue_key(), place);
    }

    fn cross_out(&mut self, key: &QueueKey, place: Place) {
        if let Some(queue) = self.queues.get_mut(key) {
            for entry in queue.lanes.values_mut() {
                entry.lane.remove(place);
            }
            self.review(key);
        }
    }

    /// Follows what a batch of this process has committed.
    pub(super) fn committed(&mut self, subject: &Subject, now: Time) {
        match subject {
            Subject::Absent => {}
            Subject::Done(done) => {
                let key = (done.scope.clone(), done.queue.clone());
                self.cross_out(&key, Place::new(done.priority, done.id));
            }
            Subject::Live(task) => {
                let key = (task.scope.clone(), task.queue.clone());
                if let Some(queue) = self.queues.get_mut(&key) {
                    queue.taking(&task.kind).for_each(|lane| lane.moved(task, now));
                    self.review(&key);
                }
            }
        }
    }

    /// A fellow has made tasks ready, worth trying wherever they are wanted and the lane reaches that far, and has
    /// committed something in these queues.
    pub(super) fn hinted(&mut self, ready: &[Candidate], queues: &HashSet<(Scope, Name)>) {
        let here = tokio::time::Instant::now();
        for Candidate { scope, queue, kind, place } in ready {
            let key = (scope.clone(), queue.clone());
            if let Some(queue) = self.queues.get_mut(&key) {
                queue.taking(kind).for_each(|lane| lane.add(*place, kind.clone()));
                self.review(&key);
            }
        }
        for key in queues {
            if let Some(queue) = self.queues.get_mut(key) {
                queue.lanes.values_mut().for_each(|entry| entry.lane.stir());
                self.schedule(&LaneKey::whole(&key.0, &key.1), here);
            }
        }
    }

    /// Nothing known can be relied on any more.
    pub(super) fn forget_all(&mut self) {
        self.queues.clear();
        self.agenda.clear();
        self.holding.clear();
        self.ripening.clear();
        self.fresh.clear();
        self.noted = None;
    }
}

/// What a look found in one lane, and how long that took.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) page: Page,
    pub(super) took: Duration,
}

#[cfg(test)]
mod tests;
