//! The order of live tasks, in memory: what is ready, what becomes ready, what time will change.
//!
//! Everything here is derived from the `live` table and rebuilt from it, so it holds no truth of its
//! own, only positions. No rule is known here: a task's place follows from `claimable_at` and
//! `wakes_at`, which the rules computed.
//!
//! Invariant: a waiting task is in its lane when its time had come at `promoted`, else in `delayed`;
//! a task is in `alarms` exactly while it has a `wakes_at`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};

use verdict::{Name, Scope, Span, Task, TaskId, Time};

use super::ids::Ids;
use super::rows::Names;
use crate::row::{PollRef, Want};

/// A combination of scope, queue and kind, by its number in the table `lanes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LaneId(pub(super) u32);

/// What the order needs to know of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Marks {
    pub(super) id: TaskId,
    pub(super) lane: LaneId,
    pub(super) priority: i32,
    pub(super) claimable_at: Option<Time>,
    pub(super) wakes_at: Option<Time>,
    /// Length of the lease while there is one.
    pub(super) lease: Option<Span>,
    pub(super) poll: Option<PollRef>,
}

impl Marks {
    pub(super) fn of(task: &Task, lane: LaneId) -> Self {
        Self {
            id: task.id,
            lane,
            priority: task.priority,
            claimable_at: task.claimable_at(),
            wakes_at: task.wakes_at(),
            lease: task.lease().map(|_| task.policy.lease),
            poll: task.lease().and_then(|lease| {
                let poll = lease.poll.clone()?;
                Some(PollRef { scope: task.scope.clone(), owner: lease.owner.clone(), poll })
            }),
        }
    }

    fn place(&self) -> Place {
        Place::new(self.priority, self.id)
    }
}

/// Priority, larger first, then age. Twenty bytes without padding: a million of them wait in memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place([u8; 20]);

impl Place {
    fn new(priority: i32, id: TaskId) -> Self {
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

/// A task that is not ready yet. Thirty-six bytes: instant, priority and id, lane.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Delayed {
    due: Time,
    place: Place,
    lane: LaneId,
}

struct Lane {
    scope: Scope,
    queue: Name,
    kind: Name,
    ready: BTreeSet<Place>,
}

/// The lanes of one queue, by kind.
type Kinds = BTreeMap<Name, LaneId>;

pub(super) struct Order {
    lanes: Vec<Lane>,
    book: HashMap<Scope, HashMap<Name, Kinds>>,
    delayed: BTreeSet<Delayed>,
    alarms: BTreeSet<(Time, TaskId)>,
    running: BTreeSet<TaskId>,
    leases: BTreeMap<Span, usize>,
    polls: HashMap<PollRef, BTreeSet<TaskId>>,
    promoted: Time,
    /// The earliest instant among tasks that became ready since the last commit looked.
    unseen: Option<Time>,
}

impl Order {
    pub(super) fn new() -> Self {
        Self {
            lanes: Vec::new(),
            book: HashMap::new(),
            delayed: BTreeSet::new(),
            alarms: BTreeSet::new(),
            running: BTreeSet::new(),
            leases: BTreeMap::new(),
            polls: HashMap::new(),
            promoted: Time::from_millis(i64::MIN),
            unseen: None,
        }
    }

    pub(super) fn lane(&self, scope: &Scope, queue: &Name, kind: &Name) -> Option<LaneId> {
        self.book.get(scope)?.get(queue)?.get(kind).copied()
    }

    /// Lanes are numbered from 0 in the order in which they were first used.
    pub(super) fn add_lane(&mut self, scope: &Scope, queue: &Name, kind: &Name) -> LaneId {
        let id = LaneId(u32::try_from(self.lanes.len()).expect("fewer lanes than tasks"));
        let kinds = self.book.entry(scope.clone()).or_default().entry(queue.clone()).or_default();
        kinds.insert(kind.clone(), id);
        let (scope, queue, kind) = (scope.clone(), queue.clone(), kind.clone());
        self.lanes.push(Lane { scope, queue, kind, ready: BTreeSet::new() });
        id
    }

    /// Forgets lanes that were added last and not committed. No task is in them any more.
    pub(super) fn truncate_lanes(&mut self, count: usize) {
        for lane in self.lanes.drain(count..) {
            assert!(lane.ready.is_empty(), "an undone lane has no tasks");
            let queues = self.book.get_mut(&lane.scope).expect("every lane is in the book");
            let kinds = queues.get_mut(&lane.queue).expect("every lane is in the book");
            kinds.remove(&lane.kind);
        }
    }

    pub(super) fn names(&self, lane: LaneId) -> Option<Names> {
        let Lane { scope, queue, kind, .. } = self.lanes.get(lane.0 as usize)?;
        Some(Names { scope: scope.clone(), kind: kind.clone(), queue: queue.clone() })
    }

    pub(super) fn lane_count(&self) -> usize {
        self.lanes.len()
    }

    pub(super) fn insert(&mut self, marks: &Marks) {
        if let Some(due) = marks.claimable_at {
            if due <= self.promoted || faultpoint::mutant(12) {
                self.ready_in(marks.lane).insert(marks.place());
            } else {
                self.delayed.insert(Delayed { due, place: marks.place(), lane: marks.lane });
            }
        }
        if let Some(at) = marks.wakes_at {
            self.alarms.insert((at, marks.id));
        }
        if let Some(length) = marks.lease {
            self.running.insert(marks.id);
            *self.leases.entry(length).or_default() += 1;
        }
        if let Some(poll) = &marks.poll {
            self.polls.entry(poll.clone()).or_default().insert(marks.id);
        }
    }

