//! Flow keys: at most so many tasks with the same key are active at once.
//!
//! A task may name one key with a limit. A *slot* of the key belongs to the task's lease: it is taken by the grant and
//! free again with the lease, however that ends (report, suspension, release, expiry, an undelivered grant). So a task
//! that waits for its child holds no slot that the child could need. [`Slots`] is one key as a value: who holds a slot,
//! which tasks are *offered* to polls, and which are *parked* until a slot is free.
//!
//! Parked tasks are outside the ready order, so that a full key costs others nothing. Tasks of one key may wait in
//! several lines (a line is what a poll can take as a whole: one kind of one queue), and a line that nobody polls must
//! not keep a free slot from the others. Therefore each line offers as many tasks as slots are free, and the first poll
//! that comes takes the slot; what no longer fits is parked again.
//!
//! A key has one limit while a task with it lives, and another one is refused where it is submitted. Only a child that was
//! asked for before, a coordinator that did not see the other task yet, or an operator who changed the limit of a queue or
//! kind can bring a second limit; then the smallest one that lives counts, so that nothing depends on an order.
//!
//! Nothing here reads a clock or a store. Whether a task is claimable at all (due, not cancelled, its queue not paused)
//! is decided elsewhere; only claimable tasks join a line.
//!
//! Invariants:
//! - a grant never makes more holders than the limit;
//! - with `free` slots, the first `free` tasks of each line, by priority and then age, are offered, and no others;
//! - every task that joined and did not leave is in exactly one place.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::event::Subject;
use crate::id::{Name, TaskId};

/// The largest limit of a key. Each line offers up to this many tasks, and each holder is kept in memory.
pub const LIMIT_MAX: u32 = 10_000;

/// The key that a task was submitted with, in the scope of the task.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FlowKey {
    pub name: Name,
    /// How many tasks with this key may be leased at once. From 1 to [`LIMIT_MAX`].
    pub limit: u32,
}

/// What the key of a queue begins with whose runs the operator limits, and that of a kind. Clients cannot use such keys.
pub const OF_QUEUE: &str = "queue:";
pub const OF_KIND: &str = "kind:";

impl FlowKey {
    /// The key of all runs of a queue that name none of their own.
    pub fn of_queue(queue: &str, limit: u32) -> Self {
        Self { name: Name::from(format!("{OF_QUEUE}{queue}")), limit }
    }

    /// The same for a kind.
    pub fn of_kind(kind: &str, limit: u32) -> Self {
        Self { name: Name::from(format!("{OF_KIND}{kind}")), limit }
    }

    /// Whether an operator gave the task its key. Then another limit is a change of the configuration and no mistake of
    /// a client, who could not avoid it.
    pub fn is_configured(&self) -> bool {
        let name = self.name.as_str();
        name.starts_with(OF_QUEUE) || name.starts_with(OF_KIND)
    }
}

/// What a decision needs to know of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyUse {
    /// The smallest limit of the tasks that have not ended; usually all of them have the same.
    pub limit: u32,
    /// How many of them are leased.
    pub held: u32,
}

impl KeyUse {
    /// Whether one more task may be leased.
    pub const fn has_room(self) -> bool {
        self.held < self.limit
    }

    /// Whether a task with this limit may join the key. A key whose tasks have all ended takes any limit.
    pub const fn accepts(self, limit: u32) -> bool {
        self.limit == limit
    }
}

/// The keys of one scope that a batch looked up, as far as it has decided. Keys that it did not look up are not here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowUses(BTreeMap<Name, Option<KeyUse>>);

impl FlowUses {
    /// A key as the store knows it; `None` if no living task has it. Replaces what was known before.
    pub fn put(&mut self, name: Name, in_use: Option<KeyUse>) {
        self.0.insert(name, in_use);
    }

    /// `None` for a key that no living task has.
    pub fn get(&self, name: &Name) -> Option<KeyUse> {
        self.0.get(name).copied().flatten()
    }

    /// Follows a decision about a task: its slot is taken or free, or its key has one more task. That the last task of a
    /// key has ended is not seen here: the store knows it after the commit.
    pub fn follow(&mut self, was_leased: bool, after: &Subject) {
        let Some(FlowKey { name, limit }) = flow_of(after) else { return };
        let Some(known) = self.0.get_mut(name) else { return };
        let is_leased = after.live().is_some_and(|task| task.lease().is_some());
        let in_use = known.get_or_insert(KeyUse { limit: *limit, held: 0 });
        if after.live().is_some() {
            in_use.limit = in_use.limit.min(*limit);
        }
        match (was_leased, is_leased) {
            (false, true) => in_use.held = in_use.held.saturating_add(1),
            (true, false) => in_use.held = in_use.held.saturating_sub(1),
            (true, true) | (false, false) => {}
        }
    }
}

/// The key of a task, whether or not it has ended.
pub fn flow_of(subject: &Subject) -> Option<&FlowKey> {
    let run = match subject {
        Subject::Absent => return None,
        Subject::Live(task) => &task.run,
        Subject::Done(done) => &done.run,
    };
    run.as_ref()?.flow.as_deref()
}

/// The order in a line: priority, larger first, then age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    urgency: Reverse<i32>,
    task: TaskId,
}

impl Position {
    pub const fn new(priority: i32, task: TaskId) -> Self {
        Self { urgency: Reverse(priority), task }
    }

    pub const fn priority(self) -> i32 {
        self.urgency.0
    }

    pub const fn task(self) -> TaskId {
        self.task
    }
}

/// Where a claimable task with a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// In the ready order: a poll may take it.
    Offered,
    /// Outside of it, until a slot is free.
    Parked,
}

