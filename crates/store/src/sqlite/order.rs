//! The order of live tasks, in memory: what is ready, what becomes ready, what time will change.
//!
//! Everything here is derived from the `live` table and rebuilt from it, so it holds no truth of its
//! own, only positions. No rule is known here: a task's place follows from `claimable_at` and
//! `wakes_at`, which the rules computed.
//!
//! Invariant: a waiting task is in its lane when its time had come at `promoted`, else in `delayed`;
//! a task is in `alarms` exactly while it has a `wakes_at`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use verdict::{Span, Task, TaskId, Time};

use super::lanes::{LaneId, Lanes, Place};
use crate::row::PollRef;

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

/// A task that is not ready yet. Thirty-six bytes: instant, priority and id, lane.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Delayed {
    due: Time,
    place: Place,
    lane: LaneId,
}

pub(super) struct Order {
    pub(super) lanes: Lanes,
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
            lanes: Lanes::default(),
            delayed: BTreeSet::new(),
            alarms: BTreeSet::new(),
            running: BTreeSet::new(),
            leases: BTreeMap::new(),
            polls: HashMap::new(),
            promoted: Time::from_millis(i64::MIN),
            unseen: None,
        }
    }

    pub(super) fn insert(&mut self, marks: &Marks) {
        self.lanes.enter(marks.lane);
        if let Some(due) = marks.claimable_at {
            if due <= self.promoted || faultpoint::mutant(12) {
                self.lanes.insert(marks.lane, marks.place());
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
                self.lanes.remove(marks.lane, marks.place())
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
        self.lanes.leave(marks.lane);
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

    /// Moves what has become ready by `now` into its lane.
    pub(super) fn promote(&mut self, now: Time) {
        while let Some(first) = self.delayed.first().filter(|first| first.due <= now).copied() {
            self.delayed.remove(&first);
            self.lanes.insert(first.lane, first.place);
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
        self.lanes.trim();
    }

    pub(super) fn next_wake(&self) -> Option<Time> {
        let alarm = self.alarms.first().map(|(at, _)| *at);
        let due = self.delayed.first().map(|delayed| delayed.due);
        [alarm, due, self.unseen].into_iter().flatten().min()
    }

    pub(super) fn shortest_lease(&self) -> Option<Span> {
        self.leases.first_key_value().map(|(length, _)| *length)
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