    pub(super) fn remove(&mut self, marks: &Marks) {
        if let Some(due) = marks.claimable_at {
            let gone = if due <= self.promoted || faultpoint::mutant(12) {
                self.ready_in(marks.lane).remove(&marks.place())
            } else {
                self.delayed.remove(&Delayed { due, place: marks.place(), lane: marks.lane })
            };
            assert!(gone, "a waiting task has exactly one place");
        }
        if let Some(at) = marks.wakes_at {
            self.alarms.remove(&(at, marks.id));
        }
        if let Some(length) = marks.lease {
            self.running.remove(&marks.id);
            self.forget_lease(length);
        }
        if let Some(poll) = &marks.poll {
            self.forget_poll(poll, marks.id);
        }
    }

    fn forget_lease(&mut self, length: Span) {
        let count = self.leases.get_mut(&length).expect("every running lease is counted");
        *count -= 1;
        if *count == 0 {
            self.leases.remove(&length);
        }
    }

    fn forget_poll(&mut self, poll: &PollRef, id: TaskId) {
        let tasks = self.polls.get_mut(poll).expect("every poll's lease is noted");
        tasks.remove(&id);
        if tasks.is_empty() {
            self.polls.remove(poll);
        }
    }

    fn ready_in(&mut self, lane: LaneId) -> &mut BTreeSet<Place> {
        &mut self.lanes[lane.0 as usize].ready
    }

    /// Moves what has become ready by `now` into its lane.
    pub(super) fn promote(&mut self, now: Time) {
        while let Some(first) = self.delayed.first().filter(|first| first.due <= now).copied() {
            self.delayed.remove(&first);
            self.ready_in(first.lane).insert(first.place);
            self.unseen = Some(self.unseen.map_or(first.due, |unseen| unseen.min(first.due)));
        }
        self.promoted = self.promoted.max(now);
    }

    /// A task was found that no batch has looked at yet; if it is ready, one should soon.
    pub(super) fn overlooked(&mut self, marks: &Marks) {
        if let Some(due) = marks.claimable_at.filter(|due| *due <= self.promoted) {
            self.unseen = Some(self.unseen.map_or(due, |unseen| unseen.min(due)));
        }
    }

    /// A batch that looked at time `now` has committed: what was ready by then has been seen.
    pub(super) fn seen(&mut self, now: Time) {
        self.promote(now);
        self.unseen = None;
    }

    pub(super) fn next_wake(&self) -> Option<Time> {
        let alarm = self.alarms.first().map(|(at, _)| *at);
        let due = self.delayed.first().map(|delayed| delayed.due);
        [alarm, due, self.unseen].into_iter().flatten().min()
    }

    pub(super) fn shortest_lease(&self) -> Option<Span> {
        self.leases.first_key_value().map(|(length, _)| *length)
    }

    /// The heads of a want's lanes, merged by priority and age, without those already taken.
    pub(super) fn pick(&self, want: &Want, taken: &Ids) -> Vec<TaskId> {
        let mut lanes: Vec<_> =
            self.wanted_lanes(want).map(|lane| lane.ready.iter().peekable()).collect();
        let heads = lanes.iter_mut().enumerate();
        let mut heads: BinaryHeap<_> =
            heads.filter_map(|(n, lane)| lane.peek().map(|place| Reverse((**place, n)))).collect();
        let mut picked = Vec::new();
        while picked.len() < want.max + usize::from(faultpoint::mutant(17))
            && let Some(Reverse((place, n))) = heads.pop()
        {
            lanes[n].next();
            heads.extend(lanes[n].peek().map(|place| Reverse((**place, n))));
            if !taken.contains(&place.id()) {
                picked.push(place.id());
            }
        }
        picked
    }

    fn wanted_lanes<'a>(&'a self, want: &'a Want) -> impl Iterator<Item = &'a Lane> {
        let queues = self.book.get(&want.scope);
        let mut names: Vec<&Name> = want.queues.iter().collect();
        names.sort();
        names.dedup();
        let kinds = names.into_iter().filter_map(move |queue| queues?.get(queue));
        let ids = kinds
            .flat_map(|kinds| kinds.iter())
            .filter(|(kind, _)| want.kinds.as_ref().is_none_or(|wanted| wanted.contains(kind)));
        ids.map(|(_, id)| &self.lanes[id.0 as usize]).filter(|lane| !lane.ready.is_empty())
    }

    pub(super) fn polled(&self, poll: &PollRef) -> Vec<TaskId> {
        self.polls.get(poll).map_or_else(Vec::new, |tasks| tasks.iter().copied().collect())
    }

    pub(super) fn due(&self, now: Time, limit: usize) -> Vec<TaskId> {
        let come = self.alarms.iter().take_while(|(at, _)| at.has_come(now));
        come.take(limit).map(|(_, id)| *id).collect()
    }

    pub(super) fn running(&self, after: Option<TaskId>, limit: usize) -> Vec<TaskId> {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = after.map_or(Unbounded, Excluded);
        self.running.range((from, Unbounded)).take(limit).copied().collect()
    }
}
