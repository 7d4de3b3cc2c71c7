//! Lanes in memory: what is ready in each combination of scope, queue and kind, and which queues hold something.
//!
//! Nothing here is looked at in proportion to what is empty. A queue knows the first ready task of each of its lanes,
//! so that a want that names kinds costs a look per kind, one that takes every kind a look per task, and a queue
//! without ready tasks nothing.
//!
//! Lanes with live tasks are here, and of the others those that had one last: the rest is found in the table when it
//! is needed again. There a lane stays as long as anything was submitted to it that is remembered.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, BinaryHeap, HashMap, btree_set};
use std::iter::Peekable;

use verdict::{Name, Scope, TaskId};

use super::ids::Ids;
use super::rows::Names;
use crate::row::{Stock, Want};
use crate::seam::Polled;

/// Lanes without live tasks that stay in memory, so that a queue which is empty after every task is not looked up in
/// the table for every task. Each takes a few hundred bytes.
const IDLE_MAX: usize = 1_024;

/// A combination of scope, queue and kind, by its number in the table `lanes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LaneId(pub(super) u32);

/// Priority, larger first, then age. Twenty bytes without padding: a million of them wait in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place([u8; 20]);

impl Place {
    pub(super) fn new(priority: i32, id: TaskId) -> Self {
        let mut bytes = [0; 20];
        // Flipping all but the sign bit turns "larger first" into ascending bytes.
        let urgency = (priority as u32) ^ 0x7fff_ffff;
        bytes[..4].copy_from_slice(&urgency.to_be_bytes());
        bytes[4..].copy_from_slice(&id.as_u128().to_be_bytes());
        Self(bytes)
    }

    fn id(&self) -> TaskId {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&self.0[4..]);
        TaskId::from_u128(u128::from_be_bytes(bytes))
    }
}

struct Lane {
    queue: QueueId,
    kind: Name,
    ready: BTreeSet<Place>,
    /// How many tasks live in it, ready or not.
    tasks: usize,
    /// When it last had none, as the order among those that have none.
    idle_since: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct QueueId(u64);

/// A queue of a scope. It has at least one lane.
struct Queue {
    scope: Scope,
    name: Name,
    kinds: HashMap<Name, LaneId>,
    /// The first ready task of each lane that has one.
    heads: BTreeSet<(Place, LaneId)>,
    /// How many tasks are ready in all lanes.
    ready: usize,
}

#[derive(Default)]
pub(super) struct Lanes {
    lanes: HashMap<LaneId, Lane>,
    queues: HashMap<QueueId, Queue>,
    book: HashMap<Scope, HashMap<Name, QueueId>>,
    /// Queues that have a ready task.
    stocked: BTreeSet<QueueId>,
    /// Lanes without live tasks, longest first.
    idle: BTreeSet<(u64, LaneId)>,
    begun: u64,
    rested: u64,
}

impl Lanes {
    pub(super) fn find(&self, scope: &Scope, queue: &Name, kind: &Name) -> Option<LaneId> {
        self.queue(scope, queue)?.kinds.get(kind).copied()
    }

    fn queue(&self, scope: &Scope, queue: &Name) -> Option<&Queue> {
        self.queues.get(self.book.get(scope)?.get(queue)?)
    }

    pub(super) fn add(&mut self, lane: LaneId, scope: &Scope, queue: &Name, kind: &Name) {
        let queues = self.book.entry(scope.clone()).or_default();
        let id = match queues.entry(queue.clone()) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(free) => {
                self.begun += 1;
                let (scope, name) = (scope.clone(), queue.clone());
                let (kinds, heads) = (HashMap::new(), BTreeSet::new());
                let id = *free.insert(QueueId(self.begun));
                self.queues.insert(id, Queue { scope, name, kinds, heads, ready: 0 });
                id
            }
        };
        self.queue_mut(id).kinds.insert(kind.clone(), lane);
        let (ready, idle_since) = (BTreeSet::new(), self.rest(lane));
        let added = Lane { queue: id, kind: kind.clone(), ready, tasks: 0, idle_since };
        self.lanes.insert(lane, added);
    }

    fn rest(&mut self, lane: LaneId) -> u64 {
        self.rested += 1;
        self.idle.insert((self.rested, lane));
        self.rested
    }

