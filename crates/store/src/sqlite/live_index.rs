//! The order of live tasks, in memory: which are ready, which become ready when, which time will change.
//!
//! Everything here is derived from the `live` table and rebuilt from it; the table is the truth. No rule
//! is known here: a task's position follows from `claimable_at` and `wakes_at`, which the rules computed.
//!
//! Invariant: a waiting task is in its kind queue if its time had come at `promoted`, else in `delayed`, but one that does
//! not fit into its flow key is parked instead ([`super::flow_index`]); a task is in `alarms` exactly while it has a
//! `wakes_at`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use verdict::flow::{KeyUse, Move, Place, Position};
use verdict::{Name, Scope, Span, Task, TaskId, Time};

use super::flow_index::{FlowIndex, IndexedFlow};
use super::ready_index::{KindQueueId, QueuePosition, ReadyIndex};
use crate::row::{FlowRef, PollRef};

/// What the index needs to know of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IndexedTask {
    pub(super) id: TaskId,
    pub(super) kind_queue: KindQueueId,
    pub(super) priority: i32,
    pub(super) claimable_at: Option<Time>,
    pub(super) wakes_at: Option<Time>,
    /// Length of the lease, while there is one.
    pub(super) lease: Option<Span>,
    pub(super) poll: Option<PollRef>,
    /// Boxed: most tasks have none.
    pub(super) flow: Option<Box<IndexedFlow>>,
}

impl IndexedTask {
    pub(super) fn of(task: &Task, kind_queue: KindQueueId) -> Self {
        Self {
            id: task.id,
            kind_queue,
            priority: task.priority,
            claimable_at: task.claimable_at(),
            wakes_at: task
                .wakes_at()
                .filter(|_| !(faultpoint::mutant(4) && task.lease().is_some())),
            lease: task.lease().map(|_| task.policy.shortest_silence()),
            poll: task.lease().and_then(|lease| {
                let poll = lease.poll.clone()?;
                Some(PollRef { scope: task.scope.clone(), owner: lease.owner.clone(), poll })
            }),
            flow: IndexedFlow::of(task),
        }
    }

    fn position(&self) -> QueuePosition {
        QueuePosition::new(self.priority, self.id)
    }
}

/// A task that is not ready yet. Thirty-six bytes: instant, priority and id, kind queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Delayed {
    due: Time,
    position: QueuePosition,
    kind_queue: KindQueueId,
}

pub(super) struct LiveIndex {
    pub(super) ready: ReadyIndex,
    delayed: BTreeSet<Delayed>,
    /// The keys of the delayed tasks that have one.
    delayed_flows: HashMap<TaskId, Box<IndexedFlow>>,
    flows: FlowIndex,
    alarms: BTreeSet<(Time, TaskId)>,
    running: BTreeSet<TaskId>,
    leases: BTreeMap<Span, usize>,
    polls: HashMap<PollRef, BTreeSet<TaskId>>,
    promoted: Time,
    /// The earliest instant among tasks that became ready since the last committed batch read the index.
    unseen: Option<Time>,
}

impl LiveIndex {
    pub(super) fn new() -> Self {
        Self {
            ready: ReadyIndex::default(),
            delayed: BTreeSet::new(),
            delayed_flows: HashMap::new(),
            flows: FlowIndex::default(),
            alarms: BTreeSet::new(),
            running: BTreeSet::new(),
            leases: BTreeMap::new(),
            polls: HashMap::new(),
            promoted: Time::from_millis(i64::MIN),
            unseen: None,
        }
    }

    pub(super) fn insert(&mut self, indexed: &IndexedTask) {
        self.ready.enter(indexed.kind_queue);
        if let Some(flow) = &indexed.flow {
            let moves = self.flows.enter(flow);
            self.apply(moves);
        }
        if let Some(due) = indexed.claimable_at {
            if due <= self.promoted || faultpoint::mutant(12) {
                self.offer(indexed.kind_queue, indexed.position(), indexed.flow.as_deref());
            } else {
                self.delayed.insert(Delayed {
                    due,
                    position: indexed.position(),
                    kind_queue: indexed.kind_queue,
                });
                self.delayed_flows.extend(indexed.flow.clone().map(|flow| (indexed.id, flow)));
            }
        }
        if let Some(at) = indexed.wakes_at {
            self.alarms.insert((at, indexed.id));
        }
        if let Some(length) = indexed.lease {
            self.running.insert(indexed.id);
            *self.leases.entry(length).or_default() += 1;
        }
        if let Some(flow) = indexed.flow.as_ref().filter(|flow| flow.holds) {
            let moves = self.flows.hold(flow, indexed.id);
            self.apply(moves);
        }
        if let Some(poll) = &indexed.poll {
            self.polls.entry(poll.clone()).or_default().insert(indexed.id);
        }
    }