/// A task that changed its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move<L> {
    pub line: L,
    pub position: Position,
    pub to: Place,
}

/// The slots of one key, and the tasks that want one. `L` names a line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Slots<L> {
    /// How many tasks that have not ended name each limit: one limit, but for the cases above.
    limits: BTreeMap<u32, usize>,
    holders: BTreeSet<TaskId>,
    lines: BTreeMap<L, Line>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Line {
    offered: BTreeSet<Position>,
    parked: BTreeSet<Position>,
}

impl<L> Default for Slots<L> {
    fn default() -> Self {
        Self { limits: BTreeMap::new(), holders: BTreeSet::new(), lines: BTreeMap::new() }
    }
}

impl<L: Copy + Ord> Slots<L> {
    /// A task with the key begins to live, with its limit.
    pub fn enter(&mut self, limit: u32) -> Vec<Move<L>> {
        let before = self.limit();
        *self.limits.entry(limit).or_default() += 1;
        if self.limit() == before { Vec::new() } else { self.refill() }
    }

    /// A task with the key has ended. It holds no slot and is in no line any more.
    pub fn exit(&mut self, limit: u32) -> Vec<Move<L>> {
        if let Some(count) = self.limits.get_mut(&limit) {
            *count -= 1;
            if *count == 0 {
                self.limits.remove(&limit);
                return self.refill();
            }
        }
        Vec::new()
    }

    fn limit(&self) -> u32 {
        self.limits.first_key_value().map_or(0, |(limit, _)| *limit)
    }

    /// What decisions need of it. The number of holders cannot exceed a `u32`, since each has a task id of its own
    /// and grants stop at the limit.
    pub fn in_use(&self) -> KeyUse {
        KeyUse { limit: self.limit(), held: u32::try_from(self.holders.len()).unwrap_or(u32::MAX) }
    }

    /// The tasks that hold a slot, the oldest first.
    pub fn holders(&self) -> impl Iterator<Item = TaskId> {
        self.holders.iter().copied()
    }

    /// How many tasks are parked.
    pub fn parked(&self) -> usize {
        self.lines.values().map(|line| line.parked.len()).sum()
    }

    /// Whether every task with the key has ended: the key can be forgotten.
    pub fn is_unused(&self) -> bool {
        self.limits.is_empty() && self.holders.is_empty() && self.lines.is_empty()
    }

    /// A claimable task joins its line. Returns the tasks whose place changed; a task that is parked at once is not
    /// among them, because it never was in the ready order.
    pub fn join(&mut self, line: L, position: Position) -> Vec<Move<L>> {
        let free = self.free();
        let tasks = self.lines.entry(line).or_default();
        match tasks.offered.last().copied() {
            _ if tasks.offered.len() < free => {
                tasks.offered.insert(position);
                vec![Move { line, position, to: Place::Offered }]
            }
            Some(last) if position < last => {
                tasks.offered.remove(&last);
                tasks.parked.insert(last);
                tasks.offered.insert(position);
                let parked = Move { line, position: last, to: Place::Parked };
                vec![parked, Move { line, position, to: Place::Offered }]
            }
            _ => {
                tasks.parked.insert(position);
                Vec::new()
            }
        }
    }

    /// A task leaves its line: it is granted, or no longer claimable. Returns where it was, and the task that is
    /// offered in its place, if any.
    pub fn leave(&mut self, line: L, position: Position) -> (Option<Place>, Vec<Move<L>>) {
        let free = self.free();
        let Some(tasks) = self.lines.get_mut(&line) else { return (None, Vec::new()) };
        let was = tasks.remove(position);
        let moves = tasks.fill(line, free);
        if tasks.is_empty() {
            self.lines.remove(&line);
        }
        (was, moves)
    }

    /// A task takes a slot. Whether there is one, the rules asked before ([`KeyUse::has_room`]).
    pub fn hold(&mut self, task: TaskId) -> Vec<Move<L>> {
        self.holders.insert(task);
        self.refill()
    }

    /// A task gives its slot back. One that holds none changes nothing.
    pub fn release(&mut self, task: TaskId) -> Vec<Move<L>> {
        match self.holders.remove(&task) {
            true => self.refill(),
            false => Vec::new(),
        }
    }

    fn free(&self) -> usize {
        (self.limit() as usize).saturating_sub(self.holders.len())
    }

    fn refill(&mut self) -> Vec<Move<L>> {
        let free = self.free();
        self.lines.iter_mut().flat_map(|(line, tasks)| tasks.fill(*line, free)).collect()
    }
}

impl Line {
    fn is_empty(&self) -> bool {
        self.offered.is_empty() && self.parked.is_empty()
    }

    fn remove(&mut self, position: Position) -> Option<Place> {
        if self.offered.remove(&position) {
            return Some(Place::Offered);
        }
        self.parked.remove(&position).then_some(Place::Parked)
    }

    /// Offers the first `free` tasks and parks the others. Everything parked comes after everything offered, so only
    /// the ends of both sets change.
    fn fill<L: Copy>(&mut self, line: L, free: usize) -> Vec<Move<L>> {
        let mut moves = Vec::new();
        while self.offered.len() > free
            && let Some(position) = self.offered.pop_last()
        {
            self.parked.insert(position);
            moves.push(Move { line, position, to: Place::Parked });
        }
        while self.offered.len() < free
            && let Some(position) = self.parked.pop_first()
        {
            self.offered.insert(position);
            moves.push(Move { line, position, to: Place::Offered });
        }
        moves
    }
}