    pub(super) fn contains(&self, lane: LaneId) -> bool {
        self.lanes.contains_key(&lane)
    }

    /// A task lives in this lane.
    pub(super) fn enter(&mut self, id: LaneId) {
        let lane = self.lanes.get_mut(&id).expect("a task is in a lane that exists");
        lane.tasks += 1;
        if lane.tasks == 1 {
            self.idle.remove(&(lane.idle_since, id));
        }
    }

    /// A task lives in this lane no more.
    pub(super) fn leave(&mut self, id: LaneId) {
        let lane = self.lanes.get_mut(&id).expect("a task is in a lane that exists");
        lane.tasks -= 1;
        if lane.tasks == 0 {
            let since = self.rest(id);
            self.lanes.entry(id).and_modify(|lane| lane.idle_since = since);
        }
    }

    /// Forgets lanes that had no task for longest, until no more of them are left than are worth keeping.
    pub(super) fn trim(&mut self) {
        while self.idle.len() > IDLE_MAX
            && let Some((_, lane)) = self.idle.first().copied()
        {
            self.forget(lane);
        }
    }

    /// Forgets a lane without tasks, and its queue with the last of its lanes.
    pub(super) fn forget(&mut self, lane: LaneId) {
        let Some(Lane { queue: id, kind, tasks, idle_since, .. }) = self.lanes.remove(&lane) else {
            return;
        };
        assert_eq!(tasks, 0, "a lane that is forgotten has no tasks");
        self.idle.remove(&(idle_since, lane));
        let queue = self.queue_mut(id);
        queue.kinds.remove(&kind);
        if !queue.kinds.is_empty() {
            return;
        }
        let Some(Queue { scope, name, .. }) = self.queues.remove(&id) else { return };
        let Entry::Occupied(mut queues) = self.book.entry(scope) else { return };
        queues.get_mut().remove(&name);
        if queues.get().is_empty() {
            queues.remove();
        }
    }

    fn queue_mut(&mut self, id: QueueId) -> &mut Queue {
        self.queues.get_mut(&id).expect("every lane is of a queue")
    }

    pub(super) fn names(&self, lane: LaneId) -> Option<Names> {
        let Lane { queue, kind, .. } = self.lanes.get(&lane)?;
        let Queue { scope, name, .. } = self.queues.get(queue)?;
        Some(Names { scope: scope.clone(), kind: kind.clone(), queue: name.clone() })
    }

    /// A task of this lane is ready.
    pub(super) fn insert(&mut self, id: LaneId, place: Place) {
        let Self { lanes, queues, stocked, .. } = self;
        let lane = lanes.get_mut(&id).expect("a task is in a lane that exists");
        let queue = queues.get_mut(&lane.queue).expect("every lane is of a queue");
        let head = lane.ready.first().copied();
        if !lane.ready.insert(place) {
            return;
        }
        if head.is_none_or(|head| place < head) {
            if let Some(head) = head {
                queue.heads.remove(&(head, id));
            }
            queue.heads.insert((place, id));
        }
        queue.ready += 1;
        if queue.ready == 1 {
            stocked.insert(lane.queue);
        }
    }

    /// A task of this lane is ready no more. Whether it was.
    pub(super) fn remove(&mut self, id: LaneId, place: Place) -> bool {
        let Self { lanes, queues, stocked, .. } = self;
        let lane = lanes.get_mut(&id).expect("a task is in a lane that exists");
        let queue = queues.get_mut(&lane.queue).expect("every lane is of a queue");
        if !lane.ready.remove(&place) {
            return false;
        }
        if queue.heads.remove(&(place, id)) {
            queue.heads.extend(lane.ready.first().map(|head| (*head, id)));
        }
        queue.ready -= 1;
        if queue.ready == 0 {
            stocked.remove(&lane.queue);
        }
        true
    }

    /// Polled queues that have a ready task: a look at each polled or at each stocked one, whichever are fewer.
    pub(super) fn stocked(&self, polled: &dyn Polled) -> Vec<Stock> {
        let stock = |queue: &Queue| Stock {
            scope: queue.scope.clone(),
            queue: queue.name.clone(),
            tasks: queue.ready,
        };
        if self.stocked.len() <= polled.count() {
            let stocked = self.stocked.iter().filter_map(|id| self.queues.get(id));
            let polled = stocked.filter(|queue| polled.contains(&queue.scope, &queue.name));
            return polled.map(stock).collect();
        }
        let mut stocks = Vec::new();
        polled.each(&mut |scope, queue| {
            stocks.extend(self.queue(scope, queue).filter(|queue| queue.ready > 0).map(stock));
        });
        stocks
    }