    pub(super) fn remove(&mut self, indexed: &IndexedTask) {
        if let Some(due) = indexed.claimable_at {
            let gone = if due <= self.promoted || faultpoint::mutant(12) {
                self.withdraw(indexed.kind_queue, indexed.position(), indexed.flow.as_deref())
            } else {
                self.delayed_flows.remove(&indexed.id);
                self.delayed.remove(&Delayed {
                    due,
                    position: indexed.position(),
                    kind_queue: indexed.kind_queue,
                })
            };
            assert!(gone, "a waiting task has exactly one place");
        }
        if let Some(at) = indexed.wakes_at {
            self.alarms.remove(&(at, indexed.id));
        }
        if let Some(length) = indexed.lease {
            self.running.remove(&indexed.id);
            self.forget_lease(length);
        }
        if let Some(flow) = indexed.flow.as_ref().filter(|flow| flow.holds) {
            let moves = self.flows.release(flow, indexed.id);
            self.apply(moves);
        }
        if let Some(poll) = &indexed.poll {
            self.forget_poll(poll, indexed.id);
        }
        if let Some(flow) = &indexed.flow {
            let moves = self.flows.exit(flow);
            self.apply(moves);
        }
        self.ready.leave(indexed.kind_queue);
    }

    /// Puts a task that is claimable now into the ready order, unless it does not fit into its key.
    fn offer(&mut self, line: KindQueueId, at: QueuePosition, flow: Option<&IndexedFlow>) {
        let Some(flow) = flow.filter(|flow| !flow.keeps) else {
            return self.ready.insert(line, at);
        };
        let moves = self.flows.join(flow, line, in_line(at));
        self.apply(moves);
    }

    /// Takes a task out of the ready order, or from where it is parked. Returns whether it was in one of them.
    fn withdraw(
        &mut self,
        line: KindQueueId,
        at: QueuePosition,
        flow: Option<&IndexedFlow>,
    ) -> bool {
        let Some(flow) = flow.filter(|flow| !flow.keeps) else {
            return self.ready.remove(line, at);
        };
        let (was, moves) = self.flows.leave(flow, line, in_line(at));
        let gone = match was {
            Some(Place::Offered) => self.ready.remove(line, at),
            Some(Place::Parked) => true,
            None => false,
        };
        self.apply(moves);
        gone
    }

    /// Tasks of a flow key come into the ready order and leave it.
    fn apply(&mut self, moves: Vec<Move<KindQueueId>>) {
        for Move { line, position, to } in moves {
            let at = QueuePosition::new(position.priority(), position.task());
            match to {
                Place::Offered => self.ready.insert(line, at),
                Place::Parked => {
                    let was_offered = self.ready.remove(line, at);
                    debug_assert!(was_offered, "only an offered task is parked");
                }
            }
        }
    }

    /// A task with a flow key that has a rate was granted, and its start counts until then.
    pub(super) fn start(&mut self, flow: &FlowRef, at: Time, until: Time) {
        let moves = self.flows.start(flow, at, until);
        self.apply(moves);
    }

    /// A start was rolled back.
    pub(super) fn take_back(&mut self, flow: &FlowRef, at: Time) {
        let moves = self.flows.take_back(flow, at);
        self.apply(moves);
    }

    /// What decisions need of a flow key; `None` if no live task has it.
    pub(super) fn flow_use(&self, scope: &Scope, key: &Name) -> Option<KeyUse> {
        self.flows.in_use(scope, key)
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

    /// Moves tasks that are ready by `now` into their kind queues.
    pub(super) fn promote(&mut self, now: Time) {
        self.flows.advance(now);
        while let Some((at, moves)) = self.flows.next_opened() {
            self.apply(moves);
            self.unseen = Some(self.unseen.map_or(at, |unseen| unseen.min(at)));
        }
        while let Some(first) = self.delayed.first().filter(|first| first.due <= now).copied() {
            self.delayed.remove(&first);
            let flow = self.delayed_flows.remove(&first.position.id());
            self.offer(first.kind_queue, first.position, flow.as_deref());
            self.unseen = Some(self.unseen.map_or(first.due, |unseen| unseen.min(first.due)));
        }
        self.promoted = self.promoted.max(now);
    }

    /// Records a task that no batch has seen yet: if it is ready, a batch should run soon.
    pub(super) fn note_unseen(&mut self, indexed: &IndexedTask) {
        if let Some(due) = indexed.claimable_at.filter(|due| *due <= self.promoted) {
            self.unseen = Some(self.unseen.map_or(due, |unseen| unseen.min(due)));
        }
    }

    /// Records that a batch with the time `now` has committed: tasks that were ready by then have been seen.
    pub(super) fn mark_seen(&mut self, now: Time) {
        self.promote(now);
        self.unseen = None;
        self.ready.trim();
    }

    pub(super) fn next_wake(&self) -> Option<Time> {
        let alarm = self.alarms.first().map(|(at, _)| *at);
        let due = self.delayed.first().map(|delayed| delayed.due);
        [alarm, due, self.flows.next_wake(), self.unseen].into_iter().flatten().min()
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

/// The same position, as the rules of flow keys write it.
fn in_line(at: QueuePosition) -> Position {
    Position::new(at.priority(), at.id())
}