    /// What a want is given: the heads of its lanes, merged by priority and age, without those already taken.
    pub(super) fn pick(&self, want: &Want, taken: &Ids) -> Vec<TaskId> {
        self.merge(want, taken).0
    }

    /// The same, with the number of places that were looked at for it: queues and lanes.
    fn merge(&self, want: &Want, taken: &Ids) -> (Vec<TaskId>, usize) {
        let mut sources = self.sources(want);
        let heads = sources.iter_mut().enumerate();
        let mut heads: BinaryHeap<_> =
            heads.filter_map(|(n, source)| Some(Reverse((source.first()?, n)))).collect();
        let mut picked = Vec::new();
        while picked.len() < want.max + usize::from(faultpoint::mutant(17))
            && let Some(Reverse((place, n))) = heads.pop()
        {
            if let Some(lane) = sources[n].pass() {
                let rest = self.lanes.get(&lane).map(Source::behind);
                heads.extend(rest.and_then(|mut rest| {
                    let first = rest.first()?;
                    sources.push(rest);
                    Some(Reverse((first, sources.len() - 1)))
                }));
            }
            heads.extend(sources[n].first().map(|place| Reverse((place, n))));
            if !taken.contains(&place.id()) {
                picked.push(place.id());
            }
        }
        (picked, sources.len())
    }

    /// Where to look for what a want takes: the heads of whole queues, or single lanes.
    fn sources(&self, want: &Want) -> Vec<Source<'_>> {
        let queues = each_once(&want.queues).into_iter();
        let queues = queues.filter_map(|queue| self.queue(&want.scope, queue));
        let queues = queues.filter(|queue| queue.ready > 0);
        let Some(kinds) = &want.kinds else {
            return queues.map(|queue| Source::Heads(queue.heads.iter().peekable())).collect();
        };
        let kinds = each_once(kinds);
        let lanes = queues.flat_map(|queue| kinds.iter().filter_map(|kind| queue.kinds.get(*kind)));
        let lanes = lanes.filter_map(|lane| self.lanes.get(lane));
        lanes.map(|lane| Source::Lane(lane.ready.iter().peekable())).collect()
    }
}

fn each_once(names: &[Name]) -> Vec<&Name> {
    let mut names: Vec<&Name> = names.iter().collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Ready tasks in order.
enum Source<'a> {
    /// The first ones of all lanes of a queue. What comes behind one of them is a source of its own, once it was
    /// passed.
    Heads(Peekable<btree_set::Iter<'a, (Place, LaneId)>>),
    Lane(Peekable<btree_set::Iter<'a, Place>>),
}

impl<'a> Source<'a> {
    /// All but the first of a lane.
    fn behind(lane: &'a Lane) -> Self {
        let mut ready = lane.ready.iter().peekable();
        ready.next();
        Source::Lane(ready)
    }

    fn first(&mut self) -> Option<Place> {
        match self {
            Source::Heads(heads) => heads.peek().map(|(place, _)| *place),
            Source::Lane(ready) => ready.peek().map(|place| **place),
        }
    }

    /// Goes on to the next. Returns the lane whose head was passed.
    fn pass(&mut self) -> Option<LaneId> {
        match self {
            Source::Heads(heads) => heads.next().map(|(_, lane)| *lane),
            Source::Lane(ready) => {
                ready.next();
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Lanes of these queues and kinds, numbered in this order, each with tasks of these priorities. The number of a
    /// task is ten times that of its lane and its place among them.
    fn lanes(of: &[(&str, &str, &[i32])]) -> Lanes {
        let mut lanes = Lanes::default();
        for (n, (queue, kind, priorities)) in of.iter().enumerate() {
            let lane = LaneId(n as u32);
            lanes.add(lane, &Scope::default(), &Name::from(*queue), &Name::from(*kind));
            for (k, priority) in priorities.iter().enumerate() {
                lanes.insert(lane, place(*priority, 10 * n + k));
            }
        }
        lanes
    }

    fn place(priority: i32, number: usize) -> Place {
        Place::new(priority, TaskId::from_u128(number as u128))
    }

    fn picked(lanes: &Lanes, queues: &[&str], kinds: Option<&[&str]>, max: usize) -> Vec<u128> {
        let names = |names: &[&str]| names.iter().map(|name| Name::from(*name)).collect();
        let (queues, kinds) = (names(queues), kinds.map(names));
        let want = Want { scope: Scope::default(), queues, kinds, max };
        lanes.pick(&want, &Ids::default()).iter().map(|id| id.as_u128()).collect()
    }

    /// Somebody waits at `queue-0`, `queue-1` and so on, and counts who looks.
    struct Waiting {
        queues: usize,
        looks: AtomicUsize,
    }

    impl Polled for Waiting {
        fn count(&self) -> usize {
            self.queues
        }

        fn contains(&self, _: &Scope, queue: &Name) -> bool {
            self.looks.fetch_add(1, Ordering::Relaxed);
            (0..self.queues).any(|n| queue.as_str() == format!("queue-{n}"))
        }

        fn each(&self, see: &mut dyn FnMut(&Scope, &Name)) {
            for n in 0..self.queues {
                self.looks.fetch_add(1, Ordering::Relaxed);
                see(&Scope::default(), &Name::from(format!("queue-{n}")));
            }
        }
    }

    /// How many polled queues hold something, and how many looks that took.
    fn looked(lanes: &Lanes, queues: usize) -> (usize, usize) {
        let polled = Waiting { queues, looks: AtomicUsize::new(0) };
        (lanes.stocked(&polled).len(), polled.looks.into_inner())
    }

    #[test]
    fn the_smaller_side_is_looked_at() {
        // G2: ten thousand idle polls, or ten thousand queues nobody works off, cost a poll nothing.
        let one = lanes(&[("queue-7", "resize", &[0]), ("unpolled", "resize", &[0])]);
        assert_eq!(looked(&one, 10_000), (1, 2));
        let mut many = lanes(&[("queue-0", "resize", &[0])]);
        for n in 1..10_000 {
            let (lane, queue) = (LaneId(n), Name::from(format!("full-{n}")));
            many.add(lane, &Scope::default(), &queue, &Name::from("resize"));
            many.insert(lane, place(0, n as usize));
        }
        assert_eq!(looked(&many, 3), (1, 3));
    }

    #[test]
    fn lanes_of_every_kind_are_merged_by_priority_then_age() {
        // R-19, S2-24: whoever takes everything, and whoever names the kinds, get the same order.
        let lanes = lanes(&[
            ("images", "resize", &[0, 5, 0]),
            ("images", "crop", &[]),
            ("images", "blur", &[7, 0]),
            ("mails", "send", &[5, -1]),
        ]);
        let order = [20, 1, 30, 0, 2, 21, 31];
        for max in 0..=order.len() {
            assert_eq!(picked(&lanes, &["images", "mails"], None, max), order[..max]);
        }
        let kinds = ["send", "resize", "blur", "crop", "send", "nothing"];
        assert_eq!(picked(&lanes, &["mails", "images", "mails"], Some(&kinds), 9), order);
        assert_eq!(picked(&lanes, &["images"], Some(&["blur", "send"]), 9), [20, 21]);
    }

    #[test]
    fn a_want_costs_a_look_for_each_kind_it_names_or_for_each_task_it_takes() {
        // G2: however many other kinds wait in its queue, and however many have ended.
        let mut lanes = lanes(&[("images", "resize", &[0, 0])]);
        for n in 1..20_000 {
            let (lane, kind) = (LaneId(n), Name::from(format!("kind-{n}")));
            lanes.add(lane, &Scope::default(), &Name::from("images"), &kind);
            if n % 2 == 0 {
                lanes.insert(lane, place(0, 100 + n as usize));
            }
        }
        let want = |kinds: Option<Vec<Name>>, max| {
            let (scope, queues) = (Scope::default(), vec![Name::from("images")]);
            Want { scope, queues, kinds, max }
        };
        let named = want(Some(vec![Name::from("resize"), Name::from("crop")]), 8);
        assert_eq!(lanes.merge(&named, &Ids::default()), (ids(&[0, 1]), 1));
        let empty = want(Some(vec![Name::from("kind-1")]), 8);
        assert_eq!(lanes.merge(&empty, &Ids::default()), (Vec::new(), 1));
        let (picked, looks) = lanes.merge(&want(None, 3), &Ids::default());
        assert_eq!(picked, ids(&[0, 1, 102]));
        assert!(looks <= 1 + 3, "the queue's heads and the lanes passed, not {looks}");
    }

    fn ids(numbers: &[u128]) -> Vec<TaskId> {
        numbers.iter().map(|number| TaskId::from_u128(*number)).collect()
    }

    #[test]
    fn what_a_queue_holds_follows_its_tasks() {
        let mut lanes = lanes(&[("queue-0", "resize", &[0, 9]), ("queue-0", "crop", &[3])]);
        let tasks = |lanes: &Lanes| {
            let polled = Waiting { queues: 1, looks: AtomicUsize::new(0) };
            lanes.stocked(&polled).iter().map(|stock| stock.tasks).sum::<usize>()
        };
        assert_eq!((tasks(&lanes), picked(&lanes, &["queue-0"], None, 9)), (3, vec![1, 10, 0]));
        assert!(lanes.remove(LaneId(0), place(9, 1)), "the head of a lane");
        assert!(!lanes.remove(LaneId(0), place(9, 1)), "once");
        assert_eq!((tasks(&lanes), picked(&lanes, &["queue-0"], None, 9)), (2, vec![10, 0]));
        assert!(lanes.remove(LaneId(1), place(3, 10)), "the last of a lane");
        lanes.insert(LaneId(0), place(1, 5));
        assert_eq!((tasks(&lanes), picked(&lanes, &["queue-0"], None, 9)), (2, vec![5, 0]));
        assert!(lanes.remove(LaneId(0), place(0, 0)), "the tail of a lane");
        assert!(lanes.remove(LaneId(0), place(1, 5)));
        assert_eq!((tasks(&lanes), picked(&lanes, &["queue-0"], None, 9)), (0, vec![]));
    }

    #[test]
    fn lanes_without_tasks_are_forgotten_but_for_the_last_ones() {
        // F77: twenty thousand kinds that have ended.
        let mut lanes = Lanes::default();
        let (scope, queue) = (Scope::default(), Name::from("images"));
        let busy = LaneId(u32::MAX);
        lanes.add(busy, &scope, &queue, &Name::from("resize"));
        lanes.enter(busy);
        for n in 0..20_000 {
            lanes.add(LaneId(n), &scope, &queue, &Name::from(format!("kind-{n}")));
            lanes.enter(LaneId(n));
            lanes.leave(LaneId(n));
            lanes.trim();
            assert!(lanes.lanes.len() <= IDLE_MAX + 1);
        }
        assert!(lanes.contains(busy), "whoever has a task stays, however long");
        assert!(lanes.contains(LaneId(19_999)) && !lanes.contains(LaneId(0)));
        // Whoever comes back stays, and is the last to go again.
        let old = LaneId(20_000 - IDLE_MAX as u32);
        lanes.enter(old);
        lanes.leave(old);
        lanes.add(LaneId(30_000), &scope, &queue, &Name::from("new"));
        lanes.trim();
        assert!(lanes.contains(old) && !lanes.contains(LaneId(old.0 + 1)));
        assert_eq!(lanes.queues.len(), 1);
    }

    #[test]
    fn a_lane_that_is_forgotten_leaves_nothing_behind() {
        // F77: names that were used once do not stay for ever.
        let mut lanes = lanes(&[("images", "resize", &[]), ("images", "crop", &[])]);
        lanes.forget(LaneId(0));
        let (queue, kind) = (Name::from("images"), Name::from("crop"));
        assert_eq!(lanes.find(&Scope::default(), &queue, &Name::from("resize")), None);
        assert_eq!(lanes.find(&Scope::default(), &queue, &kind), Some(LaneId(1)));
        lanes.forget(LaneId(1));
        assert!(lanes.lanes.is_empty() && lanes.queues.is_empty() && lanes.book.is_empty());
        assert!(lanes.idle.is_empty());
        lanes.add(LaneId(2), &Scope::default(), &queue, &kind);
        lanes.insert(LaneId(2), place(0, 1));
        assert_eq!(picked(&lanes, &["images"], None, 9), [1]);
    }
}
